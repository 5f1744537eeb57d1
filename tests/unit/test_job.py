"""The processes of jobs: their end by signals, and the cause of a failed cell-round."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from project import run_python
from vcsbench.errors import UserError
from vcsbench.run import cell
from vcsbench.subjects import Subject

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


class Unmounted(Subject):
    """A subject on an unmounted file system."""

    def check_unchanged(self, closely=False):
        if closely:
            raise UserError("/mnt: is on ext4, and was on tmpfs")


MISSING_FILE = FileNotFoundError("wc.db")


@pytest.mark.parametrize(
    ("error", "kinds", "expected"),
    [
        (MISSING_FILE, [Subject, Unmounted], "/mnt: is on ext4, and was on tmpfs"),
        (MISSING_FILE, [Subject, Subject], "wc.db"),
        (ValueError("x"), [Unmounted], "x"),
    ],
)
def test_measure_failed_round_reports_unmounted_file_system_first(
    monkeypatch, error, kinds, expected
):
    class Failing:
        def __init__(self, *_):
            self.cell = SimpleNamespace(subjects=[kind({}, 1, Path()) for kind in kinds])

        def measure(self, _lock):
            raise error

    monkeypatch.setattr(cell, "CellRound", Failing)
    with pytest.raises((UserError, OSError, ValueError)) as raised:
        cell._measure_here({"state": {"promises": {}}}, 1, {}, Path(), 0)
    assert str(raised.value) == expected
