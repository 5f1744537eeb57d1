"""Runs one cell-round: hyperfine with its hooks, the servers behind it, and the certificate of each run."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import shutil
import signal
import subprocess
import urllib.parse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vcsbench import hyperfine_export, judgement
from vcsbench.errors import UserError
from vcsbench.measure import context, processes
from vcsbench.measure.access import ACCESS, read_arguments
from vcsbench.measure.certificate import Witness
from vcsbench.measure.hooks import Hooks
from vcsbench.measure.lock import machine_lock
from vcsbench.measure.programs import Programs, check_unchanged
from vcsbench.measure.servers import HOST, Server
from vcsbench.measure.steps import Bench
from vcsbench.measure.template import fill
from vcsbench.measure.work import KINDS, Fingerprint, tree
from vcsbench.measure.work.capture import Captured, capture, unread
from vcsbench.measure.work.neutral import Neutral
from vcsbench.repositories.labels import EMPTY, FOLDER, copy_of, read_label, withdraw
from vcsbench.repositories.place import Place
from vcsbench.runfolder import run_folder

# Shards of the copy that are looked at before it is measured: 2,000 files where they are not packed.
LOOKED_AT = 2


class CellRound:
    """One round of a cell. `spec` is what vcsbench.specs makes of the configuration, `record` what the
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
        self.label = self._check_copy()
        self.client = Programs(**spec["build"]["client"])
        self.server = self._server()
        check_unchanged(
            spec["binaries"], self.client, self.server.programs if self.server else self.client
        )
        self.target = self.run / "target"
        if spec["targets"]:
            self.target = Place(spec["targets"], os.getcwd()).make("targets") / str(os.getpid())
        self.work = KINDS[spec["work"]]
        self.captured: Captured | None = None
        # The first run that does not count is our own.
        self.warmup = max(0, spec["state"]["warmup"] - 1)
        self.argv: list[str] = []
        self.hyperfine = 0
        self.prepared = 0
        self.thresholds = thresholds
        self.witness = Witness(
            self.repository, self.label["bytes"], self.server, self.spec["clearing"]
        )
        self.runs: list[dict[str, Any]] = []

    def measure(self, lock: int) -> tuple[bytes, dict[str, Any]]:
        """Measure. Returns hyperfine's export as it wrote it, and the context."""
        began = datetime.datetime.now(datetime.UTC)
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.target, ignore_errors=True)
            if self.server:
                stack.callback(self.server.stop)
                self.server.start()  # now: the timed command has to name its port
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
            self._judge(self.run / "export.json")
            described = context.describe(self, began)
        return (self.run / "export.json").read_bytes(), described

    def _check_copy(self) -> dict[str, Any]:
        # Caches that are to be cold are cleared after this; what it reads is little, and hot ones are warm.
        label = read_label(self.repository, shards=LOOKED_AT)
        if label.get("identity") != self.spec["repository"]["identity"]:
            if not label:
                withdraw(self.repository)
            raise UserError(
                f"{self.repository}: the copy has vanished or was changed; the next run of the workflow "
                f"makes it anew"
            )
        return label

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
            (
                client / "README.txt"
            ).touch()  # or the first run writes it, and so more than the others
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
        """Run hyperfine; a UserError with what the command and the server said where it fails."""
        log = self.run / "hyperfine.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                processes.tied(self._hyperfine()),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(self.client),
                process_group=0,  # ended together with what it runs
                pass_fds=[lock],
            )
            self.hyperfine = process.pid
            try:
                self.hooks.serve(process.pid, self.spec["time_limit_s"])
            finally:
                if process.poll() is None:
                    try:
                        process.wait(0.2)
                    except subprocess.TimeoutExpired:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
        if process.returncode != 0:
            raise UserError(f"{self._why()} ({' | '.join(processes.last_lines(log, 2))})")

    def _hyperfine(self) -> list[str]:
        return [
            Programs().get("hyperfine"),
            "-N",
            *("--style", "basic"),
            *("--warmup", str(self.warmup)),
            *("--runs", str(self.spec["runs"])),
            *("--setup", self.hooks.command("setup")),
            *("--prepare", self.hooks.command("prepare")),
            *("--cleanup", self.hooks.command("cleanup")),
            *("--export-json", str(self.run / "export.json")),
            shlex.join(self.argv),
        ]

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
            self.witness.begin(self.hyperfine, timed)

    def _capture(self) -> None:
        """The first of the runs that do not count, with its output read and its memory looked at."""
        for step in self.spec["state"]["prepare"]:
            self.bench.do(step)
        self.witness.begin(self.hyperfine, timed=False)
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
        self.witness.end(self.hyperfine)

    def _did(self) -> Fingerprint:
        """What the timed run that has just ended did; {} where nothing tells."""
        if self.captured and self.work.read:
            return self.captured.work
        if self.spec["work"] == "tree":
            return tree.read(self.target, Neutral(self._url(self.repository)))
        return {}

    def _certify(self) -> None:
        """Certify the run that has just ended, if one has."""
        certificate = self.witness.end(self.hyperfine)
        if certificate:
            number = len(self.runs) + 1
            # Of the run that was our own: hyperfine tells that of the timed one since 1.21 only.
            certificate["client_peak_memory_bytes"] = self.captured and self.captured.peak_bytes
            self.runs.append({"run": number, "certificate": certificate, "work": self._did()})

    def _judge(self, export: Path) -> None:
        """Add to each run's certificate what hyperfine's times say, and the flags that it earns."""
        for run, timed in zip(self.runs, hyperfine_export.read(export), strict=True):
            run["certificate"] = judgement.with_times(run["certificate"], timed)
            run["flags"] = judgement.judge(run["certificate"], self.spec["axes"], self.thresholds)

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
