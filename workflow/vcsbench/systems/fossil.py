"""Fossil as a system: a repository is one file, an SQLite database, here in a folder of its own."""

from __future__ import annotations

import sqlite3
import urllib.parse
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from vcsbench import processes
from vcsbench.environment import program_environment
from vcsbench.storages.folder_states import StoredFile
from vcsbench.systems.base import keep_commit_count
from vcsbench.systems.plain_system import PlainStore, PlainSystem

if TYPE_CHECKING:
    from vcsbench.records import Access

# The server finds NAME.fossil for the name in a URL.
FOSSIL_NAME = "repository"
FOSSIL_FILE = f"{FOSSIL_NAME}.fossil"
# Fossil's user of all commands.
FOSSIL_USER = "vcsbench"
# The settings of a user, which Fossil writes to FOSSIL_HOME.
FOSSIL_SETTINGS = ".fossil"
NEWEST_OF_TRUNK = (
    "SELECT uuid FROM event JOIN blob ON blob.rid = objid JOIN tagxref ON tagxref.rid = objid "
    "JOIN tag ON tag.tagid = tagxref.tagid "
    "WHERE type = 'ci' AND tagname = 'branch' AND value = 'trunk' ORDER BY event.mtime DESC LIMIT ?"
)


def run_fossil(home: Path, *arguments: str | Path, cwd: Path | None = None) -> str:
    """Return the output of a command of Fossil, such as run_fossil(home, "rebuild", file).

    Fossil keeps a user's settings in the folder `home`. Raise UserError if the command fails.
    """
    argv = ["fossil", *arguments]
    return processes.run_program(argv, env=fossil_environment(home), cwd=cwd or home).output


def fossil_environment(home: Path) -> dict[str, str]:
    """Return the environment of Fossil, with its settings of a user in the folder `home`."""
    return program_environment({"FOSSIL_HOME": str(home), "USER": FOSSIL_USER})


def newest_checkins(file: Path, number: int) -> list[str]:
    """Return the newest check-ins (commits) of trunk in a repository's file, the newest first.

    Fossil's own name `trunk` may mean a check-in of another branch: its import gives that tag to all.
    """
    return query_database(file, NEWEST_OF_TRUNK, number)


def query_database(file: Path, query: str, *values: int) -> list[str]:
    """Return the first column of a query, as texts. The file is only read."""
    uri = f"file:{urllib.parse.quote(str(file))}?immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        return [str(row[0]) for row in database.execute(query, values)]


class FossilStore(PlainStore):
    """Fossil repositories. Those that are served are read-only."""

    content = Path(FOSSIL_FILE)

    def create_empty(self, path: Path) -> None:
        path.mkdir()
        run_fossil(path, "init", path / FOSSIL_FILE, "-A", FOSSIL_USER)
        # The settings of a user are no part of the repository.
        (path / FOSSIL_SETTINGS).unlink(missing_ok=True)
        keep_commit_count(path, 0)
        _make_read_only(path)

    def finish_copy(self, path: Path, files: Sequence[StoredFile]) -> None:
        _make_read_only(path)


def _make_read_only(repository: Path) -> None:
    # `fossil server` writes to a repository that it serves, if it may. Without root, it runs as the owner.
    (repository / FOSSIL_FILE).chmod(0o444)


class Fossil(PlainSystem):
    """Fossil."""

    name = "fossil"
    title = "Fossil"
    fmt = "fossil"
    programs = ("fossil",)
    empty_name = "empty-fossil"
    store = FossilStore()
    accesses: ClassVar[Mapping[str, Access]] = {
        "http": {"scheme": "http", "files": [], "server": "fossil-server"},
        "file": {"scheme": "file", "files": [], "server": ""},
    }
    servers: ClassVar[Mapping[str, tuple[str, ...]]] = {"fossil-server": ("fossil",)}

    def name_on_server(self, name: str) -> str:
        return f"{name}/{FOSSIL_NAME}"
