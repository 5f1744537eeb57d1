"""The checks of studies, commands and grids before anything is measured."""

import contextlib
import os
import re
import shutil
import subprocess
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
    run_python,
    start_python,
)
from unit.study_grid import merge
from vcsbench.config import study as study_file
from vcsbench.config.definitions import read_definitions
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.forecast.doctor import MISSING, checks
from vcsbench.measure.prepared_cell import SUBJECTS
from vcsbench.measure.work import KINDS
from vcsbench.run.project import Project, clean_checkout, open_project
from vcsbench.run.workflow import WRITTEN
from vcsbench.storages import filesystems
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects.strategies import STRATEGIES
from vcsbench.subjects.tree_stores import STORES

LOG = {"command": "log", "ra": "file", "config": "slow", "cache": "hot-os"}
OWN = "config/studies/own.yaml"
SIDES = {"rows": [], "columns": []}
ELAPSED = {"elapsed": {"metric": "elapsed_s", **SIDES}}
OF_RA = {"compare": {"axis": "ra", "baseline": "http", "candidates": ["svn"]}}


def table(**keys):
    metric = {} if "compare" in keys else {"metric": "elapsed_s"}
    return {"tables": {"a": {**metric, **SIDES, **keys}}}


def published(**keys):
    own = read_yaml(CONFIG / "studies" / "fsfs-san-2014.yaml")["published"]
    return {"published": {**own, **keys}}


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
    "axes": {"command": ["log"], "ra": ["file"], "repo": "repositories", "cache": ["hot-os"]},
    **{"variance_group": [], "tables": ELAPSED},
    "questions": {"ra": {"question": "http or svn?"}},
}
TAPE = {"storage": ["disk", "tape"]}
WHICH = {"question": "Which?"}
ON_FILESYSTEM = {"defaults": {"filesystem": "storage"}}
TO_TARGET = {"output": "target", "output_location": "scratch"}
SPEED = {"metric": "speed", "rows": [], "columns": []}
OVER = SPEED | {"metric": "elapsed_s", "over": "moon"}
FORMATS = {"axis": "format", "baseline": "f6", "candidates": ["f7"], "metric": "speed"}
COMPARED = {"compare": FORMATS, "rows": [], "columns": []}
CACHES = {"axis": "cache", "baseline": "cold", "candidates": ["hot"]}
OF_CACHES = {"tables": {"a": {**COMPARED, "compare": CACHES}}}
WITH_ITSELF = {"tables": {"a": {**COMPARED, "compare": CACHES | {"candidates": ["cold"]}}}}
HOTTER = {"tables": {"a": {**COMPARED, "compare": CACHES | {"baseline": "hotter"}}}}
MOONS = {"tables": {"a": {**COMPARED, "compare": CACHES | {"axis": "moon"}}}}
WHERE = {
    "tables": {"a": {"metric": "elapsed_s", "where": {"ra": "tea"}, "rows": [], "columns": []}}
}


