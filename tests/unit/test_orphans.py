"""A job that is told to end does, wherever the signal meets it."""

from __future__ import annotations

import os
import subprocess
import sys

from project import ROOT

PROGRAM = """
import os, signal, time, weakref
from vcsbench.run.orphans import end_when_told

end_when_told()
class Taken: pass
taken = Taken()
told = weakref.ref(taken, lambda _: [os.kill(os.getpid(), signal.SIGTERM), time.sleep(0.1)])
del taken
time.sleep(10)
print("still here")
"""


def test_a_signal_that_comes_while_an_object_is_taken_apart_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ended by SIGTERM\n"
