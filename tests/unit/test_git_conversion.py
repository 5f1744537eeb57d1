"""The conversion of git histories: trees, names, messages, dates, branches, tags, merges and renames."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from git_histories import (
    EXECUTABLE,
    FILE,
    MERGED,
    SUBMODULE,
    SYMLINK,
    TEXT,
    Commit,
    Graph,
    changed,
    check_refs,
    check_tree,
    check_trees,
    children,
    convert,
    git,
    git_source,
    log,
    make_git,
    names_of,
    needs_git,
    run,
    write_and_load,
)
from vcsbench.sources.svn_names import subversion_path

pytestmark = needs_git

F = (FILE, b"link target")
CONTENTS = [bytes(range(256)) * 300, b"\r\n\r\n\0", b"PROPS-END\n", b"no newline", b"$Id$\r"]
NAMES = (
    " leading", "trailing ", "two  spaces", "dots...", "...", "quote\"'", "%41", "%", "back\\",
    "at@1", "@", "#", "a:b", "-r", "*?[", "~", "ä/é/ß", "e\u0301", "日本", "😀", ".svnx", "\u0085",
    "trunk/trunk", "con", "K 3", "x" * 200,
)  # fmt: skip


def counts(facts):
    return [int(note.rpartition(": ")[2].rstrip(".")) for note in facts.notes]


def test_conversion_odd_names_and_contents_are_kept_without_notes(tmp_path):
    nodes = {name.encode(): F for name in NAMES}
    nodes |= {b"file %d" % number: (FILE, content) for number, content in enumerate(CONTENTS)}
    nodes |= {b"link": (SYMLINK, b"link target"), b"same": F}
    then = {b"%41": None, b"@": None, b"file 0": (FILE, CONTENTS[0][::-1])}
    then |= {b"link": F, b"same": (SYMLINK, b"link target")}
    path = make_git(tmp_path / "git", [Commit(nodes), Commit(then)])
    assert convert(path, tmp_path / "svn").notes == []


def test_conversion_renamed_link_that_became_a_plain_file_stays_one(tmp_path):
    # Subversion can make no link with a line end in its target.
    odd, usable = (SYMLINK, b"a\nb"), (SYMLINK, b"target")
    history = [
        Commit({b"odd": odd, b"usable": usable}),
        Commit({b"odd": None, b"usable": None, b"d/odd": odd, b"d/usable": usable}),
    ]
    facts = write_and_load(git_source(make_git(tmp_path / "git", history)), tmp_path / "svn")
    assert counts(facts) == [1]
    trunk = f"file://{tmp_path}/svn/trunk"
    assert run("svn", "proplist", f"{trunk}/d/odd") == b""
    assert run("svn", "cat", f"{trunk}/d/odd") == b"a\nb"
    assert run("svn", "propget", "svn:special", f"{trunk}/d/usable") == b"*\n"


# Seconds, encoding, author and message of a commit, and the message and author in Subversion.
LATIN = "Größe\n".encode("latin-1")
MESSAGES = [
    (100, "ISO-8859-1", b"J\xfcrgen", LATIN, "Größe\n", "Jürgen"),
    (0, "", b"A. U. Thor", LATIN, "Gr\ufffd\ufffde\n", "A. U. Thor"),
    (50, "no-such-encoding", b"A", "Größe\n".encode(), "Größe\n", "A"),
    (200, "", b"A", b"one\r\ntwo\rthree\r\n", "one\ntwo\nthree\n", "A"),
    (200, "", b"", b"bell\a, escape\x1b[0m\ttab", "bell\ufffd, escape\ufffd[0m\ttab", None),
    (200, "EUC-JP", b"A", "日本".encode("euc-jp"), "日本", "A"),
]


def test_conversion_messages_of_any_encoding_and_dates_in_order(tmp_path):
    history = [
        Commit({}, message, 1_000_000_000 + seconds, encoding, author)
        for seconds, encoding, author, message, *_ in MESSAGES
    ]
    facts = convert(make_git(tmp_path / "git", history), tmp_path / "svn")
    entries = log(tmp_path / "svn")
    assert [(e["msg"], e.get("author")) for e in entries[1:]] == [tuple(m[4:]) for m in MESSAGES]
    assert [e["git:commit"] for e in entries[1:]] == names_of(tmp_path / "git")
    # A date before the previous revision becomes equal to its date.
    dates = [entry["date"][14:19] for entry in entries]
    assert (dates, counts(facts)) == (["48:20"] * 4 + ["50:00"] * 3, [2])


def test_conversion_damaged_commits_are_loaded(tmp_path):
    path = make_git(tmp_path / "git", [Commit({b"a": F}, seconds=0, encoding="UTF-16")])
    tree = git(path, "rev-parse", "main^{tree}")
    dates = (b"", b" 99999999999999999999999 +9999", b" -5 +0", b" x", b" 18446744073709551615 +0")
    for date in dates:
        parent = git(path, "rev-parse", "main")
        data = b"tree %sparent %sauthor A <a>%s\ncommitter C <c>%s\n\na\0b\xef\xbf\xbe" % (
            tree, parent, date, date,
        )  # fmt: skip
        words = ("hash-object", "-t", "commit", "--literally", "-w", "--stdin")
        git(path, "update-ref", "refs/heads/main", git(path, *words, stdin=data).decode().strip())
    facts = convert(path, tmp_path / "svn")
    assert (facts.revisions, counts(facts)) == (7, [len(dates)])
    assert log(tmp_path / "svn")[2]["msg"] == "a"
    git(path, "update-ref", "refs/tags/late", "main")
    assert counts(convert_whole(path, tmp_path / "whole")) == [len(dates)]


def test_conversion_submodules_are_left_out_and_counted(tmp_path):
    module = (SUBMODULE, b"1" * 40)
    history = [
        Commit({b"a": F, b"sub/one": module, b".gitmodules": (FILE, b'[submodule "x"]\n')}),
        Commit({b"sub/one": (SUBMODULE, b"2" * 40), b"two": module}),
        Commit({b"sub/one": F, b"a": module}),
        Commit({b"sub/one": module, b"a": (SYMLINK, b"sub")}),
        Commit({b"sub/one": None}),
    ]
    path = make_git(tmp_path / "git", history)
    git(path, "config", "diff.ignoreSubmodules", "all")
    assert counts(convert(path, tmp_path / "svn")) == [3]


# No name in git or on a file system has a slash or a NUL.
@given(st.lists(st.binary(max_size=12).filter(lambda name: not {0, 47} & {*name}), max_size=8))
def test_subversion_path_random_names_stay_different(names):
    escaped = [subversion_path(name) for name in names]
    assert len(set(escaped)) == len(set(names))
    assert not any(byte < 32 or byte == 127 for name in escaped for byte in name)
    b"".join(escaped).decode("utf-8")


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
def graphs(draw):
    commits = []
    for at in range(draw(st.integers(1, 8))):
        parents = draw(st.lists(st.integers(0, at - 1), max_size=3, unique=True)) if at else []
        nodes = draw(st.dictionaries(file_names, files, max_size=3))
        seconds = draw(st.integers(10**9, 10**9 + 100))
        commits.append(Commit(nodes, seconds=seconds, parents=tuple(parents)))
    index = st.integers(0, len(commits) - 1)
    branches, tags, annotated = (
        draw(st.dictionaries(st.sampled_from(letters), index)) for letters in ("xyz", "12", "34")
    )
    return Graph(commits, {"main": draw(index), **branches}, tags, annotated)


def check_history(history):
    with tempfile.TemporaryDirectory() as folder:
        convert(make_git(Path(folder, "git"), history), Path(folder, "svn"))


def check_graph(graph):
    with tempfile.TemporaryDirectory() as folder:
        convert_graph(Path(folder), graph)


@pytest.mark.parametrize(
    ("strategy", "check", "examples"),
    [
        (histories, check_history, 12),
        (graphs(), check_graph, 4),
        pytest.param(histories, check_history, 200, marks=pytest.mark.slow),
        pytest.param(graphs(), check_graph, 100, marks=pytest.mark.slow),
    ],
)
def test_conversion_of_random_histories_keeps_trees(strategy, check, examples):
    # Shrinking takes minutes.
    quickly = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    quickly(given(strategy)(check))()


def test_subversion_path_reserved_long_and_odd_names_stay_different():
    names = [
        b".svn", b"?\\046svn", b".SVN", b"CVS", b"cvs", b".git", b".GIT", b"..", b".", b"",
        b"x" * 256, b"x" * 257, subversion_path(b"x" * 256), b"\xef\xbf\xbe", b"\xef\xbf\xbf",
        b"\xff" * 52, b"\xfe" * 52,
        b"\n", b"?\\010", b"_darcs", b".hg", b"x" * 251, "é".encode() * 130,
    ]  # fmt: skip
    new = [subversion_path(name) for name in names]
    assert len(set(new)) == len(names)
    assert max(map(len, new)) <= 251
    assert subversion_path(b"a/.svn/b") == b"a/?\\046svn/b"
    assert all(subversion_path(name) == name for name in (b".SVN", b"cvs", b"x" * 251))


# Branches, tags, merges and renames


def convert_whole(path, into, **options):
    return write_and_load(git_source(path, history="whole", **options), into)


def convert_graph(folder, graph):
    """Create a graph in folder/git, convert it to folder/svn, and compare all trees."""
    path = make_git(folder / "git", graph)
    facts = convert_whole(path, folder / "svn")
    check_trees(path, folder / "svn", facts, graph)
    return facts


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, convert_graph(folder, MERGED)


def test_whole_history_merges_branches_and_tags_are_copies(merged):
    folder, facts = merged
    repository, commits = folder / "svn", names_of(folder / "git")
    # The layout, seven commits, three copies, and the deletion of the merged branch.
    assert (facts.revisions, facts.notes) == (1 + 7 + 3 + 1, [])
    loaded = [entry.get("git:commit") for entry in log(repository)]
    r0, r1, r2, _, r4, r5, _ = (loaded.index(commit) + 1 for commit in commits)
    parents = [entry.get("git:parents") for entry in log(repository)]
    assert changed(repository, r4) == ["A trunk/side"]
    assert parents.pop(r4 - 1) == f"{commits[2]} {commits[3]}" and not any(parents)
    name = f"branches/merged-{commits[3][:12]}"
    assert changed(repository, r1)[:2] == [f"A + {name}/", f"(from trunk/:r{r0})"]
    assert changed(repository, r4 + 1) == [f"D {name}/"]
    assert changed(repository, r5)[:2] == ["A + branches/stable/", f"(from trunk/:r{r2})"]
    later = [changed(repository, revision) for revision in range(2, 13)]
    origins = {"tags/v1": f"trunk/:r{r2}", "tags/v2": f"branches/stable/:r{r5}"}
    for path, origin in (origins | {"branches/same": f"trunk/:r{r2}"}).items():
        assert [f"A + {path}/", f"(from {origin})"] in later


def test_whole_history_of_a_clone_has_its_remote_branches(merged, tmp_path):
    path = merged[0] / "git"
    git(tmp_path, "clone", "-q", str(path), "clone")
    assert convert_whole(tmp_path / "clone", tmp_path / "made").notes == []
    for name, target in (("tags/blob", "HEAD:a"), ("notes/x", "HEAD"), ("remotes/other/x", "HEAD")):
        git(tmp_path / "clone", "update-ref", f"refs/{name}", target)
    assert counts(convert_whole(tmp_path / "clone", tmp_path / "cloned")) == [3]
    assert children(tmp_path / "cloned", "branches") == {"stable", "same"}
    assert children(tmp_path / "cloned", "tags") == {"v1", "v2"}


def test_whole_history_nested_branches_and_second_roots_are_kept(tmp_path):
    graph = Graph(
        [
            Commit({b"a": (FILE, b"1")}),
            Commit({b"page": (FILE, b"no parent")}, parents=()),
            Commit({b"page": (FILE, b"merged trunk")}, parents=(1, 0)),
            Commit({b"a": (FILE, b"2")}, parents=(0,)),
        ],
        {"main": 0, "gh-pages": 2, "feature/one": 3, "merged-x": 0},
        {"feature/v1": 3},
    )
    path, repository = make_git(tmp_path / "git", graph), tmp_path / "svn"
    check_refs(path, repository, convert_whole(path, repository), graph)


def test_whole_history_renames_are_copies(tmp_path):
    b, f = (FILE, b"b\n"), (FILE, b"f\n")
    history = [
        Commit({b"a": (FILE, TEXT), b"d/b": b, b"d/e/f": f}),
        Commit({b"a": None, b"new/a": (EXECUTABLE, TEXT + b"more\n")}),
        Commit({b"d/b": None, b"d/e/f": None, b"x/b": b, b"x/e/f": f}),
    ]
    convert_graph(tmp_path, Graph(history, {"main": 2}))
    assert changed(tmp_path / "svn", 3) == [
        "D trunk/a", "A trunk/new/", "A + trunk/new/a", "(from trunk/a:r2)"
    ]  # fmt: skip
    assert changed(tmp_path / "svn", 4) == ["D trunk/d/", "A + trunk/x/", "(from trunk/d/:r3)"]


def test_whole_history_branches_that_would_lie_in_another_are_renamed(tmp_path):
    commits = [Commit({b"f": (FILE, b"%d" % n)}, parents=(0,) if n else ()) for n in range(5)]
    branches = {"main": 0, "one": 1, "two/x": 2, "y": 3, "z": 4}
    path, repository = make_git(tmp_path / "git", Graph(commits, branches)), tmp_path / "svn"
    # git allows these next to its local branches.
    for name, other in (("y", "one/y"), ("z", "two")):
        git(path, "update-ref", f"refs/remotes/origin/{other}", f"refs/heads/{name}")
        git(path, "update-ref", "-d", f"refs/heads/{name}")
    facts = convert_whole(path, repository)
    (note,) = facts.notes
    assert note.endswith("(one/y as branches/one~y, two as branches/two~2): 2.")
    for folder, ref in {
        "one": "one", "one~y": "origin/one/y", "two/x": "two/x", "two~2": "origin/two"
    }.items():  # fmt: skip
        check_tree(path, ref, repository, facts.revisions, f"branches/{folder}")
