"""Mutated dump streams: only a UserError leaves the reader, and svnadmin load agrees with what it takes."""

from __future__ import annotations

import io
import random
import subprocess
from pathlib import Path

import pytest

from dump_streams import BASE, copied, deleted, file, folder, revision
from project import needs
from vcsbench.errors import UserError
from vcsbench.sources.dump_reader import BYPASS, DumpReader
from vcsbench.sources.dump_source import read_sample

pytestmark = needs("svnadmin")

WHOLE = (
    BASE
    + file(b"trunk/f", b"text\n", {b"svn:eol-style": b"native", b"a": b"b"})
    + revision(2, {b"svn:log": b"Gr\xc3\xbc\xc3\x9fe", b"svn:date": b"2006-01-01T00:00:00.0Z"})
    + copied(b"tag", b"trunk", 1)
    + deleted(b"trunk/f")
    + revision(4)
    + folder(b"trunk/g")
    + file(b"trunk/g/h", bytes(range(256)))
)
PIECES = [
    b"\n", b"\n\n", b" ", b"\0", b"\r\n", b"0", b"-1", b"9" * 30, b": ", b"K 3\nabc\n", b"V 2\nxy\n",
    b"D 1\na\n", b"PROPS-END\n", b"Node-path: x\n", b"Revision-number: 3\n\n", b"Content-length: 7\n",
    b"UUID: \n\n",
    b"Prop-delta: true\n", b"Text-delta: true\n", b"SVN-fs-dump-format-version: 3\n\n", b" # comment\n",
    b"\xff\xfe",
]  # fmt: skip


def mutated(numbers: random.Random) -> bytes:
    data = bytearray(WHOLE)
    for _ in range(numbers.choice((1, 1, 1, 2, 3, 8))):
        at, end = numbers.randrange(len(data) + 1), numbers.randrange(len(data) + 1)
        kind = numbers.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << numbers.randrange(8)
        elif kind == 1:
            data[at:at] = numbers.choice(PIECES)
        elif kind == 2:
            del data[at : at + numbers.randrange(1, 60)]
        elif kind == 3:
            data[at:at] = data[end : end + numbers.randrange(1, 200)]
        elif kind == 4:
            lines = bytes(data).split(b"\n")
            numbers.shuffle(lines[: numbers.randrange(1, 8)])
            lines.insert(numbers.randrange(len(lines)), numbers.choice(lines))
            data = bytearray(b"\n".join(lines))
        else:
            del data[max(at, len(data) // 2) :]
    return bytes(data)


def verdict(stream: bytes, out: io.BytesIO | None = None) -> int | None:
    """The number of revisions that the reader finds; None if it refuses the stream in one sentence."""
    reader = DumpReader("it", io.BytesIO(stream), out=out)
    try:
        reader.run()
    except UserError:
        return None
    return reader.revisions


def fuzz(seed: int, cases: int, loads: int, folder: Path) -> tuple[int, int]:
    """The number of streams that the reader takes, and of those that svnadmin then refuses."""
    numbers = random.Random(seed)
    empty = folder / "empty"
    subprocess.run(["svnadmin", "create", empty], check=True)
    taken = refused = 0
    for case in range(cases):
        stream = mutated(numbers)
        sample = read_sample(io.BytesIO(stream), bool(case % 2), len(stream))
        assert 0 <= sample.revisions <= len(stream)
        out = io.BytesIO()
        revisions = verdict(stream, out)
        if revisions is None:
            continue
        taken += 1
        if taken <= loads:
            path = folder / str(case)
            subprocess.run(["cp", "-r", empty, path], check=True)
            argv = ["svnadmin", "load", "-q", BYPASS, path]
            done = subprocess.run(argv, input=out.getvalue(), capture_output=True)
            # The reader does not follow the tree: svnadmin finds paths that are missing.
            refused += bool(done.returncode)
            if not done.returncode:
                youngest = subprocess.check_output(["svnlook", "youngest", path])
                assert int(youngest) == revisions, (seed, case)
    return taken, refused


def test_reader_survives_mutated_streams(tmp_path: Path) -> None:
    taken, refused = fuzz(1, 1500, 10, tmp_path)
    assert taken > 100
    assert refused < 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_reader_survives_many_mutated_streams(tmp_path: Path, seed: int) -> None:
    taken, refused = fuzz(seed, 20_000, 300, tmp_path)
    print(f"seed {seed}: {taken} of 20000 streams taken, svnadmin refuses {refused} of 300")
    assert taken > 1000
    assert refused < 200
