"""Git repositories to convert, and what a conversion made of them, revision by revision."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from vcsbench import sources
from vcsbench.sources.base import Facts, Source
from vcsbench.sources.dump_format import subversion_path

FILE, EXECUTABLE, SYMLINK, SUBMODULE = "100644", "100755", "120000", "160000"
# One path of a commit: its mode and content, or None where the commit deletes it.
Node = tuple[str, bytes] | None
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A. U. Thor",
    "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_COMMITTER_NAME": "C. O. Mitter",
    "GIT_COMMITTER_EMAIL": "committer@example.org",
}


@dataclass(frozen=True)
class Entry:
    """One path of a tree: "dir", "file", "executable" or "symlink", and its content or target."""

    kind: str
    content: bytes = b""


Tree = dict[bytes, Entry]


def git(path: Path, *arguments: str, stdin: bytes = b"", **environment: str) -> bytes:
    """What a git command prints, run in a clean environment."""
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", "-C", path, *arguments],
        input=stdin,
        capture_output=True,
        env=ENVIRONMENT | environment,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


@dataclass
class Commit:
    """A commit to make: what it changes, and what is said of it. Its parent is the one before."""

    nodes: Mapping[bytes, Node]
    message: bytes = b"A message.\n"
    seconds: int | None = None
    encoding: str = ""
    author: bytes = b"A. U. Thor"


def make_git(path: Path, commits: Sequence[Commit], *options: str) -> Path:
    """A bare repository at `path` with these commits on its branch `main`."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "--bare", "-b", "main", *options)
    parts = []
    for number, commit in enumerate(commits):
        seconds = 1_000_000_000 + 60 * number if commit.seconds is None else commit.seconds
        parts.append(b"commit refs/heads/main\n")
        parts.append(b"author %s <a@example.org> %d +0100\n" % (commit.author, seconds))
        parts.append(b"committer C. O. Mitter <c@example.org> %d +0100\n" % seconds)
        if commit.encoding:
            parts.append(b"encoding %s\n" % commit.encoding.encode())
        parts.append(b"data %d\n%s\n" % (len(commit.message), commit.message))
        parts.extend(_node(name, node) for name, node in commit.nodes.items())
    git(path, "fast-import", "--quiet", "--date-format=raw-permissive", stdin=b"".join(parts))
    return path


def _node(name: bytes, node: Node) -> bytes:
    quoted = b'"' + b"".join(b"\\%03o" % byte for byte in name) + b'"'
    if node is None:
        return b"D %s\n" % quoted
    mode, content = node
    if mode == SUBMODULE:
        return b"M %s %s %s\n" % (mode.encode(), content, quoted)
    return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), quoted, len(content), content)


def commits_of(path: Path, branch: str = "HEAD") -> list[str]:
    """The commits along first parents, the oldest first: revisions 2 and up."""
    return git(path, "rev-list", "--first-parent", "--reverse", branch).decode().split()


def git_tree(path: Path, commit: str) -> Tree:
    """The tree of a commit without submodules."""
    entries = []
    tree: Tree = {}
    for line in git(path, "ls-tree", "-r", "-t", "-z", commit).split(b"\0")[:-1]:
        head, _, name = line.partition(b"\t")
        mode, kind, blob = head.split(b" ")
        if kind == b"blob":
            entries.append((name, mode.decode(), blob))
        elif kind == b"tree":
            tree[name] = Entry("dir")
    answers = git(path, "cat-file", "--batch", stdin=b"".join(b + b"\n" for _, _, b in entries))
    kinds = {FILE: "file", EXECUTABLE: "executable", SYMLINK: "symlink"}
    for name, kind_mode, _ in entries:
        head, _, answers = answers.partition(b"\n")
        size = int(head.split()[2])
        tree[name] = Entry(kinds[kind_mode], answers[:size])
        answers = answers[size + 1 :]
    return tree


def write_and_load(source: Source, into: Path) -> Facts:
    """Write a source's stream into a new Subversion repository at `into`, through svnadmin load."""
    with tempfile.TemporaryFile() as stream:
        facts = source.write(stream)
        assert source.coming() == facts.revisions, "it had said so"
        stream.seek(0)
        subprocess.run(["svnadmin", "create", into], check=True)
        done = subprocess.run(
            ["svnadmin", "load", "-q", "--no-flush-to-disk", into],
            stdin=stream,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return facts


def exported(repository: Path, revision: int, tree: str = "trunk") -> Tree:
    """What `svn export` of a revision writes."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "export"
        url = f"file://{repository.resolve()}/{tree}@{revision}"
        done = subprocess.run(
            ["svn", "export", "-q", "--ignore-externals", "-r", str(revision), url, target],
            capture_output=True,
            env=ENVIRONMENT | {"HOME": folder},
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return {bytes(name): entry for name, entry in _walk(os.fsencode(target), b"")}


def _walk(top: bytes, below: bytes) -> list[tuple[bytes, Entry]]:
    found = []
    for item in os.scandir(os.path.join(top, below)):
        name = os.path.join(below, item.name)
        if item.is_symlink():
            found.append((name, Entry("symlink", os.readlink(item.path))))
        elif item.is_dir():
            found.append((name, Entry("dir")))
            found.extend(_walk(top, name))
        else:
            executable = item.stat().st_mode & 0o100
            content = Path(os.fsdecode(item.path)).read_bytes()
            found.append((name, Entry("executable" if executable else "file", content)))
    return found


def digest(source: Source) -> str:
    """The digest of the stream that a source writes."""
    with tempfile.TemporaryFile() as stream:
        source.write(stream)
        stream.seek(0)
        return hashlib.sha256(stream.read()).hexdigest()


def listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Each path at or below a folder with its mode, size and time of change."""
    paths = [folder, *folder.rglob("*")]
    states = {str(path): path.lstat() for path in paths}
    return {path: (s.st_mode, s.st_size, s.st_mtime_ns) for path, s in states.items()}


def git_source(path: Path, **options: str) -> Source:
    return sources.open_source("mine", {"source": "git", "path": str(path), **options})


def convert(path: Path, into: Path, **options: str) -> Facts:
    """Convert a git repository; every revision's export must equal its commit's tree."""
    facts = write_and_load(git_source(path, **options), into)
    commits = commits_of(path, options.get("branch", "HEAD"))
    assert facts.revisions == len(commits) + 1
    for revision, commit in enumerate(commits, 2):
        tree = git_tree(path, commit)
        expected = {subversion_path(name): entry for name, entry in tree.items()}
        assert exported(into, revision) == expected, f"revision {revision}"
    return facts


def converted(folder: Path, *commits: Commit) -> Facts:
    """Make these commits, convert them to folder/svn, and compare."""
    return convert(make_git(folder / "git", commits), folder / "svn")


def log(repository: Path) -> list[dict[str, str]]:
    """Author, date, message and git:commit of each revision but 0, the oldest first."""
    text = subprocess.run(
        ["svn", "log", "--xml", "--with-all-revprops", "-r1:HEAD", f"file://{repository}"],
        check=True, capture_output=True, env=ENVIRONMENT,
    ).stdout  # fmt: skip
    found = []
    for entry in ElementTree.fromstring(text):
        words = {child.tag: child.text or "" for child in entry}
        words |= {p.attrib["name"]: p.text or "" for p in entry.iter("property")}
        found.append(words)
    return found
