"""What is known of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

from vcsbench import processes


def test_a_family_has_what_other_threads_have_started() -> None:
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


# Told to end, it waits for its child, which ignores that it is told so.
WAITS = """
(trap '' TERM; echo started; while :; do sleep 60; done) &
trap 'wait $!; exit 0' TERM
while :; do wait $!; done
"""


def test_a_server_need_not_wait_for_its_children_to_end() -> None:
    with subprocess.Popen(["sh", "-c", WAITS], stdout=subprocess.PIPE) as server:
        assert server.stdout and server.stdout.readline() == b"started\n"
        children = processes.family(server.pid)[1:]
        assert children
        processes.end(server)
        assert server.returncode != -signal.SIGKILL, "it ended by itself"
    assert not any(processes.command_line(pid) for pid in children)
