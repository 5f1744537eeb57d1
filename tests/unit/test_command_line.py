"""The command-line tool: values reach Snakemake byte for byte; locks, leftover processes and exit codes."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fakes import Fakes
from project import (
    HANGING_S,
    ODD_FILES,
    ROOT,
    needs_root,
    run_python,
    start_python,
    wait_for,
    write_program,
)
from vcsbench import __main__ as tool
from vcsbench import process_facts
from vcsbench.__main__ import _find_cell
from vcsbench.environment import RUN_ROOT
from vcsbench.errors import UserError
from vcsbench.run.workflow import (
    FAILED,
    LOCK,
    WRITTEN,
    checkout_lock,
    is_dry_run,
    run_processes,
)

# Records its arguments and the options of the run. With `work` it starts a marked job that outlives it and
# waits for it, with `fail` its jobs fail, and with `refuse` it starts none. It leaves the same mark.
SNAKEMAKE = """#!{python}
import json, os, pathlib, subprocess, sys
words = sys.argv[1:]
files = [word for word in words if word.startswith(".vcsbench/options-")]
read = json.loads(pathlib.Path(files[0]).read_bytes()) if files else {{}}
with open({record!r}, "a") as record:
    print(json.dumps([words, read]), file=record)
if "work" in words:
    mark = {{"VCSBENCH_RUN_ROOT": os.getcwd()}}
    job = subprocess.Popen(["sleep", "3600"], env={{**os.environ, **mark}}, start_new_session=True)
    print(job.pid, file=open("job", "w"))
    os.rename("job", "job.pid")
    job.wait()
pathlib.Path(".vcsbench").mkdir(exist_ok=True)
if "fail" in words:
    mark = {{"pid": os.getpid(), "is_deployed": "conda" in words}}
    pathlib.Path({failed!r}).write_text(json.dumps(mark))
sys.exit(3 if {{"fail", "refuse"}} & {{*words}} else 0)
"""


class Checkout:
    """A checkout with a Snakemake that only records its calls."""

    def __init__(self, folder):
        self.fakes = Fakes(folder / "machine")
        self.fakes.add("python", f'exec {sys.executable} "$@"', silent=True)
        self.fakes.add("which", f'exec {shutil.which("which")} "$@"', silent=True)
        self.fakes.add("setpriv", f'exec {shutil.which("setpriv")} "$@"', silent=True)
        self.folder = folder / "checkout"
        (self.folder / "workflow").mkdir(parents=True)
        shutil.copytree(ROOT / "envs", self.folder / "envs")
        (self.folder / "envs/setup.sh").write_text("#!/bin/bash\n")
        shutil.copytree(ROOT / "workflow/vcsbench", self.folder / "workflow/vcsbench")
        shutil.copytree(ROOT / "config", self.folder / "config")
        for file in ("Makefile", "vcsbench"):
            shutil.copy2(ROOT / file, self.folder)
        names = {"record": str(self.fakes.record), "failed": FAILED}
        text = SNAKEMAKE.format(python=sys.executable, **names)
        self.snakemake = write_program(self.fakes.bin / "snakemake", text)
        self.started = []

    def run(self, *arguments):
        return self.fakes.run(self.folder / "vcsbench", "run", *arguments)

    def make(self, *arguments):
        return self.fakes.run("make", "--no-print-directory", "-C", self.folder, *arguments)

    def calls(self):
        return [(words, options) for words, options in map(json.loads, self.fakes.calls())]

    def start(self, *arguments):
        """Start a run that works, and wait for its job. Return the process and the job's number."""
        env = {"PATH": str(self.fakes.bin), "HOME": os.devnull}
        argv, null = [self.folder / "vcsbench", "run", *arguments], subprocess.DEVNULL
        process = subprocess.Popen(argv, cwd=self.folder, env=env, stdout=null, stderr=null)
        self.started.append(process)
        job = self.folder / "job.pid"
        wait_for(job.exists)
        return process, int(job.read_text())

    def refuses(self, done, beginning):
        """Check that a run ended with one sentence, without a call of Snakemake."""
        assert (done.returncode, self.calls()) == (1, [])
        assert done.stderr.startswith(beginning) and done.stderr.count("\n") == 1


