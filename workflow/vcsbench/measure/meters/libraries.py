"""Which of Subversion's libraries a client and a server have really loaded."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vcsbench import processes

SUBVERSION = re.compile(r"(/\S*/(?:libsvn_[^/\s]*\.so|mod_dav_svn\.so)[^/\s]*)$", re.MULTILINE)
LIMIT_S = 60


def by_client(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path
) -> list[str] | None:
    """The libraries that a command loads, which is run for it, untimed; `folder` takes what its loader
    tells. None where the loader tells nothing: the program is static, or its C library is not glibc."""
    told = folder / "loaded"
    asked = {**environment, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(told)}
    try:
        subprocess.run(
            argv, env=asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # A file for each process: a wrapper's shell has one, too.
    texts = [path.read_text(errors="replace") for path in folder.glob("loaded.*")]
    lines = [line for text in texts for line in text.splitlines() if "calling init: " in line]
    return _resolved(SUBVERSION.findall("\n".join(lines))) if lines else None


def by_server(pid: int) -> list[str]:
    """The libraries that a running server and its children have mapped."""
    return mapped("\n".join(map(processes.maps, processes.family(pid))))


def mapped(maps: str) -> list[str]:
    """The libraries of what /proc/PID/maps says."""
    return _resolved(SUBVERSION.findall(maps))


def _resolved(paths: Iterable[str]) -> list[str]:
    return sorted({os.path.realpath(path) for path in set(paths)})
