"""Archives are unpacked as tar does it; hostile and damaged ones are refused."""

import gzip
import io
import os
import shutil
import stat
import subprocess
import tarfile
import warnings
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from fuzz import damaged, dice_of, limits
from git_histories import run, tree_on_disk
from project import needs
from tree_files import make_tree, zip_of
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.sources import archives, tree_source
from vcsbench.sources.archives import ContainedFolder
from vcsbench.storages.file_trees import MAX_DEPTH, entries

pytestmark = needs("svnadmin", "svn")

warnings.filterwarnings("ignore", category=UserWarning, module="zipfile")
# From the folder that an archive is unpacked into.
OUTSIDE = "../outside"


def tar_of(*members, **more):
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


HOLES = bytes(2 * 2**20)
REG, DIR, SYM = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE
LNK, FIFO, CHR = tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE
ZLINK, ZFILE, ZFIFO = 0o120777, 0o100644, 0o010644


def patched(content, at, at_central, value):
    """A .zip of one member with a byte changed in both of its headers."""
    changed = bytearray(content)
    changed[at] = changed[changed.rfind(b"PK\1\2") + at_central] = value
    return bytes(changed)


def long_chain():
    """Links that a path beyond PATH_MAX leads through, as in CVE-2025-4517."""
    members = []
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
REFUSED = {
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
    "tar hard link through link": tar_of(("a", SYM, OUTSIDE), ("b", LNK, "a/secret")),
    "tar hard link outside": tar_of(("b", LNK, f"{OUTSIDE}/../etc/passwd")),
    "tar hard link absolute": tar_of(("b", LNK, "/etc/passwd")),
    "tar hard link to nothing": tar_of(("a", LNK, "b")),
    "tar hard link to itself": tar_of(("a", LNK, "a")),
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
    "tar header of digits": tar_of(("a", REG, b"x"), comment="1" * 2**16),
    "tar large header": lambda: tar_of(("a", REG, b"x"), comment="x" * 2**21),
    "tar only pipes": tar_of(("a", FIFO, b""), ("b", CHR, b"")),
    "tar.gz truncated": gzip.compress(HELLO)[:-20],
    "tar empty": bytes(10240),
    "tar empty tree": tar_of(("./", DIR, b"")),
    "tar empty folders": tar_of(("kit/", DIR, b""), ("kit/a/", DIR, b"")),
    "tar only .git": tar_of((".git/config", REG, b"x")),
    "tar only .git below": tar_of(("kit/.git/x", REG, b"x"), ("kit/a/.svn/x", REG, b"x")),
    "zip only .git": zip_of((".git/config", ZFILE, b"x")),
}


@pytest.fixture
def into(tmp_path):
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("case", REFUSED)
def test_unpack_refused_archive_gives_one_sentence(case, tmp_path, into, monkeypatch):
    outside, path = tmp_path / "outside", tmp_path / "archive"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    if case.endswith("bomb"):
        monkeypatch.setattr(archives, "EXPANDED_BYTES", 10 * 2**20)
    content = REFUSED[case]
    path.write_bytes(content if isinstance(content, bytes) else content())
    with pytest.raises(UserError) as raised:
        tree_source.unpack(path, into)
    assert str(raised.value).startswith(f"{path}: cannot be unpacked: ")
    assert str(raised.value).isprintable() and len(str(raised.value)) < len(str(path)) + 400
    assert [file.name for file in outside.iterdir()] == ["secret"]
    assert (outside / "secret").stat().st_nlink == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["archive", "into", "outside"]


def zip_of_windows(name):
    return zip_of((name, 0, b"x")).replace(MADE_ON[3], MADE_ON[0])


