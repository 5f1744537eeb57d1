"""Start OpenSSH's sshd for the access svn+ssh: a private one, whose only command is `svnserve -t`."""

import os
import re
import select
import shlex
import shutil
import string
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from vcsbench import process_facts, processes, server_user
from vcsbench.deployment.deployed_server import svnserve_configuration
from vcsbench.environment import server_environment
from vcsbench.errors import UserError
from vcsbench.measure.server import OUTPUT, SERVER_MARKER, START_LIMIT_S, Server
from vcsbench.measure.untimed_runs import read_mapped_files
from vcsbench.programs import (
    NSS_WRAPPER,
    UNPACKED_SSHD,
    Programs,
    find_nss_wrapper,
    find_sshd,
    is_unpacked_sshd,
    read_arguments,
    sshd_library_path,
    why_no_ssh_folder,
)

SSHD_TEMPLATE = Path(__file__).with_name("sshd.conf")
# The name of the user in sshd's own list of users. Its id is the id of the servers' user.
USER = "svn"
CLIENT_TEMPLATE = string.Template(
    """Host *
    Port $port
    User $user
    HostKeyAlias $user
    IdentityFile $run/client_key
    IdentitiesOnly yes
    IdentityAgent none
    PreferredAuthentications publickey
    UserKnownHostsFile $run/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    UpdateHostKeys no
    BatchMode yes
    ControlMaster no
    ControlPath none
    ClearAllForwardings yes
    LogLevel ERROR
"""
)
# Options for a daemon only. They have no use for `svnserve -t`, which serves one connection.
DAEMON_OPTIONS = ("-T", "--threads")
# The first OpenSSH that refuses an address for some time after a connection without a login, such as the
# connection that looks whether the server listens.
PENALTIES_SINCE = (9, 8)
# The programs that a newer sshd starts for a connection. One that was unpacked would look for them in /usr.
CONNECTION_PROGRAMS = {"SshdSessionPath": "sshd-session", "SshdAuthPath": "sshd-auth"}


