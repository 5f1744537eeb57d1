"""What a certificate holds is what the kernel counts: residency, reads, CPU time, servers that are alive."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vcsbench import processes
from vcsbench.axes.cache import AXIS, STATES
from vcsbench.machine import can_drop_caches
from vcsbench.measure import caches, counters
from vcsbench.measure.caches import clear_caches
from vcsbench.measure.server import MARKER, other_servers

MIB = 1 << 20


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a disk, not in memory."""
    path = Path("/var/tmp") / f"vcsbench-test-{os.getpid()}"
    path.mkdir()
    try:
        if counters.device_use(path) is None:
            pytest.skip("/var/tmp has no block device of its own")
        yield path
    finally:
        shutil.rmtree(path)


def test_reads_of_children_are_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5 * MIB)
    before = processes.io_counts([os.getpid()])["rchar"]
    subprocess.run(["cat", tmp_path / "file"], stdout=subprocess.DEVNULL, check=True)
    assert processes.io_counts([os.getpid()])["rchar"] - before >= 5 * MIB


def test_cpu_time_is_that_of_the_process_and_its_descendants() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True)\ninput()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdin
        process.stdout.readline()
        assert 0.3 <= processes.usage(processes.family(process.pid)).cpu_s < 3
        process.communicate(b"\n")


def test_cpu_time_of_ended_children_stays() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    before = processes.usage([os.getpid()]).cpu_s
    subprocess.run([sys.executable, "-c", burn], check=True)
    # Two ticks less: both are counted in whole ones.
    assert 0.28 <= processes.usage([os.getpid()]).cpu_s - before < 3
    assert processes.ended_children([os.getpid()]) > 0


@pytest.mark.skipif(not shutil.which("vmtouch"), reason="not installed: vmtouch")
def test_eviction_makes_files_cold_and_reading_makes_them_hot(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "large").write_bytes(os.urandom(3 * MIB))
    (folder / "small").write_bytes(b"x" * 700)
    os.sync()
    assert _share(folder) == 1.0
    clear_caches("evict", [folder, folder / "gone"])
    assert _share(folder) == 0.0
    (folder / "small").read_bytes()
    assert _share(folder) == pytest.approx(700 / (3 * MIB + 700))
    (folder / "below" / "large").read_bytes()
    asked = caches.resident(folder)
    assert asked and (asked.share, asked.coverage) == (1.0, "all 2 files")
    assert asked.pages_bytes == 3 * MIB + 4096


