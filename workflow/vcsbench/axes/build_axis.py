"""Define the axis `build`: the programs of client and server, and why this machine lacks one of them."""

import os
import pwd
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import BUILD_AXIS
from vcsbench.config.builds import ON_PATH, Build
from vcsbench.deployment.deployed_server import deployment_of
from vcsbench.errors import UserError
from vcsbench.formats import AS_IS, RELEASES, parse_format
from vcsbench.machine import Machine, subversion_version
from vcsbench.programs import (
    BUILD_PROGRAMS,
    INTERPRETER,
    MODULE,
    NSS_WRAPPER,
    PROGRAM_FOLDERS,
    SUBVERSION_PROGRAMS,
    UNPACKED_SSHD,
    WORD,
    Programs,
    binaries,
    find_git_folder,
    find_nss_wrapper,
    find_sshd,
    is_unpacked_sshd,
    linked_digest,
    path_of,
    programs_in,
    why_no_ssh_folder,
)
from vcsbench.records import Recipe
from vcsbench.server_user import closed_folder
from vcsbench.systems import GIT, SUBVERSION, programs_of_server, repository_system
from vcsbench.systems.git_program import git_version
from vcsbench.systems.git_store import (
    AS_IS_REFS,
    PACKED_REFS,
    REFTABLE,
    GitState,
    Upkeep,
    why_git_too_old,
    why_no_state,
)
from vcsbench.words import version_numbers

CONDA = ("micromamba", "mamba", "conda", "pixi")
# The words of a command that stand for this Python, and for a program of vcsbench that it runs.
PYTHON_WORDS = ("python", "program")
# The programs that clients start, by the kind of the server. git has libcurl only in its program for http.
CLIENT_HELPERS = {"sshd": "ssh", "git-sshd": "ssh", "git-httpd": "git-remote-http"}


@cache
def program_version(programs: Programs, name: str) -> str:
    """Return the version of a program of Subversion, such as 1.14.2; "" if it does not run."""
    return subversion_version(programs.find(name), programs.environment())


def _build_keys(build_name: str, env: Environment) -> Recipe:
    """Return the keys of a recipe for a build: the places of client and server, and conda environments."""
    build = _find_build(build_name, env)
    client, server = build.client._asdict(), build.server._asdict()
    return {
        "build": {"name": build_name, "client": client, "server": server},
        "environments": list(build.environments),
    }


def _why_no_build(build_name: str, recipe: Recipe, env: Environment) -> str:
    """Return why this machine lacks a program or module for a cell, in a clause; "" if it has all.

    A program that is too old for the format of the repository is a reason, too. `build_name` is not used: it
    is the cell's own value on the axis, and the recipe may have its build from a default. Example: `git is
    not installed (put it on the PATH; ...)`.
    """
    build = _find_build(recipe["build"]["name"], env)
    server = recipe["access"]["server"]
    reason = why_lacking(build, env.machine, _commands_of(recipe), server)
    if reason:
        return reason
    # Further requirements of the command, such as `git` or the Python module `python3:breezy`.
    for need in recipe.get("needs", []):
        if path_of(need):
            continue
        if need.startswith(MODULE):
            return f"{need.removeprefix(MODULE)} is not installed in {sys.executable}"
        return f"{need} is not installed (put it on the PATH; set-up installs Debian's packages)"
    if repository_system(recipe.get("repository", {})) is GIT:
        return _why_git_cannot_read(build, recipe, env)
    return _why_too_old(build, recipe, env)


def _why_git_cannot_read(build: Build, recipe: Recipe, env: Environment) -> str:
    """Return why the git of a build is too old to read a cell's repository, in a clause; "" if it is not.

    A newer git may have made the repository. An older one reads most states of upkeep (packs and their
    indices), because it skips an index that it does not know. There are two exceptions: the upkeep
    midx-reuse, whose setting an older git refuses, and refs in a reftable.
    """
    repository = recipe["repository"]
    has_setting = repository.get("upkeep") == Upkeep.MIDX_REUSE
    has_reftable = repository.get("ref_storage") == REFTABLE
    if not has_setting and not has_reftable:
        return ""
    # The server opens the repository, or the client without a server.
    side = build.server if recipe["access"]["server"] else build.client
    if _is_made_later(side, env):
        return ""
    # Each git knows ONE_PACK and PACKED_REFS. With these, why_no_state() checks the exceptions only.
    upkeep = Upkeep.MIDX_REUSE if has_setting else Upkeep.ONE_PACK
    ref_storage = REFTABLE if has_reftable else PACKED_REFS
    return why_no_state(GitState(upkeep, AS_IS_REFS, ref_storage), git_version(side))


