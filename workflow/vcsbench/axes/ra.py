"""The axis `ra`: how a client reaches a repository, and the server that this takes."""

from __future__ import annotations

import os
import shlex
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.measure.servers import HOST, Server
from vcsbench.programs import Programs

HTTPD_CONF = Path(__file__).parents[1] / "measure" / "httpd.conf"


class Access(NamedTuple):
    """One value of the axis `ra`.

    `scheme` begins its URLs, `files` are those of config/servers/<config> that it uses, `server` is
    the kind of its server ("" where the client reads the repository itself), `command` makes the
    server's argv, and `greeting` is sent to hear whether it answers, without touching a repository.
    """

    scheme: str
    files: tuple[str, ...]
    server: str = ""
    command: Callable[[Server], list[str]] = lambda _: []
    greeting: bytes = b""


def _svnserve(server: Server) -> list[str]:
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
    ]


def _httpd(server: Server) -> list[str]:
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
            modules="\n".join(_load_modules(server.programs)),
            directives=copied,
        )
    )
    return [server.programs.httpd, "-DFOREGROUND", "-f", str(conf)]


def _load_modules(programs: Programs) -> Iterator[str]:
    """The directives that load what httpd needs; what is not there as a file is compiled in."""
    for name in ("mpm_event", "unixd", "authz_core", "dav"):
        path = os.path.join(programs.httpd_modules, f"mod_{name}.so")
        if os.path.exists(path):
            yield f'LoadModule {name}_module "{path}"'
    yield f'LoadModule dav_svn_module "{programs.mod_dav_svn}"'


def read_arguments(path: Path) -> list[str]:
    """The options in a file of config/servers; # starts a comment."""
    try:
        return shlex.split(path.read_text(), comments=True)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; a server configuration has one") from None
    except ValueError as error:
        raise UserError(f"{path}: cannot be read as options: {error}") from None


ACCESS = {
    "http": Access(
        scheme="http",
        files=("httpd.conf", "client"),
        server="httpd",
        command=_httpd,
        greeting=b"OPTIONS * HTTP/1.0\r\n\r\n",
    ),
    # svnserve speaks first.
    "svn": Access(
        scheme="svn", files=("svnserve.args", "client"), server="svnserve", command=_svnserve
    ),
    "file": Access(scheme="file", files=("client",)),
    # A command to which the axis does not apply: svnadmin.
    "": Access(scheme="", files=("svnadmin.args",)),
}
