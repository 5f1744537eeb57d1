"""Archives from strangers: nothing leaves the folder, and each refusal is one sentence."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from vcsbench.errors import UserError
from vcsbench.files import MAX_DEPTH, entries
from vcsbench.sources import archives, tree_source
from vcsbench.sources.archives import ArchiveError, ContainedFolder, split_name
from vcsbench.subjects.tree.stores.store import copy

warnings.filterwarnings("ignore", category=UserWarning, module="zipfile")
# From the folder that an archive is unpacked into.
OUTSIDE = "../outside"
WORKFLOW = Path(archives.__file__).parents[2]


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
REG, DIR, SYM, LNK, FIFO, CHR = (
    tarfile.REGTYPE,
    tarfile.DIRTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.FIFOTYPE,
    tarfile.CHRTYPE,
)
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
    path.write_bytes(
        zip_of(("a", ZLINK, target.encode()), (second, ZFILE, b"x"))
        if kind == "zip"
        else tar_of(("a", SYM, target), (second, REG, b"x"))
    )
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


def test_unpack_program_prints_a_path_that_is_text(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.tar", tmp_path / "into"
    path.write_bytes(tar_of((os.fsdecode(b"kit\xff/x"), REG, b"x")))
    folder.mkdir()
    words = [sys.executable, "-m", "vcsbench.sources", "archive", path, folder]
    done = subprocess.run(
        words, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": str(WORKFLOW)}
    )
    assert done.stdout.decode() == str(folder / "tree")


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


def test_directory_special_files_are_left_out_and_counted(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    os.mkfifo(root / "pipe")
    (root / "file").write_text("x")
    (root / "sub/.git").mkdir(parents=True)
    counts = Counter[str]()
    records = b"".join(tree_source.TreeWriter(root, counts).records())
    assert records.count(b"Node-path") == 3
    assert counts[tree_source.SPECIAL] == counts[tree_source.ADMINISTRATIVE] == 1
    copy(root, tmp_path / "copy")
    assert sorted(os.listdir(tmp_path / "copy")) == ["file", "sub"]


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
