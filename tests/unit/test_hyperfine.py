"""The real hyperfine: its hooks, and exact counts of a program with known reads."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from project import needs
from vcsbench.errors import UserError
from vcsbench.measure.hyperfine import Hooks, Hyperfine
from vcsbench.measure.run_evidence import EvidenceCollector

pytestmark = needs("hyperfine")
BLOCK = 4096
RUNS = 3


def serve(folder: Path, hooks: Hooks, command: str, limit_s: float = 20) -> None:
    """Run hyperfine with the hooks."""
    names = ("setup", "prepare", "cleanup")
    options = [word for name in names for word in (f"--{name}", hooks.command(name))]
    argv = ["hyperfine", "-N", "--warmup", "1", "--runs", "2", *options, command]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        hooks.serve(process.pid, limit_s)
    finally:
        process.kill()
        process.wait()


def test_hooks_serve_calls_in_order_of_hyperfine(tmp_path: Path) -> None:
    calls: list[str] = []
    folder = tmp_path / "with 'quotes' and spaces"
    folder.mkdir()
    serve(folder, Hooks(folder, calls.append), "sh -c 'exit 0'")
    assert calls == ["setup", "prepare", "prepare", "prepare", "cleanup"]


def test_hooks_serve_error_of_a_hook_is_raised(tmp_path: Path) -> None:
    def answer(name: str) -> None:
        if name == "prepare":
            raise UserError("the server did not start")

    with pytest.raises(UserError, match="the server did not start"):
        serve(tmp_path, Hooks(tmp_path, answer), "true")


def test_hooks_serve_run_over_limit_is_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"longer than 0\.3 s"):
        serve(tmp_path, Hooks(tmp_path, lambda name: None), "sleep 30", limit_s=0.3)


def test_hooks_under_any_umask_have_pipes_for_their_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        hooks = Hooks(tmp_path, lambda name: None)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in hooks.folder.iterdir()}
    assert modes == {"ask": 0o600, "answer": 0o600}
    assert stat.S_IMODE(hooks.folder.stat().st_mode) == 0o700


def evidence_of_runs(folder: Path, *argv: str) -> list[dict[str, Any]]:
    folder.mkdir()
    collector = EvidenceCollector(None, None, None, "")

    def answer(name: str) -> None:
        collector.end(hyperfine.pid)
        if name == "prepare":
            collector.begin(hyperfine.pid, is_timed=True)

    hyperfine = Hyperfine(folder, Hooks(folder, answer), list(argv), "", RUNS)
    with open(os.devnull) as null:
        assert hyperfine.run(os.environ, 60, null.fileno()) == ""
    return collector.certificates


def test_evidence_counts_bytes_and_calls_exactly_in_each_run(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * BLOCK * 700)
    counts = []
    for blocks in (100, 600):
        argv = [f"if={file}", "of=/dev/null", f"bs={BLOCK}", f"count={blocks}", "status=none"]
        runs = evidence_of_runs(tmp_path / str(blocks), "dd", *argv)
        # The shell of the hook, hyperfine and the loader read the same number of bytes each time.
        assert (
            len(runs) == RUNS and len({(r["client_rchar"], r["client_syscr"]) for r in runs}) == 1
        )
        counts.append((runs[0]["client_rchar"], runs[0]["client_syscr"]))
    (few_bytes, few_calls), (many_bytes, many_calls) = counts
    assert many_bytes - few_bytes == 500 * BLOCK
    assert many_calls - few_calls == 500
    assert few_bytes - 100 * BLOCK < 64 * 1024 and few_calls - 100 < 100


def test_evidence_has_instructions_or_reason(tmp_path: Path) -> None:
    run = evidence_of_runs(tmp_path / "x", "true")[0]
    assert ("client_instructions" in run) != bool(run["instructions_why_not"])
