"""Start and stop a server on a free port of the loopback interface."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.measure.meters.strangers import MARKER
from vcsbench.measure.servers import kind_of
from vcsbench.measure.servers.kind import DIRECTIVES, HOST
from vcsbench.programs import Programs

ON_PATH = Programs()
# A port may be taken between finding it free and listening on it.
TRIES = 5
# The names that a server takes from our environment: places of programs and libraries, settings of the C
# library, and the mark of the run, by which a later run finds a server that was left.
INHERITED = re.compile(
    r"PATH|TZ|LD_LIBRARY_PATH|LD_PRELOAD|LD_BIND_NOW|GLIBC_TUNABLES|MALLOC_\w+|VCSBENCH_RUN_ROOT"
)
_HANDED_OVER = re.compile(r"/proc/self/fd/\d+")
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
START_LIMIT_S = 20.0


class Server:
    """A server of one kind (measure/servers).

    `root` is the served folder, `files` the configuration (config/servers/<name>), and `run` a private folder
    of this process. `programs` are the build's, `options` come after the options of the configuration.
    """

    def __init__(
        self,
        kind: str,
        root: Path,
        files: Path,
        run: Path,
        programs: Programs = ON_PATH,
        options: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self.of = kind_of(kind)
        self.root = root
        self.files = files
        self.run = run
        self.programs = programs
        self.options = options
        self.port = free_port()
        self.argv: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.held: socket.socket | None = None
        self.listeners: list[int] = []
        self.output = run / "output"
        # Opened by this process, and kept: the server reaches them by their numbers, from its first start on.
        self.handed_over: dict[str, int] = {}

    @property
    def pid(self) -> int:
        """The server's pid; 0 if it does not run."""
        return self.process.pid if self.process and self.process.poll() is None else 0

    def settle(self) -> None:
        """Settle on a port before the first start, and keep it from others until then."""
        self.held = socket.socket()
        self.held.bind((HOST, 0))
        self.port = self.held.getsockname()[1]
        self.argv = self.of.command(self)

    def start(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Start the server and wait until it answers. `meanwhile` is called while it starts.

        The port stays the same over all starts, because the timed command names it. Only the first start
        takes another port if this one is taken, unless the port was settled. Raise UserError with the last
        lines of the server's output if it does not start.
        """
        taken, is_settled = [], bool(self.starts or self.held)
        if self.held:
            self.held.close()
            self.held = None
        for _ in range(1 if is_settled else TRIES):
            self._spawn()
            meanwhile()
            if self._answers():
                self.starts += 1
                return self._check_options()
            said = " ".join(self.last_words())
            self.stop()
            if "in use" not in said:
                raise UserError(
                    f"{self.kind} did not start from {self.files}: {said or 'it said nothing'}"
                )
            taken.append(str(self.port))
            self.port = self.port if is_settled else free_port()
        raise UserError(
            f"{self.kind} found its port on {HOST} taken ({', '.join(taken)}); another program took it "
            f"between two runs: run again, or widen net.ipv4.ip_local_port_range"
        )

    def _spawn(self) -> None:
        self.argv = self.of.command(self)
        log = self._open_output()
        self.process = subprocess.Popen(
            # SIGTERM: on it, httpd ends its children as well.
            processes.with_pdeathsig(
                [*self.programs.as_words(), *self.argv], signal="TERM", unprivileged=True
            ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**server_environment(os.environ), MARKER: str(self.run)},
            pass_fds=[*self.handed_over.values()],
        )

    def _open_output(self) -> int:
        """Return a descriptor of the file of the server's output, which lies in our own folder."""
        if "output" not in self.handed_over:
            self._keep("output", os.open(self.output, _NEW | os.O_APPEND | os.O_RDWR, 0o600))
            processes.grant(self.handed_over["output"], 0o660)
        return self.handed_over["output"]

    def writable_folder(self) -> str:
        """Make the one folder that the server may write, and return its path for the server.

        Nothing in it is opened by name: any process of the servers' user may change it.
        """
        if "writable" not in self.handed_over:
            folder = self.run / "writable"
            folder.mkdir(mode=0o700)
            self._keep("writable", os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW))
            processes.grant(folder, 0o770)
        return f"/proc/self/fd/{self.handed_over['writable']}"

    def hand_over(self, name: str, text: str) -> str:
        """Write a file that the server may read, and return its path for the server."""
        path = self.run / name
        path.unlink(missing_ok=True)
        with open(os.open(path, _NEW | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.fsencode(text))
        processes.grant(path, 0o640)
        self._keep(name, os.open(path, os.O_RDONLY | os.O_NOFOLLOW))
        return f"/proc/self/fd/{self.handed_over[name]}"

    def _keep(self, name: str, descriptor: int) -> None:
        """Keep a descriptor under a name; a later one of the name gets the same number."""
        if name in self.handed_over:
            os.dup2(descriptor, self.handed_over[name], inheritable=False)
            os.close(descriptor)
        else:
            self.handed_over[name] = descriptor

    def close(self) -> None:
        """End the server, and close all that was kept open for its next start."""
        self.stop()
        if self.held:
            self.held.close()
            self.held = None
        while self.handed_over:
            os.close(self.handed_over.popitem()[1])

    def stop(self) -> None:
        """End the server, if it runs."""
        if self.process:
            processes.end(self.process)
            self.process = None

    def last_words(self) -> list[str]:
        """Return the last lines of the server's output, which has its log. Paths are those of the files."""
        paths = {
            f"/proc/self/fd/{number}": self.files / "httpd.conf"
            if name == DIRECTIVES
            else self.run / name
            for name, number in self.handed_over.items()
        }
        return [
            _HANDED_OVER.sub(lambda found: str(paths.get(found[0], found[0])), line)
            for line in processes.last_lines(self.output)
        ]

    def greet(self) -> str:
        """Return the beginning of the server's answer to a greeting."""
        with socket.create_connection((HOST, self.port), timeout=START_LIMIT_S) as connection:
            connection.sendall(self.of.greeting)
            return connection.recv(4096).decode(errors="replace")

    def _answers(self) -> bool:
        deadline = time.monotonic() + START_LIMIT_S
        while self.pid and time.monotonic() < deadline:
            # Another program may have taken the port, and would answer as well.
            self.listeners = processes.listeners(self.pid, self.port)
            if self.listeners:
                return bool(self.greet()) and bool(self.pid)
            time.sleep(0.002)
        return False

    def _check_options(self) -> None:
        reported = processes.command_line(self.pid)
        if self.pid not in self.listeners:
            raise UserError(
                f"{self.argv[0]}: is a wrapper that starts {self.kind} and stays before it; it has to end "
                f'with `exec ... "$@"`, so that the server is this process'
            )
        # A wrapper may run another program, with options of its own before these.
        given = self.argv[1:] if self.programs.prefix else self.argv
        if reported[len(reported) - len(given) :] != given:
            raise UserError(
                f"{self.kind} reports other options than it was given: {' '.join(reported)}"
            )


def server_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: of the inherited one, only the names that a server needs.

    Users of the machine may read it.
    """
    return {
        "LC_ALL": "C.UTF-8",
        "PATH": os.defpath,
        **{name: value for name, value in inherited.items() if INHERITED.fullmatch(name)},
    }


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port
