"""Git repositories to convert, and readers of the resulting Subversion repositories."""

import hashlib
import io
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

from project import needs
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources.base import Facts, Source
from vcsbench.sources.svn_names import subversion_path
from vcsbench.subjects.tree import checkout_head

needs_git = needs("svnadmin", "git")
FILE, EXECUTABLE, SYMLINK, SUBMODULE = "100644", "100755", "120000", "160000"
# Mode and content of a path, or None if the commit deletes it.
Node = tuple[str, bytes] | None
# "dir", "file", "executable" or "symlink", and the content or target.
Entry = tuple[str, bytes]
DIR: Entry = ("dir", b"")
Tree = dict[bytes, Entry]
ENVIRONMENT = {
    "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A. U. Thor", "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_COMMITTER_NAME": "C. O. Mitter", "GIT_COMMITTER_EMAIL": "committer@example.org",
}  # fmt: skip


def run(*argv: str | Path, stdin: bytes = b"", env: Mapping[str, str] = ENVIRONMENT) -> bytes:
    """Return the output of a program in a clean environment."""
    done = subprocess.run(argv, input=stdin, capture_output=True, env=env)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def git(path: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    return run("git", "-c", "protocol.file.allow=always", "-C", path, *arguments, stdin=stdin)


@dataclass
class Commit:
    """A commit: changes to the tree of its first parent. `parents` are indices; None is the commit before."""

    nodes: Mapping[bytes, Node]
    message: bytes = b"A message.\n"
    seconds: int | None = None
    encoding: str = ""
    author: bytes = b"A. U. Thor"
    parents: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Graph:
    """Commits, and the indices of the commits of branches, tags and annotated tags."""

    commits: Sequence[Commit]
    branches: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, int] = field(default_factory=dict)
    annotated: Mapping[str, int] = field(default_factory=dict)


def make_git(path: Path, history: Sequence[Commit] | Graph, *options: str) -> Path:
    """Create a bare repository with the current branch `main`, by default with all commits."""
    graph = history if isinstance(history, Graph) else Graph(history)
    branches = graph.branches or ({"main": len(graph.commits) - 1} if graph.commits else {})
    path.mkdir(parents=True)
    git(path, "init", "-q", "--bare", "-b", "main", *options)
    parts = []
    for number, commit in enumerate(graph.commits):
        seconds = 1_000_000_000 + 60 * number if commit.seconds is None else commit.seconds
        parents = commit.parents
        if parents is None:
            parents = (number - 1,) if number else ()
        parts.append(b"" if parents else b"reset refs/made\n\n")
        parts.append(b"commit refs/made\nmark :%d\n" % (number + 1))
        parts.append(b"author %s <a@example.org> %d +0100\n" % (commit.author, seconds))
        parts.append(b"committer C. O. Mitter <c@example.org> %d +0100\n" % seconds)
        if commit.encoding:
            parts.append(b"encoding %s\n" % commit.encoding.encode())
        parts.append(b"data %d\n%s\n" % (len(commit.message), commit.message))
        words = [b"from", *[b"merge"] * len(parents)]
        parts += [b"%s :%d\n" % (w, p + 1) for w, p in zip(words, parents, strict=False)]
        parts += [_node(name, node) for name, node in commit.nodes.items()]
    for folder, names in (("heads", branches), ("tags", graph.tags)):
        for name, at in names.items():
            parts.append(f"reset refs/{folder}/{name}\nfrom :{at + 1}\n\n".encode())
    for name, at in graph.annotated.items():
        tagger = "tagger T. Agger <t@example.org> 1500000000 +0000"
        parts.append(f"tag {name}\nfrom :{at + 1}\n{tagger}\ndata 4\nTag\n\n".encode())
    words_of_git = ("fast-import", "--quiet", "--force", "--date-format=raw-permissive")
    git(path, *words_of_git, f"--export-marks={path}/marks", stdin=b"".join(parts))
    git(path, "update-ref", "-d", "refs/made")
    return path


TEXT = b"".join(b"line %d\n" % number for number in range(40))
MERGED = Graph(
    [
        Commit({b"a": (FILE, TEXT), b"d/b": (FILE, b"b")}),  # 0, trunk
        Commit({b"side": (FILE, b"1")}, parents=(0,)),  # 1, on a merged branch without a name
        Commit({b"a": (FILE, TEXT + b"more\n")}, parents=(0,)),  # 2, trunk
        Commit({b"side": (FILE, b"2")}, parents=(1,)),  # 3
        Commit({b"side": (FILE, b"2")}, parents=(2, 3)),  # 4, the merge
        Commit({b"d/c": (EXECUTABLE, b"c")}, parents=(2,)),  # 5, stable
        Commit({b"end": (FILE, b"")}, parents=(4,)),  # 6, trunk
    ],
    branches={"main": 6, "stable": 5, "same": 2},
    tags={"v1": 2},
    annotated={"v2": 5},
)


def names_of(path: Path) -> list[str]:
    """Return the names of the commits that make_git() made, in its order."""
    lines = (line.split() for line in (path / "marks").read_text().splitlines())
    marks = {int(mark[1:]): name for mark, name in lines}
    return [marks[number] for number in sorted(marks)]


def _node(name: bytes, node: Node) -> bytes:
    quoted = b'"' + b"".join(b"\\%03o" % byte for byte in name) + b'"'
    if node is None:
        return b"D %s\n" % quoted
    mode, content = node
    if mode == SUBMODULE:
        return b"M %s %s %s\n" % (mode.encode(), content, quoted)
    return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), quoted, len(content), content)


