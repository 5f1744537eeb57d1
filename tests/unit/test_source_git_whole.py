"""Whole git histories: branches, tags, merges and renames as Subversion has them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

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
    revprop,
    svn,
)
from git_histories import EXECUTABLE, FILE, exported, git, git_tree
from vcsbench import sources
from vcsbench.sources import Facts

pytestmark = pytest.mark.skipif(
    not (shutil.which("svnadmin") and shutil.which("git")), reason="not installed: svnadmin or git"
)

TEXT = b"".join(b"line %d\n" % number for number in range(40))


MERGED = Graph(
    points=[
        Point((), {b"a": (FILE, TEXT), b"d/b": (FILE, b"b")}),  # 0, trunk
        Point((0,), {b"side": (FILE, b"1")}),  # 1, on a branch that was merged and forgotten
        Point((0,), {b"a": (FILE, TEXT + b"more\n")}),  # 2, trunk
        Point((1,), {b"side": (FILE, b"2")}),  # 3
        Point((2, 3), {b"side": (FILE, b"2")}),  # 4, the merge
        Point((2,), {b"d/c": (EXECUTABLE, b"c")}),  # 5, stable
        Point((4,), {b"end": (FILE, b"")}),  # 6, trunk
    ],
    branches={"main": 6, "stable": 5, "same": 2},
    tags={"v1": 2},
    annotated={"v2": 5},
)


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], Path, Facts]:
    """The repository of MERGED, its commits, what it was converted to, and the facts."""
    folder = tmp_path_factory.mktemp("whole")
    commits = make_graph(folder / "git", MERGED)
    return folder / "git", commits, folder / "svn", convert_whole(folder / "git", folder / "svn")


def test_every_line_branch_and_tag_has_its_tree(
    merged: tuple[Path, list[str], Path, Facts],
) -> None:
    path, _, repository, facts = merged
    check_trees(path, repository, facts, MERGED)
    # The layout, seven commits, two branches' and tags' copies, and the deletion of the merged one.
    assert facts.revisions == 1 + 7 + 3 + 1
    assert facts.notes == []


def revision_of(repository: Path, commit: str) -> int:
    youngest = int(subprocess.check_output(["svnlook", "youngest", repository]))
    found = [r for r in range(youngest + 1) if revprop(repository, r, "git:commit") == commit]
    return found[0]


def test_a_merge_is_one_change_of_trunk_and_names_its_parents(
    merged: tuple[Path, list[str], Path, Facts],
) -> None:
    _, commits, repository, _ = merged
    revision = revision_of(repository, commits[4])
    assert changed(repository, revision) == ["A trunk/side"]
    assert revprop(repository, revision, "git:parents") == f"{commits[2]} {commits[3]}"
    assert revprop(repository, revision_of(repository, commits[6]), "git:parents") == ""


def test_branches_and_tags_are_copies(merged: tuple[Path, list[str], Path, Facts]) -> None:
    _, commits, repository, _ = merged
    r0, r2, r5 = (revision_of(repository, commits[at]) for at in (0, 2, 5))
    merged_name = f"branches/merged-{commits[3][:12]}"
    copied = changed(repository, revision_of(repository, commits[1]))
    assert copied[:2] == [f"A + {merged_name}/", f"(from trunk/:r{r0})"]
    assert changed(repository, r5)[:2] == ["A + branches/stable/", f"(from trunk/:r{r2})"]
    later = [changed(repository, revision) for revision in range(2, 13)]
    assert ["A + tags/v1/", f"(from trunk/:r{r2})"] in later
    assert ["A + tags/v2/", f"(from branches/stable/:r{r5})"] in later
    assert ["A + branches/same/", f"(from trunk/:r{r2})"] in later
    assert [f"D {merged_name}/"] == changed(repository, revision_of(repository, commits[4]) + 1)


def test_an_annotated_tag_keeps_its_maker_and_date(
    merged: tuple[Path, list[str], Path, Facts],
) -> None:
    _, _, repository, _ = merged
    said = svn("log", "-v", "--xml", "--limit", "1", f"file://{repository}/tags/v2")
    assert "T. Agger" in said and "<msg>Tag\n</msg>" in said and "2017-07-14" in said


def test_another_branch_may_be_trunk(
    merged: tuple[Path, list[str], Path, Facts], tmp_path: Path
) -> None:
    convert_whole(merged[0], tmp_path / "svn", branch="stable")
    assert exported(tmp_path / "svn", 5, "trunk").keys() <= git_tree(merged[0], "stable").keys()
    assert names(tmp_path / "svn", "branches") == {"main", "same"}
    check_tree(merged[0], "stable", tmp_path / "svn", 12, "trunk")


def test_branches_of_a_clone_are_those_of_its_origin(
    merged: tuple[Path, list[str], Path, Facts], tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", str(merged[0]), "clone")
    convert_whole(tmp_path / "clone", tmp_path / "svn")
    assert names(tmp_path / "svn", "branches") == {"stable", "same"}
    assert names(tmp_path / "svn", "tags") == {"v1", "v2"}


def test_renames_are_copies(tmp_path: Path) -> None:
    graph = Graph(
        [
            Point((), {b"a": (FILE, TEXT), b"d/b": (FILE, b"b\n"), b"d/e/f": (FILE, b"f\n")}),
            Point((0,), {b"a": None, b"new/a": (EXECUTABLE, TEXT + b"more\n")}),
            Point((1,), {b"d/b": None, b"d/e/f": None, b"x/b": (FILE, b"b\n"),
                         b"x/e/f": (FILE, b"f\n")}),
        ],
        {"main": 2},
    )  # fmt: skip
    make_graph(tmp_path / "git", graph)
    facts = convert_whole(tmp_path / "git", tmp_path / "svn")
    check_trees(tmp_path / "git", tmp_path / "svn", facts, graph)
    assert changed(tmp_path / "svn", 3) == [
        "D trunk/a", "A trunk/new/", "A + trunk/new/a", "(from trunk/a:r2)"
    ]  # fmt: skip
    assert changed(tmp_path / "svn", 4) == ["D trunk/d/", "A + trunk/x/", "(from trunk/d/:r3)"]


def test_a_branch_that_is_merged_twice_is_one_branch(tmp_path: Path) -> None:
    graph = Graph(
        [
            Point((), {b"a": (FILE, b"1")}),
            Point((0,), {b"side": (FILE, b"1")}),
            Point((0, 1), {b"side": (FILE, b"1")}),
            Point((1,), {b"side": (FILE, b"2")}),
            Point((2, 3), {b"side": (FILE, b"2")}),
        ],
        {"main": 4},
    )
    commits = make_graph(tmp_path / "git", graph)
    facts = convert_whole(tmp_path / "git", tmp_path / "svn")
    check_trees(tmp_path / "git", tmp_path / "svn", facts, graph)
    lines = {line_of(tmp_path / "svn", revision_of(tmp_path / "svn", commits[at])) for at in (1, 3)}
    assert lines == {f"branches/merged-{commits[3][:12]}"}
    assert facts.revisions == 1 + 5 + 1


def test_branches_with_folders_roots_of_their_own_and_odd_names(tmp_path: Path) -> None:
    graph = Graph(
        [
            Point((), {b"a": (FILE, b"1")}),
            Point((), {b"page": (FILE, b"no parent")}),
            Point((1, 0), {b"page": (FILE, b"merged trunk")}),
            Point((0,), {b"a": (FILE, b"2")}),
        ],
        {"main": 0, "gh-pages": 2, "feature/one": 3, "merged-x": 0},
        {"feature/v1": 3},
    )
    make_graph(tmp_path / "git", graph)
    facts = convert_whole(tmp_path / "git", tmp_path / "svn")
    assert names(tmp_path / "svn", "branches/feature") == {"one"}
    assert names(tmp_path / "svn", "tags/feature") == {"v1"}
    for name in ("gh-pages", "feature/one", "merged-x"):
        check_tree(tmp_path / "git", name, tmp_path / "svn", facts.revisions, f"branches/{name}")
    assert names(tmp_path / "svn", "branches") == {"gh-pages", "feature", "merged-x"}


def test_identity_changes_with_any_branch_or_tag(tmp_path: Path) -> None:
    make_graph(tmp_path / "git", Graph([Point(), Point((0,))], {"main": 1}))
    definition = {"source": "git", "path": str(tmp_path / "git"), "history": "whole"}
    source = sources.open_source("mine", definition)
    before = source.identity()
    git(tmp_path / "git", "branch", "other", "main~1")
    assert source.identity() != before
