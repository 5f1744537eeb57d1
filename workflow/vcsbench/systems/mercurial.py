"""Mercurial as a system: repositories without working files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from vcsbench import processes
from vcsbench.environment import program_environment
from vcsbench.systems.base import keep_commit_count
from vcsbench.systems.plain_system import PlainStore, PlainSystem

if TYPE_CHECKING:
    from vcsbench.records import Access

# No configuration of the machine or the user, and messages for programs.
HG_ENVIRONMENT = {"HGRCPATH": "", "HGPLAIN": "1", "HGUSER": "vcsbench"}


def run_hg(*arguments: str | Path, settings: Sequence[str] = ()) -> str:
    """Return the output of a command of Mercurial, such as run_hg("verify", "-R", path).

    `settings` are options for --config, such as "extensions.convert=". Raise UserError if the command fails.
    """
    argv: list[str | Path] = ["hg", "--noninteractive"]
    for setting in settings:
        argv += ["--config", setting]
    environment = program_environment(HG_ENVIRONMENT)
    return processes.run_program([*argv, *arguments], env=environment).output


class MercurialStore(PlainStore):
    """Mercurial repositories."""

    content = Path(".hg", "requires")

    def create_empty(self, path: Path) -> None:
        run_hg("init", path)
        keep_commit_count(path, 0)


class Mercurial(PlainSystem):
    """Mercurial."""

    name = "mercurial"
    title = "Mercurial"
    fmt = "hg"
    programs = ("hg",)
    empty_name = "empty-hg"
    store = MercurialStore()
    accesses: ClassVar[Mapping[str, Access]] = {
        "http": {"scheme": "http", "files": [], "server": "hg-serve"},
        "file": {"scheme": "file", "files": [], "server": ""},
    }
    servers: ClassVar[Mapping[str, tuple[str, ...]]] = {"hg-serve": ("hg",)}
