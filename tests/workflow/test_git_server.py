"""The study git-server: real clones, fetches and pushes over git's servers."""

import json
import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from git_canaries import HOOKS, canary, set_program_everywhere
from git_histories import FILE, Commit, Graph, listing, make_git
from git_histories import run as run_program
from project import DEFAULT, ROOT, invalid_flags, needs, ruby
from unit.study_grid import merge
from vcsbench.axes.build_axis import why_no_sshd
from vcsbench.config.validation import read_yaml
from vcsbench.machine_lock import machine_lock
from vcsbench.measure.round_measurement import RoundMeasurement
from vcsbench.measure.work import WORK_KINDS, UrlNormaliser
from vcsbench.programs import Programs
from vcsbench.run import project as run_project
from vcsbench.storages.workdir import run_folder
from vcsbench.systems.git_program import git_version

STUDY = "git-server"
CELL = {
    "access": "git", "repo": "project", "upkeep": "one-pack", "refs": "as-is", "ref_storage": "packed",
    "protocol": "2", "network": "loopback", "cache": "hot-os",
}  # fmt: skip
ACCESSES = ["git", "file", *["http"] * Programs().find_module("cgi").endswith(".so")]

pytestmark = [
    needs("git", "hyperfine"),
    pytest.mark.skipif(not Programs().find_git("git-daemon"), reason="no git-daemon"),
]


def measure(project, *parts):
    """Measure a small git repository, and return the runs."""
    project.configure(*parts, study=STUDY, repositories=ruby(0.006, "project", "git"))
    project.succeed("measured")
    return project.rows(f"measurements/{STUDY}.csv")


def check_protocols(project, runs):
    """The trace of each run must have the protocol of its label."""
    for run in runs:
        if run["protocol"]:
            trace = project.context(STUDY, run["cell"])["git_trace"]
            assert trace["protocol"] == run["protocol"]


def works(runs, command):
    """Return the works of a command's runs without the digest."""
    of_command = [json.loads(run["work"]) for run in runs if run["command"] == command]
    assert len({work["digest"] for work in of_command}) == 1, command
    return of_command


@pytest.mark.slow
def test_commands_do_the_same_work_over_each_access_and_upkeep(project):
    parts = [
        {**CELL, "command": "clone", "access": ACCESSES, "upkeep": ["one-pack", "many-packs"]},
        {**CELL, "command": ["clone-tree", "clone-shallow", "clone-blobless"]},
        {**CELL, "command": ["fetch", "push"], "upkeep": ["one-pack", "many-packs"]},
        {**CELL, "command": ["ls-remote", "ls-remote-heads"], "protocol": ["2", "0"], "ref_storage": "loose"},
        {**CELL, "command": ["log-graph", "log-path", "log-messages", "rev-list-count"]},
        {**CELL, "command": ["rev-list-objects", "blame", "status"], "upkeep": ["one-pack", "changed-paths"]},
    ]  # fmt: skip
    runs = measure(project, *parts)
    assert not invalid_flags(runs)
    check_protocols(project, runs)
    whole = works(runs, "clone")[0]
    assert works(runs, "fetch")[0]["digest"] == whole["digest"]
    tree = works(runs, "clone-tree")[0]
    assert tree["objects"] == whole["objects"] and tree["files"] > 0
    for command in ("clone-shallow", "clone-blobless"):
        partial = works(runs, command)[0]
        assert partial["objects"] < whole["objects"] and partial["files"] == tree["files"]
    # A file that a pushed commit changes is a new object, and the commit and its folders as well.
    assert works(runs, "push")[0]["objects"] >= whole["objects"] + 3
    for command in ("blame", "rev-list-objects", "ls-remote", "ls-remote-heads"):
        assert works(runs, command)[0]["lines"] > 0
    for run in runs:
        # Other programs may use the machine's network, so only traffic in one of the cell's own is counted.
        if run["network"] if "network" in run else run["access"] in ("git", "http"):
            context = project.context(STUDY, run["cell"])
            if context["network"] in ("own", "user"):
                assert float(run["wire_bytes"]) > 0
        # git-daemon and httpd themselves take less than the process that packs the objects.
        if run["command"] == "clone" and run["access"] in ("git", "http"):
            assert float(run["server_peak_memory_bytes"]) > 4 << 20
    by_command = {run["command"]: run for run in runs}
    assert int(float(by_command["clone"]["git_objects"])) == whole["objects"]
    assert 0 < int(float(by_command["fetch"]["git_objects"])) < whole["objects"]
    # No copy was changed by a push, and no target is left.
    (workdir,) = (project.path / "storage").glob("vcsbench-*")
    (copy,) = (workdir / "repositories").glob("project.git.one-pack.1")
    assert WORK_KINDS["git_clone"].inspect(copy, UrlNormaliser())["digest"] == whole["digest"]
    assert not any(
        Path(project.context(STUDY, run["cell"]).get("written", "/nonexistent")).exists()
        for run in runs
    )


