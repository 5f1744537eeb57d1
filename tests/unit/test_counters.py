"""Processes, and counters of them, of the machine and of network file systems.

Page faults stand for instructions, which not every machine counts: both are opened, inherited and read in the
same way.
"""

import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from project import needs, wait_for
from unit.test_runs import evidence_of_runs
from vcsbench import processes
from vcsbench.measure import counters, instructions, network_output
from vcsbench.measure.run_evidence import binary_of
from vcsbench.storages.filesystems import Mount

MIB = 1 << 20
PAGE_FAULTS = (1, 2)
BURN = "import time\nwhile time.process_time() < 0.3: pass"
# Touches this number of pages, one after another.
TOUCH = """
import mmap, sys
memory = mmap.mmap(-1, 4096 * int(sys.argv[1]))
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(int(sys.argv[1])):
    memory[page * 4096] = 1
"""


def test_usage_includes_ended_children(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 5 * MIB)
    before = processes.usage([os.getpid()])
    subprocess.run(["cat", tmp_path / "file"], stdout=subprocess.DEVNULL, check=True)
    subprocess.run([sys.executable, "-c", BURN], check=True)
    used = processes.usage([os.getpid()])
    # Both values are whole ticks, so up to two may be missing.
    assert 0.28 <= used.cpu_s - before.cpu_s < 3 and used.rchar - before.rchar >= 5 * MIB
    assert processes.ended_children_faults([os.getpid()]) > 0


def test_usage_unreadable_counts_are_missing(monkeypatch):
    with subprocess.Popen(["sleep", "3600"]) as process:
        pids = [os.getpid(), process.pid]
        assert None not in processes.usage(pids)
        unreadable = f"/proc/{process.pid}/io"
        read = processes.read
        monkeypatch.setattr(
            processes, "read", lambda path, *_: "" if path == unreadable else read(path)
        )
        used = processes.usage(pids)
        process.kill()
    assert used.cpu_s is not None and {*used[1:]} == {None}
    # It has ended.
    assert {*processes.usage([process.pid])} == {None}
    assert processes.peak_memory_bytes(process.pid) is None


def test_usage_includes_running_descendants():
    child = f"{BURN}\nprint(1, flush=True)\ninput()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    argv, pipe = [sys.executable, "-c", program], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as process:
        process.stdout.readline()
        assert 0.3 <= processes.usage(processes.family(process.pid)).cpu_s < 3
        process.communicate(b"\n")


def test_family_has_children_of_other_threads():
    started, done = [], threading.Event()
    thread = threading.Thread(
        target=lambda: (started.append(subprocess.Popen(["sleep", "3600"])), done.wait())
    )
    thread.start()
    try:
        wait_for(lambda: started)
        assert started[0].pid in processes.family(os.getpid())
    finally:
        done.set()
        thread.join()
        started[0].kill()
        started[0].wait()


def test_instruction_counter_that_was_shared_is_unknown():
    reading, writing = os.pipe()
    os.write(writing, b"".join(n.to_bytes(8, sys.byteorder) for n in (1000, 20, 10)))
    os.close(writing)
    counter = instructions.InstructionCounter([])
    counter.events = [reading]
    assert counter.end() is None


# On SIGTERM, it waits for its child, which ignores SIGTERM.
WAITS = """
(trap '' TERM; echo started; while :; do sleep 60; done) &
trap 'wait $!; exit 0' TERM
while :; do wait $!; done
"""


def test_end_kills_children_that_ignore_sigterm():
    with subprocess.Popen(["sh", "-c", WAITS], stdout=subprocess.PIPE) as server:
        assert server.stdout and server.stdout.readline() == b"started\n"
        children = processes.family(server.pid)[1:]
        assert children
        processes.end(server)
        assert server.returncode != -signal.SIGKILL
    assert not any(processes.command_line(pid) for pid in children)


def test_counters_delayed_acks_are_counted(tmp_path):
    """An answer carries the acknowledgement; without an answer, TCP delays it by 40 ms."""
    before = counters.read_counters(tmp_path)
    if before["delayed_acks"] is None:
        pytest.skip("the kernel does not count delayed acknowledgements")
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
        listening.accept()[0] as server,
    ):
        for _ in range(3):
            for _ in range(20):
                client.sendall(b"?")
                server.sendall(server.recv(1))
                client.recv(1)
            client.sendall(b"?")
            server.recv(1)
            time.sleep(0.1)
    assert counters.counters_between(before, counters.read_counters(tmp_path))["delayed_acks"] >= 3


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.setattr(instructions, "EVENT", PAGE_FAULTS)
    instructions.why_no_instructions.cache_clear()
    if instructions.why_no_instructions():
        pytest.skip(f"here {instructions.why_no_instructions()}")
    yield
    instructions.why_no_instructions.cache_clear()


