"""What a machine can do at most: copy memory, and send through its own sockets, one pair of processes for
each."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from mmap import mmap
from typing import Any

from vcsbench.measure.servers.kind import HOST

MIB = 1 << 20
COPIED = 64 * MIB
TRIES = 5
SENT = MIB
SECONDS = 0.5
ENDS_S = 5


def ceiling(clients: Sequence[int]) -> dict[str, Any]:
    """In MiB/s: `memory`, the fastest of TRIES copies of 64 MiB by one core, and `loopback`, by the number of
    sockets, what all of them carry together over 127.0.0.1, a sender and a receiver each."""
    return {
        "memory_mib_s": round(_copied(), 1),
        "loopback_mib_s": {str(number): round(_sent(number), 1) for number in clients},
    }


def _copied() -> float:
    source, target = bytes(COPIED), memoryview(bytearray(COPIED))
    took = []
    for _ in range(TRIES):
        began = time.perf_counter()
        target[:] = source
        took.append(time.perf_counter() - began)
    return COPIED / MIB / min(took)


def _sent(number: int) -> float:
    """Through so many sockets at once; their ends are processes, so that all cores may take part."""
    counts = mmap(-1, 8 * number)  # shared with what is forked: the bytes that each has received
    wait_at, let_go = os.pipe()
    children = []
    for n in range(number):
        one, other = _connected()
        children += [
            _forked(_send, one, wait_at, let_go),
            _forked(_receive, other, wait_at, let_go, counts, n),
        ]
        one.close()
        other.close()
    os.close(wait_at)
    began = time.monotonic()
    os.close(let_go)
    time.sleep(SECONDS)
    total = sum(int.from_bytes(counts[8 * n : 8 * n + 8], "little") for n in range(number))
    took = time.monotonic() - began
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return total / MIB / took


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server((HOST, 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


def _forked(work: Any, end: socket.socket, wait_at: int, let_go: int, *more: Any) -> int:
    pid = os.fork()
    if not pid:
        signal.alarm(ENDS_S)  # whatever becomes of its parent
        os.close(let_go)
        os.read(wait_at, 1)  # returns when nobody can write any more
        work(end, *more)
        os._exit(0)
    return pid


def _send(end: socket.socket) -> None:
    data = bytes(SENT)
    while True:
        end.sendall(data)


def _receive(end: socket.socket, counts: mmap, n: int) -> None:
    data, total = bytearray(SENT), 0
    while got := end.recv_into(data):
        total += got
        counts[8 * n : 8 * n + 8] = total.to_bytes(8, "little")
