"""Run tests of git's own t/perf on a repository, and print their times next to those of vcsbench.

usage: python benchmarks/git_perf.py REPOSITORY GIT_SOURCE [RESULTS [SCRIPT ...]]
REPOSITORY is a bare repository, such as a copy of the study git-server (git.one-pack). GIT_SOURCE is git's
source: a checkout, or its bare repository, of which the release of the installed git is used. RESULTS are
the results of the study on the same repository (default: results). SCRIPTs are names such as
p0001-rev-list.sh (default: all of SCRIPTS).

The scripts are git's, unchanged. They run with the installed git, the way t/perf does: warm, and the fastest
of three runs counts. benchmarks/git_perf_lib.sh stands for t/perf/perf-lib.sh, which needs a build of git.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = Path(__file__).with_name("git_perf_lib.sh")
STUDY = "git-server"
REPEATS = "3"
# Files that some scripts read, by their path below t.
LIBRARIES = ("perf/lib-bitmap.sh", "perf/lib-pack.sh")
SCRIPTS = (
    "p0001-rev-list.sh",
    "p4211-line-log.sh",
    "p5303-many-packs.sh",
    "p5310-pack-bitmaps.sh",
    "p5311-pack-bitmaps-fetch.sh",
    "p5600-partial-clone.sh",
)
# The first time is the elapsed one, and so is the median, unless the pairing has the server's CPU time.
HEAD = "| t/perf | fastest of 3, s | its CPU, s | vcsbench | median, s |\n| --- | ---: | ---: | --- | ---: |"


@dataclass(frozen=True)
class Pairing:
    """A test of t/perf, by the start of its script and title, and the cells with the same operation.

    `cell` has values of axes, and `column` is the column of the measurements: elapsed or server CPU seconds.
    """

    script: str
    title: str
    cell: dict[str, str]
    column: str = "elapsed_s"


PAIRINGS = (
    Pairing(
        "p0001", "rev-list --all --objects", {"command": "rev-list-objects", "upkeep": "one-pack"}
    ),
    Pairing("p4211", "git rev-list --topo-order", {"command": "log-graph", "upkeep": "one-pack"}),
    Pairing("p4211", "git log --follow", {"command": "log-path", "upkeep": "one-pack"}),
    Pairing("p5303", "rev-list (1)", {"command": "rev-list-objects", "upkeep": "one-pack"}),
    Pairing("p5303", "rev-list (50)", {"command": "rev-list-objects", "upkeep": "many-packs"}),
    Pairing("p5303", "repack (1)", {"command": "clone", "upkeep": "one-pack"}, "server_cpu_s"),
    Pairing("p5303", "repack (50)", {"command": "clone", "upkeep": "many-packs"}, "server_cpu_s"),
    Pairing("p5310", "simulated clone", {"command": "clone", "upkeep": "bitmap"}, "server_cpu_s"),
    Pairing("p5310", "simulated fetch", {"command": "fetch", "upkeep": "bitmap"}, "server_cpu_s"),
    Pairing("p5311", "server", {"command": "fetch", "upkeep": "bitmap"}, "server_cpu_s"),
    Pairing("p5600", "clone without blobs", {"command": "clone-blobless", "upkeep": "one-pack"}),
)


@dataclass(frozen=True)
class PerfTime:
    """The fastest run of a test: its title, and seconds."""

    title: str
    elapsed_s: float
    cpu_s: float


class ScriptError(Exception):
    """A script whose set-up failed. The message has its name and the reason."""


@cache
def find_release(source: Path) -> str:
    """Return the tag of the installed git, such as v2.39.5, in a repository of its source; HEAD without it.

    Newer scripts may use options that the installed git does not know.
    """
    version = subprocess.run(["git", "version"], capture_output=True, text=True, check=True).stdout
    tag = f"v{version.split()[2]}"
    command = ["git", f"--git-dir={source}", "rev-parse", "--verify", "--quiet", f"refs/tags/{tag}"]
    found = subprocess.run(command, stdout=subprocess.DEVNULL)
    return tag if found.returncode == 0 else "HEAD"


def read_test_file(source: Path, name: str) -> bytes:
    """Return a file below t of a checkout of git, or of a release in its repository (find_release)."""
    path = source / "t" / name
    if path.is_file():
        return path.read_bytes()
    shown = subprocess.run(
        ["git", f"--git-dir={source}", "show", f"{find_release(source)}:t/{name}"],
        capture_output=True,
    )
    if shown.returncode != 0:
        sys.exit(f"{source}: has no t/{name}. Give a checkout or a repository of git's source.")
    return shown.stdout


def run_script(source: Path, name: str, repository: Path, folder: Path) -> list[PerfTime]:
    """Run a script in an empty folder, and return the times of its tests.

    Raise ScriptError if its set-up fails.
    """
    trash = folder / "trash"
    trash.mkdir()
    shutil.copy(LIBRARY, trash / "perf-lib.sh")
    (trash / "script.sh").write_bytes(read_test_file(source, f"perf/{name}"))
    (folder / "perf").mkdir()
    for library in LIBRARIES:
        (folder / library).write_bytes(read_test_file(source, library))
    results = folder / "results"
    variables = {
        "TEST_DIRECTORY": str(folder),
        "GIT_PERF_REPO": str(repository),
        "GIT_PERF_REPEAT_COUNT": REPEATS,
        "GIT_PERF_RESULTS": str(results),
    }
    # The library times by a keyword of bash.
    done = subprocess.run(
        ["bash", "script.sh"],
        cwd=trash,
        env={"PATH": os.environ["PATH"], **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    print(done.stderr, end="", file=sys.stderr)
    if done.returncode != 0:
        log = results.with_suffix(".log").read_text(errors="replace")
        raise ScriptError(f"{name}: {done.stderr}{log[-2000:]}")
    times = []
    for line in results.read_text().splitlines():
        title, _, seconds = line.partition("\t")
        elapsed_s, user_s, system_s = map(float, seconds.split())
        times.append(PerfTime(" ".join(title.split()), elapsed_s, user_s + system_s))
    return times


def read_cells(results: Path, repository: Path) -> list[dict[str, str]]:
    """Return the rows of the study's measurements of a copy of a repository, [] without any.

    /var/tmp/.../project.git.one-pack.1 is a copy of `project`.
    """
    path = results / "measurements" / f"{STUDY}.csv"
    if not path.is_file():
        return []
    name = repository.name.partition(".git.")[0]
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["repo"] == name]


def median_of(rows: Sequence[dict[str, str]], pairing: Pairing) -> float | None:
    """Return the median of warm runs over git:// with default refs and protocol, None without any."""
    cell = {
        "cache": "hot-os",
        "access": "git",
        "refs": "as-is",
        "ref_storage": "packed",
        "protocol": "2",
        "network": "loopback",
        **pairing.cell,
    }
    seconds = []
    for row in rows:
        # An axis that does not apply is empty.
        is_of_cell = all(row.get(axis, "") in ("", value) for axis, value in cell.items())
        if is_of_cell and row.get(pairing.column):
            seconds.append(float(row[pairing.column]))
    return median(seconds) if seconds else None


