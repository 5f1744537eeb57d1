"""The axis `config`: the server configurations, each a folder in config/servers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis
from vcsbench.errors import UserError
from vcsbench.files import server_file

if TYPE_CHECKING:
    from vcsbench.axes.here import Here
    from vcsbench.config.study import Study

FOLDER = Path("config", "servers")
# From the slowest to the fastest, as the studies list them.
PUBLISHED = {"slow": 0, "medium": 1, "fast": 2}


def server_names(root: Path) -> list[str]:
    """The server configurations: the published ones in their order, then all others by name."""
    found = [path.name for path in (root / FOLDER).iterdir() if path.is_dir()]
    return sorted(found, key=lambda name: (PUBLISHED.get(name, len(found)), name))


def to_type(root: Path, name: str) -> str:
    """What gives a server that configuration, as it was measured: svnserve's arguments, httpd's
    directives."""
    args, directives = (
        _lines(server_file(root / FOLDER / name, file)) for file in ("svnserve.args", "httpd.conf")
    )
    told = {"svnserve": " ".join(args), "httpd": "; ".join(directives)}
    return ". ".join(f"{server} {said or 'as it is'}" for server, said in told.items())


def _lines(path: Path) -> list[str]:
    """What stands in a file, without comments."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


class ServerConfig(Axis):
    """`servers` stands for all folders."""

    of_server = True

    def named(self, here: Here) -> tuple[str, list[str]]:
        """All folders."""
        return "servers", here.servers

    def defined_in(self, given: Sequence[str] | str, study: Study) -> str:
        """The folder."""
        return str(FOLDER)

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The folder whose files client and server get. A UserError where there is none."""
        if value and value not in here.servers:
            known = ", ".join(here.servers)
            raise UserError(
                f"{FOLDER / value}: there is no such server configuration; there are {known}"
            )
        return {"servers": str(FOLDER / value) if value else ""}


AXIS = ServerConfig("config")
