"""The checks of studies, commands and grids before anything is measured."""

import contextlib
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Literal, get_args

import pytest
import yaml

from project import (
    CONFIG,
    DEFAULT,
    HANGING_S,
    ODD_FILES,
    ROOT,
    WITHOUT_CAPABILITIES,
    mounted,
    needs_root,
    open_folder,
    run_merged,
    run_python,
    start_python,
)
from unit.study_grid import merge
from vcsbench.axes import AXES
from vcsbench.config import study as study_file
from vcsbench.config.definitions import read_definitions
from vcsbench.config.study_reader import load_study
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.forecast.doctor import CheckResult, run_checks
from vcsbench.machine import Machine
from vcsbench.measure.cell_setup import SUBJECTS
from vcsbench.measure.work import WORK_KINDS
from vcsbench.run.cleaning import clean_checkout
from vcsbench.run.project import Project, open_project
from vcsbench.run.study_params import RESERVED_NAMES, study_names
from vcsbench.run.workflow import WRITTEN
from vcsbench.statistics.baselines import Description
from vcsbench.storages import filesystems
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects.strategies import STRATEGIES
from vcsbench.subjects.tree_stores import STORES

LOG = {"command": "log", "access": "file", "config": "slow", "cache": "hot-os"}
OWN = "config/studies/own.yaml"
SIDES = {"rows": [], "columns": []}
ELAPSED = {"elapsed": {"metric": "elapsed_s", **SIDES}}
OF_RA = {"axis": "access", "baseline": "http", "candidates": ["svn"]}


def table(**keys):
    metric = {} if "compare" in keys else {"metric": "elapsed_s"}
    return {"tables": {"a": {**metric, **SIDES, **keys}}}


def published(**keys):
    own = read_yaml(CONFIG / "studies" / "fsfs-san-2014.yaml")["published"]
    return {"published": {**own, **keys}}


def question(**keys):
    return {"questions": {"access": WHICH | keys}}


@pytest.fixture
def study():
    definition = read_yaml(CONFIG / "studies" / "fsfs-san-2014.yaml")
    return {**definition, "commands": {"log": definition["commands"]["log"]}}


def error_of(root, study, part):
    """Return the error of a configuration with the study `own` and a part of its grid."""
    (root / "config" / "studies").mkdir(parents=True)
    for name in ("servers", "published", "expectations.yaml"):
        if not (root / "config" / name).exists():
            (root / "config" / name).symlink_to(CONFIG / name)
    # The default configuration has grids of its own studies.
    for name in ("own", *read_yaml(DEFAULT)["grid"]):
        (root / "config" / "studies" / f"{name}.yaml").write_text(yaml.safe_dump(study))
    keys = {"studies": ["own"], "grid": {"own": {"include": [part]}}}
    with pytest.raises(UserError) as caught, contextlib.chdir(root):
        _ = Project(merge(read_yaml(DEFAULT), keys), root, [DEFAULT]).expectations
    assert "\n" not in str(caught.value)
    return str(caught.value)