def git_tree(path: Path, commit: str) -> Tree:
    """Return the tree of a commit without submodules, with the paths that Subversion can have."""
    blobs = []
    tree: Tree = {}
    for line in git(path, "ls-tree", "-r", "-t", "-z", f"{commit}^{{}}").split(b"\0")[:-1]:
        head, _, name = line.partition(b"\t")
        mode, kind, blob = head.split(b" ")
        if kind == b"blob":
            blobs.append((subversion_path(name), mode.decode(), blob))
        elif kind == b"tree":
            tree[subversion_path(name)] = DIR
    answers = git(path, "cat-file", "--batch", stdin=b"".join(b + b"\n" for _, _, b in blobs))
    kinds = {FILE: "file", EXECUTABLE: "executable", SYMLINK: "symlink"}
    for name, mode_of_blob, _ in blobs:
        header, _, answers = answers.partition(b"\n")
        size = int(header.split()[2])
        tree[name] = (kinds[mode_of_blob], answers[:size])
        answers = answers[size + 1 :]
    return tree


def write_and_load(source: Source, into: Path) -> Facts:
    """Load a source's stream into a new Subversion repository."""
    with tempfile.TemporaryFile() as stream:
        facts = source.write(stream)
        assert source.expected_revisions() == facts.revisions
        stream.seek(0)
        run("svnadmin", "create", into)
        argv = ["svnadmin", "load", "-q", "--no-flush-to-disk", into]
        done = subprocess.run(argv, stdin=stream, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return facts


def exported(repository: Path, revision: int, tree: str = "trunk") -> Tree:
    """Return the files of a tree at a revision."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "export"
        url = f"file://{repository.resolve()}/{tree}@{revision}"
        argv = ("svn", "export", "-q", "--ignore-externals", "-r", str(revision), url, target)
        run(*argv, env=ENVIRONMENT | {"HOME": folder})
        return tree_on_disk(target)


def tree_on_disk(root: Path) -> Tree:
    tree: Tree = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                entry = ("symlink", os.readlink(path))
            elif os.path.isdir(path):
                entry = DIR
            else:
                is_executable = os.stat(path).st_mode & 0o100
                content = Path(os.fsdecode(path)).read_bytes()
                entry = ("executable" if is_executable else "file", content)
            tree[os.path.relpath(path, os.fsencode(root))] = entry
    return tree


def digest(source: Source) -> str:
    with tempfile.TemporaryFile() as stream:
        source.write(stream)
        stream.seek(0)
        return hashlib.sha256(stream.read()).hexdigest()


def listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return mode, size and ctime of each path at or below a folder: any write changes them."""
    states = {str(path): path.lstat() for path in [folder, *folder.rglob("*")]}
    return {path: (s.st_mode, s.st_size, s.st_ctime_ns) for path, s in states.items()}


def git_source(path: Path, **options: str) -> Source:
    return sources.open_source("mine", {"source": "git", "path": str(path), **options})


def convert(path: Path, into: Path, **options: str) -> Facts:
    """Convert a git repository. The export of every revision must equal the tree of its commit."""
    facts = write_and_load(git_source(path, **options), into)
    branch = options.get("branch", "HEAD")
    commits = git(path, "rev-list", "--first-parent", "--reverse", branch).decode().split()
    assert facts.revisions == len(commits) + 1
    for revision, commit in enumerate(commits, 2):
        assert exported(into, revision) == git_tree(path, commit), f"revision {revision}"
    return facts


def log(repository: Path) -> list[dict[str, str]]:
    """Return author, date, message and properties of each revision but 0, the oldest first."""
    argv = ("svn", "log", "--xml", "--with-all-revprops", "-r1:HEAD", f"file://{repository}")
    entries = []
    for entry in ElementTree.fromstring(run(*argv)):
        words = {child.tag: child.text or "" for child in entry}
        words |= {p.attrib["name"]: p.text or "" for p in entry.iter("property")}
        entries.append(words)
    return entries


def changed(repository: Path, revision: int) -> list[str]:
    """Return the changes of a revision as `A + path`, `(from path:r1)`."""
    argv = ("svnlook", "changed", "--copy-info", "-r", str(revision), repository)
    return [" ".join(line.split()) for line in run(*argv).decode().splitlines()]


CONTENT = {
    ".gitattributes": b"* filter=canary diff=canary text eol=crlf ident\n",
    "plain.txt": b"one\ntwo $Id$\n",
    "run.bin": bytes(range(256)),
}


def make_work(path: Path) -> Path:
    """Make a work tree with one commit whose attributes name a filter for every file."""
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for name, content in CONTENT.items():
        (path / name).write_bytes(content)
        # With these two commands, the attributes change no content.
        blob = git(path, "hash-object", "-w", "--no-filters", name).decode().strip()
        git(path, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    git(path, "commit", "-q", "-m", "one")
    return path


def resolve(path: Path, name: str) -> str:
    return git(path, "rev-parse", name).decode().strip()


def write_blob(path: Path, content: bytes) -> str:
    return git(path, "hash-object", "-w", "--stdin", stdin=content).decode().strip()


def check_out(source: Source, folder: Path) -> list[str]:
    """Write the youngest tree of a source to folder/tree, and return the notes."""
    folder.mkdir()
    return checkout_head(source.head(), folder / "tree", "svn")


def refusal(path: Path, **options: str) -> str:
    """Return the error of a plan. It must be one line."""

    def plan() -> None:
        source = sources.open_source("mine", {**sources.detect(str(path)), **options})
        source.check()
        source.estimate()

    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        plan()
    return str(caught.value)


def read_everything(path: Path, folder: Path) -> Path:
    """Detect, estimate, convert and take the tree of a repository, as plan and run do."""
    source = sources.open_source("mine", sources.detect(str(path)))
    source.check()
    source.identity()
    source.describe()
    source.estimate()
    source.write(io.BytesIO())
    check_out(source, folder)
    return folder / "tree"
