"""Runs of commands: the real hyperfine and its hooks, untimed runs, several clients, discarded runs."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from project import HANGING_S, needs, wait_for
from vcsbench import processes
from vcsbench.errors import ProgramError, UserError
from vcsbench.kernel import read
from vcsbench.measure import launcher
from vcsbench.measure.discarded_run import DISCARDED_RUN_S, DiscardedRun
from vcsbench.measure.run_evidence import EvidenceCollector
from vcsbench.measure.runs import Hyperfine, Invocation, read_export
from vcsbench.measure.server import Svnserve
from vcsbench.measure.syscalls import trace_command
from vcsbench.measure.untimed_runs import (
    ExitTracer,
    capture,
    find_mapped_files,
    find_subversion_libraries,
    trace_mapped_files,
)
from vcsbench.measure.work import UrlNormaliser, read_stdout
from vcsbench.run import cell
from vcsbench.subjects import Subject

MIB = 1 << 20
BLOCK = 4096
REMEDY = "Correct what this names, or the command (`commands` in config/studies/mine.yaml)."
EAT = "a = bytearray({0} << 20)\na[::4096] = b'x' * len(a[::4096])\n"


def wait_for_end(argv):
    """Wait until no process has this command line. A killed process takes a moment to go."""
    wait_for(lambda: argv not in map(processes.command_line, processes.all_pids()))


def time_runs(folder, answer, *argv, stdin="", limit_s=HANGING_S):
    hyperfine = Hyperfine(folder, answer)
    with open(os.devnull) as lock:
        output = hyperfine.run(Invocation(argv, stdin, os.environ, limit_s), 2, lock.fileno())
    assert output is None
    return hyperfine


@needs("hyperfine")
def test_hyperfine_calls_hooks_and_reads_input(tmp_path):
    calls = []
    folder = tmp_path / "with 'quotes' and spaces"
    folder.mkdir()
    (folder / "input").write_text("text")
    command = f'read line; [ "$line" = text ] && exit 3; echo "$line" > "{tmp_path}/read"'
    timed = time_runs(folder, calls.append, "sh", "-c", command, stdin=str(folder / "input"))
    assert calls == ["setup", "prepare", "prepare", "cleanup"]
    assert [run.exit_code for run in read_export(timed.export)] == [3, 3]
    assert timed.seconds > timed.hooks_s > 0


@needs("hyperfine")
def test_hyperfine_error_of_a_hook_is_raised(tmp_path):
    def answer(name):
        if name == "prepare":
            raise UserError("no server")

    with pytest.raises(UserError, match="no server"):
        time_runs(tmp_path, answer, "true")


@needs("hyperfine")
def test_hyperfine_run_over_limit_is_ended_with_its_children(tmp_path):
    with pytest.raises(UserError, match=r"0\.3 s"):
        time_runs(tmp_path, lambda _: None, "sleep", "3601.75", limit_s=0.3)
    wait_for_end(["sleep", "3601.75"])


def test_hyperfine_under_any_umask_has_pipes_for_its_user_alone(tmp_path):
    before = os.umask(0)
    try:
        hooks = Hyperfine(tmp_path, lambda _: None).hooks
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (hooks, *hooks.iterdir())}
    assert modes == {"hooks": 0o700, "ask": 0o600, "answer": 0o600}


def evidence_of_runs(folder, *argv):
    folder.mkdir()
    collector = EvidenceCollector(None, None, None, "")

    collected = []

    def answer(name):
        if evidence := collector.end(hyperfine.pid):
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
        assert len({*(starts := [run["started_at"] for run in runs])}) == 3 and starts == sorted(
            starts
        )
    (few_bytes, few_calls), (many_bytes, many_calls) = counts
    assert many_bytes - few_bytes == 500 * BLOCK
    assert many_calls - few_calls == 500
    assert few_bytes - 100 * BLOCK < 64 * 1024 and few_calls - 100 < 100


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


def test_evidence_has_cpu_time_of_ended_children_unless_ticks_distort_it():
    argv, pipe = [sys.executable, "-c", SERVES], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, bufsize=1) as process:
        server = Svnserve(Path(), Path(), Path())
        server.process = process
        collector = EvidenceCollector(None, None, server, "")
        seen = []
        for line in ("0.03", "0.03 fork", "0.4 fork"):
            collector.begin(os.getpid(), is_timed=True)
            process.stdin.write(f"{line}\n")
            process.stdout.readline()
            seen.append(collector.end(os.getpid())["server_cpu_s"])
        process.stdin.close()
    own, of_short_child, of_long_child = seen
    assert own == pytest.approx(0.03, abs=0.02) and of_short_child is None
    assert of_long_child == pytest.approx(0.4, rel=0.1)


def run_capture(folder, *argv, limit_s=HANGING_S):
    urls = UrlNormaliser("file:///nowhere")
    began = time.monotonic()
    try:
        command = Invocation(argv, "", os.environ, limit_s)
        return capture(command, lambda output: read_stdout(output, urls), folder / "log")
    finally:
        assert time.monotonic() - began < HANGING_S


def test_capture_counts_io_before_the_end_and_without_tracing_not_at_all(tmp_path, monkeypatch):
    def read_like_ordinary_user(path, *arguments):
        """The counts of an ended process belong to root."""
        has_ended = str(path).endswith("/io") and "State:\tZ" in read(
            path.replace("/io", "/status")
        )
        return "" if has_ended else read(path, *arguments)

    monkeypatch.setattr(processes, "read", read_like_ordinary_user)
    argv = ("head", "-c", "20000", "/dev/zero")
    assert run_capture(tmp_path, *argv).io["wchar"] == 20000
    monkeypatch.setattr("vcsbench.measure.untimed_runs._ptrace", lambda *_: False)
    assert {*run_capture(tmp_path, *argv).io.values()} == {None}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ProgramError("svn exits with 1: E170013: No host."), f"No host. {REMEDY}"),
        (ProgramError("svn exits with 1: No space left on device"), "1: No space left on device"),
        (UserError("x.yaml: is no file. Write it."), "x.yaml: is no file. Write it."),
    ],
)
def test_run_job_failed_program_names_the_study_to_correct(
    tmp_path, monkeypatch, capsys, error, expected
):
    def job(_: object) -> None:
        raise error

    monkeypatch.setattr(cell, "isolate_network", lambda _: None)
    monkeypatch.setattr(cell, "exit_on_signals", lambda: None)
    monkeypatch.setattr(cell, "stop_workflow", lambda root: None)
    monkeypatch.setattr(cell, "writes_apart", lambda *_: True)
    assert cell.run_job(tmp_path, json.dumps({"study": "mine"}), job) == 1
    assert capsys.readouterr().err.strip().endswith(expected)


def run_traced(folder, *argv):
    """Run a command, or skip the test where nothing can be traced."""
    captured = run_capture(folder, *argv)
    if captured.peak_bytes is None:
        pytest.skip("this system allows no tracing")
    return captured


def test_capture_failed_command_raises_with_its_error(tmp_path):
    with pytest.raises(UserError, match=r" 2: .*no-such-file"):
        run_capture(tmp_path, "ls", "/no-such-file")


# A command of a group, and of a session of its own.
STARTS = pytest.mark.parametrize("start", ["", "setsid "], ids=["group", "session"])


@STARTS
def test_capture_does_not_wait_for_a_child_that_holds_the_output(tmp_path, start):
    captured = run_capture(tmp_path, "sh", "-c", f"{start}sleep 3603.25 & echo done")
    assert captured.work["bytes"] == len("done\n")
    wait_for_end(["sleep", "3603.25"])


def test_capture_child_in_another_session_stays_and_is_not_awaited(tmp_path, monkeypatch):
    monkeypatch.setattr("vcsbench.measure.untimed_runs.TRACER_LIMIT_S", 0.1)
    monkeypatch.chdir(tmp_path)
    child = "setsid sleep 3601.5 >/dev/null 2>&1 & echo $! >pid; echo done"
    assert run_capture(tmp_path, "sh", "-c", child).work["bytes"] == len("done\n")
    os.kill(int(Path("pid").read_text()), signal.SIGKILL)


@STARTS
def test_capture_over_time_limit_ends_the_command_and_its_children(tmp_path, start):
    with pytest.raises(UserError, match=r" 0\.2 s .*time_limit_s"):
        run_capture(tmp_path, "sh", "-c", f"{start}sleep 3601.25; true", limit_s=0.2)
    wait_for_end(["sleep", "3601.25"])


@STARTS
def test_capture_interrupted_ends_the_command_and_its_children(tmp_path, start):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_capture(tmp_path, "sh", "-c", f"{start}sleep 3602.75; true")
    finally:
        signal.signal(signal.SIGALRM, before)
    wait_for_end(["sleep", "3602.75"])


@needs("svn")
def test_capture_has_libraries_of_wrapped_program(tmp_path):
    captured = run_traced(tmp_path, "sh", "-c", "sleep 0.2; svn --version --quiet")
    assert captured.mapped and len(set(captured.mapped)) == len(captured.mapped)
    names = {os.path.basename(path).partition(".")[0] for path in captured.mapped}
    assert {"svn", "libsvn_client-1", "libapr-1", "libsqlite3", "libc"} <= names
    assert all(map(os.path.isfile, captured.mapped))
    libraries = find_subversion_libraries(captured.mapped)
    assert libraries and all("/libsvn_" in path for path in libraries)


def test_files_of_a_failing_client_are_those_of_its_traced_run(tmp_path):
    traced = run_traced(tmp_path, "svn", "--version", "--quiet").mapped
    assert traced
    # Exports fail like this if the output of the timed run still exists.
    assert trace_mapped_files(["svn", "info", "/no/such/folder"], os.environ) == traced


def test_mapped_files_are_programs_and_libraries_only():
    maps = """\
