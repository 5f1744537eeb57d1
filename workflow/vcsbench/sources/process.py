"""Programs whose output is a source, or part of one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from io import BufferedReader
from typing import IO, Any, BinaryIO, cast

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.processes import ended_by
from vcsbench.urls import without_password

CHUNK = 1 << 20
# Paths as they are, and messages in English.
UTF8 = {"LC_ALL": "C.UTF-8"}
# The end of what a program writes about its failure.
ERROR_BYTES = 4096
ERROR_LINES = 3


class Program:
    """A running program with its output as a pipe; ended when the `with` block is left."""

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
        if secret:
            stdin = subprocess.PIPE
        self._failure = failure
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=env or {**os.environ, **UTF8},
            )
        except OSError as error:
            self._errors.close()
            raise UserError(f"{failure}: {argv[0]} cannot be run: {error.strerror}") from error
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
            with contextlib.suppress(BrokenPipeError):  # it has ended: the exit code says how
                self.process.stdin.close()
        self.stdout.close()
        self.process.wait()
        self._errors.close()

    def finish(self) -> None:
        """Wait for its end; UserError with its last words when it failed."""
        if self.process.wait() != 0:
            raise self.failed()

    def whole(self) -> bytes:
        """Its whole output; UserError when it failed."""
        text = self.stdout.read()
        self.finish()
        return text

    def failed(self) -> UserError:
        """Return the error with the end of the program's own message."""
        code = self.process.wait()
        end = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, end - ERROR_BYTES))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        said = " ".join(lines[-ERROR_LINES:]) or ended_by(code)
        return UserError(without_password(printable(f"{self._failure}: {said}")))


def stream(argv: Sequence[str], out: BinaryIO, failure: str) -> None:
    """Copy a program's output to `out`."""
    with Program(argv, failure) as program:
        shutil.copyfileobj(program.stdout, out, CHUNK)
        program.finish()


def output(argv: Sequence[str], failure: str) -> bytes:
    """A program's whole output."""
    with Program(argv, failure) as program:
        return program.whole()