TEXT = {"kit/text": b"hello"}
# The start of a central header of a .zip, by the system that made it.
MADE_ON = {system: bytes((*b"PK\1\2", 20, system)) for system in (0, 3)}
DEEP = "d/" * (MAX_DEPTH - 1) + "x"
ONE_FILE = zip_of(("kit/aNN", ZFILE, b"x"))
UNPACKED = {
    "zip at the end": (HELLO + ONE_ZIP.replace(b"hello", b"HELLO"), TEXT),
    "zip in zip": (ONE_ZIP, TEXT),
    "mtime inf": (tar_of(("kit/text", REG, b"hello"), mtime="inf"), TEXT),
    "mtime nan": (tar_of(("kit/text", REG, b"hello"), mtime="nan"), TEXT),
    "mtime huge": (tar_of(("kit/text", REG, b"hello"), mtime="9" * 400), TEXT),
    "duplicates": (tar_of(("kit/text", REG, b"old"), ("kit/text", REG, b"hello")), TEXT),
    "packed twice": (tar_of(("kit/text", REG, b"hello"), ("kit/text", LNK, "kit/text")), TEXT),
    "case": (tar_of(("a", REG, b"1"), ("A", REG, b"2")), {"a": b"1", "A": b"2"}),
    "deep": (tar_of((DEEP, REG, b"x")), {DEEP: b"x"}),
    "pipe": (tar_of(("p", FIFO, b""), ("kit/q", LNK, "p"), ("kit/text", REG, b"hello")), TEXT),
    "zip of Windows": (zip_of_windows("kit\\d\\x"), {"kit/d/x": b"x"}),
    "zip of old Windows": (zip_of_windows("kit/NN").replace(b"NN", b"\x82b"), {"kit/éb": b"x"}),
    "zip of macOS": (ONE_FILE.replace(b"aNN", "aé".encode()), {"kit/aé": b"x"}),
    "zip in Latin 1": (ONE_FILE.replace(b"aNN", b"a\xe9b"), {os.fsdecode(b"kit/a\xe9b"): b"x"}),
    "zip with a backslash": (zip_of(("kit/a\\b", ZFILE, b"x")), {"kit/a\\b": b"x"}),
    "zip pipe": (zip_of(("kit/p", ZFIFO, b""), ("kit/text", ZFILE, b"hello")), TEXT),
}


@pytest.mark.parametrize("case", UNPACKED)
def test_unpack_odd_archive_has_all_files(case, tmp_path, into):
    content, files = UNPACKED[case]
    path = tmp_path / "archive"
    path.write_bytes(content)
    assert tree_source.is_archive(path)
    counts = Counter[str]()
    root = tree_source.unpack(path, into, counts)
    top = "" if root == into else next(iter(files)).split("/")[0] + "/"
    unpacked = {
        top + os.path.relpath(file, root): Path(file).read_bytes()
        for file, state in entries(root)
        if stat.S_ISREG(state.st_mode)
    }
    assert unpacked == files
    assert counts[tree_source.SPECIAL_MEMBER] == {"pipe": 2, "zip pipe": 1}.get(case, 0)
    assert counts[tree_source.REPLACED] == (case == "duplicates")


OF_ONE_NAME = {
    **{"file": ("x", REG, b"1"), "link": ("x", SYM, "f"), "hard link": ("x", LNK, "f")},
    **{"folder": ("x", tarfile.DIRTYPE, b""), "full folder": ("x/y", REG, b"2")},
}


@pytest.mark.parametrize("first", OF_ONE_NAME)
@pytest.mark.parametrize("second", OF_ONE_NAME)
def test_unpack_members_of_one_name_as_tar_does(tmp_path, into, first, second):
    path, unpacked, counts = tmp_path / "a.tar", tmp_path / "unpacked", Counter[str]()
    path.write_bytes(tar_of(("f", REG, b"0"), OF_ONE_NAME[first], OF_ONE_NAME[second]))
    unpacked.mkdir()
    done = subprocess.run(["tar", "-xf", path, "-C", unpacked], capture_output=True)
    with pytest.raises(UserError, match="unpacked: 'x'") if done.returncode else nullcontext():
        tree_source.unpack(path, into, counts)
        assert tree_on_disk(into) == tree_on_disk(unpacked)
    is_counted = first == second == "full folder" or "folder" not in first
    is_counted = is_counted and not done.returncode and not first == second == "link"
    assert counts[tree_source.REPLACED] == is_counted


