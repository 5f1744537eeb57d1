"""What is known of processes."""

from __future__ import annotations

import os
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
