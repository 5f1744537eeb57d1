"""svnserve."""

from __future__ import annotations

from vcsbench.measure.servers.kind import HOST, Kind, Server
from vcsbench.measure.template import read_arguments


class Svnserve(Kind):
    """It speaks first, so it needs no greeting."""

    def command(self, server: Server) -> list[str]:
        """As a daemon in the foreground, with the options of `svnserve.args` and the cell's own."""
        return [
            server.programs.get("svnserve"),
            "--daemon",
            "--foreground",
            "--root",
            str(server.root),
            "--listen-host",
            HOST,
            "--listen-port",
            str(server.port),
            *read_arguments(server.files / "svnserve.args"),
            *server.options,
        ]


KIND = Svnserve()