def test_unpack_bits_and_links_of_a_tar_are_safe(tmp_path, into):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for name, kind, mode, target in (
            (b"kit/set-uid", REG, 0o6755, ""),
            (b"kit/plain", REG, 0o666, ""),
            (b"kit/\xff", REG, 0o644, ""),
            (b"kit/away", SYM, 0o777, "/etc/passwd"),
            (b"kit/again", LNK, 0o777, "kit/away"),
        ):
            member = tarfile.TarInfo(os.fsdecode(name))
            member.type, member.mode, member.linkname = kind, mode, target
            archive.addfile(member)
    before = os.umask(0)
    try:
        root = tree_source.unpack(path, into)
    finally:
        os.umask(before)
    modes = {file.name: file.lstat().st_mode & 0o7777 for file in root.iterdir()}
    assert modes["set-uid"] == 0o755 and modes["plain"] == 0o644 and os.fsdecode(b"\xff") in modes
    assert os.readlink(root / "away") == os.readlink(root / "again") == "/etc/passwd"


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_unpack_each_format_of_gnu_tar_gives_the_same_tree(form, tmp_path, into):
    kit = make_tree(tmp_path / "kit")
    (kit / "large").write_bytes(os.urandom(70_000))
    if form not in ("v7", "ustar"):
        (kit / ("n" * 200)).write_text("long name")
        (kit / "long link").symlink_to("t" * 300)
    path = tmp_path / "kit.tar"
    run("tar", f"--format={form}", "-cf", path, "-C", tmp_path, "kit")
    assert tree_source.is_archive(path)
    assert tree_on_disk(tree_source.unpack(path, into)) == tree_on_disk(kit)


def test_contained_folder_link_made_by_another_process_is_not_followed(tmp_path, into):
    (tmp_path / "outside").mkdir()
    (into / "a").symlink_to(tmp_path / "outside")
    with ContainedFolder(into, 0) as folder:
        with pytest.raises(NotADirectoryError):
            folder.add_file((b"a", b"x"), [b"x"])
        folder.add_file((b"a",), [b"x"])
    assert not any((tmp_path / "outside").iterdir())


TEXT_700 = b"x" * 700
TAR_SEED = tar_of(
    ("kit/file", REG, TEXT_700),
    ("kit/link", SYM, "../../outside"),
    ("kit/same", LNK, "kit/file"),
    ("kit/é" + "n" * 120, REG, TEXT_700),
    ("kit/pipe", FIFO, b""),
    ("kit/link2/x", REG, TEXT_700),
)
ZIP_LINKS = (("kit/link", ZLINK, b"../../outside"), ("kit/link2/x", ZFILE, b"x"))
ZIP_SEED = zip_of(("kit/file", ZFILE, b"hello" * 50), *ZIP_LINKS)
WORDS = b"../ / \0 \xff\xff link kit/link/x \x80 1 2 S \x1b[".split(b" ")


def mutate(seed, choice):
    """Damage an archive. Half of the time, repair the checksums of a tar."""
    content = bytearray(damaged(choice, seed, WORDS))
    for block in range(0, len(content) - 511, 512) if choice.random() < 0.5 else ():
        header = content[block : block + 512]
        if header[148:156].strip(b"01234567 \0") == b"" and any(header[:100]):
            header[148:156] = b" " * 8
            content[block + 148 : block + 156] = b"%06o\0 " % sum(header)
    return bytes(content) or b"x"


@pytest.mark.parametrize("seed", [TAR_SEED, ZIP_SEED], ids=["tar", "zip"])
@pytest.mark.parametrize("count", [150, pytest.param(4000, marks=pytest.mark.slow)])
def test_fuzz_archives_raise_only_user_errors(seed, count, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "in").mkdir()
    archive, into = tmp_path / "in/archive", tmp_path / "in/into"
    choice = dice_of("archive", len(seed))
    read = 0
    for number in range(count):
        archive.write_bytes(mutate(seed, choice) if number else seed)
        into.mkdir()
        try:
            with limits():
                tree_source.unpack(archive, into)
            read += 1
        except UserError as error:
            message = str(error)
            if printable(message) != message or "\n" in message:
                pytest.fail(f"{number}: {message!r}")
        shutil.rmtree(into)
        assert os.listdir(tmp_path / "outside") == []
        assert sorted(os.listdir(tmp_path)) == ["in", "outside"]
        assert os.listdir(tmp_path / "in") == ["archive"]
    print(f"{count} damaged archives: {read} read, {count - read} refused")
    assert 0 < read < count
