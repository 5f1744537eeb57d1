"""Define the subjects `repository`, `dump` and `fresh_repository`, and the metadata of copies."""

from __future__ import annotations

import os
import sys
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from vcsbench.errors import ChangedError, UserError
from vcsbench.files import read_json, read_record, write_json
from vcsbench.storages.file_trees import OddPaths, why_not_on_disk
from vcsbench.storages.filesystems import check_mounted
from vcsbench.subjects import Subject, Target, Words, require_axes
from vcsbench.systems import fsfs, repository_system, system_of
from vcsbench.systems.base import System

if TYPE_CHECKING:
    from vcsbench.records import (
        CopiesRecord,
        CopyMetadata,
        DumpRecord,
        Recipe,
        RecipeRepository,
        RepositoryFacts,
        SubjectFacts,
    )

REPOSITORIES = "repositories"
# Metadata of a copy that results do not have. Among them are paths of the history, which may be private.
_INTERNAL = (
    "variant", "copy", "path", "folder", "busy_file", "long_names", "reserved_names", "state", "digest",
)  # fmt: skip
# How many shards a round checks: to read the states of all takes longer than a run.
SAMPLED_SHARDS = 2


class Variant(NamedTuple):
    """A repository in one format and state. `identity` is a digest of its source (Source.identity).

    The state of a Subversion repository is its packing. The name of a variant is "ruby.f7.pack", for example.
    """

    repo: str
    format: str
    state: str
    identity: str

    @property
    def name(self) -> str:
        return f"{self.repo}.{self.format}.{self.state}"

    @property
    def system(self) -> System:
        return system_of(self.format)

    @property
    def is_made(self) -> bool:
        """Return True for a variant that is made from the loaded repository, and False for that one."""
        return self.system.is_made(self.state)

    @property
    def size_factor(self) -> float:
        """Return about how many times as large as the loaded repository the variant is."""
        return self.system.size_factor(self.state)


def dump_record(repo: str) -> str:
    """Return the file with the record of a repository's dump file."""
    return f"results/dumps/{repo}.json"


def copy_path(workdir: Path, name: str, copy: int) -> Path:
    """Return the folder of a copy of a variant, such as repositories/ruby.f7.pack.1 in the work folder."""
    return workdir / REPOSITORIES / f"{name}.{copy}"


def metadata_file(copy: Path) -> Path:
    """Return the metadata file of a copy. It is written last; without it, the copy is made again."""
    return copy.with_name(f"{copy.name}.json")


def write_metadata(copy: Path, content: CopyMetadata) -> None:
    write_json(metadata_file(copy), {**content, "path": str(copy)})


def read_metadata(copy: Path) -> CopyMetadata:
    """Return the metadata of a copy; {} if it is missing or unreadable. The copy is not checked."""
    return cast("CopyMetadata", read_json(metadata_file(copy)))


def published_metadata(metadata: CopyMetadata) -> RepositoryFacts:
    """Return the metadata of a copy that results have, such as {"youngest": 2762, "packed_shards": 2}."""
    facts = {key: value for key, value in metadata.items() if key not in _INTERNAL}
    return cast("RepositoryFacts", facts)


def check_copy(
    workdir: Path, variant: Variant, number: int, shards: int | None = SAMPLED_SHARDS
) -> CopyMetadata:
    """Check copy `number` of a variant, and return its metadata.

    `shards` is the number of random shards that are checked; None: all. Raise ChangedError if the copy is
    missing, was changed, or is of another source. A changed copy also loses its metadata, so that the next
    run makes it again.
    """
    copy = copy_path(workdir, variant.name, number)
    metadata = read_metadata(copy)
    problem = problem_with(copy, metadata, variant, number, shards)
    if not problem:
        return metadata
    # A copy of another source (`identity`) may be in order for another run, so it keeps its metadata.
    if metadata.get("identity") == variant.identity:
        metadata_file(copy).unlink(missing_ok=True)
    raise ChangedError(
        f"{copy}: the copy is missing or was changed: {problem}. `make report` makes it again."
    )


