"""Subversion's own program for repositories: it makes, loads, verifies, packs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.storages import full

# The axis value of a format and the release that `svnadmin create --compatible-version` makes it for.
FORMATS = {"f6": "1.8", "f7": "1.9", "f8": "1.10"}


def run(*arguments: str | Path, hears: Callable[[str], None] | None = None) -> None:
    """Run svnadmin; `hears` gets each line that it says of how far it is. A UserError with the last line that
    it said if it fails, or the OSError that it met where the storage takes no more."""
    with (
        # In memory: the disk may be full, and that is then what has to be said.
        os.fdopen(os.memfd_create("svnadmin"), "w+", errors="replace") as errors,
        subprocess.Popen(
            ["svnadmin", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout
        try:
            for line in process.stdout:
                if hears:
                    hears(line)
        except BaseException:
            process.kill()
            raise
        if process.wait() != 0:
            errors.seek(0)
            said = errors.read()
            full.raise_said(said, Path(arguments[-1]))
            last = (said.strip().splitlines() or ["it said nothing"])[-1]
            raise UserError(f"svnadmin {arguments[0]} {arguments[-1]} failed: {last}")


def create(path: Path, fmt: str) -> None:
    """Create an empty repository of format `fmt` (a key of FORMATS)."""
    run("create", "--fs-type", "fsfs", "--compatible-version", FORMATS[fmt], path)
