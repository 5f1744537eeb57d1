"""Run a program whose output, and maybe input, is a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Any, cast

from vcsbench.errors import UserError
from vcsbench.processes import how_it_ended

ERROR_BYTES = 1 << 16
INPUT_BYTES = 1 << 20
ERROR_LINES = 3
ERROR_LINE = 500


class _Output(io.RawIOBase):
    """The output of a program from a server. Raise UserError if no byte comes within a limit."""

    def __init__(self, pipe: IO[bytes], limit_s: float, failure: str) -> None:
        self._pipe, self._limit_s, self._failure = pipe, limit_s, failure

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not select.select([self._pipe], [], [], self._limit_s)[0]:
            raise UserError(
                f"{self._failure}: no answer within {self._limit_s:g} s. Check the address and the server."
            )
        return os.readv(self._pipe.fileno(), [buffer])


class Program:
    """A running program with its output as a pipe. Leaving the `with` block ends it."""

    def __init__(
        self,
        argv: Sequence[str],
        failure: str,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        secret: str = "",
        limit_s: float | None = None,
        umask: int = -1,
    ) -> None:
        """`failure` begins the error, for example "/srv/x: svnadmin dump failed". `secret` is a line for the
        program's standard input. Without `env`, it prints paths unchanged and English messages. `limit_s` is
        the longest time without output.
        """
        self.failure = failure
        # In memory, because the disk may be full.
        self._errors = os.fdopen(os.memfd_create("errors"), "w+b")
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE if secret else stdin,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=env or {**os.environ, "LC_ALL": "C.UTF-8"},
                umask=umask,
            )
        # ValueError: an argument has a NUL, or half of a character.
        except (OSError, ValueError) as error:
            self._errors.close()
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"{failure}: {argv[0]} cannot be run: {reason}") from error
        self._pipe = self.stdout = cast(io.BufferedReader, self.process.stdout)
        if limit_s:
            self.stdout = io.BufferedReader(_Output(self._pipe, limit_s, failure))
        if stdin == subprocess.PIPE and self.process.stdin:
            # Two loads at a time take 48 s instead of 62 s with 64 KiB.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.process.stdin.fileno(), fcntl.F_SETPIPE_SZ, INPUT_BYTES)
        if secret:
            with contextlib.suppress(BrokenPipeError):
                self.write(secret.encode(errors="surrogateescape") + b"\n")
            self.close_input()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.process.kill()
        self.close_input()
        self._pipe.close()
        self.process.wait()
        self._errors.close()

    def write(self, data: bytes) -> None:
        """Write to a program with the `stdin` PIPE."""
        assert self.process.stdin
        self.process.stdin.write(data)

    def close_input(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def finish(self) -> None:
        if self.process.wait() != 0:
            raise self.failed()

    def read_all(self) -> bytes:
        text = self.stdout.read()
        self.finish()
        return text

    def failed(self) -> UserError:
        code, lines = self.process.wait(), self.errors().strip().splitlines()[-ERROR_LINES:]
        shown = [line if len(line) <= ERROR_LINE else f"{line[:ERROR_LINE]}..." for line in lines]
        if code < 0 or not shown:
            shown.append(f"it {how_it_ended(code)}")
        return UserError(f"{self.failure}: {' '.join(shown)}")

    def errors(self) -> str:
        """Return the end of the error output of a program that ended."""
        end = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, end - ERROR_BYTES))
        return self._errors.read().decode("utf-8", "replace")


def output(
    argv: Sequence[str], failure: str, secret: str = "", limit_s: float | None = None
) -> bytes:
    """Return the output of a program. Raise UserError if it fails, or pauses for longer than the limit."""
    with Program(argv, failure, secret=secret, limit_s=limit_s) as program:
        return program.read_all()
