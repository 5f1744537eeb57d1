"""The axis `reflink`: whether working files are installed as clones of their pristines, by a library that is
loaded before the client's own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts
from vcsbench.storages.making import REFLINKS

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

# Set-up builds the one from the other.
SOURCE = Path("workflow", "native", "svn_reflink.c")
LIBRARY = Path(".tools", "lib", "svn_reflink.so")
# Of the environment: what it writes for each run.
STATISTICS = "SVN_REFLINK_STATS"
NOT_SUBVERSIONS = """Subversion's client does not clone files by itself: with `reflink: on` a preloaded
library has it clone each working file that equals its pristine. It shows what such a client would gain."""


def _library(root: Path) -> Path:
    """The library as all that measure for a checkout know it: a node of a cluster has its tools by a link."""
    return (root / LIBRARY).resolve() if (root / LIBRARY.parts[0]).is_symlink() else root / LIBRARY


class Reflink(Axis):
    """on or off."""

    def unfit(self, value: str) -> str:
        """It has to be one of them."""
        return "" if value in ("on", "off") else "is neither on nor off"

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The environment that loads the library, and a digest of what it was built from."""
        if value != "on":
            return {}
        source = here.root / SOURCE
        return {
            "environment": {
                "LD_PRELOAD": str(_library(here.root)),
                STATISTICS: "{run}/reflinks",
            },
            "reflink": hashlib.sha256(source.read_bytes()).hexdigest()[:16],
        }

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """The library may not be built, and most file systems share no blocks."""
        if value != "on":
            return ""
        if parts.get("pristine_options"):
            return "a working copy without pristines has nothing to clone"
        made = parts.get("filesystem", {}).get("make")
        if made and made not in REFLINKS:
            return f"{made} has no reflinks"
        if not (here.root / LIBRARY).exists():
            return (
                "the library that clones files was not built (set-up builds it where there is gcc)"
            )
        return ""

    def limits(self, guests: Sequence[str]) -> list[str]:
        """That no Subversion does it by itself."""
        return [NOT_SUBVERSIONS]


AXIS = Reflink("reflink")
