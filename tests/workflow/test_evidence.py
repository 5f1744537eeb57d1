"""Evidence and flags of real runs: each fault is injected from outside the workflow."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from project import (
    DEFAULT,
    STUDY,
    invalid_flags,
    needs,
    ruby,
    run_merged,
    servers_of,
    slow,
    wait_for,
    write_program,
)
from unit.study_grid import merge
from vcsbench.config.validation import read_yaml
from vcsbench.evidence import same_work
from vcsbench.evidence.judgement import MAX_READ_KIB_HOT
from vcsbench.machine import can_drop_caches
from vcsbench.programs import Programs
from vcsbench.records import complete_context
from vcsbench.run.project import Project
from vcsbench.systems import SUBVERSION

pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches"),
]

SMALL = ruby(0.01)
PART = {"command": "log", "format": "f7", "packing": "nopack", "config": ["slow", "forking"]}
GIB = 1 << 30


class Bench:
    """A prepared project that measures a new round of a cell on each call."""

    def __init__(self, project):
        self.project = project
        self.rounds = 0
        self.bin = project.path / "bin"
        self.bin.mkdir()
        self.configure()
        project.prepare()

    def configure(self, **keys):
        access = ["svn", "file", *(["http"] if Programs().httpd else [])]
        self.project.configure({**PART, "access": access}, repositories=SMALL, rounds=99, **keys)

    def run(self, cells, **environment):
        """Measure one more round of each cell, with the programs of `bin`. Return the errors."""
        self.rounds += 1
        names = [f"cells/{STUDY}/log/{cell}/round{self.rounds}" for cell in cells]
        environment["PATH"] = f"{self.bin}:{os.environ['PATH']}"
        done = self.project.snakemake(*(f"results/{name}.json" for name in names), **environment)
        if not done.returncode:
            return ""
        logs = [self.project.path / f"results/logs/{name}.log" for name in names]
        return "".join([done.stdout, *(log.read_text() for log in logs if log.exists())])

    def measure_all(self, cells, **environment):
        """Measure one more round of each cell. Return the flags and the evidence of each."""
        errors = self.run(cells, **environment)
        assert not errors, errors
        runs = {cell: self.context(cell)["runs"][0] for cell in cells}
        return {cell: (run["flags"], run["evidence"]) for cell, run in runs.items()}

    def context(self, cell):
        return self.project.context(STUDY, f"log/{cell}", self.rounds)

    def measure(self, cell):
        return self.measure_all([cell])[cell]

    @property
    def repositories(self):
        return next(self.project.path.glob("storage/vcsbench-*/repositories"))

    def forget(self):
        """Remove the cache of discarded runs: the next cold cell discards a run first."""
        shutil.rmtree(self.repositories.parent / "discarded", ignore_errors=True)

    @contextlib.contextmanager
    def configured(self, **keys):
        self.configure(**keys)
        try:
            yield
        finally:
            self.configure()

    @contextlib.contextmanager
    def program(self, name, text):
        path = write_program(self.bin / name, text)
        try:
            yield
        finally:
            path.unlink()

    def hyperfine(self, change):
        """Return a context with a hyperfine that changes each `result` of its export."""
        real = shutil.which("hyperfine")
        text = HYPERFINE.format(python=sys.executable, hyperfine=real, change=change)
        return self.program("hyperfine", text)

    def client(self, body):
        """Return a context with a client that has an extra action. The file `count` grows with its runs."""
        count = self.project.path / "count"
        count.unlink(missing_ok=True)
        words = {"python": sys.executable, "svn": shutil.which("svn"), "count": str(count)}
        text = CLIENT.format(**words, empty=SUBVERSION.empty_name, body=body)
        return self.program("svn", text)


@pytest.fixture(scope="module")
def bench(shared_project):
    return Bench(shared_project)


SVN = "svn/ruby/f7/nopack/slow"
FILE = "file/ruby/f7/nopack/slow"
SERVED = [SVN, *(["http/ruby/f7/nopack/slow"] if Programs().httpd else [])]


@contextlib.contextmanager
def python(program, *arguments, **options):
    """Run a Python program in the background after its first line of output."""
    argv = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, **options) as started:
        try:
            assert started.stdout and started.stdout.readline()
            yield started
        finally:
            started.kill()


# The real client with an extra action. `number` counts its runs, with the discarded ones.
CLIENT = """#!{python}
import os, subprocess, sys
real = [{svn!r}, *sys.argv[1:]]
url = next((word for word in sys.argv if "://" in word), "")
if "log" not in sys.argv or url.endswith("/{empty}"):
    os.execv(real[0], real)
with open({count!r}, "a") as file:
    file.write("x")