@pytest.mark.parametrize(
    ("keys", "command", "part", "expected"),
    [
        ({}, {}, {"cache": "hot-os"}, ["`commands` has no null-log", "`grid.own` only log"]),
        (TAPE, {}, LOG | TAPE, ["`storages.tape` is missing", "disk, ssd"]),
        ({}, {"work": "guess"}, LOG, [f"{OWN}: `commands.log.work`: 'guess' should be 'log'"]),
        ({}, {"input": "tea"}, LOG, [f"{OWN}: `commands.log.input`: 'tea' should be"]),
        ({}, {"work": "tree"}, LOG, [f"{OWN}: `commands.log.work`: 'tree' inspects the output"]),
        ({}, {"argv": "svn log 'x"}, LOG, [f"{OWN}: `commands.log.argv`: No closing quotation"]),
        (LOCAL, {}, {"command": "log"}, ["needs repo, format, packing", "has no format"]),
        ({"block": ["command", "moon"]}, {}, LOG, ["`block[1]`: the study has no axis 'moon'"]),
        ({"featured_tables": ["moon"]}, {}, LOG, ["`featured_tables[0]`: the study has no table"]),
        ({}, {"restrict_to": {"moon": ["1"]}}, LOG, ["`commands.log.restrict_to.moon`: the study"]),
        ({"tables": {"a": OVER}}, {}, LOG, ["`tables.a.over`: the study has no axis 'moon'"]),
        ({"trace_syscalls": {"moon": ["1"]}}, {}, LOG, ["`trace_syscalls.moon`: the study has no"]),
        ({"defaults": {"colour": "red"}}, {}, LOG, [f"{OWN}: `defaults`: no axis 'colour'. Use"]),
        (
            {"defaults": {"format": "nope"}},
            {},
            LOG,
            ["`defaults.format`: 'nope' is no format. Use"],
        ),
        (
            {"defaults": {"config": "x"}},
            {},
            LOG,
            ["config/servers/x: no such server configuration"],
        ),
        ({"defaults": {"repo": "x"}}, {}, LOG, ["`repositories` has no 'x'. Use one of ruby,"]),
        ({"defaults": {"filesystem": "x"}}, {}, LOG, ["`filesystems` has no 'x'. Use one of sto"]),
        *(
            ({}, {"defaults": {axis: "x"}}, LOG, [f"`commands.log.defaults.{axis}`: 'x' is no "])
            for axis in ("cache", "ra", "packing", "clients")
        ),
        ({"questions": {"moon": WHICH}}, {}, LOG, ["`questions.moon`: the study has no axis"]),
        ({"questions": {"ra": WHICH | {"yes_value": "x"}}}, {}, LOG, ["`questions.ra.yes_value`"]),
        (HOTTER, {}, LOG, ["`tables.a.compare.baseline`: the axis has no value 'hotter'. Use"]),
        (OF_CACHES, {}, LOG, ["`tables.a.compare.candidates`: the axis has no value 'hot'. Use"]),
        (MOONS, {}, LOG, ["`tables.a.compare.axis`: the study has no axis 'moon'"]),
        (WHERE, {}, LOG, ["`tables.a.where.ra`: the axis has no value 'tea'"]),
        (table(rows=["moon"]), {}, LOG, ["`tables.a.rows`: the table has no column 'moon'. Use"]),
        (table(columns=["candidate"]), {}, LOG, ["`tables.a.columns`: the table has no column 'c"]),
        (table(columns=["count"]), {}, LOG, ["`tables.a.columns`: the table has no column 'count"]),
        (table(**OF_RA, rows=["ra"]), {}, LOG, ["`tables.a.rows`: the table has no column 'ra'"]),
        (table(by=["moon"]), {}, LOG, [f"{OWN}: `tables.a.by`: no column 'moon'. Use one of run"]),
        (table(each=["reads"]), {}, LOG, ["`tables.a`: needs both `metric: counts` and `each`"]),
        (table(metric="counts"), {}, LOG, ["`tables.a`: needs both `metric: counts` and `each`"]),
        (table(**OF_RA, each=["reads"]), {}, LOG, ["`tables.a`: needs both `metric: counts` and"]),
        (published(findings=["x"]), {}, LOG, ["`published.findings`: config/published/findings."]),
        (published(revisions={"x": 1}), {}, LOG, ["`published.revisions`: no repository 'x'. Use"]),
        (published(numbers="x.csv"), {}, LOG, ["x.csv: cannot be read", "`published.numbers` of"]),
        (
            published(numbers={"x": {"moon": "1"}}),
            {},
            LOG,
            ["`published.numbers.x.moon`: the study"],
        ),
        (
            published(numbers={"x": {"ra": "tea"}}),
            {},
            LOG,
            ["`published.numbers.x.ra`: the axis has"],
        ),
        (
            {},
            {"store": "git"},
            LOG,
            [f"{OWN}: `commands.log`: has `store` without `input: tree`. "],
        ),
        ({}, {"program": "naive"}, LOG, ["`commands.log`: has `program` without `{program}`. Add"]),
        (
            {},
            {"revisions": 3},
            LOG,
            ["has `revisions` without `{last}` or `input: dump`. Add that"],
        ),
        ({}, {"clones": True}, LOG, ["`commands.log.clones`: has no effect without the axis"]),
        (
            ON_FILESYSTEM,
            TO_TARGET,
            LOG,
            ["`commands.log.output_location`: has no effect: the comm"],
        ),
        (
            {},
            {"inapplicable_axes": ["command"]},
            LOG,
            ["`commands.log.inapplicable_axes`: has no "],
        ),
        (
            {},
            {"restrict_to": {"command": ["log"]}},
            LOG,
            ["`commands.log.restrict_to`: has no eff"],
        ),
        (
            {},
            {"defaults": {"ra": "svn"}},
            LOG,
            ["`commands.log.defaults.ra`: has no effect: the s"],
        ),
        (
            {"defaults": {"ra": "svn"}},
            {},
            LOG,
            [f"{OWN}: `defaults.ra`: has no effect: the study "],
        ),
        ({"defaults": {"command": "log"}}, {}, LOG, [f"{OWN}: `defaults`: no axis 'command'. Use"]),
        (table(rows=["ra", "ra"]), {}, LOG, ["`tables.a.rows`: ", " has 'ra' twice"]),
        (WITH_ITSELF, {}, LOG, ["`tables.a`: `compare.candidates` has the baseline. Remove"]),
        (
            table(**OF_RA, over="ra"),
            {},
            LOG,
            ["`tables.a.over`: the table has no column 'ra'. Use"],
        ),
        (
            table(**OF_RA, where={"ra": "svn"}),
            {},
            LOG,
            ["`tables.a`: `where.ra`: the table compares"],
        ),
        ({}, {"revisions_behind": 3}, LOG, ["`commands.log`: has `revisions_behind` without `out"]),
        ({}, {"output_location": "auto"}, LOG, ["`commands.log`: has `output_location` without"]),
        ({}, {"restrict_to": {"ra": ["tea"]}}, LOG, ["`commands.log.restrict_to.ra`: the axis"]),
        ({}, {"inapplicable_axes": ["moon"]}, LOG, ["`commands.log.inapplicable_axes[0]`: the"]),
        ({"trace_syscalls": {"ra": ["tea"]}}, {}, LOG, ["`trace_syscalls.ra`: the axis has no"]),
        ({"tables": {"a": SPEED}}, {}, LOG, ["`tables.a.metric`: no metric 'speed'. Use one of"]),
        ({"tables": {"a": COMPARED}}, {}, LOG, ["`tables.a.compare.metric`: no metric 'speed'"]),
        (
            {"tables": {"a": {**SPEED, "metric": "counts", "each": ["counts"]}}},
            {},
            LOG,
            ["`tables.a.each[0]`: no metric 'counts'"],
        ),
    ],
)
def test_project_invalid_study_is_refused(tmp_path, study, keys, command, part, expected):
    study["commands"]["log"] |= command
    study["axes"] |= keys if keys is TAPE else {}
    study |= {} if keys is TAPE else keys
    text = error_of(tmp_path, study, part)
    assert [words for words in expected if words not in text] == [], text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "client_cpu_pct\n",
            "client_cpu\n",
            "no axis or metric has the name of the column 'client_c",
        ),
        (
            "log,http,ruby",
            "log,htp,ruby",
            "`ra`: no value 'htp'. Use one of http, svn, file. Or list",
        ),
        (",slow,cold", ",solw,cold", "`config`: no value 'solw'. Use one of slow, medium, fast,"),
        ("422.1", "422;1", "`elapsed_s`: '422;1' is not a number, or is below 0 ("),
    ],
)
def test_project_published_number_that_no_table_can_have_is_refused(
    tmp_path, study, old, new, expected
):
    published = tmp_path / "config" / "published"
    shutil.copytree(CONFIG / "published", published)
    file = published / "fsfs-san-2014.csv"
    file.write_text(file.read_text().replace(old, new, 1))
    assert f"{file.relative_to(tmp_path)}: {expected}" in error_of(tmp_path, study, LOG)