def list_lines(
    name: str, times: Sequence[PerfTime], rows: Sequence[dict[str, str]]
) -> Iterator[str]:
    """Yield a line of the table for each test of a script."""
    for time in times:
        ours, value = "", ""
        for pairing in PAIRINGS:
            if name.startswith(pairing.script) and time.title.startswith(pairing.title):
                seconds = median_of(rows, pairing)
                kind = ", server CPU" if pairing.column == "server_cpu_s" else ""
                ours = " ".join(pairing.cell.values()) + kind
                value = "not measured" if seconds is None else f"{seconds:.3f}"
        line = f"| {name[:5]}: {time.title} | {time.elapsed_s:.3f} | {time.cpu_s:.3f} | {ours} | {value} |"
        yield line


def main(arguments: Sequence[str]) -> None:
    """Print a row for each test of the scripts. `arguments` are those of the usage above."""
    if len(arguments) < 2:
        sys.exit(str(__doc__))
    repository, source = Path(arguments[0]).resolve(), Path(arguments[1]).resolve()
    results = Path(arguments[2]) if len(arguments) > 2 else ROOT / "results"
    scripts = arguments[3:] or SCRIPTS
    if not (repository / "objects").is_dir():
        sys.exit(f"{repository}: is no bare git repository. Give one.")
    rows = read_cells(results, repository)
    print(HEAD)
    failed = 0
    for script in scripts:
        try:
            with tempfile.TemporaryDirectory(prefix="git-perf-", dir="/dev/shm") as folder:
                times = run_script(source, script, repository, Path(folder))
        except ScriptError as error:
            print(error, file=sys.stderr)
            failed += 1
            continue
        for line in list_lines(script, times, rows):
            print(line, flush=True)
    if failed:
        sys.exit(f"The set-up of {failed} script(s) failed.")


if __name__ == "__main__":
    main(sys.argv[1:])