def needed_format(recipe: Recipe) -> str:
    """Return the format of the Subversion repository that a cell opens, such as "f6-to-f8" or "as-is".

    Return "" for a cell that opens no such repository on this machine: its server is on another machine, its
    repository is of another system, or its command reads a dump or a tree that needs no loaded repository.
    """
    repository = recipe.get("repository", {})
    # `remote` is the user's own server on another machine.
    if "remote" in recipe or repository_system(repository) is not SUBVERSION:
        return ""
    reads_repository = recipe.get("input") in ("repository", "committed_repository")
    # Some sources give their youngest tree themselves: `head` is its place, such as a commit of git. From all
    # others, a repository is loaded, and the tree is exported from it (subjects.tree).
    exports_tree = recipe.get("input") == "tree" and not repository.get("head")
    # The command fills a new repository of this format.
    fills_repository = recipe.get("output") == "fresh_repository"
    if reads_repository or exports_tree or fills_repository:
        return repository.get("format", "")
    return ""


def _why_too_old(build: Build, recipe: Recipe, env: Environment) -> str:
    """Return why a build is too old for the format of a cell's repository, in a clause; "" if it is not.

    Example: `/opt/svn/bin/svnserve is 1.8.19, and f8 needs Subversion 1.10 or later`.
    """
    fmt = _present_format(recipe, env)
    # The first release of Subversion that opens the format: "1.9" for f7, and (1, 9) as numbers.
    release = RELEASES.get(fmt, "")
    first_numbers = version_numbers(release)
    if first_numbers is None:
        return ""
    for side, names in _sides_that_open(build, recipe):
        # The first program that is installed shows the version of the side.
        name = next((name for name in names if side.find(name)), "")
        if not name or _is_made_later(side, env):
            continue
        version = program_version(side, name)
        numbers = version_numbers(version)
        # An unknown version (None) is no reason.
        if numbers is not None and numbers < first_numbers:
            return f"{side.find(name)} is {version}, and {fmt} needs Subversion {release} or later"
    return ""


def _present_format(recipe: Recipe, env: Environment) -> str:
    """Return the format that a cell's repository has on disk: f8 for `f6-to-f8`.

    For `as-is`, it is the format of the user's repository. Return "" if it is unknown, and for a cell that
    opens no repository.
    """
    value = needed_format(recipe)
    if not value:
        return ""
    fmt = parse_format(value).format
    if fmt != AS_IS:
        return fmt
    return env.own_shape.format if env.own_shape else ""


def _sides_that_open(build: Build, recipe: Recipe) -> list[tuple[Programs, list[str]]]:
    """Return the sides of a build that open a cell's repository: the server or, without one, the client.

    Each has the names of programs that show its version, the best one first: (build.client, ["svnadmin",
    "svn"]).
    """
    sides: list[tuple[Programs, list[str]]] = []
    server = recipe["access"]["server"]
    # httpd opens repositories by a module, which prints no version. Other programs below the prefix of the
    # build have the version of the module. Programs on the PATH may have another one, so they show nothing.
    is_unknown = server == "httpd" and not build.server.prefix
    if server and not is_unknown:
        sides.append((build.server, ["svnserve", "svnadmin", "svn"]))
    if not server:
        commands = programs_in(_commands_of(recipe))
        subversion = [name for name in commands if name in SUBVERSION_PROGRAMS]
        # Before a command such as cp, svn exports the tree that the command reads.
        sides.append((build.client, [*subversion, "svn"]))
    # Before a command with one of these outputs, the client's svn exports or checks out a tree from the disk.
    if recipe.get("output") in ("working_copy", "changed_working_copy"):
        sides.append((build.client, ["svn"]))
    return sides