55d0-55d1 r--p 00000000 fe:00 1051 /usr/bin/svn
55d1-55d2 r-xp 00001000 fe:00 1051 /usr/bin/svn
7f00-7f01 r-xp 00001000 fe:00 1052 /opt/a b/libapr-1.so.0 (deleted)
7f01-7f02 rw-s 00000000 fe:00 1053 /srv/wc.db-shm
7f02-7f03 r-xp 00000000 00:00 0 [vdso]
7f03-7f04 rwxp 00000000 00:00 0
"""
    assert find_mapped_files(maps) == ["/opt/a b/libapr-1.so.0 (deleted)", "/usr/bin/svn"]
    assert find_mapped_files("") is None


@pytest.mark.parametrize(
    ("argv", "peak_mib"),
    [
        ([sys.executable, "-c", EAT.format(100) + "del a"], 100),
        (["sh", "-c", f"sleep 0.2; '{sys.executable}' -c \"$0\"; exit", EAT.format(60)], 60),
    ],
    ids=["freed memory", "child"],
)
def test_capture_peak_is_largest_of_all(tmp_path, argv, peak_mib):
    captured = run_traced(tmp_path, *argv)
    assert peak_mib * MIB < (captured.peak_bytes or 0) < (peak_mib + 40) * MIB


# Freeing many small pages takes long enough to attach in the middle of an exit.
EXITING = """
import mmap, os
held = mmap.mmap(-1, 400 << 20)
held.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(held), mmap.PAGESIZE):
    held[at] = 1
