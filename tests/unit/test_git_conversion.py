"""The conversion of git histories: trees, names, messages, dates, merges and renames."""

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
    return Graph(commits, {"main": draw(st.integers(0, len(commits) - 1))})


def check_history(history):
    with tempfile.TemporaryDirectory() as folder:
        convert(make_git(Path(folder, "git"), history), Path(folder, "svn"))


@pytest.mark.parametrize(
    ("strategy", "examples"),
    [
        (histories, 12),
        (graphs(), 4),
        pytest.param(histories, 200, marks=pytest.mark.slow),
        pytest.param(graphs(), 100, marks=pytest.mark.slow),
    ],
)
def test_conversion_of_random_histories_keeps_trees(strategy, examples):
    # Shrinking takes minutes.
    quickly = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    quickly(given(strategy)(check_history))()


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


def test_conversion_of_merges_has_the_first_parents(tmp_path):
    path, repository = make_git(tmp_path / "git", MERGED), tmp_path / "svn"
    assert convert(path, repository).notes == []
    commits = names_of(path)
    loaded = [entry["git:commit"] for entry in log(repository)[1:]]
    assert loaded == [commits[number] for number in (0, 2, 4, 6)]
    assert changed(repository, 4) == ["A trunk/side"]


def test_conversion_renames_are_copies(tmp_path):
    b, f = (FILE, b"b\n"), (FILE, b"f\n")
    history = [
        Commit({b"a": (FILE, TEXT), b"d/b": b, b"d/e/f": f}),
        Commit({b"a": None, b"new/a": (EXECUTABLE, TEXT + b"more\n")}),
        Commit({b"d/b": None, b"d/e/f": None, b"x/b": b, b"x/e/f": f}),
    ]
    convert(make_git(tmp_path / "git", history), tmp_path / "svn")
    assert changed(tmp_path / "svn", 3) == [
        "D trunk/a", "A trunk/new/", "A + trunk/new/a", "(from trunk/a:r2)"
    ]  # fmt: skip
    assert changed(tmp_path / "svn", 4) == ["D trunk/d/", "A + trunk/x/", "(from trunk/d/:r3)"]