def problem_with(
    copy: Path, metadata: CopyMetadata, variant: Variant, number: int, shards: int | None = None
) -> str:
    """Return why the folder `copy` is not the unchanged copy `number` of a variant, as a clause; "" if it is.

    Example: "something changed in db/revs/3". `metadata` is {} if it is missing or unreadable. `shards` is
    the number of random shards that are checked; None: all.
    """
    if not copy.exists():
        return "it does not exist"
    if not metadata:
        file = metadata_file(copy)
        if file.exists():
            return f"{file.name} is not as it was written"
        return f"{file.name} is gone"
    # If somebody has moved or copied the folder here, its metadata still has the path where it was made.
    made_as = (metadata["path"], metadata.get("variant"), metadata.get("copy"))
    if made_as != (str(copy), variant.name, number):
        return (
            f"it belongs elsewhere: its metadata is that of copy {metadata.get('copy')} of "
            f"{metadata.get('variant')}, made as {metadata['path']}"
        )
    if metadata["identity"] != variant.identity:
        return "it was made from another source, or from an earlier state of the same source"
    store = variant.system.store
    mismatch = store.mismatch(copy, variant.format, variant.state, metadata["youngest"])
    if mismatch:
        return mismatch
    # The key `state` has a digest of each folder from when the copy was made. It is no state of a variant.
    digest_by_folder = metadata["state"]
    folder = store.changed_folder(copy, digest_by_folder, shards)
    if not folder:
        return ""
    return "something changed in its folder" if folder == "." else f"something changed in {folder}"


def check_copies_mounted(record: CopiesRecord) -> None:
    """Raise UserError if the storage is on another file system than when its copies were made."""
    # Copies on the disk below an unmounted storage would be measured under the name of the storage.
    check_mounted(
        Path(record["place"]).parent,
        record.get("mounted", []),
        "its copies were made",
        f" If it stays there, remove results/repositories/{record['storage']}.json: all of its cells "
        f"are measured again.",
    )


def empty_copy_ok(workdir: Path, system: System) -> bool:
    """Return True if the empty repository of a system is in a work folder, and unchanged."""
    empty = workdir / REPOSITORIES / system.empty_name
    metadata = read_metadata(empty)
    if metadata.get("path") != str(empty):
        return False
    return not system.store.changed_folder(empty, metadata["state"])


def last_dumped_revision(parts: Recipe, youngest: int = sys.maxsize) -> int:
    """Return the last revision of a dump: `revisions` of a recipe (`parts`), or the youngest without them."""
    if "revisions" not in parts:
        return youngest
    return min(scaled_revisions(parts["revisions"], parts), youngest)


def scaled_revisions(revisions: int, parts: Recipe) -> int:
    """Return a number of revisions at the scale of the repository: 500 of 50,000 at a scale of 0.01.

    The number stays as it is for a repository without a scale, which has its whole history, and for a command
    with `scale_revisions: false`.
    """
    scale = parts["repository"]["scale"]
    if scale is None or not parts.get("scale_revisions", True):
        return revisions
    return round(revisions * scale)


