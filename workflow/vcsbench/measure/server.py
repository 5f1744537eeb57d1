"""Start and stop servers on an address of this machine, and detect other servers of vcsbench."""

import os
import re
import socket
import string
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from pathlib import Path

from vcsbench import process_facts, processes, server_user
from vcsbench.deployment import credentials
from vcsbench.deployment.credentials import Certificate, Credentials
from vcsbench.deployment.deployed_server import (
    NOT_DEPLOYED,
    SASL,
    Deployment,
    httpd_directives,
    svnserve_configuration,
)
from vcsbench.environment import server_environment
from vcsbench.errors import UserError
from vcsbench.external import printable, read_bytes
from vcsbench.measure.untimed_runs import read_mapped_files
from vcsbench.programs import Programs, missing_server_file, read_arguments

HOST = "127.0.0.1"
ON_PATH = Programs()
# A busy machine takes 30 times as long as an idle one. A server that ends is noticed at once.
START_LIMIT_S = 120.0
POLL_S = 0.002
# The processes of a closed connection end within milliseconds.
CONNECTION_END_S = 5.0
# The mark of a server. A later run detects by it a server that was left.
SERVER_MARKER = "VCSBENCH_SERVER"
HTTPD_TEMPLATE = Path(__file__).with_name("server.conf")
DIRECTIVES = "directives.conf"
OUTPUT = "output"
# The one folder that a server may write.
WRITABLE_FOLDER = "writable"
# Access of httpd to copies that are only read, and to one that takes commits. Without root, httpd owns the
# served copies.
READ_ONLY = "Require method GET HEAD OPTIONS PROPFIND REPORT"
WRITABLE = "Require all granted"
TLS_VERSION = "TLSv1.3"
# A request that reads no repository, and whose connection httpd keeps open unless its settings forbid that.
KEPT_GREETING = b"OPTIONS * HTTP/1.1\r\nHost: vcsbench\r\n\r\n"
# The errors of a connection if the server does not answer, or ends.
NO_ANSWER = (TimeoutError, ConnectionError)
DIRECTIVES_LIMIT = 1 << 20
EnterNetwork = Callable[[], AbstractContextManager[None]]
# The modules of httpd that it needs, next to mod_dav_svn. Some are part of the program, as in Debian.
HTTPD_MODULES = ("mpm_event", "unixd", "authz_core", "dav")
_DESCRIPTOR_PATH = re.compile(r"/proc/self/fd/(\d+)")
_SVN_VERSION = re.compile(r"\bSVN/([\w.-]+)")
# Flags for a file that must not exist yet, under a name that may be a link of somebody else.
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def quote_for_httpd(path: str | Path) -> str:
    """Return a path for a place between double quotes in httpd's configuration.

    `${name}` is a variable there, and a dollar cannot be escaped. So the configuration defines a variable
    `dollar`, and /srv/a$b becomes /srv/a${dollar}b. Raise UserError for a path with a control character,
    which no directive can have.
    """
    text = os.fspath(path)
    if any(ord(character) < ord(" ") for character in text):
        raise UserError(
            f"{printable(ascii(text))}: httpd serves no path with a control character. Rename the folder."
        )
    # Backslashes first: the next line adds some.
    text = text.replace("\\", "\\\\")
    text = text.replace('"', '\\"')
    return text.replace("$", "${dollar}")


