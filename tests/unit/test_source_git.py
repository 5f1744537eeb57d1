"""Git histories, converted, loaded by svnadmin and exported by svn, revision by revision."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from git_histories import (
    ENVIRONMENT,
    EXECUTABLE,
    FILE,
    SUBMODULE,
    SYMLINK,
    Commit,
    Entry,
    Node,
    commits_of,
    digest,
    exported,
    git,
    git_tree,
    listing,
    make_git,
    write_and_load,
)
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources import Facts, Source
from vcsbench.sources.git.names import subversion_path

pytestmark = pytest.mark.skipif(
    not (shutil.which("svnadmin") and shutil.which("git")), reason="not installed: svnadmin or git"
)


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


def test_modes_symlinks_and_deletes(tmp_path: Path) -> None:
    facts = converted(
        tmp_path,
        Commit({b"run": (EXECUTABLE, b"#!/bin/sh\n"), b"text": (FILE, b"one\n")}),
        Commit({b"run": (FILE, b"#!/bin/sh\n"), b"text": (EXECUTABLE, b"two\n")}),
        Commit({b"link": (SYMLINK, b"text"), b"dangling": (SYMLINK, b"no/such file")}),
        Commit({b"link": (SYMLINK, b"run"), b"text": None}),
        Commit({b"empty": (FILE, b""), b"link": None}),
    )
    assert facts.notes == []


def test_binary_and_awkward_contents(tmp_path: Path) -> None:
    contents = [bytes(range(256)) * 300, b"\r\n\r\n\0", b"PROPS-END\n", b"no newline", b"$Id$\r"]
    nodes = {b"file %d" % number: (FILE, content) for number, content in enumerate(contents)}
    converted(tmp_path, Commit(nodes), Commit({b"file 0": (FILE, contents[0][::-1])}))


def test_types_change(tmp_path: Path) -> None:
    file, link = (FILE, b"link target"), (SYMLINK, b"link target")
    converted(
        tmp_path,
        Commit({b"a": file, b"b/c/d": file, b"e": link, b"f": file, b"g": link}),
        Commit({b"a/b": file, b"b/c": file, b"e/f": link, b"f": link, b"g": file}),
        Commit({b"a": link, b"b": link, b"e": file, b"f/g": link, b"g/h/i": file}),
        Commit({b"a": file, b"b/c/d": link, b"e": link, b"f": (EXECUTABLE, b""), b"g": link}),
    )


def test_directories_that_become_empty_vanish(tmp_path: Path) -> None:
    one = (FILE, b"1")
    converted(
        tmp_path,
        Commit({b"a/b/c/d": one, b"a/e": one, b"f/g": one}),
        Commit({b"a/b/c/d": None, b"f/g": None, b"f/h": one}),
        Commit({b"a/e": None, b"f/h": None}),
        Commit({b"a/b/c": one}),
    )
    assert exported(tmp_path / "svn", 3).keys() == {b"a", b"a/e", b"f", b"f/h"}
    assert exported(tmp_path / "svn", 4) == {}


def test_odd_names_stay_as_they_are(tmp_path: Path) -> None:
    names = [
        " leading", "trailing ", "two  spaces", "dots...", "...", "quote\"'", "%41", "%", "back\\",
        "at@1", "@", "#", "a:b", "-r", "*?[", "~", "ä/é/ß", "e\u0301", "日本", "😀", ".svn", "\u0085",
        "trunk/trunk", "con", "K 3", "x" * 200,
    ]  # fmt: skip
    nodes = {name.encode(): (FILE, name.encode()) for name in names}
    facts = converted(tmp_path, Commit(nodes), Commit(dict.fromkeys(list(nodes)[::2])))
    assert facts.notes == []


def test_names_that_subversion_refuses_are_escaped_and_counted(tmp_path: Path) -> None:
    names = {
        b"new\nline": b"new?\\010line", b"tab\t": b"tab?\\009", b"\x7f/a": b"?\\127/a",
        b"\x7f/b": b"?\\127/b", b"latin-\xe4": b"latin-?\\228", b"cut\xe2\x82": b"cut?\\226?\\130",
        b"surrogate\xed\xa0\x80": b"surrogate?\\237?\\160?\\128",
        # Two names never become one.
        b"tab?\\009": b"tab?\\063\\009", b"why?\\no": b"why?\\no",
    }  # fmt: skip
    nodes: dict[bytes, Node] = {name: (FILE, name) for name in names}
    facts = converted(tmp_path, Commit(nodes), Commit({b"new\nline": (FILE, b"2")}))
    assert exported(tmp_path / "svn", 2) == {
        b"?\\127": Entry("dir"),
        **{escaped: Entry("file", name) for name, escaped in names.items()},
    }
    assert len(facts.notes) == 1
    assert facts.notes[0].startswith("Paths escaped, as in ?\\010,")
    assert facts.notes[0].endswith(": 9.")


def test_symlinks_whose_targets_subversion_cannot_make(tmp_path: Path) -> None:
    nodes: dict[bytes, Node] = {
        b"latin": (SYMLINK, b"\xe4"), b"lines": (SYMLINK, b"a\nb"), b"good": (SYMLINK, b" \xc3\xa4 ")
    }  # fmt: skip
    facts = write_and_load(
        git_source(make_git(tmp_path / "git", [Commit(nodes)])), tmp_path / "svn"
    )
    assert exported(tmp_path / "svn", 2) == {
        b"latin": Entry("symlink", b"?\\228"),
        b"lines": Entry("symlink", b"a?\\010b"),
        b"good": Entry("symlink", b" \xc3\xa4 "),
    }
    assert len(facts.notes) == 1
    assert facts.notes[0].startswith("Targets of symbolic links escaped, as in ?\\010,")
    assert facts.notes[0].endswith(": 2.")


def test_submodules_are_left_out_and_counted(tmp_path: Path) -> None:
    module = (SUBMODULE, b"1" * 40)
    file = (FILE, b"text")
    facts = converted(
        tmp_path,
        Commit({b"a": file, b"sub/one": module, b".gitmodules": (FILE, b'[submodule "x"]\n')}),
        Commit({b"sub/one": (SUBMODULE, b"2" * 40), b"two": module}),
        Commit({b"sub/one": file, b"a": module}),
        Commit({b"sub/one": module, b"a": (SYMLINK, b"sub")}),
        Commit({b"sub/one": None}),
    )
    assert facts.notes == ["Submodules left out: 3."]


def test_submodules_that_a_setting_hides_are_counted(tmp_path: Path) -> None:
    path = make_git(tmp_path / "git", [Commit({b"sub": (SUBMODULE, b"1" * 40)})])
    git(path, "config", "diff.ignoreSubmodules", "all")
    assert convert(path, tmp_path / "svn").notes == ["Submodules left out: 1."]


def test_empty_commits_are_revisions(tmp_path: Path) -> None:
    converted(tmp_path, Commit({}), Commit({b"a": (FILE, b"")}), Commit({}), Commit({b"a": None}))
    assert [entry["msg"] for entry in log(tmp_path / "svn")][1:] == ["A message.\n"] * 4


def test_messages_authors_and_identities(tmp_path: Path) -> None:
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
    assert [entry["git:commit"] for entry in entries] == commits_of(path)


def test_commit_encoding_of_a_work_tree(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "work", "-b", "main")
    work = tmp_path / "work"
    message = "Ärger".encode("latin-1")
    git(
        work, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-F", "-",
        stdin=message,
    )  # fmt: skip
    convert(work, tmp_path / "svn")
    assert log(tmp_path / "svn")[1]["msg"] == "Ärger\n"


def test_dates_out_of_order_never_go_back(tmp_path: Path) -> None:
    seconds = [1_000_000_100, 1_000_000_000, 1_000_000_050, 1_000_000_200]
    facts = converted(tmp_path, *(Commit({}, seconds=second) for second in seconds))
    dates = [entry["date"][14:19] for entry in log(tmp_path / "svn")]
    assert dates == ["48:20", "48:20", "48:20", "48:20", "50:00"]
    assert len(facts.notes) == 1
    assert facts.notes[0].startswith("Commits that got the date of the one before them")
    assert facts.notes[0].endswith(": 2.")


def test_commits_without_a_date_or_in_utf_16(tmp_path: Path) -> None:
    path = make_git(tmp_path / "git", [Commit({b"a": (FILE, b"1")}, encoding="UTF-16")])
    tree = git(path, "rev-parse", "main^{tree}")
    parent = git(path, "rev-parse", "main")
    broken = b"tree %sparent %sauthor A <a@b>\ncommitter C <c@d>\n\nNo date.\n" % (tree, parent)
    name = git(
        path, "hash-object", "-t", "commit", "--literally", "-w", "--stdin", stdin=broken
    ).decode().strip()  # fmt: skip
    git(path, "update-ref", "refs/heads/main", name)
    convert(path, tmp_path / "svn")
    assert log(tmp_path / "svn")[2]["msg"] == "No date.\n"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work tree with a merge, a tag, a second branch and a linked work tree beside it."""
    path = tmp_path_factory.mktemp("git") / "work"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")

    def commit(name: str) -> None:
        (path / name).write_text(name)
        git(path, "add", "-A")
        git(path, "commit", "-q", "-m", name)

    commit("one")
    git(path, "checkout", "-q", "-b", "side")
    commit("two")
    (path / "one").unlink()
    commit("three")
    git(path, "checkout", "-q", "main")
    commit("four")
    git(path, "merge", "-q", "--no-ff", "-m", "merge", "side")
    git(path, "tag", "-a", "-m", "a tag", "v1")
    commit("five")
    git(path, "worktree", "add", "-q", "../linked", "side")
    return path


