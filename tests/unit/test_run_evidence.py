"""The evidence of real runs: bytes, calls, CPU time and instructions.

Page faults stand for instructions, which not every machine counts: both are opened, inherited and read in the
same way.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from project import mounted, needs, needs_root, open_folder, wait_for
from vcsbench import process_facts
from vcsbench.measure import instructions
from vcsbench.measure.counters import read_device_use
from vcsbench.measure.run_evidence import EvidenceCollector, describe_binary
from vcsbench.measure.runs import Hyperfine, Invocation
from vcsbench.measure.server import Svnserve
from vcsbench.measure.server_group import ServerGroup
from vcsbench.measure.syscalls import trace_command
from vcsbench.subjects import Subject

BLOCK = 4096
PAGE_FAULTS = (1, 2)
# Touches this number of pages, one after another.
TOUCH = """
import mmap, sys
memory = mmap.mmap(-1, 4096 * int(sys.argv[1]))
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(int(sys.argv[1])):
    memory[page * 4096] = 1
"""


def evidence_of_runs(folder, *argv):
    """Return the evidence of three runs of a command."""
    folder.mkdir()
    collector = EvidenceCollector(None, None, None, "")
    collected = []

    def answer(name):
        evidence = collector.end(hyperfine.pid)
        if evidence:
            collected.append(evidence)
        if name == "setup":
            collector.begin_hook(hyperfine.pid)
        if name == "prepare":
            collector.begin(hyperfine.pid, is_timed=True)

    hyperfine = Hyperfine(folder, answer)
    with open(os.devnull) as lock:
        assert hyperfine.run(Invocation(argv, "", os.environ, 60), 3, lock.fileno()) is None
    return collected


@needs("hyperfine", "strace")
def test_evidence_counts_bytes_and_calls_exactly_in_each_run(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"x" * BLOCK * 700)
    counts = []
    for blocks in (100, 600):
        argv = [f"if={file}", "of=/dev/null", f"bs={BLOCK}", f"count={blocks}", "status=none"]
        runs = evidence_of_runs(tmp_path / str(blocks), "dd", *argv)
        # Next to the command, only the end of the hook's shell and the start of the command count.
        own_calls = trace_command(Invocation(["dd", *argv], "", os.environ, 60))["reads"]
        assert len(runs) == 3 and 0 <= runs[0]["client_syscr"] - own_calls < 14
        ((rchar, syscr),) = {(run["client_rchar"], run["client_syscr"]) for run in runs}
        counts.append((rchar, syscr))
        assert ("client_instructions" in runs[0]) != bool(runs[0]["instructions_why_not"])
        starts = [run["started_at"] for run in runs]
        assert starts == sorted(set(starts))
        # Other programs use the network of this machine, so its traffic is not the cell's.
        assert [run["wire_bytes"] for run in runs] == [None, None, None]
    (few_bytes, few_calls), (many_bytes, many_calls) = counts
    assert many_bytes - few_bytes == 500 * BLOCK
    assert many_calls - few_calls == 500
    assert few_bytes - 100 * BLOCK < 64 * 1024 and few_calls - 100 < 100


def subject_at(path):
    subject = Subject({}, 1, path, path)
    subject.folders = [path]
    return subject


@pytest.fixture
def disk_folder(folder):
    """A folder on a disk whose use can be read."""
    if read_device_use(folder).read_bytes is None:
        pytest.skip("the device of /var/tmp cannot be seen here")
    return folder


@needs_root
def test_evidence_counts_the_same_devices_before_and_after_a_run(disk_folder):
    output = disk_folder / "new"
    collector = EvidenceCollector(None, subject_at(output), None, "")
    collector.begin(os.getpid(), is_timed=True)
    # The output that the run makes is on another device, here on none.
    with mounted(output):
        evidence = collector.end(os.getpid())
    assert evidence["device_write_bytes"] >= 0 and evidence["device_reads"] >= 0


@pytest.mark.parametrize("writes_to_disk", [True, False])
def test_evidence_counts_the_disk_next_to_a_subject_in_memory(disk_folder, writes_to_disk):
    with open_folder("/dev/shm") as memory:
        # A load from RAM to a disk, or an export from a disk to RAM. The output does not exist yet.
        read, above = (memory, disk_folder) if writes_to_disk else (disk_folder, memory)
        collector = EvidenceCollector(subject_at(read), subject_at(above / "new"), None, "")
        collector.begin(os.getpid(), is_timed=True)
        evidence = collector.end(os.getpid())
    assert evidence["device_read_bytes"] is not None and evidence["device_reads"] is not None
    # An export to RAM writes to no disk.
    assert (evidence["device_write_bytes"] is not None) is writes_to_disk
    assert writes_to_disk or evidence["device_flushes"] is None


def test_evidence_of_a_checked_input_has_the_bytes_that_a_run_loads(disk_folder):
    file = disk_folder / "file"
    file.write_bytes(b"x" * 64 * BLOCK)
    os.sync()
    subject = subject_at(disk_folder)
    subject.size = 64 * BLOCK
    collector = EvidenceCollector(subject, None, None, "", checks_input=True)
    if not collector.checks_input:
        pytest.skip("this kernel or file system does not report the names it knows")
    descriptor = os.open(file, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    loaded = []
    for _ in range(2):
        collector.begin(os.getpid(), is_timed=True)
        file.read_bytes()
        loaded.append(collector.end(os.getpid())["input_loaded_bytes"])
    # The second run finds them in memory.
    assert loaded == [64 * BLOCK, 0]
    # Files that a run leaves in its input are in memory without a read.
    subject.gets_traces = True
    assert not EvidenceCollector(subject, None, None, "", checks_input=True).checks_input


def test_scheduling_of_client_and_server_is_read_before_each_timed_run():
    """hyperfine may be a wrapper, and somebody may change the priority of the server."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    client = subprocess.Popen(["nice", "-n", "3", "sleep", "3600"])
    process = subprocess.Popen(["sleep", "3600"])
    try:
        wait_for(lambda: process_facts.command_line(client.pid)[:1] == ["sleep"])
        server = Svnserve(Path(), Path(), Path())
        server.process = process
        collector = EvidenceCollector(None, None, server, "")
        for niceness in (own, own + 1):
            os.setpriority(os.PRIO_PROCESS, process.pid, niceness)
            collector.begin(client.pid, is_timed=True)
            collector.end(client.pid)
    finally:
        for started in (client, process):
            started.kill()
            started.wait()
    others = f"scheduler 0, processors {' '.join(map(str, sorted(os.sched_getaffinity(0))))}"
    assert collector.client_scheduling == {f"nice {own + 3}, {others}"}
    assert collector.server_scheduling == {f"nice {own}, {others}", f"nice {own + 1}, {others}"}
    assert process_facts.read_scheduling([client.pid]) == set()


