"""Define the axes of client and server: build, access, server configuration, clients and options."""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from vcsbench.axes.axis import Axis, Environment
from vcsbench.config.configuration import ON_PATH, Build
from vcsbench.config.models import unknown_name
from vcsbench.errors import UserError
from vcsbench.machine import Machine, subversion_version
from vcsbench.processes import closed_folder
from vcsbench.programs import (
    DEFAULTS,
    MODULE,
    PROGRAMS,
    SUBVERSION,
    Programs,
    binaries,
    linked_digest,
    missing_server_file,
    path_of,
    programs_in,
    read_arguments,
    server_file,
    server_files,
    server_files_digest,
)
from vcsbench.records import Access, Recipe
from vcsbench.storages import guest
from vcsbench.storages.cell_filesystem import REFLINK_KINDS

CONDA = ("micromamba", "mamba", "conda", "pixi")
BUILD_AXIS = "build"

SERVERS = Path("config", "servers")
SERVER_AXIS = "config"
PUBLISHED = {"slow": 0, "medium": 1, "fast": 2}

# `scheme` begins URLs, `files` are in config/servers/<config>, `server` is a key of SERVER_KINDS, "" if
# the client reads the repository itself.
ACCESS: dict[str, Access] = {
    "http": {"scheme": "http", "files": ["httpd.conf", "client"], "server": "httpd"},
    "svn": {"scheme": "svn", "files": ["svnserve.args", "client"], "server": "svnserve"},
    "file": {"scheme": "file", "files": ["client"], "server": ""},
    "": {"scheme": "", "files": ["svnadmin.args", "load.args"], "server": ""},
}
LOOPBACK = """Client and server run on one machine, over loopback, without https, authentication or
path-based authorisation. svn+ssh, commit and blame are not measured."""

MOST_CLIENTS, HIGHEST_LEVEL = 256, 9
LZ4 = """Wire compression: since Subversion 1.10 svnserve sends LZ4 at every level but 0 to new clients, so
`on` (level 1) and all levels above it are equal. The published `on` was zlib."""
# The keys of the recipe by value.
NUMBERS_OF_CLIENTS: dict[str, Recipe] = {str(n): {"clients": n} for n in range(1, MOST_CLIENTS + 1)}
LEVELS = {"off": "0", "on": "1", **{str(n): str(n) for n in range(HIGHEST_LEVEL + 1)}}
COMPRESSION: dict[str, Recipe] = {
    value: {"server_options": ["--compression", level]} for value, level in LEVELS.items()
}
PRISTINES: dict[str, Recipe] = {
    "stored": {"pristine_options": []},
    "none": {"pristine_options": ["--store-pristine=no"]},
}
LOCKING: dict[str, Recipe] = {
    "default": {"client_options": [], "locking": "default"},
    "exclusive": {
        "client_options": ["--config-option", "config:working-copy:exclusive-locking=yes"],
        "locking": "exclusive",
    },
}
NO_PRISTINES_SINCE = (1, 15)
DELAY = re.compile(r"0|[1-9][0-9]*(us|ms)")
REFLINK_SOURCE = Path("workflow", "native", "svn_reflink.c")
REFLINK_LIBRARY = Path(".tools", "lib", "svn_reflink.so")
REFLINK_STATISTICS = "SVN_REFLINK_STATS"
NO_CLONES = """Subversion's client does not clone files by itself: with `reflink: on` a preloaded
library has it clone each working file that equals its pristine. It shows what such a client would gain."""


# Option or directive, and the bytes of its unit.
CACHE_SIZES = {
    "svnserve": (re.compile(r"(?<!\S)(?:-M|--memory-cache-size)\s+(\d{1,15})(?!\S)"), 1 << 20),
    "httpd": (re.compile(r"^SVNInMemoryCacheSize\s+(\d{1,15})(?!\d)", re.MULTILINE), 1 << 10),
}


@cache
def _version(programs: Programs, name: str) -> str:
    return subversion_version(programs.find(name), programs.environment())


def _build_keys(value: str, env: Environment) -> Recipe:
    build = _build(value, env)
    client, server = build.client._asdict(), build.server._asdict()
    return {
        "build": {"name": value, "client": client, "server": server},
        "environments": list(build.environments),
    }


