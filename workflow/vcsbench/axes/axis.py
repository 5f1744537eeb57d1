"""One dimension of a study's grid: which values it has here, and what a value means for a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vcsbench.errors import UserError

if TYPE_CHECKING:
    from vcsbench.axes.here import Here
    from vcsbench.config.study import Study

# What the axes have put together for one cell: the recipe, but for its digests.
Parts = Mapping[str, Any]


class Axis:
    """An axis as it is without a file of its own: the study lists its values, and a command's template has
    each as the word {<name>}.

    An axis with a file (vcsbench/axes/<name>.py) overrides what is different. There, "" is the value for
    cells to which the axis does not apply, and for those of studies that do not have it.
    `speaks`: its values say what they are of (`svn`, `f7`), so the name is left out where they are told.
    `behind`: the word with which a value is told behind others (`log cold over svn`).
    `of_server`: it is about the server, and nothing here can tell of one that somebody else runs.
    `changes_work`: another value may make a command do something else, on something else.
    """

    speaks = False
    behind = ""
    of_server = False
    changes_work = False

    def __init__(self, name: str) -> None:
        self.name = name

    def values(self, given: Sequence[str] | str, study: Study, here: Here) -> list[str]:
        """All values that the axis may have here; `given` is the study's list, or the word (`builds`) that
        stands for what the configuration names."""
        if given == "commands":
            return list(study.commands)
        named = self.named(here)
        if isinstance(given, str) and (named is None or given != named[0]):
            raise UserError(
                f"config/studies/{study.name}.yaml: `axes.{self.name}`: {given!r} stands for no values of "
                f"this axis; list them"
            )
        return named[1] if named and isinstance(given, str) else list(given)

    def check(self, values: list[str], study: Study, here: Here) -> None:
        """Raise a UserError where a study that is measured cannot have these values here."""
        for value in values:
            if said := self.unfit(value):
                raise UserError(
                    f"config/studies/{study.name}.yaml: `axes.{self.name}`: {value} {said}"
                )

    def unfit(self, value: str) -> str:
        """Why a value is none, wherever it is measured, in a clause; "" if it may be one."""
        return ""

    def named(self, here: Here) -> tuple[str, list[str]] | None:
        """The word that a study may give instead of a list, and the values that it stands for."""
        return None

    def wanted(self, named: list[str], values: list[str], here: Here) -> list[str]:
        """The values that a part of the configured grid means by those that it names."""
        return named

    def defined_in(self, given: Sequence[str] | str, study: Study) -> str:
        """Where the values come from, for messages."""
        return f"config/studies/{study.name}.yaml"

    def applies(self, axes: Mapping[str, str]) -> bool:
        """Whether the axis says anything of a cell with these values of the others."""
        return True

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """What a value adds to the recipe of its cells, as plain data."""
        return {}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """Why a cell with this value cannot be measured here, in a clause; "" if it can."""
        return ""

    def own(self, here: Here) -> list[str]:
        """What the word that stands for the axis's values has found out of the user's own repository, in
        sentences."""
        return []

    def limits(self, guests: Sequence[str]) -> list[str]:
        """What a study with this axis says nothing about, in sentences for its report; `guests` are the
        hypervisors that it ran under."""
        return []