def why_lacking(build: Build, machine: Machine, argv: str, server: str) -> str:
    """Return why a cell cannot be measured with the programs of a build, in a clause; "" if it can.

    `argv` has the templates of the cell's commands: `{svn} export {url}`. `server` is the kind of its server,
    such as "httpd"; "" without one. Example: `/opt/svn has no svn in bin or sbin`.
    """
    # A side of a build may be a conda environment that Snakemake makes before the run, from a file.
    for side in (build.client, build.server):
        file = build.environments.get(os.path.basename(side.prefix))
        if file and _is_to_be_made(side) and not any(shutil.which(name) for name in CONDA):
            return f"none of {', '.join(CONDA)} is installed, which {file} needs"
    if server:
        reason = _why_no_server(build, machine, server)
        if reason:
            return reason
    for program in programs_in(argv):
        # Other programs, such as tar, are no part of a build. They are on the PATH.
        client = build.client if program in BUILD_PROGRAMS else ON_PATH.client
        reason = _why_no_program(client, machine, program)
        if reason:
            return reason
    if server and build.server.prefix:
        # If root measures, the servers run as the user "nobody", who cannot start a program in /root, for
        # example. closed_folder() returns the folder that keeps this user out.
        folder = closed_folder(Path(build.server.prefix))
        if folder:
            return (
                f"the servers run as nobody, who cannot enter {folder}; install the build where everybody "
                f"can, or chmod o+x it"
            )
    return ""


def _why_no_server(build: Build, machine: Machine, server: str) -> str:
    """Return why a build has no server of a kind, such as "httpd", in a clause; "" if it has one."""
    if server == "httpd":
        return _why_no_httpd(build, machine)
    if server == "sshd":
        # sshd starts a svnserve of the build for each connection. sshd itself is part of no build.
        return _why_no_program(build.server, machine, "svnserve") or why_no_sshd()
    if server in GIT.servers:
        return _why_no_git_server(build.server, server)
    for name in programs_of_server(server):
        reason = _why_no_program(build.server, machine, name)
        if reason:
            return reason
    return ""


def _commands_of(recipe: Recipe) -> str:
    """Return the templates of all commands of a cell's clients in one text, such as `{svn} log {url}`."""
    # In a cell with traffic (many clients at once), some clients may run a second command, a commit.
    commit = recipe.get("traffic", {}).get("commit", "")
    return f"{recipe['argv']} {commit}".strip()


def installed_programs(recipe: Recipe) -> set[str]:
    """Return the installed programs that a cell runs, such as {"svn", "httpd", "ssh"}.

    The commands, the server and the system of the repository need programs. Programs in the prefix of a build
    (a folder such as /opt/svn) are left out.
    """
    build = recipe["build"]
    names = {*recipe.get("needs", [])}
    for name in programs_in(_commands_of(recipe)):
        # Another program than Subversion's and git, such as tar, is in no build, so it is always installed.
        is_in_build = name in BUILD_PROGRAMS and bool(build["client"]["prefix"])
        if not is_in_build:
            names.add(name)
    server = recipe["access"]["server"]
    if server and not build["server"]["prefix"]:
        names.update(programs_of_server(server))
        # svnlook lists the folders that the access rules of the server name.
        if "access_rules" in recipe:
            names.add("svnlook")
    if server in CLIENT_HELPERS:
        names.add(CLIENT_HELPERS[server])
    # Another system loads its repositories by its own programs, whatever the command is.
    system = repository_system(recipe.get("repository", {}))
    if system is not SUBVERSION:
        names.update(system.programs)
    return names


def _is_to_be_made(programs: Programs) -> bool:
    """Return True for a conda environment that Snakemake has not deployed yet."""
    return bool(programs.prefix) and not os.path.isdir(programs.prefix)


def _is_made_later(side: Programs, env: Environment) -> bool:
    """Return True if the programs of a side (client, server) do not exist yet: their version is unknown.

    Later, Snakemake makes the conda environment at a prefix. With `deployed`, it also makes one with the
    programs that have no prefix.
    """
    return _is_to_be_made(side) if side.prefix else env.machine.deployed


