"""A real run with lines between client and server."""

import os
import subprocess
from itertools import product

import pytest

from project import ROOT, invalid_flags, measurements_of, needs, ruby, servers_of
from vcsbench.codes import Result
from vcsbench.deployment.link import LINKS, why_no_link
from vcsbench.evidence.flags import BUSY_FLAGS, Flag
from vcsbench.machine import can_drop_caches
from vcsbench.programs import Programs

STUDY = "lines"
ROUNDS = 5
# The flags of runs that other programs disturb.
FOREIGN = BUSY_FLAGS | {Flag.OUTLIER_10, Flag.OUTLIER_20, Flag.MEMORY_PRESSURE}
WRITTEN = """
title: Lines between client and server
source: Nothing was published.
axes:
  command: [export]
  access: [svn, http, file]
  repo: repositories
  network: [loopback, namespace, office, line]
  cache: [hot, hot-server]
defaults: {format: f7, packing: nopack, config: default}
block: [command, repo, cache]
variance_group: [cache]
commands:
  export:
    argv: "{svn} export -q --ignore-externals {url}/{tree} {target}"
    input: repository
    output: target
    work: tree
tables:
  elapsed:
    metric: elapsed_s
    rows: [command, access, repo]
    columns: [network]
  loopback-vs-namespace:
    compare: {axis: network, baseline: loopback, candidates: [namespace]}
    rows: [command, access]
    columns: [cache]
"""
pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches"),
    pytest.mark.skipif(not Programs().httpd, reason="no httpd with mod_dav_svn"),
    pytest.mark.skipif(bool(why_no_link(LINKS["line"])), reason=why_no_link(LINKS["line"])),
]


def interfaces():
    return subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True).stdout


def write_study(project):
    # Set-up has built the relay there.
    (project.path / ".tools").symlink_to(ROOT / ".tools")
    (project.path / "config" / "studies" / f"{STUDY}.yaml").write_text(WRITTEN)
    (project.path / "config" / "published" / f"{STUDY}.csv").unlink(missing_ok=True)


@pytest.mark.slow
def test_cells_with_lines_do_the_same_work_and_have_its_delay(project):
    write_study(project)
    before = interfaces()
    project.configure({"command": "export", "cache": "hot"}, study=STUDY)
    project.succeed(measurements_of(STUDY))
    rows = project.rows(f"measurements/{STUDY}.csv")
    runs = {(row["access"], row["network"]): row for row in rows}
    networks = ("loopback", "namespace", "office", "line")
    assert runs.keys() == {("file", ""), *product(("svn", "http"), networks)}
    assert invalid_flags(runs.values()) == []
    assert len({row["work"] for row in runs.values()}) == 1
    for access in ("svn", "http"):
        # Nothing is measured on loopback: its recipe is the one of a study without this axis.
        assert runs[access, "loopback"]["line_round_trip_ms"] == ""
        near, far = runs[access, "namespace"], runs[access, "line"]
        assert float(near["line_round_trip_ms"]) < 0.3
        assert float(far["line_round_trip_ms"]) == pytest.approx(20, rel=0.05)
        # An export has at least a connection, a greeting and a request.
        assert float(far["elapsed_s"]) > float(near["elapsed_s"]) + 0.06
        contexts = {
            network: project.context(STUDY, f"export/{access}/ruby/{network}/hot")
            for network in networks
        }
        assert contexts["loopback"]["line"] is None
        assert contexts["loopback"]["server"]["argv"] != contexts["line"]["server"]["argv"]
        assert "192.0.2.2:" in " ".join(contexts["line"]["argv"])
        assert contexts["namespace"]["line"]["one_way_ms"] == 0
        assert contexts["line"]["line"]["delay_ms"] == 20
        assert 9 < contexts["line"]["line"]["one_way_ms"] <= 10
        assert {context["network"] for context in contexts.values()} == {"own"}
        assert "192.0.2.2:" in project.tool("show", f"export/{access}/ruby/line/hot")
    assert servers_of(project) == [] and interfaces() == before
    assert not os.path.isdir("/run/netns") or not os.listdir("/run/netns")


@pytest.mark.slow
def test_network_without_a_delay_equals_loopback(project):
    write_study(project)
    compared = measure_without_a_delay(project, ROUNDS)
    # One of twenty intervals misses equal times by chance, on a busy machine by more than the margin. More
    # rounds show if a difference stays.
    if any(row["result"] == Result.DIFFERENT for row in compared):
        compared = measure_without_a_delay(project, 3 * ROUNDS)
    assert {row["access"] for row in compared} == {"svn", "http"}
    for row in compared:
        assert float(row["n"]) >= ROUNDS and row["withheld"] == ""
        assert row["result"] and row["result"] != Result.DIFFERENT, row
        # The interval reaches into the margin of 10 % around equal times.
        assert float(row["low"]) < 1.1 and float(row["high"]) > 1 / 1.1, row
    rows = project.rows(f"measurements/{STUDY}.csv")
    assert invalid_flags(rows) == []
    assert len({row["work"] for row in rows}) == 1
    for access in ("svn", "http"):
        loopback, namespace = (
            flags_of(rows, access=access, network=network) for network in ("loopback", "namespace")
        )
        assert loopback == namespace


def measure_without_a_delay(project, rounds):
    """Measure exports on loopback and in the namespace in turns, and return their comparisons."""
    project.configure(
        {
            **{"command": "export", "access": ["svn", "http"], "cache": "hot-server"},
            "network": ["loopback", "namespace"],
        },
        study=STUDY,
        rounds=rounds,
        runs=5,
        duplicates=1,
        repositories=ruby(0.02),
    )
    project.succeed("measured", f"results/tables/{STUDY}")
    return project.rows(f"tables/{STUDY}/loopback-vs-namespace.csv")


def flags_of(rows, **where):
    """Return the flags of some runs, without those that other programs cause."""
    chosen = [row for row in rows if where.items() <= row.items()]
    assert chosen
    return {flag for row in chosen for flag in row["flags"].split()} - FOREIGN
