"""Start and stop svnserve and httpd on the loopback interface, and detect other servers of vcsbench."""

import os
import re
import socket
import string
import time
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

from vcsbench import processes
from vcsbench.environment import server_environment
from vcsbench.errors import UserError
from vcsbench.external import printable, read_bytes
from vcsbench.programs import Programs, missing_server_file, read_arguments

HOST = "127.0.0.1"
ON_PATH = Programs()
# A server that ends is noticed at once. A busy machine is slower by a factor of 30.
START_LIMIT_S = 120.0
# The mark of a server, by which a later run detects one that was left.
MARKER = "VCSBENCH_SERVER"
HTTPD_TEMPLATE = Path(__file__).with_name("server.conf")
DIRECTIVES, OUTPUT = "directives.conf", "output"
DIRECTIVES_LIMIT = 1 << 20
_DESCRIPTOR_PATH = re.compile(r"/proc/self/fd/(\d+)")
UNREADABLE_FILES = (
    "this process may not read the open files of its server, so another program could answer in its place. "
    "Allow it: in a container, --cap-add SYS_PTRACE."
)
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def quote_for_httpd(path: str | Path) -> str:
    """Return a path for a place between double quotes in httpd's configuration.

    `${name}` is a variable there, and cannot be escaped: `dollar` is defined as the variable of a
    dollar. Raise UserError for a path with a control character, which no directive can have.
    """
    text = os.fspath(path)
    if any(ord(character) < ord(" ") for character in text):
        raise UserError(
            f"{printable(ascii(text))}: httpd serves no path with a control character. Rename the folder."
        )
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("$", "${dollar}")):
        text = text.replace(character, escaped)
    return text


class Server:
    """A server. The subclasses are its kinds.

    `root` is the served folder, and `run` a private folder of this process. `files` is a copy of the
    configuration, of which the server reads `file`; `source` is the user's file, for messages. `programs` are
    the build's, `options` come after the options of the configuration.
    A server answers `greeting` without reading a repository. `version_options` print the program's version.
    """

    kind = ""
    file = ""
    greeting = b""
    version_options: tuple[str, ...] = ("--version", "--quiet")

    def __init__(
        self,
        root: Path,
        files: Path,
        run: Path,
        programs: Programs = ON_PATH,
        options: Sequence[str] = (),
    ) -> None:
        self.root, self.files, self.run = root, files, run
        self.source = files / self.file
        self.programs, self.options = programs, options
        self.argv: list[str] = []
        self.process: processes.Process | None = None
        self.reserved: socket.socket | None = None
        self.listeners: list[int] = []
        self.descriptors: dict[str, int] = {}

    def command(self) -> list[str]:
        raise NotImplementedError

    def subversion_version(self, program_version: str) -> str:
        return program_version

    @property
    def pid(self) -> int:
        return self.process.pid if self.process and self.process.poll() is None else 0

    @cached_property
    def port(self) -> int:
        """The port on HOST, reserved until close() because the timed command names it.

        A server may listen on it nevertheless, because it sets SO_REUSEADDR as well.
        """
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind((HOST, 0))
        port: int = self.reserved.getsockname()[1]
        return port

    def start(self) -> None:
        """Raise UserError with the last lines of the server's output if it does not answer."""
        self._spawn()
        if not self._answers():
            output = " ".join(self.last_output()) or "it printed nothing"
            self.stop()
            raise UserError(
                f"{self.source}: {self.kind} did not start with it: {output}. Correct the file, or the "
                f"installation of {self.kind}."
            )
        self._check_options()

    def _spawn(self) -> None:
        self.argv = self.command()
        if OUTPUT not in self.descriptors:
            flags = _NEW | os.O_APPEND | os.O_RDWR
            self.descriptors[OUTPUT] = os.open(self.run / OUTPUT, flags, 0o600)
            processes.grant(self.descriptors[OUTPUT], 0o660)
        log = self.descriptors[OUTPUT]
        self.process = processes.start_process(
            [*self.programs.env_command(), *self.argv],
            env=server_environment({MARKER: str(self.run)}),
            # On SIGTERM, httpd ends its children as well.
            signal="TERM",
            unprivileged=True,
            stdout=log,
            stderr=log,
            cwd="/",
            pass_fds=[*self.descriptors.values()],
        )

    def close(self) -> None:
        self.stop()
        if self.reserved:
            self.reserved.close()
        while self.descriptors:
            os.close(self.descriptors.popitem()[1])

    def stop(self) -> None:
        if self.process:
            processes.end(self.process)
            self.process = None

    def last_output(self) -> list[str]:
        paths = {number: str(self.run / name) for name, number in self.descriptors.items()}
        if DIRECTIVES in self.descriptors:
            paths[self.descriptors[DIRECTIVES]] = str(self.source)
        return [
            _DESCRIPTOR_PATH.sub(lambda match: paths.get(int(match[1]), match[0]), line)
            for line in processes.last_lines(self.run / OUTPUT)
        ]

    def greet(self) -> str:
        with socket.create_connection((HOST, self.port), timeout=START_LIMIT_S) as connection:
            connection.sendall(self.greeting)
            return connection.recv(4096).decode(errors="replace")

    def _answers(self) -> bool:
        deadline = time.monotonic() + START_LIMIT_S
        while self.pid and time.monotonic() < deadline:
            # Another program may have taken the port, and would answer as well. So the listening socket has
            # to be among the open files of this server.
            sockets = processes.listening_files(self.port)
            if sockets:
                opened = {pid: processes.open_files(pid) for pid in processes.family(self.pid)}
                self.listeners = [pid for pid, files in opened.items() if files & sockets]
                if self.listeners:
                    return bool(self.greet()) and bool(self.pid)
                if self.pid and not any(opened.values()):
                    raise UserError(f"{self.kind}: {UNREADABLE_FILES}")
            time.sleep(0.002)
        return False

    def _check_options(self) -> None:
        reported = processes.command_line(self.pid)
        if self.pid not in self.listeners:
            raise UserError(
                f"{self.argv[0]}: is a wrapper that starts {self.kind} and stays before it. End it with "
                f'`exec ... "$@"`, so that the server is this process.'
            )
        # A wrapper may run another program, with options of its own before these.
        given = self.argv[1:] if self.programs.prefix else self.argv
        if reported[len(reported) - len(given) :] != given:
            raise UserError(
                f"{self.kind} reports other options than it was given: {' '.join(reported)}. If "
                f'{self.argv[0]} is a wrapper, end it with `exec ... "$@"`.'
            )


