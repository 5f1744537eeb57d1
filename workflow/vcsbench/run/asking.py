"""How a job asks the process that stands by (run.standby) to measure in its place.

It is imported for every cell-round, so it imports hardly anything: `signal` and `socket` take as long as the
whole start of an interpreter.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import os
import stat
import sys

# In the folder of the process that stands by.
ADDRESS = "address"
FIELDS_END = b"\0"


def ask(folder: str, arguments: list[str]) -> int | None:
    """Have a cell-round measured by the process that stands by in `folder`; returns its exit code, or None
    where nobody stands by."""
    if not is_ours(folder):
        return None
    connection = _socket.socket(_socket.AF_UNIX)
    try:
        connection.connect(f"{folder}/{ADDRESS}")
        measuring = _number(connection)
    except OSError:
        return None
    if not measuring:
        return None
    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, lambda number, _: _pass_on(measuring, number))
    # It gets what this process has: its standard streams, its folder, its environment.
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in range(3))
    environment = [name + b"=" + value for name, value in os.environb.items()]
    words = [str(os.getpid()), os.getcwd(), str(len(arguments)), *arguments]
    request = FIELDS_END.join([*map(os.fsencode, words), *environment])
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)
    sent = connection.sendmsg([request], [rights])
    connection.sendall(request[sent:])
    connection.shutdown(_socket.SHUT_WR)
    code = _number(connection)
    connection.recv(1)  # its end: what measures looks whether this process has ended, and says so
    if code is None:
        print(f"process {measuring}, which measured, was killed", file=sys.stderr)
        return 1
    return code


def _number(connection: _socket.socket) -> int | None:
    """The number that the other side tells, in a line; None where it tells none."""
    line = b""
    while not line.endswith(b"\n") and (more := connection.recv(1)):
        line += more
    return int(line) if line else None


def is_ours(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder is ours alone: where anybody may make one, it may be anybody's."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    )


def _pass_on(measuring: int, number: int) -> None:
    try:  # noqa: SIM105 - contextlib is one of those that take long to import
        os.kill(measuring, number)
    except ProcessLookupError:
        pass
