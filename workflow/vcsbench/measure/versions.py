"""The versions of the programs that a cell runs, as they print them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vcsbench import __version__
from vcsbench.programs import Programs

if TYPE_CHECKING:
    from vcsbench.measure.server import Server


def ask(client: str, server: Server | None) -> dict[str, subprocess.Popen[str]]:
    """hyperfine, the client (its path) and the server at work, by name, each printing its version."""
    name = os.path.basename(client)
    commands = {"hyperfine": [Programs().get("hyperfine"), "--version"]}
    commands[name] = [client, "--version", *(["--quiet"] if name.startswith("svn") else [])]
    if server:
        commands[server.kind] = [server.argv[0], *server.of.asks_version]
    return {
        name: subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for name, argv in commands.items()
    }


def told(asked: Mapping[str, subprocess.Popen[str]]) -> dict[str, str]:
    """What they have printed, and our own version and Python's; "" of one that prints none."""
    found = {"vcsbench": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name, process in asked.items():
        said = process.communicate()[0].strip().splitlines()
        words = said[0].replace("Apache/", "").split() if said else []
        found[name] = next((word.rstrip("),.") for word in words if word[:1].isdigit()), "")
    return found
