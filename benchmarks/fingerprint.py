"""What it costs to tell what a run did: a tree of the default's size, and long outputs in a stream.

usage: python benchmarks/fingerprint.py
Makes a tree of as many files and bytes as an export of the default repository has, in RAM, and prints a
row with our time for its fingerprint, that of `tar | sha256sum` over it, and the limit of all that a
cell-round may cost; then rows with the time in which the outputs of log and dump are read, beside that in
which the programs print them.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rows import ROOT, Row, seconds, show

sys.path[:0] = [str(ROOT / "workflow")]

from vcsbench.measure.work import kind_of, tree  # noqa: E402
from vcsbench.measure.work.neutral import Neutral  # noqa: E402

FILES, FILE_BYTES, FOLDERS = 1522, 11_500, 120
LIMIT_S = 0.25
REPEATS = 7
REVISIONS = 1000
NEUTRAL = Neutral("svn://127.0.0.1:3690/ruby.f7.nopack.1")


def make_tree(folder: Path) -> None:
    """FILES files of FILE_BYTES in FOLDERS folders."""
    line = b"static int count_of_things(struct thing *first) { return 42; }\n"
    content = (line * (FILE_BYTES // len(line) + 1))[:FILE_BYTES]
    for number in range(FILES):
        place = folder / f"folder{number % FOLDERS}"
        place.mkdir(exist_ok=True)
        (place / f"file{number}.c").write_bytes(b"%d" % number + content)


def best(action: Callable[[], object]) -> float:
    """Seconds of the fastest of some repeats."""
    return min(seconds(action) for _ in range(REPEATS))


def trees(folder: Path) -> Iterator[Row]:
    """The fingerprint of a tree."""
    make_tree(folder)
    ours = best(lambda: tree.look(folder, NEUTRAL))
    piped = f"tar -cf - -C {folder} . | sha256sum"
    peer = best(lambda: subprocess.run(piped, shell=True, check=True, capture_output=True))
    yield Row(f"a tree of {FILES:,} files", ours, peer, "s", "tar, sha256sum")
    yield Row("the same, of all that a cell-round may cost", ours, LIMIT_S, "s", "limit")


def dump_stream() -> bytes:
    """A history of REVISIONS files, each added with a message of some lines."""
    message = b"K 7\nsvn:log\nV 300\n" + b"A message of some lines.\n" * 12 + b"\nPROPS-END\n"
    parts = [b"SVN-fs-dump-format-version: 2\n\n"]
    for number in range(1, REVISIONS + 1):
        size = len(message)
        parts.append(b"Revision-number: %d\nProp-content-length: %d\n" % (number, size))
        parts.append(b"Content-length: %d\n\n%s\n" % (size, message))
        text = b"%07d\n" % number * 4000
        parts.append(b"Node-path: file%d\nNode-kind: file\nNode-action: add\n" % number)
        parts.append(b"Text-content-length: %d\nContent-length: %d\n\n" % ((len(text),) * 2))
        parts.append(text + b"\n\n")
    return b"".join(parts)


def outputs(folder: Path) -> Iterator[Row]:
    """Reading what log and dump print, against printing it."""
    repository = folder / "repository"
    subprocess.run(["svnadmin", "create", repository], check=True)
    load = ["svnadmin", "load", "-q", "--no-flush-to-disk", repository]
    subprocess.run(load, input=dump_stream(), check=True)
    url = f"file://{repository}"
    for kind, argv in (
        ("log", ["svn", "log", "-v", url]),
        ("dump", ["svnadmin", "dump", "-q", str(repository)]),
    ):
        text = subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
        read = kind_of(kind).read
        assert read
        ours = best(lambda read=read, text=text: read(io.BytesIO(text), NEUTRAL))  # type: ignore[misc]
        peer = best(lambda argv=argv: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL))  # type: ignore[misc]
        what = f"reading the output of {kind}, {len(text) / 1e6:.1f} MB"
        yield Row(what, ours, peer, "s", "printing it")


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/dev/shm") as folder:
        (Path(folder) / "tree").mkdir()
        show([*trees(Path(folder) / "tree"), *outputs(Path(folder))])


if __name__ == "__main__":
    main()
