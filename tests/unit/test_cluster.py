"""A run on a cluster, without one: the work of jobs, their nodes, and collected results."""

import errno
import json
import os
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from subprocess import check_output

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Fakes
from project import DEFAULT, ROOT
from unit.study_grid import merge
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.plan.grid import DUPLICATE, is_duplicate
from vcsbench.result_paths import CellRound
from vcsbench.run import cluster, node
from vcsbench.run.cluster import Cluster, NodeAssignment, NodeWork, assign_blocks
from vcsbench.run.project import Project
from vcsbench.run.sampling import SamplingState
from vcsbench.storages.workdir import WorkDir

STUDY = "fsfs-san-2014"
PART = {"command": ["log", "export"], "access": ["svn", "file"], "config": "slow"}
PART |= {"packing": "nopack", "cache": ["hot-os", "hot-server"]}


def make_cluster(root, **over):
    if not (root / "config").exists():
        (root / "config").symlink_to(ROOT / "config")
    keys = {"studies": [STUDY], "grid": {STUDY: {"include": [PART]}}, "rounds": 2}
    keys |= {"cluster": {"nodes": 2, "class": "bench", "cores": 4}, **over}
    raw = merge(read_yaml(DEFAULT), keys)
    return Cluster(Project(raw, root, [DEFAULT], is_cluster=True).plan)


def write_works(run):
    """Write the work of all jobs, as the rule `node_work` does."""
    for job in set(run.jobs.values()):
        path = cluster.job_file(run.root, job, "work")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(run.work(job))))


def test_work_of_jobs_divides_whole_blocks_with_duplicates(tmp_path):
    run = make_cluster(tmp_path)
    works = [run.work(number) for number in (1, 2)]
    cells = [set(work.digests) for work in works]
    assert not cells[0] & cells[1]
    assert cells[0] | cells[1] == {f"{STUDY}/{cell.path}" for cell in run.plan.cells}
    duplicates = [name for names in cells for name in names if is_duplicate(name)]
    assert duplicates
    for names in cells:
        assert {name.removesuffix(DUPLICATE) for name in names} <= names
    blocks = [set(work.blocks) for work in works]
    assert not blocks[0] & blocks[1] and len(blocks[0] | blocks[1]) >= 4


def write_result(folder, export, digest, host):
    path = folder / export
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"results": [host]}))
    cell = export.removeprefix(f"results/cells/{STUDY}/").rpartition("/")[0]
    context = {"study": STUDY, "cell": cell, "recipe_digest": digest, "host": {"name": host}}
    path.with_suffix(".context.json").write_text(json.dumps(context))


def test_collect_keeps_complete_blocks_of_a_lost_node(tmp_path):
    cells = f"results/cells/{STUDY}"
    exports = {block: [f"{cells}/{block}/round{n}.json" for n in (1, 2)] for block in "ab"}
    blocks = {f"{STUDY}/{block}": files for block, files in exports.items()}
    work = NodeWork({f"{STUDY}/a": "1", f"{STUDY}/b": "2"}, blocks, [], "login", {})
    (tmp_path / "results" / "cluster").mkdir(parents=True)
    lost, other = (tmp_path / cluster.NODES / "job1" / name for name in ("n1", "n2"))
    NodeAssignment.read(tmp_path, 1).move("n1", [])
    for export in exports["a"]:
        write_result(lost, export, "1", "n1")
    write_result(lost, exports["b"][0], "2", "n1")
    assert cluster.collect_job(tmp_path, 1, work) == {f"{STUDY}/a": "n1"}
    assert (tmp_path / exports["b"][0]).exists()
    # On the next node, the incomplete block starts again.
    other.mkdir(parents=True)
    NodeAssignment.read(tmp_path, 1).move("n2", [f"{STUDY}/b"])
    assert cluster.collect_job(tmp_path, 1, work) == {f"{STUDY}/a": "n1"}
    assert not (tmp_path / exports["b"][0]).exists()
    for export in exports["b"]:
        write_result(other, export, "2", "n2")
    assert cluster.collect_job(tmp_path, 1, work) == {f"{STUDY}/a": "n1", f"{STUDY}/b": "n2"}
    for block, name in (("a", "n1"), ("b", "n2")):
        for export in exports[block]:
            assert json.loads((tmp_path / export).read_text()) == {"results": [name]}
    [found] = NodeAssignment.read(tmp_path, 1).lost
    assert (found["node"], found["to"], found["blocks"]) == ("n1", "n2", [f"{STUDY}/b"])
    # Results of another recipe do not count.
    other_recipe = NodeWork({f"{STUDY}/a": "1"}, blocks, [], "login", {})
    assert cluster.collect_job(tmp_path, 1, other_recipe) == {f"{STUDY}/a": "n1"}