def test_merges_are_one_revision(work: Path, tmp_path: Path) -> None:
    convert(work, tmp_path / "svn")
    messages = [entry["msg"].strip() for entry in log(tmp_path / "svn")]
    assert messages == ["The usual layout.", "one", "four", "merge", "five"]


@pytest.mark.parametrize("branch", ["side", "refs/heads/side", "v1", "main~1", "v1^2"])
def test_branch_is_any_name_of_a_commit(work: Path, tmp_path: Path, branch: str) -> None:
    convert(work, tmp_path / "svn", branch=branch)


def test_bare_linked_detached_and_shared_repositories(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(work), "bare.git")
    git(tmp_path, "clone", "-q", "--shared", str(work), "detached")
    git(tmp_path / "detached", "checkout", "-q", "v1")
    convert(tmp_path / "bare.git", tmp_path / "1")
    convert(work.parent / "linked", tmp_path / "2")
    convert(tmp_path / "detached", tmp_path / "3")
    assert exported(tmp_path / "2", 4).keys() == {b"two", b"three"}
    assert git_source(tmp_path / "detached").estimate().repository_bytes > 0


def test_sha256_repository(tmp_path: Path) -> None:
    commits = [Commit({b"a/b": (FILE, b"1")}), Commit({b"a/b": (FILE, b"2")})]
    convert(make_git(tmp_path / "git", commits, "--object-format=sha256"), tmp_path / "svn")


