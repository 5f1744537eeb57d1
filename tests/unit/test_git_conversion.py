"""The conversion of git histories: trees, names, messages, dates, branches, tags, merges and renames."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from git_histories import (
    DIR,
    EXECUTABLE,
    FILE,
    SUBMODULE,
    SYMLINK,
    Commit,
    Graph,
    Node,
    Point,
    changed,
    check_tree,
    check_trees,
    children,
    convert,
    converted,
    exported,
    first_parents,
    git,
    git_source,
    git_tree,
    line_of,
    log,
    make_git,
    make_graph,
    needs_git,
    run,
    write_and_load,
)
from vcsbench.sources import Facts
from vcsbench.sources.dump_format import subversion_path
from vcsbench.sources.git_history import Commit as ListedCommit
from vcsbench.sources.git_history import ConversionPlan
from vcsbench.sources.git_repository import Ref

pytestmark = needs_git

TEXT = b"".join(b"line %d\n" % number for number in range(40))
F, L = (FILE, b"link target"), (SYMLINK, b"link target")
CONTENTS = [bytes(range(256)) * 300, b"\r\n\r\n\0", b"PROPS-END\n", b"no newline", b"$Id$\r"]
HISTORIES = {
    "modes, links and deletions": [
        Commit({b"run": (EXECUTABLE, b"#!/bin/sh\n"), b"text": (FILE, b"one\n")}),
        Commit({b"run": (FILE, b"#!/bin/sh\n"), b"text": (EXECUTABLE, b"two\n")}),
        Commit({b"link": (SYMLINK, b"text"), b"dangling": (SYMLINK, b"no/such file")}),
        Commit({b"link": (SYMLINK, b"run"), b"text": None}),
        Commit({b"empty": (FILE, b""), b"link": None}),
    ],
    "contents": [
        Commit({b"file %d" % number: (FILE, content) for number, content in enumerate(CONTENTS)}),
        Commit({b"file 0": (FILE, CONTENTS[0][::-1])}),
    ],
    "types": [
        Commit({b"a": F, b"b/c/d": F, b"e": L, b"f": F, b"g": L}),
        Commit({b"a/b": F, b"b/c": F, b"e/f": L, b"f": L, b"g": F}),
        Commit({b"a": L, b"b": L, b"e": F, b"f/g": L, b"g/h/i": F}),
        Commit({b"a": F, b"b/c/d": L, b"e": L, b"f": (EXECUTABLE, b""), b"g": L}),
    ],
    "emptied folders": [
        Commit({b"a/b/c/d": F, b"a/e": F, b"f/g": F}),
        Commit({b"a/b/c/d": None, b"f/g": None, b"f/h": F}),
        Commit({b"a/e": None, b"f/h": None}),
        Commit({b"a/b/c": F}),
    ],
    "empty commits": [Commit({}), Commit({b"a": F}), Commit({}), Commit({b"a": None})],
    "odd names": [
        Commit({
            name.encode(): F
            for name in (
                " leading", "trailing ", "two  spaces", "dots...", "...", "quote\"'", "%41", "%", "back\\",
                "at@1", "@", "#",
                "a:b", "-r", "*?[", "~", "ä/é/ß", "e\u0301", "日本", "😀", ".svnx", "\u0085",
                "trunk/trunk", "con", "K 3", "x" * 200,
            )
        }),
        Commit({b"%41": None, b"@": None}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_conversion_keeps_trees_without_notes(tmp_path: Path, name: str) -> None:
    assert converted(tmp_path, *HISTORIES[name]).notes == []


def test_conversion_refused_names_are_escaped_and_counted(tmp_path: Path) -> None:
    names = {
        b"new\nline": b"new?\\010line", b"tab\t": b"tab?\\009", b"\x7f/a": b"?\\127/a",
        b"\x7f/b": b"?\\127/b", b"latin-\xe4": b"latin-?\\228", b"cut\xe2\x82": b"cut?\\226?\\130",
        b"surrogate\xed\xa0\x80": b"surrogate?\\237?\\160?\\128",
        b"tab?\\009": b"tab?\\063\\009", b"why?\\no": b"why?\\no",
    }  # fmt: skip
    nodes: dict[bytes, Node] = {name: (FILE, name) for name in names}
    facts = converted(tmp_path, Commit(nodes), Commit({b"new\nline": (FILE, b"2")}))
    files = {escaped: ("file", name) for name, escaped in names.items()}
    assert exported(tmp_path / "svn", 2) == {b"?\\127": DIR, **files}
    assert [note.rpartition(": ")[2] for note in facts.notes] == ["9."]


def test_conversion_refused_link_targets_are_escaped_or_become_files(tmp_path: Path) -> None:
    long = b"x" * 4096
    links = {
        b"latin": b"\xe4", b"lines": b"a\nb", b"good": b" \xc3\xa4 ", b"empty": b"", b"long": long,
        b"longest": long[1:],
    }  # fmt: skip
    history = [
        Commit({name: (SYMLINK, target) for name, target in links.items()}),
        Commit({b"empty": (SYMLINK, b"good"), b"longest": (SYMLINK, b"")}),
    ]
    facts = write_and_load(git_source(make_git(tmp_path / "git", history)), tmp_path / "svn")
    expected = {
        b"latin": ("symlink", b"?\\228"), b"lines": ("symlink", b"a?\\010b"), b"empty": ("file", b""),
        b"good": ("symlink", b" \xc3\xa4 "), b"long": ("file", long), b"longest": ("symlink", long[1:]),
    }  # fmt: skip
    assert exported(tmp_path / "svn", 2) == expected
    expected |= {b"empty": ("symlink", b"good"), b"longest": ("file", b"")}
    assert exported(tmp_path / "svn", 3) == expected
    assert [note.rpartition(": ")[2] for note in facts.notes] == ["2.", "2."]


def test_conversion_submodules_are_left_out_and_counted(tmp_path: Path) -> None:
    module = (SUBMODULE, b"1" * 40)
    facts = converted(
        tmp_path,
        Commit({b"a": F, b"sub/one": module, b".gitmodules": (FILE, b'[submodule "x"]\n')}),
        Commit({b"sub/one": (SUBMODULE, b"2" * 40), b"two": module}),
        Commit({b"sub/one": F, b"a": module}),
        Commit({b"sub/one": module, b"a": (SYMLINK, b"sub")}),
        Commit({b"sub/one": None}),
    )
    assert facts.notes == ["Submodules left out: 3."]
    git(tmp_path / "git", "config", "diff.ignoreSubmodules", "all")
    assert convert(tmp_path / "git", tmp_path / "again").notes == facts.notes


def test_conversion_messages_and_authors_of_any_encoding_are_kept(tmp_path: Path) -> None:
    path = make_git(
        tmp_path / "git",
        [
            Commit({}, "Größe\n".encode("latin-1"), encoding="ISO-8859-1", author=b"J\xfcrgen"),
            Commit({}, "Größe\n".encode("latin-1")),
            Commit({}, "Größe\n".encode(), encoding="no-such-encoding"),
            Commit({}, b"one\r\ntwo\rthree\r\n"),
            Commit({}, b"bell\a, escape\x1b[0m\ttab", author=b""),
            Commit({}, b""),
            Commit({}, "日本".encode("euc-jp"), encoding="EUC-JP"),
        ],
    )
    convert(path, tmp_path / "svn")
    entries = log(tmp_path / "svn")[1:]
    assert [entry["msg"] for entry in entries] == [
        "Größe\n", "Gr\ufffd\ufffde\n", "Größe\n", "one\ntwo\nthree\n",
        "bell\ufffd, escape\ufffd[0m\ttab", "", "日本",
    ]  # fmt: skip
    assert [entry.get("author") for entry in entries[:2]] == ["Jürgen", "A. U. Thor"]
    assert entries[4].get("author") is None
    assert [entry["git:commit"] for entry in entries] == first_parents(path)


def test_conversion_dates_out_of_order_never_go_back(tmp_path: Path) -> None:
    seconds = [1_000_000_100, 1_000_000_000, 1_000_000_050, 1_000_000_200]
    facts = converted(tmp_path, *(Commit({}, seconds=second) for second in seconds))
    dates = [entry["date"][14:19] for entry in log(tmp_path / "svn")]
    assert dates == ["48:20", "48:20", "48:20", "48:20", "50:00"]
    assert [note.rpartition(": ")[2] for note in facts.notes] == ["2."]


def test_conversion_damaged_commits_are_loaded(tmp_path: Path) -> None:
    path = make_git(tmp_path / "git", [Commit({b"a": F}, encoding="UTF-16")])
    tree = git(path, "rev-parse", "main^{tree}")
    dates = (b"", b" 99999999999999999999999 +9999", b" -5 +0", b" x", b" 18446744073709551615 +0")
    for date in dates:
        parent = git(path, "rev-parse", "main")
        data = b"tree %sparent %sauthor A <a>%s\ncommitter C <c>%s\n\na\0b\xef\xbf\xbe" % (
            tree, parent, date, date,
        )  # fmt: skip
        words = ("hash-object", "-t", "commit", "--literally", "-w", "--stdin")
        git(path, "update-ref", "refs/heads/main", git(path, *words, stdin=data).decode().strip())
    assert convert(path, tmp_path / "svn").revisions == 7
    assert log(tmp_path / "svn")[2]["msg"] == "a\ufffdb\ufffd"
    convert_whole(path, tmp_path / "whole")


# With few names, files, folders and links often replace each other.
names = st.sampled_from([b"a", b"b", b"a b", b"\xc3\xa9", b"\x01", b"\xff", b"?\\001", b"%41"])
paths = st.lists(names, min_size=1, max_size=3).map(b"/".join)
contents = st.one_of(st.binary(max_size=40), st.sampled_from([b"same", b"link same", b"a\n"]))
nodes = st.one_of(
    st.none(),
    st.tuples(st.sampled_from([FILE, EXECUTABLE]), contents),
    st.tuples(st.just(SYMLINK), st.sampled_from([b"a", b"../b", b"same"])),
    st.tuples(st.just(SUBMODULE), st.sampled_from([b"1" * 40, b"2" * 40])),
)
commits = st.builds(
    Commit,
    nodes=st.dictionaries(paths, nodes, max_size=6),
    message=st.binary(max_size=20),
    seconds=st.integers(0, 2**33),
    encoding=st.sampled_from(["", "ISO-8859-1", "UTF-16", "utf-8", "hex", "idna"]),
    author=st.sampled_from([b"A. U. Thor", b"\xff", b""]),
)
histories = st.lists(commits, min_size=1, max_size=5)
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
    index = st.integers(0, len(points) - 1)
    branches, tags, annotated = (
        draw(st.dictionaries(st.sampled_from(letters), index)) for letters in ("xyz", "12", "34")
    )
    return Graph(points, {"main": draw(index), **branches}, tags, annotated)


def quickly(examples: int) -> settings:
    # Shrinking takes minutes.
    checks, phases = list(HealthCheck), [Phase.generate]
    return settings(
        **{"max_examples": examples, "deadline": None, "database": None},
        **{"suppress_health_check": checks, "phases": phases},
    )


def check_history(history: list[Commit]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        converted(Path(folder), *history)
        assert len(log(Path(folder) / "svn")) == len(history) + 1


def check_graph(graph: Graph) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, repository = Path(folder) / "git", Path(folder) / "svn"
        make_graph(path, graph)
        check_trees(path, repository, convert_whole(path, repository), graph)


@pytest.mark.parametrize("examples", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_conversion_of_random_histories_keeps_trees(examples: int) -> None:
    quickly(examples)(given(histories)(check_history))()


@pytest.mark.parametrize("examples", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_conversion_of_random_graphs_keeps_trees(examples: int) -> None:
    quickly(examples)(given(graphs())(check_graph))()


# No name in git or on a file system has a slash or a NUL.
@given(st.lists(st.binary(max_size=12).filter(lambda name: not {0, 47} & {*name}), max_size=8))
def test_subversion_path_random_names_stay_different(names: list[bytes]) -> None:
    escaped = [subversion_path(name) for name in names]
    assert len(set(escaped)) == len(set(names))
    assert not any(byte < 32 or byte == 127 for name in escaped for byte in name)
    b"".join(escaped).decode("utf-8")


def test_subversion_path_reserved_long_and_odd_names_stay_different() -> None:
    names = [
        b".svn", b"?\\046svn", b".SVN", b"CVS", b"cvs", b".git", b".GIT", b"..", b".", b"",
        b"x" * 256, b"x" * 257, subversion_path(b"x" * 256), b"\xef\xbf\xbe", b"\xef\xbf\xbf",
        b"\xff" * 52, b"\xfe" * 52,
        b"\n", b"?\\010", b"_darcs", b".hg", b"x" * 255, "é".encode() * 130,
    ]  # fmt: skip
    new = [subversion_path(name) for name in names]
    assert len(set(new)) == len(names)
    assert max(map(len, new)) <= 255
    assert subversion_path(b"a/.svn/b") == b"a/?\\046svn/b"
    assert all(subversion_path(name) == name for name in (b".SVN", b"cvs", b"x" * 255))


# Branches, tags, merges and renames


def convert_whole(path: Path, into: Path, **options: str) -> Facts:
    return write_and_load(git_source(path, history="whole", **options), into)


MERGED = Graph(
    points=[
        Point((), {b"a": (FILE, TEXT), b"d/b": (FILE, b"b")}),  # 0, trunk
        Point((0,), {b"side": (FILE, b"1")}),  # 1, on a merged branch without a name
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
Merged = tuple[Path, list[str], Path, Facts]


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Merged:
    """The repository of MERGED, its commits, the converted repository, and the facts."""
    folder = tmp_path_factory.mktemp("whole")
    commits = make_graph(folder / "git", MERGED)
    return folder / "git", commits, folder / "svn", convert_whole(folder / "git", folder / "svn")


def revision_of(repository: Path, commit: str) -> int:
    commits = [entry.get("git:commit") for entry in log(repository)]
    return commits.index(commit) + 1


def test_whole_history_each_branch_and_tag_has_its_tree(merged: Merged) -> None:
    path, _, repository, facts = merged
    check_trees(path, repository, facts, MERGED)
    # The layout, seven commits, three copies, and the deletion of the merged branch.
    assert (facts.revisions, facts.notes) == (1 + 7 + 3 + 1, [])


def test_whole_history_merge_is_one_change_of_trunk_with_its_parents(merged: Merged) -> None:
    _, commits, repository, _ = merged
    revision = revision_of(repository, commits[4])
    assert changed(repository, revision) == ["A trunk/side"]
    entries = log(repository)
    assert entries[revision - 1]["git:parents"] == f"{commits[2]} {commits[3]}"
    assert sum("git:parents" in entry for entry in entries) == 1


def test_whole_history_branches_and_tags_are_copies(merged: Merged) -> None:
    _, commits, repository, _ = merged
    r0, r2, r5 = (revision_of(repository, commits[at]) for at in (0, 2, 5))
    name = f"branches/merged-{commits[3][:12]}"
    first = changed(repository, revision_of(repository, commits[1]))
    assert first[:2] == [f"A + {name}/", f"(from trunk/:r{r0})"]
    assert changed(repository, r5)[:2] == ["A + branches/stable/", f"(from trunk/:r{r2})"]
    later = [changed(repository, revision) for revision in range(2, 13)]
    copies = {"tags/v1": f"trunk/:r{r2}", "tags/v2": f"branches/stable/:r{r5}"}
    for path, origin in (copies | {"branches/same": f"trunk/:r{r2}"}).items():
        assert [f"A + {path}/", f"(from {origin})"] in later
    assert [f"D {name}/"] == changed(repository, revision_of(repository, commits[4]) + 1)
    text = run("svn", "log", "-v", "--xml", "--limit", "1", f"file://{repository}/tags/v2").decode()
    assert "T. Agger" in text and "<msg>Tag\n</msg>" in text and "2017-07-14" in text


def test_whole_history_another_branch_becomes_trunk(merged: Merged, tmp_path: Path) -> None:
    convert_whole(merged[0], tmp_path / "svn", branch="stable")
    assert exported(tmp_path / "svn", 5, "trunk").keys() <= git_tree(merged[0], "stable").keys()
    assert children(tmp_path / "svn", "branches") == {"main", "same"}
    check_tree(merged[0], "stable", tmp_path / "svn", 12, "trunk")


def test_whole_history_clone_has_branches_of_its_origin(merged: Merged, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(merged[0]), "clone")
    convert_whole(tmp_path / "clone", tmp_path / "svn")
    assert children(tmp_path / "svn", "branches") == {"stable", "same"}
    assert children(tmp_path / "svn", "tags") == {"v1", "v2"}


def test_whole_history_renames_are_copies(tmp_path: Path) -> None:
    graph = Graph(
        [
            Point((), {b"a": (FILE, TEXT), b"d/b": (FILE, b"b\n"), b"d/e/f": (FILE, b"f\n")}),
            Point((0,), {b"a": None, b"new/a": (EXECUTABLE, TEXT + b"more\n")}),
            Point((1,), {b"d/b": None, b"d/e/f": None, b"x/b": (FILE, b"b\n"), b"x/e/f": (FILE, b"f\n")}),
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


def test_whole_history_branch_merged_twice_is_one_line(tmp_path: Path) -> None:
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


def test_whole_history_nested_branches_and_second_roots_are_kept(tmp_path: Path) -> None:
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
    path, repository = tmp_path / "git", tmp_path / "svn"
    make_graph(path, graph)
    facts = convert_whole(path, repository)
    assert children(repository, "branches") == {"gh-pages", "feature", "merged-x"}
    assert children(repository, "branches/feature") == {"one"}
    assert children(repository, "tags/feature") == {"v1"}
    for name in ("gh-pages", "feature/one", "merged-x"):
        check_tree(path, name, repository, facts.revisions, f"branches/{name}")


def test_plan_branches_that_lie_in_another_get_other_names() -> None:
    commits = [ListedCommit(b"c" * 40, b"t" * 40, 1, ())]
    names = (b"main", b"a", b"a/b", b"a~b", b"x/y/z", b"x/y", b"trunk", b"tags")
    plan = ConversionPlan(commits, [Ref(name, b"c" * 40, b"c" * 40) for name in names], [])
    assert [copy.path for copy in plan.copies[0]] == [
        b"branches/a", b"branches/a~b", b"branches/a~b~2", b"branches/x/y/z", b"branches/x~y",
        b"branches/trunk", b"branches/tags",
    ]  # fmt: skip
    assert list(plan.renamed) == [b"a/b", b"a~b", b"x/y"]


# Real histories

REVISIONS = 50
REAL = [path for path in os.environ.get("VCSBENCH_REAL_GIT", "").split(":") if path]


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason="VCSBENCH_REAL_GIT is not set: git repositories, with colons")
@pytest.mark.parametrize("path", REAL or [""])
@pytest.mark.parametrize("history", ["first-parent", "whole"])
def test_conversion_of_real_history_keeps_trees(path: str, history: str, tmp_path: Path) -> None:
    repository = tmp_path / "svn"
    write_and_load(git_source(Path(path), history=history), repository)
    commits = {
        revision: entry["git:commit"]
        for revision, entry in enumerate(log(repository), 1)
        if "git:commit" in entry
    }
    assert len(commits) >= 1000
    revisions = list(commits)
    for number in range(REVISIONS):
        # A commit without changes has no line.
        rest = revisions[number * len(revisions) // REVISIONS :]
        revision = next(revision for revision in rest if changed(repository, revision))
        line = line_of(repository, revision)
        check_tree(Path(path), commits[revision], repository, revision, line)
