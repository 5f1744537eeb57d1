"""Load a source into a bare git repository, bring copies of it into states, and verify them."""

import contextlib
import shutil
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from vcsbench import processes, progress
from vcsbench.errors import UserError
from vcsbench.prepare.git_refs import set_refs
from vcsbench.prepare.preparation import Preparation, Task, check_stop, describe_load
from vcsbench.programs import Programs
from vcsbench.records import LoadRecord
from vcsbench.sources import Source
from vcsbench.sources.base import Facts
from vcsbench.sources.git_copy_source import GitCopySource
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.filesystems import raise_write_error
from vcsbench.systems import git_store
from vcsbench.systems.base import COMMITS
from vcsbench.systems.git_program import (
    ON_PATH,
    git_version,
    keep_git,
    object_format,
    run_git,
    start_git,
)
from vcsbench.systems.git_shape import (
    GRAPH,
    GRAPHS,
    MULTI_PACK_INDEX,
    PACKS,
    REUSE_KEY,
    REUSE_VALUE,
)
from vcsbench.systems.git_store import GitState, GitStore, Upkeep

# The number of pushes that make many packs: from 50 packs on, git repacks by default.
PUSHES = 50
# After this number of pushes, the geometric upkeep repacks. It leaves a few packs of different sizes.
PUSHES_PER_REPACK = 7
GEOMETRIC_REPACK = ("repack", "--geometric=2", "-d", "-q", "--no-write-bitmap-index")
PUSHED = "refs/vcsbench-pushed/"
# By default, a server unpacks pushes of less than 100 objects. With this command, each push is a pack.
RECEIVE = "git -c receive.unpackLimit=1 receive-pack"
REPACK = ("repack", "-a", "-d", "-q", "--no-write-bitmap-index")
BITMAP_REPACK = ("repack", "-a", "-d", "-q", "--write-bitmap-index")
DIGEST_MODULUS = 1 << 256
# Old objects of many histories have these faults, which are no damage.
TOLERATED_FAULTS = (
    "zeroPaddedFilemode", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "missingEmail",
    "missingNameBeforeEmail", "badDate", "badDateOverflow", "badEmail", "badName", "badTimezone",
    "zeroPaddedDate", "multipleAuthors", "missingTaggerEntry", "badTagName",
)  # fmt: skip
CHECK_AGAIN = "Run again to make it again."


class MadeState(NamedTuple):
    """A repository in a state, and the seconds of the commands that brought it into its upkeep."""

    path: Path
    upkeep_s: float


class GitPreparation(Preparation):
    """The preparation of bare git repositories."""

    def load(self, source: Source, fmt: str, staging: Path) -> LoadRecord:
        """Load a source into the repository `git.as-is` in the folder `staging`, and return facts about it.

        `fmt` is always "git". Raise UserError if the source is damaged, or cannot be loaded.
        """
        begun = time.monotonic()
        path = staging / f"{fmt}.{Upkeep.AS_IS}"
        with progress.stage(source.doing, unit="commits"):
            if isinstance(source, GitCopySource):
                # The user's repository is measured as it is, so the files of objects and refs are copied.
                git_store.create_bare(path, source.object_format())
                facts = source.copy_to(path)
                verify_git(path, f"{source.describe()}: the repository is damaged")
            else:
                facts = import_history(source, path)
                # The import has searched few deltas. With -f, git searches deltas between all objects again.
                run_git(path, *REPACK, "-f")
                run_git(path, "pack-refs", "--all")
        commits = git_store.write_commit_count(path)
        record = describe_load(source, facts, Upkeep.AS_IS, commits, begun)
        # Later, vcsbench reads packs, indices and refs without git (read_git_shape). So this checks that what
        # the present git writes can be read.
        mismatch = GitStore().mismatch(path, fmt, Upkeep.AS_IS)
        if mismatch:
            raise UserError(f"{path}: was loaded, but {mismatch}. Use another git.")
        return record

    def make_states(
        self, loaded: Path, states: Sequence[str], builds: Sequence[Programs] = ()
    ) -> dict[str, float]:
        """Make a repository in each state from the loaded one, such as "bitmap" or "bitmap_20000-loose".

        A state is an upkeep ("bitmap": how git has stored the objects), perhaps with a number and a storage
        of refs. Return the seconds of git's commands for each upkeep: {"bitmap": 4.2}. If the git on the PATH
        is too old for a state, that of one of `builds` makes the state.
        """
        seconds_by_upkeep: dict[str, float] = {}
        with progress.stage("making states", len(states), "states") as stage:
            for index, name in enumerate(states):
                stage.done = index
                state = git_store.parse_state(name)
                seconds = make_state(loaded, state, builds).upkeep_s
                # Several states may have one upkeep, and git's commands take longer with many added refs. So
                # the time with the loaded repository's own refs counts. Without it, the first time does.
                has_own_refs = state.refs == git_store.AS_IS_REFS
                if has_own_refs or state.upkeep not in seconds_by_upkeep:
                    seconds_by_upkeep[state.upkeep] = seconds
        return seconds_by_upkeep

    def list_tasks(self, folder: Path, fmt: str, stop: threading.Event) -> list[Task]:
        paths = sorted(folder.glob(f"{git_store.GIT_FORMAT}.*"))
        # A killed job may have left an incomplete repository, whose name ends with `.new`.
        complete_paths = [path for path in paths if path.suffix != ".new"]
        return [partial(_verify_states, complete_paths, stop)]


