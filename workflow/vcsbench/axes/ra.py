"""The axis `ra`, repository access: how a client reaches a repository, and the server that this takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

LOOPBACK = """Client and server run on one machine, over loopback, without https, authentication or
path-based authorisation. svn+ssh, commit and blame are not measured."""

# `scheme` begins the URLs, `files` are those of config/servers/<config> that are used, `server` is the kind
# of the server (a file in measure/servers), "" where the client reads the repository itself.
ACCESS: dict[str, dict[str, Any]] = {
    "http": {"scheme": "http", "files": ["httpd.conf", "client"], "server": "httpd"},
    "svn": {"scheme": "svn", "files": ["svnserve.args", "client"], "server": "svnserve"},
    "file": {"scheme": "file", "files": ["client"], "server": ""},
    # A command to which the axis does not apply: svnadmin.
    "": {"scheme": "", "files": ["svnadmin.args", "load.args"], "server": ""},
}


class Ra(Axis):
    """The values are the protocols' names in URLs."""

    speaks = True
    behind = "over"

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The access; whether its server is here depends on the build. One on another machine is `remote`."""
        access, server = ACCESS[value], here.config.settings.server
        if not server or not value:
            return {"access": access}
        return {"access": {**access, "server": ""}, "remote": server.model_dump()}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """A server on another machine is reached in one way, and not compared with what is here."""
        server = parts.get("remote")
        access = parts["access"]["scheme"]
        if not server or server["url"].startswith(f"{access}://"):
            return ""
        return f"the server on {server['host']} is not reached over {access}"

    def limits(self, guests: Sequence[str]) -> list[str]:
        """That no network lies between."""
        return [LOOPBACK]


AXIS = Ra("ra")
