"""A program of known reads, run by hyperfine between hooks as cells are: what it reads is counted exactly."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from vcsbench import processes
from vcsbench.measure.hyperfine import Hooks, Hyperfine
from vcsbench.measure.run_evidence import EvidenceCollector

pytestmark = pytest.mark.skipif(not shutil.which("hyperfine"), reason="not installed: hyperfine")

BLOCK = 4096
RUNS = 3


def certificates(folder: Path, argv: list[str]) -> list[dict[str, Any]]:
    """The certificates of some runs of a command."""
    folder.mkdir()
    witness = EvidenceCollector(None, None, None, "")

    def answer(name: str) -> None:
        witness.end(hyperfine.pid)
        if name == "prepare":
            witness.begin(hyperfine.pid, is_timed=True)

    hooks = Hooks(folder, answer)
    hyperfine = Hyperfine(folder, hooks, argv, "", RUNS)
    held = os.open(os.devnull, os.O_RDONLY)
    assert hyperfine.run(os.environ, 60, held) == ""
    os.close(held)
    return witness.certificates


def reading(folder: Path, file: Path, blocks: int) -> list[str]:
    return ["dd", f"if={file}", "of=/dev/null", f"bs={BLOCK}", f"count={blocks}", "status=none"]


def test_reads_are_counted_to_the_byte_and_the_call_in_every_run(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * BLOCK * 700)
    few, many = (
        [
            (seen["client_rchar"], seen["client_syscr"])
            for seen in certificates(tmp_path / str(n), reading(tmp_path, file, n))
        ]
        for n in (100, 600)
    )
    # The hook's shell, hyperfine and the loader of libraries read as much each time.
    assert len({*few}) == len({*many}) == 1 and len(few) == RUNS
    assert many[0][0] - few[0][0] == 500 * BLOCK
    assert many[0][1] - few[0][1] == 500
    assert few[0][0] - 100 * BLOCK < 64 * 1024 and few[0][1] - 100 < 100


def test_a_certificate_says_why_it_has_no_instructions(tmp_path: Path) -> None:
    seen = certificates(tmp_path / "x", ["true"])[0]
    assert ("client_instructions" in seen) != bool(seen["instructions_why_not"])


def test_a_server_that_may_not_be_asked_about_has_no_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert processes.can_read_io(os.getpid())
    monkeypatch.setattr(processes, "read", lambda path: "")
    assert not processes.can_read_io(os.getpid())
