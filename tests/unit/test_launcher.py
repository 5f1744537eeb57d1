"""Several clients at once: their common start, times and failures."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from project import HANGING_S, run_python
from vcsbench.measure import launcher

MARK = "@N@"


def launch(tmp_path, number, *argv):
    report = tmp_path / "report.json"
    words = [sys.executable, "-I", "-S", launcher.__file__, str(report), str(number), MARK, *argv]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANGING_S)
    return done, json.loads(report.read_text()) if report.exists() else {}


def test_launcher_starts_clients_together_each_with_its_number(tmp_path):
    # Each client waits for the others.
    wait = " ".join(f"[ -e {tmp_path}/made-{n} ] &&" for n in range(1, 5))
    script = f"touch {tmp_path}/made-{MARK}; until {wait} true; do sleep 0.01; done"
    done, report = launch(tmp_path, 4, "/bin/sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.glob("made-*")) == [f"made-{n}" for n in range(1, 5)]
    starts = [client["went_s"] for client in report["clients"]]
    ends = [client["ended_s"] for client in report["clients"]]
    assert len(starts) == 4 and 0 <= min(starts) <= max(starts) < min(ends)
    assert report["all_s"] >= max(ends)


def test_launcher_reports_processor_time_of_each_client(tmp_path):
    loop = f"[ {MARK} = 2 ] || exit 0; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    _, report = launch(tmp_path, 2, "/bin/sh", "-c", loop)
    first, second = (client["user_s"] + client["system_s"] for client in report["clients"])
    assert second > 5 * first and second > 0.05


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        ("exit 7", 7, "client 2 of 3 exits with 7\n"),
        ("kill -9 $$", 128 + 9, "client 2 of 3 was ended by SIGKILL\n"),
    ],
)
def test_launcher_failed_client_ends_all(tmp_path, failure, code, message):
    began = time.monotonic()
    script = f"[ {MARK} = 2 ] && {failure}; exec sleep 3600"
    done, report = launch(tmp_path, 3, "/bin/sh", "-c", script)
    assert (done.returncode, done.stderr, report) == (code, message, {})
    assert time.monotonic() - began < HANGING_S


def test_launcher_program_on_the_path_is_found(tmp_path):
    done, report = launch(tmp_path, 2, "sleep", "0.1")
    assert done.returncode == 0, done.stderr
    assert len(report["clients"]) == 2


# The third client cannot be started.
TOO_MANY = """
import errno, os, sys
from vcsbench.measure import launcher

fork, started = os.fork, []

def fork_twice():
    if len(started) == 2:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    started.append(1)
    return fork()

os.fork = fork_twice
touch, folder = sys.argv[1:]
sys.exit(launcher.main(f"{folder}/report.json", 3, "@N@", [touch, f"{folder}/ran-@N@"]))
"""


def test_launcher_client_that_cannot_be_started_ends_all(tmp_path):
    done = run_python(TOO_MANY, shutil.which("touch"), tmp_path)
    assert done.returncode == launcher.CANNOT_RUN
    assert done.stderr.count("\n") == 1 and os.strerror(errno.EAGAIN) in done.stderr
    # The other two were ended before they ran their command.
    assert list(tmp_path.iterdir()) == []


def test_launcher_missing_program_is_named(tmp_path):
    done, _ = launch(tmp_path, 2, "/nowhere/svn")
    assert done.returncode == 127
    assert f"/nowhere/svn: {os.strerror(errno.ENOENT)}" in done.stderr
