"""Serve repositories of Mercurial and Fossil, each by the server that is a part of the system."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType

from vcsbench.measure.server import HOST, WRITABLE_FOLDER, Server
from vcsbench.systems.fossil import FOSSIL_USER
from vcsbench.systems.mercurial import HG_ENVIRONMENT

# A path that no repository has.
MISSING_PATH = b"GET /none HTTP/1.0\r\n\r\n"
# All copies in the served folder, by their names. Without `allow-push`, nobody may push.
WEB_CONFIGURATION = "[paths]\n/ = {root}/*\n"


class HgServe(Server):
    """`hg serve`, a Python program with a thread for each connection. It listens on its host only."""

    kind = "hg-serve"
    scheme = "http"
    greeting = MISSING_PATH
    system_program = "hg"
    needed_variables = HG_ENVIRONMENT

    def command(self) -> list[str]:
        argv = [self.programs.get("hg"), "serve", "--web-conf", self._configuration]
        argv += ["--address", self.host, "--port", str(self.port)]
        return [*argv, "--accesslog", "/dev/null", *self.options]

    @cached_property
    def _configuration(self) -> str:
        """The path of the configuration for the server."""
        return self._write("hgweb.conf", WEB_CONFIGURATION.format(root=self.root).encode())

    def version_commands(self) -> dict[str, list[str]]:
        return {"hg": [*self.env_command(), self.programs.get("hg"), "--version", "--quiet"]}


class FossilServer(Server):
    """`fossil server`, which starts a process for each request."""

    kind = "fossil-server"
    scheme = "http"
    greeting = MISSING_PATH
    system_program = "fossil"
    needed_variables = MappingProxyType({"USER": FOSSIL_USER})
    is_per_connection = True

    def command(self) -> list[str]:
        # The first use of `_home` makes the folder. The server gets its variables after this call.
        self.variables["FOSSIL_HOME"] = self._home
        argv = [self.programs.get("fossil"), "server", str(self.root), "--port", str(self.port)]
        # Without this option, Fossil listens on all addresses. A server on a line has a network of its own.
        if self.host == HOST:
            argv.append("--localhost")
        return [*argv, *self.options]

    @cached_property
    def _home(self) -> str:
        """The folder of a user's settings, which Fossil writes. The first use makes it."""
        # SQLite opens a database by its real path, so the server has to search the folders above it.
        self._let_server_search_run()
        self._make_writable()
        return str(self.run / WRITABLE_FOLDER)

    def version_commands(self) -> dict[str, list[str]]:
        return {"fossil": [*self.env_command(), self.programs.get("fossil"), "version"]}
