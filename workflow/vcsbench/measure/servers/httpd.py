"""httpd with mod_dav_svn, from a generated private configuration."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterator
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.measure.servers.kind import Kind, Server
from vcsbench.programs import Programs

CONF = Path(__file__).with_name("httpd.conf")


class Httpd(Kind):
    """It is asked for its options, which touch no repository."""

    greeting = b"OPTIONS * HTTP/1.0\r\n\r\n"
    asks_version = ("-v",)

    def command(self, server: Server) -> list[str]:
        """In the foreground, with the directives of `httpd.conf` behind our own."""
        directives = server.files / "httpd.conf"
        if not directives.exists():
            raise UserError(f"{directives}: there is no such file; a server configuration has one")
        conf = server.run / "httpd.conf"
        conf.write_text(
            string.Template(CONF.read_text()).substitute(
                run=server.run,
                port=server.port,
                root=server.root,
                modules="\n".join(_load_modules(server.programs)),
                directives=directives,
            )
        )
        return [server.programs.httpd, "-DFOREGROUND", "-f", str(conf)]

    def version(self, server: Server, told: str) -> str:
        """mod_dav_svn's, which it tells in its answers."""
        found = re.search(r"\bSVN/([\w.-]+)", server.greet())
        return found[1] if found else ""

    def log(self, server: Server) -> Path:
        """ErrorLog."""
        return server.run / "httpd.log"


def _load_modules(programs: Programs) -> Iterator[str]:
    """The directives that load what httpd needs; what is not there as a file is compiled in."""
    for name in ("mpm_event", "unixd", "authz_core", "dav"):
        path = os.path.join(programs.httpd_modules, f"mod_{name}.so")
        if os.path.exists(path):
            yield f'LoadModule {name}_module "{path}"'
    yield f'LoadModule dav_svn_module "{programs.mod_dav_svn}"'


KIND = Httpd()
