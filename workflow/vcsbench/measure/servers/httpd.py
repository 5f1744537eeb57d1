"""httpd with mod_dav_svn, from a generated private configuration."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterator
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import printable, read_bytes
from vcsbench.measure.servers.kind import DIRECTIVES, Kind, Server
from vcsbench.programs import Programs

CONF = Path(__file__).with_name("httpd.conf")
DIRECTIVES_LIMIT = 1 << 20


class Httpd(Kind):
    """The greeting asks for the server's options, which read no repository."""

    greeting = b"OPTIONS * HTTP/1.0\r\n\r\n"
    asks_version = ("-v",)

    def command(self, server: Server) -> list[str]:
        """Return the argv: in the foreground, with the directives of `httpd.conf` after our own.

        httpd reads both files through descriptors. So no folder above them has to be open to its user, and
        no character of a path is part of a pattern.
        """
        directives = server.files / "httpd.conf"
        try:
            content = read_bytes(directives, DIRECTIVES_LIMIT)
        except FileNotFoundError:
            raise UserError(
                f"{directives}: there is no such file; a server configuration has one"
            ) from None
        text = string.Template(CONF.read_text()).substitute(
            run=server.writable_folder(),
            port=server.port,
            root=quoted(server.root),
            utf8="" if str(server.root).isascii() else "SVNUseUTF8 on",
            modules="\n".join(_load_modules(server.programs)),
            directives=server.hand_over(DIRECTIVES, os.fsdecode(content)),
        )
        conf = server.hand_over("httpd.conf", text)
        # The second definition is for whoever looks at the list of processes, such as meters.strangers.
        return [server.programs.httpd, "-DFOREGROUND", f"-Dserving={server.root}", "-f", conf]

    def version(self, server: Server, told: str) -> str:
        """Return the version of mod_dav_svn, which is in the answers of httpd."""
        found = re.search(r"\bSVN/([\w.-]+)", server.greet())
        return found[1] if found else ""


def quoted(path: str | Path) -> str:
    """Return a path for a place between double quotes in httpd's configuration.

    `${name}` is a variable there, and cannot be escaped: `dollar` is defined as the variable of a dollar.
    Raise UserError for a path with a control character, which no directive can have.
    """
    text = os.fspath(path)
    if any(ord(character) < ord(" ") for character in text):
        raise UserError(
            f"{printable(ascii(text))}: httpd serves no path with a control character. Rename the folder."
        )
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("$", "${dollar}")):
        text = text.replace(character, escaped)
    return text


def _load_modules(programs: Programs) -> Iterator[str]:
    """The directives that load what httpd needs; what is not there as a file is compiled in."""
    for name in ("mpm_event", "unixd", "authz_core", "dav"):
        path = os.path.join(programs.httpd_modules, f"mod_{name}.so")
        if os.path.exists(path):
            yield f'LoadModule {name}_module "{quoted(path)}"'
    yield f'LoadModule dav_svn_module "{quoted(programs.mod_dav_svn)}"'


KIND = Httpd()