LOCAL = {
    "axes": {"command": ["log"], "access": ["file"], "repo": "repositories", "cache": ["hot-os"]},
    **{"variance_group": [], "tables": ELAPSED},
    "questions": {"access": {"question": "http or svn?"}},
}
WHICH = {"question": "Which?"}
TO_TARGET = {"output": "target", "output_location": "scratch"}
OF_CACHES = {"axis": "cache", "baseline": "cold", "candidates": ["hot"]}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"block": ["command", "moon"]}, "`block[1]`"),
        ({"featured_tables": ["moon"]}, "`featured_tables[0]`"),
        ({"trace_syscalls": {"moon": ["1"]}}, "`trace_syscalls.moon`"),
        ({"trace_syscalls": {"access": ["tea"]}}, "`trace_syscalls.access`"),
        ({"defaults": {"colour": "red"}}, "`defaults`"),
        ({"defaults": {"command": "log"}}, "`defaults`"),
        ({"defaults": {"format": "nope"}}, "`defaults.format`"),
        ({"defaults": {"access": "svn"}}, "`defaults.access`"),
        ({"defaults": {"config": "x"}}, "config/servers/x: "),
        ({"defaults": {"repo": "x"}}, "`repositories` has no 'x'"),
        ({"defaults": {"filesystem": "x"}}, "`filesystems` has no 'x'"),
        ({"questions": {"moon": WHICH}}, "`questions.moon`"),
        (question(yes_value="x"), "`questions.access.yes_value`"),
        (question(values=["http", "x"]), "`questions.access.values`"),
        (question(where={"sun": "1"}), "`questions.access.where.sun`"),
        (question(where={"cache": "x"}), "`questions.access.where.cache`"),
        ({"questions": {"moon": WHICH | {"axis": "access"}, "sun": WHICH}}, "`questions.sun`"),
        ({"questions": {"moon": WHICH | {"axis": "sun"}}}, "`questions.moon.axis`"),
        (table(metric="speed"), "`tables.a.metric`"),
        (table(compare=OF_CACHES | {"baseline": "hotter"}), "`tables.a.compare.baseline`"),
        (table(compare=OF_CACHES), "`tables.a.compare.candidates`"),
        (table(compare=OF_CACHES | {"candidates": ["cold"]}), "`tables.a`"),
        (table(compare=OF_CACHES | {"axis": "moon"}), "`tables.a.compare.axis`"),
        (table(compare=OF_RA | {"metric": "speed"}), "`tables.a.compare.metric`"),
        (table(compare=OF_RA, rows=["access"]), "`tables.a.rows`"),
        (table(compare=OF_RA, over="access"), "`tables.a.over`"),
        (table(compare=OF_RA, where={"access": "svn"}), "`tables.a`"),
        (table(compare=OF_RA, each=["reads"]), "`tables.a`"),
        (table(where={"access": "tea"}), "`tables.a.where.access`"),
        (table(over="moon"), "`tables.a.over`"),
        (table(by=["moon"]), "`tables.a.by`"),
        (table(rows=["moon"]), "`tables.a.rows`"),
        (table(rows=["access", "access"]), "`tables.a.rows`"),
        (table(columns=["candidate"]), "`tables.a.columns`"),
        (table(columns=["count"]), "`tables.a.columns`"),
        (table(each=["reads"]), "`tables.a`"),
        (table(metric="counts"), "`tables.a`"),
        (table(metric="counts", each=["counts"]), "`tables.a.each[0]`"),
        (published(findings=["x"]), "`published.findings`"),
        (published(revisions={"x": 1}), "`published.revisions`"),
        (published(numbers="x.csv"), "x.csv: cannot be read"),
        (published(numbers={"x": {"moon": "1"}}), "`published.numbers.x.moon`"),
        (published(numbers={"x": {"access": "tea"}}), "`published.numbers.x.access`"),
    ],
)
def test_project_invalid_study_names_file_and_key(tmp_path, study, keys, expected):
    assert expected in error_of(tmp_path, study | keys, LOG)


@pytest.mark.parametrize(
    "axis",
    [
        *("server", "client", "copy", "host", "scale", "order", "seed", "flags", "round", "run"),
        *("cores", "requests", "cell", "skip", "state", "conditions", "resident_before", "reads"),
        *("candidate", "baseline", "value", "statistic", "count", "throughput_mb_s", "number"),
        *("hosts", "time"),
    ],
)
def test_project_axis_with_the_name_of_a_column_of_results_is_refused(tmp_path, study, axis):
    study["axes"] |= {axis: ["one", "two"]}
    assert error_of(tmp_path, study, LOG).startswith(f"{OWN}: `axes.{axis}`: ")