def import_history(source: Source, path: Path) -> Facts:
    """Make a repository of a source's stream for `git fast-import`, and return facts about its history.

    The objects are in one large pack: fast-import searches few deltas between them. Raise UserError if git
    fails, and OSError if the storage is full.
    """
    git_store.create_bare(path)
    # `facts` stays None if git ends before the source has written everything.
    facts = None
    # Callers write the pack again or read it once, so it need not be small.
    settings = {"pack.compression": "1", "core.compression": "1"}
    arguments = ("fast-import", "--quiet", "--done")
    with start_git(path, *arguments, stdin=processes.PIPE, settings=settings) as program:
        # If git fails, it ends early. The reason is in its messages, which are read below.
        with contextlib.suppress(BrokenPipeError):
            facts = source.write_fast_import(cast("BinaryIO", program.process.stdin))
        program.close_input()
        if program.process.wait() != 0:
            raise_write_error(program.errors(), path)
            raise program.failed()
    # git ended early, but its exit code is 0.
    if not facts:
        raise UserError(f"{path}: git fast-import did not read all of the history. Run again.")
    return facts


def make_state(loaded: Path, state: GitState, builds: Sequence[Programs] = ()) -> MadeState:
    """Make a repository in a state next to the loaded one, and replace an existing one in this state.

    GitState("bitmap", "20000", "loose") is an upkeep (how git has stored the objects), a number of refs and
    their storage. If the git on the PATH is too old for the state, that of one of `builds` makes it. After an
    error, no incomplete repository is left. Raise UserError if git fails, or makes another state.
    """
    maker = git_store.find_maker(state, builds)
    if maker is None:
        reason = git_store.why_no_state(state, git_version())
        raise UserError(f"{loaded}: {reason}. Leave such cells out of the grid.")
    path = loaded.with_name(f"{git_store.GIT_FORMAT}.{state.name}")
    new = path.with_name(f"{path.name}.new")
    # `path` may come from an earlier load, and `new` from a killed job.
    for old in (path, new):
        remove_path(old)
    try:
        upkeep_s = _fill_state(new, loaded, state, maker)
        mismatch = GitStore().mismatch(new, git_store.GIT_FORMAT, state.name)
        if mismatch:
            raise UserError(f"{new}: git made another state: {mismatch}. Use another git.")
    # BaseException also covers the SystemExit after a signal.
    except BaseException:
        remove_path(new)
        raise
    new.rename(path)
    return MadeState(path, upkeep_s)


