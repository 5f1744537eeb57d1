"""Read files that may be compressed."""

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import BinaryIO, cast

from vcsbench.errors import UserError
from vcsbench.external import open_regular
from vcsbench.processes import Program


class Compression(Enum):
    """How a file is compressed: the bytes that it begins with."""

    GZIP = b"\x1f\x8b"
    XZ = b"\xfd7zXZ\x00"
    ZSTD = b"\x28\xb5\x2f\xfd"


# What Python raises for a damaged file.
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)


def detect_compression(path: Path) -> Compression | None:
    """Return the compression of a regular file; None if it is not compressed."""
    with open(open_regular(path), "rb") as file:
        # The longest beginning, xz's, has 6 bytes.
        start = b"" if _has_no_size(file) else file.read(8)
    for compression in Compression:
        if start.startswith(compression.value):
            return compression
    return None


def _has_no_size(file: BinaryIO) -> bool:
    """Return True for an empty file, and for files of the kernel that block or never end: /proc/kmsg."""
    return os.fstat(file.fileno()).st_size == 0


@contextmanager
def open_decompressed(path: Path) -> Iterator[BinaryIO]:
    """Yield the content of a file, decompressed if the file begins with the bytes of gzip, xz or zstd.

    Raise UserError for anything but a regular file. Damage of a plain, gzip or xz file raises one of DAMAGED
    when the damaged part is read. Damage of a zstd file raises UserError at the end of the `with` block, if
    the content was read to its end.
    """
    compression = detect_compression(path)
    if compression == Compression.ZSTD:
        with _decompress_zstd(path) as output:
            yield output
        return
    with open(open_regular(path), "rb") as file:
        if _has_no_size(file):
            # A file of the kernel, such as /proc/kmsg, is taken for an empty one: reading it may never end.
            yield io.BytesIO()
        elif compression == Compression.GZIP:
            with gzip.open(file, "rb") as stream:
                yield cast("BinaryIO", stream)
        elif compression == Compression.XZ:
            with lzma.open(file, "rb") as stream:
                yield cast("BinaryIO", stream)
        else:
            yield file


@contextmanager
def _decompress_zstd(path: Path) -> Iterator[BinaryIO]:
    """Yield the content of a zstd file: the output of the program zstd. Raise UserError without this program.

    For a damaged file, the end of the `with` block raises UserError, unless the caller has read only a part.
    """
    # zstd ignores a link, and takes a relative path that begins with a minus for an option.
    argv = ["zstd", "-dcq", os.path.realpath(path)]
    try:
        zstd = Program(argv, f"{path}: zstd failed")
    except UserError as error:
        # The program cannot be started. Damage of the file shows only later.
        raise UserError(
            f"{path}: only the program zstd can read it. Install the package zstd, or decompress the file."
        ) from error
    with zstd as program:
        yield program.stdout
        # The caller may have read only a part of the output. Then zstd still waits to write the rest.
        has_more = program.stdout.read(1) != b""
        if has_more:
            program.process.kill()
        else:
            # At the end of its output, zstd has found all damage, and its exit code reports it.
            program.finish()
