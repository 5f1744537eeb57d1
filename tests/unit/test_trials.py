"""Trials: each thing that a cell needs is tried, and named with its remedy if this machine lacks it."""

import errno
import os
import shutil
import time
from types import SimpleNamespace

import pytest

from fakes import Fakes
from project import (
    ROOT,
    WITHOUT_CAPABILITIES,
    mounted,
    needs,
    needs_root,
    open_folder,
    run_python,
)
from unit.test_forecast import STUDY, open_project
from unit.test_git_study import CLONE
from vcsbench import kernel, machine, machine_lock, process_facts, server_user
from vcsbench.errors import UserError
from vcsbench.forecast import doctor, plan_report, trials
from vcsbench.measure import counters
from vcsbench.storages.session_folders import WRITTEN
from vcsbench.systems import SUBVERSION

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
    with pytest.raises(UserError, match=r"^no disk\. Mount it\.\nno lock\. Make one\.$"):
        trials.refuse(missing)


def test_proc_with_processes_only_is_named_and_refused(root, monkeypatch):
    plan = plan_of(root)
    monkeypatch.setattr(kernel, "SYSTEM_FILES", ("/proc/self/stat", "/proc/no such file"))
    (sentence,) = named(plan, trials.try_kernel_files)
    assert "/proc/no such file" in sentence and "subset=pid" in sentence
    assert "/proc/self/stat" not in sentence
    monkeypatch.setattr(counters, "read", lambda file: "")
    with pytest.raises(UserError, match="subset=pid"):
        counters.read_counters(counters.CountedDevices())


NO_STRACE = pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
REFUSED = "echo 'PTRACE_TRACEME: Operation not permitted' >&2; exit 1"
UNLINKED = "echo 'libsvn: cannot open shared object' >&2; exit 127"


@pytest.mark.parametrize(
    ("trial", "program", "script", "words"),
    [
        (trials.try_programs, "setpriv", "[[ $1 != --pdeathsig ]]", ["setpriv", "util-linux 2.33"]),
        (trials.try_programs, "hyperfine", "[[ $1 != -N ]]", ["hyperfine 1.15"]),
        (trials.try_programs, "svnadmin", UNLINKED, ["svnadmin", "Subversion"]),
        pytest.param(
            *(trials.try_tracing, "strace", REFUSED, ["not permitted", "SYS_PTRACE"]),
            marks=NO_STRACE,
        ),
    ],
)
def test_program_that_fails_is_named(root, tmp_path, monkeypatch, trial, program, script, words):
    plan = plan_of(root)
    assert named(plan, trial) == []
    fakes = Fakes(tmp_path / "fakes")
    fakes.add(program, script)
    monkeypatch.setenv("PATH", f"{fakes.bin}:{os.environ['PATH']}")
    (sentence,) = named(plan, trial)
    assert [word for word in words if word not in sentence] == []


@needs("git")
def test_program_is_tried_for_cells_that_need_it(root, tmp_path, monkeypatch):
    part = {**CLONE, "access": "file"}
    grid = {"git-server": {"include": [part]}}
    of_git = open_project(root, studies=["git-server"], grid=grid).plan
    of_subversion = plan_of(tmp_path)
    assert of_git.cells and named(of_git, trials.try_cell_programs) == []
    fakes = Fakes(tmp_path / "fakes")
    fakes.add("git", UNLINKED)
    monkeypatch.setenv("PATH", f"{fakes.bin}:{os.environ['PATH']}")
    (sentence,) = named(of_git, trials.try_cell_programs)
    assert sentence.startswith("git cannot be run: libsvn: cannot open shared object. ")
    assert named(of_subversion, trials.try_cell_programs) == []
    # The other cells of a session are measured.
    assert trials.find_lacks(of_git, trials.REQUIRED) == []


@needs("git")
def test_programs_of_subversion_are_not_required_for_cells_of_git(root, tmp_path, monkeypatch):
    grid = {"git-server": {"include": [{**CLONE, "access": "file"}]}}
    of_git = open_project(root, studies=["git-server"], grid=grid).plan
    of_subversion = plan_of(tmp_path, "file")
    assert of_git.cells and of_subversion.cells
    fakes = Fakes(tmp_path / "fakes")
    for name in SUBVERSION.programs:
        fakes.add(name, UNLINKED)
    monkeypatch.setenv("PATH", f"{fakes.bin}:{os.environ['PATH']}")
    assert named(of_git, trials.try_programs) == named(of_git, trials.try_cell_programs) == []
    assert len(named(of_subversion, trials.try_programs)) == len(SUBVERSION.required_programs)


