"""Runs through a real Slurm with two nodes on this machine."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec

import pytest

import slurm
from project import (
    HOT,
    STUDY,
    make_project,
    measurements_of,
    needs,
    open_folder,
    ruby,
    write_program,
)
from vcsbench import processes

MISSING = slurm.why_not() or (
    "" if find_spec("snakemake_executor_plugin_slurm") else "envs/setup.sh --cluster was not run"
)
pytestmark = [
    needs("svn", "svnadmin", "svnserve", "hyperfine"),
    pytest.mark.skipif(bool(MISSING), reason=f"no Slurm: {MISSING}"),
    pytest.mark.slow,
]

CORES = len(os.sched_getaffinity(0))
PART = {**HOT, "command": ["log", "export"], "access": "svn", "format": ["f6", "f7"]}
# Keys that differ between runs or hosts, and those with ports, names of folders and counts of the kernel.
PASSING = {"started_at", "host", "order", "runs", "took", "storage", "set_aside"}
PASSING |= {"flags", "argv", "server", "layout", "repository", "work", "captured_io"}
# A job of Slurm has another PATH. The disks of a node are no part of a recipe, and their free space changes.
PASSING |= {"environment", "recipe_digest", "target_storage"}
SAME = ("identity", "variant", "format", "packed", "scale", "description")


@pytest.fixture(scope="module")
def cluster():
    with open_folder("/tmp") as folder, slurm.started(folder) as started:
        yield started


def configure(project, **over):
    keys = {"rounds": 2, "cluster": {"nodes": 2, "class": "bench", "cores": CORES}, **over}
    keys = {key: value for key, value in keys.items() if value is not None}
    project.configure(PART, repositories=ruby(0.002), **keys)


BY_SLURM = (
    *("--profile", "profiles/slurm", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "2"),
)


def start(project, *arguments):
    """Start a run, by default through Slurm."""
    command = [sys.executable, "-m", "snakemake", *(arguments or BY_SLURM)]
    argv = processes.with_pdeathsig([*command, "--configfile", str(project.config)])
    out = (project.path / "log").open("w")
    return subprocess.Popen(argv, cwd=project.path, stdout=out, stderr=subprocess.STDOUT)


def finish(run, project, code=0):
    logs = [project.path / "log", *project.path.glob("results/logs/nodes/*.log")]
    assert run.wait(420) == code, "\n".join(log.read_text()[-2000:] for log in logs)
    return (project.path / "log").read_text()


def until(happens, run):
    """Wait for a condition while a run continues."""
    while not happens():
        assert run.poll() is None
        time.sleep(0.1)


def nodes_of_blocks(project):
    """Return the nodes of each command. Blocks of fixed cost may be on any node, and are left out."""
    nodes = {}
    for context in project.contexts().values():
        nodes.setdefault(context["axes"]["command"], set()).add(context["host"]["name"])
    return nodes


def measured_on(project, node):
    """Return the exports in the folders of a node."""
    found = project.path.glob(f"nodes/job*/{node}/results/cells/**/round*.json")
    exports = (path for path in found if not path.name.endswith(".context.json"))
    return [path for path in exports if "empty" not in path.parts]


def test_cluster_blocks_on_separate_nodes_equal_a_workstation(cluster, project):
    configure(project)
    finish(start(project), project)
    nodes = nodes_of_blocks(project)
    assert sorted(map(sorted, nodes.values())) == [["n1"], ["n2"]]
    page = project.page(STUDY)
    for command, [node] in nodes.items():
        assert re.search(rf"\b{node}: [^<]*\b{command}/ruby/hot-os\b", page)
    rows = project.rows(f"tables/{STUDY}/f6-vs-f7.csv")
    assert {row["command"] for row in rows} == {"log", "export"}
    assert not any("hosts-differ" in row["flags"] for row in rows)
    assert all(float(row["ratio"]) > 0 for row in rows)
    by_slurm = project.contexts()
    finish(start(project), project)
    assert project.is_complete(measurements_of(STUDY))
    for local in make_project():
        folders = {"storages": {"disk": str(project.path / "storage")}}
        configure(local, **folders, scratch=str(project.path / "scratch"), cluster=None)
        local.succeed(measurements_of(STUDY))
        by_workstation = local.contexts()
    assert by_workstation.keys() == by_slurm.keys()
    for path, context in by_workstation.items():
        here, there = comparable(context), comparable(by_slurm[path])
        assert {key: here[0].get(key) for key in here[0] if here[0][key] != there[0].get(key)} == {}
        assert here == there


def comparable(context):
    """Return the parts of a context that are equal on each host."""
    return (
        {key: value for key, value in context.items() if key not in PASSING},
        {key: context["repository"][key] for key in SAME},
        [run["work"] for run in context["runs"]],
    )


def test_cluster_node_lost_keeps_whole_blocks_and_repeats_the_other(cluster, project):
    # One job of two blocks with four cell-rounds each.
    configure(project, cluster={"nodes": ["n2"], "class": "bench", "cores": CORES})
    run = start(project)
    until(lambda: len(measured_on(project, "n2")) >= 5, run)
    cluster.lose("n2")
    try:
        done = Counter(path.parts[-8] for path in measured_on(project, "n2"))
        whole, other = sorted(done, key=lambda command: -done[command])
        assert done[whole] == 4
        finish(run, project)
        assert nodes_of_blocks(project) == {whole: {"n2"}, other: {"n1"}}
        assert len(project.exports()) == 8
        assert f"again on n1: {other}/" in project.page(STUDY)
    finally:
        cluster.start_node("n2")
        cluster.ask("scontrol", "update", "nodename=n2", "state=resume")
        cluster.wait_for("n2", "idle")


def test_clean_removes_folders_of_nodes_through_slurm(cluster, project):
    configure(project, rounds=1)
    finish(start(project), project)
    places = [project.path / "storage", project.path / "scratch"]
    assert any(places[0].iterdir())
    lines = project.tool("clean").splitlines()
    assert {line.partition(":")[0] for line in lines} >= {"n1", "n2"}
    assert not any(" remains" in line for line in lines)
    assert not (project.path / "nodes").exists()
    assert not any(any(place.iterdir()) for place in places if place.exists())


def test_cluster_job_cancelled_continues_in_the_next(cluster, project):
    configure(project, cluster={"nodes": ["n1"], "cores": CORES})
    run = start(project)
    until(lambda: len(measured_on(project, "n1")) >= 2, run)
    before = {path: path.stat().st_mtime_ns for path in measured_on(project, "n1")[:1]}
    cluster.ask("scancel", cluster.ask("squeue", "-h", "-w", "n1", "-o", "%i"))
    finish(run, project)
    assert len(project.exports()) == 8
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())


def test_cluster_cell_failed_has_a_report_without_measuring(cluster, project):
    servers = project.path / "config" / "servers"
    shutil.copytree(servers / "slow", servers / "broken")
    (servers / "broken" / "svnserve.args").write_text("--threads --no-such-option\n")
    keys = {"rounds": 1, "cluster": {"nodes": 1, "class": "bench", "cores": CORES}}
    part = {**PART, "command": "log", "config": ["slow", "broken"]}
    project.configure(part, repositories=ruby(0.002), **keys)
    finish(start(project), project, code=1)
    before = project.exports()
    assert len(before) == 2 and not (project.path / "reports" / f"{STUDY}.html").exists()
    finish(start(project, *BY_SLURM, "--config", "measure=nothing"), project)
    assert project.exports() == before
    assert "no-such-option" in project.page(STUDY)


def test_cluster_submission_refused_prints_error_of_slurm(cluster, project):
    configure(project, cluster={"nodes": 1, "class": "nowhere", "cores": 1})
    assert "Invalid feature specification" in finish(start(project), project, code=1)
    assert not project.exports()


def test_cluster_two_runs_at_once_use_separate_nodes(cluster, project):
    for other in make_project():
        runs = []
        for study in (project, other):
            configure(study, rounds=1, cluster={"nodes": 1, "class": "bench", "cores": CORES})
            runs.append(start(study))
        for run, study in zip(runs, (project, other), strict=True):
            finish(run, study)
            assert len(study.exports()) == 4
            assert all(len(nodes) == 1 for nodes in nodes_of_blocks(study).values())


# Scripts that replace the OpenPBS scripts of the profile.
SUBMIT = """#!/bin/sh
exec sbatch --parsable --exclusive -C bench -c "$1" ${2:+--nodelist="$2"} -o /dev/null --export=ALL "$3"
"""
STATUS = """#!/bin/sh
case $(squeue -h --states=all -j "$1" -o %T) in
COMPLETED) echo success ;;
PENDING | RUNNING | COMPLETING | CONFIGURING) echo running ;;
*) echo failed ;;
esac
"""


def test_generic_profile_runs_jobs_by_scripts(cluster, project):
    configure(project, rounds=1)
    for name, script in (("submit", SUBMIT), ("status", STATUS)):
        write_program(project.path / f"profiles/generic/{name}.sh", script)
    finish(start(project, "--profile", "profiles/generic"), project)
    assert sorted(map(sorted, nodes_of_blocks(project).values())) == [["n1"], ["n2"]]
    assert (project.path / "reports" / f"{STUDY}.html").exists()
