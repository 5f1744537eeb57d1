"""Define the axes of the server: its configuration, and the access to it."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from vcsbench.axes.axis import Axis, Environment
from vcsbench.axes.build_axis import why_no_module
from vcsbench.axis_names import (
    ACCESS_AXIS,
    AUTHENTICATION_AXIS,
    COMMAND_AXIS,
    HOOKS_AXIS,
    LINK_AXIS,
    RULES_AXIS,
    SERVER_AXIS,
)
from vcsbench.config.models import unknown_name
from vcsbench.deployment.credentials import why_no_certificate
from vcsbench.deployment.deployed_server import ENCRYPTION_MODULES
from vcsbench.errors import UserError
from vcsbench.programs import (
    DEFAULT_SERVER,
    missing_server_file,
    read_arguments,
    server_file,
    server_files,
    server_files_digest,
)
from vcsbench.records import Access, Recipe
from vcsbench.systems import SUBVERSION, SYSTEMS, repository_system

SERVERS = Path("config", "servers")
# The input of a command that commits.
COMMITTED_INPUT = "committed_repository"
# The order in which the studies of 2014 have their server configurations. All others come later.
PUBLISHED_SERVERS = ("slow", "medium", "fast")

# The values of an axis that leave out what the rest of its values measure, and the words for that.
LEFT_OUT_WORDS = {
    AUTHENTICATION_AXIS: ("none", "authentication"),
    RULES_AXIS: ("0", "path-based authorisation"),
    HOOKS_AXIS: ("none", "hooks"),
}

# The number may follow directly (-M512) or behind "=", and words may have quotes. httpd ignores case.
SVNSERVE_CACHE = re.compile(
    r"""(?<!\S)["']?(?:-M|--memory-cache-size)["']?[\s=]*["']?(\d{1,15})["']?(?!\S)"""
)
HTTPD_CACHE = re.compile(
    r"""^\s*SVNInMemoryCacheSize\s+["']?(\d{1,15})(?!\d)""", re.MULTILINE | re.IGNORECASE
)
# Option or directive, and the bytes of its unit.
CACHE_SIZES = {"svnserve": (SVNSERVE_CACHE, 1 << 20), "httpd": (HTTPD_CACHE, 1 << 10)}


def server_names(root: Path) -> list[str]:
    """Return the names of the server configurations, the published ones first."""
    names = sorted(path.name for path in (root / SERVERS).iterdir() if path.is_dir())
    published = [name for name in PUBLISHED_SERVERS if name in names]
    return published + [name for name in names if name not in published]


def server_settings(root: Path, name: str) -> dict[str, str]:
    """Return svnserve's command line and httpd's directives of a server configuration, by its `name`.

    Example: `{"svnserve": "svnserve -d -r ROOT --threads", "httpd": "SVNCacheRevProps on"}`.
    """
    folder = root / SERVERS / name
    options = _lines_of(server_file(folder, "svnserve.args"))
    directives = _lines_of(server_file(folder, "httpd.conf"))
    return {
        "svnserve": " ".join(["svnserve -d -r ROOT", *options]),
        "httpd": "\n".join(directives),
    }


def _lines_of(path: Path) -> list[str]:
    """Return the lines of a file without comments and empty lines, [] without the file."""
    if not path.is_file():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        used = line.partition("#")[0].strip()
        if used:
            lines.append(used)
    return lines


def cache_bytes(server: str, settings: str) -> list[int]:
    """Return the sizes of caches in bytes that are set in `settings`. [] means the server's default.

    `settings` is the text from server_settings(): `svnserve -d -M 256` gives [268435456].
    """
    # svnserve's option is in MiB, and httpd's directive in KiB.
    pattern, unit = CACHE_SIZES[server]
    return [int(number) * unit for number in pattern.findall(settings)]


# Many cells have the same server configuration.
@cache
def _check_files(folder: Path) -> None:
    """Raise UserError if the server configuration in a folder, such as config/servers/fast, cannot be used.

    Files that the folder lacks come from config/servers/default. These are errors:

    - One of the two folders has a file with an unknown name.
    - A file cannot be read, or has options that cannot be parsed.
    - Both folders lack a file.
    """
    defaults = folder.parent / DEFAULT_SERVER
    # 1. Unknown names. The known ones are files and folders that programs read for an access, such as
    # httpd.conf, svnserve.args and client.
    names: list[str] = []
    for access in SUBVERSION.accesses.values():
        for name in access["files"]:
            if name not in names:
                names.append(name)
    for searched in (folder, defaults):
        for path in searched.iterdir():
            # Notes, hidden files and backups of editors are allowed next to the files that programs read.
            is_note = path.name.lower().startswith((".", "readme")) or path.name.endswith("~")
            if is_note:
                continue
            name_and_remedy = unknown_name([path.name], names)
            if name_and_remedy:
                raise UserError(f"{path}: no program reads the file {name_and_remedy}")
    # 2. Unreadable files. This call is made only for its error.
    server_files_digest(folder, names)
    # 3. Missing files. `existing` has those of both folders by their names: "httpd.conf", "client/config".
    existing = server_files(folder, names)
    for name in names:
        if not any(file == name or file.startswith(f"{name}/") for file in existing):
            raise missing_server_file(defaults / name)
    # 4. Wrong options, such as an unclosed quotation mark. This call, too, is made only for its error.
    for path in existing.values():
        if path.suffix == ".args":
            read_arguments(path)


