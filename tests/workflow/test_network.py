"""A real run with lines between client and server."""

import os
import subprocess
from itertools import product

import pytest

from project import ROOT, invalid_flags, measurements_of, needs, servers_of
from vcsbench.deployment.link import LINKS, why_no_link
from vcsbench.machine import can_drop_caches
from vcsbench.programs import Programs

STUDY = "lines"
WRITTEN = """
title: Lines between client and server
source: Nothing was published.
axes:
  command: [export]
  access: [svn, http, file]
  repo: repositories
  network: [loopback, namespace, office, line]
  cache: [hot]
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
"""
pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches"),
    pytest.mark.skipif(not Programs().httpd, reason="no httpd with mod_dav_svn"),
    pytest.mark.skipif(bool(why_no_link(LINKS["line"])), reason=why_no_link(LINKS["line"])),
]


def interfaces():
    return subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True).stdout


@pytest.mark.slow
def test_cells_with_lines_do_the_same_work_and_have_its_delay(project):
    # Set-up has built the relay there.
    (project.path / ".tools").symlink_to(ROOT / ".tools")
    (project.path / "config" / "studies" / f"{STUDY}.yaml").write_text(WRITTEN)
    (project.path / "config" / "published" / f"{STUDY}.csv").unlink(missing_ok=True)
    before = interfaces()
    project.configure({"command": "export"}, study=STUDY)
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
