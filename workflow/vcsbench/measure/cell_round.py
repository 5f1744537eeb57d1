"""Measure one round of a cell: run hyperfine with its hooks, collect the evidence, and describe the round."""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import processes
from vcsbench.errors import ProgramError, UserError
from vcsbench.external import printable
from vcsbench.files import write_text
from vcsbench.kernel import read
from vcsbench.machine import host
from vcsbench.measure.conditions import conditions
from vcsbench.measure.prepared_cell import PreparedCell
from vcsbench.measure.run_evidence import TIME_FORMAT, EvidenceCollector
from vcsbench.measure.runs import (
    Captured,
    Hyperfine,
    capture,
    files_of_client,
    files_of_server,
    read_export,
    subversion_libraries,
)
from vcsbench.measure.syscalls import count_locks
from vcsbench.measure.work import KINDS, UrlNormaliser, discard_output
from vcsbench.programs import Programs, digest, joined_digest
from vcsbench.storages.disks import describe_storage
from vcsbench.storages.filesystems import is_full
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import Subject

if TYPE_CHECKING:
    from vcsbench.records import (
        BuildFacts,
        BuildSide,
        Context,
        Recipe,
        RunRecord,
        SetAside,
        SubjectFacts,
    )

# Layers below this system (the host of a VM, a RAID controller) are assumed to cache reads this long.
DISCARDED_RUN_S = 3600

# Libraries that the loader adds to all programs.
PRELOADED = "/etc/ld.so.preload"