def test_round_that_is_measured_again_has_the_counts_of_its_last_attempt(project):
    (run, *_) = measure(project, {**CELL, "command": "fetch"})
    keys = merge(read_yaml(DEFAULT), read_yaml(project.config))
    planned = run_project.Project(keys, project.path, [DEFAULT])
    recipe = json.loads(planned.plan.recipe_json(STUDY, run["cell"]))
    with machine_lock() as lock, run_folder(project.path) as folder, ExitStack() as stack:
        measured = RoundMeasurement(recipe, 1, folder, project.path)
        measured.open(stack)
        attempts = []
        for _ in range(2):
            measured.measure(lock)
            attempts.append(measured.describe())
    first, second = attempts
    assert first["git_trace"] == second["git_trace"] and first["git_trace"]["objects"] > 0
    # A trace has more than 1,000 bytes, and its times have digits that vary.
    written = [context["captured_io"]["wchar"] for context in attempts]
    assert abs(written[0] - written[1]) < 100


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_sshd()), reason=why_no_sshd())
def test_commands_do_the_same_work_over_ssh(project):
    part = {**CELL, "access": ["git", "ssh"]}
    # The checkout of the tests has the unpacked sshd.
    (project.path / ".tools").symlink_to((ROOT / ".tools").resolve())
    runs = measure(
        project,
        {**part, "command": ["clone", "push"]},
        {**part, "command": "ls-remote", "protocol": ["2", "0"]},
    )
    assert not invalid_flags(runs)
    check_protocols(project, runs)
    for command in ("clone", "push", "ls-remote"):
        assert {run["access"] for run in runs if run["command"] == command} == {"git", "ssh"}
        assert works(runs, command)


@pytest.mark.slow
def test_another_git_on_the_path_has_reftable(project, trixie_git, monkeypatch):
    monkeypatch.setenv("PATH", f"{trixie_git}/bin:{os.environ['PATH']}")
    part = {**CELL, "refs": "10", "ref_storage": ["packed", "reftable"]}
    runs = measure(project, {**part, "command": ["ls-remote", "clone"]})
    assert not invalid_flags(runs)
    assert {run["ref_storage"] for run in runs} == {"packed", "reftable"}
    for command in ("ls-remote", "clone"):
        assert works(runs, command)
    assert all(run["server_version"] == "2.47.3" for run in runs)
    (workdir,) = (project.path / "storage").glob("vcsbench-*")
    (copy,) = (workdir / "repositories").glob("project.git.*reftable*.1")
    listed = run_program(trixie_git / "bin" / "git", f"--git-dir={copy}", "for-each-ref")
    assert len(listed.splitlines()) == 10 and not (copy / "packed-refs").exists()