@pytest.fixture
def checkout(tmp_path):
    checkout = Checkout(tmp_path)
    yield checkout
    for process in checkout.started:
        process.kill()
        process.wait()
    job = checkout.folder / "job.pid"
    if job.exists() and process_facts.command_line(int(job.read_text())):
        os.kill(int(job.read_text()), signal.SIGKILL)


PATHS = ('/a"b: #c', "/$HOME/$$x", "/`id`", "/$(touch x)", "/end ", "/srv/project #2", "/a\nb")
PATHS += ("/a{b}[c]%2F@é=", "1e3", "-x", "it's", "null", "a b")


@pytest.mark.parametrize("path", PATHS)
def test_report_repository_reaches_snakemake_byte_for_byte(checkout, path):
    done = checkout.make("report", f"REPO={path}")
    assert done.returncode == 0, done.stderr
    ((words, options),) = checkout.calls()
    # A relative path becomes an absolute one.
    assert options == {"repository": os.path.join(checkout.folder, path)}
    assert words[:3] == ["--logger", "vcsbench", "--configfile"]
    assert words[3].startswith(".vcsbench/options-") and words[4:] == ["--cores", "all"]


def test_report_paths_that_begin_with_a_tilde_are_in_the_home_of_the_user(checkout, tmp_path):
    # The quotes of a printed command keep the shell from expanding them.
    argv = ["make", "-C", checkout.folder, "report", "REPO=~/a b", "LOG=~/svn.log"]
    done = checkout.fakes.run(*argv, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    ((_, options),) = checkout.calls()
    assert options == {"repository": f"{tmp_path}/a b", "server_log": f"{tmp_path}/svn.log"}


@pytest.mark.parametrize(
    "url",
    ["svn://bob:secret@host/x", "svn:/bob:secret@host", "bob:se cret@host:x", "//bob:secret@host"],
)
def test_report_on_url_is_refused_without_storing_its_password(checkout, url):
    done = checkout.make("report", f"REPO={url}")
    assert done.returncode == 2 and "cret" not in done.stderr + done.stdout
    assert checkout.calls() == [] and not (checkout.folder / ".vcsbench").exists()


FLAGS = ["--repository=/srv/a b", "--tree=it's", "--server-log=/l"]
FLAGS += ["--study=builds,fsfs-ssd-2014", "--minutes", "7.5"]
KEYS = {"repository": "/srv/a b", "tree": "it's", "studies": ["builds", "fsfs-ssd-2014"]}
KEYS |= {"server_log": "/l", "minutes": 7.5, "rounds": None}


@pytest.mark.parametrize(
    ("flags", "keys"), [(FLAGS, KEYS), (["--report-only"], {"measure": "nothing"})]
)
def test_run_flags_reach_snakemake_as_options(checkout, flags, keys):
    checkout.run(*flags)
    ((_, options),) = checkout.calls()
    assert options == keys


@pytest.mark.parametrize("action", ["run", "check", "plan"])
def test_minutes_of_an_action_set_the_time_limit(action):
    options, others = tool._parser().parse_known_args([action, "--minutes=7.5"])
    assert (tool._option_keys(options), others) == ({"minutes": 7.5, "rounds": None}, [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("run --repository=r -k", "run --repository={0}/r -k"),
        ("run --repository r --server-log l x", "run --repository {0}/r --server-log {0}/l x"),
        ("run --configfile a b -k c", "run --configfile {0}/a {0}/b -k c"),
        ("run --configfiles=a --tree=x -- r", "run --configfiles={0}/a --tree=x -- r"),
        ("run --repository=/r/../s --study x", "run --repository=/s --study x"),
        ("run --repository=svn://host/x", "run --repository=svn://host/x"),
        ("run --repository= --config seed=2", "run --repository= --config seed=2"),
        ("run --repository=~/x --server-log ~/l", "run --repository=/h/x --server-log /h/l"),
    ],
)
def test_command_of_reports_has_absolute_paths_unless_it_was_typed_in_the_checkout(
    tmp_path, monkeypatch, arguments, expected
):
    words = arguments.split()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/h")
    folder = os.path.realpath(tmp_path)
    assert tool._with_absolute_paths(words) == expected.format(folder).split()
    monkeypatch.chdir(ROOT)
    assert tool._with_absolute_paths(words) == words


def test_report_arguments_reach_snakemake_in_order(checkout):
    (checkout.folder / "a.yaml").write_text("copies: 2\n")
    (checkout.folder / "empty.yaml").touch()
    arguments = "ARGS=--config rounds=2 --forcerun cell --configfiles empty.yaml a.yaml -- all"
    checkout.make("report", "CORES=1", "REPO=/r", arguments)
    ((words, options),) = checkout.calls()
    assert options == {"repository": "/r", "rounds": 2}
    assert words[:4] == ["--logger", "vcsbench", "--configfile", str(checkout.folder / "a.yaml")]
    # words[4] is the file of the options.
    assert words[5:] == ["--cores", "1", "--forcerun", "cell", "--", "all"]


def fail_with_results(checkout, *arguments):
    """Run in a checkout with a result. Return the words and options of each call of Snakemake."""
    cell = checkout.folder / "results/cells/s/c"
    cell.mkdir(parents=True)
    (cell / "round1.context.json").write_text("{}")
    assert checkout.run(*arguments).returncode == 3
    return checkout.calls()


@pytest.mark.parametrize(
    "words",
    [
        "-pF -k -- fail",
        "-kF fail results/cells/s/c/round1.json",
        "--forcerun cell -- fail",
        "--until fail",
    ],
)
def test_run_with_failed_jobs_reports_without_the_words_of_the_user(checkout, words):
    first, second = fail_with_results(checkout, *words.split())
    assert first == (["--logger", "vcsbench", "--cores", "all", *words.split()], {})
    assert second[0][4:] == ["--cores", "all"]
    assert second[1] == {"measure": "nothing"}


def test_run_with_failed_jobs_deploys_the_programs_of_the_report(checkout):
    _, (words, options) = fail_with_results(checkout, "--sdm", "conda", "--", "fail")
    assert words[4:] == ["--cores", "all", "--sdm", "conda"]
    assert options == {"measure": "nothing"}


def test_run_with_a_failed_report_reports_once(checkout):
    assert len(fail_with_results(checkout, "--report-only", "fail")) == 1


@pytest.mark.parametrize("first", [["--config", "a=1", "b=2"], ["-C", "a=1", "--config=b=2"]])
def test_run_merges_repeated_config(checkout, first):
    checkout.run(*first, "-k", "--config", "rounds=11")
    ((words, options),) = checkout.calls()
    assert options == {"a": 1, "b": 2, "rounds": 11} and words[4:] == ["--cores", "all", "-k"]


# None is a pipe. test_config.py has other texts that are no YAML.
UNUSABLE = (None, b"- 1\n", b"# caf\xe9\n", b"grid:\n\tx: 1\n", b"null: 1\n", b"1: 2\n")
UNUSABLE += (b"__use_yte__: true\n? for n in range(9)\n: 1\n",)


@pytest.mark.parametrize("action", ["run", "plan"])
@pytest.mark.parametrize("content", UNUSABLE)
def test_configuration_file_unusable_is_refused_before_snakemake(checkout, action, content):
    file = checkout.folder / "my.yaml"
    if content is None:
        os.mkfifo(file)
    else:
        file.write_bytes(content)
    done = checkout.fakes.run(checkout.folder / "vcsbench", action, "--configfile", file)
    checkout.refuses(done, f"{file}: ")


MINUTES = ("-3", "0.0", "08", "5m", "1e3", "nan", "9" * 400, "525601")
CORES = ("0", "-1", "1.5", "")
NAMES = ("", "..", "-x", "ü", "a" * 201, "a\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        *((("run", f"--minutes={n}"), f"--minutes (make: MINUTES=): '{n}'") for n in MINUTES),
        *((("check", f"--cores={n}"), f"--cores (make: CORES=): '{n}'") for n in CORES),
        (("import", ""), "BUNDLE="),
        (("plan", "--repository="), "--repository"),
        (("plan", "--repository=/no such path"), "--repository (make: REPO=): /no such path"),
        (("plan", "--tree=x"), "--tree (make: TREE=)"),
        (("plan", "--server-log="), "--server-log: "),
        (("plan", "--server-log=/no such log"), "--server-log (make: LOG=): /no such log: "),
        (("plan", "--study=x"), "--study (make: STUDY=): 'x'"),
        (("show", "x/y"), "(make: CELL=): 'x/y'"),
        (("run", "results/\udcff"), "results/\\xff: "),
        (("plan", "--minutes=0"), "--minutes (make: MINUTES=): '0'"),
        (("plan", "--minuts=3"), "--minuts=3"),
        (("run", "--config", "rounds=3", "measured"), "--config: 'measured' "),
        *((("run", "--config", f"{key}=3"), f"'{key}=3' has no key") for key in ("", "a.b", "a b")),
        *((("show", "x", f"--round={n}"), f"--round: {n} is") for n in (-1, 0, 10_001)),
        *((("baseline", f"--name={n}"), f"--name (make: NAME=): {n!r}"[:60]) for n in NAMES),
    ],
)
def test_vcsbench_unusable_argument_is_refused(checkout, arguments, error):
    done = checkout.fakes.run(checkout.folder / "vcsbench", *arguments)
    assert done.returncode in (1, 2) and error in done.stderr and not checkout.calls()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("log/file", ("s", "log/file")),
        ("s/log/file", ("s", "log/file")),
        ("log/svn", "skipped on this machine: no svn"),
        ("s/log/svn", "skipped on this machine: no svn"),
        ("other/log/svn", "is not in the grid"),
        ("xlog/svn", "is not in the grid"),
    ],
)
def test_find_cell_takes_whole_names_with_or_without_the_study(name, expected):
    skipped = SimpleNamespace(path="log/svn", skip="no svn")
    plan = SimpleNamespace(cell_by_key={("s", "log/file"): None}, grids={"s": [skipped]})
    if isinstance(expected, tuple):
        assert _find_cell(plan, name) == expected
        return
    with pytest.raises(UserError, match=expected):
        _find_cell(plan, name)


