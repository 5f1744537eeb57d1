"""Define the axis of the version control system."""

from vcsbench.axes.axis import Axis
from vcsbench.axis_names import SYSTEM_AXIS
from vcsbench.systems import SYSTEMS

AXIS = Axis(
    SYSTEM_AXIS,
    needs_server=True,
    # No two systems do the same: a clone has all history, and a working copy has not.
    changes_work=True,
    why_invalid=lambda value: (
        "" if value in SYSTEMS else f"is no system. Use one of {', '.join(SYSTEMS)}"
    ),
    recipe_keys=lambda value, env: {"repository": {"system": value}} if value else {},
)