class RoundMeasurement:
    """One round of a cell, by its recipe. `folder` is a private folder, `root` the checkout.

    open() prepares it. measure() sets `runs`, and measures again after set_runs_aside(). describe() returns
    the context. Nothing is judged here.
    """

    def __init__(self, recipe: Recipe, number: int, folder: Path, root: Path) -> None:
        self.recipe, self.number, self.folder = recipe, number, folder
        self.state = recipe["state"]
        self.cell = PreparedCell(recipe, number, folder, root)
        self.work = KINDS[recipe["work_kind"]]
        self.captured: Captured | None = None
        # The counts of the server in the run that was captured.
        self.captured_server: dict[str, int | None] = {}
        self.discards = bool(self.state.get("discard"))
        self.discarded_bytes: int | None = None
        self.runs: list[RunRecord] = []
        self.set_aside: list[SetAside] = []
        self.read_error: Exception | None = None

    def open(self, stack: ExitStack) -> None:
        """Prepare subjects, server and command. `stack` takes the clean-up.

        Raise UserError if something differs from the recipe.
        """
        self.started_at = datetime.datetime.now(datetime.UTC)
        self.cell.open(stack)
        self.hyperfine = Hyperfine(self.folder, self._answer)
        self.discarded_run = DiscardedRun(
            self.recipe, self.cell.input if self.discards else None, self.cell.root
        )
        self.discarded_bytes = self.discarded_run.read()

    def measure(self, lock: int) -> None:
        """Time the runs of the round. hyperfine holds the descriptor `lock` open.

        Raise UserError with the output of the command and the server if a run fails.
        """
        cell = self.cell
        self.runs = []
        self.collector = EvidenceCollector(
            None if "remote" in self.recipe else cell.input,
            cell.output,
            cell.server,
            self.recipe["clearing"],
            bool(self.recipe.get("measure_sync")),
        )
        error = self.hyperfine.run(cell.timed, self.recipe["runs"], lock)
        if error:
            raise ProgramError(f"{printable(error)}; run again, {self._rerun()}{self._details()}")
        codes = [run.exit_code for run in read_export(self.hyperfine.export)]
        if len(codes) != self.recipe["runs"] or len(codes) != len(self.runs):
            raise UserError(
                f"{Programs().get('hyperfine')}: its export has {len(codes)} runs, and the recipe asks for "
                f"{self.recipe['runs']}. Use an unmodified hyperfine."
            )
        for number, code in enumerate(codes, 1):
            if code != 0:
                name, ended = self._program, processes.how_it_ended(code)
                why = "" if processes.signal_of(code) else f"; run again, {self._rerun()}"
                where = f"in timed run {number} of {len(codes)}"
                raise ProgramError(f"{name} {ended} {where}{why}{self._details()}")
        if self.read_error:
            raise self.read_error
        captured = self.captured
        for run in self.runs:
            run["evidence"]["client_peak_memory_bytes"] = captured and captured.peak_bytes
            if captured and self.work.read:
                run["work"] = captured.work
        self.discarded_run.renew()

    def set_runs_aside(self) -> None:
        """Store the runs as an attempt, and reset output and server for another measure()."""
        export = json.loads(self.hyperfine.export.read_bytes())
        self.set_aside.append({"runs": self.runs, "results": export["results"]})
        self.cell.reset_output()
        self.cell.stop_server()
        self.cell.start_server()

    def describe(self) -> Context:
        """Return the context of the runs. Raise UserError if they wrote another tree than expected."""
        self._check_counterpart()
        context = describe(self.cell, self.runs, self.captured)
        if self.captured:
            context["captured_io"] = {**self.captured.io, **self.captured_server}
        context["round"] = self.number
        context["started_at"] = self.started_at.strftime(TIME_FORMAT)
        context["set_aside"] = self.set_aside
        timed_s, hooks_s = self.hyperfine.seconds, self.hyperfine.hooks_s
        context["took"] = {"hyperfine_s": round(timed_s, 6), "hooks_s": round(hooks_s, 6)}
        if self.recipe.get("locking") and self.number == 1:
            context["locks"] = count_locks(self.cell)
        return context

    def _answer(self, hook: str) -> None:
        if hook == "setup":
            self._set_up()
            self.collector.begin_hook(self.hyperfine.pid)
            return
        self._end_run(is_last=hook == "cleanup")
        if hook == "prepare":
            self._prepare(is_timed=True, is_first=not self.runs)
        elif not self.captured and self.work.read:
            # No warm-up run preceded the timed ones. The caches do not matter for its output.
            self.cell.reset_output()
            self.collector.begin(self.hyperfine.pid, is_timed=False)
            self._warm_up(is_read=True)

    def _set_up(self) -> None:
        """Warm up in this process: hyperfine does not report the signal that ended a run of its own."""
        for step in self.state["setup"]:
            self.cell.run_step(step)
        is_discarded = self.discards and self.discarded_bytes is None
        warm_ups = max(self.state["warmup"], int(is_discarded))
        for number in range(warm_ups):
            self._prepare(is_timed=False, is_first=number == 0)
            self._warm_up(is_read=number == 0)
        if self.captured and self.discards and warm_ups:
            # Without the files that this process has read again, unlike the counts of a warm-up run.
            by_client = self.captured.io["read_bytes"]
            by_server = self.collector.warming[0].get("server_read_bytes", 0)
            if by_client is not None and by_server is not None:
                self.discarded_bytes = by_client + by_server
                self.discarded_run.write(self.discarded_bytes)

    def _prepare(self, is_timed: bool, is_first: bool) -> None:
        for step in self.state["first" if is_first and "first" in self.state else "prepare"]:
            self.cell.run_step(step)
            if step == "clear-caches" and is_timed and self.collector.query_cleared():
                self.cell.run_step(step)
        self.collector.begin(self.hyperfine.pid, is_timed)

    def _run_untimed(self, is_read: bool) -> Captured:
        command, read_output = self.cell.timed, (is_read and self.work.read) or discard_output
        quiet_options = self.work.quiet_options if is_read else ()
        argv = [word for word in command.argv if word not in quiet_options]
        return capture(
            command._replace(argv=argv),
            lambda output: read_output(output, self.cell.urls),
            self.folder / "captured.log",
        )

    def _warm_up(self, is_read: bool) -> None:
        try:
            captured = self._run_untimed(is_read)
        except UserError as error:
            raise type(error)(f"{error}{self._details()}") from None
        self.collector.end(self.hyperfine.pid)
        if is_read:
            self.captured = captured
            reads = self.collector.warming[-1]
            self.captured_server = {
                "server_rchar": reads.get("server_rchar"),
                "server_wchar": reads.get("server_wchar"),
            }

    def _end_run(self, is_last: bool) -> None:
        evidence = self.collector.end(self.hyperfine.pid, is_last)
        if not evidence:
            return
        # From the answer before the run to the request after it, without the reading of counters.
        evidence["window_s"] = round(self.hyperfine.since_hook_s, 6)
        if self.discarded_bytes is not None:
            evidence["discarded_read_bytes"] = self.discarded_bytes
        is_later = self.runs and "later_promises" in self.state
        promises = self.state["later_promises" if is_later else "promises"]
        number = len(self.runs) + 1
        run: RunRecord = {"run": number, "evidence": evidence, "promises": promises, "work": {}}
        self.runs.append(run)
        try:
            output = self.cell.output
            if self.work.inspect and output:
                run["work"] = self.work.inspect(output.folders[0], self.cell.urls)
            if self.recipe.get("clients"):
                run["launched"] = json.loads(self.cell.launcher_report.read_text())
        except (OSError, UserError, ValueError) as error:
            # A failed run may have no output to read; its exit code is then the better reason.
            self.read_error = self.read_error or error

    def _check_counterpart(self) -> None:
        """Raise UserError if a run has not written an equal copy of the tree that it read."""
        output = self.cell.output
        if not (output and output.counterpart and self.work.inspect):
            return
        tree, url = output.counterpart
        expected = self.work.inspect(tree, UrlNormaliser(url))
        for run in self.runs:
            if run["work"] != expected:
                raise UserError(
                    f"run {run['run']} wrote another tree than an export: {run['work']} and not {expected}. "
                    f"Check the command's `argv`."
                )

    def _rerun(self) -> str:
        try:
            self.cell.reset_output()
            self._run_untimed(is_read=False)
        except (UserError, OSError) as error:
            is_plain = isinstance(error, UserError)
            return str(error) if is_plain else f"{self._program} failed: {error}"
        return f"{self._program} succeeds"

    @property
    def _program(self) -> str:
        return os.path.basename(self.cell.timed.argv[0])

    def _details(self) -> str:
        output, server = self.cell.output, self.cell.server
        details = ""
        if output and output.folders[0].exists() and is_full(output.folders[0]):
            details = f"; {output.folders[0]}: {os.strerror(errno.ENOSPC)}"
        if server:
            log = " ".join(server.last_output()) or "it is empty"
            details += f"; {server.kind}'s log ends: {log}"
        return details