def test_run_that_measures_nothing_needs_no_job_and_has_the_results_that_exist(tmp_path):
    run = make_cluster(tmp_path)
    write_works(run)
    measuring = SamplingState(run.plan, is_cluster=True)
    exports = run.plan.exports_of_study(STUDY)
    assert measuring.exports_of_nodes(STUDY) == exports
    assert run.records() == ["results/cluster/job1.json", "results/cluster/job2.json"]
    for export, suffix in ((exports[0], ""), (exports[-1], "-of-another-recipe")):
        cell = CellRound.parse(export).cell
        write_result(tmp_path, export, run.plan.digest(STUDY, cell) + suffix, "n1")
    NodeAssignment.read(tmp_path, 1).fail("n1: some cells of log were not measured.")
    nothing = make_cluster(tmp_path, measure="nothing")
    reporting = SamplingState(nothing.plan, is_cluster=True)
    assert reporting.exports_of_nodes(STUDY) == exports[:1]
    assert reporting.exports(STUDY, lambda **_: None) == reporting.traces(STUDY) == []
    # The file changes when results of the job are collected.
    assert nothing.records() == ["results/cluster/job1.assignment.json"]
    assert SamplingState(nothing.plan).exports_of_nodes(STUDY) == []


@pytest.fixture
def on_node(tmp_path, monkeypatch):
    write_works(make_cluster(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setattr(node, "exit_on_signals", lambda **_: None)
    return monkeypatch


@pytest.mark.parametrize(
    ("part", "known"), [("processor", "Z80"), ("kernel", "2.6"), ("memory in GiB", 7777)]
)
def test_node_of_another_class_is_rejected(tmp_path, on_node, capsys, part, known):
    on_node.setattr(node, "_run", lambda *_: None)
    # The first node defines the class. It measures nothing, and the job fails.
    assert node.main(tmp_path, "1", "1", "record") == 1
    assert "were not measured" in capsys.readouterr().err
    path = tmp_path / node.CLASS
    path.write_text(json.dumps({**json.loads(path.read_text()), part: known}))
    on_node.setenv("SLURMD_NODENAME", "n2")
    assert node.main(tmp_path, "2", "1", "record") == 1
    assert re.search(f"n2: .* {part} is .* {known} on n1", capsys.readouterr().err)
    assert NodeAssignment.read(tmp_path, 2).rejected[0]["node"] == "n2"
    assert not Path("record").exists()
    # A failed job is not tried again in the same run.
    assert node.main(tmp_path, "1", "2", "record") == 1
    assert "not tried again" in capsys.readouterr().err
    # The first attempt of the next run tries it. Files of other versions may have other fields.
    for kind in ("work", "assignment"):
        path = cluster.job_file(tmp_path, 1, kind)
        path.write_text(json.dumps({**json.loads(path.read_text()), "run": "1"}))
    on_node.setenv("SLURMD_NODENAME", "n1")
    (tmp_path / node.CLASS).unlink()
    assert node.main(tmp_path, "1", "1", "record") == 1
    assert "not tried again" not in capsys.readouterr().err


def test_assignment_of_a_successful_job_is_newer_than_reports_without_its_results(
    tmp_path, on_node
):
    work = NodeWork.read(tmp_path, 1)
    file = cluster.job_file(tmp_path, 1, "assignment")

    def measure(folder, _):
        for exports in work.blocks.values():
            for export in exports:
                digest = work.digests[f"{STUDY}/{CellRound.parse(export).cell}"]
                write_result(folder, export, digest, "n1")
        # A report is made before the results are collected.
        os.utime(file, (1, 1))

    on_node.setattr(node, "_run", measure)
    assert node.main(tmp_path, "1", "1", "record") == 0
    assert Path("record").exists() and file.stat().st_mtime > 1
    assignment = NodeAssignment.read(tmp_path, 1)
    assert (assignment.node, assignment.reason) == ("n1", "")


def test_node_with_other_programs_or_that_started_the_run_is_refused(tmp_path, on_node, capsys):
    path = tmp_path / "results" / "cluster" / "job1.work.json"
    work = json.loads(path.read_text())
    name = min(work["digests"])
    work["digests"][name] = "0"
    path.write_text(json.dumps(work))
    assert node.main(tmp_path, "1", "1", "record") == 1
    assert f"{name} differently" in capsys.readouterr().err
    on_node.delenv("SLURMD_NODENAME")
    assert node.main(tmp_path, "1", "1", "record") == 1
    assert "on this node" in capsys.readouterr().err


def test_node_error_of_the_system_fails_the_job_with_one_sentence(tmp_path, on_node, capsys):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data")

    on_node.setattr(node, "_run", fail)
    assert node.main(tmp_path, "1", "1", "record") == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"n1: /data: {os.strerror(errno.ENOSPC)}. ")
    assert printed.count("\n") == 1
    assert NodeAssignment.read(tmp_path, 1).reason == printed.strip()
    assert not Path("record").exists()
    # The next attempt measures nothing.
    assert node.main(tmp_path, "1", "2", "record") == 1
    assert "not tried again" in capsys.readouterr().err


def test_node_clean_error_of_the_system_is_one_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / node.CONFIG).parent.mkdir()
    (tmp_path / node.CONFIG).write_text('{"scratch": "/x"}')

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(node, "clean_checkout", fail)
    assert node.clean_folder(tmp_path) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"{tmp_path}: {os.strerror(errno.EIO)}. ")
    assert printed.count("\n") == 1


