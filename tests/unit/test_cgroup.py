"""Limits of control groups: real groups of version 1, and files in place of version 2."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcsbench import kernel

MIB = 1 << 20
V1 = Path("/sys/fs/cgroup")


def real_group(controller: str, *, limits: dict[str, str], inner: dict[str, str]) -> Iterator[Path]:
    """Create a control group of version 1 with limits, and one inside it."""
    top = V1 / controller / f"vcsbench-test-{os.getpid()}"
    try:
        (top / "inner").mkdir(parents=True)
        for name, value in limits.items():
            (top / name).write_text(value)
        for name, value in inner.items():
            (top / "inner" / name).write_text(value)
    except OSError as error:
        pytest.skip(f"no control group of version 1 can be made here: {error}")
    try:
        yield top / "inner"
    finally:
        for folder in (top / "inner", top):
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)


@pytest.fixture
def memory_group() -> Iterator[Path]:
    limits = {"memory.limit_in_bytes": str(300 * MIB)}
    yield from real_group("memory", limits=limits, inner={"memory.limit_in_bytes": str(900 * MIB)})


@pytest.fixture
def cpu_group() -> Iterator[Path]:
    limits = {"cpu.cfs_quota_us": "20000"}
    yield from real_group("cpu", limits=limits, inner={})


def run_in(group: Path, code: str) -> list[str]:
    """Run Python in a control group and return the printed words."""
    enter = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')"
    argv = [sys.executable, "-c", f"{enter}\n{code}"]
    env = {**os.environ, "PYTHONPATH": str(Path(kernel.__file__).parents[1])}
    return subprocess.check_output(argv, text=True, env=env).split()


def test_memory_in_a_nested_group_has_the_limit_of_the_ancestor(memory_group: Path) -> None:
    code = "from vcsbench import kernel; print(*kernel.memory())"
    total, available, limit = map(int, run_in(memory_group, code))
    assert total == limit == 300 * MIB
    assert 250 * MIB < available < 300 * MIB


def test_free_bytes_in_a_limited_group_leaves_room_in_ram(memory_group: Path) -> None:
    code = (
        "from pathlib import Path; from vcsbench.storages.filesystems import free_bytes;"
        "print(free_bytes(Path('/dev/shm')))"
    )
    (free,) = map(int, run_in(memory_group, code))
    assert 0 <= free < 50 * MIB


def test_memory_counts_file_pages_as_available_and_tmpfs_pages_as_used(
    memory_group: Path, tmp_path: Path
) -> None:
    code = f"""
import os
from pathlib import Path
from vcsbench import kernel
before = kernel.memory().available
Path({str(tmp_path / "file")!r}).write_bytes(bytes(64 << 20))
os.sync()
print(before - kernel.memory().available)
shared = Path(f"/dev/shm/vcsbench-test-{{os.getpid()}}")
try:
    shared.write_bytes(bytes(64 << 20))
    print(before - kernel.memory().available)
finally:
    shared.unlink()
"""
    cached, shared = map(int, run_in(memory_group, code))
    assert cached < 16 * MIB
    assert shared > 48 * MIB


def test_quota_of_an_ancestor_in_version_1_is_read_and_counted(cpu_group: Path) -> None:
    code = """
import time
from vcsbench import kernel
before = kernel.throttled_us()
end = time.process_time() + 0.1
while time.process_time() < end:
    pass
print(kernel.quota_cores(), kernel.throttled_us() - before)
"""
    cores, throttled = run_in(cpu_group, code)
    assert float(cores) == 0.2
    assert int(throttled) > 50_000


def version_2(tmp_path: Path, files: dict[str, str], path: str = "/a/b", root: str = "/") -> Path:
    """Write files in place of /proc/self and a hierarchy of version 2."""
    proc, point = tmp_path / "self", tmp_path / "group s"
    proc.mkdir()
    (proc / "cgroup").write_text(f"0::{path}\n")
    escaped = str(point).replace(" ", "\\040")
    line = f"25 20 0:22 {root} {escaped} rw shared:4 - cgroup2 cgroup2 rw\n"
    (proc / "mountinfo").write_text(line)
    for name, content in files.items():
        file = point / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return proc


def test_memory_of_version_2_takes_the_tightest_of_max_and_high(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = f"anon 5\ninactive_file {20 * MIB}\nactive_file 0\nslab_reclaimable 0\n"
    proc = version_2(
        tmp_path,
        {
            **{"a/memory.max": str(800 * MIB), "a/memory.high": str(500 * MIB)},
            **{"a/memory.current": str(120 * MIB), "a/memory.stat": stat},
            **{"a/b/memory.max": "max", "a/b/memory.high": "max"},
            "a/b/memory.current": str(100 * MIB),
        },
    )
    monkeypatch.setattr(kernel, "groups", lambda name: cgroup_groups(name, proc))
    assert kernel.memory() == (500 * MIB, 400 * MIB, 500 * MIB)


cgroup_groups = kernel.groups


def test_quota_of_version_2_is_the_least_of_the_ancestors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = version_2(
        tmp_path,
        {
            "a/cpu.max": "50000 100000",
            "a/b/cpu.max": "max 100000",
            "a/cpu.stat": "usage_usec 9\nthrottled_usec 70\n",
            "a/b/cpu.stat": "usage_usec 9\nthrottled_usec 5\n",
        },
    )
    monkeypatch.setattr(kernel, "groups", lambda name: cgroup_groups(name, proc))
    assert kernel.quota_cores() == 0.5
    assert kernel.throttled_us() == 75


def test_groups_of_a_container_begin_at_its_mount(tmp_path: Path) -> None:
    proc = version_2(tmp_path, {}, path="/docker/one/sub", root="/docker/one")
    point = tmp_path / "group s"
    assert [group.folder for group in cgroup_groups("memory", proc)] == [point / "sub", point]
    (proc / "cgroup").write_text("0::/../other\n")
    cgroup_groups.cache_clear()
    assert [group.folder for group in cgroup_groups("memory", proc)] == [point]
