"""Limits of control groups, in real groups of version 1 and files in place of version 2; the machine.

The signal that a process gets when its parent ends."""

import os
import signal
import time
from pathlib import Path

import pytest

from project import needs_root, run_python
from vcsbench import kernel, machine
from vcsbench.measure import round_context

MIB = 1 << 20
V1 = Path("/sys/fs/cgroup")


def run_in_group(controller, limits, inner, code):
    """Run Python in a control group inside one with limits, of version 1, and return the printed words."""
    top = V1 / controller / f"vcsbench-test-{os.getpid()}"
    try:
        (top / "inner").mkdir(parents=True)
        for folder, values in ((top, limits), (top / "inner", inner)):
            for name, value in values.items():
                (folder / name).write_text(value)
    except OSError as error:
        pytest.skip(f"no control group of version 1 can be made here: {error}")
    enter = f"open({str(top / 'inner/cgroup.procs')!r}, 'w').write('0')"
    imports = "import os, time\nfrom pathlib import Path\nfrom vcsbench import kernel"
    try:
        return run_python(f"{enter}\n{imports}\n{code}").stdout.split()
    finally:
        for folder in (top / "inner", top):
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)


def test_memory_in_a_nested_group_has_the_limit_of_the_ancestor():
    code = "from vcsbench.storages.filesystems import free_bytes\n"
    code += "print(*kernel.memory(), free_bytes(Path('/dev/shm')))"
    name = "memory.limit_in_bytes"
    words = run_in_group("memory", {name: str(300 * MIB)}, {name: str(900 * MIB)}, code)
    total, available, limit, free = map(int, words)
    assert total == limit == 300 * MIB
    assert 250 * MIB < available < 300 * MIB and 0 <= free < 50 * MIB


def test_memory_counts_file_pages_as_available_and_tmpfs_pages_as_used(tmp_path):
    code = f"""
before = kernel.memory().available
Path({str(tmp_path / "file")!r}).write_bytes(bytes(64 << 20))
os.sync()
print(before - kernel.memory().available)
shared = Path(f"/dev/shm/vcsbench-test-{{os.getpid()}}")
with shared.open("wb") as file:
    shared.unlink()
    file.write(bytes(64 << 20))
    print(before - kernel.memory().available)
"""
    limit = {"memory.limit_in_bytes": str(300 * MIB)}
    cached, shared = map(int, run_in_group("memory", limit, {}, code))
    assert cached < 16 * MIB and shared > 48 * MIB


def test_quota_of_an_ancestor_in_version_1_is_read_and_counted():
    code = """
before = kernel.throttled_us()
end = time.process_time() + 0.1
while time.process_time() < end:
    pass
print(kernel.quota_cores(), kernel.throttled_us() - before)
"""
    cores, throttled = run_in_group("cpu", {"cpu.cfs_quota_us": "20000"}, {}, code)
    assert float(cores) == 0.2 and int(throttled) > 50_000


@pytest.fixture
def version_2(tmp_path, monkeypatch):
    """Files in place of /proc/self and of a hierarchy of version 2, whose folder has a space."""
    proc, point = tmp_path / "self", tmp_path / "group s"
    proc.mkdir()
    point.mkdir()
    monkeypatch.setattr(kernel, "SELF", proc)
    # In a container, whose mount shows the tree from a group on.
    (proc / "cgroup").write_text("0::/docker/one/a/b\n")
    escaped = str(point).replace(" ", "\\040")
    line = f"25 20 0:22 /docker/one {escaped} rw shared:4 - cgroup2 cgroup2 rw\n"
    (proc / "mountinfo").write_text(line)
    kernel.groups.cache_clear()
    yield point
    kernel.groups.cache_clear()


def put_files(point, files):
    for name, content in files.items():
        (point / name).parent.mkdir(parents=True, exist_ok=True)
        (point / name).write_text(content)


def test_memory_of_version_2_takes_the_tightest_of_max_and_high(version_2):
    stat = f"anon 5\ninactive_file {20 * MIB}\nactive_file 0\nslab_reclaimable 0\n"
    put_files(version_2, {"a/memory.max": str(800 * MIB), "a/memory.high": str(500 * MIB)})
    put_files(version_2, {"a/memory.current": str(120 * MIB), "a/memory.stat": stat})
    put_files(version_2, {"a/b/memory.max": "max", "a/b/memory.high": "max"})
    put_files(version_2, {"a/b/memory.current": str(100 * MIB)})
    assert kernel.memory() == (500 * MIB, 400 * MIB, 500 * MIB)


