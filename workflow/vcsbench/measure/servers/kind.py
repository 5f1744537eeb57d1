"""What tells one kind of server from another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from vcsbench.programs import Programs

HOST = "127.0.0.1"


class Server(Protocol):
    """What a kind knows of a server of its own: the folder that is served, those of its configuration and of
    what it may write, its port and programs, options of the cell's own; and what it says when it is
    greeted."""

    root: Path
    files: Path
    run: Path
    port: int
    programs: Programs
    options: Sequence[str]

    def greet(self) -> str:
        """The beginning of what the server answers."""


class Kind:
    """A kind of server. A file in here has its own as KIND.

    `greeting` is sent to hear whether it answers, without touching what it serves; `asks_version` are the
    options with which its program prints its version.
    """

    greeting = b""
    asks_version: tuple[str, ...] = ("--version", "--quiet")

    def command(self, server: Server) -> list[str]:
        """The argv of a server; what it reads from may be written for that."""
        raise NotImplementedError

    def version(self, server: Server, told: str) -> str:
        """The version of Subversion in a running server; `told` is what its program printed."""
        return told

    def log(self, server: Server) -> Path | None:
        """The file of its own in which it complains, if there is one."""
        return None