number = os.path.getsize({count!r})
{body}
os.execv(real[0], real)
"""


def test_runs_undisturbed_have_no_invalid_flag(bench):
    warm_ups = {"cold": 0, "hot-os": 1, "hot-server": 2}
    bench.forget()
    cells = [f"{access}/{cache}" for access in (FILE, *SERVED) for cache in warm_ups]
    forking, other = (f"svn/ruby/f7/nopack/forking/{cache}" for cache in ("hot-server", "hot-os"))
    measured = bench.measure_all([*cells, forking, other])
    cpu_s = measured[forking][1]["server_cpu_s"]
    assert "server-reforked" in measured[forking][0] and (cpu_s is None or cpu_s > 0)
    assert not invalid_flags([{"flags": " ".join(measured[other][0])}])
    warming, discarded = {}, set()
    for cell in cells:
        found, seen = measured[cell]
        assert not invalid_flags([{"flags": " ".join(found)}]), (cell, found, seen)
        context = complete_context(bench.context(cell))
        assert not same_work.has_idle_server(context["runs"][0], context)
        assert not seen["other_servers"] or "other-server" in found
        cache = cell.rpartition("/")[2]
        # Access by file has no server to warm up.
        runs = min(1, warm_ups[cache]) if cell.startswith("file") else warm_ups[cache]
        warming[cell] = len(seen["warming"]) - runs
        discarded.add(seen.get("discarded_read_bytes", 0))
        assert 3 << 20 < seen["client_peak_memory_bytes"] < 100 << 20
        if not cell.startswith("file"):
            assert seen["server_runs_before"] == (2 if cache == "hot-server" else 0)
            assert seen["server_cpu_s"] > 0 and seen["server_peak_memory_bytes"] > 1 << 20
            assert "sha256:" in seen["server_build"] and seen["server_argv"]
    first = [cell for cell, more in warming.items() if more]
    # One discarded run per copy, and all cold cells compare their reads with it.
    assert [warming[cell] for cell in first] == [1] and first[0].endswith("cold")
    assert len(discarded) == 2 and max(discarded) > 1 << 20


def test_cold_run_without_clearing_has_cache_not_cold(bench):
    bench.forget()
    idle = bench.program("vmtouch", "#!/bin/sh\nexit 0\n")
    with bench.configured(clear_caches="evict"), idle:
        found, seen = bench.measure(f"{FILE}/cold")
    assert "cache-not-cold" in found and seen["resident_before"] > 0.3
    # Another process may clear the caches in the meantime.
    assert ("no-disk-reads" in found) == (not seen["client_read_bytes"])
    assert seen["cache_cleared_by"] == "evict"


EVICT = """
import glob
if number {when}:
    for path in glob.glob({files!r}, recursive=True):
        if os.path.isfile(path):
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
"""


@pytest.mark.parametrize(("when", "attempts"), [("== 2", 2), slow(">= 2", 3)])
def test_hot_run_losing_its_pages_is_measured_again(bench, when, attempts):
    body = EVICT.format(when=when, files=f"{bench.repositories}/**")
    with bench.client(body):
        found, seen = bench.measure(f"{FILE}/hot-os")
    aside = bench.context(f"{FILE}/hot-os")["set_aside"]
    # One warm-up run and one timed run per attempt.
    assert (bench.project.path / "count").stat().st_size == 2 * attempts
    assert len(aside) == attempts - 1 and all(attempt["results"][0]["times"] for attempt in aside)
    assert all("cache-not-warm" in run["flags"] for attempt in aside for run in attempt["runs"])
    has_read = seen["client_read_bytes"] > MAX_READ_KIB_HOT << 10
    assert ("cache-not-warm" in found) == (attempts == 3) == has_read


# The real hyperfine; `change` edits the export.
HYPERFINE = """#!{python}
import json, subprocess, sys
code = subprocess.call([{hyperfine!r}, *sys.argv[1:]])
path = sys.argv[sys.argv.index("--export-json") + 1] if "--export-json" in sys.argv else ""
# A try of hyperfine before the first cell exports elsewhere.
if path.endswith("/export.json"):
    export = json.load(open(path))
    for result in export["results"]:
        {change}
    json.dump(export, open(path, "w"))
sys.exit(code)
"""
TENTH_OF_TIMES = """
        result["times"] = [time / 10 for time in result.get("times", [])]
        for run in result.get("measurements", []):
            run["time_wall_clock"]["value"] /= 10
"""
REMOVE_LAST_RUN = """
        for name in {"times", "exit_codes", "measurements"} & result.keys():
            result[name].pop()
