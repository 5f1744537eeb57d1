"""The axis `format`: FSFS formats, by the numbers that Subversion gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts
from vcsbench.errors import UserError
from vcsbench.formats import RELEASES, Made, made_of, number_of, upgraded

if TYPE_CHECKING:
    from vcsbench.axes.here import Here
    from vcsbench.sources.base import Stored

# What a part of the grid may name: the format of the user's own repository, and what an upgrade in place
# makes of that.
OWN, UPGRADED = "own", "upgraded"
# Of formats that are older, only the own one is of interest.
OFFERED = ("f6", "f7", "f8")
# What an upgraded repository was made in, by what that left: no shards, or shards.
LINEAR, PHYSICAL = "f2", "f6"
UPGRADE = """Formats: a repository of f7, say, is loaded in that format. f6-to-f8 is one that was loaded in
f6, upgraded in place, and packed after that if at all: `svnadmin upgrade` writes no revision anew, so what is
there keeps the layout of f6. Only `svnadmin dump` and `svnadmin load` give it that of f8."""


class Format(Axis):
    """f6 came with Subversion 1.8, f7 with 1.9, f8 with 1.10; f6-to-f8 is a repository of f6, upgraded in
    place to f8. `formats` stands for the user's own, what an upgrade makes of it, and those of today."""

    speaks = True
    of_server = True

    def unfit(self, value: str) -> str:
        """It has to be one that svnadmin makes."""
        try:
            made_of(value)
        except ValueError:
            known = ", ".join(RELEASES)
            return f"is no format; there are {known}, and those upgraded in place, as f6-to-f8"
        return ""

    def named(self, here: Here) -> tuple[str, list[str]]:
        """The own one first: it is what the others are compared with."""
        offered = [fmt for fmt in OFFERED if _is_made(fmt, here)]
        own = own_format(here)
        return "formats", list(dict.fromkeys([own.value, *_upgrades(own, here), *offered]))

    def wanted(self, named: list[str], values: list[str], here: Here) -> list[str]:
        """`own` and `upgraded` stand for what they are here; `upgraded` for nothing, where the repository has
        the newest format."""
        own = own_format(here)
        stands = {OWN: [own.value], UPGRADED: _upgrades(own, here)}
        return list(dict.fromkeys(value for name in named for value in stands.get(name, [name])))

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The repository's format. A UserError where it is none."""
        if value and (said := self.unfit(value)):
            raise UserError(f"format {value} {said}")
        return {"repository": {"format": value}} if value else {}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """svnadmin makes no newer formats than its own, and upgrades to no other."""
        if not value:
            return ""
        made, newest = made_of(value), here.machine.newest_format
        if not _is_made(made.format, here):
            return f"the svnadmin here makes formats up to {newest}"
        if made.is_upgraded and made.format != newest:
            return f"`svnadmin upgrade` goes to {newest} here, not to {made.format}"
        return ""

    def own(self, here: Here) -> list[str]:
        """The format that is the baseline, and why."""
        stored, own = here.stored, own_format(here)
        value = own.value
        if isinstance(stored, str):
            return [f"The baseline is {value}, what `svnadmin create` makes here: {stored}."]
        said = f"{here.only} is of format {stored.number}"
        if stored.number >= 7 and not stored.is_logical:
            said += ", with the layout of an older one that it was upgraded from in place"
        near = "" if _is_as(stored, made_of(value)) else ", the nearest to it that can be made here"
        more = [
            f"{one} is that, upgraded in place: its revisions keep the layout that they have."
            for one in _upgrades(own, here)
        ]
        return [f"{said}: {value} is the baseline{near}.", *more]

    def limits(self, guests: Sequence[str]) -> list[str]:
        """What an upgrade does not do."""
        return [UPGRADE]


def own_format(here: Here) -> Made:
    """The format of the user's own repository, or the nearest to it that can be made; where it has none, what
    svnadmin makes by itself."""
    stored, newest = here.stored, here.machine.newest_format
    if isinstance(stored, str):
        return made_of(newest)
    fmt = f"f{stored.number}"
    if fmt not in RELEASES or not _is_made(fmt, here):
        return made_of(newest)
    made = made_of(fmt)
    if _is_as(stored, made):
        return made
    return made_of(upgraded(PHYSICAL if stored.shard else LINEAR, newest))


def _is_as(stored: Stored, made: Made) -> bool:
    number = number_of(made.format)
    layout = (bool(stored.shard), stored.is_logical)
    return number == stored.number and layout == (made.is_sharded, made.is_logical)


def _upgrades(own: Made, here: Here) -> list[str]:
    newest = here.machine.newest_format
    return [] if own.format == newest else [upgraded(own.created, newest)]


def _is_made(fmt: str, here: Here) -> bool:
    return number_of(fmt) <= number_of(here.machine.newest_format)


AXIS = Format("format")
