"""Directories and archives as sources: trees are loaded unchanged, hostile archives are refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import shutil
import stat
import subprocess
import tarfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_histories import exported, run, tree_on_disk, write_and_load
from project import needs
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.files import MAX_DEPTH, entries
from vcsbench.run import bundle
from vcsbench.sources import archives, dump_format, open_source, tree_source
from vcsbench.sources.archives import ArchiveError, ContainedFolder, split_name
from vcsbench.subjects.tree import checkout_head

pytestmark = needs("svnadmin", "svn")

warnings.filterwarnings("ignore", category=UserWarning, module="zipfile")
# From the folder that an archive is unpacked into.
OUTSIDE = "../outside"


def tar_of(*members: tuple[str, bytes, bytes | str], **more: str) -> bytes:
    """An archive of (name, type, content or target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.pax_headers = kind, dict(more)
            if isinstance(content, str):
                member.linkname = content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def zip_of(*members: tuple[str, int, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, mode, content in members:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return out.getvalue()


HOLES = bytes(2 * 2**20)
REG, DIR, SYM = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE
LNK, FIFO, CHR = tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE
ZLINK, ZFILE, ZFIFO = 0o120777, 0o100644, 0o010644


def patched(content: bytes, at: int, at_central: int, value: int) -> bytes:
    """A .zip of one member with a byte changed in both of its headers."""
    changed = bytearray(content)
    changed[at] = changed[changed.rfind(b"PK\1\2") + at_central] = value
    return bytes(changed)


def long_chain() -> bytes:
    """Links that a path beyond PATH_MAX leads through, as in CVE-2025-4517."""
    members: list[tuple[str, bytes, bytes | str]] = []
    path, name = "", "d" * 247
    for step in "abcdefghijklmnop":
        members.append((f"{path}{name}", DIR, b""))
        members.append((f"{path}{step}", SYM, name))
        path += f"{step}/"
    members.append((f"{path}{'l' * 254}", SYM, "../" * 16))
    members.append(("escape", SYM, f"{path}{'l' * 254}/../../{OUTSIDE}"))
    members.append(("escape/file", REG, b"x"))
    return tar_of(*members)


ONE_ZIP = zip_of(("kit/text", ZFILE, b"hello"))
HELLO = tar_of(("kit/text", REG, b"hello"))
REFUSED: dict[str, bytes | Callable[[], bytes]] = {
    "zip below link": zip_of(("a", ZLINK, OUTSIDE.encode()), ("a/x", ZFILE, b"x")),
    "zip same as link": zip_of(("a", ZLINK, f"{OUTSIDE}/x".encode()), ("a", ZFILE, b"x")),
    "zip folder then link": zip_of(("a/", 0o040755, b""), ("a", ZLINK, OUTSIDE.encode())),
    "zip parent": zip_of(("../x", ZFILE, b"x")),
    "zip absolute": zip_of(("/nonexistent/x", ZFILE, b"x")),
    "zip link target long": zip_of(("a", ZLINK, b"x" * 4096)),
    "zip link target NUL": zip_of(("a", ZLINK, b"x\0y")),
    "zip link target empty": zip_of(("a", ZLINK, b"")),
    "zip bomb": lambda: zip_of(*((f"a{n}", ZFILE, HOLES) for n in range(9))),
    "zip link bomb": lambda: zip_of(("a", ZLINK, bytes(20 * 2**20))),
    "zip NUL in name": zip_of(("aNb", ZFILE, b"x")).replace(b"aNb", b"a\0b"),
    "zip password": patched(ONE_ZIP, 6, 8, 1),
    "zip deflate64": patched(ONE_ZIP, 8, 10, 9),
    "zip AES": patched(ONE_ZIP, 8, 10, 99),
    "zip lzma": patched(ONE_ZIP, 8, 10, 14),
    "zip bzip2": patched(ONE_ZIP, 8, 10, 12),
    "zip truncated": ONE_ZIP[:-10],
    "zip empty": zip_of(),
    "zip not UTF-8": zip_of(("é", ZFILE, b"x")).replace("é".encode(), b"\xff\xfe"),
    "tar below link": tar_of(("a", SYM, OUTSIDE), ("a/x", REG, b"x")),
    "tar same as link": tar_of(("a", SYM, f"{OUTSIDE}/x"), ("a", REG, b"x")),
    "tar hard link through link": tar_of(("a", SYM, OUTSIDE), ("b", LNK, "a/secret")),
    "tar hard link outside": tar_of(("b", LNK, f"{OUTSIDE}/../etc/passwd")),
    "tar hard link absolute": tar_of(("b", LNK, "/etc/passwd")),
    "tar hard link to nothing": tar_of(("a", LNK, "b")),
    "tar hard link to itself": tar_of(("a", REG, b""), ("a", LNK, "a")),
    "tar hard link to folder": tar_of(("d", DIR, b""), ("a", LNK, "d")),
    "tar hard link bomb": lambda: tar_of(
        ("a", REG, bytes(2**20)), *((f"b{n}", LNK, "a") for n in range(300))
    ),
    "tar parent": tar_of(("kit/../../x", REG, b"x")),
    "tar absolute": tar_of(("/nonexistent/x", REG, b"x")),
    "tar chain": long_chain,
    "tar file as folder": tar_of(("a", REG, b"x"), ("a/b", REG, b"x")),
    "tar folder as file": tar_of(("a/b", REG, b"x"), ("a", REG, b"x")),
    "tar root is a file": tar_of((".", REG, b"x")),
    "tar root is a link": tar_of((".", SYM, OUTSIDE)),
    "tar NUL in name": tar_of(("b", REG, b"x"), path="a\0b"),
    "tar NUL in target": tar_of(("b", SYM, "c"), linkpath="a\0b"),
    "tar name too long": tar_of(("a" * 256, REG, b"x")),
    "tar path too long": tar_of(("a/" * 2048 + "b", REG, b"x")),
    "tar deep": tar_of(("d/" * 1500 + "x", REG, b"x")),
    "tar sparse": tar_of(("a", b"S", b"")),
    "tar sparse by pax": tar_of(("a", REG, b"x"), **{"GNU.sparse.realsize": "8589934592"}),
    "tar unknown type": tar_of(("a", b"Q", b"")),
    "tar truncated in content": HELLO[:514],
    "tar truncated in header": HELLO[:500],
    "tar without end mark": HELLO[:1024],
    "tar large header": lambda: tar_of(("a", REG, b"x"), comment="x" * 2**21),
    "tar only pipes": tar_of(("a", FIFO, b""), ("b", CHR, b"")),
    "tar empty": bytes(10240),
    "tar empty tree": tar_of(("./", DIR, b"")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unpack_refused_archive_gives_one_sentence(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, folder, path = (tmp_path / name for name in ("outside", "into", "archive"))
    outside.mkdir()
    folder.mkdir()
    (outside / "secret").write_text("secret")
    if case.endswith("bomb"):
        monkeypatch.setattr(archives, "EXPANDED_BYTES", 10 * 2**20)
    content = REFUSED[case]
    content = content if isinstance(content, bytes) else content()
    path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        tree_source.unpack(path, folder)
    assert str(raised.value).startswith(f"{path}: cannot be unpacked: ")
    assert str(raised.value).isprintable() and len(str(raised.value)) < len(str(path)) + 400
    assert [file.name for file in outside.iterdir()] == ["secret"]
    assert (outside / "secret").stat().st_nlink == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["archive", "into", "outside"]


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("below", [True, False])
def test_unpack_link_then_member_through_it_writes_nothing_outside(
    kind: str, below: bool, tmp_path: Path
) -> None:
    outside, folder, path = (tmp_path / name for name in ("outside", "into", "archive"))
    outside.mkdir()
    folder.mkdir()
    target = str(outside) if below else str(outside / "x")
    second = "a/x" if below else "a"
    as_zip = zip_of(("a", ZLINK, target.encode()), (second, ZFILE, b"x"))
    path.write_bytes(as_zip if kind == "zip" else tar_of(("a", SYM, target), (second, REG, b"x")))
    with pytest.raises(UserError):
        tree_source.unpack(path, folder)
    assert not any(outside.iterdir())


TEXT = {"kit/text": b"hello"}
UNPACKED: dict[str, tuple[bytes, dict[str, bytes]]] = {
    "zip at the end": (HELLO + ONE_ZIP.replace(b"hello", b"HELLO"), TEXT),
    "zip in zip": (ONE_ZIP, TEXT),
    "mtime inf": (tar_of(("kit/text", REG, b"hello"), mtime="inf"), TEXT),
    "mtime nan": (tar_of(("kit/text", REG, b"hello"), mtime="nan"), TEXT),
    "mtime huge": (tar_of(("kit/text", REG, b"hello"), mtime="9" * 400), TEXT),
    "duplicates": (tar_of(("kit/text", REG, b"old"), ("kit/text", REG, b"hello")), TEXT),
    "case": (tar_of(("a", REG, b"1"), ("A", REG, b"2")), {"a": b"1", "A": b"2"}),
    "deep": (
        tar_of(("d/" * (MAX_DEPTH - 1) + "x", REG, b"x")),
        {"d/" * (MAX_DEPTH - 1) + "x": b"x"},
    ),
    "pipe": (tar_of(("p", FIFO, b""), ("kit/q", LNK, "p"), ("kit/text", REG, b"hello")), TEXT),
    "zip pipe": (zip_of(("kit/p", ZFIFO, b""), ("kit/text", ZFILE, b"hello")), TEXT),
}


@pytest.mark.parametrize("case", UNPACKED)
def test_unpack_odd_archive_has_all_files(case: str, tmp_path: Path) -> None:
    content, files = UNPACKED[case]
    path, folder = tmp_path / "archive", tmp_path / "into"
    path.write_bytes(content)
    folder.mkdir()
    assert tree_source.is_archive(path)
    counts = Counter[str]()
    root = tree_source.unpack(path, folder, counts)
    top = "" if root == folder else next(iter(files)).split("/")[0] + "/"
    found = {
        top + os.path.relpath(file, root): Path(file).read_bytes()
        for file, state in entries(root)
        if stat.S_ISREG(state.st_mode)
    }
    assert found == files
    assert counts[tree_source.SPECIAL_MEMBER] == {"pipe": 2, "zip pipe": 1}.get(case, 0)
    assert counts[tree_source.REPLACED] == (case == "duplicates")


def test_unpack_bits_and_links_of_a_tar_are_safe(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.tar", tmp_path / "into"
    with tarfile.open(path, "w") as archive:
        for name, mode in (("kit/set-uid", 0o6755), ("kit/plain", 0o666), (b"kit/\xff", 0o644)):
            member = tarfile.TarInfo(os.fsdecode(name))
            member.mode = mode
            archive.addfile(member)
        for name, target in (("kit/away", "/etc/passwd"), ("kit/again", "kit/away")):
            member = tarfile.TarInfo(name)
            member.type = SYM if name == "kit/away" else LNK
            member.linkname = target
            archive.addfile(member)
    folder.mkdir()
    before = os.umask(0)
    try:
        root = tree_source.unpack(path, folder)
    finally:
        os.umask(before)
    modes = {file.name: file.lstat().st_mode & 0o7777 for file in root.iterdir()}
    assert modes["set-uid"] == 0o755 and modes["plain"] == 0o644 and os.fsdecode(b"\xff") in modes
    assert os.readlink(root / "away") == os.readlink(root / "again") == "/etc/passwd"


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_unpack_each_format_of_gnu_tar_gives_the_same_tree(form: str, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    (kit / "sub").mkdir(parents=True)
    (kit / "sub/file").write_bytes(os.urandom(70_000))
    (kit / "run").write_text("x")
    (kit / "run").chmod(0o755)
    (kit / "link").symlink_to("run")
    if form not in ("v7", "ustar"):
        (kit / ("n" * 200)).write_text("long name")
        (kit / "long link").symlink_to("t" * 300)
    path, folder = tmp_path / "kit.tar", tmp_path / "into"
    subprocess.run(["tar", f"--format={form}", "-cf", path, "-C", tmp_path, "kit"], check=True)
    folder.mkdir()
    assert tree_source.is_archive(path)
    root = tree_source.unpack(path, folder)
    subprocess.run(["diff", "-r", "--no-dereference", kit, root], check=True)
    assert os.access(root / "run", os.X_OK)


@pytest.mark.parametrize("name", [b"/etc/x", b"a/../b", b"..", b"a\0b", b"d/" * 300, b"n" * 256])
def test_split_name_that_could_leave_raises(name: bytes) -> None:
    with pytest.raises(ArchiveError):
        split_name(name)


def test_contained_folder_link_made_by_another_process_is_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (inside / "a").symlink_to(outside)
    with ContainedFolder(inside, 0) as folder:
        for parts in ((b"a", b"x"), (b"a",)):
            with pytest.raises(ArchiveError):
                folder.add_file(parts, [b"x"])
    assert not any(outside.iterdir())


def test_tar_number_of_each_encoding_is_read() -> None:
    assert archives._number(b"0000644\0") == 0o644
    assert archives._number(b"\x80" + bytes(10) + b"\x09") == 9
    with pytest.raises(ArchiveError):
        archives._number(b"\xff" * 12)


def test_directory_nested_too_deep_raises(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(MAX_DEPTH + 5):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    with pytest.raises(UserError):
        list(entries(tmp_path))


# Sources


def make_tree(root: Path) -> Path:
    (root / "empty").mkdir(parents=True)
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/file").write_bytes(bytes(range(256)))
    (root / "deep/nothing").write_text("")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("deep/er/file")
    (root / "away").symlink_to("/nowhere")
    (root / "odd é ü name").write_text("x")
    return root


def pack(root: Path, path: Path) -> Path:
    if path.suffix == ".zip":
        members = []
        for file in sorted(root.rglob("*")):
            name = (
                f"{file.relative_to(root.parent)}{'/' * (file.is_dir() and not file.is_symlink())}"
            )
            target = os.readlink(file).encode() if file.is_symlink() else b""
            content = target or (file.read_bytes() if file.is_file() else b"")
            members.append((name, file.lstat().st_mode, content))
        path.write_bytes(zip_of(*members))
        return path
    program = {".gz": ["-z"], ".xz": ["-J"], ".zst": ["--zstd"]}.get(path.suffix, [])
    run("tar", *program, "-cf", path, "-C", root.parent, root.name)
    return path


@pytest.mark.parametrize("name", ["", "a.tar", "a.tar.gz", "a.tar.xz", "a.tar.zst", "a.zip"])
def test_tree_source_tree_is_loaded_unchanged(name: str, tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree-1.0")
    expected = tree_on_disk(root)
    if not name:
        (root / ".git").mkdir()
        (root / ".git/config").write_text("")
        os.mkfifo(root / "pipe")
    path = pack(root, tmp_path / name) if name else root
    source = open_source("it", {"source": "archive" if name else "directory", "path": str(path)})
    source.check()
    facts = write_and_load(source, tmp_path / "svn")
    assert exported(tmp_path / "svn", 1, source.tree()) == expected
    assert facts.revisions == source.estimate().revisions == 1
    assert len(facts.notes) == (0 if name else 2)


ODD_NAMES: dict[bytes, bytes] = {
    b"esc\x1b[31m/bell\x07": b"esc?\\027[31m/bell?\\007",
    b"latin-\xe9": b"latin-?\\233",
    b"line\n": b"line?\\010",
    b"?\\027[31m": b"?\\063\\027[31m",
    b"b/.GIT": b"b/?\\046GIT",
    b"\xf0" * 60 + b".txt": (b"?\\240" * 48)[:236]
    + b"?\\#"
    + hashlib.sha256(b"\xf0" * 60 + b".txt").hexdigest()[:16].encode(),
}
LEFT_OUT = (b".svn/entries", b"a/.git/config", b"a/b/CVS/Root")


@pytest.mark.parametrize("name", ["", "a.tar", "a.tar.gz"])
def test_tree_source_odd_names_are_equal_in_history_and_tree(name: str, tmp_path: Path) -> None:
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
    path = pack(root, tmp_path / name) if name else root
    source = open_source("it", {"source": "archive" if name else "directory", "path": str(path)})
    facts = write_and_load(source, tmp_path / "svn")
    tree, private = tmp_path / "tree", tmp_path / "private"
    private.mkdir()
    notes = checkout_head(source.head(), tree, private, "svn")
    expected = {new: ("file", old) for old, new in ODD_NAMES.items()}
    expected |= {b"again": ("file", b"line\n"), b"long": ("file", b"\x01" * 1500)}
    expected |= {b"odd": ("symlink", b"to?\\027?\\233")}
    found = {path: entry for path, entry in tree_on_disk(tree).items() if entry[0] != "dir"}
    assert found == expected
    assert tree_on_disk(tree) == exported(tmp_path / "svn", 1, source.tree())
    special = tree_source.SPECIAL_MEMBER if name else tree_source.SPECIAL
    assert sorted(notes) == sorted(
        [
            f"{dump_format.ESCAPED}: 6.",
            f"{dump_format.RESERVED}: 1.",
            f"{dump_format.SHORTENED}: 1.",
            f"{dump_format.TARGETS}: 1.",
            f"{dump_format.IMPOSSIBLE}: 1.",
            f"{tree_source.ADMINISTRATIVE}: 3.",
            f"{special}: 1.",
        ]
    )
    assert sorted(facts.notes) == sorted([*notes, f"{tree_source.LINKED}: 1."])
    assert (tree / "again").samefile(tree / "line?\\010")
    assert (tree / "again").stat().st_mode & 0o777 == (0o644 if name else 0o640)


def test_directory_tree_with_a_read_only_folder_keeps_modes_and_times(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "kit")
    os.utime(root / "deep/er/file", (1, 2))
    os.utime(root / "deep", (3, 4))
    (root / "deep").chmod(0o555)
    tree_source.extract_tree("directory", root, tmp_path / "tree", tmp_path)
    assert tree_on_disk(tmp_path / "tree") == tree_on_disk(root)
    copies = {file.relative_to(tmp_path / "tree"): file for file in (tmp_path / "tree").rglob("*")}
    for file in root.rglob("*"):
        copy, original = copies[file.relative_to(root)].lstat(), file.lstat()
        assert (copy.st_mode, copy.st_mtime_ns) == (original.st_mode, original.st_mtime_ns)


def test_directory_identity_changes_with_an_edit_only(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree")
    definition = {"source": "directory", "path": str(root)}
    before = open_source("it", definition).identity()
    assert open_source("it", definition).identity() == before
    (root / "deep/nothing").write_text("something")
    assert open_source("it", definition).identity() != before


@pytest.mark.parametrize(
    ("source", "make", "message"),
    [
        ("directory", lambda p: None, "does not exist"),
        ("directory", lambda p: p.write_text(""), "is no folder"),
        ("archive", lambda p: None, "does not exist"),
        ("archive", lambda p: p.mkdir(), "is no file"),
        ("archive", lambda p: p.write_text("text"), "is no archive"),
    ],
)
def test_tree_source_wrong_path_names_the_key(
    source: str, make: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "it"
    make(path)
    with pytest.raises(UserError, match=rf"repositories\.it\.path: {path} {message}"):
        open_source("it", {"source": source, "path": str(path)}).check()


def test_archive_source_truncated_is_refused(tmp_path: Path) -> None:
    path = pack(make_tree(tmp_path / "tree"), tmp_path / "a.tar.gz")
    path.write_bytes(path.read_bytes()[:-200])
    source = open_source("it", {"source": "archive", "path": str(path)})
    with pytest.raises(UserError, match=f"{path}: cannot be unpacked"):
        source.write(io.BytesIO())


# Mutated archives and bundles


def tar_seed() -> bytes:
    text = b"x" * 700
    return tar_of(
        ("kit/file", REG, text),
        ("kit/link", SYM, "../../outside"),
        ("kit/same", LNK, "kit/file"),
        ("kit/é" + "n" * 120, REG, text),
        ("kit/pipe", FIFO, b""),
        ("kit/link2/x", REG, text),
    )


def zip_seed() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number, method in enumerate((0, 8, 12, 14)):
            info = zipfile.ZipInfo(f"kit/file{number}")
            info.compress_type = method
            archive.writestr(info, b"hello" * 50)
        link = zipfile.ZipInfo("kit/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "../../outside")
        archive.writestr("kit/link2/x", "x")
    return out.getvalue()


def bundle_seed() -> bytes:
    files = {
        "results/page/s.json": b'{"order": {}}',
        "config/studies/s.yaml": b"a: [b, &c {d: e}, *c]\n",
        "results/grid/s.csv": b"cell,round\nlog/svn,1\n",
        "reports/s.html": b"<html>",
    }
    stated = {
        n: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for n, c in files.items()
    }
    manifest = {"layout": 1, "vcsbench": "1", "studies": ["s"], "files": stated}
    members = [(f"{bundle.INSIDE}/{name}", REG, content) for name, content in files.items()]
    return tar_of((bundle.MANIFEST, REG, json.dumps(manifest).encode()), *members)


WORDS = (
    b"../",
    b"/",
    b"\0",
    b"\xff\xff",
    b"link",
    b"kit/link/x",
    b"\x80",
    b"1",
    b"2",
    b"S",
    b"\x1b[",
)


def mutate(seed: bytes, choice: random.Random) -> bytes:
    """Change, insert, remove or repeat bytes. Half of the time, repair the checksums of a tar."""
    content = bytearray(seed)
    for _ in range(choice.randint(1, 4)):
        at = choice.randrange(len(content) + 1)
        kind = choice.randrange(6)
        if kind == 0 and at < len(content):
            content[at] = choice.randrange(256)
        elif kind == 1:
            word = choice.choice(WORDS)
            content[at : at + len(word)] = word
        elif kind == 2:
            block = at // 512 * 512
            field = choice.choice((0, 124, 156, 157, 257, 345))
            word = choice.choice(WORDS)
            content[block + field : block + field + len(word)] = word
        elif kind == 3:
            del content[at : at + choice.choice((1, 512, 1024))]
        elif kind == 4:
            content[at:at] = content[: choice.choice((1, 512, 1024))]
        else:
            del content[at:]
        if not content:
            return b"x"
    if choice.random() < 0.5:
        for block in range(0, len(content) - 511, 512):
            if content[block + 148 : block + 156].strip(b"01234567 \0") == b"" and any(
                content[block : block + 100]
            ):
                content[block + 148 : block + 156] = b" " * 8
                checksum = sum(content[block : block + 512])
                content[block + 148 : block + 156] = b"%06o\0 " % checksum
    return bytes(content)


def run_fuzz(count: int, folder: Path) -> Counter[str]:
    """Run `count` cases per reader and return the number of each result."""
    counts = Counter[str]()
    (folder / "outside").mkdir()
    (folder / "in").mkdir()
    archive = folder / "in/a.tar.gz"
    seeds = {"tar": tar_seed(), "zip": zip_seed(), "bundle": bundle_seed()}
    for reader, seed in seeds.items():
        choice = random.Random(reader)
        for number in range(count):
            content = seed if number == 0 else mutate(seed, choice)
            archive.write_bytes(gzip.compress(content, 1) if reader == "bundle" else content)
            target = folder / "in" / str(number)
            target.mkdir()
            try:
                if reader == "bundle":
                    bundle.unpack(archive, "x", target)
                else:
                    tree_source.unpack(archive, target)
                counts[f"{reader} read"] += 1
            except UserError as error:
                message = str(error)
                counts[f"{reader} refused"] += 1
                if printable(message) != message or (reader == "bundle" and os.listdir(target)):
                    pytest.fail(f"{reader} {number}: {message!r}")
            shutil.rmtree(target)
            assert os.listdir(folder / "outside") == []
            assert sorted(os.listdir(folder)) == ["in", "outside"]
            assert os.listdir(folder / "in") == ["a.tar.gz"]
    return counts


def test_fuzz_archives_and_bundles_raise_only_user_errors(tmp_path: Path) -> None:
    counts = run_fuzz(150, tmp_path)
    assert counts.total() == 450
    assert all(counts[f"{reader} read"] for reader in ("tar", "zip", "bundle"))


@pytest.mark.slow
def test_fuzz_of_thousands_raises_only_user_errors(tmp_path: Path) -> None:
    counts = run_fuzz(4000, tmp_path)
    print(dict(counts))
    assert counts.total() == 12_000
