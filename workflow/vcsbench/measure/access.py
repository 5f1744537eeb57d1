"""The axis `ra`: how a client reaches a repository, and the server that this takes."""

from __future__ import annotations

import os
import shlex
import shutil
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.measure.servers import HOST, Server

HTTPD_CONF = Path(__file__).with_name("httpd.conf")


@dataclass(frozen=True)
class Access:
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
        program("svnserve"),
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


def read_arguments(path: Path) -> list[str]:
    """The options in a file of config/servers; # starts a comment."""
    try:
        return shlex.split(path.read_text(), comments=True)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; a server configuration has one") from None
    except ValueError as error:
        raise UserError(f"{path}: cannot be read as options: {error}") from None


def program(name: str) -> str:
    """The path of a program; a UserError where there is none."""
    found = shutil.which(name)
    if not found:
        raise UserError(f"{name} is not on the PATH; `make report` installs what is needed")
    return os.path.abspath(found)


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