def _fill_state(new: Path, loaded: Path, state: GitState, maker: Programs) -> float:
    """Make the repository `new` in a state by the git of `maker`.

    Return the seconds of the commands for the upkeep, such as `git repack`: the time that an administrator
    would wait. The copy and the refs are no part of it.
    """
    _copy_objects(loaded, new, state.upkeep)
    if maker != ON_PATH:
        # A note in the repository: from here on, run_git() uses this git for it and for its copies.
        keep_git(new, maker)
    # Bitmaps and commit-graphs are made for the refs that exist, so the refs are set first.
    set_refs(new, loaded, state)
    if _has_one_pack(state.upkeep):
        _remove_surplus(new)
    begun = time.monotonic()
    _bring_into_upkeep(new, state.upkeep)
    upkeep_s = time.monotonic() - begun
    # The copied file COMMITS has the number of commits in the loaded repository. The refs of the state may
    # lead to fewer commits, so they are counted again.
    (new / COMMITS).unlink(missing_ok=True)
    git_store.write_commit_count(new)
    return upkeep_s


def _copy_objects(loaded: Path, new: Path, upkeep: str) -> None:
    """Make a repository with the objects of a loaded one: by a copy or, for many packs, by pushes."""
    if upkeep not in git_store.MANY_PACKS_UPKEEPS:
        shutil.copytree(loaded, new)
        return
    # The MIDX_UPKEEPS are MANY_PACKS with an index over all packs. A copy of a repository with MANY_PACKS is
    # faster than pushes.
    many_packs = loaded.with_name(f"{git_store.GIT_FORMAT}.{Upkeep.MANY_PACKS}")
    # A missing repository has a mismatch, too.
    mismatch = GitStore().mismatch(many_packs, git_store.GIT_FORMAT, Upkeep.MANY_PACKS)
    if upkeep in git_store.MIDX_UPKEEPS and not mismatch:
        shutil.copytree(many_packs, new)
    else:
        _push_in_parts(loaded, new, is_geometric=upkeep == Upkeep.GEOMETRIC)


def _has_one_pack(upkeep: str) -> bool:
    # "as-is" stays as it is.
    return upkeep != Upkeep.AS_IS and upkeep not in git_store.MANY_PACKS_UPKEEPS


def _remove_surplus(path: Path) -> None:
    """Remove what the next repack may leave: commit-graphs, multi-pack indices, unreachable loose objects."""
    # States that need a commit-graph get a new one later. No state with one pack has a multi-pack index.
    for part in (path / GRAPH, path / GRAPHS, *(path / PACKS).glob(f"{MULTI_PACK_INDEX}*")):
        remove_path(part)
    run_git(path, "prune", "--expire=now")


def _bring_into_upkeep(path: Path, upkeep: str) -> None:
    """Bring the objects of a repository into a state of upkeep: first its packs, then the indices for them.

    For example, "all-indices" is one pack with a bitmap, and then a commit-graph with changed paths. "as-is"
    and "many-packs" are ready already (_copy_objects).
    """
    # 1. One pack, with or without a bitmap. The upkeeps with many packs have them already.
    if upkeep in git_store.BITMAP_UPKEEPS:
        run_git(path, *BITMAP_REPACK)
    elif _has_one_pack(upkeep):
        run_git(path, *REPACK)
    elif upkeep == Upkeep.GEOMETRIC:
        # The pushes of the last commits have added small packs since the last repack (_push_in_parts).
        run_git(path, *GEOMETRIC_REPACK)
    # 2. A commit-graph, or an index over many packs (midx).
    if upkeep == Upkeep.COMMIT_GRAPH:
        run_git(path, "commit-graph", "write", "--reachable", "--no-progress")
    elif upkeep in git_store.CHANGED_PATHS_UPKEEPS:
        run_git(path, "commit-graph", "write", "--reachable", "--changed-paths", "--no-progress")
    elif upkeep in git_store.MIDX_UPKEEPS:
        run_git(path, "multi-pack-index", "write", "--bitmap", "--no-progress")
    # 3. The setting with which git sends parts of all packs. It is in the repository's own file `config`.
    if upkeep == Upkeep.MIDX_REUSE:
        run_git(path, "config", REUSE_KEY, REUSE_VALUE)