os._exit(3)
"""


def test_exit_tracer_exiting_program_is_left_to_its_parent():
    with subprocess.Popen([sys.executable, "-c", EXITING]) as process:
        while read(f"/proc/{process.pid}/maps"):
            pass
        tracer = ExitTracer(process.pid)
        tracer.join(20)
        assert not tracer.is_alive()
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert status and status.si_status == 3
        assert process.wait() == 3


# Several clients at once


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


def test_launcher_missing_program_is_named(tmp_path):
    done, _ = launch(tmp_path, 2, "/nowhere/svn")
    assert done.returncode == 127
    assert f"/nowhere/svn: {os.strerror(errno.ENOENT)}" in done.stderr


# The cache of discarded runs


READ_BYTES = 4096


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("storage", "copy1", "copy2"):
        (tmp_path / name).mkdir()
    return {"argv": "{svn} log {url}", "stdin": "", "storage": {"path": str(tmp_path / "storage")}}


def cache_of(recipe, copy="copy1", **other):
    subject = Subject(recipe, 1, Path(), Path.cwd())
    subject.folders = [Path(recipe["storage"]["path"]).parent / copy]
    return DiscardedRun(recipe | other, subject, Path.cwd())


def test_discarded_run_is_stored_per_command_and_copy_until_it_expires(recipe, tmp_path):
    cache = cache_of(recipe)
    assert cache.read() is None
    cache.write(READ_BYTES)
    assert cache_of(recipe).read() == READ_BYTES
    others = (cache_of(recipe, "copy2"), cache_of(recipe, argv="{svn} export {url}"))
    for other in (*others, cache_of(recipe, "gone"), DiscardedRun(recipe, None, Path.cwd())):
        assert other.read() is None
    cache.file.write_bytes(b"")
    assert cache.read() is None
    cache.write(READ_BYTES)
    expired = time.time() - DISCARDED_RUN_S - 1
    os.utime(cache.file, (expired, expired))
    assert cache.read() is None
    cache.renew()
    assert cache.read() == READ_BYTES
    (tmp_path / "copy1").rename(tmp_path / "old")
    (tmp_path / "copy1").mkdir()
    assert cache_of(recipe).read() is None