def test_project_published_value_that_is_not_measured_is_listed(tmp_path, study):
    published = tmp_path / "config" / "published"
    shutil.copytree(CONFIG / "published", published)
    file = published / "fsfs-san-2014.csv"
    file.write_text(file.read_text().replace("http,ruby", "https,ruby", 1))
    study["published"] |= {"unmeasured_values": {"ra": ["https"]}, "findings": ["moon"]}
    assert "`published.findings`" in error_of(tmp_path, study, LOG)


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (study_file.InputName | study_file.OutputName, SUBJECTS),
        (study_file.StoreName | Literal[""], STORES),
        (study_file.StrategyName, STRATEGIES),
        (study_file.WorkName, KINDS),
    ],
)
def test_names_in_studies_are_those_of_their_table(names, table):
    found = [name for part in get_args(names) for name in get_args(part) or [part]]
    assert sorted(found) == sorted(table)


@pytest.mark.parametrize("key", ["scratch", "storages"])
@pytest.mark.parametrize("kind", ["file", "pipe", "missing", "long", "/proc"])
def test_project_folder_that_is_none_is_refused_before_jobs(tmp_path, monkeypatch, key, kind):
    path = tmp_path / {"missing": "x/y", "long": "x" * 300, "/proc": kind}.get(kind, "x")
    reason = "no such folder"
    if kind == "/proc":
        reason = "cannot be written"
    if kind in ("file", "pipe"):
        os.mkfifo(path) if kind == "pipe" else path.touch()
    keys = {"scratch": str(path)} if key == "scratch" else {"storages": {"disk": str(path)}}
    raw = merge(read_yaml(DEFAULT), keys)
    assert "nothing" in clean_checkout(raw, tmp_path, [DEFAULT])[0]
    name = "scratch" if key == "scratch" else "storages.disk"
    with pytest.raises(UserError, match=f"`{name}`: {path}: {reason}"):
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
    assert f"UserError: {folder}: cannot be written. " in done.stderr
    assert done.stderr.endswith(f" {folder}.\n")


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
    with pytest.raises(UserError, match=f"`{key}`: {folder}: {disk} is a mount point .* Mount it,"):
        project.check_machine()
    refused = [
        check for check in checks(project.plan) if f"`{key}`: {folder}: {disk} " in check.text
    ]
    assert [check.state for check in refused] == [MISSING]


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
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment, timeout=HANGING_S
    )
    assert done.returncode == code


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