def test_quota_of_version_2_is_the_least_of_the_ancestors(version_2):
    put_files(version_2, {"a/cpu.max": "50000 100000", "a/b/cpu.max": "max 100000"})
    put_files(version_2, {"a/cpu.stat": "usage_usec 9\nthrottled_usec 70\n"})
    put_files(version_2, {"a/b/cpu.stat": "usage_usec 9\nthrottled_usec 5\n"})
    assert (kernel.quota_cores(), kernel.throttled_us()) == (0.5, 75)


def test_conditions_have_the_limits_and_the_weights_that_are_no_default(version_2):
    put_files(version_2, {"a/cpu.weight": "30\n", "a/io.weight": "default 100\n8:0 200\n"})
    put_files(version_2, {"a/b/cpu.weight": "100\n", "a/b/io.weight": "default 50\n"})
    put_files(version_2, {"a/memory.max": str(64 * MIB), "a/b/io.max": "8:0 rbps=1048576\n"})
    conditions = round_context._read_conditions()
    assert conditions["weights"] == ["cpu.weight 30", "io.weight 50", "io.weight 8:0 200"]
    assert conditions["io_limits"] == ["io.max 8:0 rbps=1048576"]
    assert conditions["memory_limit_bytes"] == 64 * MIB
    assert conditions["governor"] == machine.host()["governor"]
    assert conditions["turbo"] == machine.read_turbo()


@pytest.mark.parametrize(
    ("files", "turbo"),
    [
        *(({}, ""), ({"no_turbo": "0\n"}, "on"), ({"no_turbo": "1\n"}, "off")),
        *(({"boost": "1\n"}, "on"), ({"boost": "0\n"}, "off")),
    ],
)
def test_turbo_is_read_from_the_file_of_either_driver(tmp_path, monkeypatch, files, turbo):
    put_files(tmp_path, files)
    content_if_on = {str(tmp_path / "no_turbo"): "0", str(tmp_path / "boost"): "1"}
    monkeypatch.setattr(machine, "TURBO_FILES", content_if_on)
    assert machine.read_turbo() == turbo


def test_conditions_have_the_weight_of_an_ancestor_in_version_1():
    code = "from vcsbench.measure import round_context\n"
    code += "print(*round_context._read_conditions()['weights'])"
    words = run_in_group("cpu", {"cpu.shares": "512"}, {}, code)
    assert "cpu.shares 512" in " ".join(words)


WITH_SIGNAL = """
import os, signal, time
from vcsbench import kernel
from vcsbench.server_user import as_server_user

def set_signal():
    kernel.control_process(kernel.PR_SET_PDEATHSIG, signal.SIGUSR1)
"""
UNCHANGED = f"""{WITH_SIGNAL}
set_signal()
with as_server_user():
    pass
print(kernel.death_signal())
"""
PARENT_ENDS = f"""{WITH_SIGNAL}
inside, writer = os.pipe()
if os.fork():
    os.read(inside, 1)
    os._exit(0)
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"signal"))
parent = os.getppid()
set_signal()
with as_server_user():
    os.write(writer, b"x")
    while os.getppid() == parent:
        time.sleep(0.01)
"""


@needs_root
def test_as_server_user_keeps_the_signal_for_the_end_of_the_parent():
    done = run_python(UNCHANGED)
    assert done.stdout == f"{int(signal.SIGUSR1)}\n", done.stderr


@needs_root
def test_process_whose_parent_ends_within_as_server_user_gets_the_signal():
    done = run_python(PARENT_ENDS)
    assert done.stdout == "signal", done.stderr


def test_machine_identity_changes_with_each_part(tmp_path, monkeypatch):
    for number in range(4):
        (tmp_path / f"memory{number}").mkdir()
    (tmp_path / "block_size_bytes").write_text("8000000\n")
    (tmp_path / "machine-id").write_text("0123456789abcdef\n")
    monkeypatch.setattr(machine, "MEMORY_BLOCKS", tmp_path)
    monkeypatch.setattr(machine, "MACHINE_IDS", (tmp_path / "machine-id",))
    facts = machine.host()
    assert facts["id"] == machine.machine_identity(facts["name"], facts["cpu"])

    def identity(name="localhost", cpu="A processor"):
        return machine.machine_identity(name, cpu)

    assert identity() == identity()
    identities = {identity(), identity(cpu="Another"), identity(name="otherhost")}
    (tmp_path / "machine-id").write_text("fedcba9876543210\n")
    identities.add(identity())
    (tmp_path / "memory3").rmdir()
    identities.add(identity())
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 4711)
    assert len({*identities, identity()}) == 6
