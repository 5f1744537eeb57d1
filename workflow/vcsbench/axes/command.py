"""The axis `command`: which of the study's `commands` is timed."""

from vcsbench.axes.axis import Axis


class Command(Axis):
    """What it adds to a recipe is in the study's file (plan.recipe)."""

    speaks = True
    changes_work = True


AXIS = Command("command")