"""


def test_server_kept_against_its_label_has_server_reused(bench):
    root = bench.project.path
    keys = yaml.safe_load(bench.project.config.read_text())
    plan = Project(merge(read_yaml(DEFAULT), keys), root, [DEFAULT]).plan
    recipe = json.loads(plan.recipe_json(STUDY, f"log/{SVN}/hot-os"))
    recipe["state"]["prepare"].remove("stop-server")
    export, context = root / "reused.json", root / "reused.context.json"
    command = [sys.executable, "-m", "vcsbench.run.cell_job", root, json.dumps(recipe)]
    command += ["1", "0", "0", export, context]
    done = run_merged(command, root, 300, PYTHONPATH=str(root / "workflow"))
    assert done.returncode == 0, done.stdout
    run = json.loads(context.read_text())["runs"][0]
    assert "server-reused" in run["flags"] and run["evidence"]["server_runs_before"] == 1


def test_export_with_fewer_runs_is_refused(bench):
    with bench.hyperfine(REMOVE_LAST_RUN):
        errors = bench.run([f"{FILE}/hot-os"])
    assert str(bench.bin / "hyperfine") in errors and "Traceback" not in errors


# The client reads the files itself: always, or when it is timed (its second run, after a warm-up).
READ_FILES = """
from urllib.parse import urlsplit
if number >= {first}:
    path = {root!r} + urlsplit(url).path
    real = ["file://" + path if word == url else word for word in real]
"""


@pytest.mark.parametrize("first", [1, 2])
def test_client_that_reads_the_files_itself_has_server_idle(bench, first):
    body = READ_FILES.format(first=first, root=str(bench.repositories))
    for access in SERVED:
        with bench.client(body):
            bench.measure(f"{access}/hot-os")
        context = complete_context(bench.context(f"{access}/hot-os"))
        assert same_work.has_idle_server(context["runs"][0], context), context["captured_io"]


def test_client_with_a_small_request_that_reads_the_files_has_server_idle(bench):
    request = 'subprocess.run([real[0], "info", url], stdout=subprocess.DEVNULL)'
    body = request + READ_FILES.format(first=1, root=str(bench.repositories))
    for access in SERVED:
        with bench.client(body):
            _, evidence = bench.measure(f"{access}/hot-os")
        context = complete_context(bench.context(f"{access}/hot-os"))
        assert same_work.has_idle_server(context["runs"][0], context), evidence
        # The server has answered the small request.
        assert evidence["server_wchar"] > 500


def test_run_with_three_faults_has_the_flag_of_each(bench):
    root = str(bench.repositories)
    server = ["svnserve", "-d", "--foreground", "--root", root, "--listen-host", "127.0.0.1"]
    proxy = "http://somebody:secret@proxy.invalid:3128"
    cells = [f"{SVN}/hot-os", f"{FILE}/cold"]
    with subprocess.Popen([*server, "--listen-port", "0"]) as other:
        try:
            with bench.hyperfine(TENTH_OF_TIMES):
                measured = bench.measure_all(cells, MALLOC_ARENA_MAX="1", http_proxy=proxy)
        finally:
            other.kill()
    found, seen = measured[cells[0]]
    assert "other-server" in found and any(root in line for line in seen["other_servers"])
    # A cold run takes long enough to tell a tenth of its time from delays.
    assert "clock" in measured[cells[1]][0], measured[cells[1]][1]["window_s"]
    context = bench.context(cells[0])
    # Variables that do not reach the client are not recorded.
    assert {"PATH", "LC_ALL"} <= context["environment"].keys()
    assert not {"MALLOC_ARENA_MAX", "http_proxy"} & context["environment"].keys()


@pytest.mark.slow
def test_server_configuration_edited_during_a_run_fails_later_cells(bench):
    args = bench.project.path / "config" / "servers" / "slow" / "svnserve.args"
    text = args.read_text()
    # The first run of the client edits the file. The first cell started before that.
    body = f"if number == 1: open({str(args)!r}, 'a').write('--memory-cache-size 1\\n')"
    cells = [f"{SVN}/hot-os", f"{SVN}/hot-server"]
    try:
        with bench.client(body):
            errors = bench.run(cells)
    finally:
        args.write_text(text)
    assert "svnserve.args" in errors
    folder = bench.project.path / f"results/cells/{STUDY}/log"
    exports = [(folder / cell / f"round{bench.rounds}.json").exists() for cell in cells]
    assert sorted(exports) == [False, True]
    bench.rounds -= 1
    assert not bench.run(cells)


RESTART = """
def restart():
    port = url.split(":")[2].split("/")[0]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{{pid}}/cmdline").read().split("\\0")[:-1]
        except OSError:
            continue
        if port in words and words[0].endswith("svnserve"):
            os.kill(int(pid), 9)
            break
    quiet = {{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}}
    # In a new session: processes that a client starts end with it.
    again = subprocess.Popen(words, start_new_session=True, **quiet)
    open({pids!r}, "a").write(f"{{again.pid}}\\n")
    import socket, time
    while True:
        try:
            return socket.create_connection(("127.0.0.1", int(port))).close()
        except OSError:
            time.sleep(0.01)
