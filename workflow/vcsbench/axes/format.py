"""The axis `format`: FSFS formats, by the numbers that Subversion gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts
from vcsbench.errors import UserError
from vcsbench.formats import AS_IS, RELEASES, Made, made_of, number_of, upgraded, written_with

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

# A part of the grid may name these: the user's own repository as it is, and a copy upgraded in place.
CURRENT, UPGRADED = "current", "upgraded"
# Of formats that are older, only the own one is of interest.
OFFERED = ("f6", "f7", "f8", "f6-today")
UPGRADE = """Formats: a repository of f7, say, is loaded in that format. f6-to-f8 is one that was loaded in
f6, upgraded in place, and packed after that if at all: `svnadmin upgrade` writes no revision anew, so what is
there keeps the layout of f6. Only `svnadmin dump` and `svnadmin load` give it that of f8."""
SETTINGS = """Settings: db/fsfs.conf of a loaded repository has the defaults of the release that introduced
its format. f6-today has those that today's svnadmin uses for f6. Today's svnadmin loads all of them:
improvements that are no settings are in each."""


class Format(Axis):
    """f6 came with Subversion 1.8, f7 with 1.9, f8 with 1.10; f6-to-f8 is a repository of f6, upgraded in
    place to f8. `formats` stands for the user's own, as it is and upgraded, and for today's formats."""

    speaks = True
    of_server = True

    def unfit(self, value: str) -> str:
        """It has to be one that svnadmin makes."""
        try:
            made_of(value)
        except ValueError:
            known = ", ".join(RELEASES)
            return (
                f"is no format; there are {known}, those upgraded in place, as f6-to-f8, those with the "
                f"settings of today, as f6-today, and {AS_IS}"
            )
        return ""

    def named(self, here: Here) -> tuple[str, list[str]]:
        """Return the baseline first: the others are compared with it."""
        offered = [fmt for fmt in OFFERED if _is_made(made_of(fmt).format, here)]
        return "formats", list(dict.fromkeys([own_format(here), *_upgrades(here), *offered]))

    def wanted(self, named: list[str], values: list[str], here: Here) -> list[str]:
        """Replace `current` and `upgraded` by their values here. `upgraded` has none in the newest format."""
        stands = {CURRENT: [own_format(here)], UPGRADED: _upgrades(here)}
        return list(dict.fromkeys(value for name in named for value in stands.get(name, [name])))

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """Return the repository's format, and the settings that its revisions were written with. A UserError
        if there is no such format."""
        if not value:
            return {}
        if said := self.unfit(value):
            raise UserError(f"format {value} {said}")
        made = made_of(value)
        if not made.is_as_is:
            settings = written_with(made)
        else:
            settings = {} if isinstance(here.stored, str) else dict(here.stored.settings)
        return {"repository": {"format": value, "fsfs_settings": settings}}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """svnadmin makes no newer formats than its own, and upgrades to no other."""
        if not value:
            return ""
        made, newest = made_of(value), here.machine.newest_format
        if made.is_as_is:
            name = parts.get("repository", {}).get("name", here.only)
            return _why_not_as_is(made, here, name)
        if not _is_made(made.format, here):
            return f"the svnadmin here makes formats up to {newest}"
        if made.is_upgraded and made.format != newest:
            return f"`svnadmin upgrade` goes to {newest} here, not to {made.format}"
        return ""

    def own(self, here: Here) -> list[str]:
        """Return sentences on the baseline: the repository as it is, or today's format."""
        stored, value = here.stored, own_format(here)
        if isinstance(stored, str):
            return [f"The baseline is {value}, what `svnadmin create` makes here: {stored}."]
        said = f"{here.only} is of format {stored.number}"
        if stored.number >= 7 and not stored.is_logical:
            said += ", with the layout of an older one that it was upgraded from in place"
        more = [
            f"{one} is that, upgraded in place: its revisions keep the layout that they have."
            for one in _upgrades(here)
        ]
        return [f"{said}: a copy of it by `svnadmin hotcopy` ({value}) is the baseline.", *more]

    def limits(self, guests: Sequence[str]) -> list[str]:
        """Return the limits of upgrades and of settings."""
        return [UPGRADE, SETTINGS]


def own_format(here: Here) -> str:
    """Return the value of the baseline: as-is for a local FSFS repository, or svnadmin's own format."""
    return here.machine.newest_format if isinstance(here.stored, str) else AS_IS


def _upgrades(here: Here) -> list[str]:
    stored, newest = here.stored, here.machine.newest_format
    if isinstance(stored, str) or stored.number >= number_of(newest):
        return []
    return [upgraded(AS_IS, newest)]


def _why_not_as_is(made: Made, here: Here, name: str) -> str:
    """Return why there is no copy of a repository as it is; "" if there is one."""
    stored, newest = here.stored, here.machine.newest_format
    if name != here.only:
        return f"{name} is no repository of yours to copy as it is"
    if isinstance(stored, str):
        return f"there is no local Subversion repository to copy as it is: {stored}"
    if stored.number > number_of(newest):
        return f"the svnadmin here reads formats up to {newest}, and {here.only} is of f{stored.number}"
    if not made.is_upgraded:
        return ""
    if made.format != newest:
        return f"`svnadmin upgrade` goes to {newest} here, not to {made.format}"
    return f"{here.only} is of {newest} already" * (f"f{stored.number}" == newest)


def _is_made(fmt: str, here: Here) -> bool:
    return number_of(fmt) <= number_of(here.machine.newest_format)


AXIS = Format("format")
