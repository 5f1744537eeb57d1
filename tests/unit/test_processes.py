"""Processes: families, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

from vcsbench import processes


def test_family_has_children_of_other_threads() -> None:
    started: list[subprocess.Popen[bytes]] = []
    done = threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(["sleep", "60"]))
        done.wait()

    thread = threading.Thread(target=start)
    thread.start()
    try:
        while not started:
            pass
        assert started[0].pid in processes.family(os.getpid())
    finally:
        done.set()
        thread.join()
        started[0].kill()
        started[0].wait()


# On SIGTERM, it waits for its child, which ignores SIGTERM.
WAITS = """
(trap '' TERM; echo started; while :; do sleep 60; done) &
trap 'wait $!; exit 0' TERM
while :; do wait $!; done
"""


def test_end_kills_children_that_ignore_sigterm() -> None:
    with subprocess.Popen(["sh", "-c", WAITS], stdout=subprocess.PIPE) as server:
        assert server.stdout and server.stdout.readline() == b"started\n"
        children = processes.family(server.pid)[1:]
        assert children
        processes.end(server)
        assert server.returncode != -signal.SIGKILL
    assert not any(processes.command_line(pid) for pid in children)
