"""Subversion's own program for repositories: it makes, loads, verifies, packs them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.storages import full

# The axis value of a format and the release that `svnadmin create --compatible-version` makes it for.
FORMATS = {"f6": "1.8", "f7": "1.9", "f8": "1.10"}


def run(*arguments: str | Path) -> None:
    """Run svnadmin; a UserError with the last line that it said if it fails, or the OSError that it met
    where the storage takes no more."""
    done = subprocess.run(
        ["svnadmin", *arguments], capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
        full.raise_said(done.stderr, Path(arguments[-1]))
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise UserError(f"svnadmin {arguments[0]} {arguments[-1]} failed: {said[-1]}")


def create(path: Path, fmt: str) -> None:
    """Create an empty repository of format `fmt` (a key of FORMATS)."""
    run("create", "--fs-type", "fsfs", "--compatible-version", FORMATS[fmt], path)
