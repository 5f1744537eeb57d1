"""The axis `build`: which binaries a cell is measured with, client and server apart."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts
from vcsbench.config.builds import ON_PATH, Build
from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.processes import closed
from vcsbench.programs import (
    MODULE,
    PROGRAMS,
    SUBVERSION,
    Programs,
    binaries,
    path_of,
    programs_in,
)

if TYPE_CHECKING:
    from vcsbench.axes.here import Here
    from vcsbench.config.study import Study

# What makes a conda environment (envs/setup/conda.sh).
CONDA = ("micromamba", "mamba", "conda", "pixi")


class BuildAxis(Axis):
    """`builds` stands for the names in the configuration."""

    of_server = True

    def check(self, values: list[str], study: Study, here: Here) -> None:
        """The configuration has to have builds."""
        where = here.config.where(["builds"])
        if not here.builds:
            raise UserError(
                f"{where}: `builds` is missing, of which the study {study.name} has an axis; name at least "
                f"one build, such as `system: {{}}`"
            )

    def named(self, here: Here) -> tuple[str, list[str]]:
        """The configured names."""
        return "builds", list(here.builds)

    def defined_in(self, given: Sequence[str] | str, study: Study) -> str:
        """The key of the configuration."""
        return "`builds`"

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """How to find the programs of each side: the PATH's where the axis does not apply."""
        build = _build(value, here)
        return {"build": {"name": value, **build.spec()}, "environments": list(build.environments)}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """What client and server run may not be there."""
        lacking = why_lacking(_build(value, here), here.machine, parts["argv"], parts["server"])
        return lacking or next(filter(None, map(_why_not_there, parts.get("needs", []))), "")


AXIS = BuildAxis("build")


def why_lacking(build: Build, machine: Machine, argv: str, server: str) -> str:
    """Why a cell cannot be measured with a build, in a clause; "" if it can.

    `argv` is the cell's command, a template, and `server` the kind of its server.
    """
    lacking = _cannot_be_made(build)
    if lacking:
        return lacking
    if server == "httpd":
        lacking = _lacks_httpd(build, machine)
    elif server:
        lacking = _lacks(build.server, machine, server)
    for program in programs_in(argv):
        side = build.client if program in SUBVERSION else ON_PATH.client
        lacking = lacking or _lacks(side, machine, program)
    if (
        not lacking
        and server
        and build.server.prefix
        and (folder := closed(Path(build.server.prefix)))
    ):
        return (
            f"the servers run as nobody, who cannot enter {folder}; install the build where everybody can, "
            f"or chmod o+x it"
        )
    return lacking


def _cannot_be_made(build: Build) -> str:
    for side in (build.client, build.server):
        file = build.environments.get(os.path.basename(side.prefix))
        if file and _is_to_be_made(side) and not any(map(shutil.which, CONDA)):
            return f"there is no {', '.join(CONDA)} here to make the environment of {file}"
    return ""


def _why_not_there(need: str) -> str:
    if path_of(need):
        return ""
    if need.startswith(MODULE):
        return f"{need.removeprefix(MODULE)} is not installed in {sys.executable}"
    return f"{need} is not installed (put it on the PATH; set-up installs what Debian has)"


def _is_to_be_made(programs: Programs) -> bool:
    """Whether the programs are in an environment that this run will make."""
    return bool(programs.prefix) and not os.path.isdir(programs.prefix)


def _lacks(programs: Programs, machine: Machine, name: str) -> str:
    if _is_to_be_made(programs) or (programs.prefix and programs.find(name)):
        return ""
    if programs.prefix:
        return f"{programs.prefix} has no {name} in {' or '.join(PROGRAMS)}"
    if machine.has(name):
        return ""
    package = (
        "Debian: subversion; conda: subversion" if name.startswith("svn") else "put it on the PATH"
    )
    return f"{name} is not installed ({package})"


def _lacks_httpd(build: Build, machine: Machine) -> str:
    programs = build.server
    if not programs.prefix:
        if machine.httpd:
            return ""
        if machine.deployed:
            return "there is no httpd with mod_dav_svn in a conda environment"
        return (
            "there is no httpd with mod_dav_svn here (Debian: libapache2-mod-svn; conda has none)"
        )
    if build.has_made(programs):  # or will: the reason stays the same
        return "there is no httpd with mod_dav_svn in a conda environment"
    if not programs.mod_dav_svn:
        return f"{programs.prefix} has no mod_dav_svn.so in libexec, modules or lib/apache2/modules"
    if not programs.httpd or not programs.httpd_modules:
        return f"{programs.prefix} has a mod_dav_svn, but no httpd, nor has this machine (Debian: apache2)"
    return ""


def binaries_of(axes: Mapping[str, str], parts: Parts, here: Here) -> dict[str, str]:
    """What shows that a cell's binaries have changed: digests of the client's and the server's programs
    and of the Subversion libraries where each side has its own.

    A conda environment has none: what it was made from is in its folder's name, and an environment that
    Snakemake deploys is a reason to measure anew by itself. Asked once for each pair of sides.
    """
    build, machine = _build(axes.get(AXIS.name, ""), here), here.machine
    clients = programs_in(parts["argv"]) if _is_known(build.client, machine, build) else ()
    clients = (*clients, *parts.get("needs", []))
    kind = parts["server"] if _is_known(build.server, machine, build) else ""
    asked = (build.client, clients, build.server, kind)
    if asked not in machine.digested:
        machine.digested[asked] = binaries(*asked)
    return machine.digested[asked]


def _build(value: str, here: Here) -> Build:
    if value and value not in here.builds:
        raise UserError(
            f"{here.config.where(['builds'])}: `builds.{value}` is missing, which the grid measures; say "
            f"where that build is, or leave {value} out of the grid; there are {', '.join(here.builds)}"
        )
    return here.builds[value] if value else ON_PATH


def _is_known(programs: Programs, machine: Machine, build: Build) -> bool:
    return not build.has_made(programs) if programs.prefix else not machine.deployed
