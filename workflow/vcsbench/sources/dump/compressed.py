"""Reading files that may be compressed: .gz, .xz, .zst, told by their first bytes."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from vcsbench.errors import UserError
from vcsbench.sources.process import Program

MAGICS = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
OPEN: Mapping[str, Any] = {"": open, "gzip": gzip.open, "xz": lzma.open}
# What reading a damaged compressed file raises.
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


def compression(path: Path) -> str:
    """How the file is compressed; "" when it is not."""
    with path.open("rb") as file:
        start = file.read(8)
    return next((name for magic, name in MAGICS.items() if start.startswith(magic)), "")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file's content, decompressed while it is read.

    Reading a damaged file raises one of DAMAGED, or UserError from the program zstd.
    """
    kind = compression(path)
    if kind == "zstd":
        with _zstd(path) as program:
            yield program.stdout
            if program.stdout.read(1):
                program.process.kill()  # the caller has seen enough of it
            else:
                program.finish()
    else:
        with OPEN[kind](path, "rb") as file:
            yield file


def _zstd(path: Path) -> Program:
    try:
        return Program(["zstd", "-dcq", os.path.abspath(path)], f"{path}: zstd failed")
    except UserError as error:
        raise UserError(
            f"{path}: the program zstd is needed to read it: install the package zstd, or "
            "decompress the file"
        ) from error
