"""Runs one cell-round: hyperfine with its hooks on a stage, and the certificate of each run."""

from __future__ import annotations

import datetime
import errno
import json
import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.measure.certificate import Witness
from vcsbench.measure.context import Told, describe
from vcsbench.measure.discarded import Discarded
from vcsbench.measure.hooks import Hooks
from vcsbench.measure.probes import probe_of
from vcsbench.measure.stage import Stage
from vcsbench.measure.steps import do, restore
from vcsbench.measure.timing import Hyperfine
from vcsbench.measure.work import kind_of
from vcsbench.measure.work.capture import Captured, capture, unread
from vcsbench.measure.work.kind import Fingerprint
from vcsbench.measure.work.neutral import Neutral
from vcsbench.storages import filesystems

# What is not so when it is tried again: some kernels give back memory that is not used for seconds, between
# the run that warms up and the timed one. No cold run: what lies below us has cached what it read.
PASSING = frozenset(["cache-not-warm"])
AGAIN_AT_MOST = 2

Run = dict[str, Any]
# Adds to runs what the export tells of them, and their flags.
Judge = Callable[[Path, list[Run]], None]


class CellRound:
    """One round of a cell, by its recipe. `run` is a private folder; `judge` judges the runs, and is no part
    of what is measured."""

    def __init__(self, recipe: dict[str, Any], number: int, run: Path, judge: Judge) -> None:
        self.recipe = recipe
        self.number = number
        self.run = run
        self.judge = judge
        self.stage = Stage(recipe, number, run)
        self.work = kind_of(recipe["work"])
        self.captured: Captured | None = None
        state: dict[str, Any] = recipe["state"]
        # The first run that does not count is our own.
        self.warmup = max(0, state["warmup"] - 1)
        self.discards = bool(state.get("discard"))
        self.runs: list[Run] = []
        self.unread: Exception | None = None
        self.set_aside: list[Run] = []

    def measure(self, lock: int) -> tuple[bytes, dict[str, Any]]:
        """Measure. Returns hyperfine's export as it wrote it, and the context."""
        began = datetime.datetime.now(datetime.UTC)
        with ExitStack() as stack:
            self.stage.open(stack)
            self.hooks = Hooks(self.run, self._hook)
            self.remembered = Discarded(self.recipe, self.stage.reads if self.discards else None)
            self.discarded = self.remembered.last()
            self._time(lock)
            self.remembered.renew()
            while self._is_passing() and len(self.set_aside) < AGAIN_AT_MOST:
                self._set_aside()
                self._time(lock)
            took_s = self.hyperfine.took_s, self.hooks.took_s
            self._compare()
            told = Told(self.number, began, self.captured, self.runs, self.set_aside, *took_s)
            described = describe(self.stage, told) | self._probe()
        return self.hyperfine.export.read_bytes(), described

    def _time(self, lock: int) -> None:
        """Have hyperfine time the command, and judge its runs; a UserError with what the command and the
        server said where it fails."""
        stage = self.stage
        self.prepared = 0
        self.runs = []
        # What a server elsewhere reads is not here.
        reads = None if "remote" in self.recipe else stage.reads
        self.witness = Witness(reads, stage.writes, stage.server, self.recipe["clearing"])
        self.witness.syncs = bool(self.recipe.get("measure_sync"))
        self.hyperfine = Hyperfine(
            self.run, self.hooks, stage.argv, stage.stdin, self.warmup, self.recipe["runs"]
        )
        limit = self.recipe["time_limit_s"]
        said = self.hyperfine.time(stage.environment, limit, lock)
        if said:
            raise UserError(f"{printable(said)}; run again, {self._why()}{self._also_said()}")
        self._check_codes()
        if self.unread:
            raise self.unread
        self.judge(self.hyperfine.export, self.runs)

    def _check_codes(self) -> None:
        """Raise UserError if a timed run failed."""
        codes = self.hyperfine.exit_codes()
        number = next((number for number, code in enumerate(codes, 1) if code != 0), 0)
        if number:
            ended = processes.how_it_ended(codes[number - 1])
            name = os.path.basename(self.stage.argv[0])
            why = "" if processes.signal_of(codes[number - 1]) else f"; run again, {self._why()}"
            raise UserError(
                f"{name} {ended} in timed run {number} of {len(codes)}{why}{self._also_said()}"
            )

    def _is_passing(self) -> bool:
        return any(PASSING.intersection(run["flags"]) for run in self.runs)

    def _set_aside(self) -> None:
        """Keep what was measured beside the result, and go back to where the measurement began."""
        export = json.loads(self.hyperfine.export.read_bytes())
        self.set_aside.append({"runs": self.runs, "results": export["results"]})
        restore(self.stage)
        if self.stage.server:
            self.stage.server.stop()
            self.stage.server.start()

    def _hook(self, name: str) -> None:
        state = self.recipe["state"]
        if name == "setup":
            _ = self.stage.versions  # what tells them has ended then
            for step in state["setup"]:
                do(step, self.stage)
            if state["warmup"] or (self.discards and not self.discarded):
                self._prepare(timed=False, first=True)
                self._capture()
                self._discard()
            return
        self._certify(last=name == "cleanup")
        if name == "prepare":
            self.prepared += 1
            timed = self.prepared - self.warmup
            self._prepare(timed=timed > 0, first=timed == 1)
        elif not self.captured and self.work.read:
            # No run was to come before the timed ones, so it comes after them, whatever the caches are.
            restore(self.stage)
            self.witness.begin(self.hyperfine.pid, timed=False)
            self._capture()

    def _prepare(self, timed: bool, first: bool) -> None:
        state = self.recipe["state"]
        for step in state["first"] if first and "first" in state else state["prepare"]:
            do(step, self.stage)
            if step == "clear-caches" and timed and self.witness.ask_after_clearing():
                do(step, self.stage)
        self.witness.begin(self.hyperfine.pid, timed)

    def _capture(self) -> None:
        """A run that does not count, with its output read and its memory looked at."""
        stage = self.stage
        try:
            self.captured = capture(
                [word for word in stage.argv if word not in self.work.without],
                stage.stdin,
                self.work.read or unread,
                stage.neutral,
                stage.environment,
                self.run / "captured.log",
                self.recipe["time_limit_s"],
                self.hooks.watched,
            )
        except UserError as error:
            raise UserError(f"{error}{self._also_said()}") from None
        self.witness.end(self.hyperfine.pid)
        for run in self.runs:
            run["certificate"]["client_peak_memory_bytes"] = self.captured.peak_bytes
            if self.work.read:
                run["work"] = self.captured.work

    def _discard(self) -> None:
        """Remember the run that was discarded for what lies below this system."""
        if self.discards:
            run = self.witness.warming[0]
            self.discarded = {
                "read_bytes": run["client_read_bytes"] + (run.get("server_read_bytes") or 0),
                "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            }
            self.remembered.write(self.discarded)

    def _did(self) -> Fingerprint:
        """What the timed run that has just ended did; {} where nothing tells yet."""
        if self.captured and self.work.read:
            return self.captured.work
        writes = self.stage.writes
        return (
            self.work.look(writes.folders[0], self.stage.neutral)
            if self.work.look and writes
            else {}
        )

    def _compare(self) -> None:
        """A UserError where a run has not written what it was to write."""
        writes = self.stage.writes
        if not (writes and writes.counterpart and self.work.look):
            return
        tree, url = writes.counterpart
        wanted = self.work.look(tree, Neutral(url))
        for run in self.runs:
            if run["work"] != wanted:
                raise UserError(
                    f"run {run['run']} has not written what an export is: {run['work']} and not {wanted}"
                )

    def _probe(self) -> dict[str, Any]:
        """What is asked once for a cell, in its first round."""
        name = self.recipe.get("probe")
        return probe_of(name)(self.stage) if name and self.number == 1 else {}

    def _certify(self, last: bool) -> None:
        """Certify the run that has just ended, if one has."""
        certificate = self.witness.end(self.hyperfine.pid, last)
        if certificate:
            number = len(self.runs) + 1
            # Of the run that was our own: hyperfine tells that of the timed one since 1.21 only.
            certificate["client_peak_memory_bytes"] = self.captured and self.captured.peak_bytes
            certificate |= {f"discarded_{name}": seen for name, seen in self.discarded.items()}
            run: Run = {"run": number, "certificate": certificate, "work": {}}
            self.runs.append(run)
            try:
                run["work"] = self._did()
                run |= self._launched()
            except (OSError, UserError, ValueError) as error:
                # A run that failed may have left nothing to read, and then has a better reason.
                self.unread = self.unread or error

    def _launched(self) -> dict[str, Any]:
        """What the launcher of several clients tells of the run that has just ended."""
        if not self.recipe.get("clients"):
            return {}
        return {"launched": json.loads(self.stage.launched.read_text())}

    def _why(self) -> str:
        """Return the command's own words: it is run once more, untimed."""
        restore(self.stage)
        argv, limit = self.stage.argv, self.recipe["time_limit_s"]
        try:
            with open(self.stage.stdin or os.devnull, "rb") as given:
                done = subprocess.run(
                    argv,
                    stdin=given,
                    capture_output=True,
                    env=self.stage.environment,
                    timeout=limit,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{argv[0]} failed: {error}"
        name = os.path.basename(argv[0])
        if done.returncode == 0:
            return f"{name} succeeds"
        said = printable(done.stderr).strip().splitlines()[-3:]
        return f"{name} {processes.how_it_ended(done.returncode)}: {' '.join(said)}"

    def _also_said(self) -> str:
        """What else there is to say of a run that failed: that there was no room, and the server's words."""
        writes, server = self.stage.writes, self.stage.server
        told = ""
        if writes and writes.folders[0].exists() and filesystems.is_full(writes.folders[0]):
            told = f"; {writes.folders[0]}: {os.strerror(errno.ENOSPC)}"
        if server:
            told += f"; {server.kind}'s log ends: {' '.join(server.last_words()) or 'it is empty'}"
        return told