class Server:
    """A server of repositories. start() and stop() can be called any number of times, until close().

    Each subclass is a kind of server, and sets the first group of attributes. The server listens on `host`,
    in the network that `in_network()` enters: this process's, or the other end of a line (deployment.link).
    """

    # The name of the kind in recipes and messages, and the file of a server configuration that it reads.
    kind = ""
    file = ""
    # A request that the server answers without reading a repository.
    greeting = b""
    # Options that print the version of its program, and the program whose version is that of the system.
    version_options: tuple[str, ...] = ("--version", "--quiet")
    system_program = ""
    needed_variables: Mapping[str, str] = {}
    # Each connection has processes of its own, which end with it.
    is_per_connection = False
    # Processes whose parents have ended become children of the server (processes.start_process).
    adopts_orphans = False

    def __init__(
        self,
        root: Path,
        files: Path,
        run: Path,
        programs: Programs = ON_PATH,
        *,
        options: Sequence[str] = (),
        deployment: Deployment = NOT_DEPLOYED,
        source: Path | None = None,
        host: str = HOST,
        in_network: EnterNetwork = nullcontext,
    ) -> None:
        """Prepare the server of the folder `root`. Its port is reserved later, by the first use of `port`.

        - `files` is the folder of the server configuration, with the file `self.file`. If it is a copy,
          messages name `source`, the user's own file.
        - `run` is a private folder for the files that are written for this server.
        - `options` are those of the cell, such as ["--compression", "5"].
        - `deployment` are settings such as encryption, passwords and access rules.
        - `in_network()` returns a context. Within it, this process makes sockets and starts processes in the
          network of the server. By default, that is the network of this process.
        """
        self.root = root
        self.files = files
        self.run = run
        self.programs = programs
        self.options = options
        self.deployment = deployment
        self.source = source or files / self.file
        self.host = host
        self.in_network = in_network
        # The name and password that clients of this server need; None for anonymous clients.
        self.credentials: Credentials | None = None
        if deployment.authentication:
            self.credentials = credentials.make_credentials()
        # The text of the server's access rules. The caller sets it before the first start.
        self.rules = ""
        # The part of the configuration that follows from `deployment`, once the configuration is written.
        self.settings = ""
        self.variables = dict(self.needed_variables)
        self.argv: list[str] = []
        self.process: processes.Process | None = None
        # The socket that reserves the port, from the first use of `port` on.
        self.reserved: socket.socket | None = None
        # The pids of the processes that listen on the port.
        self.listeners: list[int] = []
        # The open files that the server inherits, by their name in `run`.
        self.descriptors: dict[str, int] = {}

    def command(self) -> list[str]:
        """Return the command line of the server."""
        raise NotImplementedError

    def version_commands(self) -> dict[str, list[str]]:
        """Return commands that print the versions of the server's programs, by the names of the programs."""
        return {self.kind: [*self.env_command(), self.command()[0], *self.version_options]}

    def system_version(self, versions: Mapping[str, str]) -> str:
        """Return the version of the system that is served, given the versions of the server's programs."""
        return versions[self.system_program]

    def system_command(self) -> list[str]:
        """Return the command line of the program that reads repositories, such as svnserve below sshd."""
        return self.argv

    def mapped_files(self) -> list[str] | None:
        """Return the files in the memory of the program that reads repositories; None if unknown."""
        return read_mapped_files(self.pid)

    def client_config(self) -> str:
        """Return lines for the file `config` of the client, without which it cannot reach this server."""
        return ""

    def client_variables(self) -> dict[str, str]:
        """Return variables of the client's environment, without which it cannot reach this server."""
        return {}

    @property
    def scheme(self) -> str:
        """The scheme of its URLs."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """The host of URLs, and the port if they have one."""
        return f"{self.host}:{self.port}"

    def await_connections(self) -> None:
        """Wait until the processes of closed connections have ended, for at most CONNECTION_END_S seconds.

        The kernel adds the counts of a process to its parent's only when the process ends.
        """
        if not self.is_per_connection:
            return
        deadline = time.monotonic() + CONNECTION_END_S
        # family() lists the server itself, too.
        while self.pid and len(process_facts.family(self.pid)) > 1 and time.monotonic() < deadline:
            time.sleep(POLL_S)

    @property
    def pid(self) -> int:
        """The process of the server; 0 if it does not run."""
        if self.process and self.process.poll() is None:
            return self.process.pid
        return 0

    @cached_property
    def port(self) -> int:
        """The port on the host, reserved until close() because the timed command names it.

        A socket that does not listen reserves the port. The server can listen on this port, because both
        sockets have the option SO_REUSEADDR.
        """
        # A socket stays in the network in which it was made.
        with self.in_network():
            self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind((self.host, 0))
        port: int = self.reserved.getsockname()[1]
        return port

    @property
    def realm(self) -> str:
        """The name by which svn stores the password of the server."""
        return f"<{self.scheme}://{self.host}:{self.port}> {credentials.REALM}"

    def authority(self) -> Path | None:
        """Return the file of the certificate that clients have to trust; None without encryption."""
        return None

    def start(self) -> None:
        """Start the server, and wait until it answers: set `argv`, `process` and `listeners`.

        Raise UserError with the last lines of the server's output if it does not answer, and if it runs with
        other options than its command line has, or below a script that stays as its parent.
        """
        self._spawn()
        self.listeners = self._await_listeners()
        answer = ""
        if self.listeners:
            with suppress(*NO_ANSWER):
                answer = self.greet()
        # The server may have ended after its answer.
        if not answer or not self.pid:
            raise self._end_failed_start()
        self._check_options()

    def _end_failed_start(self) -> UserError:
        """End a server that does not answer, and return an error with the end of its output."""
        output = " ".join(self.last_output()) or "it printed nothing"
        self.stop()
        # Only some kinds of servers read a file of the user's server configuration.
        if not self.file:
            return UserError(
                f"{self.kind} did not start: {output}. Check the installation of {self.kind}."
            )
        return UserError(
            f"{self.source}: {self.kind} did not start with it: {output}. Correct the file, or the "
            f"installation of {self.kind}."
        )

    def _spawn(self) -> None:
        """Start the process of the server, without waiting for it: set `argv` and `process`.

        If this process is root's, the server runs as another user. The server inherits the open files in
        `descriptors`, so that it needs no right to open them.
        """
        # At the first start, command() writes the server's configuration, and adds to `variables` and
        # `descriptors`. So this comes before their use.
        self.argv = self.command()
        # All later starts append to the file of the first start.
        if OUTPUT not in self.descriptors:
            flags = _NEW | os.O_APPEND | os.O_RDWR
            self.descriptors[OUTPUT] = os.open(self.run / OUTPUT, flags, 0o600)
            server_user.grant(self.descriptors[OUTPUT], 0o660)
        log = self.descriptors[OUTPUT]
        with self.in_network():
            self.process = processes.start_process(
                # Such as `env LD_LIBRARY_PATH=/opt/svn/lib /opt/svn/bin/svnserve ...`.
                [*self.env_command(), *self.argv],
                env=server_environment({SERVER_MARKER: str(self.run), **self.variables}),
                # The kernel sends this signal when vcsbench ends. On SIGTERM, httpd ends its children, too.
                signal="TERM",
                unprivileged=True,
                # True for sshd: the kernel's counts then include processes whose parents have ended.
                adopts_orphans=self.adopts_orphans,
                stdout=log,
                stderr=log,
                cwd="/",
                pass_fds=list(self.descriptors.values()),
            )

    def env_command(self) -> list[str]:
        """Return the words before the command line that set the environment of the program."""
        return self.programs.env_command()

    def close(self) -> None:
        """End the server, and free its port and files. It cannot be started again."""
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
        """Return the last lines of the output, with names of files instead of paths such as /proc/self/fd/5.

        Example: ["AH00526: Syntax error on line 2 of config/servers/mine/httpd.conf"].
        """
        # Such as {5: "/tmp/vcsbench-x/server/authz"}.
        names = {descriptor: str(self.run / name) for name, descriptor in self.descriptors.items()}
        if DIRECTIVES in self.descriptors:
            # httpd reads a copy of the user's file. The user needs the name of the original.
            names[self.descriptors[DIRECTIVES]] = str(self.source)

        def name_file(match: re.Match[str]) -> str:
            return names.get(int(match[1]), match[0])

        lines = processes.last_lines(self.run / OUTPUT)
        return [_DESCRIPTOR_PATH.sub(name_file, line) for line in lines]

    def greet(self) -> str:
        """Connect to the server, and return the first part of its answer."""
        return self._request(self.greeting)

    def _request(self, request: bytes) -> str:
        with self._connect() as connection:
            connection.sendall(request)
            return connection.recv(4096).decode(errors="replace")

    def _connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=START_LIMIT_S)

    def _await_listeners(self) -> list[int]:
        """Return the processes that listen, once there are any; [] if the server ends or takes too long."""
        deadline = time.monotonic() + START_LIMIT_S
        while self.pid and time.monotonic() < deadline:
            listeners = self._find_listeners()
            if listeners:
                return listeners
            time.sleep(POLL_S)
        return []

    def _find_listeners(self) -> list[int]:
        """Return the processes of this server that listen on its port; [] if none does yet.

        Raise UserError if the open files of the server cannot be read.
        """
        # The sockets of any program on the port, such as {"socket:[4711]"}.
        sockets = process_facts.listening_files(self.pid, self.port)
        if not sockets:
            return []
        # Another program may have taken the port, and would answer in place of the server. So a listening
        # socket must be among the open files of the server or its descendants.
        open_files = {pid: process_facts.open_files(pid) for pid in process_facts.family(self.pid)}
        listeners = [pid for pid, files in open_files.items() if files & sockets]
        # A running server has open files. If none is visible, this process has no right to read them.
        can_read_files = any(open_files.values())
        if not can_read_files and self.pid:
            raise UserError(
                f"{self.kind}: this process may not read the open files of its server, so another program "
                f"could answer in its place. Allow it: in a container, --cap-add SYS_PTRACE."
            )
        return listeners

    @property
    def may_be_wrapper(self) -> bool:
        """Return True if the program may be a script that runs the server (a wrapper), as in a build."""
        return bool(self.programs.prefix)

    def _check_options(self) -> None:
        """Raise UserError unless the started process listens, and has the options of the command line."""
        if self.pid not in self.listeners:
            # The started process is a wrapper, and a child of it listens.
            raise UserError(
                f"{self.argv[0]}: is a wrapper that starts {self.kind} and stays before it. End it with "
                f'`exec ... "$@"`, so that the server is this process.'
            )
        self.check_argv(process_facts.command_line(self.pid), self.argv)

    def check_argv(self, reported: list[str], argv: list[str]) -> None:
        """Raise UserError unless `reported`, a command line by the kernel, has the options of `argv`."""
        # After a wrapper, `reported` has the path of the real program, and may have more options before those
        # of `argv`. So only the options of `argv` are compared.
        expected = argv[1:] if self.may_be_wrapper else argv
        if reported[len(reported) - len(expected) :] != expected:
            raise UserError(
                f"{self.kind} reports other options than it was given: {' '.join(reported)}. If "
                f'{argv[0]} is a wrapper, end it with `exec ... "$@"`.'
            )

    def write_file(self, name: str, content: bytes) -> Path:
        """Write a new file of the run, which the server can read, and return its path."""
        path = self.run / name
        with open(os.open(path, _NEW | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        server_user.grant(path, 0o640)
        return path

    def _write(self, name: str, content: bytes) -> str:
        """Write a file of the run for the server, and return its path for the server."""
        self.write_file(name, content)
        return self._hand_over(name, os.O_RDONLY)

    def _hand_over(self, name: str, flags: int) -> str:
        """Open a file or folder of the run for the server, and return its path, such as /proc/self/fd/5.

        The server inherits the open file, so its user needs no right on the folders above the file.
        """
        self.descriptors[name] = os.open(self.run / name, flags | os.O_NOFOLLOW)
        return f"/proc/self/fd/{self.descriptors[name]}"

    def _let_server_search_run(self) -> None:
        """Let the server open files of the run by their names, if it cannot open descriptors."""
        # Both folders are private. The mode lets the group of the server search them, but not list them.
        for folder in (self.run.parent, self.run):
            server_user.grant(folder, 0o710)

    def _make_writable(self) -> str:
        """Make the one folder that the server may write, and return its path for the server.

        Nothing in it is opened by name: any process of the servers' user may change it.
        """
        writable = self.run / WRITABLE_FOLDER
        writable.mkdir(mode=0o700)
        server_user.grant(writable, 0o770)
        return self._hand_over(WRITABLE_FOLDER, os.O_PATH | os.O_DIRECTORY)


class Svnserve(Server):
    """svnserve, as a daemon in the foreground. It sends the first message, so it needs no greeting."""

    kind = "svnserve"
    file = "svnserve.args"
    scheme = "svn"
    system_program = "svnserve"

    def command(self) -> list[str]:
        argv = [self.programs.get("svnserve"), "--daemon", "--foreground"]
        argv += ["--root", str(self.root)]
        argv += ["--listen-host", self.host, "--listen-port", str(self.port)]
        argv += read_arguments(self.files / self.file)
        argv += self.options
        if self._configuration:
            argv += ["--config-file", self._configuration]
        return argv

    @cached_property
    def _configuration(self) -> str:
        """The path of svnserve's configuration, such as /proc/self/fd/6; "" if it needs none.

        The first use writes it, and the files that it names, so all starts of the server have the same ones.
        It also sets `settings` to its text, and variables for SASL. svnserve then does not read
        conf/svnserve.conf of the repositories, so the copies stay unchanged.
        """
        # By their names in the configuration: {"rules": "/proc/self/fd/5"}.
        named_files: dict[str, str] = {}
        if self.credentials and self.deployment.authentication == SASL:
            # The library SASL finds its files by this variable, so the configuration does not name them.
            self.variables["SASL_CONF_PATH"] = self._write_sasl_files(self.credentials)
        elif self.credentials:
            passwords = credentials.svnserve_passwords(self.credentials)
            named_files["passwords"] = self._write("passwords", passwords.encode())
        if self.deployment.has_rules:
            named_files["rules"] = self._write("authz", self.rules.encode())
        self.settings = svnserve_configuration(self.deployment, named_files)
        if not self.settings:
            return ""
        return self._write("svnserve.conf", self.settings.encode())

    def _write_sasl_files(self, user: Credentials) -> str:
        """Write configuration and database of svnserve's library SASL, and return their folder for svnserve.

        The database has the name and password of `user`.
        """
        folder = self.run / "sasl"
        folder.mkdir(mode=0o700)
        server_user.grant(folder, 0o750)
        # svnserve inherits the open folder, and gets a path such as /proc/self/fd/5.
        server_path = self._hand_over("sasl", os.O_PATH | os.O_DIRECTORY)
        configuration = folder / "svn.conf"
        database = folder / "sasldb"
        credentials.make_sasl_database(database, user)
        text = credentials.sasl_configuration(f"{server_path}/{database.name}")
        configuration.write_text(text)
        for file in (configuration, database):
            server_user.grant(file, 0o640)
        return server_path


class Httpd(Server):
    """httpd with mod_dav_svn, from a generated configuration.

    The greeting requests the server's options, which reads no repository.
    """

    kind = "httpd"
    file = "httpd.conf"
    greeting = b"OPTIONS * HTTP/1.0\r\n\r\n"
    version_options = ("-v",)

    @property
    def scheme(self) -> str:
        return "https" if self.deployment.is_encrypted else "http"

    @property
    def program(self) -> str:
        return self.programs.httpd

    def command(self) -> list[str]:
        # httpd ignores this name. By its value, find_other_servers() finds a server that was left.
        serving = f"-Dserving={self.root}"
        return [self.program, "-DFOREGROUND", serving, "-f", self._configuration]

    @cached_property
    def _configuration(self) -> str:
        """The path of httpd's configuration, such as /proc/self/fd/6.

        The first use writes it, and the files that it names, so all starts of the server have the same ones.
        It includes the user's `httpd.conf`. Only `settings`, the directives of the deployment, which are set
        here, come after that file, so that no other directive replaces them. httpd opens all files by paths
        such as /proc/self/fd/5, in which no character is a wildcard.
        """
        user_file = self.files / self.file
        try:
            user_directives = read_bytes(user_file, DIRECTIVES_LIMIT)
        except FileNotFoundError:
            raise missing_server_file(user_file) from None
        self.settings = "\n".join(httpd_directives(self.deployment, self._write_deployed_files()))
        template = string.Template(HTTPD_TEMPLATE.read_text())
        text = template.substitute(
            # The folder that httpd writes its own files to, such as httpd.pid.
            run=self._make_writable(),
            host=self.host,
            port=self.port,
            access=WRITABLE if self.deployment.is_writable else READ_ONLY,
            root=quote_for_httpd(self.root),
            # Older releases refuse this directive, so it is written only for a path that needs it.
            utf8="" if str(self.root).isascii() else "SVNUseUTF8 on",
            modules=self._list_load_directives(),
            directives=self._write(DIRECTIVES, user_directives),
            deployed=self.settings,
        )
        return self._write("httpd.conf", os.fsencode(text))

    def _write_deployed_files(self) -> dict[str, str]:
        """Write the files that `settings` name, and return their paths, such as {"rules": "/proc/self/fd/5"}.

        They are the certificate and its key, the passwords and the access rules, if the deployment has them.
        """
        files: dict[str, str] = {}
        if self._certificate:
            for name, path in self._certificate._asdict().items():
                server_user.grant(path, 0o640)
                files[name] = self._hand_over(path.name, os.O_RDONLY)
        if self.credentials:
            hashes = credentials.hash_password(self.credentials, self.deployment.authentication)
            files["passwords"] = self._write("passwords", hashes.encode())
        if self.deployment.has_rules:
            files["rules"] = self._write("authz", self.rules.encode())
        return files

    @cached_property
    def _certificate(self) -> Certificate | None:
        if not self.deployment.is_encrypted:
            return None
        return credentials.make_certificate(self.run, self.host)

    def authority(self) -> Path | None:
        return self._certificate.certificate if self._certificate else None

    @property
    def modules(self) -> list[str]:
        """The modules that it needs, in the order of loading."""
        # Subversion's modules need the module dav.
        return [*HTTPD_MODULES, "dav_svn", *self.deployment.modules]

    def _list_load_directives(self) -> str:
        """Return lines such as `LoadModule dav_module "/usr/lib/apache2/modules/mod_dav.so"`."""
        lines = []
        for name in self.modules:
            path = self.programs.find_module(name)
            # A module without a file is part of the program.
            if path:
                lines.append(f'LoadModule {name}_module "{quote_for_httpd(path)}"')
        return "\n".join(lines)

    def _connect(self) -> socket.socket:
        """Connect to the server, with TLS if it encrypts.

        Raise UserError for another certificate than the server's, or another version than TLS_VERSION.
        """
        connection = super()._connect()
        certificate_file = self.authority()
        if not certificate_file:
            return connection
        # Few cells need ssl, and its import takes as long as the start of a server.
        import ssl

        try:
            context = ssl.create_default_context(cafile=certificate_file)
            encrypted = context.wrap_socket(connection, server_hostname=self.host)
        except ssl.SSLError as error:
            connection.close()
            raise UserError(
                f"{self.kind}: a client that trusts its certificate cannot connect: {error}. Check the "
                f"installation of mod_ssl and openssl."
            ) from None
        version = encrypted.version()
        if version != TLS_VERSION:
            encrypted.close()
            raise UserError(
                f"{self.kind}: it answers with {version}, not {TLS_VERSION}. Remove directives of mod_ssl "
                f"from {self.source}."
            )
        return encrypted

    def _check_options(self) -> None:
        """Raise UserError if httpd has several children, or another `KeepAlive` than that of the cell.

        The user's directives can cause both. As for each server, the options of the command line come first.
        """
        super()._check_options()
        # httpd has answered, so it has started its children. They listen on the port, as it does itself.
        children = [pid for pid in self._find_listeners() if pid != self.pid]
        if len(children) > 1:
            raise UserError(
                f"{self.source}: `StartServers`, `ServerLimit` and `MaxRequestWorkers` give httpd "
                f"{len(children)} children, each with a cache of its own, so that a run could meet a child "
                f"with an empty one. Remove them."
            )
        # "on" or "off"; "" for httpd's default, which is not checked.
        if self.deployment.keep_alive:
            self._check_keep_alive(self.deployment.keep_alive)

    def _check_keep_alive(self, keep_alive: str) -> None:
        """Raise UserError unless httpd keeps connections open after answers ("on") or closes them ("off")."""
        answer = ""
        with suppress(*NO_ANSWER):
            answer = self._request(KEPT_GREETING)
        if not answer:
            # httpd has ended since its start, or hangs.
            raise self._end_failed_start()
        # httpd announces by this header that it closes the connection.
        is_closed = "\nconnection: close" in answer.lower()
        must_close = keep_alive == "off"
        if is_closed != must_close:
            raise UserError(
                f"{self.kind}: it does not use `KeepAlive {keep_alive}`. Remove directives on connections "
                f"from {self.source}."
            )

    def system_version(self, versions: Mapping[str, str]) -> str:
        # httpd's own version is another one. Its answer has "Server: Apache/2.4.57 SVN/1.14.2", for example.
        match = _SVN_VERSION.search(self.greet())
        return match[1] if match else ""


# By its command line, a server is vcsbench's if it has one of these names and serves a work folder.
SERVER_NAMES = frozenset({"svnserve", "httpd", "apache2", "sshd", "git-daemon"})
WORK_FOLDER = "/vcsbench-"


def find_other_servers(exclude: Collection[int]) -> list[str]:
    """Return the command lines of vcsbench's servers, of any user and checkout, without the excluded pids."""
    commands = []
    for pid in set(process_facts.all_pids()).difference(exclude):
        argv = process_facts.command_line(pid)
        # A process that has ended has no command line.
        if argv and (_serves_work_folder(argv) or _has_marker(pid)):
            commands.append(" ".join(argv))
    return sorted(commands)


def _serves_work_folder(argv: list[str]) -> bool:
    # The program may follow setpriv, or the interpreter of a wrapper, so the first words are searched. sshd
    # writes over its command line: `sshd: /usr/sbin/sshd -D ... [listener] 0 of 10-100 startups` is one word.
    names = {os.path.basename(word) for word in " ".join(argv).split()[:4]}
    if names.isdisjoint(SERVER_NAMES):
        return False
    return any(WORK_FOLDER in word for word in argv)


def _has_marker(pid: int) -> bool:
    # An unreadable environment, as of another user's server, is empty.
    return any(word.startswith(f"{SERVER_MARKER}=") for word in process_facts.environment(pid))