def _why_no_build(value: str, draft: Recipe, env: Environment) -> str:
    if lacking := why_lacking(
        _build(value, env), env.machine, draft["argv"], draft["access"]["server"]
    ):
        return lacking
    need = next((need for need in draft.get("needs", []) if not path_of(need)), "")
    if need.startswith(MODULE):
        return f"{need.removeprefix(MODULE)} is not installed in {sys.executable}"
    remedy = "put it on the PATH; set-up installs Debian's packages"
    return f"{need} is not installed ({remedy})" if need else ""


def why_lacking(build: Build, machine: Machine, argv: str, server: str) -> str:
    """Return why a cell cannot be measured with a build, in a clause; "" if it can.

    `argv` is the template of the cell's command, `server` the kind of its server.
    """
    for side in (build.client, build.server):
        file = build.environments.get(os.path.basename(side.prefix))
        if file and _is_to_be_made(side) and not any(map(shutil.which, CONDA)):
            return f"none of {', '.join(CONDA)} is installed, which {file} needs"
    lacking = ""
    if server == "httpd":
        lacking = _why_no_httpd(build, machine)
    elif server:
        lacking = _why_no_program(build.server, machine, server)
    for program in programs_in(argv):
        side = build.client if program in SUBVERSION else ON_PATH.client
        lacking = lacking or _why_no_program(side, machine, program)
    prefix = build.server.prefix
    if not lacking and server and prefix and (folder := closed_folder(Path(prefix))):
        return (
            f"the servers run as nobody, who cannot enter {folder}; install the build where everybody can, "
            f"or chmod o+x it"
        )
    return lacking


def _is_to_be_made(programs: Programs) -> bool:
    return bool(programs.prefix) and not os.path.isdir(programs.prefix)


def _why_no_program(programs: Programs, machine: Machine, name: str) -> str:
    if _is_to_be_made(programs):
        return ""
    if programs.prefix and (path := programs.find(name)):
        runs = not name.startswith("svn") or _version(programs, name)
        return "" if runs else f"{path} does not run on this machine: it prints no version"
    if programs.prefix:
        return f"{programs.prefix} has no {name} in {' or '.join(PROGRAMS)}"
    if machine.has(name):
        return ""
    subversion = "Debian: subversion; conda: subversion"
    hint = subversion if name.startswith("svn") else "put it on the PATH"
    return f"{name} is not installed ({hint})"


def _why_no_httpd(build: Build, machine: Machine) -> str:
    programs = build.server
    if build.has_made(programs) if programs.prefix else machine.deployed:
        return "conda has no httpd with mod_dav_svn"
    if not programs.prefix:
        missing = "httpd with mod_dav_svn is not installed"
        return f"{missing} (Debian: libapache2-mod-svn; conda has no package)" * (
            not programs.httpd
        )
    if not programs.mod_dav_svn:
        return f"{programs.prefix} has no mod_dav_svn.so in libexec, modules or lib/apache2/modules"
    if not programs.httpd or not programs.httpd_modules:
        return f"{programs.prefix} has a mod_dav_svn, but no httpd, nor has this machine (Debian: apache2)"
    return ""


def binaries_of(axes: Mapping[str, str], draft: Recipe, env: Environment) -> dict[str, str]:
    """Return digests of the client's and the server's programs and of their Subversion libraries."""
    build = _build(axes.get(BUILD_AXIS, ""), env)
    clients, kind = _digested_programs(build, draft, env)
    return {**binaries(build.client, clients, build.server, kind)}


def linked_of(axes: Mapping[str, str], draft: Recipe, env: Environment) -> dict[str, str]:
    """Return digests of all libraries of client and server: with another libc, it is another measurement."""
    build = _build(axes.get(BUILD_AXIS, ""), env)
    clients, kind = _digested_programs(build, draft, env)
    linked = {"client": linked_digest(build.client, clients)}
    if kind:
        linked["server"] = linked_digest(build.server, (kind,))
    return linked


