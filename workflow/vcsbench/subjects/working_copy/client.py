"""What is done with a working copy by Subversion's client, outside of what is timed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.programs import CLIENT_ENVIRONMENT

# No folder of settings can be made there. With a `--config-dir`, the client reads neither the settings of the
# user nor those in /etc/subversion.
NO_SETTINGS = ("--config-dir", "/proc/self/no-settings")
OPTIONS = ("--non-interactive", "--config-option", "config:working-copy:exclusive-locking=yes")


def run(svn: str, *words: str | Path, user_settings: bool = False) -> str:
    """Return the output of `svn`. Raise UserError with its last lines if it fails.

    `user_settings`: with the user's own settings, which have the passwords and proxies of his repositories.
    """
    settings = () if user_settings else NO_SETTINGS
    done = subprocess.run(
        [svn, *map(str, words), *OPTIONS, *settings],
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        env={**os.environ, **CLIENT_ENVIRONMENT},
    )
    if done.returncode:
        last = " ".join(done.stderr.strip().splitlines()[-3:])
        raise UserError(f"svn {words[0]}: exits with {done.returncode}: {last}")
    return done.stdout.strip()


def relocate(svn: str, path: Path, url: str) -> None:
    """Tell a working copy where its repository is served now."""
    run(svn, "relocate", url, path)


def check_clean(svn: str, path: Path, revision: int) -> None:
    """A UserError where a working copy is not whole at a revision, or has changes."""
    said = run(svn, "status", path).splitlines()
    if said:
        raise UserError(
            f"{path}: the working copy is not clean after the runs: {said[0]} (and {len(said) - 1} more)"
        )
    at = run(svn, "info", "--show-item", "revision", path)
    if at != str(revision):
        raise UserError(
            f"{path}: the working copy is at revision {at} after the runs, not at {revision}"
        )
