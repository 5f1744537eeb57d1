"""Mutated archives and bundles: only UserError escapes, and nothing outside the folder is written.

The long run prints its counts: python -m pytest -s -m slow tests/unit/test_fuzz_archives.py
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import shutil
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.run import bundle, opening
from vcsbench.sources import tree_source


def tar_seed() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, target in (
            ("kit/file", tarfile.REGTYPE, ""),
            ("kit/link", tarfile.SYMTYPE, "../../outside"),
            ("kit/same", tarfile.LNKTYPE, "kit/file"),
            ("kit/é" + "n" * 120, tarfile.REGTYPE, ""),
            ("kit/pipe", tarfile.FIFOTYPE, ""),
            ("kit/link2/x", tarfile.REGTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            member.size = 700 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"x" * 700))
    return out.getvalue()


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
    said = {n: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for n, c in files.items()}
    manifest = {"layout": 1, "vcsbench": "1", "studies": ["s"], "files": said}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        names = {f"{bundle.INSIDE}/{name}": content for name, content in files.items()}
        for name, content in {bundle.MANIFEST: json.dumps(manifest).encode(), **names}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


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
    """Change, insert, remove or repeat a few bytes, and mend a tar's checksums half of the time."""
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
                    opening.unpack(archive, "x", target)
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