def test_axes_of_vcsbench_and_its_studies_have_no_reserved_name():
    names = set(AXES)
    for name in study_names(ROOT):
        names.update(load_study(CONFIG / "studies" / f"{name}.yaml").axes)
    assert len(names) > 30 and names & RESERVED_NAMES == set()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ({"work": "guess"}, "`commands.log.work`"),
        ({"work": "tree"}, "`commands.log.work`"),
        ({"input": "tea"}, "`commands.log.input`"),
        ({"argv": "svn log 'x"}, "`commands.log.argv`"),
        ({"store": "git"}, "`commands.log`: has `store`"),
        ({"program": "naive"}, "`commands.log`: has `program`"),
        ({"revisions": 3}, "`commands.log`: has `revisions`"),
        ({"revisions_behind": 3}, "`commands.log`: has `revisions_behind`"),
        ({"output_location": "auto"}, "`commands.log`: has `output_location`"),
        ({"clones": True}, "`commands.log.clones`"),
        ({"defaults": {"filesystem": "disk"}, **TO_TARGET}, "`commands.log.output_location`"),
        ({"restrict_to": {"moon": ["1"]}}, "`commands.log.restrict_to.moon`"),
        ({"restrict_to": {"access": ["tea"]}}, "`commands.log.restrict_to.access`"),
        ({"restrict_to": {"command": ["log"]}}, "`commands.log.restrict_to`"),
        ({"inapplicable_axes": ["moon"]}, "`commands.log.inapplicable_axes[0]`"),
        ({"inapplicable_axes": ["command"]}, "`commands.log.inapplicable_axes`"),
        ({"defaults": {"access": "svn"}}, "`commands.log.defaults.access`"),
        *(
            ({"defaults": {axis: "x"}}, f"`commands.log.defaults.{axis}`")
            for axis in ("cache", "access", "packing", "clients")
        ),
    ],
)
def test_project_invalid_command_names_file_and_key(tmp_path, study, command, expected):
    study["commands"]["log"] |= command
    assert f"{OWN}: {expected}" in error_of(tmp_path, study, LOG)


def test_project_grid_with_a_value_that_is_not_measured_names_it(tmp_path, study):
    assert "`commands` has no null-log" in error_of(tmp_path, study, {"cache": "hot-os"})


def test_project_study_without_the_axes_of_a_repository_is_refused(tmp_path, study):
    assert "needs repo, format, packing" in error_of(tmp_path, study | LOCAL, {"command": "log"})


def test_project_study_without_the_repository_of_a_dump_is_refused(tmp_path, study):
    axes = {axis: values for axis, values in LOCAL["axes"].items() if axis != "repo"}
    info = {"argv": "{svnadmin} info {dump}", "input": "dump", "work": "stdout"}
    keys = {"axes": axes, "block": ["command"], "scenario_axes": [], "commands": {"log": info}}
    error = error_of(tmp_path, study | LOCAL | keys, {"command": "log"})
    assert "needs repo. The study has no repo" in error


def test_project_grid_with_a_storage_that_is_not_configured_names_its_key(tmp_path, study):
    tape = {"storage": ["disk", "tape"]}
    study["axes"] |= tape
    assert "`storages.tape` is missing" in error_of(tmp_path, study, LOG | tape)


@pytest.mark.parametrize(
    ("old", "new", "listed", "expected"),
    [
        ("client_cpu_pct\n", "client_cpu\n", {}, "'client_cpu'"),
        ("log,http,ruby", "log,htp,ruby", {}, "`access`: no value 'htp'"),
        (",slow,cold", ",solw,cold", {}, "`config`: no value 'solw'"),
        ("422.1", "422;1", {}, "`elapsed_s`: '422;1'"),
        ("http,ruby", "https,ruby", {"access": ["https"]}, "`published.findings`"),
    ],
)
def test_project_published_number_that_no_table_can_have_is_refused_unless_listed(
    tmp_path, study, old, new, listed, expected
):
    published = tmp_path / "config" / "published"
    shutil.copytree(CONFIG / "published", published)
    file = published / "fsfs-san-2014.csv"
    file.write_text(file.read_text().replace(old, new, 1))
    if listed:
        # The numbers are accepted, and the next fault is refused.
        study["published"] |= {"unmeasured_values": listed, "findings": ["moon"]}
    text = error_of(tmp_path, study, LOG)
    assert expected in text and text.startswith(f"{file}: ") == (not listed)


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (study_file.InputName | study_file.OutputName, SUBJECTS),
        (study_file.StoreName | Literal[""], STORES),
        (study_file.StrategyName, STRATEGIES),
        (study_file.WorkName, WORK_KINDS),
    ],
)
def test_names_in_studies_are_those_of_their_table(names, table):
    found = [name for part in get_args(names) for name in get_args(part) or [part]]
    assert sorted(found) == sorted(table)


