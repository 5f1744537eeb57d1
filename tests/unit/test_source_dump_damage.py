"""Single damages anywhere in a dump file: refused, but for those that nothing in the file contradicts."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.subjects.repository.loader import load_source

pytestmark = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")

DUMPS = {"2": [], "3": ["--deltas"]}
# Names and values of which the format has no checksum; docs and README say so.
PATHS = (b"Node-path", b"Node-copyfrom-path")
UNKNOWABLE = (*PATHS, b"UUID", b"Revision-number", b"Node-copyfrom-rev")
# Of a delta, svnadmin load goes by the MD5.
UNUSED = (b"Text-content-sha1", b"Text-delta-base-sha1", b"Text-copy-source-sha1")

# The sixth makes capitals of letters, which changes no checksum.
BITS = (0, 1, 2, 3, 4, 6, 7)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The dumps of a small generated history with a tag."""
    repository = tmp_path_factory.mktemp("damage") / "repository"
    subprocess.run(["svnadmin", "create", repository], check=True)
    source = sources.open_source(
        "it", {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 2}
    )
    with subprocess.Popen(["svnadmin", "load", "-q", repository], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        source.write(process.stdin)  # type: ignore[arg-type]
    url = f"file://{repository}"
    subprocess.run(["svn", "cp", "-q", "-m", "", f"{url}/trunk", f"{url}/tag"], check=True)
    return {
        fmt: subprocess.check_output(["svnadmin", "dump", "-q", *words, repository])
        for fmt, words in DUMPS.items()
    }


def parts(dump: bytes) -> Iterator[tuple[str, int, int]]:
    """What a dump is made of: (kind, start, end), in order."""
    at = 0
    while at < len(dump):
        lengths: dict[bytes, int] = {}
        deltas = b"Text-delta: true\n" in dump[at : dump.index(b"\n\n", at)]
        while dump[at : at + 1] != b"\n":
            end = dump.index(b"\n", at) + 1
            name, _, value = dump[at:end].partition(b": ")
            yield "header", at, at + len(name) + 2
            unknowable = name in UNKNOWABLE or (deltas and name in UNUSED)
            yield ("unknowable" if unknowable else "value"), at + len(name) + 2, end - 1
            yield "header", end - 1, end
            if name.endswith(b"-content-length"):
                lengths[name] = int(value)
            at = end
        yield "blank", at, (at := at + 1)
        properties = lengths.get(b"Prop-content-length", 0)
        text = lengths.get(b"Text-content-length", 0)
        if properties:
            yield "unknowable", at, at + properties - 10
            yield "properties' end", at + properties - 10, at + properties
        if text:
            yield "text", at + properties, at + properties + text
        at += properties + text
        while dump[at : at + 1] == b"\n":
            yield "blank", at, (at := at + 1)


def damaged(dump: bytes, seed: int, each: int) -> Iterator[tuple[str, bytes]]:
    """Dumps with one bit turned round, `each` of them for each kind of part, and the kinds."""
    numbers = random.Random(seed)
    places: dict[str, list[tuple[int, int]]] = {}
    for kind, start, end in parts(dump):
        if start < end:
            places.setdefault(kind, []).append((start, end))
    for kind, found in places.items():
        for start, end in numbers.choices(found, k=each):
            copy = bytearray(dump)
            copy[numbers.randrange(start, end)] ^= 1 << numbers.choice(BITS)
            yield kind, bytes(copy)


def why_refused(file: Path, into: Path) -> str:
    try:
        load_source(
            sources.open_source("it", {"source": "dump", "path": str(file)}),
            [("f7", "nopack")],
            into,
        )
    except UserError as error:
        return str(error)
    return ""


def check(dump: bytes, folder: Path, seed: int, each: int) -> None:
    file = folder / "dump"
    place = re.compile(r"(revision \d+|at)\b.*\bbyte [\d,]+ of the stream")
    refused = 0
    for number, (kind, content) in enumerate(damaged(dump, seed, each)):
        file.write_bytes(content)
        into = folder / str(number)
        into.mkdir()
        said = why_refused(file, into)
        refused += bool(said)
        assert said or kind == "unknowable", f"damage number {number} of seed {seed} goes unnoticed"
        assert not said or place.search(said), f"it says where: {said}"
        shutil.rmtree(into)
    assert refused >= 5 * each


@pytest.mark.parametrize("fmt", DUMPS)
def test_a_damage_is_refused(dumps: dict[str, bytes], tmp_path: Path, fmt: str) -> None:
    check(dumps[fmt], tmp_path, seed=1, each=3)


@pytest.mark.slow
@pytest.mark.parametrize("fmt", DUMPS)
@pytest.mark.parametrize("seed", range(2, 7))
def test_many_a_damage_is_refused(
    dumps: dict[str, bytes], tmp_path: Path, fmt: str, seed: int
) -> None:
    check(dumps[fmt], tmp_path, seed, each=25)