class LinkedCell:
    """A cell whose command is only known while its networks are open."""

    def __init__(self, *_):
        self.subjects = []
        self.input = self.server = None
        self.networks = self
        self.timed = SimpleNamespace(argv=["svn", "log"], stdin="")
        self.is_open = False

    def open(self, stack):
        self.is_open = True
        stack.callback(setattr, self, "is_open", False)

    def fill_in(self):
        assert self.is_open


def test_show_of_a_cell_with_networks_opens_them(monkeypatch):
    monkeypatch.setattr("vcsbench.measure.cell_setup.CellSetup", LinkedCell)
    recipe = {"study": "s", "cell": "c", "server_folder": ""}
    facts = tool._facts_of_processes(recipe, 2)
    assert facts == [("cell", "s/c, round 2"), ("command", "svn log")]


@pytest.mark.parametrize(
    ("kinds", "is_refused"),
    [
        (("repository", "target"), False),
        (("dump", "fresh_repository"), False),
        (("git_repository", ""), False),
        (("repository", "working_copy"), True),
        (("committed_repository", ""), True),
        (("tree", "built_tree"), True),
    ],
)
def test_show_next_to_a_session_is_refused_if_it_makes_files(
    tmp_path, monkeypatch, capsys, kinds, is_refused
):
    state = {"setup": [], "prepare": [], "warmup": 0}
    recipe = {"study": "s", "cell": "c", "runs": 1, "clearing": "", "state": state}
    recipe |= {"work_kind": "stdout", "input": kinds[0], "output": kinds[1]}
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "_open_project", lambda *_: None)
    monkeypatch.setattr(tool, "_prepared_recipe", lambda *_: recipe)
    monkeypatch.setattr(tool, "_facts_of_processes", lambda *_: [("cell", "s/c")])
    options = SimpleNamespace(round=1)
    refusal = pytest.raises(UserError, match=f"^{tmp_path}: another") if is_refused else None
    with checkout_lock(tmp_path), refusal or nullcontext():
        tool.show(options, {})
    assert ("s/c" in capsys.readouterr().out) is not is_refused
    # Without a session, each cell is shown. Later runs use files that this makes.
    before = os.umask(0o077)
    assert tool.show(options, {}) == 0
    assert os.umask(before) == (0o022 if is_refused else 0o077)