@pytest.mark.parametrize(
    ("cache", "script", "number"),
    [("cold", "[[ $1 != -qe ]]", 1), ("cold", "", 0), ("hot-os", "exit 1", 0)],
)
def test_vmtouch_that_drops_no_file_is_named_if_it_clears_caches(
    root, tmp_path, monkeypatch, cache, script, number
):
    monkeypatch.setattr("vcsbench.machine.can_drop_caches", lambda: False)
    fakes = Fakes(tmp_path / "fakes")
    fakes.add("vmtouch", script)
    monkeypatch.setenv("PATH", f"{fakes.bin}:{os.environ['PATH']}")
    part = {**CELL, "access": "file", "cache": cache}
    project = open_project(root, grid={STUDY: {"include": [part]}})
    sentences = named(project.plan, trials.try_eviction)
    assert len(sentences) == number
    assert all(sentence.startswith("vmtouch cannot drop a file") for sentence in sentences)
    # `make plan` and `make doctor` print it, and a session measures the other cells.
    assert trials.find_lacks(project.plan, trials.REQUIRED) == []
    lines = plan_report.describe_plan(project.plan, project.repositories)
    texts = [check.text for check in doctor.run_checks(project.plan)]
    for report in (lines, texts):
        assert sum("vmtouch cannot drop a file" in text for text in report) == number


def test_lock_that_cannot_be_opened_is_named(root, tmp_path, monkeypatch):
    (tmp_path / "lock").mkdir()
    monkeypatch.setattr(machine_lock, "LOCK_PATH", str(tmp_path / "lock"))
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
        scratch, storage = sorted(named(plan, trials.try_folders))
    assert f"`scratch`: {root}/scratch: " in scratch and "Read-only" in scratch
    assert f"`storages.disk`: {root}/storage: " in storage and "Read-only" in storage


@needs_root
def test_storage_that_the_servers_cannot_enter_is_named(root):
    plan = plan_of(root)
    root.chmod(0o700)
    (sentence,) = named(plan, trials.try_folders)
    assert str(root) in sentence and "nobody" in sentence


@needs_root
def test_folder_of_the_checkout_that_is_read_only_is_named_before_a_session_only(root):
    plan = plan_of(root)
    assert named(plan, trials.try_checkout) == []
    with mounted(root / "results", "ro") as results:
        (lack,) = trials.find_lacks(plan, trials.BEFORE_SESSION)
        # A dry run writes nothing there.
        assert trials.find_lacks(plan, trials.REQUIRED) == []
    assert lack.sentence().startswith(f"{results}: cannot be written. ")
    assert "read-only" in lack.sentence()


CHECKOUT_TRIAL = """
import sys
from pathlib import Path
from types import SimpleNamespace
from vcsbench.forecast import trials
for lack in trials.try_checkout(SimpleNamespace(root=Path(sys.argv[1]))):
    print(lack.sentence())
"""


def test_folder_in_the_results_that_belongs_to_another_user_is_named(tmp_path):
    (tmp_path / "results" / "loaded").mkdir(parents=True, mode=0)
    done = run_python(CHECKOUT_TRIAL, tmp_path, start=WITHOUT_CAPABILITIES)
    assert done.returncode == 0, done.stderr
    (sentence,) = done.stdout.splitlines()
    assert sentence.startswith(f"{tmp_path}/results/loaded: cannot be written. Run as its owner")


@pytest.mark.parametrize("name", WRITTEN)
def test_file_in_place_of_a_folder_of_the_checkout_is_named_once(root, name):
    plan = plan_of(root)
    (root / name).touch()
    (sentence,) = named(plan, trials.try_checkout)
    assert sentence.startswith(f"{root}/{name}: this is no folder")


def test_future_file_behind_a_linked_folder_is_mended_by_the_remedy(root, tmp_path):
    plan = plan_of(root)
    (root / "results").symlink_to(tmp_path)
    (tmp_path / "x.csv").touch()
    os.utime(tmp_path / "x.csv", (time.time() + 9999,) * 2)
    (sentence,) = named(plan, trials.try_file_times)
    command = sentence.partition("run: ")[2].rstrip(".")
    assert os.system(f"cd {root} && {command}") == 0
    assert named(plan, trials.try_file_times) == []


@pytest.mark.parametrize(
    "name", ["config/published/new.csv", "baselines/b/x.csv", "results/x.csv", "reports/x.html"]
)
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


def test_file_that_is_written_during_the_trial_is_not_of_the_future(root, monkeypatch):
    def write_late(checkout):
        time.sleep(0.05)
        (checkout / "late.json").touch()
        yield str(checkout / "late.json")

    monkeypatch.setattr(trials, "_input_files", write_late)
    assert named(plan_of(root), trials.try_file_times) == []


SERVER_TRIAL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from unit.test_trials import plan_of
from vcsbench.forecast import trials
for lack in trials.try_server(plan_of(Path(sys.argv[1]))):
    print(lack.sentence())
