"""The processes of jobs: their end by signals, and errors of the system."""

import errno
import os

import pytest

from project import run_python

PROGRAM = """
import os, signal, time, weakref
from vcsbench.run.job import exit_on_signals

exit_on_signals()
class Target: pass
target = Target()
reference = weakref.ref(target, lambda _: [os.kill(os.getpid(), signal.SIGTERM), time.sleep(0.1)])
del target
time.sleep(10)
print("still running")
"""


def test_exit_on_signals_in_finaliser_is_not_lost():
    done = run_python(PROGRAM)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "ended by SIGTERM\n")


JOB = """
import os, sys
from vcsbench.run.job import job_log

with job_log(sys.argv[1]):
    raise OSError(int(sys.argv[2]), os.strerror(int(sys.argv[2])), *sys.argv[3:])
"""


@pytest.mark.parametrize(
    ("number", "names", "remedy"),
    [
        (errno.EMFILE, [], "Fix that"),
        (errno.EACCES, ["/a\x1bb"], "Fix that"),
        (errno.ENOSPC, ["/full"], "Free some space"),
    ],
)
def test_job_log_error_of_the_system_is_one_sentence(tmp_path, number, names, remedy):
    log = tmp_path / "job.log"
    done = run_python(JOB, log, str(number), *names)
    place = names[0].replace("\x1b", "\\x1b") if names else log
    sentence = f"{place}: {os.strerror(number)}. {remedy} and run again.\n"
    assert (done.returncode, done.stderr, log.read_text()) == (1, sentence, sentence)
