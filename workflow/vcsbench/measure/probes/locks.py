"""How a client locks a working copy's database, by its own system calls: those of one more update, which has
nothing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcsbench.errors import UserError
from vcsbench.measure import strace

if TYPE_CHECKING:
    from vcsbench.measure.stage import Stage

UPDATE = "{svn} update -q {working_copy}"
# SQLite locks by fcntl. One that is locked for the whole command is locked and unlocked once, in a few steps;
# else each transaction is.
LOCK = "fcntl"
EXCLUSIVE_AT_MOST = 30


def probe(stage: Stage) -> dict[str, Any]:
    """`locks`: the calls by which the client locked and unlocked files, None where there is no strace. A
    UserError where they are not those of the way of locking that the cell is called by."""
    try:
        strace.program()
    except UserError:
        return {"locks": None}
    limit_s = stage.recipe["time_limit_s"]
    counted = strace.count_command(stage.also(UPDATE), stage.environment, "", limit_s).told()
    locks = int(counted["others"].get(LOCK, 0))
    exclusive = stage.recipe["locking"] == "exclusive"
    if exclusive != (locks <= EXCLUSIVE_AT_MOST):
        raise UserError(
            f"the client locks the working copy's database otherwise than {stage.recipe['locking']}: an "
            f"update that has nothing to do makes {locks} calls of {LOCK}"
        )
    return {"locks": locks}


PROBE = probe
