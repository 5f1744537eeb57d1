"""Page cache and device of real files: resident shares, eviction, counted reads and writes, cold runs."""

import os
import subprocess

import pytest

from project import needs, needs_root
from vcsbench import process_facts
from vcsbench.axes.cache_states import STATES
from vcsbench.machine import can_drop_caches
from vcsbench.measure import caches, counters
from vcsbench.measure.caches import clear_caches

MIB = 1 << 20
needs_drop_caches = pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")


@pytest.fixture
def folder(folder):
    """A folder on a disk, not in memory."""
    if counters.read_device_use(folder).reads is None:
        pytest.skip(f"{folder} has no block device of its own")
    return folder


def evicted_file(path, size=3 * MIB):
    """Write a file that is not in the page cache, and return its descriptor."""
    path.write_bytes(os.urandom(size))
    os.sync()
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return descriptor


def share(folder):
    residency = caches.query_residency(folder)
    return residency.share if residency else None


@needs("vmtouch")
def test_clear_caches_evict_makes_files_cold_until_read(folder):
    (folder / "below").mkdir()
    (folder / "below" / "large").write_bytes(os.urandom(3 * MIB))
    (folder / "small").write_bytes(b"x" * 700)
    os.sync()
    assert share(folder) == 1.0
    clear_caches("evict", [folder, folder / "gone"])
    assert share(folder) == 0.0
    (folder / "small").read_bytes()
    assert share(folder) == pytest.approx(700 / (3 * MIB + 700))
    (folder / "below" / "large").read_bytes()
    residency = caches.query_residency(folder)
    assert residency and residency[:2] == (1.0, 3 * MIB + 4096)
    assert residency.coverage.startswith("2 of 2")


def test_load_files_reads_all_pages_of_all_files(folder):
    (folder / "revs").mkdir()
    for name in ("0", "revs/1", "revs/2"):
        os.close(evicted_file(folder / name))
    assert share(folder) < 0.1
    caches.load_files(folder)
    assert share(folder) == 1.0


def test_cachestat_and_mincore_count_the_same_pages(folder):
    length = 3 * MIB + 100
    descriptor = evicted_file(folder / "file", length)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
    os.pread(descriptor, MIB, MIB)
    try:
        pages = caches.count_by_cachestat(descriptor, length)
        assert pages == caches.count_by_mincore(descriptor, length) == MIB // 4096
    except OSError:
        pytest.skip("this kernel has no cachestat")
    finally:
        os.close(descriptor)


@needs_root
def test_resident_on_overlay_counts_pages_of_both_layers(folder):
    lower, upper, work, merged = (folder / name for name in ("lower", "upper", "work", "merged"))
    for path in (lower, upper, work, merged):
        path.mkdir()
    (lower / "below").write_bytes(os.urandom(2 * MIB))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mount = ["mount", "-t", "overlay", "overlay", "-o", options, merged]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine mounts no overlay")
    try:
        (merged / "above").write_bytes(os.urandom(MIB))
        os.sync()
        for path in (lower / "below", upper / "above"):
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        shares = [share(merged)]
        for name in ("below", "above"):
            (merged / name).read_bytes()
            shares.append(share(merged))
    finally:
        subprocess.run(["umount", merged], check=True)
    assert shares == pytest.approx([0.0, 2 / 3, 1.0])


@pytest.mark.parametrize("name", ["{}", "{}/file"])
def test_resident_many_files_samples_evenly_over_folders(folder, name):
    for number in range(10):
        path = folder / name.format(number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 5000)
    residency = caches.query_residency(folder, max_files=4)
    assert residency and residency.pages_bytes == 4 * 8192 * 3
    assert residency.coverage.startswith("4 of 10")
    whole = caches.query_residency(folder)
    assert whole and whole.pages_bytes == 10 * 8192


@needs_drop_caches
def test_resident_by_names_queries_cached_names_only(folder):
    for name in ("read", "unread"):
        (folder / name).mkdir()
        for number in range(3):
            (folder / name / str(number)).write_bytes(b"x" * 5000)
    if not caches.has_cached_names(folder):
        pytest.skip("this kernel or file system does not report the names it knows")
    os.sync()
    clear_caches("drop-caches", [])
    assert caches.query_residency_by_names(30_000, folder) == (0.0, 0, "all files")
    (folder / "read" / "1").read_bytes()
    residency = caches.query_residency_by_names(30_000, folder)
    assert residency == (pytest.approx(5000 / 30_000), 8192, "all files")
    whole = caches.query_residency(folder)
    assert whole and whole[:2] == residency[:2] and whole.coverage.startswith("6 of 6")


def test_have_few_files_counts_files_of_all_folders_up_to_a_limit(folder, monkeypatch):
    monkeypatch.setattr(caches, "QUICK_FILES", 4)
    for name in ("one/below", "two"):
        (folder / name).mkdir(parents=True)
        for number in range(2):
            (folder / name / str(number)).touch()
    assert caches.have_few_files(folder / "one", folder / "two")
    (folder / "two" / "3").touch()
    assert not caches.have_few_files(folder / "one", folder / "two")
    assert caches.have_few_files(folder / "two")


def test_have_few_files_of_a_repository_with_3_000_revisions_is_true(folder):
    """Its revisions and their properties are a file each."""
    for number in range(6015):
        (folder / str(number)).touch()
    assert caches.have_few_files(folder)


def test_cold_state_clears_caches_while_the_server_is_stopped():
    steps = ["restore", "stop-server", "sync", "clear-caches", "start-server", "touch-client"]
    state = STATES["cold"].steps
    assert state["setup"] == [] and state["prepare"] == steps
    assert state["promises"] == {"os": "cold", "server": "new"} and state["discard"]


@needs_drop_caches
def test_counters_device_read_is_counted(folder):
    descriptor = evicted_file(folder / "file")
    devices = counters.choose_devices(folder)
    machine = counters.read_counters(devices)
    before = process_facts.usage([os.getpid()]).read_bytes
    assert len(os.read(descriptor, 3 * MIB)) == 3 * MIB
    os.close(descriptor)
    events = counters.count_events(machine, counters.read_counters(devices))
    assert events["device_read_bytes"] >= 3 * MIB
    assert process_facts.usage([os.getpid()]).read_bytes - before == 3 * MIB


def test_counters_device_write_is_counted(folder):
    devices = counters.choose_devices(folder)
    before = counters.read_counters(devices)
    with (folder / "file").open("wb") as file:
        file.write(os.urandom(3 * MIB))
        file.flush()
        os.fsync(file.fileno())
    events = counters.count_events(before, counters.read_counters(devices))
    assert events["device_write_bytes"] >= 3 * MIB
