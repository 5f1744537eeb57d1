"""A run whose certificate does not fit its label gets the flag that says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vcsbench import flags
from vcsbench.measure import certificate, processes
from vcsbench.measure.certificate import Snapshot, judge
from vcsbench.measure.clearing import clear, resident_share
from vcsbench.measure.states import STATES, describe

QUIET = Snapshot(
    device_read_bytes=0,
    client_io={"rchar": 0, "read_bytes": 0},
    server_io={"rchar": 0, "read_bytes": 0},
    server_pid=7,
    server_starts=1,
    server_cpu_s=0.0,
    cpu_ticks=[0] * 10,
    swapped_pages=0,
)
SEEN: dict[str, Any] = {
    "client_read_bytes": 0,
    "server_read_bytes": 0,
    "resident_before": None,
    "swapped_pages": 0,
    "steal_pct": 0.0,
}
MIB = 1 << 20


def judged(cache: str, after: Snapshot = QUIET, **seen: Any) -> list[str]:
    return judge(cache, {**SEEN, **seen}, QUIET, after, repository_bytes=100 * MIB)


def test_a_hot_run_reads_nothing_from_the_device() -> None:
    assert judged("hot-svn") == judged("hot-os") == []
    assert judged("hot-svn", client_read_bytes=MIB) == [], "its metadata may be read"
    assert judged("hot-svn", server_read_bytes=3 * MIB) == ["cold-reads"]


def test_a_cold_run_reads_and_found_nothing_in_memory() -> None:
    assert judged("cold", resident_before=0.0, client_read_bytes=MIB) == []
    assert judged("cold", resident_before=0.0) == ["no-reads"]
    assert judged("cold", resident_before=0.5, server_read_bytes=MIB) == ["warm"]


def test_a_server_that_is_another_one_after_the_run() -> None:
    assert judged("hot-svn", replace(QUIET, server_pid=8)) == ["restarted"]
    assert judged("hot-svn", replace(QUIET, server_starts=2)) == ["restarted"]


def test_what_disturbs_a_run() -> None:
    assert judged("hot-os", swapped_pages=3) == ["swapped"]
    assert judged("hot-os", steal_pct=2.5) == ["disturbed"]


def test_every_flag_has_its_sentence_and_false_labels_leave_the_tables() -> None:
    given = ["cold-reads", "no-reads", "warm", "restarted", "swapped", "disturbed"]
    assert set(given) <= set(flags.FLAGS)
    assert {"cold-reads", "no-reads", "warm", "restarted"} <= set(flags.FALSE_LABEL)


def test_reads_of_children_are_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5 * MIB)
    before = processes.io_bytes([os.getpid()])["rchar"]
    subprocess.run(["cat", tmp_path / "file"], stdout=subprocess.DEVNULL, check=True)
    assert processes.io_bytes([os.getpid()])["rchar"] - before >= 5 * MIB


def test_cpu_time_is_that_of_the_process_and_its_descendants() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True)\ninput()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdin
        process.stdout.readline()
        assert 0.3 <= processes.cpu_s(process.pid) < 3
        process.communicate(b"\n")


@pytest.mark.skipif(not shutil.which("vmtouch"), reason="not installed: vmtouch")
def test_eviction_makes_files_cold_and_reading_makes_them_hot() -> None:
    if certificate.device_read_bytes(Path("/var/tmp")) is None:
        pytest.skip("/var/tmp has no block device of its own")
    folder = Path("/var/tmp") / f"vcsbench-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "file").write_bytes(os.urandom(3 * MIB))
        os.sync()
        assert resident_share(folder, ["file"]) == 1.0
        clear("evict", folder)
        assert resident_share(folder, ["file"]) == 0.0
        (folder / "file").read_bytes()
        assert resident_share(folder, ["file"]) == 1.0
    finally:
        shutil.rmtree(folder)


def test_published_cold_runs_do_not_touch_the_client() -> None:
    assert "touch-client" in describe("cold", cold_client=False)["prepare"]
    assert "touch-client" not in describe("cold", cold_client=True)["prepare"]


def test_each_cold_run_clears_caches_with_the_server_ended() -> None:
    steps = STATES["cold"].prepare
    wanted = ("stop-server", "sync", "clear-caches", "start-server")
    assert [step for step in steps if step in wanted] == list(wanted)
