"""Trials: each thing that a cell needs is tried, and named with its remedy if this machine lacks it."""

import os
import shutil
import time

import pytest

from fakes import Fakes
from project import mounted, needs_root, open_folder, run_python
from unit.test_forecast import STUDY, open_project
from vcsbench import kernel, machine_lock
from vcsbench.errors import UserError
from vcsbench.forecast import trials
from vcsbench.measure import counters

CELL = {"command": "log", "packing": "nopack", "config": "slow", "cache": "hot-os"}


@pytest.fixture
def root():
    with open_folder("/var/tmp") as folder:
        yield folder


def plan_of(root, access="svn"):
    return open_project(root, grid={STUDY: {"include": [{**CELL, "access": access}]}}).plan


def named(plan, trial):
    return [lack.sentence() for lack in trial(plan)]


def test_trials_of_this_machine_find_nothing_that_is_required(root):
    plan = plan_of(root, ["file", "svn"])
    assert trials.find_lacks(plan, trials.REQUIRED) == []
    trials.refuse([])
    assert not list((root / "storage").iterdir())


def test_all_lacks_are_in_one_error_with_their_remedies():
    missing = [trials.Lack("no disk", "mount it"), trials.Lack("no lock. Make one.")]
    with pytest.raises(UserError) as caught:
        trials.refuse(missing)
    assert str(caught.value).splitlines() == ["no disk. Mount it.", "no lock. Make one."]


def test_proc_with_processes_only_is_named_and_refused(root, monkeypatch):
    monkeypatch.setattr(kernel, "SYSTEM_FILES", ("/proc/self/stat", "/proc/no such file"))
    (sentence,) = named(plan_of(root), trials.try_kernel_files)
    assert "/proc/no such file" in sentence and "subset=pid" in sentence
    assert "/proc/self/stat" not in sentence
    monkeypatch.setattr(counters, "read", lambda file: "")
    with pytest.raises(UserError, match="subset=pid"):
        counters.read_counters()


@pytest.mark.parametrize(
    ("program", "script", "remedy"),
    [
        ("setpriv", "[[ $1 != --pdeathsig ]]", "util-linux 2.33"),
        ("hyperfine", "[[ $1 != -N ]]", "hyperfine 1.15"),
        ("svnadmin", "echo 'libsvn: cannot open shared object' >&2; exit 127", "Subversion"),
    ],
)
def test_program_that_lacks_an_option_is_named(
    root, tmp_path, monkeypatch, program, script, remedy
):
    plan = plan_of(root)
    fakes = Fakes(tmp_path / "fakes")
    fakes.add(program, script)
    monkeypatch.setenv("PATH", f"{fakes.bin}:{os.environ['PATH']}")
    (sentence,) = named(plan, trials.try_programs)
    assert program in sentence and remedy in sentence


def test_lock_that_cannot_be_opened_is_named(root, tmp_path, monkeypatch):
    (tmp_path / "lock").mkdir()
    monkeypatch.setattr("vcsbench.machine_lock.LOCK_PATH", str(tmp_path / "lock"))
    (sentence,) = named(plan_of(root), trials.try_lock)
    assert sentence.startswith(f"{tmp_path}/lock: ")


@needs_root
def test_lock_is_in_the_first_folder_where_a_file_can_be_made(tmp_path, monkeypatch):
    folders = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setattr(machine_lock, "LOCK_FOLDERS", tuple(map(str, folders)))
    with mounted(folders[0], "mode=1777"), mounted(folders[1], "mode=1777"):
        assert machine_lock._lock_path() == f"{folders[0]}/{machine_lock.LOCK_NAME}"
        os.system(f"mount -o remount,ro {folders[0]}")
        assert machine_lock._lock_path() == f"{folders[1]}/{machine_lock.LOCK_NAME}"
        assert list(folders[1].iterdir()) == []


@needs_root
def test_folder_where_no_file_can_be_made_is_named_by_its_key(root):
    plan = plan_of(root)
    with mounted(root / "storage", "ro"), mounted(root / "scratch", "ro"):
        sentences = named(plan, trials.try_folders)
    assert len(sentences) == 2
    for key, name, sentence in zip(
        ("scratch", "storages.disk"), ("scratch", "storage"), sorted(sentences), strict=True
    ):
        assert f"`{key}`: {root / name}: cannot be written (Read-only file system)" in sentence


@needs_root
def test_storage_that_the_servers_cannot_enter_is_named(root):
    plan = plan_of(root)
    root.chmod(0o700)
    (sentence,) = named(plan, trials.try_folders)
    assert str(root) in sentence and "nobody" in sentence


@pytest.mark.parametrize("name", ["config/published/new.csv", "baselines/b/x.csv", "results/x.csv"])
def test_file_of_the_future_is_named_with_a_remedy_that_works(root, name):
    plan = plan_of(root)
    if name.startswith("config/"):
        (root / "config").unlink()
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    assert named(plan, trials.try_file_times) == []
    os.utime(file, (time.time() + 9999,) * 2)
    (sentence,) = named(plan, trials.try_file_times)
    assert sentence.startswith(f"{file}: ")
    command = sentence.partition("run: ")[2].rstrip(".")
    assert os.system(f"cd {root} && {command}") == 0
    assert named(plan, trials.try_file_times) == []


SERVER_TRIAL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from unit.test_trials import plan_of
from vcsbench.forecast import trials
for lack in trials.try_server(plan_of(Path(sys.argv[1]))):
    print(lack.sentence())
"""


@needs_root
@pytest.mark.parametrize(
    ("lacking", "named_right"),
    [
        ("sys_ptrace", None),
        ("sys_admin", None),
        ("setuid", "--cap-add SETUID"),
        ("setgid", "--cap-add SETGID"),
        ("chown", "--cap-add CHOWN"),
        ("kill", "--cap-add KILL"),
    ],
)
def test_right_of_root_that_servers_need_is_tried(root, lacking, named_right):
    start = ["setpriv", f"--bounding-set=-{lacking}", "--inh-caps=-all", "--"]
    tests = os.path.dirname(os.path.dirname(__file__))
    done = run_python(SERVER_TRIAL, root, tests, start=start)
    assert done.returncode == 0, done.stderr
    if named_right is None:
        assert done.stdout == ""
    else:
        assert named_right in done.stdout and done.stdout.count("\n") == 1


def test_no_server_is_tried_for_cells_without_one(root, monkeypatch):
    monkeypatch.setattr(trials, "_try_server_process", pytest.fail)
    assert named(plan_of(root, "file"), trials.try_server) == []


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_tracing_that_is_refused_is_less_evidence(root, tmp_path, monkeypatch):
    plan = plan_of(root)
    assert named(plan, trials.try_tracing) == []
    fakes = Fakes(tmp_path / "fakes")
    fakes.add("strace", "echo 'PTRACE_TRACEME: Operation not permitted' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{fakes.bin}:{os.environ['PATH']}")
    (sentence,) = named(plan, trials.try_tracing)
    assert "not permitted" in sentence and "SYS_PTRACE" in sentence