@pytest.mark.parametrize("key", ["scratch", "storages.disk"])
@pytest.mark.parametrize("kind", ["file", "pipe", "missing", "long", "/proc"])
def test_project_folder_that_is_none_is_refused_before_jobs(tmp_path, key, kind):
    path = tmp_path / {"missing": "x/y", "long": "x" * 300, "/proc": kind}.get(kind, "x")
    reason = "cannot be written" if kind == "/proc" else "no such folder"
    if kind == "file":
        path.touch()
    elif kind == "pipe":
        ODD_FILES["pipe"](path)
    storages = dict.fromkeys(("disk", "ssd", "ram"), str(tmp_path))
    keys = {"scratch": str(tmp_path), "storages": storages}
    if key == "scratch":
        keys["scratch"] = str(path)
    else:
        storages["disk"] = str(path)
    raw = merge(read_yaml(DEFAULT), keys)
    assert "nothing" in clean_checkout(raw, tmp_path, [DEFAULT])[0]
    with pytest.raises(UserError, match=f"`{key}`: {path}: {reason}"):
        open_project(raw, ROOT, [DEFAULT], deployed=False)
    # A report of the results that exist needs no storage.
    open_project({**raw, "measure": "nothing"}, ROOT, [DEFAULT], deployed=False)


@pytest.mark.parametrize(
    "keys",
    [
        {"studies": ["own-repository"], "repositories": {}, "repository": None},
        {"studies": ["gone"], "grid": {"gone": {"include": []}}, "unknown": 1},
        {"repository": "/nowhere", "filesystems": {"far": "/mnt/x", "ext4": "make"}},
    ],
)
def test_clean_needs_only_the_folders_of_a_configuration(tmp_path, keys):
    place = WorkDir(tmp_path, tmp_path)
    place.make("repositories")
    raw = {**read_yaml(DEFAULT), **keys, "storages": {"disk": str(tmp_path)}, "scratch": "x"}
    assert clean_checkout(raw, tmp_path, [DEFAULT]) == [f"removed {place.path}"]
    with pytest.raises(UserError, match=r"`storages\.disk`: '3' "):
        clean_checkout({**raw, "storages": {"disk": 3}}, tmp_path, [DEFAULT])


def test_clean_keeps_the_readme_of_the_results(tmp_path):
    raw = {**read_yaml(DEFAULT), "storages": {"disk": str(tmp_path)}, "scratch": "x"}
    (tmp_path / "results/loaded").mkdir(parents=True)
    for name in ("README.md", ".hidden", "loaded/x.json"):
        (tmp_path / "results" / name).touch()
    assert len(clean_checkout(raw, tmp_path, [DEFAULT])) == 1
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["README.md"]
    assert "nothing" in clean_checkout(raw, tmp_path, [DEFAULT])[0]


def test_clean_names_folders_that_remain_and_removes_the_others(tmp_path):
    names = ("disk", "ssd", "ram")
    raw = {**read_yaml(DEFAULT), "storages": {name: str(tmp_path / name) for name in names}}
    raw["scratch"] = "x"
    shared, foreign, place = (WorkDir(tmp_path / name, tmp_path) for name in names)
    other = WorkDir(place.storage, tmp_path / "other")
    for work_folder in (shared, foreign, place):
        work_folder.storage.mkdir()
    for work_folder in (shared, place, other):
        work_folder.make("repositories")
    (shared.path / "precious").touch()
    foreign.path.symlink_to(shared.path)
    lines = clean_checkout(raw, tmp_path, [DEFAULT])
    assert lines[0] == f"{shared.path} remains: it has files that vcsbench did not make"
    assert lines[1].startswith(f"{foreign.path}: vcsbench did not make this")
    assert lines[2:] == [f"removed {place.path}"]
    assert (shared.path / "precious").exists() and (other.path / "repositories").exists()


