"""The processes of jobs: their end by signals, and errors of the system."""

import errno
import os

import pytest

from project import run_python
from vcsbench.errors import REMEDIES
from vcsbench.run.job import ENDED

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


PASSING = """
import os, signal, sys
from vcsbench.run.workflow import RUN_ROOT, pass_signals_on

os.chdir(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: print("asked to end", flush=True))
if not os.fork():
    os.environ[RUN_ROOT] = "here"
    signal.signal(signal.SIGTERM, lambda *_: print("ends", flush=True))
    pass_signals_on()
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("is_stopped", [False, True])
def test_pass_signals_on_reaches_the_parent_unless_a_job_stops_snakemake(tmp_path, is_stopped):
    (tmp_path / ENDED).parent.mkdir()
    if is_stopped:
        (tmp_path / ENDED).touch()
    lines = run_python(PASSING, tmp_path).stdout.splitlines()
    assert sorted(lines) == [*["asked to end"] * (not is_stopped), "ends"]


UNEXPECTED = """
import sys
from vcsbench.run.job import job_log

with job_log(sys.argv[1]):
    {}["a\\x1bb"]
"""


def test_job_log_unexpected_error_is_one_sentence_and_its_traceback_in_the_log(tmp_path):
    log = tmp_path / "job.log"
    done = run_python(UNEXPECTED, log)
    sentence = (
        f"{log}: KeyError: 'a\\x1bb' (<string>:6). This is a fault of vcsbench: please report it.\n"
    )
    assert (done.returncode, done.stderr) == (1, sentence)
    assert log.read_text().startswith("Traceback") and log.read_text().endswith(f"\n{sentence}")


JOB = """
import os, sys
from vcsbench.run.job import job_log

with job_log(sys.argv[1]):
    raise OSError(int(sys.argv[2]), os.strerror(int(sys.argv[2])), *sys.argv[3:])
"""


@pytest.mark.parametrize(
    ("number", "names", "remedy"),
    [
        (errno.EIO, [], "Fix that"),
        (errno.EMFILE, [], "Raise the limit on open files (ulimit -n)"),
        (errno.EACCES, ["/a\x1bb"], REMEDIES[errno.EROFS]),
        (errno.ENOTDIR, ["/a"], "Move the file elsewhere that is in the way"),
        (errno.ENOSPC, ["/full"], "Free some space"),
        (errno.EDQUOT, ["/full"], "Free some space, or raise the quota"),
        (errno.EFBIG, [], "Raise the limit on the size of files (ulimit -f)"),
    ],
)
def test_job_log_error_of_the_system_is_one_sentence(tmp_path, number, names, remedy):
    log = tmp_path / "job.log"
    done = run_python(JOB, log, str(number), *names)
    place = names[0].replace("\x1b", "\\x1b") if names else log
    sentence = f"{place}: {os.strerror(number)}. {remedy}, and run again.\n"
    assert (done.returncode, done.stderr, log.read_text()) == (1, sentence, sentence)
