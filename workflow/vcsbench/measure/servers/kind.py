"""The interface of a kind of server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from vcsbench.programs import Programs

HOST = "127.0.0.1"
# The directives of a configuration's httpd.conf, as they are handed over.
DIRECTIVES = "directives.conf"


class Server(Protocol):
    """A server as its kind sees it: the folders that it serves and is configured in, and its options."""

    root: Path
    files: Path
    port: int
    programs: Programs
    options: Sequence[str]

    def greet(self) -> str:
        """Return the beginning of the server's answer to a greeting."""

    def writable_folder(self) -> str:
        """Return the path, for the server, of the one folder that it may write."""

    def hand_over(self, name: str, text: str) -> str:
        """Write a file that the server may read, and return its path for the server."""


class Kind:
    """A kind of server. A file in this folder has its own as KIND.

    `greeting` is sent to see if the server answers; it reads nothing that is served. `asks_version` are the
    options with which the program prints its version.
    """

    greeting = b""
    asks_version: tuple[str, ...] = ("--version", "--quiet")

    def command(self, server: Server) -> list[str]:
        """Return the argv of a server."""
        raise NotImplementedError

    def version(self, server: Server, told: str) -> str:
        """Return the version of Subversion in a running server; `told` is the output of its program."""
        return told