# For each line, it computes for so many seconds, in a child if there is a second word.
SERVES = """
import os, sys, time
for line in sys.stdin:
    seconds, *forks = line.split()
    pid = os.fork() if forks else 0
    if not pid:
        end = time.process_time() + float(seconds)
        while time.process_time() < end: pass
    if forks:
        os.wait() if pid else os._exit(0)
    print(flush=True)
"""


def collect_server_evidence(lines, group=None):
    """Return the evidence of a server's runs: one for each line that SERVES gets."""
    argv, pipe = [sys.executable, "-c", SERVES], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, bufsize=1) as process:
        server = Svnserve(Path(), Path(), Path())
        server.process = process
        collector = EvidenceCollector(None, None, server, "", group=group)
        collected = []
        for line in lines:
            collector.begin(os.getpid(), is_timed=True)
            process.stdin.write(f"{line}\n")
            process.stdout.readline()
            collected.append(collector.end(os.getpid()))
        process.stdin.close()
    return collected


def test_evidence_of_ended_children_has_cpu_time_unless_ticks_distort_it_and_no_peak_memory():
    runs = collect_server_evidence(("0.03", "0.03 fork", "0.4 fork"))
    own_s, short_child_s, long_child_s = (run["server_cpu_s"] for run in runs)
    assert own_s == pytest.approx(0.03, abs=0.02) and short_child_s is None
    assert long_child_s == pytest.approx(0.4, rel=0.1)
    own_peak, *peaks_with_children = (run["server_peak_memory_bytes"] for run in runs)
    assert own_peak > 1 << 20 and peaks_with_children == [None, None]