def run_touch(pages):
    subprocess.run([sys.executable, "-c", TOUCH, str(pages)], check=True)


def test_count_instructions_separates_sides_and_closes_counters(faults):
    before = len(os.listdir("/proc/self/fd"))
    clients = []
    with subprocess.Popen(["sleep", "3600"]) as server:
        for pages in (1000, 5000):
            sides = instructions.count_instructions(
                {"client": [os.getpid()], "server": [server.pid]}
            )
            run_touch(pages)
            counts = {side: counter.end() for side, counter in sides.items()}
            clients.append(counts["client"] or 0)
            assert counts["server"] is not None and counts["server"] < 200
        server.kill()
    # The faults of the interpreter itself differ slightly between two starts.
    assert clients[1] - clients[0] == pytest.approx(4000, abs=200)
    assert len(os.listdir("/proc/self/fd")) == before


@needs("hyperfine")
def test_instructions_of_a_run_are_without_those_of_hooks(faults, tmp_path):
    runs = evidence_of_runs(tmp_path / "runs", sys.executable, "-c", TOUCH, "1000")
    counts = instructions.count_instructions({"client": [os.getpid()]})
    run_touch(1000)
    alone = counts["client"].end()
    # The start of a hook's shell alone takes some 60.
    assert alone and len(runs) == 3
    assert [run["client_instructions"] for run in runs] == pytest.approx([alone] * 3, abs=25)


STATISTICS = r"""device proc mounted on /proc with fstype proc
device 127.0.0.1:/a mounted on /mnt/other with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.2
	bytes:	1 2 3 4 5 6 7 8
device 127.0.0.1:/b mounted on /mnt/with\040space with fstype nfs4 statvers=1.1
	bytes:	10 20 4096 40 50 60 25 80
	RPC iostats version: 1.1
"""


def mount(kind="nfs4", address="127.0.0.1"):
    return Mount("127.0.0.1:/b", "/mnt/with space", kind, f"rw,vers=4.2,addr={address}")


@pytest.fixture
def nfs(tmp_path, monkeypatch):
    """Write the two files of the kernel and replace the mount of each path."""
    (tmp_path / "mountstats").write_text(STATISTICS)
    (tmp_path / "a folder").mkdir()
    folder = str(tmp_path / "a folder").replace(" ", "\\040")
    (tmp_path / "exports").write_text(
        f"# Version 1.1\n/\t127.0.0.1(ro,v4root)\n{folder}\t127.0.0.1(rw)\n"
    )
    monkeypatch.setattr(network_output, "MOUNT_STATISTICS", str(tmp_path / "mountstats"))
    monkeypatch.setattr(network_output, "EXPORTS", str(tmp_path / "exports"))
    monkeypatch.setattr(network_output, "mount_of", lambda path: mount())
    return tmp_path


def test_network_output_reads_pages_and_direct_bytes_of_its_own_mount(nfs):
    network = network_output.network_output([nfs], [nfs])
    assert network and network.has_input and network.storage == (nfs / "a folder",)
    assert network.counts()["network_read_bytes"] == 4096 + 25 * mmap.PAGESIZE
    assert network_output.network_output([nfs], []) is None


@pytest.mark.parametrize(
    ("kind", "address", "is_here"),
    [
        ("nfs4", "127.0.0.1", True),
        ("nfs", "::1", True),
        *(("nfs4", "192.0.2.1", False), ("nfs4", "", False)),
        ("cifs", "127.0.0.1", False),
        ("ext4", "", None),
    ],
)
def test_network_output_has_disk_of_local_server_only(nfs, monkeypatch, kind, address, is_here):
    monkeypatch.setattr(network_output, "mount_of", lambda path: mount(kind, address))
    network = network_output.network_output([], [nfs])
    assert (network and bool(network.storage)) is is_here
    if network and not is_here:
        assert not network.has_input and network.counts()["network_storage_read_bytes"] is None


def test_binary_of_program_replaced_between_starts_is_the_new_one(tmp_path):
    program, seen = tmp_path / "program", []
    for tool in ("sleep", "tail"):
        program.unlink(missing_ok=True)
        shutil.copy(f"/usr/bin/{tool}", program)
        with subprocess.Popen([program, "-f" if tool == "tail" else "60"]) as process:
            wait_for(lambda: processes.command_line(process.pid)[:1] == [str(program)])
            seen.append(binary_of(process.pid))
            if tool == "tail":
                program.unlink()
                assert binary_of(process.pid) == ""
            process.kill()
    assert all(of.startswith(f"{program} sha256:") for of in seen) and seen[0] != seen[1]
