"""Runs one cell-round: hyperfine with its hooks, the servers behind it, and the certificate of each run."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import urllib.parse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.measure import certificate, context, processes
from vcsbench.measure.clearing import resident_share
from vcsbench.measure.hooks import Hooks
from vcsbench.measure.lock import machine_lock
from vcsbench.measure.servers import ACCESS, HOST, Server, read_arguments
from vcsbench.measure.steps import Bench
from vcsbench.measure.template import fill
from vcsbench.repositories.labels import EMPTY, FOLDER, copy_of, label_of, read_label


class CellRound:
    """One round of a cell. `spec` is what vcsbench.specs makes of the configuration, `record` what the
    rule that copies wrote of the storage, `run` a private folder."""

    def __init__(
        self, spec: dict[str, Any], record: dict[str, Any], number: int, order: int, run: Path
    ) -> None:
        self.spec = spec
        self.run = run
        self.number = number
        self.order = order
        self.place = Path(record["place"])
        self.copy = (number - 1) % record["copies"] + 1
        self.repository = copy_of(self.place, spec["repository"]["variant"], self.copy)
        self.label = self._check_copy()
        self.server = self._server()
        self.argv: list[str] = []
        self.prepared = 0
        self.before: certificate.Snapshot | None = None
        self.resident_before: float | None = None
        self.runs: list[dict[str, Any]] = []

    def measure(self, lock: int) -> tuple[bytes, dict[str, Any]]:
        """Measure. Returns hyperfine's export as it wrote it, and the context."""
        began = datetime.datetime.now(datetime.UTC)
        with ExitStack() as stack:
            target = self.place / "targets" / str(os.getpid())
            target.parent.mkdir(exist_ok=True)
            stack.callback(shutil.rmtree, target, ignore_errors=True)
            if self.server:
                stack.callback(self.server.stop)
                self.server.start()  # now: the timed command has to name its port
            self.argv = self._fill(self.repository, self.label["tree"], target)
            touch = self._fill(self.place / FOLDER / EMPTY, "", target)
            self.bench = Bench(
                self.repository, self.server, target, self.spec["clearing"], touch, environment()
            )
            self.hooks = Hooks(self.run, self._hook)
            self._time(lock)
            described = self._context(began)
        return (self.run / "export.json").read_bytes(), described

    def _check_copy(self) -> dict[str, Any]:
        label = read_label(self.repository)
        if label.get("identity") != self.spec["repository"]["identity"]:
            label_of(self.repository).unlink(missing_ok=True)  # the next start makes it again
            raise UserError(
                f"{self.repository}: the copy has vanished or was changed; run again, and it is made anew"
            )
        return label

    def _server(self) -> Server | None:
        access = self.spec["axes"].get("ra", "")
        if access not in ACCESS:
            return None
        folder = self.run / "server"
        folder.mkdir()
        os.chmod(self.run, 0o711)  # the server's user has to reach its folder
        return Server(ACCESS[access][0], self.place / FOLDER, Path(self.spec["servers"]), folder)

    def _fill(self, repository: Path, tree: str, target: Path) -> list[str]:
        """The timed command, for a repository on the place."""
        if self.server:
            scheme = ACCESS[self.spec["axes"]["ra"]][1]
            url = f"{scheme}://{HOST}:{self.server.port}/{urllib.parse.quote(repository.name)}"
        else:
            url = f"file://{urllib.parse.quote(str(repository))}"
        # The client writes into its configuration's folder.
        client = self.run / "client"
        if not client.exists():
            shutil.copytree(Path(self.spec["servers"]) / "client", client)
        options = ["--non-interactive", "--config-dir", str(client)]
        return fill(
            self.spec["argv"],
            {
                "svn": [program("svn"), *options],
                "svnbench": [program("svnbench"), *options],
                "svnadmin": program("svnadmin"),
                "svnadmin_args": read_arguments(Path(self.spec["servers"]) / "svnadmin.args"),
                "url": url,
                "tree": urllib.parse.quote(tree),
                "repository": str(repository),
                "target": str(target),
            },
        )

    def _time(self, lock: int) -> None:
        """Run hyperfine; a UserError with what the command and the server said where it fails."""
        log = self.run / "hyperfine.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                processes.tied(self._hyperfine()),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(),
                process_group=0,  # ended together with what it runs
                pass_fds=[lock],
            )
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
            program("hyperfine"),
            "-N",
            *("--style", "basic"),
            *("--warmup", str(self.spec["state"]["warmup"])),
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
            return
        self._certify()
        if name == "prepare":
            self.prepared += 1
            timed = self.prepared > self.spec["state"]["warmup"]
            for step in self.spec["state"]["prepare"]:
                self.bench.do(step)
                if step == "clear-caches" and timed:
                    self._ask_and_clear()
            if timed:
                self.before = certificate.snapshot(self.place, self.server)

    def _ask_and_clear(self) -> None:
        # Asking loads inodes, so caches are cleared once more.
        self.resident_before = resident_share(self.repository, self.label["sample"])
        self.bench.do("clear-caches")

    def _certify(self) -> None:
        """Certify the timed run that has just ended, if one has."""
        if not self.before:
            return
        after = certificate.snapshot(self.place, self.server)
        seen = {
            "cache_cleared_by": self.spec["clearing"] if self.resident_before is not None else "",
            "resident_before": self.resident_before,
            "resident_after": resident_share(self.repository, self.label["sample"]),
            **certificate.certify(self.before, after, self.server),
        }
        flags = certificate.judge(
            self.spec["axes"]["cache"], seen, self.before, after, self.label["bytes"]
        )
        self.runs.append({"run": len(self.runs) + 1, "certificate": seen, "flags": flags})
        self.before = None

    def _why(self) -> str:
        """Why hyperfine failed: the command is run once more, untimed, to hear what it says."""
        self.bench.do("remove-target")
        limit = self.spec["time_limit_s"]
        try:
            done = subprocess.run(self.argv, capture_output=True, env=environment(), timeout=limit)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self.argv[0]} failed: {error}"
        said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        text = f"{os.path.basename(self.argv[0])} exits with {done.returncode}: {' '.join(said)}"
        if self.server:
            text += f"; {self.server.kind}'s log ends: {' '.join(self.server.last_words()) or 'it is empty'}"
        return text

    def _context(self, began: datetime.datetime) -> dict[str, Any]:
        spec, server = self.spec, self.server
        files = Path(spec["servers"])
        asked = {name: [program(name), "--version", *QUIET.get(name, [])] for name in self._programs()}
        if server and server.kind == "httpd":
            asked["httpd"] = [server.argv[0], "-v"]
        return {
            "study": spec["study"],
            "cell": spec["cell"],
            "spec_digest": spec["spec_digest"],
            "axes": spec["axes"],
            "round": self.number,
            "copy": self.copy,
            "order": self.order,
            "started_at": began.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "argv": self.argv,
            "argv_template": spec["argv"],
            "hooks": {"setup": spec["state"]["setup"], "prepare": spec["state"]["prepare"], "cleanup": []},
            "warmup": spec["state"]["warmup"],
            "server": server and {
                "kind": server.kind,
                "argv": server.argv,
                "port": server.port,
                "pid": self.runs[-1]["certificate"].get("server_pid") if self.runs else None,
            },
            "server_files": {
                str(p.relative_to(files)): p.read_text(errors="replace")
                for p in sorted(files.rglob("*"))
                if p.is_file()
            },
            "host": context.host(),
            "storage": context.storage(spec["storage"]["name"], self.place),
            "versions": context.versions(asked),
            "repository": {
                **spec["repository"],
                **{k: v for k, v in self.label.items() if k not in ("sample", "current_mtime_ns")},
                "path": str(self.repository),
            },
            "runs": self.runs,
            "flags": ["nothing-packed"] if self._nothing_packed() else [],
        }

    def _programs(self) -> list[str]:
        server = ["svnserve"] if self.server and self.server.kind == "svnserve" else []
        return [os.path.basename(self.argv[0]), "hyperfine", *server]

    def _nothing_packed(self) -> bool:
        return self.spec["axes"].get("packing") == "pack" and not self.label["packed_shards"]


QUIET = {name: ["--quiet"] for name in ("svn", "svnadmin", "svnbench", "svnserve")}


def program(name: str) -> str:
    """The path of a program; a UserError where there is none."""
    found = shutil.which(name)
    if not found:
        raise UserError(f"{name} is not on the PATH; `make report` installs what is needed")
    return os.path.abspath(found)


def environment() -> dict[str, str]:
    """The environment of what is timed. Subversion's sleep for timestamps is off: it times nothing."""
    return {**os.environ, "LC_ALL": "C.UTF-8", "SVN_I_LOVE_CORRUPTED_WORKING_COPIES_SO_DISABLE_SLEEP_FOR_TIMESTAMPS": "yes"}


def run(spec: dict[str, Any], record: Path, number: int, order: int) -> tuple[bytes, dict[str, Any]]:
    """Measure round `number` of a cell, `order` in the whole run, while nothing else measures here.

    Returns hyperfine's export, byte for byte, and the context. A UserError says why it failed.
    """
    with machine_lock() as lock, tempfile.TemporaryDirectory(prefix="vcsbench-") as folder:
        cell = CellRound(spec, json.loads(record.read_text()), number, order, Path(folder))
        return cell.measure(lock)
