"""The channel between hyperfine's hooks and the process that runs the cell, with the real hyperfine."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from vcsbench.errors import UserError
from vcsbench.measure.hyperfine import Hooks

pytestmark = pytest.mark.skipif(not shutil.which("hyperfine"), reason="not installed: hyperfine")


def serve(folder: Path, hooks: Hooks, command: str, limit_s: float = 20) -> int:
    """Run hyperfine with the hooks; returns its exit code."""
    named = [
        word
        for name in ("setup", "prepare", "cleanup")
        for word in (f"--{name}", hooks.command(name))
    ]
    process = subprocess.Popen(
        ["hyperfine", "-N", "--warmup", "1", "--runs", "2", *named, command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        hooks.serve(process.pid, limit_s)
    finally:
        process.kill()
        process.wait()
    return process.returncode


def test_hooks_come_in_hyperfines_order_and_are_waited_for(tmp_path: Path) -> None:
    heard: list[str] = []
    folder = tmp_path / "with 'quotes' and spaces"
    folder.mkdir()
    hooks = Hooks(folder, heard.append)
    serve(folder, hooks, "sh -c 'exit 0'")
    assert heard == ["setup", "prepare", "prepare", "prepare", "cleanup"]


def test_what_a_hook_raises_ends_the_cell(tmp_path: Path) -> None:
    def answer(name: str) -> None:
        if name == "prepare":
            raise UserError("the server did not start")

    with pytest.raises(UserError, match="the server did not start"):
        serve(tmp_path, Hooks(tmp_path, answer), "true")


def test_a_run_over_the_limit_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a run took longer than 0\.3 s and was ended"):
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
