"""Git repositories with branches, merges and tags, made in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from git_histories import Node, git


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
