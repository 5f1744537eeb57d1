"""Runs one cell-round: hyperfine with its hooks, the servers behind it, and the certificate of each run."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import urllib.parse
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any

from vcsbench.axes.ra import ACCESS, read_arguments
from vcsbench.errors import UserError
from vcsbench.evidence import hyperfine_export, judgement
from vcsbench.measure import context, versions
from vcsbench.measure.certificate import Witness
from vcsbench.measure.hooks import Hooks
from vcsbench.measure.lock import machine_lock
from vcsbench.measure.servers import HOST, Server
from vcsbench.measure.steps import Bench
from vcsbench.measure.template import fill
from vcsbench.measure.timing import Hyperfine
from vcsbench.measure.work import KINDS, Fingerprint, tree
from vcsbench.measure.work.capture import Captured, capture, unread
from vcsbench.measure.work.neutral import Neutral
from vcsbench.programs import Programs, check_unchanged
from vcsbench.storages.place import Place
from vcsbench.storages.runfolder import run_folder
from vcsbench.subjects.repository.audit import check_copy
from vcsbench.subjects.repository.labels import EMPTY, FOLDER, copy_of
from vcsbench.subjects.repository.variant import Variant

# What is not so when it is tried again: some kernels give back memory that is not used for seconds, between
# the run that warms up and the timed one. No cold run: what lies below us has cached what it read.
PASSING = frozenset(["cold-reads"])
AGAIN_AT_MOST = 2


class CellRound:
    """One round of a cell. `spec` is what vcsbench.plan.recipe makes of the configuration, `record` what the
    rule that copies wrote of the storage, `run` a private folder; `thresholds` judge the runs, and are no
    part of what is measured."""

    def __init__(
        self,
        spec: dict[str, Any],
        record: dict[str, Any],
        number: int,
        run: Path,
        thresholds: dict[str, float],
    ) -> None:
        self.spec = spec
        self.run = run
        self.number = number
        self.place = Path(record["place"])
        self.layout = record["layout"]
        self.copy = (number - 1) % record["copies"] + 1
        self.repository = copy_of(self.place, spec["repository"]["variant"], self.copy)
        self.label = check_copy(self.place, _variant(spec), self.copy)
        self.client = Programs(**spec["build"]["client"])
        self.server = self._server()
        self.target = self.run / "target"
        if spec["targets"]:
            self.target = Place(spec["targets"], os.getcwd()).make("targets") / str(os.getpid())
        self.work = KINDS[spec["work"]]
        self.captured: Captured | None = None
        # The first run that does not count is our own.
        self.warmup = max(0, spec["state"]["warmup"] - 1)
        self.argv: list[str] = []
        self.thresholds = thresholds
        self.runs: list[dict[str, Any]] = []
        self.set_aside: list[dict[str, Any]] = []

    def measure(self, lock: int) -> tuple[bytes, dict[str, Any]]:
        """Measure. Returns hyperfine's export as it wrote it, and the context."""
        began = datetime.datetime.now(datetime.UTC)
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.target, ignore_errors=True)
            self._start(stack)
            self.argv = self.command(self.repository, self.label["tree"], self.target)
            touch = self.command(self.place / FOLDER / EMPTY, "", self.target)
            self.bench = Bench(
                self.repository,
                self.server,
                self.target,
                self.spec["clearing"],
                touch,
                environment(self.client),
            )
            self.hooks = Hooks(self.run, self._hook)
            self._time(lock)
            while self._is_passing() and len(self.set_aside) < AGAIN_AT_MOST:
                self._set_aside()
                self._time(lock)
            described = context.describe(self, began)
        return self.hyperfine.export.read_bytes(), described

    def _start(self, stack: ExitStack) -> None:
        """Start the server: the timed command has to name its port. The programs are looked at meanwhile."""
        asked: dict[str, Popen[str]] = {}

        def look() -> None:
            server = self.server.programs if self.server else self.client
            check_unchanged(self.spec["binaries"], self.client, server)
            program = self.command(self.repository, self.label["tree"], self.target)[0]
            asked.update(versions.ask(program, self.server))

        if self.server:
            stack.callback(self.server.stop)
            self.server.start(meanwhile=look)
        else:
            look()
        self.versions = versions.told(asked)

    def _server(self) -> Server | None:
        access = ACCESS[self.spec["axes"].get("ra", "")]
        if not access.server:
            return None
        folder = self.run / "server"
        folder.mkdir()
        os.chmod(self.run, 0o711)  # the server's user has to reach its folder
        programs = Programs(**self.spec["build"]["server"])
        return Server(access, self.place / FOLDER, Path(self.spec["servers"]), folder, programs)

    def command(self, repository: Path, tree: str, target: Path) -> list[str]:
        """The timed command, for a repository on the place."""
        # The client writes into its configuration's folder.
        client = self.run / "client"
        if not client.exists():
            shutil.copytree(Path(self.spec["servers"]) / "client", client)
            # Or the first run writes it, and so more than the others.
            (client / "README.txt").touch()
        options = ["--non-interactive", "--config-dir", str(client)]
        svnadmin_args = Path(self.spec["servers"]) / "svnadmin.args"
        return fill(
            self.spec["argv"],
            {
                "svn": lambda: [self.client.get("svn"), *options],
                "svnbench": lambda: [self.client.get("svnbench"), *options],
                "svnadmin": lambda: self.client.get("svnadmin"),
                "svnadmin_args": lambda: read_arguments(svnadmin_args),
                "url": lambda: self._url(repository),
                "tree": lambda: urllib.parse.quote(tree),
                "repository": lambda: str(repository),
                "target": lambda: str(target),
            },
        )

    def _url(self, repository: Path) -> str:
        if not self.server:
            return f"file://{urllib.parse.quote(str(repository))}"
        authority = f"{HOST}:{self.server.port}"
        return f"{self.server.access.scheme}://{authority}/{urllib.parse.quote(repository.name)}"

    def _time(self, lock: int) -> None:
        """Have hyperfine time the command, and judge its runs; a UserError with what the command and the
        server said where it fails."""
        self.prepared = 0
        self.runs = []
        self.witness = Witness(
            self.repository, self.label["bytes"], self.server, self.spec["clearing"]
        )
        self.hyperfine = Hyperfine(self.run, self.hooks, self.argv, self.warmup, self.spec["runs"])
        limit = self.spec["time_limit_s"]
        said = self.hyperfine.time(environment(self.client), limit, lock)
        if said:
            raise UserError(f"{self._why()} ({said})")
        for run, timed in zip(self.runs, hyperfine_export.read(self.hyperfine.export), strict=True):
            run["certificate"] = judgement.with_times(run["certificate"], timed)
            run["flags"] = judgement.judge(run["certificate"], self.spec["axes"], self.thresholds)

    def _is_passing(self) -> bool:
        return any(PASSING.intersection(run["flags"]) for run in self.runs)

    def _set_aside(self) -> None:
        """Keep what was measured beside the result, and go back to where the measurement began."""
        export = json.loads(self.hyperfine.export.read_bytes())
        self.set_aside.append({"runs": self.runs, "results": export["results"]})
        if self.server:
            self.server.stop()
            self.server.start()

    def _hook(self, name: str) -> None:
        if name == "setup":
            for step in self.spec["state"]["setup"]:
                self.bench.do(step)
            self._capture()
            return
        self._certify()
        if name == "prepare":
            self.prepared += 1
            timed = self.prepared > self.warmup
            for step in self.spec["state"]["prepare"]:
                self.bench.do(step)
                if step == "clear-caches" and timed:
                    self.witness.ask_after_clearing()
                    self.bench.do(step)  # asking loads inodes
            self.witness.begin(self.hyperfine.pid, timed)

    def _capture(self) -> None:
        """The first of the runs that do not count, with its output read and its memory looked at."""
        for step in self.spec["state"]["prepare"]:
            self.bench.do(step)
        self.witness.begin(self.hyperfine.pid, timed=False)
        try:
            self.captured = capture(
                [word for word in self.argv if word not in self.work.without],
                self.work.read or unread,
                Neutral(self._url(self.repository)),
                environment(self.client),
                self.run / "captured.log",
                self.spec["time_limit_s"],
                self.hooks.watched,
            )
        except UserError as error:
            raise UserError(f"{error}{self._server_said()}") from None
        self.witness.end(self.hyperfine.pid)

    def _did(self) -> Fingerprint:
        """What the timed run that has just ended did; {} where nothing tells."""
        if self.captured and self.work.read:
            return self.captured.work
        if self.spec["work"] == "tree":
            return tree.read(self.target, Neutral(self._url(self.repository)))
        return {}

    def _certify(self) -> None:
        """Certify the run that has just ended, if one has."""
        certificate = self.witness.end(self.hyperfine.pid)
        if certificate:
            number = len(self.runs) + 1
            # Of the run that was our own: hyperfine tells that of the timed one since 1.21 only.
            certificate["client_peak_memory_bytes"] = self.captured and self.captured.peak_bytes
            self.runs.append({"run": number, "certificate": certificate, "work": self._did()})

    def _why(self) -> str:
        """Why hyperfine failed: the command is run once more, untimed, to hear what it says."""
        self.bench.do("remove-target")
        limit = self.spec["time_limit_s"]
        try:
            done = subprocess.run(
                self.argv, capture_output=True, env=environment(self.client), timeout=limit
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self.argv[0]} failed: {error}"
        said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        text = f"{os.path.basename(self.argv[0])} exits with {done.returncode}: {' '.join(said)}"
        return f"{text}{self._server_said()}"

    def _server_said(self) -> str:
        if not self.server:
            return ""
        return f"; {self.server.kind}'s log ends: {' '.join(self.server.last_words()) or 'it is empty'}"


def _variant(spec: dict[str, Any]) -> Variant:
    axes, repository = spec["axes"], spec["repository"]
    return Variant(repository["name"], axes["format"], axes["packing"], repository["identity"])


def environment(client: Programs) -> dict[str, str]:
    """The environment of what is timed. Subversion's sleep for timestamps is off: it times nothing."""
    return {
        **client.environment(os.environ),
        "LC_ALL": "C.UTF-8",
        "SVN_I_LOVE_CORRUPTED_WORKING_COPIES_SO_DISABLE_SLEEP_FOR_TIMESTAMPS": "yes",
    }


def run(
    spec: dict[str, Any], record: Path, number: int, thresholds: dict[str, float]
) -> tuple[bytes, dict[str, Any]]:
    """Measure round `number` of a cell while no other measurement runs on this machine.

    Returns hyperfine's export, byte for byte, and the context. A UserError says why it failed.
    """
    with machine_lock() as lock, run_folder(os.getcwd()) as folder:
        storage = json.loads(record.read_text())
        return CellRound(spec, storage, number, folder, thresholds).measure(lock)