@needs_root
def test_clean_with_a_mount_in_the_results_keeps_its_files(tmp_path):
    raw = {**read_yaml(DEFAULT), "storages": {"disk": str(tmp_path)}, "scratch": "x"}
    (tmp_path / "results").mkdir()
    with mounted(tmp_path / "results/disk") as disk:
        (disk / "precious").touch()
        with pytest.raises(UserError, match="results/disk: something is mounted here"):
            clean_checkout(raw, tmp_path, [DEFAULT])
        assert (disk / "precious").exists()


@pytest.mark.parametrize("name", WRITTEN)
def test_clean_with_a_file_in_place_of_a_folder_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    raw = {**read_yaml(DEFAULT), "storages": {"disk": str(tmp_path)}, "scratch": str(tmp_path)}
    with pytest.raises(UserError, match=rf"^{tmp_path}/{re.escape(name)}: this is no folder"):
        clean_checkout(raw, tmp_path, [DEFAULT])
    (tmp_path / name).unlink()
    (tmp_path / "results").symlink_to(tmp_path / "gone")
    assert "removed the link" in clean_checkout(raw, tmp_path, [DEFAULT])[0]


def test_checkout_lock_with_a_closed_folder_of_the_user_names_the_remedy(tmp_path):
    (tmp_path / "results" / "loaded").mkdir(parents=True, mode=0)
    program = "import sys; from pathlib import Path; from vcsbench.run import workflow\n"
    program += "with workflow.checkout_lock(Path(sys.argv[1])): pass"
    done = run_python(program, tmp_path, start=WITHOUT_CAPABILITIES)
    folder = f"{tmp_path}/results/loaded"
    assert f"UserError: {folder}: " in done.stderr and done.stderr.endswith(f" {folder}.\n")


@pytest.mark.parametrize("key", ["scratch", "storages.disk"])
@pytest.mark.parametrize("exists", [True, False])
def test_project_folder_that_is_not_mounted_is_refused(tmp_path, monkeypatch, key, exists):
    disk, folder = tmp_path / "disk", tmp_path / "disk/below"
    if exists:
        folder.mkdir(parents=True)
    (tmp_path / "fstab").write_text(f"/dev/none {disk} ext4 defaults 0 2\n")
    monkeypatch.setattr(filesystems, "FSTAB", tmp_path / "fstab")
    folders = dict.fromkeys(["scratch", "storages.disk"], str(tmp_path)) | {key: str(folder)}
    keys = {"scratch": folders["scratch"], "storages": {"disk": folders["storages.disk"]}}
    project = Project(merge(read_yaml(DEFAULT), keys), ROOT, [DEFAULT])
    refusal = f"`{key}`: {folder}: {disk} is a mount point"
    with pytest.raises(UserError, match=refusal):
        project.check_machine()
    checks = [check for check in run_checks(project.plan) if refusal in check.text]
    assert [check.result for check in checks] == [CheckResult.MISSING]


@pytest.mark.parametrize("clearing", ["drop-caches", ""])
def test_doctor_storage_in_memory_is_never_cold_for_any_user(monkeypatch, clearing):
    monkeypatch.setattr(Machine, "clearing", lambda *_: clearing)
    keys = {"scratch": "/dev/shm", "storages": {"disk": "/dev/shm"}}
    project = Project(merge(read_yaml(DEFAULT), keys), ROOT, [DEFAULT])
    checks = [check for check in run_checks(project.plan) if "never cold" in check.text]
    assert {check.result for check in checks} == {CheckResult.MISSING}
    remedies = "".join(check.remedy for check in checks)
    assert "storages" in remedies and "root" not in remedies


