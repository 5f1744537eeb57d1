"""The generator against `svnadmin load`: revisions per second, RAM to RAM, each alone.

usage: python benchmarks/generator.py [PROFILE SCALE]
Prints revisions per second of both and the ratio; the generator is to be at least twice as fast, so
that loading, and not generating, is what a preparation waits for.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rows import ROOT, Row, show

sys.path.insert(0, str(ROOT / "workflow"))

from vcsbench import sources

AT_LEAST = 2.0


def main(profile: str, scale: float) -> None:
    """Generate into a file in RAM, load from it, and print a row of a table."""
    source = sources.open_source("x", {"source": "generated", "profile": profile, "scale": scale})
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        dump = Path(folder, "dump")
        begun = time.monotonic()
        with dump.open("wb") as file:
            revisions = source.write(file).revisions
        generating = time.monotonic() - begun
        repository = Path(folder, "repository")
        subprocess.run(["svnadmin", "create", repository], check=True)
        begun = time.monotonic()
        with dump.open("rb") as file:
            load = ["svnadmin", "load", "-q", "--no-flush-to-disk", repository]
            subprocess.run(load, stdin=file, check=True)
        loading = time.monotonic() - begun
    show(
        [
            Row(
                f"{profile}: revisions generated per second (a ratio of {AT_LEAST} is wanted)",
                revisions / generating,
                revisions / loading,
                "/s",
                "`svnadmin load`",
            )
        ]
    )


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else "ruby",
        float(sys.argv[2]) if len(sys.argv) > 2 else 0.05,
    )
