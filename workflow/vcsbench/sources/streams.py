"""Read the output of programs and compressed files as streams."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.processes import how_it_ended
from vcsbench.urls import without_password

CHUNK = 1 << 20
# Programs print paths unchanged, and messages in English.
UTF8 = {"LC_ALL": "C.UTF-8"}
# The part of a program's error message that is shown.
ERROR_BYTES = 1 << 16
ERROR_LINES = 3
ERROR_LINE = 500
MAGICS = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
# Errors of reading a damaged compressed file.
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


class Program:
    """A running program with its output as a pipe. Leaving the `with` block ends it."""

    def __init__(
        self,
        argv: Sequence[str],
        failure: str,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        secret: str = "",
    ) -> None:
        """`failure` begins the error, for example "/srv/x: svnadmin dump failed". `secret` is a line that the
        program reads from its standard input."""
        self._failure = failure
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE if secret else stdin,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=env or {**os.environ, **UTF8},
            )
        except (
            OSError,
            ValueError,
        ) as error:  # ValueError: an argument has a NUL, or half of a character
            self._errors.close()
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"{failure}: {argv[0]} cannot be run: {reason}") from error
        self.stdout = cast(BufferedReader, self.process.stdout)
        if secret and self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(secret.encode(errors="surrogateescape") + b"\n")
                self.process.stdin.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.process.kill()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # the exit code shows how it ended
                self.process.stdin.close()
        self.stdout.close()
        self.process.wait()
        self._errors.close()

    def finish(self) -> None:
        """Wait for its end. Raise UserError with the end of its message if it failed."""
        if self.process.wait() != 0:
            raise self.failed()

    def read_all(self) -> bytes:
        """Return its whole output. Raise UserError if it failed."""
        text = self.stdout.read()
        self.finish()
        return text

    def failed(self) -> UserError:
        """Return the error with the end of the program's message."""
        code = self.process.wait()
        end = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, end - ERROR_BYTES))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        shown = [
            line if len(line) <= ERROR_LINE else f"{line[:ERROR_LINE]}..."
            for line in lines[-ERROR_LINES:]
        ]
        message = " ".join(shown) or f"it {how_it_ended(code)}"
        return UserError(without_password(printable(f"{self._failure}: {message}")))


def output(argv: Sequence[str], failure: str, secret: str = "") -> bytes:
    """Return the whole output of a program; see Program."""
    with Program(argv, failure, secret=secret) as program:
        return program.read_all()


def compression(path: Path) -> str:
    """Return the compression of a file, a value of MAGICS; "" for none."""
    with path.open("rb") as file:
        start = file.read(8)
    return next((name for magic, name in MAGICS.items() if start.startswith(magic)), "")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Yield the decompressed content of a file.

    Reading a damaged file raises one of DAMAGED, or UserError from the program zstd.
    """
    kind = compression(path)
    if kind == "zstd":
        with _zstd(path) as program:
            yield program.stdout
            if program.stdout.read(1):
                program.process.kill()  # the caller does not read the rest
            else:
                program.finish()
    else:
        open_file: Any = {"gzip": gzip.open, "xz": lzma.open}.get(kind, open)
        with open_file(path, "rb") as file:
            yield file


def _zstd(path: Path) -> Program:
    try:
        return Program(["zstd", "-dcq", os.path.abspath(path)], f"{path}: zstd failed")
    except UserError as error:
        raise UserError(
            f"{path}: the program zstd is needed to read it: install the package zstd, or "
            "decompress the file"
        ) from error
