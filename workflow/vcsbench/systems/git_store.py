"""Describe git repositories on disk: their states of upkeep and refs, and the check of a label.

A state has a name such as `one-pack`, or `bitmap_20000-loose` with a number and a storage of refs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench.errors import UserError
from vcsbench.programs import Programs
from vcsbench.storages.folder_states import StoredFile
from vcsbench.systems.base import FileStore, Steps, keep_commit_count
from vcsbench.systems.git_program import ON_PATH, git_version, read_head, run_git
from vcsbench.systems.git_shape import PACKS, GitShape, read_git_shape
from vcsbench.words import version_numbers

GIT_FORMAT = "git"


class Upkeep(StrEnum):
    """The state in which the objects of a repository are kept."""

    AS_IS = "as-is"
    # A pack for each of many pushes.
    MANY_PACKS = "many-packs"
    # One pack without more.
    ONE_PACK = "one-pack"
    # One pack with a bitmap, with a commit-graph, or with a commit-graph that has filters of changed paths.
    BITMAP = "bitmap"
    COMMIT_GRAPH = "commit-graph"
    CHANGED_PATHS = "changed-paths"
    # One pack with a bitmap, and a commit-graph with filters of changed paths.
    ALL_INDICES = "all-indices"
    # Many packs with a multi-pack index and its bitmap.
    MIDX_BITMAP = "midx-bitmap"
    # The same, and the setting with which git sends parts of all packs as they are, and not of one only.
    MIDX_REUSE = "midx-reuse"
    # Many packs after `git repack --geometric=2`.
    GEOMETRIC = "geometric"


# The states that have each part.
BITMAP_UPKEEPS = (Upkeep.BITMAP, Upkeep.ALL_INDICES)
CHANGED_PATHS_UPKEEPS = (Upkeep.CHANGED_PATHS, Upkeep.ALL_INDICES)
GRAPH_UPKEEPS = (Upkeep.COMMIT_GRAPH, *CHANGED_PATHS_UPKEEPS)
MIDX_UPKEEPS = (Upkeep.MIDX_BITMAP, Upkeep.MIDX_REUSE)
MANY_PACKS_UPKEEPS = (Upkeep.MANY_PACKS, *MIDX_UPKEEPS, Upkeep.GEOMETRIC)
UPKEEPS = [upkeep.value for upkeep in Upkeep]
# Many packs are made by pushes, and each needs a commit.
LEAST_PUSHES = 2
# How many times as large as one pack these are. 2.1 to 2.4 were measured: no delta refers to another pack.
SIZE_FACTORS: dict[str, float] = {
    Upkeep.MANY_PACKS: 2.5,
    Upkeep.MIDX_BITMAP: 2.5,
    Upkeep.MIDX_REUSE: 2.5,
}
AS_IS_REFS = "as-is"
PACKED_REFS, LOOSE_REFS, REFTABLE = "packed", "loose", "reftable"
REF_STORAGES = (PACKED_REFS, LOOSE_REFS, REFTABLE)
# The first release in which GIT_CONFIG_GLOBAL replaces the user's configuration (environment.git_settings).
# The settings in GIT_CONFIG_COUNT, such as gc.auto and safe.directory, need 2.31.
MEASURED_RELEASE = (2, 32)
# The first release with `git init --ref-format`.
REFTABLE_RELEASE = (2, 45)
# The first release with the options that make an upkeep: `commit-graph write --changed-paths`, `repack
# --geometric`, `multi-pack-index write --bitmap` and `pack.allowPackReuse=multi`. The other states need older
# options only.
UPKEEP_RELEASES: dict[str, tuple[int, int]] = {
    Upkeep.CHANGED_PATHS: (2, 27),
    Upkeep.ALL_INDICES: (2, 27),
    Upkeep.GEOMETRIC: (2, 32),
    Upkeep.MIDX_BITMAP: (2, 34),
    Upkeep.MIDX_REUSE: (2, 44),
}
FIRST_COMMIT = (
    b"commit refs/heads/trunk\ncommitter vcsbench <vcsbench@localhost> 1388534400 +0000\n"
    b"data 10\nAdd trunk.\ndone\n"
)
# Partial clones are allowed: a server that refuses a filter sends everything, with a warning only.
CONFIGURATION = """\
[core]
	repositoryformatversion = {version}
	filemode = true
	bare = true
[gc]
	auto = 0
[maintenance]
	auto = false