def _push_in_parts(loaded: Path, path: Path, is_geometric: bool) -> None:
    """Make a repository with many packs at `path`: push the commits of a loaded one to it, the oldest first.

    Each of up to PUSHES (50) pushes becomes a pack. With `is_geometric`, the new repository is repacked
    between pushes, as a server does. Raise UserError if there is one commit.
    """
    git_store.create_bare(path, object_format(loaded))
    # All commits, parents before their children: the name of each, and the names of its parents.
    commits = []
    arguments = ("rev-list", "--date-order", "--reverse", "--parents", "--all")
    for line in run_git(loaded, *arguments).decode("ascii").splitlines():
        commit, *parents = line.split()
        commits.append((commit, parents))
    if len(commits) < git_store.LEAST_PUSHES:
        raise UserError(f"{loaded}: has one commit, too few for many packs. Use another upkeep.")
    parts = min(PUSHES, len(commits))
    # The index of the last commit of each part: {1, 3, 5, ...} for 100 commits in 50 parts.
    ends = {len(commits) * number // parts - 1 for number in range(1, parts + 1)}
    # The heads of the present part, as keys: its commits that have no child in the part. A push of the heads
    # also pushes the rest of the part. The heads of all parts would be too long for a command line.
    heads: dict[str, None] = {}
    pushes = 0
    with progress.stage("pushing", len(commits), "commits") as stage:
        for index, (commit, parents) in enumerate(commits):
            stage.done = index
            for parent in parents:
                heads.pop(parent, None)
            heads[commit] = None
            if index in ends:
                # A pushed commit needs a ref. make_state() replaces these refs by the state's.
                _push(loaded, path, [f"{head}:{PUSHED}{head}" for head in heads])
                heads.clear()
                pushes += 1
                if is_geometric and pushes % PUSHES_PER_REPACK == 0:
                    run_git(path, *GEOMETRIC_REPACK)
    # This push of all refs adds the tags with a message: objects that no commit leads to.
    _push(loaded, path, ["+refs/*:refs/*"])
    # git prefers younger packs, and compares whole seconds. Several pushes may fall into the same second.
    git_store.set_pack_times(git_store.list_packs(path))


def _push(loaded: Path, path: Path, refspecs: Sequence[str]) -> None:
    run_git(loaded, "push", "-q", f"--receive-pack={RECEIVE}", str(path), *refspecs)


def verify_git(path: Path, failure: str = "") -> None:
    """Check all objects, packs, indices and refs of a repository. Raise UserError if it is damaged.

    The error begins with `failure`, or with the failed command if `failure` is "".
    """
    settings = {f"fsck.{name}": "ignore" for name in TOLERATED_FAULTS}
    arguments = ("fsck", "--full", "--no-dangling", "--no-progress")
    try:
        run_git(path, *arguments, settings=settings)
    except UserError as error:
        if not failure:
            raise
        # The user does not know the copy at `path`, so only git's message is kept.
        reason = str(error).partition("git fsck failed: ")[2].replace(f"{path}/", "")
        raise UserError(f"{failure}: {reason}. `git fsck` in it lists the faults.") from error


def _verify_states(paths: Sequence[Path], stop: threading.Event) -> None:
    """Raise UserError if a repository is damaged, or if two states of a history have different objects.

    `paths` are repositories with the same history, each with its state in its name, as in git.bitmap. If
    `stop` is set, raise CancelledError before the next one.
    """
    path_by_digest: dict[str, Path] = {}
    with progress.stage("verifying", len(paths), "repositories") as stage:
        for index, path in enumerate(paths):
            stage.done = index
            check_stop(stop)
            verify_git(path)
            state = git_store.parse_state(path.name.partition(".")[2])
            # A state with a number of refs, such as bitmap_20000-loose, has other refs on purpose.
            if state.refs == git_store.AS_IS_REFS:
                path_by_digest[digest_objects(path)] = path
    if len(path_by_digest) > 1:
        first, second, *_ = path_by_digest.values()
        raise UserError(f"{second}: has other objects or refs than {first.name}. {CHECK_AGAIN}")


def digest_objects(path: Path) -> str:
    """Return a digest of all objects that the refs of a repository lead to, and of the refs."""
    total = 0
    with start_git(path, "rev-list", "--objects", "--no-object-names", "--all") as program:
        for line in program.stdout:
            # A sum, because states may list the objects in different orders.
            total += int(line, 16)
        program.finish()
    refs = run_git(path, "for-each-ref", "--format=%(objectname) %(refname)")
    return f"{total % DIGEST_MODULUS:064x} {refs.decode('utf-8', 'surrogateescape')}"