def test_project_storage_that_no_cell_uses_may_be_missing():
    with open_folder("/var/tmp") as folder:
        keys = {"storages": {"disk": str(folder), "other": "/no/storage"}, "scratch": str(folder)}
        Project(merge(read_yaml(DEFAULT), keys), ROOT, [DEFAULT]).check_machine()


@pytest.mark.parametrize("name", ["published/fsfs-san-2014.csv", "published/findings.yaml"])
@pytest.mark.parametrize("kind", [*ODD_FILES, "binary", "missing"])
def test_project_file_of_reports_that_cannot_be_read_is_refused(tmp_path, monkeypatch, name, kind):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    project = Project(read_yaml(DEFAULT), tmp_path, [DEFAULT])
    path = Path("config", name)
    path.unlink()
    if kind == "binary":
        path.write_bytes(b"\xff\0")
    elif kind != "missing":
        ODD_FILES[kind](path)
    read_definitions.cache_clear()
    with pytest.raises(UserError, match=f"^[^ ]*{path}: [^\n]*$"):
        _ = project.expectations


def test_project_baseline_without_an_axis_of_the_study_is_refused_before_a_run(
    tmp_path, monkeypatch
):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    name = "fsfs-san-2014"
    keys = {"studies": [name], "baselines": ["old"]}
    folder = tmp_path / "baselines" / "old"
    folder.mkdir(parents=True)
    description = {key: {} for key in Description.__required_keys__}
    (folder / f"{name}.json").write_text(json.dumps(description))
    path = folder / f"{name}.csv"
    columns = ["cell", *load_study(CONFIG / "studies" / f"{name}.yaml").axes, "flags", "elapsed_s"]

    def read():
        return Project(merge(read_yaml(DEFAULT), keys), tmp_path, [DEFAULT]).expectations

    path.write_text(f"{','.join(columns)}\n")
    assert read().baselines(name) == ["old"]
    columns.remove("packing")
    path.write_text(f"{','.join(columns)}\n")
    with pytest.raises(UserError, match=f"^{path}: [^\n]*`packing`[^\n]*$"):
        read()
    path.write_bytes(b"\xff\n")
    with pytest.raises(UserError, match=f"^{path}: [^\n]*$"):
        read()


SNAKEFILE = """
from vcsbench.run.workflow import exit_after_main_thread

rule all:
    input: expand("{n}", n=range(5))

rule one:
    output: "{n}"
    shell: "touch {output}; test {wildcards.n} != " + config["fails"]

onstart:
    exit_after_main_thread(1)
onsuccess:
    exit_after_main_thread(0)
onerror:
    exit_after_main_thread(1)
"""


@pytest.mark.parametrize(("fails", "code"), [("none", 0), ("3", 1)])
def test_exit_after_main_thread_does_not_wait_for_timers_of_snakemake(tmp_path, fails, code):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    words = ["-m", "snakemake", "--cores", "1", "--scheduler", "greedy", "--nolock"]
    words += ["--max-jobs-per-timespan", "100000/1d", "--config", f"fails={fails}"]
    python_path = str(ROOT / "workflow")
    done = run_merged([sys.executable, *words], tmp_path, HANGING_S, PYTHONPATH=python_path)
    assert done.returncode == code, done.stdout


BEGIN = """
import os, sys
from pathlib import Path
from vcsbench.environment import RUN_ROOT
from vcsbench.errors import UserError
from vcsbench.run import workflow

workflow.LOCK_WAIT_S = 0
try:
    workflow.begin_session(Path(sys.argv[1]))
except UserError as error:
    sys.exit(str(error))
print(os.environ[RUN_ROOT], flush=True)
sys.stdin.read()
"""


def test_begin_session_refuses_second_session_until_first_is_killed(tmp_path):
    with start_python(BEGIN, tmp_path) as first:
        assert first.stdout.readline() == f"{tmp_path}\n"
        second = run_python(BEGIN, tmp_path)
        assert second.returncode == 1 and str(tmp_path) in second.stderr
        assert "Traceback" not in second.stderr
        first.kill()
        first.wait()
    assert run_python(BEGIN, tmp_path).returncode == 0
