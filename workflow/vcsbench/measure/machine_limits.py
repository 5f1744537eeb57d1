"""Measure the limits of a machine: copies in memory, and transfers over the loopback interface."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from mmap import mmap
from typing import Any

from vcsbench.measure.server import HOST

MIB = 1 << 20
COPY_BYTES = 64 * MIB
TRIES = 5
SECONDS = 0.5
CHILD_LIMIT_S = 5


def machine_limits(clients: Sequence[int]) -> dict[str, Any]:
    """Return the limits in MiB/s.

    `memory_mib_s` is the fastest of TRIES copies by one core. `loopback_mib_s` has by the number of
    connections the sum of their transfers. Each connection has a sender and a receiver process.
    """
    return {
        "memory_mib_s": round(_copy_rate(), 1),
        "loopback_mib_s": {str(number): round(_loopback_rate(number), 1) for number in clients},
    }


def _copy_rate() -> float:
    source, target = bytes(COPY_BYTES), memoryview(bytearray(COPY_BYTES))
    seconds = []
    for _ in range(TRIES):
        began = time.perf_counter()
        target[:] = source
        seconds.append(time.perf_counter() - began)
    return COPY_BYTES / MIB / min(seconds)


def _loopback_rate(connections: int) -> float:
    received = mmap(-1, 8 * connections)  # shared with the receivers: a count of bytes for each
    start_reader, start_writer = os.pipe()
    children = []
    for n in range(connections):
        with socket.create_server((HOST, 0)) as listener:
            sender = socket.create_connection(listener.getsockname())
            receiver = listener.accept()[0]

        def receive(end: socket.socket = receiver, n: int = n) -> None:
            data, total = bytearray(MIB), 0
            while count := end.recv_into(data):
                total += count
                received[8 * n : 8 * n + 8] = total.to_bytes(8, "little")

        def send(end: socket.socket = sender) -> None:
            data = bytes(MIB)
            while True:
                end.sendall(data)

        children += [_fork(work, start_reader, start_writer) for work in (send, receive)]
        sender.close()
        receiver.close()
    os.close(start_reader)
    began = time.monotonic()
    os.close(start_writer)
    time.sleep(SECONDS)
    total = sum(int.from_bytes(received[8 * n : 8 * n + 8], "little") for n in range(connections))
    seconds = time.monotonic() - began
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return total / MIB / seconds


def _fork(work: Callable[[], None], start_reader: int, start_writer: int) -> int:
    pid = os.fork()
    if not pid:
        signal.alarm(CHILD_LIMIT_S)  # it ends even if its parent is killed
        os.close(start_writer)
        os.read(start_reader, 1)  # returns when the pipe has no writer
        work()
        os._exit(0)
    return pid