class Svnserve(Server):
    """svnserve, as a daemon in the foreground. It sends the first message, so it needs no greeting."""

    kind = "svnserve"
    file = "svnserve.args"

    def command(self) -> list[str]:
        return [
            *(self.programs.get("svnserve"), "--daemon", "--foreground"),
            *("--root", str(self.root)),
            *("--listen-host", HOST, "--listen-port", str(self.port)),
            *read_arguments(self.files / self.file),
            *self.options,
        ]


class Httpd(Server):
    """httpd with mod_dav_svn, from a generated configuration.

    The greeting requests the server's options, which reads no repository.
    """

    kind = "httpd"
    file = "httpd.conf"
    greeting = b"OPTIONS * HTTP/1.0\r\n\r\n"
    version_options = ("-v",)

    def command(self) -> list[str]:
        conf = self._configuration
        return [self.programs.httpd, "-DFOREGROUND", f"-Dserving={self.root}", "-f", conf]

    @cached_property
    def _configuration(self) -> str:
        """The path of the configuration for the server, with the directives of `httpd.conf` at its end.

        httpd reads both files, and its folder, through descriptors. So no folder above them has to be open to
        its user, and no character of a path is part of a pattern.
        """
        directives = self.files / self.file
        try:
            content = read_bytes(directives, DIRECTIVES_LIMIT)
        except FileNotFoundError:
            raise missing_server_file(directives) from None
        # Some modules are part of the program, as in Debian.
        names = ("mpm_event", "unixd", "authz_core", "dav")
        paths = {name: f"{self.programs.httpd_modules}/mod_{name}.so" for name in names}
        modules = {name: path for name, path in paths.items() if os.path.exists(path)}
        modules["dav_svn"] = self.programs.mod_dav_svn
        # The one folder that the server may write. Nothing in it is opened by name: any process of the
        # servers' user may change it.
        writable = self.run / "writable"
        writable.mkdir(mode=0o700)
        processes.grant(writable, 0o770)
        text = string.Template(HTTPD_TEMPLATE.read_text()).substitute(
            run=self._hand_over("writable", os.O_PATH | os.O_DIRECTORY),
            port=self.port,
            root=quote_for_httpd(self.root),
            utf8="" if str(self.root).isascii() else "SVNUseUTF8 on",
            modules="\n".join(
                f'LoadModule {name}_module "{quote_for_httpd(path)}"'
                for name, path in modules.items()
            ),
            directives=self._write(DIRECTIVES, content),
        )
        return self._write("httpd.conf", os.fsencode(text))

    def subversion_version(self, program_version: str) -> str:
        match = re.search(r"\bSVN/([\w.-]+)", self.greet())
        return match[1] if match else ""

    def _write(self, name: str, content: bytes) -> str:
        path = self.run / name
        with open(os.open(path, _NEW | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        processes.grant(path, 0o640)
        return self._hand_over(name, os.O_RDONLY)

    def _hand_over(self, name: str, flags: int) -> str:
        """Open a file or folder of the run for the server, and return its path for the server."""
        self.descriptors[name] = os.open(self.run / name, flags | os.O_NOFOLLOW)
        return f"/proc/self/fd/{self.descriptors[name]}"


SERVER_KINDS: dict[str, type[Server]] = {"svnserve": Svnserve, "httpd": Httpd}


SERVER_NAMES = frozenset({"svnserve", "httpd", "apache2"})
OUR_PATH = "/vcsbench-"


def other_servers(exclude: Collection[int]) -> list[str]:
    """Return the command lines of vcsbench's servers, of any user and checkout, without the excluded pids.

    The environment of a server may be unreadable.
    """
    commands = []
    for pid in set(processes.all_pids()).difference(exclude):
        words = processes.command_line(pid)
        names = {os.path.basename(word) for word in words[:4]}
        serves_ours = names & SERVER_NAMES and any(OUR_PATH in word for word in words)
        if words and (
            serves_ours or any(word.startswith(f"{MARKER}=") for word in processes.environment(pid))
        ):
            commands.append(" ".join(words))
    return sorted(commands)
