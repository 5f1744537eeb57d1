"""Subversion's own program for repositories: it makes, loads, verifies, packs them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from vcsbench.errors import UserError
from vcsbench.formats import RELEASES, Made, made_of, release_settings, settings_text
from vcsbench.storages import full

T = TypeVar("T")
FORMATS = dict(RELEASES)
_ERROR = re.compile(r"svn\w+: E\d")


def run(*arguments: str | Path, hears: Callable[[str], None] | None = None) -> None:
    """Run svnadmin; `hears` gets each line that it says of how far it is. It fails as reading() does."""

    def hear(output: IO[bytes]) -> None:
        for line in output:
            if hears:
                hears(line.decode(errors="replace"))

    reading(hear, *arguments)


def reading(read: Callable[[IO[bytes]], T], *arguments: str | Path, program: str = "svnadmin") -> T:
    """Run svnadmin (or svnlook), and return what `read` makes of its output. A UserError with the last line
    that it said if it fails, or the OSError that it met where the storage takes no more."""
    with (
        # In memory: the disk may be full, and that is then what has to be said.
        os.fdopen(os.memfd_create("svnadmin"), "w+", errors="replace") as errors,
        subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            # Paths as they are, and messages that full.raise_said() knows.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            umask=0o022,  # what it makes is served by another user
        ) as process,
    ):
        assert process.stdout
        try:
            found = read(process.stdout)
        except BaseException:
            process.kill()
            raise
        if process.wait() != 0:
            errors.seek(0)
            said = errors.read()
            full.raise_said(said, Path(arguments[-1]))
            raise UserError(f"{program} {arguments[0]} {arguments[-1]} failed: {_reason(said)}")
    return found


def _reason(said: str) -> str:
    """Return the last error of a program: a checksum's error has more lines behind it."""
    lines = said.strip().splitlines() or ["it said nothing"]
    return next((line for line in reversed(lines) if _ERROR.match(line)), lines[-1])


def create(path: Path, fmt: str) -> None:
    """Create an empty repository of format `fmt` (a value of the axis) with the settings of its release."""
    made = made_of(fmt)
    run("create", "--fs-type", "fsfs", "--compatible-version", FORMATS[made.created], path)
    configure(path, made._replace(format=made.created))
    if made.is_upgraded:
        upgrade(path, made)


def upgrade(path: Path, made: Made) -> None:
    """Upgrade a repository in place, and give it the settings of the release that it is upgraded to."""
    run("upgrade", path)
    configure(path, made)


def configure(path: Path, made: Made) -> None:
    """Write db/fsfs.conf as the release that introduced a format did."""
    settings = release_settings(made)
    if settings:
        (path / "db" / "fsfs.conf").write_text(settings_text(settings))
