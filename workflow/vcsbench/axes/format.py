"""The axis `format`: FSFS formats, by the numbers that Subversion gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis

if TYPE_CHECKING:
    from vcsbench.axes.here import Here


class Format(Axis):
    """f6 came with Subversion 1.8, f7 with 1.9, f8 with 1.10."""

    speaks = True
    of_server = True

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The repository's format."""
        return {"repository": {"format": value}} if value else {}


AXIS = Format("format")
