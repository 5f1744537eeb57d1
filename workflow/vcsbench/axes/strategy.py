"""The axis `strategy`: the ways of building a tree, which are a study's commands."""

from vcsbench.axes.axis import Axis


class Strategy(Axis):
    """What it adds to a recipe is in the study's file, as of the axis `command`."""

    speaks = True


AXIS = Strategy("strategy")
