"""Imports of the process of a cell-round, which starts thousands of times."""

import json
import os
import subprocess
import sys

from project import ROOT

# Each takes several milliseconds of every cell-round, or hundreds.
SLOW = (
    "pandas",
    "numpy",
    "yaml",
    "pydantic",
    "dataclasses",
    "inspect",
    "logging",
    "platform",
)


def test_measuring_process_imports_no_slow_module():
    program = "import json, sys, vcsbench.run.cell; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
        capture_output=True,
        text=True,
        check=True,
    )
    modules = json.loads(done.stdout)
    assert "vcsbench.measure.cell_round" in modules
    assert not set(SLOW) & set(modules)