def _digested_programs(
    build: Build, draft: Recipe, env: Environment
) -> tuple[tuple[str, ...], str]:
    """Return the programs of a cell's client, and the kind of its server, that get digests.

    A conda environment has none: its folder's name has a digest of its file, and Snakemake measures
    again after it deploys one.
    """

    def has_digests(side: Programs) -> bool:
        return not build.has_made(side) if side.prefix else not env.machine.deployed

    clients = programs_in(draft["argv"]) if has_digests(build.client) else ()
    kind = draft["access"]["server"] if has_digests(build.server) else ""
    return (*clients, *draft.get("needs", [])), kind


def _build(value: str, env: Environment) -> Build:
    if value and value not in env.builds:
        raise UserError(
            f"{env.config.where(['builds'])}: `builds.{value}` is missing, which the grid measures. Add "
            f"its place, or use in the grid only {', '.join(env.builds)}."
        )
    return env.builds[value] if value else ON_PATH


def server_names(root: Path) -> list[str]:
    names = [path.name for path in (root / SERVERS).iterdir() if path.is_dir()]
    return sorted(names, key=lambda name: (PUBLISHED.get(name, len(names)), name))


def server_settings(root: Path, name: str) -> dict[str, str]:
    """Return svnserve's command and httpd's directives; "" for no directive."""

    def lines_of(file: str) -> list[str]:
        path = server_file(root / SERVERS / name, file)
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return [used for line in lines if (used := line.partition("#")[0].strip())]

    svnserve = " ".join(["svnserve -d -r ROOT", *lines_of("svnserve.args")])
    return {"svnserve": svnserve, "httpd": "\n".join(lines_of("httpd.conf"))}


def cache_bytes(server: str, settings: str) -> list[int]:
    """Return the sizes of caches in server_settings()."""
    pattern, unit = CACHE_SIZES[server]
    return [int(number) * unit for number in pattern.findall(settings)]


@cache
def _check_files(folder: Path) -> None:
    """Raise UserError for a file of a server configuration that cannot be used.

    A configuration has the files in its folder, and those of the defaults that it lacks.
    """
    defaults = folder.parent / DEFAULTS
    names: list[str] = []
    for access in ACCESS.values():
        for name in access["files"]:
            if name not in names:
                names.append(name)
    for place in (folder, defaults):
        for path in place.iterdir():
            # Notes, hidden files and backups of editors are allowed next to the files that programs read.
            is_note = path.name.lower().startswith((".", "readme")) or path.name.endswith("~")
            unknown = unknown_name([path.name], names)
            if unknown and not is_note:
                raise UserError(f"{path}: no program reads the file {unknown}")
    # It raises an error for a file that cannot be read.
    server_files_digest(folder, names)
    existing = server_files(folder, names)
    for name in names:
        # `client` is a folder of files.
        if not any(file == name or file.startswith(f"{name}/") for file in existing):
            raise missing_server_file(defaults / name)
    for path in existing.values():
        if path.suffix == ".args":
            read_arguments(path)


def _server_keys(value: str, env: Environment) -> Recipe:
    if value and value not in env.servers:
        raise UserError(
            f"{SERVERS / value}: no such server configuration. Use one of {', '.join(env.servers)}."
        )
    if value:
        _check_files(env.root / SERVERS / value)
    return {"server_folder": str(SERVERS / value) if value else ""}


def _access_keys(value: str, env: Environment) -> Recipe:
    access, server = ACCESS[value], env.config.settings.server
    if not server or not value:
        return {"access": access}
    return {"access": {**access, "server": ""}, "remote": {"host": server.host, "url": server.url}}


def _why_no_access(value: str, draft: Recipe, env: Environment) -> str:
    server, scheme = draft.get("remote"), draft["access"]["scheme"]
    if not server or server["url"].startswith(f"{scheme}://"):
        return ""
    return f"the server on {server['host']} is not reached over {scheme}"


def _choice(name: str, keys_of: Mapping[str, Recipe], expected: str, **functions: Any) -> Axis:
    """Return an axis with the given values only, with the keys of the recipe of each."""
    return Axis(
        name,
        why_invalid=lambda value: "" if value in keys_of else f"is no value of it. Use {expected}",
        recipe_keys=lambda value, env: keys_of[value] if value else {},
        **functions,
    )


