"""Directories as sources: trees are loaded unchanged."""

import argparse
import hashlib
import os
import random
import stat
from pathlib import Path

import pytest

from git_histories import exported, tree_on_disk, write_and_load
from project import ODD_FILES, needs
from tree_files import make_tree
from vcsbench.errors import UserError
from vcsbench.sources import open_source, svn_names, tree_source
from vcsbench.storages.file_trees import MAX_DEPTH, entries
from vcsbench.subjects.tree import checkout_head

pytestmark = needs("svnadmin", "svn")


def test_directory_nested_too_deep_raises(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(MAX_DEPTH + 5):
        os.mkdir("d")
        os.chdir("d")
    with pytest.raises(UserError):
        list(entries(tmp_path))


def directory(root):
    return open_source("it", {"source": "directory", "path": str(root)})


def test_directory_tree_is_loaded_unchanged(tmp_path):
    root = make_tree(tmp_path / "tree-1.0")
    expected = tree_on_disk(root)
    (root / ".git").mkdir()
    (root / ".git/config").write_text("")
    for kind in ("pipe", "socket", "loop"):
        ODD_FILES[kind](root / kind)
    expected[b"loop"] = ("symlink", b"loop")
    source = directory(root)
    source.check()
    facts = write_and_load(source, tmp_path / "svn")
    assert exported(tmp_path / "svn", 1) == expected
    assert facts.revisions == source.estimate().revisions == 1
    assert len(facts.notes) == 2


LONG = b"\xf0" * 60 + b".txt"
ODD_NAMES = {
    b"esc\x1b[31m/bell\x07": b"esc?\\027[31m/bell?\\007",
    b"latin-\xe9": b"latin-?\\233",
    b"line\n": b"line?\\010",
    b"?\\027[31m": b"?\\063\\027[31m",
    b"b/.GIT": b"b/?\\046GIT",
    LONG: (b"?\\240" * 48)[:232] + b"?\\#" + hashlib.sha256(LONG).hexdigest()[:16].encode(),
}
LEFT_OUT = (b".svn/entries", b"a/.git/config", b"a/b/CVS/Root")


def test_directory_odd_names_are_equal_in_history_and_tree(tmp_path):
    root = tmp_path / "kit"
    for file in (*ODD_NAMES, *LEFT_OUT):
        path = root / os.fsdecode(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file)
    for link, target in ((b"odd", b"to\x1b\xe9"), (b"long", b"\x01" * 1500)):
        os.symlink(target, os.fsencode(root) + b"/" + link)
    os.link(root / "line\n", root / "again")
    (root / "again").chmod(0o640)
    os.mkfifo(root / "pipe")
    source = directory(root)
    facts = write_and_load(source, tmp_path / "svn")
    tree = tmp_path / "tree"
    notes = checkout_head(source.head(), tree, "svn")
    expected = {new: ("file", old) for old, new in ODD_NAMES.items()}
    expected |= {b"again": ("file", b"line\n"), b"long": ("symlink", b"\x01" * 1500)}
    expected |= {b"odd": ("file", b"to\x1b\xe9")}
    found = {path: entry for path, entry in tree_on_disk(tree).items() if entry[0] != "dir"}
    assert found == expected
    assert tree_on_disk(tree) == exported(tmp_path / "svn", 1)
    numbers = {
        svn_names.RENAMED_NOTE: 7, svn_names.LINKS_NOTE: 1, tree_source.ADMINISTRATIVE_NOTE: 3,
        tree_source.SPECIAL_NOTE: 1,
    }  # fmt: skip
    assert sorted(notes) == sorted(f"{what}: {number}." for what, number in numbers.items())
    assert sorted(facts.notes) == sorted([*notes, f"{tree_source.LINKED}: 1."])
    assert (tree / "again").samefile(tree / "line?\\010")
    assert (tree / "again").stat().st_mode & 0o777 == 0o640


def test_directory_tree_with_a_read_only_folder_keeps_modes_and_times(tmp_path):
    root = make_tree(tmp_path / "kit")
    os.utime(root / "deep/er/file", (1, 2))
    os.utime(root / "deep", (3, 4))
    (root / "deep").chmod(0o555)
    (root / "run").chmod(0o6755)
    (root / "empty").chmod(0o3775)
    tree_source.copy_directory(root, tmp_path / "tree")
    assert tree_on_disk(tmp_path / "tree") == tree_on_disk(root)
    for file in root.rglob("*"):
        original, copy = file.lstat(), (tmp_path / "tree" / file.relative_to(root)).lstat()
        assert copy.st_mtime_ns == original.st_mtime_ns
        # Without set-uid bits: a copy belongs to another user.
        bits = 0o777 | stat.S_IFMT(original.st_mode)
        assert copy.st_mode == original.st_mode & bits


def test_directory_estimate_depends_on_the_compression_of_its_files(tmp_path):
    root = tmp_path / "kit"
    root.mkdir()
    code, archive = Path(argparse.__file__).read_bytes(), random.Random(1).randbytes(100_000)
    # A text, and the least and the largest share of its bytes that the repository has.
    for text, least, most in ((code, 0.5, 0.6), (archive, 1, 1)):
        (root / "file").write_bytes(text)
        estimated = directory(root).estimate().repository_bytes
        assert int(least * len(text)) <= estimated <= most * len(text)


def test_directory_larger_than_the_free_space_is_refused(tmp_path):
    root = make_tree(tmp_path / "kit")
    with (root / "hole").open("wb") as file:
        file.truncate(8 << 40)
    with pytest.raises(UserError, match="tree has 8"):
        tree_source.copy_directory(root, tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_directory_path_too_long_by_its_escapes_is_refused_in_a_plan(tmp_path):
    path = root = tmp_path / "kit"
    for _ in range(14):
        path /= "\x01" * 240
    path.mkdir(parents=True)
    (path / "file").touch()
    source = directory(root)
    with pytest.raises(UserError, match="3500 bytes"):
        source.estimate()
    with pytest.raises(UserError, match="3500 bytes"):
        checkout_head(source.head(), tmp_path / "tree", "svn")


def test_checkout_head_of_a_changed_directory_is_refused(tmp_path):
    source = directory(make_tree(tmp_path / "tree"))
    before = source.identity()
    checkout_head(source.head(), tmp_path / "first", "svn", before)
    (tmp_path / "tree/deep/nothing").touch()
    with pytest.raises(UserError, match="changed since"):
        checkout_head(source.head(), tmp_path / "second", "svn", before)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: None,
        lambda p: p.write_text(""),
        Path.mkdir,
        lambda p: (p / "a/.git/config").mkdir(parents=True),
        lambda p: (p.mkdir(), os.mkfifo(p / "pipe")),
    ],
    ids=["missing", "file", "empty", "no files", "pipe"],
)
def test_directory_without_files_names_the_key(make, tmp_path):
    path = tmp_path / "it"
    make(path)
    with pytest.raises(UserError, match=rf"repositories\.it\.path`: {path} "):
        directory(path).check()
