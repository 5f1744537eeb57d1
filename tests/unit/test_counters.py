"""Counters of processes and of the machine, and the end of processes."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from project import mounted_ext4, needs_root, open_folder, wait_for
from vcsbench import process_facts, processes
from vcsbench.measure import counters

MIB = 1 << 20
BURN = "import time\nwhile time.process_time() < 0.3: pass"


def test_usage_includes_ended_children(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 5 * MIB)
    before = process_facts.usage([os.getpid()])
    subprocess.run(["cat", tmp_path / "file"], stdout=subprocess.DEVNULL, check=True)
    subprocess.run([sys.executable, "-c", BURN], check=True)
    used = process_facts.usage([os.getpid()])
    # Both values are whole ticks, so up to two may be missing.
    assert 0.28 <= used.cpu_s - before.cpu_s < 3 and used.rchar - before.rchar >= 5 * MIB
    assert process_facts.ended_children_faults([os.getpid()]) > 0


def test_usage_unreadable_counts_are_missing(monkeypatch):
    with subprocess.Popen(["sleep", "3600"]) as process:
        pids = [os.getpid(), process.pid]
        assert None not in process_facts.usage(pids)
        unreadable = f"/proc/{process.pid}/io"
        read = process_facts.read
        monkeypatch.setattr(
            process_facts, "read", lambda path, *_: "" if path == unreadable else read(path)
        )
        used = process_facts.usage(pids)
        process.kill()
    assert used.cpu_s is not None and {*used[1:]} == {None}
    # It has ended.
    assert {*process_facts.usage([process.pid])} == {None}
    assert process_facts.peak_memory_bytes(process.pid) is None


def test_usage_includes_running_descendants():
    child = f"{BURN}\nprint(1, flush=True)\ninput()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    argv, pipe = [sys.executable, "-c", program], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as process:
        process.stdout.readline()
        assert 0.3 <= process_facts.usage(process_facts.family(process.pid)).cpu_s < 3
        process.communicate(b"\n")


def test_family_has_children_of_other_threads():
    started, done = [], threading.Event()
    thread = threading.Thread(
        target=lambda: (started.append(subprocess.Popen(["sleep", "3600"])), done.wait())
    )
    thread.start()
    try:
        wait_for(lambda: started)
        assert started[0].pid in process_facts.family(os.getpid())
    finally:
        done.set()
        thread.join()
        started[0].kill()
        started[0].wait()


# On SIGTERM, it waits for its child, which ignores SIGTERM.
WAITS = """
(trap '' TERM; echo started; while :; do sleep 60; done) &
trap 'wait $!; exit 0' TERM
while :; do wait $!; done
"""


def test_end_kills_children_that_ignore_sigterm():
    with subprocess.Popen(["sh", "-c", WAITS], stdout=subprocess.PIPE) as server:
        assert server.stdout and server.stdout.readline() == b"started\n"
        children = process_facts.family(server.pid)[1:]
        assert children
        processes.end(server)
        assert server.returncode != -signal.SIGKILL
    assert not any(process_facts.command_line(pid) for pid in children)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "exits with 1"),
        # git has this code after a wrong option.
        (129, "exits with 129"),
        (-1, "was ended by SIGHUP"),
        (143, "was ended by SIGTERM"),
        (None, "was ended by a signal"),
    ],
)
def test_end_of_a_program_is_an_exit_code_or_a_signal(code, text):
    assert processes.how_it_ended(code) == text


@pytest.fixture
def disk_folder(folder):
    """A folder on a disk whose use can be read."""
    if counters.read_device_use(folder).read_bytes is None:
        pytest.skip("the device of /var/tmp cannot be seen here")
    return folder


def test_device_use_of_memory_and_a_disk_is_that_of_the_disk(disk_folder):
    with open_folder("/dev/shm") as memory:
        assert counters.read_device_use(memory) == counters.DeviceUse()
        alone = counters.read_device_use(disk_folder)
        both = counters.read_device_use(memory, disk_folder)
        assert both.read_bytes >= alone.read_bytes and both.write_bytes >= alone.write_bytes
        # A command that writes to memory only.
        read_only = counters.read_device_use(memory, disk_folder, written=[memory])
        assert read_only.read_bytes >= both.read_bytes and read_only.reads >= both.reads
        assert (read_only.write_bytes, read_only.flushes) == (None, None)


@needs_root
def test_device_use_counts_the_bytes_of_an_image_on_a_counted_disk_once(disk_folder):
    with mounted_ext4(disk_folder / "image", disk_folder / "mount", 64) as inside:
        before = counters.read_device_use(disk_folder)
        both = counters.read_device_use(disk_folder, inside)
        after = counters.read_device_use(disk_folder)
        image_alone = counters.read_device_use(inside)
    for first, count, last in zip(before, both, after, strict=True):
        # Flushes of some disks are not counted.
        assert first is None or first <= count <= last
    assert image_alone.read_bytes > 0


NO_DEVICES = counters.CountedDevices()


def test_counters_delayed_acks_are_counted():
    # An answer carries the acknowledgement. Without an answer, TCP delays it by 40 ms.
    before = counters.read_counters(NO_DEVICES)
    if before.delayed_acks is None:
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
    assert counters.read_counters(NO_DEVICES).delayed_acks - before.delayed_acks >= 3


def test_counters_wire_bytes_count_each_byte_on_loopback_once():
    before = counters.read_counters(NO_DEVICES)
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
        listening.accept()[0] as server,
    ):
        sender = threading.Thread(target=client.sendall, args=(bytes(MIB),))
        sender.start()
        received = 0
        while received < MIB:
            received += len(server.recv(1 << 16))
        sender.join()
    events = counters.count_events(before, counters.read_counters(NO_DEVICES))
    # Other programs may use the network of this machine.
    assert events["wire_bytes"] >= MIB


def test_wire_bytes_are_sums_of_received_and_sent_ones_but_of_loopback(monkeypatch):
    text = "Inter-|   Receive\n face |bytes\n    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n"
    text += "  line: 20 1 0 0 0 0 0 0 3 1 0 0 0 0 0 0\n"
    monkeypatch.setattr(counters, "read", lambda path: text)
    assert counters._read_wire_bytes() == 123
    monkeypatch.setattr(counters, "read", lambda path: "")
    assert counters._read_wire_bytes() is None
