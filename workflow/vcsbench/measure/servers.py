"""The servers: svnserve and httpd with mod_dav_svn, on a free port of the loopback interface."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import string
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.measure import processes

HOST = "127.0.0.1"
HTTPD_CONF = Path(__file__).with_name("httpd.conf")
# A port may be taken between finding it free and listening on it.
TRIES = 5
START_LIMIT_S = 20.0


class Server:
    """A server of one kind that can be started and stopped again and again.

    `root` is the folder that it serves, `files` the folder of its configuration (config/servers/<name>),
    `run` a private folder for what it writes.
    """

    def __init__(self, kind: str, root: Path, files: Path, run: Path) -> None:
        self.kind = kind
        self.root = root
        self.files = files
        self.run = run
        self.port = free_port()
        self.argv: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.output = run / "output"
        processes.own(run)

    @property
    def pid(self) -> int:
        """The server's pid; 0 when it does not run."""
        return self.process.pid if self.process and self.process.poll() is None else 0

    def start(self) -> None:
        """Start the server and wait until it answers; a UserError with its last words if it does not.

        The port stays the same over all starts, because the timed command names it; only the first
        start takes another one where somebody was faster.
        """
        taken = []
        for _ in range(TRIES if not self.starts else 1):
            self.argv = COMMANDS[self.kind](self)
            with self.output.open("ab") as log:
                self.process = subprocess.Popen(
                    processes.tied(self.argv, unprivileged=True),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.run,
                )
            if self._answers():
                self.starts += 1
                return self._check_options()
            said = " ".join(self.last_words())
            self.stop()
            if "in use" not in said:
                raise UserError(f"{self.kind} did not start from {self.files}: {said or 'it said nothing'}")
            taken.append(str(self.port))
            self.port = self.port if self.starts else free_port()
        raise UserError(
            f"{self.kind} found its port on {HOST} taken ({', '.join(taken)}); another program took it "
            f"between two runs: run again, or widen net.ipv4.ip_local_port_range"
        )

    def stop(self) -> None:
        """End the server, if it runs."""
        if self.process:
            processes.end(self.process)
            self.process = None

    def last_words(self) -> list[str]:
        """The last lines of what the server printed and of its log."""
        return [*processes.last_lines(self.output), *processes.last_lines(self.run / "httpd.log")]

    def _answers(self) -> bool:
        deadline = time.monotonic() + START_LIMIT_S
        while self.pid and time.monotonic() < deadline:
            try:
                with socket.create_connection((HOST, self.port), timeout=START_LIMIT_S) as connection:
                    # svnserve speaks first; httpd wants to be asked, for nothing in a repository.
                    if self.kind == "httpd":
                        connection.sendall(b"OPTIONS * HTTP/1.0\r\n\r\n")
                    if connection.recv(1):
                        return bool(self.pid)
            except OSError:
                time.sleep(0.002)
        return False

    def _check_options(self) -> None:
        reported = processes.command_line(self.pid)
        if reported != self.argv:
            raise UserError(f"{self.kind} reports other options than it was given: {' '.join(reported)}")


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def read_arguments(path: Path) -> list[str]:
    """The options in a file of config/servers; # starts a comment."""
    try:
        return shlex.split(path.read_text(), comments=True)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; a server configuration has one") from None
    except ValueError as error:
        raise UserError(f"{path}: cannot be read as options: {error}") from None


def _svnserve(server: Server) -> list[str]:
    return [
        _program("svnserve"),
        "--daemon",
        "--foreground",
        "--root",
        str(server.root),
        "--listen-host",
        HOST,
        "--listen-port",
        str(server.port),
        *read_arguments(server.files / "svnserve.args"),
    ]


def _httpd(server: Server) -> list[str]:
    machine = Machine()
    directives = server.files / "httpd.conf"
    if not directives.exists():
        raise UserError(f"{directives}: there is no such file; a server configuration has one")
    # The server's user need not be able to enter the folder of the workflow.
    copied = server.run / "directives.conf"
    copied.write_bytes(directives.read_bytes())
    conf = server.run / "httpd.conf"
    conf.write_text(
        string.Template(HTTPD_CONF.read_text()).substitute(
            run=server.run,
            port=server.port,
            root=server.root,
            modules=machine.httpd_modules,
            directives=copied,
        )
    )
    return [machine.httpd, "-DFOREGROUND", "-f", str(conf)]


def _program(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise UserError(f"{name} is not on the PATH; `make report` installs what is needed")
    return os.path.abspath(found)


COMMANDS: dict[str, Callable[[Server], list[str]]] = {"svnserve": _svnserve, "httpd": _httpd}
# The axis `ra`: which server, and the scheme of its URLs. Over file there is none.
ACCESS = {"svn": ("svnserve", "svn"), "http": ("httpd", "http")}
