"""Define the axis `build`: the programs of client and server, and why this machine lacks one of them."""

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import BUILD_AXIS
from vcsbench.config.builds import ON_PATH, Build
from vcsbench.deployment.deployed_server import deployment_of
from vcsbench.errors import UserError
from vcsbench.machine import Machine, subversion_version
from vcsbench.programs import (
    GIT_SERVERS,
    MODULE,
    NSS_WRAPPER,
    PROGRAM_FOLDERS,
    SERVER_PROGRAMS,
    SUBVERSION_PROGRAMS,
    Programs,
    binaries,
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

CONDA = ("micromamba", "mamba", "conda", "pixi")


@cache
def program_version(programs: Programs, name: str) -> str:
    """Return the version of a program of Subversion, such as 1.14.2; "" if it does not run."""
    return subversion_version(programs.find(name), programs.environment())


def _build_keys(value: str, env: Environment) -> Recipe:
    build = _find_build(value, env)
    client, server = build.client._asdict(), build.server._asdict()
    return {
        "build": {"name": value, "client": client, "server": server},
        "environments": list(build.environments),
    }


def _why_no_build(value: str, draft: Recipe, env: Environment) -> str:
    """Return why this machine lacks a program or module for a cell, in a clause; "" if it has all.

    These are the programs of Subversion in the build (why_lacking), and the other `needs` of the command.
    A need is a program on the PATH, such as `git`, or a module of Python, such as `python3:breezy`.
    Example: `git is not installed (put it on the PATH; ...)`.
    """
    build, server = _find_build(value, env), draft["access"]["server"]
    reason = why_lacking(build, env.machine, _commands_of(draft), server)
    if reason:
        return reason
    for need in draft.get("needs", []):
        if path_of(need):
            continue
        if need.startswith(MODULE):
            return f"{need.removeprefix(MODULE)} is not installed in {sys.executable}"
        return f"{need} is not installed (put it on the PATH; set-up installs Debian's packages)"
    return ""


def why_lacking(build: Build, machine: Machine, argv: str, server: str) -> str:
    """Return why a cell cannot be measured with a build, in a clause; "" if it can.

    `argv` is the template of the cell's command, such as `{svn} export {url}`. `server` is the kind of its
    server: a key of SERVER_PROGRAMS, or "" without one. An example is `/opt/svn has no svn in bin or sbin`.
    """
    for side in (build.client, build.server):
        # Snakemake makes each conda environment in a folder of results/builds. `environments` has its file by
        # the name of this folder. A build elsewhere has no entry.
        file = build.environments.get(os.path.basename(side.prefix))
        if file and _is_to_be_made(side) and not any(map(shutil.which, CONDA)):
            return f"none of {', '.join(CONDA)} is installed, which {file} needs"

    reason = _why_no_server(build, machine, server) if server else ""
    if reason:
        return reason
    for program in programs_in(argv):
        # Other programs than Subversion's, such as tar, are no part of a build.
        side = build.client if program in SUBVERSION_PROGRAMS else ON_PATH.client
        reason = _why_no_program(side, machine, program)
        if reason:
            return reason

    # If root measures, the servers run as the user nobody, who could not start a program of a build in /root.
    prefix = build.server.prefix
    folder = closed_folder(Path(prefix)) if server and prefix else None
    if folder:
        return (
            f"the servers run as nobody, who cannot enter {folder}; install the build where everybody can, "
            f"or chmod o+x it"
        )
    return ""


def _why_no_server(build: Build, machine: Machine, server: str) -> str:
    """Return why a build has no server of a kind, such as "httpd", in a clause; "" if it has one."""
    if server == "httpd":
        return _why_no_httpd(build, machine)
    if server == "sshd":
        return _why_no_program(build.server, machine, "svnserve") or why_no_sshd()
    if server in GIT_SERVERS:
        return _why_no_git_server(build.server, server)
    reasons = [_why_no_program(build.server, machine, name) for name in SERVER_PROGRAMS[server]]
    return next(filter(None, reasons), "")


def _commands_of(draft: Recipe) -> str:
    """Return the templates of all commands of a cell's clients in one text: those of committers, too."""
    commit = draft.get("traffic", {}).get("commit", "")
    return f"{draft['argv']} {commit}".strip()


def _is_to_be_made(programs: Programs) -> bool:
    """Return True for a conda environment that Snakemake has not deployed yet."""
    return bool(programs.prefix) and not os.path.isdir(programs.prefix)


def _why_no_program(programs: Programs, machine: Machine, name: str) -> str:
    """Return why one side of a build lacks a program, in a clause; "" if the program is there and runs.

    `programs.prefix` is the folder of a build. It is "" for the programs on the PATH.
    """
    # Snakemake makes this conda environment before the run, with the programs in its file.
    if _is_to_be_made(programs):
        return ""
    if not programs.prefix:
        if machine.has(name):
            return ""
        is_subversion = name.startswith("svn")
        hint = "Debian: subversion; conda: subversion" if is_subversion else "put it on the PATH"
        return f"{name} is not installed ({hint})"
    path = programs.find(name)
    if not path:
        return f"{programs.prefix} has no {name} in {' or '.join(PROGRAM_FOLDERS)}"
    # A program of another architecture, or one without its libraries, exists and does not run.
    if name.startswith("svn") and not program_version(programs, name):
        return f"{path} does not run on this machine: it prints no version"
    return ""


def _why_no_httpd(build: Build, machine: Machine) -> str:
    """Return why a build has no httpd with Subversion's module (mod_dav_svn), in a clause; "" if it has one.

    - Programs of conda: never, because no package of conda has the module.
    - Programs on the PATH (`prefix` is ""): the machine's httpd and its module are needed.
    - Programs below a prefix, such as /opt/svn: the module must be there. httpd may be there, too.
      Otherwise it is the machine's httpd, which can load a module from elsewhere.
    """
    programs = build.server
    # has_made() is True for a folder that vcsbench makes from a conda file. `deployed` is True if Snakemake
    # deploys a conda environment, whose programs are then on the PATH.
    is_of_conda = build.has_made(programs) if programs.prefix else machine.deployed
    if is_of_conda:
        return "conda has no httpd with mod_dav_svn"
    if not programs.prefix:
        # Without the module, Programs.httpd is "" on the PATH, so this looks for both.
        if programs.httpd:
            return ""
        return "httpd with mod_dav_svn is not installed (Debian: libapache2-mod-svn; conda has no package)"
    if not programs.mod_dav_svn:
        return f"{programs.prefix} has no mod_dav_svn.so in libexec, modules or lib/apache2/modules"
    # The build has the module. Programs.httpd is its own httpd or the machine's, whose own modules the server
    # needs, too.
    if not programs.httpd or not programs.httpd_modules:
        return f"{programs.prefix} has a mod_dav_svn, but no httpd, nor has this machine (Debian: apache2)"
    return ""


def _why_no_git_server(programs: Programs, server: str) -> str:
    """Return why this machine cannot serve git repositories by a server, in a clause; "" if it can."""
    for name in SERVER_PROGRAMS[server]:
        if name == "httpd":
            if not programs.any_httpd or not programs.find_module("cgi"):
                return "httpd with mod_cgi is not installed (Debian: apache2-bin)"
        elif name == "sshd":
            reason = why_no_sshd()
            if reason:
                return reason
        elif not programs.path(name):
            return f"{name} is not installed (Debian: git)"
    return ""


def why_no_module(draft: Recipe, names: Sequence[str]) -> str:
    """Return which module the httpd of a cell lacks, in a clause; "" if it has all, or if it is missing.

    A missing httpd has a reason of its own (_why_no_httpd). Example: `httpd has no mod_ssl.so in
    /usr/lib/apache2/modules`.
    """
    programs = Programs(**draft["build"]["server"])
    if not programs.httpd:
        return ""
    for name in names:
        if not programs.find_module(name):
            return f"httpd has no mod_{name}.so next to its modules in {programs.httpd_modules}"
    return ""


def why_no_sshd() -> str:
    """Return why this machine cannot serve over svn+ssh, in a clause; "" if it can.

    Example: `ssh is not installed (Debian: openssh-client; conda: openssh)`.
    """
    for name in ("ssh", "ssh-keygen"):
        if not shutil.which(name):
            return f"{name} is not installed (Debian: openssh-client; conda: openssh)"
    sshd = find_sshd()
    for path, name in ((sshd, "sshd"), (find_nss_wrapper(), NSS_WRAPPER)):
        if not path:
            return f"there is no {name} (envs/unpack_sshd.sh unpacks it, without a service)"
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return f"ssh starts only for a user with a name, and user {os.geteuid()} has none"
    # If root measures, sshd runs as the user nobody. This user must be able to enter the temporary folder,
    # where a run has the keys and a copy of an unpacked sshd, and the folder of an installed sshd.
    folder = closed_folder(Path(tempfile.gettempdir()))
    if not is_unpacked_sshd():
        folder = closed_folder(Path(sshd)) or folder
    if folder:
        return (
            f"the servers run as nobody, who cannot enter {folder}, where sshd or its keys are; chmod o+x "
            f"it, or name another folder in TMPDIR"
        )
    return why_no_ssh_folder(tempfile.gettempdir())


def binaries_of(axes: Mapping[str, str], draft: Recipe, env: Environment) -> dict[str, str]:
    """Return digests of the client's and the server's programs and of their Subversion libraries.

    Example: `{"client svn": "0123...", "client libraries": "4567...", "server svnserve": "89ab..."}`. `axes`
    has the cell's values, `draft` its recipe without digests. A changed digest makes Snakemake measure the
    cell again. Programs in conda environments have no digests (_has_digests).
    """
    build = _find_build(axes.get(BUILD_AXIS, ""), env)
    server = _digested_server(build, draft, env)
    digests = dict(
        binaries(build.client, _digested_clients(build, draft, env), build.server, server)
    )
    if server == "httpd":
        # The modules of passwords, encryption and access rules. Those that are a part of httpd have no file.
        for module in deployment_of(draft).modules:
            digests[f"server mod_{module}"] = build.server.digest_of(f"mod_{module}")
    return digests


def linked_of(axes: Mapping[str, str], draft: Recipe, env: Environment) -> dict[str, str]:
    """Return digests of all libraries of client and server: `{"client": "0123...", "server": "4567..."}`.

    They include libraries of the system. With another libc, it is another measurement. The key `server` is
    missing for a cell without a server, or with a server in a conda environment.
    """
    build = _find_build(axes.get(BUILD_AXIS, ""), env)
    linked = {"client": linked_digest(build.client, _digested_clients(build, draft, env))}
    server = _digested_server(build, draft, env)
    if server:
        linked["server"] = linked_digest(build.server, SERVER_PROGRAMS[server])
    return linked


def _digested_clients(build: Build, draft: Recipe, env: Environment) -> tuple[str, ...]:
    """Return the programs of a cell's command that get digests, such as ("svn",), and its other `needs`."""
    programs = programs_in(_commands_of(draft)) if _has_digests(build, build.client, env) else ()
    # The client starts ssh.
    tunnel = ("ssh",) if draft["access"]["server"] in ("sshd", "git-sshd") else ()
    return (*programs, *tunnel, *draft.get("needs", []))


def _digested_server(build: Build, draft: Recipe, env: Environment) -> str:
    """Return the kind of a cell's server if it gets digests, otherwise ""."""
    return draft["access"]["server"] if _has_digests(build, build.server, env) else ""


def _has_digests(build: Build, side: Programs, env: Environment) -> bool:
    """Return False for a side of a build in a conda environment, True for all others."""
    # The name of an environment's folder has the digest of its file. Snakemake itself measures again after a
    # change of an environment that it deploys.
    if side.prefix:
        return not build.has_made(side)
    return not env.machine.deployed


def _find_build(value: str, env: Environment) -> Build:
    """Return a build by its name. Raise UserError for one that the configuration lacks."""
    if not value:
        return ON_PATH
    if value not in env.builds:
        raise UserError(
            f"{env.config.source_of(['builds'])}: `builds.{value}` is missing, which the grid measures. Add "
            f"its place, or use in the grid only {', '.join(env.builds)}."
        )
    return env.builds[value]


AXIS = Axis(
    BUILD_AXIS,
    values_by_word=lambda env: {"builds": list(env.builds)},
    source="`builds`",
    needs_server=True,
    recipe_keys=_build_keys,
    why_not=_why_no_build,
)
