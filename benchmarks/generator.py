"""Compare the generator of histories with `svnadmin load`: revisions per second, RAM to RAM, each alone.

usage: python benchmarks/generator.py [PROFILE SCALE]
The generator must be twice as fast, so that a preparation waits for the load only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rows import ROOT, Row, print_table, seconds

sys.path.insert(0, str(ROOT / "workflow"))

from vcsbench import sources

MIN_RATIO = 2.0


def main(profile: str, scale: float) -> None:
    """Generate a dump into RAM, load it there, and print a table."""
    source = sources.open_source("x", {"source": "generated", "profile": profile, "scale": scale})
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        dump, repository = Path(folder, "dump"), Path(folder, "repository")

        def generate() -> None:
            with dump.open("wb") as file:
                source.write(file)

        def load() -> None:
            with dump.open("rb") as file:
                argv = ["svnadmin", "load", "-q", "--no-flush-to-disk", str(repository)]
                subprocess.run(argv, stdin=file, check=True)

        subprocess.run(["svnadmin", "create", repository], check=True)
        revisions = source.expected_revisions()
        generating = revisions / seconds(generate)
        loading = revisions / seconds(load)
    what = f"{profile}: revisions generated per second (at least {MIN_RATIO} times as many)"
    print_table([Row(what, generating, loading, "/s", "`svnadmin load`")])


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else "ruby",
        float(sys.argv[2]) if len(sys.argv) > 2 else 0.05,
    )