[uploadpack]
	allowFilter = true
{extensions}"""


class GitState(NamedTuple):
    """A state: one of UPKEEPS, the number of refs as a text or "as-is", and one of REF_STORAGES."""

    upkeep: str
    refs: str = AS_IS_REFS
    ref_storage: str = PACKED_REFS

    @property
    def name(self) -> str:
        if (self.refs, self.ref_storage) == (AS_IS_REFS, PACKED_REFS):
            return self.upkeep
        return f"{self.upkeep}_{self.refs}-{self.ref_storage}"

    @property
    def is_as_loaded(self) -> bool:
        """Return True for the loaded repository, which stays as it is."""
        return self.name == Upkeep.AS_IS


def parse_state(name: str) -> GitState:
    """Return the state with a name (GitState.name). Raise ValueError for another text.

    "bitmap_20000-loose" gives GitState("bitmap", "20000", "loose").
    """
    upkeep, _, refs = name.partition("_")
    # The number may be "as-is", so only the last "-" separates it from the storage.
    number, _, storage = refs.rpartition("-")
    state = GitState(upkeep, number, storage) if refs else GitState(upkeep)
    has_valid_refs = state.refs == AS_IS_REFS or state.refs.isdecimal()
    if upkeep not in UPKEEPS or state.ref_storage not in REF_STORAGES or not has_valid_refs:
        raise ValueError(f"{name} is no state of a git repository")
    return state


def why_git_too_old(version: str) -> str:
    """Return why git of a release, such as "2.30.2", cannot be measured, as a clause; "" if it can."""
    numbers = version_numbers(version)
    if numbers is not None and numbers >= MEASURED_RELEASE:
        return ""
    needed = ".".join(map(str, MEASURED_RELEASE))
    return (
        f"git is {version}, and vcsbench needs {needed} or later: an older git reads the user's "
        f"configuration"
    )


def why_no_state(state: GitState, version: str) -> str:
    """Return why a release of git, such as "2.39.5", cannot make a state, as a clause; "" if it can."""
    # The parts of the state that not all releases can make.
    first_releases: dict[str, tuple[int, int]] = {}
    if state.upkeep in UPKEEP_RELEASES:
        first_releases[state.upkeep] = UPKEEP_RELEASES[state.upkeep]
    if state.ref_storage == REFTABLE:
        first_releases[REFTABLE] = REFTABLE_RELEASE
    numbers = version_numbers(version)
    for part, first_release in first_releases.items():
        if numbers is None or numbers < first_release:
            needed = ".".join(map(str, first_release))
            return f"{part} needs git {needed} or later, and git is {version or 'not installed'}"
    return ""


def find_maker(state: GitState, builds: Sequence[Programs]) -> Programs | None:
    """Return the first git that can make a state: the one of the PATH, or of a build."""
    for programs in (ON_PATH, *builds):
        if not why_no_state(state, git_version(programs)):
            return programs
    return None


def create_bare(path: Path, object_format: str = "sha1", ref_storage: str = PACKED_REFS) -> None:
    """Make a bare repository without commits, and without the files of git's templates.

    `object_format` is the kind of digests, sha1 or sha256, and `ref_storage` one of REF_STORAGES.
    """
    for folder in ("objects/pack", "objects/info", "refs/heads", "refs/tags"):
        (path / folder).mkdir(parents=True)
    # A repository with extensions has format version 1, and its configuration names them in a section.
    extensions = []
    if object_format != "sha1":
        extensions.append(f"\tobjectFormat = {object_format}\n")
    if ref_storage == REFTABLE:
        extensions.append("\trefStorage = reftable\n")
    text = "".join(["[extensions]\n", *extensions]) if extensions else ""
    version = 1 if extensions else 0
    (path / "HEAD").write_text("ref: refs/heads/trunk\n")
    (path / "config").write_text(CONFIGURATION.format(version=version, extensions=text))


def write_commit_count(path: Path) -> int:
    """Count the commits that refs lead to, write their number next to git's files, and return it."""
    count = int(run_git(path, "rev-list", "--count", "--all"))
    keep_commit_count(path, count)
    return count


def list_packs(path: Path) -> list[Path]:
    """Return the packs of a repository, the oldest first."""
    return sorted((path / PACKS).glob("*.pack"), key=lambda pack: pack.stat().st_mtime_ns)


def set_pack_times(packs: Sequence[Path]) -> None:
    """Give all packs of a repository, the oldest first, times that are a second apart.

    An object may be in several packs. git reads it from the youngest pack, or from the oldest for a
    multi-pack index, and compares whole seconds. Pushes and copies write several packs in a second, so chance
    would decide what git reads and sends.
    """
    if not packs:
        return
    youngest_s = int(packs[-1].stat().st_mtime)
    for age_s, pack in enumerate(reversed(packs)):
        # The pack and the files that belong to it, such as its index.
        for file in pack.parent.glob(f"{pack.stem}.*"):
            os.utime(file, (youngest_s - age_s, youngest_s - age_s))


