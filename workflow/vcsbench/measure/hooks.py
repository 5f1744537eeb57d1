"""The channel between hyperfine's hooks and the process that runs the cell."""

from __future__ import annotations

import os
import select
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vcsbench import processes
from vcsbench.errors import UserError

HOOK = Path(__file__).with_name("hooks.sh")


class Abandoned(Exception):
    """The workflow that wanted the cell has ended."""


def too_long(limit_s: float) -> UserError:
    """What to say of a run that was ended for its time."""
    return UserError(
        f"a run took longer than {limit_s:g} s and was ended; raise `time_limit_s` in config/config.yaml "
        f"if that is what it takes"
    )


class Hooks:
    """Named pipes in a folder of their own below `folder`.

    `answer_to(name)` is called for each hook that hyperfine runs; `took_s` is the time of all of them.

    The watched ancestors (the rule's shell, and Snakemake) end the cell when they end, kill -9 included.
    """

    def __init__(self, folder: Path, answer_to: Callable[[str], None]) -> None:
        self.folder = folder / "hooks"
        self.answer_to = answer_to
        self.error: BaseException | None = None
        self.took_s = 0.0
        # Another user who may open a pipe takes the answers, and the run waits for ever.
        self.folder.mkdir(mode=0o700)
        for name in ("ask", "answer"):
            os.mkfifo(self.folder / name, 0o600)
        # Read and write: opening never blocks, and the pipe never ends.
        self.ask = os.open(self.folder / "ask", os.O_RDWR | os.O_NOFOLLOW)
        self.answer = os.open(self.folder / "answer", os.O_RDWR | os.O_NOFOLLOW)
        self.watched = [os.pidfd_open(pid) for pid in processes.ancestors(2)]

    def command(self, name: str) -> str:
        """The command line of a hook, good for hyperfine with and without a shell."""
        return shlex.join(["sh", str(HOOK), str(self.folder), name])

    def serve(self, pid: int, limit_s: float) -> None:
        """Answer hooks until the process `pid` (hyperfine) has ended.

        Raises what a hook raised, Abandoned, or a UserError when a run took longer than `limit_s`.
        """
        ended = os.pidfd_open(pid)
        deadline = time.monotonic() + limit_s
        try:
            while True:
                wait = max(0.0, deadline - time.monotonic())
                ready: Any = select.select([self.ask, ended, *self.watched], [], [], wait)[0]
                if any(fd in ready for fd in self.watched):
                    raise Abandoned
                if self.ask in ready:
                    self._reply(os.read(self.ask, 100).decode().strip())
                    deadline = time.monotonic() + limit_s
                elif ended in ready:
                    break
                elif not ready:
                    raise too_long(limit_s)
        finally:
            os.close(ended)
        if self.error:
            raise self.error

    def _reply(self, name: str) -> None:
        began = time.monotonic()
        try:
            self.answer_to(name)
        except Exception as error:
            # hyperfine ends when its hook fails; what went wrong is raised then.
            self.error = error
        self.took_s += time.monotonic() - began
        os.write(self.answer, b"failed\n" if self.error else b"done\n")
