"""The walk through a dump file before it is loaded, against `svnadmin load` of it, RAM to RAM.

usage: python benchmarks/dumpwalk.py [SCALE]
The dump is svnadmin's own of the generated profile ruby: full texts with MD5 and SHA-1, both checked.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rows import ROOT, Row, seconds, show

sys.path.insert(0, str(ROOT / "workflow"))

from vcsbench import sources
from vcsbench.sources.dump.reader import DumpReader

LOAD = ["svnadmin", "load", "-q", "--no-flush-to-disk"]


def load(repository: Path, stdin: object) -> subprocess.Popen[bytes]:
    """A repository that is being loaded."""
    subprocess.run(["svnadmin", "create", repository], check=True)
    return subprocess.Popen([*LOAD, repository], stdin=stdin)  # type: ignore[call-overload]


def main(scale: float) -> None:
    """Measure, and print a row of a table."""
    source = sources.open_source("x", {"source": "generated", "profile": "ruby", "scale": scale})
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        first = load(Path(folder, "first"), subprocess.PIPE)
        source.write(first.stdin)  # type: ignore[arg-type]
        first.communicate()
        dump = Path(folder, "dump")
        with dump.open("wb") as file:
            argv = ["svnadmin", "dump", "-q", "-M", "256", str(Path(folder, "first"))]
            subprocess.run(argv, stdout=file, check=True)
        with dump.open("rb") as file:
            walking = seconds(DumpReader(str(dump), file).run)
        with dump.open("rb") as file:
            loading = seconds(lambda: load(Path(folder, "second"), file).communicate())
        megabytes = dump.stat().st_size / 1e6
    what = f"{megabytes:,.0f} MB at {megabytes / walking:,.0f} MB/s"
    show([Row(what, walking, loading, "s", "`svnadmin load`")])


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.05)
