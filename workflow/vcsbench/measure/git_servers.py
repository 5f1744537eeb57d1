"""Serve git repositories: git's own daemon, httpd with git-http-backend, and sshd with git-shell."""

from __future__ import annotations

import os
import shlex
import string
import urllib.parse
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from vcsbench import processes
from vcsbench.environment import QUIET_GIT, git_settings
from vcsbench.errors import UserError
from vcsbench.measure.server import START_LIMIT_S, Httpd, Server, quote_for_httpd
from vcsbench.measure.sshd import Sshd
from vcsbench.programs import Programs

HTTPD_TEMPLATE = Path(__file__).with_name("git_servers.conf")
# mod_cgi waits for the end of each program. mod_cgid does not do: its daemon ignores SIGCHLD, so the kernel
# adds nothing of its ended children to the server's counters, and their CPU time and reads are lost.
CGI_MODULES = ("mpm_event", "unixd", "authz_core", "alias", "env", "cgi")
# Server processes run as another user than the owner of the copies. git refuses that by default, and reads
# safe.directory from no repository.
SETTINGS = {**QUIET_GIT, "safe.directory": "*"}
# A request for a repository without a name. In a packet, four hexadecimal digits with its length come first.
REQUEST = b"git-upload-pack /\0host=localhost\0"
REQUEST_PACKET = b"%04x%s" % (len(REQUEST) + 4, REQUEST)


class _GitServer(Server):
    """A server that has the version of git."""

    def version_commands(self) -> dict[str, list[str]]:
        # The programs of git that serve have no option that prints a version.
        return {"git": [*self.programs.env_command(), self.programs.path("git"), "--version"]}

    def system_version(self, versions: Mapping[str, str]) -> str:
        return versions["git"]


class GitDaemon(_GitServer):
    """git-daemon, which starts `git upload-pack` for each connection.

    The greeting requests a repository without a name. The server answers with an error, and reads no
    repository.
    """

    kind = "git-daemon"
    scheme = "git"
    greeting = REQUEST_PACKET
    needed_variables = git_settings(SETTINGS)
    is_per_connection = True

    @property
    def may_be_wrapper(self) -> bool:
        # A git of another release may need its own C library, and so a wrapper.
        return True

    def command(self) -> list[str]:
        # `git daemon` would start this program as a child, and stay as its parent.
        argv = [self.programs.path("git-daemon"), "--reuseaddr", "--export-all"]
        argv += [f"--listen={self.host}", f"--port={self.port}", f"--base-path={self.root}"]
        argv += ["--log-destination=stderr", *self.options]
        return argv


class GitHttpd(_GitServer, Httpd):
    """httpd with git-http-backend, a CGI program, from a generated configuration."""

    kind = "git-httpd"
    file = ""

    @property
    def program(self) -> str:
        return self.programs.any_httpd

    @property
    def modules(self) -> list[str]:
        return [*CGI_MODULES]

    @cached_property
    def _configuration(self) -> str:
        """The path of the generated configuration, such as /proc/self/fd/6. The first use writes the file."""
        # A CGI program gets the variables of the directive SetEnv, and none of httpd's own environment.
        variables = {
            **git_settings(SETTINGS),
            "GIT_PROJECT_ROOT": str(self.root),
            # Without it, git serves only repositories with the file git-daemon-export-ok.
            "GIT_HTTP_EXPORT_ALL": "1",
        }
        set_directives = [
            f'SetEnv {name} "{quote_for_httpd(value)}"' for name, value in variables.items()
        ]
        template = string.Template(HTTPD_TEMPLATE.read_text())
        text = template.substitute(
            # The folder that httpd writes its own files to, such as httpd.pid.
            run=self._make_writable(),
            host=self.host,
            port=self.port,
            # The CGI program, which httpd starts for each request.
            backend=quote_for_httpd(self.programs.path("git-http-backend")),
            modules=self._list_load_directives(),
            variables="\n".join(set_directives),
        )
        return self._write("httpd.conf", os.fsencode(text))


class GitSshd(_GitServer, Sshd):
    """sshd with git-shell, which only allows git-upload-pack and its like for each connection.

    The greeting requests a repository that does not exist. git answers with an error, and reads none.
    """

    kind = "git-sshd"
    file = ""
    scheme = "ssh"
    needed_variables = git_settings(SETTINGS)

    @property
    def address(self) -> str:
        # git-upload-pack gets the path of a URL as it is.
        return f"{self.host}{urllib.parse.quote(str(self.root))}"

    def client_variables(self) -> dict[str, str]:
        command = [Programs().get("ssh"), "-F", str(self.run / "ssh_config")]
        return {"GIT_SSH_COMMAND": shlex.join(command), "GIT_SSH_VARIANT": "ssh"}

    def client_config(self) -> str:
        return ""

    def version_commands(self) -> dict[str, list[str]]:
        # Here, sshd starts git-shell in the place of svnserve.
        return {**self.ssh_version_commands(), **super().version_commands()}

    def system_command(self) -> list[str]:
        return [self.programs.path("git-shell")]

    def _session_command(self) -> str:
        # By this variable, the client requests a version of the protocol, and sshd accepts the variable
        # (_newer_directives). Without it, the version is 0.
        shell = shlex.join(self.system_command())
        return f'GIT_PROTOCOL="$GIT_PROTOCOL" {shell} -c "$SSH_ORIGINAL_COMMAND"'

    def _newer_directives(self) -> list[str]:
        return [*super()._newer_directives(), "AcceptEnv GIT_PROTOCOL"]

    def greet(self) -> str:
        """Request a repository that does not exist, over ssh, and return git's error about it."""
        command = shlex.join(["git-upload-pack", f"{self.root}/no such repository"])
        argv = [*self._client_command(), self.host, command]
        done = processes.run_program(argv, may_fail=True, limit_s=START_LIMIT_S)
        # sshd's processes of this connection must end before a run. Otherwise they would count for it.
        self.await_connections()
        return done.errors

    def _check_options(self) -> None:
        """Raise UserError unless git answers through sshd, by its error about a missing repository."""
        # No command line can be checked: sshd writes its state over its own, and git has ended.
        answer = self.greet()
        if "not appear to be a git repository" not in answer and "does not exist" not in answer:
            raise UserError(f"{self.kind}: git does not answer through it: {answer.strip()}")