def test_measure_next_to_a_session_is_refused(checkout):
    with checkout_lock(checkout.folder):
        done = checkout.fakes.run(checkout.folder / "vcsbench", "measure", "log/svn")
    checkout.refuses(done, f"{checkout.folder}: another workflow run ")


def test_run_leaves_processes_of_other_checkouts(checkout, tmp_path):
    process, job = Checkout(tmp_path / "other").start("work")
    process.kill()
    process.wait()
    assert process_facts.command_line(job)
    assert checkout.run("--cores", "1").returncode == 0
    assert process_facts.command_line(job)
    os.kill(job, signal.SIGKILL)


@needs_root
def test_run_processes_of_another_checkout_at_the_same_path_are_left_out(tmp_path):
    (tmp_path / ".vcsbench").mkdir()
    # As in a container, the path is another folder.
    script = 'mount -t tmpfs none "$0" && mkdir "$0/.vcsbench" && echo mounted && exec sleep 3600'
    in_container = ["unshare", "--mount", "sh", "-c", script, str(tmp_path)]
    env = {**os.environ, RUN_ROOT: os.path.realpath(tmp_path)}
    ours = subprocess.Popen(["sleep", "3600"], env=env)
    theirs = subprocess.Popen(in_container, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert theirs.stdout.readline() == "mounted\n"
        assert run_processes(tmp_path) == [ours.pid]
    finally:
        for process in (ours, theirs):
            process.kill()
            process.communicate()


def test_file_in_place_of_the_folder_of_a_run_is_one_sentence(checkout):
    (checkout.folder / ".vcsbench").touch()
    done = checkout.fakes.run(checkout.folder / "envs" / "run.sh", "snakemake", "-n")
    checkout.refuses(done, f"{checkout.folder}/.vcsbench: this is no folder")


@pytest.mark.parametrize("argument", ["-n", "--summary"])
def test_run_that_only_looks_leaves_files_of_a_session(checkout, argument):
    _, job = checkout.start("--repository=/a", "work")
    names = [path.name for path in (checkout.folder / ".vcsbench").glob("options-*")]
    with checkout_lock(checkout.folder):
        assert checkout.run("--repository=/b", argument).returncode == 0
        assert process_facts.command_line(job)
    (_, first), (_, second) = checkout.calls()
    assert (first["repository"], second["repository"]) == ("/a", "/b")
    assert len(names) == 1
    options = json.loads((checkout.folder / ".vcsbench" / names[0]).read_text())
    assert options["repository"] == "/a"


@pytest.mark.parametrize(
    ("arguments", "has_lock"),
    [(["-n"], False), (["-nF"], False), (["--dry-run", "--", "all"], False), (["-k"], True)],
)
def test_dry_run_does_not_take_the_lock(checkout, arguments, has_lock):
    assert checkout.run(*arguments).returncode == 0
    assert (checkout.folder / LOCK).exists() is has_lock


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-k -- x", "-k -- x all results/check.csv"),
        ("x -k", "all results/check.csv x -k"),
        ("--forcerun cell", "all results/check.csv --forcerun cell"),
    ],
)
def test_check_has_its_targets_next_to_those_of_the_user(checkout, words, expected):
    checkout.fakes.run(checkout.folder / "vcsbench", "check", *words.split())
    ((found, _),) = checkout.calls()
    assert found == ["--logger", "vcsbench", "--cores", "all", *expected.split()]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        *((words.split(), True) for words in ("-n", "-np", "-pn", "-nq", "--dry-run", "--dryrun")),
        (["all", "-k", "--cores", "2", "-nF"], True),
        *((words.split(), False) for words in ("-p", "--nolock", "-R n", "--until n", "all", "")),
    ],
)
def test_is_dry_run_follows_parser_of_snakemake(arguments, expected):
    assert is_dry_run(arguments) is expected


