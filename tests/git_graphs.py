"""Git repositories with branches, merges and tags, and what their conversion made of them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from git_histories import ENVIRONMENT, Node, exported, git, git_tree, write_and_load
from vcsbench import sources
from vcsbench.sources import Facts
from vcsbench.sources.dump_format import subversion_path


@dataclass(frozen=True)
class Point:
    """A commit to make: the positions of its parents, and what it changes in the first one's tree."""

    parents: tuple[int, ...] = ()
    nodes: Mapping[bytes, Node] = field(default_factory=dict)
    seconds: int | None = None


@dataclass(frozen=True)
class Graph:
    """Commits, and the positions of those that branches, tags and annotated tags name."""

    points: Sequence[Point]
    branches: Mapping[str, int]
    tags: Mapping[str, int] = field(default_factory=dict)
    annotated: Mapping[str, int] = field(default_factory=dict)


def make_graph(path: Path, graph: Graph) -> list[str]:
    """Make a bare repository, its current branch `main`; returns the commits' names."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "--bare", "-b", "main")
    parts = [_commit(at, point) for at, point in enumerate(graph.points)]
    for folder, names in (("heads", graph.branches), ("tags", graph.tags)):
        parts += [
            f"reset refs/{folder}/{n}\nfrom :{at + 1}\n\n".encode() for n, at in names.items()
        ]
    for name, at in graph.annotated.items():
        tagger = "tagger T. Agger <t@example.org> 1500000000 +0000"
        parts.append(f"tag {name}\nfrom :{at + 1}\n{tagger}\ndata 4\nTag\n\n".encode())
    parts += [b"reset refs/made/%d\nfrom :%d\n\n" % (at, at + 1) for at in range(len(graph.points))]
    git(path, "fast-import", "--quiet", "--force", stdin=b"".join(parts))
    names = [git(path, "rev-parse", f"refs/made/{at}") for at in range(len(graph.points))]
    git(path, "update-ref", "--stdin", stdin=b"".join(
        b"delete refs/made/%d\n" % at for at in range(len(graph.points))
    ))  # fmt: skip
    return [name.decode().strip() for name in names]


def _commit(at: int, point: Point) -> bytes:
    seconds = 1_000_000_000 + 60 * at if point.seconds is None else point.seconds
    message = b"Commit %d." % at
    head = b"commit refs/made/work\nmark :%d\ncommitter C <c@example.org> %d +0000\ndata %d\n%s\n" % (
        at + 1, seconds, len(message), message,
    )  # fmt: skip
    if not point.parents:
        head = b"reset refs/made/work\n\n" + head
    parents = [
        b"%s :%d\n" % (b"merge" if number else b"from", parent + 1)
        for number, parent in enumerate(point.parents)
    ]
    nodes = [_node(name, node) for name, node in point.nodes.items()]
    return b"".join([head, *parents, *nodes, b"\n"])


def _node(name: bytes, node: Node) -> bytes:
    quoted = b'"' + b"".join(b"\\%03o" % byte for byte in name) + b'"'
    if node is None:
        return b"D %s\n" % quoted
    mode, content = node
    return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), quoted, len(content), content)


def convert_whole(path: Path, into: Path, **options: str) -> Facts:
    """Convert all of a git repository's history into a new Subversion repository."""
    definition = {"source": "git", "path": str(path), "history": "whole", **options}
    return write_and_load(sources.open_source("mine", definition), into)


def svn(*arguments: str) -> str:
    """What an svn command prints."""
    done = subprocess.run(["svn", *arguments], check=True, capture_output=True, env=ENVIRONMENT)
    return done.stdout.decode()


def names(repository: Path, folder: str) -> set[str]:
    """What lies in a folder of the youngest revision."""
    return {name.rstrip("/") for name in svn("ls", f"file://{repository}/{folder}").split()}


def revprop(repository: Path, revision: int, name: str) -> str:
    """A property of a revision, or nothing."""
    argv = ["svnlook", "propget", "--revprop", "-r", str(revision), str(repository), name]
    return subprocess.run(argv, capture_output=True).stdout.decode()


def changed(repository: Path, revision: int) -> list[str]:
    """What a revision did, as `svnlook changed --copy-info` says: `A + path`, `(from path:r1)`."""
    argv = ["svnlook", "changed", "--copy-info", "-r", str(revision), str(repository)]
    lines = subprocess.run(argv, capture_output=True, check=True).stdout.decode().splitlines()
    return [" ".join(line.split()) for line in lines]


def line_of(repository: Path, revision: int) -> str:
    """The line of development that a revision changed."""
    paths = [
        words.split(" ")[-1] for words in changed(repository, revision) if "(from" not in words
    ]
    parts = paths[0].split("/")
    return parts[0] if parts[0] == "trunk" else "/".join(parts[:2])


def check_trees(path: Path, repository: Path, facts: Facts, graph: Graph) -> None:
    """Each revision's line, and at the end each branch and tag, is its commit's tree."""
    for revision in range(2, facts.revisions + 1):
        commit = revprop(repository, revision, "git:commit")
        if commit and changed(repository, revision):
            check_tree(path, commit, repository, revision, line_of(repository, revision))
    assert names(repository, "branches") == graph.branches.keys() - {"main"}
    assert names(repository, "tags") == graph.tags.keys() | graph.annotated.keys()
    youngest = facts.revisions
    check_tree(path, "main", repository, youngest, "trunk")
    for name in graph.branches.keys() - {"main"}:
        check_tree(path, f"refs/heads/{name}", repository, youngest, f"branches/{name}")
    for name in (*graph.tags, *graph.annotated):
        check_tree(path, f"refs/tags/{name}", repository, youngest, f"tags/{name}")


def check_tree(path: Path, commit: str, repository: Path, revision: int, tree: str) -> None:
    """A folder at a revision is the tree of a commit."""
    expected = {
        subversion_path(name): entry for name, entry in git_tree(path, f"{commit}^{{}}").items()
    }
    assert exported(repository, revision, tree) == expected, f"{tree} at revision {revision}"