class GitStore(FileStore):
    """Bare git repositories. Their files are listed by their times: git prefers the youngest pack."""

    def create_empty(self, path: Path) -> None:
        """Make a repository with one commit of an empty tree, in one pack."""
        create_bare(path)
        run_git(path, "fast-import", "--quiet", "--done", stdin=FIRST_COMMIT)
        run_git(path, "pack-refs", "--all")
        write_commit_count(path)

    def mismatch(self, path: Path, fmt: str, state: str, last: int | None = None) -> str:
        try:
            shape = read_git_shape(path)
            label = parse_state(state)
        except (OSError, ValueError, UserError) as error:
            return f"it cannot be read as a git repository: {error}"
        if last is not None and shape.commits != last:
            return f"it has {shape.commits} commits, not {last}"
        # The loaded repository may have any packs, indices and refs.
        if label.is_as_loaded:
            return ""
        return _upkeep_mismatch(shape, label.upkeep) or _refs_mismatch(shape, label)

    def finish_copy(self, path: Path, files: Sequence[StoredFile]) -> None:
        # Copied packs may have the same time, so their order is that of the source's files.
        stored = [path / file.name for file in files if file.name.endswith(".pack")]
        # The name of a ref may end in .pack as well, so the folder counts.
        set_pack_times([pack for pack in stored if pack.parent == path / PACKS])

    def facts(self, path: Path) -> dict[str, Any]:
        """Return the numbers of commits (`youngest`), packs and refs, and the ref of HEAD, for results."""
        shape = read_git_shape(path)
        refs_count = shape.refs
        head = os.fsdecode((path / "HEAD").read_bytes()).removeprefix("ref: ").strip()
        if shape.has_reftable:
            # Only git can read a reftable, which has all refs and the real HEAD. For each ref, git prints a
            # line: for a symbolic ref, the ref to which it leads, and for any other ref an empty line. Only
            # the empty lines count.
            symbolic_targets = run_git(path, "for-each-ref", "--format=%(symref)").splitlines()
            refs_count = symbolic_targets.count(b"")
            head = read_head(path)
        return {
            "youngest": shape.commits,
            "packs": shape.packs,
            "refs_count": refs_count,
            "head_ref": head,
        }

    def steps(self, path: Path) -> Steps:
        """Return the packs, the oldest first."""
        packs = list_packs(path)
        kind = f"{len(packs)} packs"
        ends = {kind: len(packs)}
        return Steps(kind, ends, last=len(packs) - 1, file=lambda step: packs[step])


def _upkeep_mismatch(shape: GitShape, upkeep: str) -> str:
    """Return the first difference between a repository and a state of upkeep, as a clause; "" if none.

    Example: "it has 7 packs, and not one" for the state "bitmap".
    """
    if upkeep == Upkeep.AS_IS:
        return ""
    if shape.loose_objects:
        return f"it has {shape.loose_objects} loose objects"
    # The number of packs. For the geometric upkeep, any number is right, even one for a short history. But
    # each pack must have at least twice the objects of the next smaller one.
    if upkeep == Upkeep.GEOMETRIC:
        # From the smallest pack to the largest.
        counts = shape.packed_objects
        is_geometric = all(larger >= 2 * smaller for smaller, larger in pairwise(counts))
        if not is_geometric:
            return (
                f"its packs of {', '.join(map(str, counts))} objects are no geometric progression"
            )
    elif upkeep in MANY_PACKS_UPKEEPS:
        if shape.packs < 2:
            return f"it has {shape.packs} pack, and not many"
    elif shape.packs != 1:
        return f"it has {shape.packs} packs, and not one"
    # Each other part must exist in the upkeeps that have it, and in no other.
    for part, exists, is_expected in (
        ("bitmap", shape.has_bitmap, upkeep in BITMAP_UPKEEPS),
        ("multi-pack index", shape.has_midx, upkeep in MIDX_UPKEEPS),
        ("bitmap of a multi-pack index", shape.has_midx_bitmap, upkeep in MIDX_UPKEEPS),
        ("setting to reuse several packs", shape.reuses_packs, upkeep == Upkeep.MIDX_REUSE),
        ("commit-graph", shape.has_graph, upkeep in GRAPH_UPKEEPS),
        ("filter of changed paths", shape.has_changed_paths, upkeep in CHANGED_PATHS_UPKEEPS),
    ):
        if exists and not is_expected:
            return f"it has a {part}"
        if is_expected and not exists:
            return f"it has no {part}"
    return ""


def _refs_mismatch(shape: GitShape, label: GitState) -> str:
    """Return the first difference between the refs of a repository and its label, as a clause; "" if none."""
    if shape.has_reftable != (label.ref_storage == REFTABLE):
        return "it has a reftable" if shape.has_reftable else "it has no reftable"
    # The shape has no number of the refs in a reftable.
    if shape.has_reftable:
        return ""
    if label.ref_storage == PACKED_REFS and shape.loose_refs:
        return f"{shape.loose_refs} of its refs are files"
    if label.ref_storage == LOOSE_REFS and shape.packed_refs:
        return f"{shape.packed_refs} of its refs are packed"
    if label.refs != AS_IS_REFS and shape.refs != int(label.refs):
        return f"it has {shape.refs} refs, not {label.refs}"
    return ""