@pytest.mark.parametrize("outcome", ["fail", "refuse"])
def test_run_without_results_calls_snakemake_once(checkout, outcome):
    assert checkout.run(outcome).returncode == 3
    assert len(checkout.calls()) == 1


def test_vcsbench_ctrl_c_waits_until_python_handles_it(checkout):
    # Not a script of bash, which unblocks all signals.
    text = "import signal; print(*map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    checkout.fakes.add("python").write_text(f"#!{sys.executable}\n{text}\n")
    done = checkout.fakes.run(checkout.folder / "vcsbench", "plan")
    assert done.stdout.split() == [str(int(signal.SIGINT))]


def test_report_prints_path_of_its_page(checkout):
    reports = checkout.folder / "reports"
    reports.mkdir()
    assert checkout.make("report").stdout == ""
    for name in ("fsfs-san-2014", "index"):
        (reports / f"{name}.html").touch()
    well = checkout.make("report")
    failed = checkout.make("report", "ARGS=refuse")
    assert well.stdout.endswith(f"Report: {reports}/fsfs-san-2014.html\n")
    assert checkout.make("report", "ARGS=-n").stdout == ""
    assert failed.returncode == 2
    assert f"earlier workflow run: {reports}/fsfs-san-2014.html\n" in failed.stdout
    (reports / "server-prototype-2010.html").touch()
    of_both = checkout.make("report", "STUDY=fsfs-san-2014,server-prototype-2010")
    assert of_both.stdout.endswith(f"Report: {reports}/index.html\n")
    chosen = checkout.make("report", "ARGS=--config studies=[server-prototype-2010]")
    assert chosen.stdout.endswith(f"Report: {reports}/server-prototype-2010.html\n")
    # The page of another study, which an earlier run measured, is not this run's.
    assert checkout.make("report").stdout.endswith(f"Report: {reports}/fsfs-san-2014.html\n")