class Sshd(Server):
    """sshd, which starts `svnserve -t` for each connection. Server and client have new keys in each round."""

    # sshd runs a command by the shell of its user, and the servers' user has none. So sshd gets another list
    # of users, by the library nss_wrapper: its only entry has the id of the servers' user, the private folder
    # as home, and a shell.

    kind = "sshd"
    file = "svnserve.args"
    scheme = "svn+ssh"
    system_program = "svnserve"
    is_per_connection = True
    adopts_orphans = True
    # Command line and mapped files of the svnserve of the last session that greet() opened.
    session_argv: Sequence[str] = ()
    session_files: list[str] | None = None

    def command(self) -> list[str]:
        return [self._reachable(find_sshd(), "sshd"), "-D", "-e", "-f", str(self._configuration)]

    @cached_property
    def _unpacked(self) -> Path:
        """The folder with the unpacked sshd: from set-up, or a copy that the servers' user can enter.

        Where no sshd is installed, set-up unpacks one into the checkout. Root's checkout may be in its home,
        which no other user can enter.
        """
        # resolve(): set-up's folder may be a link to a folder that the servers' user cannot enter.
        closed_folder = server_user.closed_folder(UNPACKED_SSHD.resolve())
        if not closed_folder:
            return UNPACKED_SSHD
        copy = self.run / "openssh"
        shutil.copytree(UNPACKED_SSHD, copy)
        for folder, _, names in os.walk(copy):
            paths = [folder, *(os.path.join(folder, name) for name in names)]
            for path in paths:
                if not os.path.islink(path):
                    server_user.grant(Path(path), 0o750)
        return copy

    def _reachable(self, path: str, name: str) -> str:
        """Return the path by which the servers' user can read a program or library of sshd.

        For a file of the unpacked sshd, this path may be in a copy. Raise UserError if `path` is "": the
        program or library `name` is missing.
        """
        if not path:
            raise UserError(f"{name}: is missing. Run envs/unpack_sshd.sh, which unpacks it.")
        if path.startswith(f"{UNPACKED_SSHD}/"):
            return str(self._unpacked / Path(path).relative_to(UNPACKED_SSHD))
        return path

    def env_command(self) -> list[str]:
        """Return the words before sshd's command line: `env` with its libraries and its list of users."""
        words = ["env"]
        folders = [server_environment().get("LD_LIBRARY_PATH", "")]
        if is_unpacked_sshd():
            folders.insert(0, sshd_library_path(self._unpacked))
        library_path = ":".join(filter(None, folders))
        if library_path:
            words.append(f"LD_LIBRARY_PATH={library_path}")
        return [
            *words,
            # With this library, sshd reads its users and groups from the two files of the run.
            f"LD_PRELOAD={self._reachable(find_nss_wrapper(), NSS_WRAPPER)}",
            f"NSS_WRAPPER_PASSWD={self.run}/passwd",
            f"NSS_WRAPPER_GROUP={self.run}/group",
        ]

    def version_commands(self) -> dict[str, list[str]]:
        svnserve = [*self.programs.env_command(), self.programs.get("svnserve")]
        return {**self.ssh_version_commands(), "svnserve": [*svnserve, *self.version_options]}

    def ssh_version_commands(self) -> dict[str, list[str]]:
        """Return the commands that print the versions of OpenSSH, whatever sshd starts for a connection."""
        return {
            "sshd": [*self.env_command(), self._reachable(find_sshd(), "sshd"), "-V"],
            "ssh": [Programs().get("ssh"), "-V"],
        }

    def system_command(self) -> list[str]:
        """Return the command line of the svnserve that sshd starts for each connection."""
        argv = [self.programs.get("svnserve"), "--tunnel", "--root", str(self.root)]
        if not self.deployment.is_writable:
            # Without this option, a client that has logged in may write.
            argv.append("--read-only")
        options = read_arguments(self.files / self.file)
        argv += [option for option in options if option not in DAEMON_OPTIONS]
        argv += self.options
        if self._svnserve_file:
            argv += ["--config-file", self._svnserve_file]
        return argv

    @cached_property
    def _svnserve_file(self) -> str:
        """The path of a configuration that replaces conf/svnserve.conf of the copies; "" without one."""
        files = {}
        if self.deployment.has_rules:
            files["rules"] = str(self.write_file("authz", self.rules.encode()))
        self.settings = svnserve_configuration(self.deployment, files)
        if not self.settings:
            return ""
        return str(self.write_file("svnserve.conf", self.settings.encode()))

    def mapped_files(self) -> list[str] | None:
        return self.session_files

    def client_config(self) -> str:
        # ssh's options name a file with all settings, so no configuration and no agent of the caller acts.
        return f"\n[tunnels]\nssh = {shlex.join(self._client_command())}\n"

    def last_output(self) -> list[str]:
        # sshd ends a line as a terminal needs it.
        return [line.removesuffix(r"\r") for line in super().last_output()]

    @property
    def address(self) -> str:
        # Subversion passes a port on to ssh as a part of the host's name. The port is in ssh's settings.
        return self.host

    def greet(self) -> str:
        """Open a session as a client does, and return svnserve's first message.

        Set `session_argv` and `session_files`. Return "" and set nothing if there is no message after
        START_LIMIT_S seconds, or the connection is closed before.
        """
        ssh_command = [*self._client_command(), self.host, "svnserve", "-t"]
        with processes.background(
            ssh_command,
            stdin=processes.PIPE,
            stdout=processes.PIPE,
            stderr=self.descriptors[OUTPUT],
        ) as client:
            assert client.stdin and client.stdout
            answer = b""
            can_read = select.select([client.stdout], [], [], START_LIMIT_S)[0]
            if can_read:
                answer = os.read(client.stdout.fileno(), 4096)
            if answer:
                # sshd starts a process for the connection, this process a child, and the child svnserve. No
                # other client is connected. So svnserve is the last of sshd's descendants.
                svnserve_pid = process_facts.family(self.pid)[-1]
                self.session_argv = process_facts.command_line(svnserve_pid)
                self.session_files = read_mapped_files(svnserve_pid)
            # svnserve ends at the end of its input.
            client.stdin.close()
            processes.wait_for_end(client, START_LIMIT_S)
            client.stdout.close()
        # sshd's processes of the connection may end after the client, and must not count in the next run.
        self.await_connections()
        return answer.decode(errors="replace")

    def _check_options(self) -> None:
        # sshd writes its state over its own command line, so only svnserve's is checked. That greet() could
        # log in with the keys of the run shows that sshd has read its configuration.
        self.check_argv(list(self.session_argv), self.system_command())

    def _client_command(self) -> list[str]:
        return [Programs().get("ssh"), "-F", str(self.run / "ssh_config"), "--"]

    @cached_property
    def _configuration(self) -> Path:
        """The path of sshd's configuration.

        The first use writes all files of sshd and its clients, so all starts of sshd have the same files.
        Raise UserError if ssh's configuration cannot name the folder of the run.
        """
        reason = why_no_ssh_folder(self.run)
        if reason:
            raise UserError(f"{reason}.")
        # sshd opens its files by their names, so its user has to search this private folder. Other servers
        # inherit the open files, but sshd closes all descriptors that it inherits.
        self._let_server_search_run()
        self._make_keys()
        # A list of users for sshd, with one user: that of this process, or of root's servers. sshd needs the
        # user's shell to run a command, and in the system's list, the user of root's servers has none.
        ids = server_user.server_ids() or server_user.ServerIds(os.geteuid(), os.getegid())
        user = f"{USER}:x:{ids.uid}:{ids.gid}::{self.run}:/bin/sh\n"
        self.write_file("passwd", user.encode())
        self.write_file("group", f"{USER}:x:{ids.gid}:\n".encode())
        # sshd runs this script for each login: svnserve, with nothing but the environment of a server.
        variables = server_environment({SERVER_MARKER: str(self.run), **self.variables})
        settings = [f"{name}={value}" for name, value in variables.items()]
        words = ["env", "-i", *settings, *self.programs.env_command()]
        session = f"exec {shlex.join(words)} {self._session_command()}\n"
        self.write_file("session", os.fsencode(session))
        names = {"user": USER, "run": self.run, "host": self.host, "port": self.port}
        client_text = CLIENT_TEMPLATE.substitute(names)
        # The server needs no right on this file.
        (self.run / "ssh_config").write_text(client_text)
        server_template = string.Template(SSHD_TEMPLATE.read_text())
        # The template has only directives that every sshd supports. Any other one would be an error.
        newer_directives = "\n".join(self._newer_directives())
        server_text = server_template.substitute(names, more=newer_directives)
        return self.write_file("sshd_config", server_text.encode())

    def _make_keys(self) -> None:
        """Make the keys of server and client, and the list of keys that each of them accepts."""
        for name in ("host_key", "client_key"):
            options = ["-q", "-t", "ed25519", "-N", "", "-C", ""]
            processes.run_program([Programs().get("ssh-keygen"), *options, "-f", self.run / name])
        server_user.grant(self.run / "host_key", 0o640)
        self.write_file("authorized_keys", (self.run / "client_key.pub").read_bytes())
        # The client's configuration names the host USER (HostKeyAlias), whatever its address is.
        host_key = (self.run / "host_key.pub").read_text()
        (self.run / "known_hosts").write_text(f"{USER} {host_key}")

    def _session_command(self) -> str:
        """Return the end of the session's command line, for a shell."""
        return shlex.join(self.system_command())

    def _newer_directives(self) -> list[str]:
        """Return directives that an older sshd would refuse, such as "PerSourcePenalties no"."""
        directives = []
        sshd = self._reachable(find_sshd(), "sshd")
        # An older sshd has no option -V, and prints its version with its usage.
        argv = [*self.env_command(), sshd, "-V"]
        printed = processes.run_program(argv, may_fail=True).errors
        version = re.search(r"OpenSSH_(\d+)\.(\d+)", printed)
        if version and (int(version[1]), int(version[2])) >= PENALTIES_SINCE:
            directives.append("PerSourcePenalties no")
        # An older sshd starts no other programs for a connection.
        if is_unpacked_sshd():
            for directive, name in CONNECTION_PROGRAMS.items():
                path = self._unpacked / "usr/lib/openssh" / name
                if path.exists():
                    directives.append(f"{directive} {path}")
        return directives
