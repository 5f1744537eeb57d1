"""Define the subjects of commands of git: a repository, a clone, a working tree, and the target of a push."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench import server_user
from vcsbench.errors import UserError
from vcsbench.storages.file_trees import copy_tree
from vcsbench.subjects import Words
from vcsbench.subjects.client_folder import Checkout, ClientFolder
from vcsbench.subjects.repository import Repository
from vcsbench.systems.git_program import object_format, run_git
from vcsbench.systems.git_store import create_bare

if TYPE_CHECKING:
    from vcsbench.records import Recipe, TreeRecord

HEADS = "refs/heads/"
# {busy_file} and {quiet_file} are searched in this number of commits. To list the files of all commits of a
# large repository takes minutes.
LISTED_COMMITS = 1000
# The modes of plain and of executable files. git cannot blame a submodule.
FILE_MODES = (b"100644 ", b"100755 ")
# The time of pushed commits: after all commits of a repository that was made before.
PUSHED_AT = 1_900_000_000
# Each pushed commit changes some files, up to this size.
FILES_PER_COMMIT = 2
CHANGED_FILE_BYTES = 100_000


class GitRepository(Repository):
    """A copy of a bare git repository, which is only read.

    Words: {repository} is its path, {url} its URL, and {branch} its branch (find_branch). Of the files that
    the last commits of this branch change, {busy_file} has the most changes, and {quiet_file} the fewest. In
    a generated history, {busy_file} has the most changes in all revisions, so it is the same in each system.
    """

    @cached_property
    def branch(self) -> str:
        return find_branch(self.path)

    @cached_property
    def changes(self) -> Counter[str]:
        """The number of changes of each file in the last commits of the branch, such as {"src/main.c": 12}.

        Only LISTED_COMMITS commits are searched. Links, submodules, and names that are not printable ASCII
        are left out. Raise UserError if no file is left.
        """
        ref = HEADS + self.branch
        existing_names = set()
        for line in run_git(self.path, "ls-tree", "-r", "-z", ref).split(b"\0"):
            # A line has mode, kind and object, a tab, and the name.
            facts, _, name = line.partition(b"\t")
            if facts.startswith(FILE_MODES):
                existing_names.add(name)
        # With -z, a NUL ends each name. An empty --format leaves out the facts about each commit.
        options = ("-z", f"--max-count={LISTED_COMMITS}", "--format=", "--name-only")
        # git lists no files for a merge, and may print line ends between the commits.
        logged = run_git(self.path, "log", *options, ref).replace(b"\n", b"")
        changes: Counter[str] = Counter()
        for name in logged.split(b"\0"):
            # The names become arguments of commands, such as `git blame`. So the files must still exist, and
            # each program must be able to print their names.
            if name in existing_names and name.isascii():
                text = name.decode("ascii")
                if text.isprintable():
                    changes[text] += 1
        if not changes:
            raise UserError(f"{self.path}: no commit changes a file. Leave out commands on a file.")
        return changes

    def _most_changed(self) -> str:
        # Of several files with the most changes, the first one by name.
        return min(self.changes, key=lambda name: (-self.changes[name], name))

    def words(self) -> Words:
        return {
            "repository": str(self.path),
            "branch": f"{HEADS}{self.branch}",
            "busy_file": lambda: self.metadata.get("busy_file") or self._most_changed(),
            "quiet_file": lambda: min(self.changes, key=lambda name: (self.changes[name], name)),
        }

    def idle_words(self) -> Words:
        return {
            "repository": str(self.path.with_name(self.idle_name)),
            "branch": "HEAD",
            "busy_file": "none",
            "quiet_file": "none",
        }

    def flags(self) -> list[str]:
        return ["apart"] if self.path.name in self.layout["apart"] else []


class _TemplateTarget(ClientFolder):
    """A folder for a command of git, with a clone as its template."""

    @property
    def repository(self) -> GitRepository:
        if not isinstance(self.input, GitRepository):
            raise UserError(
                f"`commands`: `output: {self.kind}` needs `input: git_repository`. Add it."
            )
        return self.input


class GitClone(_TemplateTarget):
    """A bare mirror without the last `revisions_behind` commits. {clone} is its path.

    Before each run, it is copied from its template.
    """

    kind = "git_clone"

    def _make(self, path: Path, temporary: Path) -> TreeRecord:
        make_older_clone(self.repository.path, path, temporary, self.commits)
        return {}

    def words(self) -> Words:
        return {"clone": str(self.path)}

    def restore(self) -> None:
        super().restore()
        copy_tree(self.template, self.path)


class GitCheckout(Checkout, _TemplateTarget):
    """A clone of a git repository with the working tree of HEAD."""

    kind = "git_checkout"

    def _make(self, path: Path, temporary: Path) -> TreeRecord:
        git = path / ".git"
        path.mkdir()
        make_older_clone(self.repository.path, git, temporary, self.commits)
        # The bare clone becomes one with a working tree: read-tree makes the index, the list of its files,
        # and checkout-index writes the files.
        run_git(git, "config", "core.bare", "false")
        run_git(git, "read-tree", "HEAD")
        run_git(git, "checkout-index", "-q", "-a", f"--prefix={path}/")
        return {}

    def _copy(self) -> None:
        super()._copy()
        # The index has the times and inodes of the template's files. With these, git would read all files of
        # the copy in each run. So git updates them here.
        run_git(self.path / ".git", f"--work-tree={self.path}", "update-index", "-q", "--refresh")


class GitPushTarget(_TemplateTarget):
    """A copy of the repository to which a command pushes, and the clone from which it pushes.

    {clone} is the path of the clone, which has `revisions_behind` new commits on HEAD's branch. No run
    changes it. {push_url} is the URL of the copy, which is made again before each run.
    """

    kind = "git_pushed"
    name = "pushed"

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        super().__init__(recipe, number, run, root)
        self.served = self.path
        self.folders = [self.path / self.name]

    def _make(self, path: Path, temporary: Path) -> TreeRecord:
        copy_refs(self.repository.path, path, refs_of(self.repository.path))
        add_commits(path, HEADS + self.repository.branch, self.commits)
        return {}

    def words(self) -> Words:
        return {"clone": self.template}

    def restore(self) -> None:
        """Make the copy to which the next run pushes, in a new folder that the server serves."""
        super().restore()
        self.path.mkdir()
        server_user.grant(self.path, 0o750)
        copy = self.folders[0]
        copy_tree(self.repository.path, copy)
        # By default, git's servers refuse the push of an anonymous client.
        for service in ("http.receivepack", "daemon.receivepack"):
            run_git(copy, "config", service, "true")
        # Root's servers, which run as another user, have to write to the copy.
        for folder, _, names in os.walk(copy):
            server_user.grant(Path(folder), 0o770)
            for name in names:
                server_user.grant(Path(folder, name), 0o660)


class GitRef(NamedTuple):
    """A ref such as refs/heads/main: its name, and the object that it leads to (`target`), such as "9f86...".

    The object of an annotated tag is the tag itself, and `peeled` is the object that the tag names, mostly a
    commit. For all other refs, `peeled` is "".
    """

    name: str
    target: str
    peeled: str = ""

    @property
    def commit(self) -> str:
        return self.peeled or self.target


def refs_of(repository: Path) -> list[GitRef]:
    """Return the refs of a repository: its branches, its tags, and other names of objects."""
    listed = run_git(repository, "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)")
    # Names of refs may have blanks and line ends of Unicode, so bytes are split, and not a text.
    return [GitRef(*map(os.fsdecode, line.split(b" "))) for line in listed.splitlines()]


def find_branch(repository: Path) -> str:
    """Return the branch of HEAD, or the first one if HEAD leads to no branch. Raise UserError without any."""
    listed = run_git(repository, "for-each-ref", "--format=%(HEAD)%(refname)", HEADS)
    # A line is "*refs/heads/main" for the branch of HEAD, and " refs/heads/other" for any other branch.
    lines = [os.fsdecode(line) for line in listed.splitlines()]
    if not lines:
        raise UserError(f"{repository}: has no branch. Make one, or leave out this repository.")
    chosen = next((line for line in lines if line.startswith("*")), lines[0])
    return chosen[1:].removeprefix(HEADS)


def copy_refs(repository: Path, path: Path, refs: Sequence[GitRef]) -> None:
    """Make a bare repository at `path` with `refs` of the repository, and all objects that they need."""
    create_bare(path, object_format(repository))
    (path / "HEAD").write_bytes(os.fsencode(f"ref: {HEADS}{find_branch(repository)}\n"))
    # The refs need their objects. So the new repository borrows the objects of the other one (alternates),
    # until `repack` has copied them.
    alternates = path / "objects" / "info" / "alternates"
    alternates.write_text(f"{repository / 'objects'}\n")
    lines = [f"update {ref.name} {ref.target}\n" for ref in refs]
    run_git(path, "update-ref", "--stdin", stdin=os.fsencode("".join(lines)))
    # All objects of the refs are copied to one pack. With -l, borrowed objects would be left out.
    run_git(path, "repack", "-a", "-d", "-q", "--no-write-bitmap-index")
    run_git(path, "pack-refs", "--all")
    alternates.unlink()


def make_older_clone(repository: Path, path: Path, temporary: Path, behind: int) -> None:
    """Make a bare mirror at `path`, without the last `behind` commits of a repository.

    It has the refs of the repository, moved back. `temporary` is a private folder on the same storage.
    """
    listed = run_git(repository, "rev-list", "--date-order", f"--max-count={behind}", "--all")
    new_commits = set(os.fsdecode(listed).split())
    parents: dict[str, list[str]] = {}
    # A line has a commit and its parents.
    for line in os.fsdecode(run_git(repository, "rev-list", "--parents", "--all")).splitlines():
        commit, *parents_of_commit = line.split()
        parents[commit] = parents_of_commit
    refs = list(_move_back(refs_of(repository), new_commits, parents))
    # The clone gets its path when it is complete.
    clone = temporary / "clone"
    copy_refs(repository, clone, refs)
    clone.rename(path)


def _move_back(
    refs: Sequence[GitRef], new_commits: set[str], parents: dict[str, list[str]]
) -> Iterator[GitRef]:
    """Yield the refs of a clone that lacks `new_commits`: none of them may lead to one of these commits.

    A ref of a new commit is moved back along first parents, to the first commit that is not new. An annotated
    tag, an object of its own that names a commit, cannot be moved, and is left out. A ref is also left out if
    all commits on its way back are new. `parents` has the parents of each commit in the history.
    """
    if not new_commits:
        yield from refs
        return
    for ref in refs:
        # Only an annotated tag has `peeled`, the object that the tag names.
        is_annotated_tag = bool(ref.peeled)
        # The tag names no commit but, for example, a second tag: git before 2.45 follows only the first one.
        # The commit behind the second tag may be new, so the tag is left out.
        if is_annotated_tag and ref.peeled not in parents:
            continue
        # The commit of an annotated tag is `peeled`. That of any other ref is the object that it leads to.
        if ref.commit not in new_commits:
            yield ref
        elif not is_annotated_tag:
            old_commit = _find_old_commit(ref.commit, new_commits, parents)
            if old_commit:
                yield GitRef(ref.name, old_commit)


def _find_old_commit(commit: str, new_commits: set[str], parents: dict[str, list[str]]) -> str:
    """Return the first commit that is not new, on the way back along first parents; "" without one."""
    while commit in new_commits:
        if not parents[commit]:
            return ""
        commit = parents[commit][0]
    return commit


def add_commits(repository: Path, ref: str, number: int) -> None:
    """Add a number of commits to the branch `ref`, such as refs/heads/main.

    Each commit appends text to FILES_PER_COMMIT files. Raise UserError if the branch has no suitable file.
    """
    files = _changeable_files(repository, ref)
    if not files:
        raise UserError(
            f"{repository}: has no file that a pushed commit could change. Leave out push."
        )
    # The input of git fast-import. A commit has a message and the whole content of each changed file (M, with
    # its mode). `data` is followed by the number of bytes and these bytes.
    stream = bytearray()
    contents: dict[bytes, bytes] = {}
    for commit in range(number):
        stream += b"commit %s\n" % os.fsencode(ref)
        stream += b"committer vcsbench <vcsbench@localhost> %d +0000\n" % (PUSHED_AT + commit)
        stream += b"data 8\nChange.\n\n"
        # The parent of the first commit is the present tip of the branch. `^0` is that commit itself: without
        # it, fast-import refuses a branch as its own start. Each later commit follows the one before it.
        if commit == 0:
            stream += b"from %s^0\n" % os.fsencode(ref)
        for change in range(commit * FILES_PER_COMMIT, (commit + 1) * FILES_PER_COMMIT):
            # The files are from all over the tree, a prime number of steps apart.
            name = files[change * 7919 % len(files)]
            if name not in contents:
                contents[name] = run_git(
                    repository, "cat-file", "blob", f"{ref}:{os.fsdecode(name)}"
                )
            contents[name] += b"\nvcsbench %d\n" % commit
            stream += b"M 100644 inline %s\n" % _quote(name)
            stream += b"data %d\n%s\n" % (len(contents[name]), contents[name])
    run_git(repository, "fast-import", "--quiet", stdin=bytes(stream))


def _changeable_files(repository: Path, ref: str) -> list[bytes]:
    """Return the names of plain files of up to CHANGED_FILE_BYTES. Names with a line end are left out."""
    names = []
    for line in run_git(repository, "ls-tree", "-r", "-l", "-z", ref).split(b"\0"):
        # A line has mode, kind, object and size, a tab, and the name.
        facts, _, name = line.partition(b"\t")
        if not facts.startswith(b"100644 ") or b"\n" in name:
            continue
        size = int(facts.split()[3])
        if size <= CHANGED_FILE_BYTES:
            names.append(name)
    return names


def _quote(name: bytes) -> bytes:
    """Return a path in quotation marks, as git fast-import reads it."""
    return b'"%s"' % name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