def test_vcsbench_passes_words_as_arguments_and_no_setting_of_the_users_python(checkout):
    checkout.fakes.add("python", 'env | grep ^PYTHON; printf "%s|" "$@"', silent=True)
    settings = {"PYTHONHOME": "/nowhere", "PYTHONINSPECT": "1", "PYTHONPATH": "/elsewhere"}
    argv = ["make", "-C", checkout.folder, "--no-print-directory", "show", "CELL=log/my repo's"]
    done = checkout.fakes.run(*argv, **settings)
    ours = f"PYTHONPATH={checkout.folder}/workflow\n"
    assert done.stdout == f"{ours}-m|vcsbench|show|--|log/my repo's|"


def test_make_plan_passes_the_time_limit(checkout):
    checkout.fakes.add("python", 'printf "%s|" "$@"', silent=True)
    done = checkout.make("plan", "REPO=/r", "MINUTES=7")
    # The list of missing packages comes first.
    assert done.stdout.endswith("-m|vcsbench|plan|--repository=/r|--minutes=7|"), done.stderr


def test_vcsbench_exit_code_is_its_own(checkout):
    checkout.fakes.add("python", "exit 1")
    assert checkout.fakes.run(checkout.folder / "vcsbench", "doctor").returncode == 1
    assert checkout.make("doctor").returncode == 2
    checkout.snakemake.unlink()
    done = checkout.fakes.run(checkout.folder / "vcsbench", "plan")
    assert done.returncode == 2
    assert "make setup" in done.stderr + done.stdout