def test_clean_nodes_without_scheduler_keeps_other_nodes(tmp_path, monkeypatch):
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    run = make_cluster(tmp_path, scratch=str(tmp_path), storages={"disk": str(tmp_path)})
    write_works(run)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    repositories = {"ruby": {"source": "svn", "url": "svn://localhost/r"}}
    config = json.dumps({**run.plan.config.content, "repositories": repositories})
    folders = {name: cluster.make_node_folder(tmp_path, 1, name) for name in ("n1", "n2")}
    for folder in folders.values():
        (folder / ".vcsbench").mkdir()
        (folder / node.CONFIG).write_text(config)
    places = {name: WorkDir(tmp_path, folder) for name, folder in folders.items()}
    for place in places.values():
        place.make("repositories")
    monkeypatch.setenv("PATH", str(Fakes(tmp_path).bin))
    lines = cluster.clean_nodes(tmp_path)
    assert f"n1: removed {places['n1'].path}" in lines
    assert not places["n1"].path.exists() and not folders["n1"].exists()
    assert places["n2"].path.exists() and folders["n2"].exists()
    assert any(line.startswith("n2: not removed.") for line in lines)


def test_cluster_relative_storage_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"`storages.disk`: 'here' .*relative"):
        make_cluster(tmp_path, storages={"disk": "here"})


def test_assign_blocks_known_blocks_stay():
    before = assign_blocks({"s/a": 9, "s/b": 1}, 2, {})
    after = assign_blocks({"s/a": 9, "s/b": 1, "s/c": 30}, 2, before)
    assert {block: after[block] for block in before} == before
    assert after["s/c"] == before["s/b"]
    # With fewer nodes, the blocks of the missing one move.
    assert set(assign_blocks({"s/a": 9, "s/b": 1}, 1, before).values()) == {1}


def test_jobs_after_a_run_on_fewer_nodes_keep_its_assignment(tmp_path):
    assigned = []
    for nodes in (2, 1, 2):
        run = make_cluster(tmp_path, cluster={"nodes": nodes, "class": "bench", "cores": 4})
        run.store_jobs()
        assigned.append({*run.jobs.values()})
    assert assigned == [{1, 2}, {1}, {1}]