def _server_keys(configuration: str, env: Environment) -> Recipe:
    """Return the key of a recipe for a server configuration: `{"server_folder": "config/servers/fast"}`.

    Raise UserError for a configuration that is missing or wrong (_check_files).
    """
    if not configuration:
        return {"server_folder": ""}
    folder = SERVERS / configuration
    if configuration not in env.servers:
        raise UserError(
            f"{folder}: no such server configuration. Use one of {', '.join(env.servers)}."
        )
    _check_files(env.root / folder)
    return {"server_folder": str(folder)}


def _access_keys(access_name: str, env: Environment) -> Recipe:
    """Return the keys of a cell's recipe for an access: `access`, and `remote` for a server elsewhere.

    An access is a way to reach a repository: `{"access": {"scheme": "svn", "files": [...], "server":
    "svnserve"}}`. The scheme begins the URL, and `files` are names in a server configuration. Several version
    control systems have an access such as `http`. The system of the cell is not known here, so the access is
    that of Subversion, if it has one. Later, use_system_access() puts the access of the cell's system there.
    """
    access = _all_accesses()[access_name]
    # The user's own server on another machine.
    users_server = env.config.settings.server
    # "" is the access of a command without a URL, such as svnadmin, which uses no server.
    uses_url = bool(access_name)
    if not users_server or not uses_url:
        return {"access": access}
    # The server of the user runs already, so vcsbench starts none.
    without_server: Access = {**access, "server": ""}
    return {
        "access": without_server,
        "remote": {"host": users_server.host, "url": users_server.url},
    }


def _all_accesses() -> dict[str, Access]:
    """Return the accesses of all systems by their values. The first system with a value has it."""
    accesses: dict[str, Access] = {}
    for system in SYSTEMS.values():
        for value, access in system.accesses.items():
            accesses.setdefault(value, access)
    return accesses


def use_system_access(recipe: Recipe, access_name: str) -> None:
    """Replace the access in a recipe by the access of its system: for git, `http` has another server."""
    accesses = repository_system(recipe.get("repository", {})).accesses
    # With `remote`, the server runs on another machine already, so the recipe names no kind to start.
    if access_name in accesses and "remote" not in recipe:
        recipe["access"] = accesses[access_name]


def _why_no_such_access(access_name: str) -> str:
    """Return why no system has an access, as the end of a sentence; "" if one has it."""
    if access_name in _all_accesses():
        return ""
    uses = []
    for system in SYSTEMS.values():
        names = [name for name in system.accesses if name]
        uses.append(f"{', '.join(names)} for {system.title}")
    return f"is no access. Use {'; '.join(uses)}"


def _why_no_access(access_name: str, recipe: Recipe, env: Environment) -> str:
    """Return why a cell cannot have its access, such as `https`, in a clause; "" if it can.

    `access_name` is "" for a cell that uses no URL.
    """
    system = repository_system(recipe.get("repository", {}))
    if access_name and access_name not in system.accesses:
        return f"a repository of {system.title} is not reached over {access_name}"
    scheme = recipe["access"]["scheme"]
    # The user's own server on another machine: {"host": "svn.example.org", "url": "svn://svn.example.org/x"}.
    remote = recipe.get("remote")
    if remote:
        if recipe["input"] == COMMITTED_INPUT:
            return f"vcsbench commits to its own copies only, and never to the server on {remote['host']}"
        if not remote["url"].startswith(f"{scheme}://"):
            return f"the server on {remote['host']} is not reached over {scheme}"
        return ""
    # vcsbench starts the server, and makes its certificate.
    if scheme == "https":
        return why_no_module(recipe, ENCRYPTION_MODULES) or why_no_certificate()
    return ""


def _limits(
    accesses: Sequence[str], guests: Sequence[str], measured: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return a sentence on what the cells of a study with a server leave out; [] without a server.

    `accesses` are the measured ones, and `measured` has the measured values of all axes. Example: `Client and
    server run on one machine, over loopback. Not measured: https, blame.`
    """

    def measures_only(axis: str, value: str) -> bool:
        # Also True if the study does not have the axis.
        return set(measured.get(axis, [])) <= {value}

    if set(accesses) <= {"file"}:
        return []
    # A study with the access `git` is one of git, whose access over ssh is `ssh`.
    secure = ("https", "ssh") if "git" in accesses else ("https", "svn+ssh")
    left_out = [access for access in secure if access not in accesses]
    # For example, only the value "none" of `authentication` is measured: cells without authentication.
    for axis, (value_without, words) in LEFT_OUT_WORDS.items():
        if measures_only(axis, value_without):
            left_out.append(words)
    commands = measured.get(COMMAND_AXIS, [])
    for name in ("commit", "blame"):
        # A study may have several commands of a kind, such as `commit-binary`, or one of each system, such as
        # `git blame`. So a word of the command's name is enough.
        if not any(name in re.split("[ -]", command) for command in commands):
            left_out.append(name)
    sentence = "Client and server run on one machine"
    # With another value, such as a slow line, vcsbench simulates a network between client and server.
    if measures_only(LINK_AXIS, "loopback"):
        sentence += ", over loopback"
    if left_out:
        sentence += f". Not measured: {', '.join(left_out)}"
    return [f"{sentence}."]


AXES = (
    Axis(
        SERVER_AXIS,
        values_by_word=lambda env: {"servers": env.servers},
        source=str(SERVERS),
        needs_server=True,
        recipe_keys=_server_keys,
    ),
    Axis(
        ACCESS_AXIS,
        why_invalid=_why_no_such_access,
        recipe_keys=_access_keys,
        why_not=_why_no_access,
        limits=_limits,
    ),
)