class DiscardedRun:
    """The bytes that the last discarded cold run of a command read of a subject, in a file on the storage.

    The first cold run warms the layers below this system, so it is discarded. Its successors are not, until
    DISCARDED_RUN_S after the last cold run, also with another access or server configuration. Without a
    subject, nothing is stored: each run is the first.
    """

    def __init__(self, recipe: Recipe, subject: Subject | None, root: Path) -> None:
        self.file: Path | None = None
        folders = [folder for folder in subject.folders if folder.exists()] if subject else []
        if not folders:
            return
        # A copy that was created again, and a restarted machine, have no discarded run.
        states = [(folder, os.stat(folder)) for folder in folders]
        copies = [(str(folder), s.st_ino, s.st_ctime_ns) for folder, s in states]
        key = [read("/proc/sys/kernel/random/boot_id"), recipe["argv"], recipe["stdin"], copies]
        name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        self.file = WorkDir(recipe["storage"]["path"], root).make("discarded") / name

    def read(self) -> int | None:
        """Return None without a discarded run, or if it is too old or its file is damaged."""
        if not self.file or not self.file.exists():
            return None
        age_s = time.time() - self.file.stat().st_mtime
        try:
            return int(self.file.read_text()) if 0 <= age_s < DISCARDED_RUN_S else None
        except ValueError:
            return None

    def write(self, read_bytes: int) -> None:
        if self.file:
            for file in self.file.parent.iterdir():
                if time.time() - file.stat().st_mtime > DISCARDED_RUN_S:
                    file.unlink()
            write_text(self.file, str(read_bytes))

    def renew(self) -> None:
        if self.file and self.file.exists():
            os.utime(self.file)