def test_blocks_that_a_run_lacks_keep_their_jobs(tmp_path):
    # Alone, the last block would go to job 1.
    run = make_cluster(tmp_path)
    run.store_jobs()
    name = max(block for block, job in run.jobs.items() if job == 2)
    part = {**PART, "command": name.split("/")[1]}
    for grid in ({**PART, "command": "null-log"}, part):
        run2 = make_cluster(tmp_path, grid={STUDY: {"include": [grid]}})
        run2.store_jobs()
    assert run2.jobs[name] == 2


def test_digest_of_job_changes_only_with_its_own_cells(tmp_path):
    run = make_cluster(tmp_path)
    run.store_jobs()
    before = [run.digest(number) for number in (1, 2)]
    blocks = set(run.jobs)
    more = {**PART, "command": "null-export", "cache": "hot-os"}
    after = make_cluster(tmp_path, grid={STUDY: {"include": [PART, more]}}, duplicates=1)
    changed = {job for block, job in after.jobs.items() if block not in blocks}
    assert changed
    for number in (1, 2):
        assert (after.digest(number) == before[number - 1]) == (number not in changed)


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(1, 50)), st.integers(1, 5))
def test_assign_blocks_is_even(sizes, count):
    shares = assign_blocks(sizes, count, {})
    assert shares.keys() == sizes.keys()
    load = Counter(dict.fromkeys(range(1, count + 1), 0))
    for block, number in shares.items():
        load[number] += sizes[block]
    assert load.keys() == set(range(1, count + 1))
    assert max(load.values()) - min(load.values()) <= max(sizes.values(), default=0)


def test_jobs_are_sent_to_their_nodes(tmp_path, monkeypatch):
    run, programs = make_cluster(tmp_path), Fakes(tmp_path)
    programs.add("sinfo", 'echo "n1 idle"; echo "n2 down*"; echo "n4 idle"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    write_works(run)
    assert (run.constraint, run.cores) == ({"constraint": "bench"}, 4)
    assert run.slurm_extra(1, 1) == "--exclusive"
    NodeAssignment.read(tmp_path, 1).move("n1", [])
    assert run.slurm_extra("1", 2) == "--exclusive --nodelist=n1"
    NodeAssignment.read(tmp_path, 2).move("n2", [])
    assert run.slurm_extra(2, 2) == "--exclusive --exclude=n2"
    NodeAssignment.read(tmp_path, 2).reject("n3", "its kernel is another")
    NodeAssignment.read(tmp_path, 2).move("n1", ["log"])
    assert run.slurm_extra(2, 3) == "--exclusive --nodelist=n1"
    assert run.avoided(2) == ["n2", "n3"]
    named = make_cluster(tmp_path, cluster={"nodes": ["n4", "n1"]})
    assert (named.host(1, 1), named.host(2, 1), named.constraint) == ("n1", "n1", {})
    # Twice if a minute ends here.
    assert (tmp_path / "calls").read_text().count("sinfo") in (1, 2)


def of_job(state, code=""):
    return f"echo ' job_state = {state}'; echo ' Exit_status = {code}'"


@pytest.mark.parametrize(
    ("qstat", "job", "expected"),
    [
        (of_job("Q"), None, "running"),
        (of_job("R"), None, "running"),
        (of_job("F", 0), None, "success"),
        (of_job("F", 271), None, "failed"),
        ("exit 153", "true", "success"),  # forgotten
        ("exit 153", "false", "failed"),
        ("exit 153", None, "failed"),  # killed, or deleted
        ("exit 1", "true", "running"),  # the server does not answer
    ],
)
def test_generic_profile_status_is_that_of_the_job(tmp_path, monkeypatch, qstat, job, expected):
    programs, script = Fakes(tmp_path), tmp_path / "job"
    programs.add("qstat", qstat)
    qsub = 'for last; do :; done; PBS_JOBID=7.pbs sh "$last"; echo 7.pbs'
    programs.add("qsub", qsub, silent=True)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    profile = ROOT / "profiles" / "generic"
    if job:
        script.write_text(f"#!/bin/sh\n{job}")
        submitted = check_output([profile / "submit.sh", "4", "n1", script], text=True)
        assert submitted == "7.pbs\n"
    assert check_output([profile / "status.sh", "7.pbs"], text=True) == f"{expected}\n"