def _why_no_program(programs: Programs, machine: Machine, name: str) -> str:
    """Return why a side of a build (client, server) has no usable program `name`, in a clause; "" if it has.

    Below the prefix of a build, such as /opt/svn, a program of Subversion must also run, and git must be
    usable (_why_no_git). All other programs only have to exist.
    """
    # Snakemake makes this conda environment before the run, with the programs in its file.
    if _is_to_be_made(programs):
        return ""
    is_subversion = name.startswith("svn")
    if not programs.prefix:
        if machine.has(name):
            return ""
        hint = "Debian: subversion; conda: subversion" if is_subversion else "put it on the PATH"
        return f"{name} is not installed ({hint})"
    path = programs.find(name)
    if not path:
        return f"{programs.prefix} has no {name} in {' or '.join(PROGRAM_FOLDERS)}"
    # A program of another architecture, or one without its libraries, exists and does not run.
    if is_subversion and not program_version(programs, name):
        return f"{path} does not run on this machine: it prints no version"
    if name == "git":
        return _why_no_git(programs)
    return ""


def _why_no_git(programs: Programs) -> str:
    """Return why the git below the prefix of a build cannot be measured, in a clause; "" if it can."""
    path = programs.get("git")
    too_old = why_git_too_old(git_version(programs))
    if too_old:
        return f"{path}: {too_old}"
    # git runs other programs, such as git-remote-http. Another git's would make the label wrong.
    folder = find_git_folder(programs)
    is_below = os.path.realpath(folder).startswith(f"{os.path.realpath(programs.prefix)}/")
    if not is_below:
        return f"{path} runs the programs in {folder or 'no folder'}, outside of {programs.prefix}"
    return ""


def _why_no_httpd(build: Build, machine: Machine) -> str:
    """Return why a build has no httpd with Subversion's module (mod_dav_svn), in a clause; "" if it has one.

    A build below a prefix, such as /opt/svn, needs the module, but no httpd: this machine's httpd can load
    the module.
    """
    programs = build.server
    # A conda environment is at the prefix or, with `deployed`, in place of the programs on the PATH.
    is_of_conda = build.has_made(programs) if programs.prefix else machine.deployed
    if is_of_conda:
        return "conda has no httpd with mod_dav_svn"
    if not programs.prefix:
        # Without a prefix, `programs.httpd` is this machine's httpd; "" also if that has no mod_dav_svn.
        if programs.httpd:
            return ""
        return "httpd with mod_dav_svn is not installed (Debian: libapache2-mod-svn; conda has no package)"
    if not programs.mod_dav_svn:
        return f"{programs.prefix} has no mod_dav_svn.so in libexec, modules or lib/apache2/modules"
    # With a prefix, `programs.httpd` is the httpd below it or, without one, this machine's. To load
    # mod_dav_svn, it needs modules of its own, such as mod_dav.
    has_usable_httpd = bool(programs.httpd and programs.httpd_modules)
    if not has_usable_httpd:
        return f"{programs.prefix} has a mod_dav_svn, but no httpd, nor has this machine (Debian: apache2)"
    return ""


def _why_no_git_server(programs: Programs, server: str) -> str:
    """Return why a build cannot serve git repositories by a server, in a clause; "" if it can."""
    if programs.prefix:
        # Without a git of its own, the build would use that on the PATH (Programs.path).
        if not programs.find("git"):
            return f"{programs.prefix} has no git in {' or '.join(PROGRAM_FOLDERS)}"
        reason = _why_no_git(programs)
        if reason:
            return reason
    for name in programs_of_server(server):
        if name == "httpd":
            # httpd runs git's program for http as a CGI program.
            if not programs.any_httpd or not programs.find_module("cgi"):
                return "httpd with mod_cgi is not installed (Debian: apache2-bin)"
        elif name == "sshd":
            reason = why_no_sshd()
            if reason:
                return reason
        elif not programs.path(name):
            place = programs.prefix or "this machine"
            return f"{place} has no {name} (Debian: git)"
    return ""