def _why_no_delay(value: str, draft: Recipe, env: Environment) -> str:
    if "delay" not in draft:
        return ""
    if "guest" not in draft.get("filesystem", {}):
        return "a delay is added in a guest only, not before a server of yours"
    return guest.why_no_delay(env.root)


def _why_no_pristines(value: str, draft: Recipe, env: Environment) -> str:
    if value != "none":
        return ""
    version = _version(Programs(**draft["build"]["client"]), "svn")
    if version and tuple(map(int, version.split(".")[:2])) >= NO_PRISTINES_SINCE:
        return ""
    since = ".".join(map(str, NO_PRISTINES_SINCE))
    return f"svn is {version or 'not there'}, and can do without pristines since {since}"


def reflink_library(root: Path) -> Path:
    """Return the library's path. All nodes of a cluster have the same one, because their tools are a link."""
    library = root / REFLINK_LIBRARY
    return library.resolve() if (root / REFLINK_LIBRARY.parts[0]).is_symlink() else library


def _reflink_keys(value: str, env: Environment) -> Recipe:
    if value != "on":
        return {}
    library, source = str(reflink_library(env.root)), (env.root / REFLINK_SOURCE).read_bytes()
    return {
        "environment": {"LD_PRELOAD": library, REFLINK_STATISTICS: "{run}/reflinks"},
        "reflink": hashlib.sha256(source).hexdigest()[:16],
    }


def _why_no_reflink(value: str, draft: Recipe, env: Environment) -> str:
    if value != "on":
        return ""
    if draft.get("pristine_options"):
        return "a working copy without pristines has nothing to clone"
    made = draft.get("filesystem", {}).get("make")
    if made and made not in REFLINK_KINDS:
        return f"{made} has no reflinks"
    if not (env.root / REFLINK_LIBRARY).exists():
        return "the library that clones files was not built (set-up builds it where there is gcc)"
    return ""


AXES = (
    Axis(
        BUILD_AXIS,
        values_by_word=lambda env: {"builds": list(env.builds)},
        source="`builds`",
        needs_server=True,
        recipe_keys=_build_keys,
        why_not=_why_no_build,
    ),
    Axis(
        SERVER_AXIS,
        values_by_word=lambda env: {"servers": env.servers},
        source=str(SERVERS),
        needs_server=True,
        recipe_keys=_server_keys,
    ),
    Axis(
        "ra",
        why_invalid=lambda value: "" if value in ACCESS else "is no access. Use http, svn or file",
        recipe_keys=_access_keys,
        why_not=_why_no_access,
        limits=lambda values, guests: [LOOPBACK] if {*values} - {"file"} else [],
    ),
    _choice("clients", NUMBERS_OF_CLIENTS, f"a number from 1 to {MOST_CLIENTS}"),
    # http compresses by other means, and over file nothing is sent.
    _choice(
        "wire_compression",
        COMPRESSION,
        f"off, on or a number from 0 to {HIGHEST_LEVEL}",
        needs_server=True,
        applies=lambda axes: axes.get("ra") == "svn",
        limits=lambda values, guests: [LZ4],
    ),
    Axis(
        "network_delay",
        why_invalid=lambda value: (
            "" if DELAY.fullmatch(value) else "is no delay. Use 0, 100us or 1ms"
        ),
        applies=lambda axes: axes.get("filesystem") in guest.FOLDERS,
        recipe_keys=lambda value, env: {"delay": value} if value not in ("", "0") else {},
        why_not=_why_no_delay,
    ),
    _choice("pristines", PRISTINES, " or ".join(PRISTINES), why_not=_why_no_pristines),
    _choice("sqlite_locking", LOCKING, " or ".join(LOCKING)),
    Axis(
        "reflink",
        why_invalid=lambda value: "" if value in ("on", "off") else "is neither on nor off",
        recipe_keys=_reflink_keys,
        why_not=_why_no_reflink,
        limits=lambda values, guests: [NO_CLONES] if "on" in values else [],
    ),
)