def test_asking_reads_nothing_of_what_it_asks(folder: Path) -> None:
    (folder / "file").write_bytes(os.urandom(3 * MIB))
    os.sync()
    fd = os.open(folder / "file", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    assert [_share(folder), _share(folder)] == [0.0, 0.0]


def test_both_system_calls_see_the_same(folder: Path) -> None:
    length = 3 * MIB + 100
    (folder / "file").write_bytes(os.urandom(length))
    os.sync()
    fd = os.open(folder / "file", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
    os.pread(fd, MIB, MIB)
    try:
        by_cachestat = caches.cachestat_counter()(fd, length)
    except OSError:
        pytest.skip("this kernel has no cachestat")
    assert by_cachestat == caches.count_by_mincore(fd, length) == MIB // 4096
    os.close(fd)


def test_of_many_files_a_part_is_asked_and_that_is_said(folder: Path) -> None:
    for number in range(10):
        (folder / str(number)).write_bytes(b"x" * 5000)
    asked = caches.resident(folder, max_files=4)
    assert asked and asked.coverage == "4 of 10 files, evenly chosen"
    assert asked.pages_bytes == 4 * 8192 * 3, "scaled up by every third file"


def test_a_part_is_evenly_chosen_over_folders(folder: Path) -> None:
    for number in range(10):
        (folder / str(number)).mkdir()
        (folder / str(number) / "file").write_bytes(b"x" * 5000)
    asked = caches.resident(folder, max_files=4)
    assert asked and asked.coverage == "4 of 10 files, evenly chosen"
    one_by_one = caches.resident(folder)
    assert one_by_one and (one_by_one.queried, one_by_one.pages_bytes) == (10, 10 * 8192)


def _share(folder: Path) -> float | None:
    asked = caches.resident(folder)
    return asked.share if asked else None


@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
def test_what_the_kernel_does_not_know_is_asked_without_being_loaded(folder: Path) -> None:
    for name in ("read", "unread"):
        (folder / name).mkdir()
        for number in range(3):
            (folder / name / str(number)).write_bytes(b"x" * 5000)
    if not caches.has_cached_names(folder):
        pytest.skip("this kernel or file system does not tell what names it knows")
    os.sync()
    clear_caches("drop-caches", [])
    assert caches.resident_by_names(30_000, folder) == (0.0, 0, 0, 0), "not even a name is left"
    (folder / "read" / "1").read_bytes()
    asked = caches.resident_by_names(30_000, folder)
    assert asked and asked.queried < 6 and asked.pages_bytes == 8192
    assert asked.share == pytest.approx(5000 / 30_000)
    assert asked.coverage == "all files, 1 of them known to the kernel"
    plain = caches.resident(folder)
    assert plain and (plain.share, plain.pages_bytes) == (asked.share, asked.pages_bytes)


def test_a_kernel_without_the_call_is_not_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "OPENAT2", 100_000)
    assert not caches.has_cached_names(folder)


def test_a_file_system_whose_names_may_be_stale_is_not_asked() -> None:
    assert not caches.has_cached_names(Path("/proc/self"))


@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
def test_the_device_counts_what_is_read_from_it(folder: Path) -> None:
    (folder / "file").write_bytes(os.urandom(3 * MIB))
    os.sync()
    fd = os.open(folder / "file", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    machine, own = counters.read_counters(folder), processes.usage([os.getpid()])
    assert len(os.read(fd, 3 * MIB)) == 3 * MIB
    seen = counters.counters_between(machine, counters.read_counters(folder))
    assert seen["device_read_bytes"] >= 3 * MIB
    assert (processes.usage([os.getpid()]) - own).read_bytes == 3 * MIB
    os.close(fd)


def test_the_device_counts_what_is_written_to_it_and_its_flushes(folder: Path) -> None:
    before = counters.read_counters(folder)
    with (folder / "file").open("wb") as file:
        for _ in range(3):
            file.write(os.urandom(MIB))
            file.flush()
            os.fsync(file.fileno())
    seen = counters.counters_between(before, counters.read_counters(folder))
    assert seen["device_write_bytes"] >= 3 * MIB
    assert before.device
    if before.device[3] is None:
        pytest.skip("the kernel counts no flushes")
    # A device without a cache of its own is told to flush nothing.
    assert seen["device_flushes"] >= 0
    assert before.device[3] > 0 or seen["device_flushes"] == 0


def test_an_acknowledgement_that_is_delayed_shows(tmp_path: Path) -> None:
    """Of what is answered, the answer acknowledges; of what is not, TCP waits for an answer for 40 ms."""
    before = counters.read_counters(tmp_path)
    if before.delayed_acks is None:
        pytest.skip("the kernel does not count delayed acknowledgements")
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as one,
        listening.accept()[0] as other,
    ):
        for _ in range(3):
            for _ in range(20):
                one.sendall(b"?")
                other.sendall(other.recv(1))
                one.recv(1)
            one.sendall(b"?")
            other.recv(1)
            time.sleep(0.1)
    assert counters.counters_between(before, counters.read_counters(tmp_path))["delayed_acks"] >= 3


def test_processor_time_that_is_taken_shows(tmp_path: Path) -> None:
    before, began = counters.read_counters(tmp_path), time.monotonic()
    while time.monotonic() - began < 0.3:
        pass
    seen = counters.counters_between(before, counters.read_counters(tmp_path))
    assert seen["window_s"] >= 0.3 and seen["busy_s"] > 0.1


def test_servers_of_vcsbench_are_known_by_their_marker_or_their_place(tmp_path: Path) -> None:
    marked = {**os.environ, MARKER: "/tmp/somewhere"}
    named = tmp_path / "vcsbench-0a1b" / "svnserve"
    named.parent.mkdir()
    shutil.copy2(shutil.which("sleep") or "", named)
    started = [
        subprocess.Popen(["sleep", "61.1"], env=marked),
        subprocess.Popen([named, "61.2"]),
        subprocess.Popen(["sleep", "61.3"]),
    ]
    try:
        found = [line for line in other_servers([]) if " 61." in line]
        assert sorted(line[-4:] for line in found) == ["61.1", "61.2"]
        own = [process.pid for process in started]
        assert not [line for line in other_servers(own) if " 61." in line]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_published_cold_runs_do_not_touch_the_client() -> None:
    for skip_client_warmup in (False, True):
        settings = SimpleNamespace(skip_client_warmup=skip_client_warmup)
        here: Any = SimpleNamespace(config=SimpleNamespace(settings=settings))
        steps = AXIS.part("cold", here)["state"]["prepare"]
        assert ("touch-client" in steps) is not skip_client_warmup


def test_each_cold_run_clears_caches_with_the_server_ended() -> None:
    steps = STATES["cold"]["prepare"]
    wanted = ("stop-server", "sync", "clear-caches", "start-server")
    assert [step for step in steps if step in wanted] == list(wanted)