def why_no_module(recipe: Recipe, names: Sequence[str]) -> str:
    """Return which of some modules, such as ("ssl",), the httpd of a cell lacks, in a clause; "" if none.

    Return "" also if httpd itself is missing, because that has a reason of its own (_why_no_httpd).
    """
    programs = Programs(**recipe["build"]["server"])
    if not programs.httpd:
        return ""
    for name in names:
        if not programs.find_module(name):
            return f"httpd has no mod_{name}.so next to its modules in {programs.httpd_modules}"
    return ""


def why_no_sshd() -> str:
    """Return why this machine cannot serve over svn+ssh, in a clause; "" if it can.

    Each run starts an sshd with keys, settings and a list of users of its own. Their files are in a folder of
    the run, which is below the temporary folder, such as /tmp.
    """
    for name in ("ssh", "ssh-keygen"):
        if not shutil.which(name):
            return f"{name} is not installed (Debian: openssh-client; conda: openssh)"
    sshd = find_sshd()
    # sshd preloads this library, by which it reads the run's list of users.
    library = find_nss_wrapper()
    for name, path in (("sshd", sshd), (NSS_WRAPPER, library)):
        if not path:
            return f"there is no {name} (envs/unpack_sshd.sh unpacks it, without a service)"
    return (
        _why_sshd_cannot_preload(library)
        or _why_no_user_name()
        or _why_sshd_is_kept_out(sshd)
        # The settings of ssh name files of the run, which limits the characters of their paths.
        or why_no_ssh_folder(tempfile.gettempdir())
    )


def _why_sshd_cannot_preload(library: str) -> str:
    """Return why sshd cannot preload a library, in a clause; "" if it can.

    The library is an installed one, or one in UNPACKED_SSHD, a folder of set-up's in the checkout.
    """
    is_unpacked = library.startswith(f"{UNPACKED_SSHD}/")
    # If sshd's user cannot enter this folder, a run copies the folder, and sshd preloads the copy (Sshd). So
    # the path in the checkout does not matter.
    is_copied = is_unpacked and closed_folder(UNPACKED_SSHD.resolve()) is not None
    reason = why_not_preloaded(library)
    if not reason or is_copied:
        return ""
    return f"{reason}; move {'the checkout' if is_unpacked else 'it'}"


