"""Git histories as Subversion ones: trees, names, messages and dates come out as they were."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from git_histories import (
    EXECUTABLE,
    FILE,
    SUBMODULE,
    SYMLINK,
    Commit,
    Entry,
    Node,
    commits_of,
    convert,
    converted,
    exported,
    git,
    git_source,
    log,
    make_git,
    write_and_load,
)

pytestmark = pytest.mark.skipif(
    not (shutil.which("svnadmin") and shutil.which("git")), reason="not installed: svnadmin or git"
)


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
        "at@1", "@", "#", "a:b", "-r", "*?[", "~", "ä/é/ß", "e\u0301", "日本", "😀", ".svnx", "\u0085",
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


def test_symlinks_that_no_system_can_make_become_files(tmp_path: Path) -> None:
    long = b"x" * 4096
    history = [
        Commit({b"empty": (SYMLINK, b""), b"long": (SYMLINK, long), b"good": (SYMLINK, long[1:])}),
        Commit({b"empty": (SYMLINK, b"good"), b"good": (SYMLINK, b"")}),
    ]
    facts = write_and_load(git_source(make_git(tmp_path / "git", history)), tmp_path / "svn")
    assert exported(tmp_path / "svn", 2) == {
        b"empty": Entry("file", b""),
        b"long": Entry("file", long),
        b"good": Entry("symlink", long[1:]),
    }
    assert exported(tmp_path / "svn", 3) == {
        b"empty": Entry("symlink", b"good"),
        b"long": Entry("file", long),
        b"good": Entry("file", b""),
    }
    assert [note.split(",")[0] for note in facts.notes] == ["Symbolic links made plain files"]


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