class Repository(Subject):
    """One of several equal copies of a repository, which is only read. The rounds take the copies in turn.

    Words: {tree} is the exported path, {folder} the largest folder below {tree}, {busy_file} its file with
    the most changes, {last} the last revision of a dump, {url} the URL on the server.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        """Choose the copy of the repository for round `number`. check() checks the copy."""
        super().__init__(recipe, number, run, root)
        # The record of all copies on the storage, with the folder that has them.
        (file,) = self.records(recipe)
        self.record = cast("CopiesRecord", read_record(root / file))
        self.workdir = Path(self.record["place"])
        # How the files of the copies lie on the device. `apart` has copies that are not interleaved.
        self.layout = self.record["layout"]
        # The rounds take the copies in turn: with three copies, round 4 has copy 1.
        self.copy = (number - 1) % self.record["copies"] + 1
        # The repository with its format and state, which are in the names of copies, such as ruby.f7.pack.1.
        self.variant = variant_of(recipe["repository"])
        self.prepared = copy_path(self.workdir, self.variant.name, self.copy)
        # A subclass may have a private copy of the prepared copy.
        self.path = self.prepared
        self.folders = [self.path]
        # The server serves the folder that has all copies, and an empty repository for idle runs. Both names
        # are those in URLs, which can be other names than on the disk.
        system = self.variant.system
        self.served = self.workdir / REPOSITORIES
        self.name = system.name_on_server(self.path.name)
        self.idle_name = system.name_on_server(system.empty_name)
        # check() reads the metadata of the copy.
        self.metadata: CopyMetadata = {}

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        # Several names of storages may have one folder, and so the same copies. `shelf` is the first name.
        return [f"results/repositories/{recipe['storage']['shelf']}.json"]

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        return True

    def check(self) -> None:
        """Check the copy, and set `metadata` and `size`.

        Raise ChangedError or UserError if the copy is not as it was made, and UserError if the cell writes a
        tree that no disk or working copy can hold.
        """
        self.metadata = self._check_copy(SAMPLED_SHARDS)
        odd_paths = OddPaths(
            self.metadata.get("long_names", 0), self.metadata.get("reserved_names", 0)
        )
        reason = why_not_on_disk(self.recipe, lambda: odd_paths)
        if reason:
            raise UserError(f"{reason}. Leave such cells out of the grid.")
        self.size = self.metadata["bytes"]

    def check_unchanged(self, closely: bool = False) -> None:
        # None means that all shards are checked, and 0 that none is.
        self._check_copy(None if closely else 0)

    def _check_copy(self, shards: int | None) -> CopyMetadata:
        """Return the metadata of the copy. Raise ChangedError or UserError if it is not as expected."""
        # In a guest, files have other times than those in the metadata, so the copy would seem to be changed.
        # The copy was checked on the host, before the guest was started.
        if self.recipe.get("is_in_guest"):
            return read_metadata(self.path)
        check_copies_mounted(self.record)
        return check_copy(self.workdir, self.variant, self.copy, shards)

    @property
    def tree(self) -> str:
        """The exported path, quoted for a URL. "" is the whole repository."""
        return urllib.parse.quote(self.metadata["tree"])

    def words(self) -> Words:
        return {
            "repository": str(self.path),
            "tree": self.tree,
            "folder": urllib.parse.quote(self.metadata["folder"]),
            "busy_file": urllib.parse.quote(self.metadata.get("busy_file", "")),
            "last": str(last_dumped_revision(self.recipe, self.metadata["youngest"])),
        }

    def idle_words(self) -> Words:
        return {
            "repository": str(self.path.with_name(self.variant.system.empty_name)),
            "tree": "",
            "folder": "",
            "busy_file": "",
            "last": "0",
        }

    def facts(self) -> SubjectFacts:
        # Recipe and metadata share some keys, such as the format. The value in the metadata counts.
        repository: RepositoryFacts = {
            **self.recipe["repository"],
            "variant": self.variant.name,
            **published_metadata(self.metadata),
            "path": str(self.path),
        }
        return {"copy": self.copy, "repository": repository, "layout": self.layout}

    def flags(self) -> list[str]:
        flags = []
        # Only full shards (folders of revisions) are packed, and this repository has none.
        if self.recipe["repository"].get("packed") and not self.metadata["packed_shards"]:
            flags.append("nothing-packed")
        # The files of this copy do not alternate on the device with the files of the other copies.
        if self.path.name in self.layout["apart"]:
            flags.append("apart")
        return flags


def variant_of(repository: RecipeRepository) -> Variant:
    """Return the variant of a recipe's repository. Raise UserError if the study lacks an axis."""
    system = repository_system(repository)
    # Each of these axes sets a key of `repository`, if the study has the axis. The axis `repo` sets `name`.
    axes = {"repo": "name" in repository}
    for axis in system.axes:
        axes[axis] = axis in repository
    require_axes("a command that reads a repository", axes)
    fmt, state = system.stored_as(repository)
    return Variant(repository["name"], fmt, state, repository["identity"])


class Dump(Subject):
    """A dump file of the first `revisions` of a repository, which is only read. {dump} is its path.

    The file is in the scratch folder, mostly in RAM. Otherwise measured times would include reading a disk.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        super().__init__(recipe, number, run, root)
        (file,) = self.records(recipe)
        self.record = cast("DumpRecord", read_record(root / file))
        self.load_options = self.record.get("load_options", [])
        self.path = Path(self.record.get("path", ""))
        self.folders = [self.path]
        self.size = self.record.get("bytes", 0)

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        return [dump_record(recipe["repository"]["name"])]

    def check(self) -> None:
        if file_state(self.path) != self.record.get("state"):
            raise ChangedError(
                f"{self.path}: is gone, or was changed. `make report` makes it again."
            )

    def check_unchanged(self, closely: bool = False) -> None:
        self.check()

    def words(self) -> Words:
        return {"dump": str(self.path), "load_options": self.load_options}

    def facts(self) -> SubjectFacts:
        repository: RepositoryFacts = {**self.recipe["repository"]}
        # The recipe's format is that of the repository that is loaded from the dump. A dump has no format.
        repository.pop("format", None)
        return {
            "repository": repository,
            "dump": {
                "name": repository["name"],
                "path": str(self.path),
                "bytes": self.size,
                "last": self.record["last"],
            },
        }


def file_state(path: Path) -> list[int]:
    """Return size, time in nanoseconds and inode of a file; [] if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ino]


class FreshRepository(Target):
    """A repository of the cell's format, made empty before each run. {fresh} is its path."""

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        has_format = "format" in recipe.get("repository", {})
        require_axes("a new repository", {"repo": "repository" in recipe, "format": has_format})
        super().__init__(recipe, number, run, root)

    def words(self) -> Words:
        return {"fresh": str(self.path)}

    def idle_words(self) -> Words:
        return {}

    def restore(self) -> None:
        super().restore()
        fsfs.create(self.path, self.recipe["repository"]["format"])

    def facts(self) -> SubjectFacts:
        return {"written": str(self.path)}