"""
NEEDED = ("setuid", "setgid", "chown", "kill")


@needs_root
@pytest.mark.parametrize("right", ["sys_ptrace", "sys_admin", *NEEDED])
def test_right_of_root_that_servers_need_is_tried(root, right):
    start = ["setpriv", f"--bounding-set=-{right}", "--inh-caps=-all", "--"]
    done = run_python(SERVER_TRIAL, root, ROOT / "tests", start=start)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == (1 if right in NEEDED else 0)
    assert (f"--cap-add {right.upper()}" in done.stdout) == (right in NEEDED)


@needs_root
def test_missing_user_of_servers_is_one_lack_and_no_end_of_the_trials(root, monkeypatch):
    plan = plan_of(root)
    monkeypatch.setattr(server_user, "UNPRIVILEGED", "no-such-user")
    (sentence,) = named(plan, trials.try_server)
    assert sentence.endswith("there is no such user. Run `useradd no-such-user`.")
    sentences = [lack.sentence() for lack in trials.find_lacks(plan, trials.REQUIRED)]
    assert sentence in sentences
    # Other processes are read as root.
    assert process_facts.open_files(os.getpid())


def test_server_whose_options_are_hidden_is_named(root, monkeypatch):
    monkeypatch.setattr(process_facts, "command_line", lambda pid: [])
    (sentence,) = named(plan_of(root), trials.try_server)
    assert "hidepid" in sentence and "--cap-add SYS_PTRACE" in sentence


def test_trial_that_the_system_ends_is_a_lack_and_the_next_one_still_runs(root):
    def meet_full_disk(plan):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/scratch/file")
        yield

    def find_lack(plan):
        yield trials.Lack("no lock", "make one")

    sentences = [
        lack.sentence() for lack in trials.find_lacks(plan_of(root), [meet_full_disk, find_lack])
    ]
    assert sentences[0].startswith("/scratch/file: No space left on device. Free some space")
    assert sentences[1:] == ["no lock. Make one."]


def test_files_of_the_kernel_are_named_before_a_program_needs_them(root, monkeypatch):
    monkeypatch.setattr(kernel, "SYSTEM_FILES", ("/proc/no such file",))
    with pytest.raises(UserError, match="/proc/no such file"):
        plan_of(root)


def test_load_that_the_kernel_does_not_show_is_none(monkeypatch):
    def fail():
        raise OSError("Load averages are unobtainable")

    monkeypatch.setattr(os, "getloadavg", fail)
    assert machine.host()["load"] == 0


def test_checkout_is_no_folder_for_temporary_files(root, monkeypatch):
    plan = plan_of(root)
    monkeypatch.delenv("TMPDIR", raising=False)
    assert named(plan, trials.try_temporary_folder) == []
    monkeypatch.setattr(trials.tempfile, "gettempdir", os.getcwd)
    (sentence,) = named(plan, trials.try_temporary_folder)
    assert "set TMPDIR" in sentence
    # No file can be made in the folder that the user has chosen.
    monkeypatch.setenv("TMPDIR", "/no such folder")
    assert named(plan, trials.try_temporary_folder) == [sentence]
    # Here the user has chosen it.
    monkeypatch.setenv("TMPDIR", os.getcwd())
    assert named(plan, trials.try_temporary_folder) == []


TRACING_TRIAL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from project import ROOT
from unit.test_forecast import open_project
from vcsbench.forecast import trials
root = Path(sys.argv[1])
(root / "workflow").symlink_to(ROOT / "workflow")
plan = open_project(root, studies=["deployed-server"]).plan
for lack in trials.try_tracing_of_servers(plan):
    print(lack.sentence())
"""


@needs_root
@needs("strace")
@pytest.mark.parametrize("right", ["", "sys_ptrace", "sys_nice"])
def test_tracing_of_another_users_server_is_tried(root, right):
    start = ["setpriv", f"--bounding-set=-{right}", "--inh-caps=-all", "--"] if right else []
    done = run_python(TRACING_TRIAL, root, ROOT / "tests", start=start)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == (1 if right else 0)
    assert ("no system-call counts of servers" in done.stdout) == bool(right)


@needs_root
@needs("strace")
def test_tracing_without_the_user_of_servers_is_a_lack(monkeypatch):
    study = SimpleNamespace(trace_syscalls={})
    plan = SimpleNamespace(
        config=SimpleNamespace(studies={"s": study}),
        grids={"s": []},
        cells=["c"],
        draft=lambda cell: {"access": {"server": "svnserve"}},
    )
    monkeypatch.setattr(server_user, "UNPRIVILEGED", "no-such-user")
    (sentence,) = named(plan, trials.try_tracing_of_servers)
    assert "Run `useradd no-such-user`" in sentence


def test_no_server_is_tried_for_cells_without_one(root, monkeypatch):
    monkeypatch.setattr(trials, "_try_server_process", pytest.fail)
    assert named(plan_of(root, "file"), trials.try_server) == []
