"""Whole git histories of any shape, and real ones: each line has its commits' trees."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_graphs import (
    Graph,
    Point,
    changed,
    check_tree,
    check_trees,
    convert_whole,
    line_of,
    make_graph,
    names,
)
from git_histories import EXECUTABLE, FILE, log

pytestmark = pytest.mark.skipif(
    not (shutil.which("svnadmin") and shutil.which("git")), reason="not installed: svnadmin or git"
)

TEXT = b"".join(b"line %d\n" % number for number in range(40))
file_names = st.sampled_from([b"a", b"b", b"c/d", b"c/e/f", b"c", b"\xff/g"])
files = st.one_of(
    st.none(),
    st.tuples(st.sampled_from([FILE, EXECUTABLE]), st.sampled_from([b"1\n", b"2\n", TEXT])),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    points = []
    for at in range(draw(st.integers(1, 8))):
        parents = draw(st.lists(st.integers(0, at - 1), max_size=3, unique=True)) if at else []
        nodes = draw(st.dictionaries(file_names, files, max_size=3))
        points.append(Point(tuple(parents), nodes, draw(st.integers(10**9, 10**9 + 100))))
    positions = st.integers(0, len(points) - 1)
    return Graph(
        points,
        {"main": draw(positions), **draw(st.dictionaries(st.sampled_from("xyz"), positions))},
        draw(st.dictionaries(st.sampled_from("12"), positions)),
        draw(st.dictionaries(st.sampled_from("34"), positions)),
    )


QUICKLY = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


def check_graph(graph: Graph) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, repository = Path(folder) / "git", Path(folder) / "svn"
        make_graph(path, graph)
        check_trees(path, repository, convert_whole(path, repository), graph)


@given(graphs())
@settings(QUICKLY, max_examples=4)
def test_any_graph_keeps_its_trees(graph: Graph) -> None:
    check_graph(graph)


@pytest.mark.slow
@given(graphs())
@settings(QUICKLY, max_examples=100)
def test_any_of_many_graphs_keeps_its_trees(graph: Graph) -> None:
    check_graph(graph)


REVISIONS = 50
REAL = [path for path in os.environ.get("VCSBENCH_REAL_GIT", "").split(":") if path]


@pytest.mark.slow
@pytest.mark.skipif(
    not REAL, reason="VCSBENCH_REAL_GIT is not set: paths of git repositories, colons between"
)
@pytest.mark.parametrize("path", REAL or [""])
def test_the_lines_of_a_real_history(path: str, tmp_path: Path) -> None:
    repository = tmp_path / "svn"
    facts = convert_whole(Path(path), repository)
    commits = {
        revision: entry["git:commit"]
        for revision, entry in enumerate(log(repository), 1)
        if "git:commit" in entry
    }
    revisions = list(commits)
    assert len(revisions) >= 1000
    checked = set()
    for number in range(REVISIONS):
        rest = revisions[number * len(revisions) // REVISIONS :]
        # A commit that changes nothing does not say on which line it lies.
        revision = next(revision for revision in rest if changed(repository, revision))
        line = line_of(repository, revision)
        check_tree(Path(path), commits[revision], repository, revision, line)
        checked.add(revision)
    assert len(checked) == REVISIONS
    for name in sorted(names(repository, "tags"))[:10]:
        check_tree(Path(path), f"refs/tags/{name}", repository, facts.revisions, f"tags/{name}")