@pytest.mark.slow
def test_builds_of_git_are_compared_and_only_one_reads_a_reftable(project, trixie_git):
    served = {
        **CELL,
        "refs": "10",
        "command": ["clone", "ls-remote"],
        "ref_storage": ["packed", "reftable"],
    }
    # One build reuses several packs, and the other one refuses the setting.
    many_packs = {**CELL, "command": "clone", "upkeep": ["midx-bitmap", "midx-reuse"]}
    many_packs["access"] = ACCESSES
    keys = {"builds": {"system": {}, "trixie": {"prefix": str(trixie_git)}}}
    keys |= {"repositories": ruby(0.006, "project", "git")}
    study = "git-builds"
    project.configure(served, many_packs, study=study, **keys)
    project.succeed("measured")
    runs = project.rows(f"measurements/{study}.csv")
    assert not invalid_flags(runs)
    flags = {flag for run in runs for flag in run["flags"].split()}
    assert not {"libraries-unknown", "other-libraries", "libraries-differ"} & flags
    versions = {run["build"]: (run["client_version"], run["server_version"]) for run in runs}
    own = git_version()
    assert versions == {"system": (own, own), "trixie": ("2.47.3", "2.47.3")}
    assert {run["build"] for run in runs if run["ref_storage"] == "reftable"} == {"trixie"}
    assert {run["build"] for run in runs if run["upkeep"] == "midx-reuse"} == {"trixie"}
    assert {run["build"] for run in runs if run["upkeep"] == "midx-bitmap"} == {"system", "trixie"}
    skips = {row["skip"] for row in project.rows(f"grid/{study}.csv") if row["skip"]}
    assert skips == {
        f"reftable needs git 2.45 or later, and git is {own}",
        f"midx-reuse needs git 2.44 or later, and git is {own}",
    }
    # A clone of other refs is other work.
    for command, refs in (("clone", "10"), ("clone", "as-is"), ("ls-remote", "10")):
        assert works([run for run in runs if run["refs"] == refs], command)
    context = project.context(study, next(run["cell"] for run in runs if run["build"] == "trixie"))
    for side in ("client", "server"):
        assert context["build"][side]["program"].startswith(str(trixie_git))
        assert context["build"][side]["places"] == []
    (workdir,) = (project.path / "storage").glob("vcsbench-*")
    packs = {}
    for upkeep in ("midx-bitmap", "midx-reuse"):
        copy = workdir / "repositories" / f"project.git.{upkeep}.1"
        argv = [trixie_git / "bin" / "git", f"--git-dir={copy}", "pack-objects", "--stdout"]
        argv += ["--use-bitmap-index", "--revs", "--all", "--progress"]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        packs[upkeep] = int(re.search(rb"pack-reused \d+ \(from (\d+)\)", done.stderr)[1])
    assert packs["midx-bitmap"] <= 1 < packs["midx-reuse"]


def test_own_git_repository_is_measured_as_it_is_and_unchanged(project):
    own, canaries = project.path / "mine", project.path / "canaries"
    commits = [Commit({b"a": (FILE, b"%d\n" % n), b"d/%d" % n: (FILE, b"x")}) for n in range(9)]
    make_git(own, Graph(commits, {"main": 8, "side": 3}, {"v1": 2}, {"v2": 5}))
    whole = WORK_KINDS["git_clone"].inspect(own, UrlNormaliser())
    # Servers of root run as another user, who could leave a file, too.
    canaries.mkdir()
    canaries.chmod(0o777)
    set_program_everywhere(own, canary(canaries), (*HOOKS, "post-receive", "post-update"))
    assert "recentObjectsHook" in (own / "config").read_text()
    before = listing(own)
    part = {**CELL, "command": ["clone", "fetch", "push", "blame"], "upkeep": ["as-is", "one-pack"]}
    project.configure(part, study=STUDY, repository=str(own))
    project.succeed()
    runs = project.rows(f"measurements/{STUDY}.csv")
    assert {run["upkeep"] for run in runs} == {"as-is", "one-pack"}
    # The refs and objects of the clone are the user's.
    assert works(runs, "clone")[0] == whole
    assert listing(own) == before and not (canaries / "CANARY").exists()
    assert "A git repository and its server" in project.page(STUDY)