def describe(cell: PreparedCell, runs: list[RunRecord], captured: Captured | None) -> Context:
    """Return recipe, host, storage, programs, subjects, environment, and evidence of runs.

    `captured` is the run whose output was read, if any.
    """
    recipe, state, place = cell.recipe, cell.recipe["state"], cell.recipe["storage"]
    facts: SubjectFacts = {}
    for subject in cell.subjects:
        facts |= subject.facts()
    targets = Path(recipe["targets"])
    server, pid = cell.server, runs[-1]["evidence"].get("server_pid") if runs else None
    served: dict[str, object] | None = None
    if server:
        served = {"kind": server.kind, "argv": server.argv, "port": server.port, "pid": pid}
    files = sorted(path for path in cell.files.rglob("*") if path.is_file())
    return {
        "study": recipe["study"],
        "cell": recipe["cell"],
        "axes": recipe["axes"],
        "recipe_digest": recipe["digest"],
        "argv": [*cell.timed.argv],
        "argv_template": recipe["argv"],
        "stdin": cell.timed.stdin,
        "hooks": {"setup": state["setup"], "prepare": state["prepare"], "cleanup": []},
        "warmup": state["warmup"],
        "network": recipe.get("network"),
        "environment": cell.environment,
        "server": served,
        "server_folder": recipe["server_folder"],
        "remote": recipe.get("remote"),
        "server_files": {
            str(path.relative_to(cell.files)): path.read_text(errors="replace") for path in files
        },
        "host": host(),
        "targets": recipe["targets"],
        "storage": describe_storage(place["name"], WorkDir(place["path"], cell.root).make()),
        "target_storage": describe_storage("", targets) if recipe["targets"] else {},
        "versions": cell.versions,
        "build": _build_facts(cell, captured),
        "preloaded": read(PRELOADED).split(),
        **facts,
        "work_kind": recipe["work_kind"],
        "conditions": conditions(),
        "runs": runs,
        "flags": [flag for subject in cell.subjects for flag in subject.flags()],
    }


def _build_facts(cell: PreparedCell, captured: Captured | None) -> BuildFacts:
    """Return the programs of client and server, with a digest of each file that they have mapped."""
    program, name = cell.argv[0], os.path.basename(cell.argv[0])
    is_subversion = name.startswith("svn")
    mapped = captured.mapped if captured else None
    # Another run of a client that is not Subversion's could change the tree that it works on.
    if mapped is None and is_subversion:
        mapped = files_of_client(cell.idle_argv or cell.argv, cell.environment)
    client = _side(program, cell.versions[name], cell.client.places, mapped)
    if not is_subversion:
        client["libraries"] = None
    sides, served = [client], None
    server = cell.server
    if server and server.pid:
        version = server.subversion_version(cell.versions[server.kind])
        mapped = files_of_server(server.pid)
        served = _side(server.argv[0], version, server.programs.places, mapped)
        sides.append(served)
    files = [file for side in sides for file in (side["program"], *(side["libraries"] or ()))]
    return {
        "name": cell.recipe["build"]["name"],
        "client": client,
        "server": served,
        "digest": joined_digest(files),
    }


def _side(program: str, version: str, places: list[str], mapped: list[str] | None) -> BuildSide:
    return {
        "program": program,
        "version": version,
        "places": places,
        "libraries": subversion_libraries(mapped),
        "mapped": None if mapped is None else {path: digest(path) for path in mapped},
    }
