"""Subversion as a system: its repositories are FSFS, in a format and packed or not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from vcsbench.formats import PACKED
from vcsbench.history_forms import HistoryForm
from vcsbench.storages.folder_states import StoredFile
from vcsbench.systems import fsfs
from vcsbench.systems.base import Steps, Store, System

if TYPE_CHECKING:
    from vcsbench.records import Access, RecipeRepository

# The format of Subversion 1.8, because the programs of an old build must be able to open the repository.
EMPTY_FORMAT = "f6"
# The revisions of a shard by the defaults of svnadmin.
SHARD_REVISIONS = 1000


class FsfsStore(Store):
    """FSFS repositories. Their state is the packing."""

    def create_empty(self, path: Path) -> None:
        fsfs.create(path, EMPTY_FORMAT)

    def mismatch(self, path: Path, fmt: str, state: str, last: int | None = None) -> str:
        return fsfs.mismatch(path, fmt, state, last)

    def facts(self, path: Path) -> dict[str, Any]:
        shape = fsfs.check_shape(path)
        return {"youngest": shape.youngest, "packed_shards": shape.packed}

    def list_files(self, path: Path) -> list[StoredFile]:
        return fsfs.list_files(path)

    def is_sampled(self, folder: str) -> bool:
        return fsfs.is_shard(folder)

    def steps(self, path: Path) -> Steps:
        """Return the shards of a packed repository, or the revisions of another one."""
        shape = fsfs.check_shape(path)
        revisions = path / "db" / "revs"
        ends = {"packed": shape.packed, "unpacked": shape.youngest}

        def packed_file(shard: int) -> Path:
            return revisions / f"{shard}.pack" / "pack"

        def unpacked_file(revision: int) -> Path:
            return revisions / fsfs.revision_file(revision, shape.shard)

        if shape.packed:
            return Steps("packed", ends, last=shape.packed - 1, file=packed_file)
        return Steps("unpacked", ends, last=shape.youngest, file=unpacked_file)


class Subversion(System):
    """Subversion."""

    name = "subversion"
    title = "Subversion"
    programs = ("svn", "svnadmin", "svnbench", "svnlook", "svnrdump", "svnsync", "svnserve")
    # Repositories are made and checked by them.
    required_programs = ("svn", "svnadmin", "svnserve")
    axes = ("format", "packing")
    # With the format, because an empty repository of another format may be left from an earlier version.
    empty_name = f"empty-{EMPTY_FORMAT}"
    store = FsfsStore()
    # "" is for commands without a server, such as `svnadmin dump`.
    accesses: ClassVar[Mapping[str, Access]] = {
        "http": {"scheme": "http", "files": ["httpd.conf", "client"], "server": "httpd"},
        "https": {"scheme": "https", "files": ["httpd.conf", "client"], "server": "httpd"},
        "svn": {"scheme": "svn", "files": ["svnserve.args", "client"], "server": "svnserve"},
        "svn+ssh": {"scheme": "svn+ssh", "files": ["svnserve.args", "client"], "server": "sshd"},
        "file": {"scheme": "file", "files": ["client"], "server": ""},
        "": {"scheme": "", "files": ["svnadmin.args", "load.args"], "server": ""},
    }

    servers: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "svnserve": ("svnserve",),
        "httpd": ("httpd", "mod_dav_svn"),
        "sshd": ("sshd", "svnserve"),
    }
    loadable_forms = frozenset({HistoryForm.DUMP})

    def has_format(self, fmt: str) -> bool:
        return fmt.startswith("as-is") or re.match("f[0-9]", fmt) is not None

    def stored_as(self, repository: RecipeRepository) -> tuple[str, str]:
        return repository["format"], repository["packing"]

    def describe(self, fmt: str, state: str) -> dict[str, str]:
        return {"format": fmt, "packing": state}

    def why_not_loaded(self, name: str, source_kind: str) -> str:
        return (
            f"{name} stays a git repository (`history: as-is`), which Subversion cannot load; use `history: "
            f"first-parent`"
        )

    def estimate_steps(self, state: str, revisions: int) -> int:
        """Return the number of revisions, or of the files of a packed repository: full shards, and others."""
        if state != PACKED:
            return revisions
        # Revisions are numbered from 0. The revisions behind the last full shard are not packed.
        shards, unpacked = divmod(revisions + 1, SHARD_REVISIONS)
        return shards + unpacked

    def is_made(self, state: str) -> bool:
        return state == PACKED
