"""The report of what there is after a failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

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
LEFT_OUT = {"build", "load", "copies", "cell", "calls", "ceiling", "check", "checks", "published"}


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
