"""Hit a small real run with kills and full disks at random moments, and check what the next run makes of it.

usage: make stress ARGS="--seed 1 --hits 10"

For each hit: remove some results, start a run, hit it at a random moment, let the next run finish. Kills
without a victim and full disks without an error do not count. After each hit:

- no finished cell-round is lost: its export and context are byte-identical after the next run
- nothing wrong is kept: all results are valid and of the work and the cells of an undisturbed run
- neither run prints a traceback
- all tables have the rows of an undisturbed run, with a value in each
- nothing is left running or stopped, mounted, on a loop device, or in temporary, scratch and storage folders

Prints a line for each hit, then the counts. The exit code is 0 if all hits are clean. Needs root.
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parents[1] / "workflow")]

from project import HOT, STUDY, Project, Run, fill, make_project, mounted, path_of_tool, servers_of  # noqa: E402
from vcsbench import process_facts, processes  # noqa: E402
from vcsbench.plan.result_state import is_readable  # noqa: E402
from vcsbench.result_paths import CellRound  # noqa: E402
from vcsbench.run.workflow import end_processes, run_processes  # noqa: E402

CELLS = [{**HOT, "access": "svn"}, {**HOT, "command": "export", "access": "http"}]
ROUNDS = 2
# The last target of a run that makes no tables and no report.
MEASURED = "measured"
# The options of a small disk for the storage and the results.
DISK = "size=64m,mode=755"
# Columns of tables and measurements that must have a value.
VALUES = ("elapsed_s", "value", "ratio", "low", "high", "n")
# They only end a hit that hangs.
RUN_LIMIT_S, END_LIMIT_S = 1800, 300
Words = list[str]


def runs(*names: str) -> Callable[[Words], bool]:
    """Return a test for processes of a program, or of an interpreter that runs a script of this name."""
    return lambda words: any(word.endswith(names) for word in words[:2])


class Fault(NamedTuple):
    """The results to remove first, the process to kill (None: the whole run), and the signal."""

    remove: str
    victim: Callable[[Words], bool] | None = None
    signal: int = signal.SIGKILL


LOAD_SCRIPTS = (".load_repository.py", ".copy_repositories.py")
REPORT_SCRIPTS = (".collect_measurements.py", ".make_tables.py", ".write_report.py")
# "all" results are removed with the repositories, or some "cells", or the "reports", or "any" of these.
FAULTS = {
    "kill Snakemake": Fault("any", runs("/snakemake")),
    "kill the measuring process": Fault("cells", lambda words: "vcsbench.run.cell_job" in words),
    "kill hyperfine": Fault("cells", runs("hyperfine")),
    "kill a server": Fault("cells", runs("svnserve", "apache2", "httpd")),
    "kill the client": Fault("cells", runs("svn")),
    "kill a preparation job": Fault("all", runs("svnadmin", *LOAD_SCRIPTS)),
    "kill a report job": Fault("reports", runs(*REPORT_SCRIPTS)),
    "kill the run": Fault("any", lambda words: words[1:4] == ["-m", "vcsbench", "run"]),
    "kill everything": Fault("any"),
    "SIGINT": Fault("any", signal=signal.SIGINT),
    "SIGTERM": Fault("any", signal=signal.SIGTERM),
    "full disk": Fault("any", signal=0),
}


class Broken(Exception):
    """A check failed."""


class HitRun(Run):
    """A run with a folder of its own for temporary files."""

    def __init__(self, project: Project, *targets: str) -> None:
        self.began = time.monotonic()
        own = {"PATH": path_of_tool(), "TMPDIR": str(project.path / "tmp")}
        super().__init__(project, *targets, environment={**os.environ, **own})

    def finish(self, who: str) -> int:
        """Wait for the end and return the exit code. Raises Broken for a traceback or no end."""
        try:
            code = self.wait(RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"{who} does not end") from None
        if "Traceback" in (output := self.output()):
            raise Broken(f"{who} prints a traceback:\n{output[-4000:]}")
        return code

    def find(self, victim: Callable[[Words], bool]) -> list[int]:
        pids = process_facts.family(self.pid)
        return [pid for pid in pids if (words := process_facts.command_line(pid)) and victim(words)]


class Stress:
    """A project under fire, its dice, and the results of an undisturbed run."""

    def __init__(self, project: Project, disk: Path, dice: random.Random) -> None:
        self.project, self.path, self.disk, self.dice = project, project.path, disk, dice
        (self.path / "tmp").mkdir(mode=0o755)
        for folder in ("storage", "results"):
            (disk / folder).mkdir()
        (self.path / "results").symlink_to(disk / "results")
        storages = {"disk": str(disk / "storage")}
        project.configure(*CELLS, rounds=ROUNDS, storages=storages)
        self.mounts, self.loops = mounts(self.path), loop_devices(self.path)
        self.durations: dict[str, float] = {}
        for remove in ("all", "cells", "reports"):
            self.remove(remove)
            run = HitRun(project, *([MEASURED] if remove == "cells" else []))
            if run.finish("the undisturbed run"):
                raise RuntimeError(f"the undisturbed run fails:\n{run.output()}")
            self.durations[remove] = time.monotonic() - run.began
        self.expected = summary(project)

    def remove(self, what: str) -> None:
        if what == "all":
            folders = [self.path / name for name in ("scratch", "reports", ".snakemake")]
            for folder in (self.disk / "storage", self.disk / "results", *folders):
                empty(folder)
        elif what == "cells":
            exports = sorted(self.project.exports())
            for export in self.dice.sample(exports, len(exports) // 2):
                (self.path / "results/cells" / export).unlink()
        else:
            for folder in ("results/tables", "results/measurements", "reports"):
                empty(self.path / folder)

    def hit(self, fault: Fault) -> bool:
        """Hit a run once and check the run after it. Returns False if nothing was hit."""
        any_of = ("all", "cells", "cells", "reports")
        remove = self.dice.choice(any_of) if fault.remove == "any" else fault.remove
        # Most runs make no report, which takes longer than the cells.
        is_short = remove != "reports" and self.dice.random() < 0.5
        targets = [MEASURED] if is_short else []
        self.remove(remove)
        before = finished(self.project)
        run = HitRun(self.project, *targets)
        moment_s = self.dice.uniform(0, self.durations[remove]) * (0.4 if fault.victim else 0.9)
        with suppress(subprocess.TimeoutExpired):
            run.wait(moment_s)
        if fault.signal:
            is_hit = self.strike(run, fault)
            run.finish("the hit run")
        else:
            is_hit = run.poll() is None
            hog = fill(self.disk, self.dice.choice((0, 4096, 65536, 300_000)))
            is_hit &= run.finish("the hit run") != 0
            hog.unlink()
        self.check_ended()
        kept = finished(self.project)
        check_kept(before, kept, "the hit run")
        self.run_undisturbed("the next run", *targets)
        check_kept(kept, finished(self.project), "the next run")
        self.check_results(with_tables=False)
        if is_short:
            # Each hit ends with tables, so that a lost row is seen.
            self.run_undisturbed("the final run")
        self.check_results(with_tables=True)
        return is_hit

    def run_undisturbed(self, who: str, *targets: str) -> None:
        """Run to the end. Raises Broken if the run fails, or leaves something behind."""
        run = HitRun(self.project, *targets)
        if code := run.finish(who):
            raise Broken(f"{who} ends with {code}:\n{run.output()[-4000:]}")
        self.check_ended()

    def strike(self, run: HitRun, fault: Fault) -> bool:
        """Send the signal of a fault to its victim as soon as there is one."""
        victims: list[int] = []
        while fault.victim and run.poll() is None and not (victims := run.find(fault.victim)):
            time.sleep(0.003)
        if run.poll() is not None:
            return False
        if victims:
            time.sleep(self.dice.choice((0, 0.005, 0.02, 0.1)))
            victims = [self.dice.choice(victims)]
        elif fault.signal == signal.SIGKILL:
            victims = [*process_facts.family(run.pid), *run_processes(self.path)]
        else:
            victims = [run.pid]
        is_alive = any(map(process_facts.command_line, victims))
        processes.send(victims, fault.signal)
        return is_alive

    def check_ended(self) -> None:
        """Nothing runs, holds a lock or is mounted."""
        deadline = time.monotonic() + END_LIMIT_S
        while (left := run_processes(self.path)) or servers_of(self.project):
            if time.monotonic() > deadline:
                words = [*map(process_facts.command_line, left), *servers_of(self.project)]
                raise Broken(f"left running: {words}")
            time.sleep(0.05)
        if left_mounts := mounts(self.path) - self.mounts:
            raise Broken(f"left mounted: {left_mounts}")
        if left_loops := loop_devices(self.path) - self.loops:
            raise Broken(f"left loop devices: {left_loops}")
        if stopped := stopped_processes(self.path):
            raise Broken(f"left stopped: {stopped}")

    def check_results(self, with_tables: bool) -> None:
        """All results are valid and of the same work and cells as in the undisturbed run."""
        results = summary(self.project)
        for name, expected in self.expected.items():
            # After failed cells, a run makes tables without them, also if it had no table as a target.
            is_checked = with_tables or not name.startswith("tables")
            if is_checked and results.get(name) != expected:
                flags = [row["flags"] for row in self.project.rows(f"measurements/{STUDY}.csv")]
                difference = f"{results.get(name)} instead of {expected}"
                raise Broken(f"{name}: {difference}, with flags {flags}")
        if len(finished(self.project)) != 2 * len(CELLS) * ROUNDS:
            raise Broken(f"half a result is kept: {sorted(finished(self.project))}")
        left = [*self.path.glob(".snakemake/locks/*"), *self.path.glob("tmp/vcsbench-*")]
        left += [*self.disk.glob("storage/vcsbench-*/targets/*"), *self.path.rglob("*.new")]
        left += self.path.glob("scratch/vcsbench-*/loading/*")
        # A loaded repository stays only if its record names it.
        records = self.path.glob("results/loaded/*/*.json")
        loads = {json.loads(record.read_text()).get("path") for record in records}
        kept = self.path.glob("storage/vcsbench-*/loaded/*/*")
        left += [path for path in kept if str(path) not in loads]
        if left:
            raise Broken(f"files are left: {left}")


def finished(project: Project) -> dict[str, bytes]:
    """Return the exports and contexts of the valid cell-rounds and their bytes."""
    exports = [project.path / "results/cells" / name for name in project.exports()]
    valid = [export for export in exports if is_readable(CellRound.parse(export))]
    files = [*valid, *(export.with_suffix(".context.json") for export in valid)]
    return {str(file): file.read_bytes() for file in files}


def check_kept(before: dict[str, bytes], after: dict[str, bytes], who: str) -> None:
    """Finished cell-rounds are byte-identical."""
    if lost := [path for path, content in before.items() if after.get(path) != content]:
        raise Broken(f"{who} lost or changed finished results: {lost}")


def summary(project: Project) -> dict[str, object]:
    """Return what each result did, and the rows of all tables without what was measured."""
    results = project.path / "results"
    found: dict[str, object] = {}
    for name in project.exports():
        export = results / "cells" / name
        codes = [result["exit_codes"] for result in json.loads(export.read_text())["results"]]
        context = json.loads(export.with_suffix(".context.json").read_text())
        found[name] = (codes, [run["work"] for run in context["runs"]])
    with (results / f"grid/{STUDY}.csv").open() as file:
        axes = next(csv.reader(file))
    names = (f"measurements/{STUDY}.csv", f"failures/{STUDY}.csv")
    for path in (*(results / name for name in names), *results.glob("tables/*/*.csv")):
        with path.open() as file:
            rows = [
                (
                    tuple(row[axis] for axis in axes if axis in row),
                    row.get("round", ""),
                    # The presence of the values, which differ from run to run.
                    [bool(row[column]) for column in VALUES if column in row],
                )
                for row in csv.DictReader(file)
            ]
        found[str(path.relative_to(results))] = sorted(rows)
    return found


def loop_devices(path: Path) -> set[str]:
    """Return the loop devices of files below a folder."""
    found = set()
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            backing = file.read_text().strip()
            if backing.startswith(str(path)):
                found.add(f"{file.parts[3]}: {backing}")
    return found


def stopped_processes(path: Path) -> list[str]:
    """Return the stopped processes (state T) that name a folder in their command line or work in it."""
    found = []
    for pid in process_facts.all_pids():
        with suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
            words = " ".join([os.readlink(f"/proc/{pid}/cwd"), *process_facts.command_line(pid)])
            if state == "T" and str(path) in words:
                found.append(f"{pid}: {words}")
    return found


def mounts(path: Path) -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if str(path) in line}


def empty(folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> int:
    """Hit runs and return the exit code."""
    parser = argparse.ArgumentParser(description="Hit a small real run with kills and full disks.")
    parser.add_argument("--seed", type=int, default=1, help="of the dice (default: 1)")
    parser.add_argument("--hits", type=int, default=100, help="default: 100")
    parser.add_argument("--only", choices=FAULTS, action="append", help="these faults only")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    dice = random.Random(given.seed)
    hits, clean, missed = Counter[str](), Counter[str](), 0
    while hits.total() < given.hits:  # after a broken hit with a new project
        for project in make_project():
            with mounted(project.path / "disk", DISK) as disk, ExitStack() as stack:
                stack.callback(end_processes, project.path)
                stress = Stress(project, disk, dice)
                verdict = ""
                while "BROKEN" not in verdict and hits.total() < given.hits:
                    name, began = dice.choice(given.only or [*FAULTS]), time.monotonic()
                    try:
                        verdict = "clean" if stress.hit(FAULTS[name]) else "missed"
                    except Broken as broken:
                        verdict = f"BROKEN: {broken}"
                    hits[name] += verdict != "missed"
                    clean[name] += verdict == "clean"
                    missed += verdict == "missed"
                    seconds = time.monotonic() - began
                    print(f"{name}: {verdict} ({seconds:.0f} s)", flush=True)
    print(f"seed {given.seed}: {clean.total()} of {hits.total()} hits clean, {missed} missed")
    for name in FAULTS:
        print(f"  {name}: {clean[name]} of {hits[name]}")
    return int(clean.total() != given.hits)


if __name__ == "__main__":
    sys.exit(main())