WAITING = """
import sys, tempfile, time; from pathlib import Path; from vcsbench import __main__
def wait(options, keys):
    with tempfile.TemporaryDirectory(dir=sys.argv[1]):
        Path(sys.argv[1], "begun").touch(); time.sleep(3600)
__main__.ACTIONS["clean"] = wait, False
sys.exit(__main__.main(["clean"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_vcsbench_ended_by_a_signal_removes_its_files(tmp_path, number):
    # As the script vcsbench starts it.
    with start_python(WAITING, tmp_path, start=["env", "--block-signal=INT"]) as process:
        wait_for((tmp_path / "begun").exists)
        process.send_signal(number)
        assert process.communicate(timeout=HANGING_S)[1] == ""
    assert process.returncode == 128 + number
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


def test_vcsbench_output_on_a_full_disk_is_one_sentence(checkout):
    (checkout.folder / "results").symlink_to(checkout.folder / "config")  # removed, and printed
    argv = ["bash", "-c", 'exec "$@" >/dev/full', "-", checkout.folder / "vcsbench", "clean"]
    done = checkout.fakes.run(*argv)
    assert done.stderr.startswith(os.strerror(errno.ENOSPC)) and done.stderr.count("\n") == 1
    assert done.returncode == 1


def test_vcsbench_with_a_limit_on_files_leaves_no_cut_bytecode(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "workflow/vcsbench", tmp_path / "vcsbench", ignore=ignored)
    for limit in ("ulimit -f 8", "true"):
        argv = ["bash", "-c", f'{limit}; exec "$@"', "-", sys.executable, "-m", "vcsbench"]
        done = subprocess.run([*argv, "clean", "--unknown"], cwd=tmp_path, capture_output=True)
        assert (done.returncode, b"Traceback" in done.stderr) == (2, False), done.stderr


@pytest.mark.parametrize("name", WRITTEN)
def test_run_link_to_nothing_in_place_of_a_folder_is_refused(checkout, name):
    path = checkout.folder / name
    path.symlink_to("/nonexistent")
    checkout.refuses(checkout.run(), f"{path}: ")


@pytest.mark.parametrize("kind", ["folder", "loop"])
def test_checkout_lock_odd_file_is_refused(tmp_path, kind):
    (tmp_path / LOCK).parent.mkdir()
    ODD_FILES[kind](tmp_path / LOCK)
    with pytest.raises(UserError, match=f"^{tmp_path / LOCK}: "), checkout_lock(tmp_path):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_checkout_lock_on_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("vcsbench.run.workflow.take_lock", fail)
    expected = f"^{tmp_path / LOCK}: .*{os.strerror(number)}.* another file system"
    with pytest.raises(UserError, match=expected), checkout_lock(tmp_path):
        pass


NARROW_SPACE = """
import sys
from vcsbench import __main__
__main__.ACTIONS["clean"] = (lambda options, keys: print("6\\u202f000") or 0), False
sys.exit(__main__.main(["clean"]))
"""


def test_vcsbench_prints_a_character_that_the_encoding_lacks_as_a_question_mark():
    done = run_python(NARROW_SPACE, PYTHONIOENCODING="iso8859-15")
    assert (done.returncode, done.stdout) == (0, "6?000\n"), done.stderr


UNEXPECTED = """
import sys
from vcsbench.run.job import job_log

with job_log(sys.argv[1]):
    {}["a\\x1bb"]
"""


def test_job_log_unexpected_error_is_one_sentence_and_its_traceback_in_the_log(tmp_path):
    log = tmp_path / "job.log"
    done = run_python(UNEXPECTED, log)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"{log}: KeyError: 'a\\x1bb' (<string>:6). ")
    assert log.read_text().startswith("Traceback") and log.read_text().endswith(f"\n{done.stderr}")


JOB = """
import os, sys
from vcsbench.run.job import job_log

with job_log(sys.argv[1]):
    raise OSError(int(sys.argv[2]), os.strerror(int(sys.argv[2])), *sys.argv[3:])
"""


@pytest.mark.parametrize(
    ("number", "names", "remedy"),
    [
        (errno.EMFILE, [], "ulimit -n"),
        (errno.EACCES, ["/a\x1bb"], "read-only"),
        (errno.ENOSPC, ["/full"], "df -i"),
        (errno.EDQUOT, ["/full"], "raise the quota"),
        (errno.EFBIG, [], "ulimit -f"),
    ],
)
def test_job_log_error_of_the_system_is_one_sentence(tmp_path, number, names, remedy):
    log = tmp_path / "job.log"
    done = run_python(JOB, log, str(number), *names)
    place = names[0].replace("\x1b", "\\x1b") if names else log
    assert (done.returncode, done.stderr) == (1, log.read_text())
    assert done.stderr.startswith(f"{place}: {os.strerror(number)}. ")
    assert remedy in done.stderr and done.stderr.count("\n") == 1


WAITING_FOR_PROGRAM = """
import subprocess, sys
from vcsbench.processes import with_pdeathsig
from vcsbench.run.job import exit_on_signals

exit_on_signals(grace_s=1)
child = subprocess.Popen(with_pdeathsig(["sleep", "3600"]))
try:
    print(child.pid, flush=True)
    child.wait()
finally:
    child.wait()
"""


def test_job_that_waits_for_a_program_after_a_signal_is_ended_with_it():
    process = start_python(WAITING_FOR_PROGRAM)
    child = int(process.stdout.readline())
    process.terminate()
    assert process.wait(HANGING_S) == -signal.SIGALRM
    wait_for(lambda: not process_facts.command_line(child))


def test_run_only_looks_and_is_killed_has_its_exit_code(checkout):
    checkout.fakes.add("snakemake", "kill -9 $$")
    assert checkout.run("-n").returncode == 128 + signal.SIGKILL