def test_settings_of_the_user_change_nothing(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = digest(git_source(work))
    (tmp_path / ".gitconfig").write_text(
        "[log]\nshowSignature = true\nfollow = true\ndate = relative\ndecorate = full\n"
        "[diff]\nrenames = copies\nnoprefix = true\nignoreSubmodules = all\n"
        "[i18n]\nlogOutputEncoding = UTF-16\n[color]\nui = always\n[core]\nquotePath = true\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_TRACE", "1")
    assert digest(git_source(work)) == expected


def test_the_same_bytes_each_time_and_nothing_written(work: Path) -> None:
    source = git_source(work)
    before = listing(work)
    source.check()
    source.identity()
    source.estimate()
    source.describe()
    assert digest(source) == digest(git_source(work))
    assert listing(work) == before


def test_identity_changes_with_a_commit_and_with_depth(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(work), "whole")
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{work}", "shallow")
    whole, shallow = git_source(tmp_path / "whole"), git_source(tmp_path / "shallow")
    assert whole.identity() == git_source(work).identity() != shallow.identity()
    assert convert(tmp_path / "shallow", tmp_path / "svn").notes == [
        "The clone is shallow: its history begins in the middle."
    ]
    before = whole.identity()
    git(tmp_path / "whole", "commit", "-q", "--allow-empty", "-m", "more")
    assert whole.identity() != before


def test_estimate_counts_what_is_there(work: Path) -> None:
    estimate = git_source(work).estimate()
    assert (estimate.revisions, estimate.files, estimate.tree_bytes) == (5, 4, 16)


def refusal(path: Path, **options: str) -> str:
    with pytest.raises(UserError) as caught:
        git_source(path, **options).check()
    return str(caught.value)


def test_what_is_no_history_is_refused(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    (work / "folder").mkdir(exist_ok=True)
    where = "config/config.yaml: repositories.mine."
    assert refusal(tmp_path / "empty").startswith(f"{where}path: {tmp_path}/empty has no commit")
    assert refusal(tmp_path / "none") == f"{where}path: {tmp_path}/none does not exist"
    for path in (tmp_path, work / "one", work / "folder"):
        if path.exists():
            assert refusal(path) == f"{where}path: {path} is not a git repository"
    for branch in ("nowhere", "--help", "-q", "HEAD^{tree}"):
        assert refusal(work, branch=branch) == f"{where}branch: {work} has no commit {branch!r}"


def test_without_git_it_says_so(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "the program git is needed to read" in refusal(work)


def test_wrong_keys_are_named(work: Path) -> None:
    with pytest.raises(UserError, match=r"repositories\.mine\.history: must be one of"):
        git_source(work, history="last")
    with pytest.raises(UserError, match=r"repositories\.mine\.tree: is no key"):
        git_source(work, tree="trunk")


def object_file(path: Path, name: str) -> Path:
    identity = git(path, "rev-parse", name).decode().strip()
    return path / "objects" / identity[:2] / identity[2:]


@pytest.mark.parametrize("name", ["main", "main~1^{tree}", "main:big", "main~1:a/b"])
@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_damaged_repositories_are_refused(tmp_path: Path, name: str, damage: str) -> None:
    big = bytes(number * number % 251 for number in range(300_000))
    commits = [Commit({b"a/b": (FILE, b"1"), b"big": (FILE, big)}), Commit({b"a/b": (FILE, b"2")})]
    path = make_git(tmp_path / "git", commits)
    pack = next(path.glob("objects/pack/*.pack"), None)
    if pack:  # the objects as files of their own
        moved = pack.rename(tmp_path / "pack")
        shutil.rmtree(path / "objects/pack")
        git(path, "unpack-objects", "-q", stdin=moved.read_bytes())
    victim = object_file(path, name)
    content = victim.read_bytes()
    victim.unlink()
    if damage == "short":
        victim.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        middle = len(content) // 2
        victim.write_bytes(content[:middle] + bytes([content[middle] ^ 8]) + content[middle + 1 :])
    with pytest.raises(UserError):
        git_source(path).write(io.BytesIO())


def test_partial_clones_are_refused_and_fetch_nothing(work: Path, tmp_path: Path) -> None:
    git(work, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", f"file://{work}", "partial")
    before = listing(tmp_path / "partial")
    assert "is a partial clone" in refusal(tmp_path / "partial")
    with pytest.raises(UserError):
        git_source(tmp_path / "partial").estimate()
    with pytest.raises(UserError, match="is a partial clone"):
        git_source(tmp_path / "partial").write(io.BytesIO())
    assert listing(tmp_path / "partial") == before


# Few names, so that files, directories and symlinks often take each other's place.
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
QUICKLY = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


def check_history(history: list[Commit]) -> None:
    """Convert and compare; what svn log prints must be valid XML."""
    with tempfile.TemporaryDirectory() as folder:
        converted(Path(folder), *history)
        assert len(log(Path(folder) / "svn")) == len(history) + 1


@given(histories)
@settings(QUICKLY, max_examples=12, phases=[Phase.generate])  # shrinking would take minutes
def test_any_history_keeps_its_trees(history: list[Commit]) -> None:
    check_history(history)


@pytest.mark.slow
@given(histories)
@settings(QUICKLY, max_examples=200)
def test_any_of_many_histories_keeps_its_trees(history: list[Commit]) -> None:
    check_history(history)


@given(st.lists(st.binary(max_size=12).filter(lambda name: b"/" not in name), max_size=8))
def test_two_names_never_become_one(found: list[bytes]) -> None:
    escaped = [subversion_path(name) for name in found]
    assert len(set(escaped)) == len(set(found))
    for name in escaped:
        assert name.decode("utf-8").isprintable() or not any(
            byte < 32 or byte == 127 for byte in name
        )
