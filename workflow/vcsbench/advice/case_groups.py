"""Groups of cases (decision.Case) of one kind, such as all cold logs.

Groups are compared and stored as values of axes. labels.group_label() makes the name of a group for texts.
"""

from dataclasses import dataclass
from enum import StrEnum

from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import CACHE_AXIS, COMMAND_AXIS
from vcsbench.plan.grid import AxisValues


class Temperature(StrEnum):
    """The temperature of caches: all states but the cold ones are warm."""

    COLD = "cold"
    WARM = "warm"


@dataclass(frozen=True)
class CaseGroup:
    """The values that all cases of a group share: command, temperature, and the value of a further axis.

    Example: CaseGroup("log", Temperature.COLD, "access", "http") has all cold logs over http. A field that is
    "" or None leaves the value open, or does not apply to the cases.
    """

    command: str = ""
    temperature: Temperature | None = None
    axis: str = ""
    value: str = ""


# The group of cases that no field describes. It has no name.
UNNAMED_GROUP = CaseGroup()


def temperature_of(where: AxisValues) -> Temperature | None:
    """Return the temperature of the caches of a case, None for a case without a state of caches."""
    cache = where.get(CACHE_AXIS, "")
    if not cache:
        return None
    return Temperature.COLD if cache_state(cache).is_cold else Temperature.WARM


def group_of_case(where: AxisValues) -> CaseGroup:
    """Return the group of all cases with the same command and temperature as a case."""
    return CaseGroup(where.get(COMMAND_AXIS, ""), temperature_of(where))
