"""A local git repository as a source that stays as it is: its objects, packs, indices and refs are copied.

Nothing else is copied: no configuration, hook, attribute, graft, index or work tree. git reads the
repository through a private folder (git_repository), and nothing in the repository is changed or run.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import one_line, open_regular
from vcsbench.history_forms import HistoryForm
from vcsbench.sources import git_objects
from vcsbench.sources.base import Facts, SizeEstimate, format_notes, readable
from vcsbench.sources.git_layout import find_object_folders, read_optional, read_ref
from vcsbench.sources.git_repository import LIST_BYTES, Git
from vcsbench.sources.git_source import GitSource

AS_IS_HISTORY = "as-is"
BRANCHES = "refs/heads/"
# Refs of one work tree, and of replaced objects, which change what git reads.
LEFT_OUT_REFS = ("refs/replace/", "refs/bisect/", "refs/worktree/", "refs/rewritten/")
REPLACED = "refs/replace/"
# The label of a copy as it is has the storage of refs `packed` in any case. So a note has the other refs.
LOOSE_REFS_NOTE = "Refs that are a file each (loose), and stay so in the copy as it is"
# Files of a folder of objects that git reads: those of a pack, and all others. A pack may have any name, such
# as loose-0a4d.pack by `git maintenance`. git gives names with a dot or tmp_ in front to unfinished packs.
_PACK = re.compile(r"(pack/(?!tmp_)[A-Za-z0-9][^/]*)\.(pack|idx|rev|bitmap|mtimes)")
_OTHER_FILES = re.compile(
    r"pack/multi-pack-index(-[0-9a-f]+\.(bitmap|rev))?"
    r"|info/(commit-graph|commit-graphs/(commit-graph-chain|graph-[0-9a-f]+\.graph))"
    r"|[0-9a-f]{2}/([0-9a-f]{38}|[0-9a-f]{62})"
)
# These describe the objects of one folder, so they are wrong for the objects of several.
_OF_ONE_FOLDER = ("pack/multi-pack-index", "info/")


class ObjectFile(NamedTuple):
    """A file of a folder of objects: its path, its name there such as pack/pack-0a4d.idx, and its size."""

    path: str
    name: str
    size: int


class StoredRefs(NamedTuple):
    """The refs of a repository as files: the file packed-refs, and the refs in files of their own (loose).

    `packed` is the content of packed-refs. `loose` has the content of each loose ref by its name, such as
    {"refs/heads/main": b"0a4d55a8..."}. `replaced` is the number of replaced objects that are left out, and
    `dangling` the number of symbolic refs that are left out because they lead to no ref.
    """

    packed: bytes
    loose: dict[str, bytes]
    replaced: int
    dangling: int


class GitCopySource(GitSource):
    """A git repository as it is: all refs, and the files of its objects."""

    doing = "copying the repository"
    keys = ("path", "history")

    @property
    def forms(self) -> frozenset[HistoryForm]:
        """The files alone: a repository as it is is neither converted nor streamed."""
        return frozenset({HistoryForm.GIT_FILES})

    def _read_identity(self, git: Git) -> str:
        """Return a digest of HEAD, the refs, and names and sizes of the files of objects."""
        # These two calls are made only for their errors.
        self._check_can_be_copied(git)
        self._find_commit(git)
        # Commands such as log and push need a branch. A clone of a tag has none (a detached HEAD).
        if not git.output("for-each-ref", "--count=1", BRANCHES):
            raise self._path_error(
                "has no local branch, as after a clone of a tag. Run `git branch NAME` in it."
            )
        state = hashlib.sha256(b"git as-is " + git.head + b"\n")
        state.update(git.output("for-each-ref", "--format=%(objectname) %(refname) %(symref)"))
        # `git repack` changes the files of objects, but no object. git reads the new files faster or slower.
        for file in sorted(_list_objects(find_object_folders(git.layout.common))):
            state.update(f"{file.name} {file.size}\n".encode())
        return state.hexdigest()

    def check(self) -> None:
        # This raises the errors of _read_identity().
        self.identity()

    def check_unchanged(self, identity: str) -> None:
        # identity() always returns the digest of its first call, so the digest is computed again here. A copy
        # of files is no snapshot, so the repository must not change until its last file is copied.
        with self._open() as git:
            if self._read_identity(git) != identity:
                raise self.changed_error()

    def describe(self) -> str:
        """Return such as `git repository /srv/x as it is, HEAD at 0123456789ab`."""
        with self._open() as git:
            commit = self._find_commit(git)[:12]
        return f"git repository {one_line(self._path)} as it is, HEAD at {commit}"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        """The size of the files of objects. Raise UserError if the youngest tree is damaged."""
        with self._open() as git:
            commits = int(git.output("rev-list", "--count", "--all"))
            # read_tree() is called only for its error.
            git_objects.read_tree(git, self._find_commit(git))
            files = _list_objects(find_object_folders(git.layout.common))
            size = sum(file.size for file in files)
            return SizeEstimate(commits, size, has_revision_files=False)

    def write(self, out: BinaryIO) -> Facts:
        raise self._options.error(
            "history",
            f"a repository as it is ({AS_IS_HISTORY}) cannot be loaded into Subversion. Use `first-parent`.",
        )

    def object_format(self) -> str:
        """Return the kind of digests that name the objects: sha1 or sha256."""
        with self._open() as git:
            return git.output("rev-parse", "--show-object-format").decode("ascii").strip()

    def copy_to(self, path: Path) -> Facts:
        """Copy HEAD, refs and objects into an empty bare repository, which has the same object_format().

        The user may commit, or run `git gc`, in the meantime. Raise UserError if the repository has changed
        since the first call of identity(), or if it changes during the copy. Return facts with notes on what
        was left out, on borrowed objects, and on loose refs.
        """
        with self._open() as git:
            # identity() keeps the digest of its first call, and _read_identity() reads that of now.
            if self._read_identity(git) != self.identity():
                raise self.changed_error()
            common = git.layout.common
            (path / "HEAD").write_bytes(git.head + b"\n")
        # The refs are copied before the objects: a commit in between must leave no ref without its object.
        refs = _read_refs(common)
        _write_refs(refs, path)
        object_folders = find_object_folders(common)
        self._copy_objects(object_folders, path / "objects")
        # A `git gc` while the files were listed may have moved objects to a pack that is not in the list. The
        # copy would then look damaged, so the digest is read again.
        self.check_unchanged(self.identity())
        has_grafts = read_optional(common / "info" / "grafts", LIST_BYTES) != b""
        # A symbolic ref is always a file, so it does not count.
        loose_refs = sum(_find_target(content) is None for content in refs.loose.values())
        borrowed_note = "Other repositories whose objects are borrowed (alternates) and were copied"
        counts = {
            "Replaced objects (refs/replace) left out": refs.replaced,
            "Symbolic refs without their branch left out": refs.dangling,
            "Grafts left out": int(has_grafts),
            borrowed_note: len(object_folders) - 1,
            LOOSE_REFS_NOTE: loose_refs,
        }
        return Facts(notes=format_notes(counts))

    def _copy_objects(self, folders: list[Path], objects: Path) -> None:
        """Copy the files of all folders of objects into one. Raise UserError if git removes one of them."""
        # The list is complete before the first file is copied. Otherwise a `git gc` during the copy could
        # remove files that are not listed yet, and the copy would lack their new pack.
        files = list(_list_objects(folders))
        try:
            for file in files:
                _copy_object(file, objects)
        except FileNotFoundError:
            # git has packed the objects since they were listed, and removed their files.
            raise self.changed_error() from None

    def _check_can_be_copied(self, git: Git) -> None:
        """Raise UserError for a shallow or partial clone."""
        if git.shallow:
            raise self._path_error(
                "is a shallow clone, whose history begins in the middle. Run `git fetch --unshallow` in it, "
                "or clone it again without --depth."
            )
        for folder in find_object_folders(git.layout.common):
            # A file with this ending marks a pack whose missing objects a server has.
            if any((folder / "pack").glob("*.promisor")):
                raise self._path_error(
                    "is a partial clone, which lacks objects. Clone it again without --filter."
                )


def _list_objects(folders: list[Path]) -> Iterator[ObjectFile]:
    """Yield the files of all folders of objects, each name once, without those that are being written."""
    # git usually names packs and loose objects by digests of their content. Equal names mean equal objects.
    seen = set()
    for folder in folders:
        for file in _list_folder(folder):
            # An index of the objects of one folder would be wrong in a copy with those of several folders.
            is_wrong = len(folders) > 1 and file.name.startswith(_OF_ONE_FOLDER)
            if file.name not in seen and not is_wrong:
                seen.add(file.name)
                yield file


def _list_folder(folder: Path) -> Iterator[ObjectFile]:
    """Yield the files of one folder of objects that git reads."""
    with readable(folder):
        for subfolder, _, files in os.walk(folder):
            prefix = os.path.relpath(subfolder, folder)
            # Such as pack/pack-0a4d.idx.
            names = {os.path.join(prefix, file) for file in files}
            for name in sorted(names):
                pack = _PACK.fullmatch(name)
                # While git writes or removes a pack, its .pack or its .idx is missing.
                is_whole_pack = pack is not None and {f"{pack[1]}.pack", f"{pack[1]}.idx"} <= names
                if is_whole_pack or _OTHER_FILES.fullmatch(name):
                    path = os.path.join(folder, name)
                    try:
                        size = os.stat(path).st_size
                    except FileNotFoundError:
                        # git has packed the object since the folder was listed. copy_to() finds this out.
                        continue
                    yield ObjectFile(path, name, size)


def _copy_object(file: ObjectFile, objects: Path) -> None:
    """Copy a file with its time: git prefers the youngest pack."""
    copy = objects / file.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    with open(open_regular(file.path), "rb") as source, copy.open("xb") as target:
        status = os.fstat(source.fileno())
        shutil.copyfileobj(source, target, 1 << 20)
    os.utime(copy, ns=(status.st_mtime_ns, status.st_mtime_ns))
    copy.chmod(0o444)


def _read_refs(common: Path) -> StoredRefs:
    """Read the refs as they are stored. Leave out LEFT_OUT_REFS, and symbolic refs that lead to no ref."""
    # `git gc` writes a ref to packed-refs before it removes the ref's file. So packed-refs is read last, as
    # git does.
    contents = dict(_read_loose_refs(common))
    packed_names = []
    packed_lines = []
    is_left_out = False
    for line in read_optional(common / "packed-refs", LIST_BYTES).splitlines(keepends=True):
        # A line that begins with # is a comment. One that begins with ^ is about the ref in the line before.
        if not line.startswith((b"^", b"#")):
            name = os.fsdecode(line.partition(b" ")[2].rstrip())
            packed_names.append(name)
            is_left_out = name.startswith(LEFT_OUT_REFS)
        if not is_left_out:
            packed_lines.append(line)
    replaced = sum(name.startswith(REPLACED) for name in (*packed_names, *contents))
    loose_names = [name for name in contents if not name.startswith(LEFT_OUT_REFS)]
    valid_targets = {*packed_names, *loose_names}
    loose = {}
    dangling = 0
    for name in loose_names:
        target = _find_target(contents[name])
        # After its branch was deleted, refs/remotes/origin/HEAD leads to no ref. git ignores it, but `git
        # fsck` fails, so it is not copied.
        if target is None or target in valid_targets:
            loose[name] = contents[name]
        else:
            dangling += 1
    return StoredRefs(b"".join(packed_lines), loose, replaced, dangling)


def _write_refs(refs: StoredRefs, path: Path) -> None:
    """Write refs to the repository at `path`, in the same files as they were read from."""
    for name, content in refs.loose.items():
        copy = path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content + b"\n")
    if refs.packed:
        (path / "packed-refs").write_bytes(refs.packed)


def _find_target(content: bytes) -> str | None:
    """Return the name of the ref that a symbolic ref leads to; None for the content of another ref."""
    if not content.startswith(b"ref:"):
        return None
    return os.fsdecode(content.removeprefix(b"ref:").strip())


def _read_loose_refs(common: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each ref in a file: the name of an object, or `ref: ` and another ref."""
    for folder, _, names in os.walk(common / "refs"):
        for file in sorted(names):
            # git is writing a file with this ending.
            if file.endswith(".lock"):
                continue
            path = Path(folder, file)
            try:
                content = read_ref(path)
            except UserError:
                # git has packed or deleted the ref since the folder was listed. That is no fault.
                if os.path.lexists(path):
                    raise
                continue
            yield os.path.relpath(path, common), content
