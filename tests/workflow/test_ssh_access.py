"""Cells over svn+ssh: the same work as over svn, complete evidence, and no key that is left."""

import pytest

from project import ROOT, STUDY, invalid_flags, needs, servers_of
from vcsbench.axes.build_axis import why_no_sshd
from vcsbench.deployment.link import LINKS, why_no_link
from vcsbench.machine import can_drop_caches

pytestmark = [
    pytest.mark.slow,
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(bool(why_no_sshd()), reason=why_no_sshd()),
    pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches"),
]

PART = {
    "command": ["log", "export"],
    "access": ["svn", "svn+ssh"],
    "format": "f7",
    "packing": "nopack",
    "config": "fast",
    "cache": ["cold", "hot-os", "hot-server"],
}


@pytest.fixture(scope="module")
def measured(shared_project):
    study = shared_project.path / "config/studies" / f"{STUDY}.yaml"
    text = study.read_text()
    study.write_text(
        text.replace("access: [http, svn, file]", 'access: [http, svn, "svn+ssh", file]', 1)
    )
    # The checkout of the tests has the unpacked sshd.
    (shared_project.path / ".tools").symlink_to((ROOT / ".tools").resolve())
    temporary = shared_project.path / "tmp"
    temporary.mkdir()
    shared_project.configure(PART)
    shared_project.succeed("measured", f"results/tables/{STUDY}", TMPDIR=str(temporary))
    return shared_project


def cell_of(command, access, cache):
    return f"{command}/{access}/ruby/f7/nopack/fast/{cache}"


@pytest.mark.parametrize("cache", ["cold", "hot-os"])
@pytest.mark.parametrize("command", ["log", "export"])
def test_run_over_svn_ssh_does_the_work_of_svn(measured, command, cache):
    of_svn = measured.context(STUDY, cell_of(command, "svn", cache))
    of_ssh = measured.context(STUDY, cell_of(command, "svn+ssh", cache))
    assert of_ssh["runs"][0]["work"] == of_svn["runs"][0]["work"]
    evidence = of_ssh["runs"][0]["evidence"]
    # sshd copies what svnserve sends.
    assert evidence["server_wchar"] > 1.5 * of_svn["runs"][0]["evidence"]["server_wchar"]
    if cache == "cold":
        assert evidence["server_read_bytes"] > 0
    assert of_ssh["server"]["kind"] == "sshd"
    assert "--tunnel" in of_ssh["server"]["subversion_argv"]
    build = of_ssh["build"]["server"]
    assert build["libraries"] == of_svn["build"]["server"]["libraries"]
    assert build["version"] == of_ssh["versions"]["svnserve"]
    assert of_ssh["versions"]["ssh"] and of_ssh["versions"]["sshd"]


def test_runs_over_svn_ssh_are_valid_and_kept_servers_are_skipped(measured):
    rows = measured.rows(f"measurements/{STUDY}.csv")
    assert {row["access"] for row in rows} == {"svn", "svn+ssh"}
    assert invalid_flags(row for row in rows if row["access"] == "svn+ssh") == []
    grid = [row for row in measured.rows(f"grid/{STUDY}.csv") if row["access"] == "svn+ssh"]
    reasons = {row["cache"]: row["skip"] for row in grid if row["repo"] != "empty"}
    assert "keeps no cache" in reasons.pop("hot-server")
    assert set(reasons.values()) == {""}
    assert any(row["repo"] == "empty" for row in grid)


def test_results_of_svn_ssh_have_no_key_and_leave_nothing(measured):
    for path in (measured.path / "results").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"PRIVATE KEY" not in content and b"ssh-ed25519 AAAA" not in content, path
    assert list((measured.path / "tmp").glob("vcsbench-*")) == []
    assert servers_of(measured) == []


DEPLOYED = """
title: An export and a commit
source: Nothing was published.
axes:
  command: [export, commit]
  access: [svn, svn+ssh]
  repo: repositories
  network: [namespace, line]
  hooks: [none, shell]
  cache: [hot-os]
defaults: {format: f7, packing: nopack, config: default}
block: [command, repo, cache]
variance_group: [cache]
commands:
  export:
    argv: "{svn} export -q --ignore-externals {url}/{tree} {target}"
    input: repository
    output: target
    work: tree
    inapplicable_axes: [hooks]
  commit:
    argv: "{svn} commit -q -m commit {working_copy}"
    input: committed_repository
    output: changed_working_copy
    change: one-file
    work: commit
    fixed_cost: false
    inapplicable_axes: [network]
tables:
  elapsed:
    metric: elapsed_s
    rows: [command, access, repo]
    columns: [network, hooks]
"""


def measure(project, command, axis):
    """Measure a command over both accesses, and return its runs by access and value of an axis."""
    (project.path / ".tools").symlink_to((ROOT / ".tools").resolve())
    (project.path / "config/studies/deployed.yaml").write_text(DEPLOYED)
    project.configure({"command": command}, study="deployed")
    project.succeed("results/measurements/deployed.csv")
    rows = project.rows("measurements/deployed.csv")
    runs = {(row["access"], row[axis]): row for row in rows if row["command"] == command}
    assert len(runs) == 4 and invalid_flags(runs.values()) == []
    assert len({row["work"] for row in runs.values()}) == 1
    return runs


@pytest.mark.skipif(bool(why_no_link(LINKS["line"])), reason=why_no_link(LINKS["line"]))
def test_run_over_svn_ssh_and_a_line_takes_its_round_trips(project):
    runs = measure(project, "export", "network")
    near, far = (
        {network: float(runs[access, network]["elapsed_s"]) for network in ("namespace", "line")}
        for access in ("svn", "svn+ssh")
    )
    # The login of ssh takes some round trips of 20 ms more.
    assert far["line"] - far["namespace"] > near["line"] - near["namespace"] + 0.06


def test_commit_over_svn_ssh_does_the_work_of_svn_and_runs_hooks(project):
    runs = measure(project, "commit", "hooks")
    assert {hooks for _, hooks in runs} == {"none", "shell"}
