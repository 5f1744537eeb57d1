"""The axis `pristines`: whether a working copy keeps the files as they were got (Subversion 1.15 can do
without)."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts
from vcsbench.programs import Programs

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

OPTIONS = {"stored": [], "none": ["--store-pristine=no"]}
# The first version whose client knows it.
SINCE = (1, 15)


class Pristines(Axis):
    """stored or none."""

    def unfit(self, value: str) -> str:
        """It has to be one of them."""
        return (
            "" if value in OPTIONS else f"is no way to keep pristines; say {' or '.join(OPTIONS)}"
        )

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The option that a working copy is checked out with."""
        return {"pristine_options": OPTIONS[value]} if value else {}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """Older clients always keep them."""
        if value != "none":
            return ""
        version = _version(Programs(**parts["build"]["client"]).find("svn"))
        if version and tuple(map(int, version.split(".")[:2])) >= SINCE:
            return ""
        since = ".".join(map(str, SINCE))
        return f"svn is {version or 'not there'}, and can do without pristines since {since}"


@cache
def _version(program: str) -> str:
    if not program:
        return ""
    done = subprocess.run([program, "--version", "--quiet"], capture_output=True, text=True)
    found = re.match(r"[0-9]+\.[0-9]+", done.stdout)
    return done.stdout.strip() if found else ""


AXIS = Pristines("pristines")