def _why_no_user_name() -> str:
    """Return why ssh does not start for the user who measures, in a clause; "" if it does."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return f"ssh starts only for a user with a name, and user {os.geteuid()} has none"
    return ""


def _why_sshd_is_kept_out(sshd: str) -> str:
    """Return which folder keeps sshd out of its program or its keys, in a clause; "" if none does.

    If root measures, sshd runs as the user nobody. Otherwise, sshd runs as the user who measures, and
    closed_folder() returns None.
    """
    used_paths = [tempfile.gettempdir()]
    # An sshd that set-up has unpacked needs no check: if nobody cannot enter its folder, a run copies it to
    # the temporary folder.
    if not is_unpacked_sshd():
        used_paths.insert(0, sshd)
    for path in used_paths:
        folder = closed_folder(Path(path))
        if folder:
            return (
                f"the servers run as nobody, who cannot enter {folder}, where sshd or its keys are; chmod "
                f"o+x it, or name another folder in TMPDIR"
            )
    return ""


def why_not_preloaded(library: str) -> str:
    """Return why a library cannot be preloaded, in a clause; "" if it can."""
    # The loader splits LD_PRELOAD at blanks and colons, and would start the program without the library.
    if re.search("[ :]", library):
        return f"LD_PRELOAD cannot name {library}, whose path has a blank or a colon"
    return ""


def binaries_of(recipe: Recipe, env: Environment) -> dict[str, str]:
    """Return digests of hyperfine, of the client's and the server's programs, and of Subversion's libraries.

    A changed digest makes Snakemake measure the cell again. Programs in conda environments have no digests
    (_has_digests). Example: `{"client svn": "0123...", "client hyperfine": "cdef...", "client libraries":
    "4567...", "server svnserve": "89ab...", "server libraries": "4567..."}`.
    """
    build = _find_build(recipe["build"]["name"], env)
    client_programs = _digested_clients(build, recipe, env)
    # "" without a server, and for a server in a conda environment.
    server = _digested_server(build, recipe, env)
    server_programs = programs_of_server(server) if server else ()
    # binaries() caches its mapping, so a copy is changed below.
    digests = dict(binaries(build.client, client_programs, build.server, server_programs))
    # A module that was compiled into httpd has no file. Its digest is "".
    for module in _modules_for_settings(server, recipe):
        digests[f"server {module}"] = build.server.digest_of(module)
    # hyperfine starts the command. A wrapper in its place may start it with another priority. With
    # `deployed`, all programs on the PATH come from conda, and hyperfine is one of them.
    if not env.machine.deployed:
        digests["client hyperfine"] = build.client.digest_of("hyperfine")
    return digests


def _modules_for_settings(server: str, recipe: Recipe) -> tuple[str, ...]:
    """Return the modules of httpd that the settings of a cell need: ("mod_ssl",); () for another server."""
    if server != "httpd":
        return ()
    return tuple(f"mod_{name}" for name in deployment_of(recipe).modules)


def linked_of(recipe: Recipe, env: Environment) -> dict[str, str]:
    """Return digests of all libraries of client and server: `{"client": "0123...", "server": "4567..."}`.

    The libraries of the system are among them, because a run with another libc is another measurement. The
    key `server` is missing for a cell without a server, or with a server in a conda environment.
    """
    build = _find_build(recipe["build"]["name"], env)
    linked = {"client": linked_digest(build.client, _digested_clients(build, recipe, env))}
    server = _digested_server(build, recipe, env)
    if server:
        # Modules of httpd load libraries as well: mod_ssl loads OpenSSL.
        names = (*programs_of_server(server), *_modules_for_settings(server, recipe))
        linked["server"] = linked_digest(build.server, names)
    return linked


def _digested_clients(build: Build, recipe: Recipe, env: Environment) -> tuple[str, ...]:
    """Return the programs on the client's side of a cell that get digests, such as ("svn", "ssh")."""
    names: list[str] = []
    if _has_digests(build, build.client, env):
        names += programs_in(_commands_of(recipe))
    # An environment that Snakemake deploys may have another Python and another ssh than this process.
    if not env.machine.deployed:
        if _runs_python(recipe):
            names.append(INTERPRETER)
        helper = CLIENT_HELPERS.get(recipe["access"]["server"])
        if helper:
            names.append(helper)
    return (*names, *recipe.get("needs", []))


def _runs_python(recipe: Recipe) -> bool:
    """Return True if a cell times a program in Python: one of its command, or that starts its clients."""
    words = WORD.findall(_commands_of(recipe))
    return any(word in PYTHON_WORDS for word in words) or "clients" in recipe or "traffic" in recipe


def _digested_server(build: Build, recipe: Recipe, env: Environment) -> str:
    """Return the kind of a cell's server if it gets digests, otherwise ""."""
    return recipe["access"]["server"] if _has_digests(build, build.server, env) else ""


def _has_digests(build: Build, side: Programs, env: Environment) -> bool:
    """Return False for a side of a build (client or server) in a conda environment, True for all others."""
    # After a change of an environment, cells are measured again also without digests: the name of its folder
    # in the recipe changes with its file, and Snakemake itself compares an environment that it deploys.
    if side.prefix:
        return not build.has_made(side)
    return not env.machine.deployed


def _find_build(name: str, env: Environment) -> Build:
    """Return a build by its name; "" is the programs on the PATH. Raise UserError for an unknown name."""
    if not name:
        return ON_PATH
    if name not in env.builds:
        raise UserError(
            f"{env.config.source_of(['builds'])}: `builds.{name}` is missing, which the grid measures. Add "
            f"its place, or use in the grid only {', '.join(env.builds)}."
        )
    return env.builds[name]


AXIS = Axis(
    BUILD_AXIS,
    values_by_word=lambda env: {"builds": list(env.builds)},
    source="`builds`",
    needs_server=True,
    recipe_keys=_build_keys,
    why_not=_why_no_build,
)
