"""Version control systems: how each keeps, checks and describes its repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcsbench.systems.base import System
from vcsbench.systems.fossil import Fossil
from vcsbench.systems.git import GitSystem
from vcsbench.systems.mercurial import Mercurial
from vcsbench.systems.subversion import Subversion

if TYPE_CHECKING:
    from vcsbench.records import RecipeRepository

SUBVERSION = Subversion()
GIT = GitSystem()
MERCURIAL = Mercurial()
FOSSIL = Fossil()
SYSTEMS: dict[str, System] = {
    system.name: system for system in (SUBVERSION, GIT, MERCURIAL, FOSSIL)
}

# The programs of each kind of server.
SERVERS = {kind: names for system in SYSTEMS.values() for kind, names in system.servers.items()}


def system_of(fmt: str) -> System:
    """Return the system that has a format, such as Subversion for f7. Raise ValueError for no format."""
    for system in SYSTEMS.values():
        if system.has_format(fmt):
            return system
    raise ValueError(f"{fmt} is no format of a system")


def programs_of_server(kind: str) -> tuple[str, ...]:
    """Return the programs of a kind of server: ("hg",) for "hg-serve".

    By default, the kind is the name of its only program.
    """
    return SERVERS.get(kind, (kind,))


def repository_system(repository: RecipeRepository) -> System:
    """Return the system of a recipe's repository: Subversion, unless the recipe names another one."""
    return SYSTEMS[repository.get("system", SUBVERSION.name)]