@pytest.fixture
def group():
    group = ServerGroup()
    if group.cpu_s() is None:
        pytest.skip("here, no control group of version 2 without controllers can be made")
    yield group
    group.close()


def test_evidence_with_control_group_has_short_cpu_times_of_ended_children(group):
    lines = ("0.03", "0.03 fork", "0.003 fork", "0.003 fork")
    runs = collect_server_evidence(lines, group)
    own_s, child_s, *short_s = (run["server_cpu_s"] for run in runs)
    assert own_s == pytest.approx(0.03, abs=0.02) and child_s == pytest.approx(0.03, abs=0.02)
    # Less than a tick of 0.01 s, and not the 0 of the kernel's ticks.
    assert all(0.003 <= seconds < 0.02 for seconds in short_s)


def test_server_group_of_a_killed_process_is_removed(group):
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = group._folder.with_name(f"vcsbench-server-{ended.pid}")
    left.mkdir()
    live = group._folder.with_name("vcsbench-server-1")
    live.mkdir()
    ServerGroup().close()
    assert not left.exists() and live.exists()
    live.rmdir()


def test_server_group_without_right_counts_nothing(monkeypatch):
    monkeypatch.setattr("vcsbench.measure.server_group.groups", lambda controller: ())
    group = ServerGroup()
    group.add(os.getpid())
    assert group.cpu_s() is None


@needs("svn", "svnadmin", "svnserve")
def test_evidence_of_forking_svnserve_has_its_cpu_time_and_no_peak_memory(folder, group):
    files = folder / "files"
    for path in (folder / "run", folder / "root", files):
        path.mkdir(mode=0o755)
    # Without --threads, svnserve starts a process for each connection.
    (files / "svnserve.args").write_text("")
    subprocess.run(["svnadmin", "create", folder / "root" / "one"], check=True)
    server = Svnserve(folder / "root", files, folder / "run")
    server.start()
    url = f"svn://127.0.0.1:{server.port}/one"
    collector = EvidenceCollector(None, None, server, "", group=group)
    try:
        collector.begin(os.getpid(), is_timed=True)
        ticks = process_facts.usage([server.pid]).cpu_s
        for _ in range(20):
            subprocess.run(["svn", "log", "-q", "--non-interactive", url], check=True)
        # The last process may end after its client.
        wait_for(lambda: len(process_facts.family(server.pid)) == 1)
        evidence = collector.end(os.getpid())
        ticks = process_facts.usage([server.pid]).cpu_s - ticks
    finally:
        server.close()
    assert evidence["server_same"] and evidence["server_processes_changed"]
    assert evidence["server_peak_memory_bytes"] is None
    # The kernel's count by ticks lacks up to two of 0.01 s.
    assert 0.005 < evidence["server_cpu_s"] == pytest.approx(ticks, abs=0.03)


def test_instruction_counter_that_was_shared_is_unknown():
    reading, writing = os.pipe()
    os.write(writing, b"".join(n.to_bytes(8, sys.byteorder) for n in (1000, 20, 10)))
    os.close(writing)
    counter = instructions.InstructionCounter([])
    counter.events = [reading]
    assert counter.end() is None


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
            pids = {"client": [os.getpid()], "server": [server.pid]}
            sides = instructions.count_instructions(pids)
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


def test_binary_of_program_replaced_between_starts_is_the_new_one(tmp_path):
    program, seen = tmp_path / "program", []
    for tool in ("sleep", "tail"):
        program.unlink(missing_ok=True)
        shutil.copy(f"/usr/bin/{tool}", program)
        with subprocess.Popen([program, "-f" if tool == "tail" else "60"]) as process:
            wait_for(lambda: process_facts.command_line(process.pid)[:1] == [str(program)])
            seen.append(describe_binary(process.pid))
            if tool == "tail":
                program.unlink()
                assert describe_binary(process.pid) == ""
            process.kill()
    assert all(of.startswith(f"{program} sha256:") for of in seen) and seen[0] != seen[1]
