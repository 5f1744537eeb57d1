"""The report of what there is after a failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from vcsbench.run import partial

# Makes the report by another program than Snakemake: one that says who it is, and stays.
PARENT = """
import sys
from pathlib import Path
from vcsbench.run import partial
sys.executable = sys.argv[1]
partial._make(Path(), {}, "Snakefile")
"""
CHILD = "#!/bin/sh\necho $$ > pid\nexec sleep 60\n"
PATIENCE_S = 20

RULES = Path(__file__).parents[2] / "workflow" / "rules"
# What prepares and measures, and targets of a user's own.
LEFT_OUT = {"build", "load", "copies", "cell", "calls", "ceiling", "check", "checks"}
LEFT_OUT |= {"published", "share"}


def test_all_rules_behind_the_cells_may_run() -> None:
    found = {
        name
        for path in RULES.glob("*.smk")
        for name in re.findall(
            r"^(?:rule|use rule \w+ as) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert found >= LEFT_OUT
    assert found - LEFT_OUT == set(partial.RULES) - {"all"}
    # Those that have their names from a study's file.
    named = re.findall(r"^    rule:\n +name:\n +NAME\n", all_text(), re.MULTILINE)
    assert len(named) == 1 and "in inputs.tables_by_rule()" in all_text()


def test_the_rules_of_tables_may_run() -> None:
    asked: list[list[str]] = []
    ended = subprocess.CompletedProcess([], 0)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".snakemake").mkdir()
        patch.setattr(subprocess, "run", lambda argv, **_: asked.append(argv) or ended)
        partial._make(Path(folder), {}, "Snakefile")
    allowed = asked[0][asked[0].index("--allowed-rules") :]
    assert {"measured_tables_of_builds", "published_tables_of_fsfs-san-2014"} <= {*allowed}
    assert "published_tables_of_builds" not in allowed and "cell" not in allowed


def all_text() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in RULES.glob("*.smk"))


def test_it_ends_with_the_run_that_started_it(tmp_path: Path) -> None:
    (tmp_path / ".snakemake").mkdir()
    child, pid = tmp_path / "child", tmp_path / "pid"
    child.write_text(CHILD)
    child.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(RULES.parent)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, child], cwd=tmp_path, env=environment)
    ends = time.monotonic() + PATIENCE_S
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < ends and parent.poll() is None
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    process = Path("/proc", pid.read_text().strip(), "comm")
    while process.exists() and process.read_text() == "sleep\n":
        assert time.monotonic() < ends, "it outlived the run"
        time.sleep(0.02)