"""


def test_server_restarted_during_a_run_has_restarted(bench):
    pids = bench.project.path / "pids"
    pids.write_text("")
    body = RESTART.format(pids=str(pids)) + "if number == 3: restart()"
    try:
        with bench.client(body):
            found, seen = bench.measure(f"{SVN}/hot-server")
    finally:
        for pid in pids.read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    assert "restarted" in found and not seen["server_same"]
    wait_for(lambda: not servers_of(bench.project))


@pytest.mark.parametrize("timed", [slow(1), 2])
def test_repository_read_after_clearing_has_foreign_reads(bench, timed):
    bench.forget()
    if timed == 1:
        bench.measure(f"{SVN}/cold")  # with the discarded run
    ask, answer = (bench.project.path / name for name in ("ask", "answer"))
    for pipe in (ask, answer):
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)

    def reader():
        ask.read_text()
        for path in bench.repositories.rglob("*"):
            with contextlib.suppress(OSError):
                path.read_bytes()
        answer.write_text("read")

    thread = threading.Thread(target=reader, daemon=True)
    thread.start()
    body = f"if number == {timed}: open({str(ask)!r}, 'w').write('x'); open({str(answer)!r}).read()"
    with bench.client(body):
        found, seen = bench.measure(f"{SVN}/cold")
    thread.join(10)
    assert "foreign-reads" in found and {"too-few-disk-reads", "no-disk-reads"} & set(found), seen
    assert "cache-not-cold" not in found


@pytest.mark.slow
def test_repository_read_all_the_time_has_a_cold_flag(bench):
    program = (
        "import os, sys\nprint(flush=True)\nwhile True:\n"
        "  for folder, _, files in os.walk(sys.argv[1]):\n"
        "    for file in files:\n      open(os.path.join(folder, file), 'rb').read()\n"
    )
    with python(program, str(bench.repositories)):
        found, seen = bench.measure(f"{SVN}/cold")
    cold_flags = {"cache-not-cold", "no-disk-reads", "too-few-disk-reads", "foreign-reads"}
    assert cold_flags & set(found), seen


@pytest.mark.slow
def test_memory_taken_is_in_the_evidence(bench):
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) for line in lines if "MemAvailable" in line) * 1024
    if free < 6 * GIB:
        pytest.skip("takes 6 GiB of memory")
    eat = "a = bytearray(3 << 30)\na[::4096] = b'x' * len(a[::4096])\nprint(flush=True)\ninput()"
    with python(eat, stdin=subprocess.PIPE):
        _, seen = bench.measure(f"{FILE}/hot-os")
    assert seen["memory_available_bytes"] < free - 3 * GIB // 2


@pytest.mark.slow
def test_machine_swapping_has_swapped(bench):
    file = bench.project.path / "swap"
    with file.open("wb") as out:
        os.fchmod(out.fileno(), 0o600)
        # A kernel that pages idle memory out fills a small swap file.
        for _ in range(512):
            out.write(bytes(1 << 20))
    made = subprocess.run(["mkswap", file], capture_output=True)
    if made.returncode or subprocess.run(["swapon", file], capture_output=True).returncode:
        pytest.skip("this machine allows no swap file")
    out = (
        "import mmap, os\nb = os.urandom(16 << 20)\n"
        "a = mmap.mmap(-1, len(b), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "a[:] = b\na.madvise(21)\nprint(flush=True)\n"  # MADV_PAGEOUT
        "while True:\n  a[:] = b\n  a.madvise(21)\n"
    )
    try:
        with python(out):
            found, seen = bench.measure(f"{FILE}/hot-os")
    finally:
        subprocess.run(["swapoff", file], check=True)
        file.unlink()
    assert "swapped" in found and seen["swapped_out_pages"] > 0


@pytest.mark.slow
def test_processor_busy_has_cpu_busy(bench):
    hog = "print(flush=True)\nwhile True: pass"
    with contextlib.ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            stack.enter_context(python(hog))
        # The client waits for enough ticks of the kernel.
        with bench.client("import time; time.sleep(0.5)"):
            found, seen = bench.measure(f"{FILE}/hot-os")
    assert "cpu-busy" in found and seen["others_cpu_s"] > 0.4
