"""The values of a study's axes, resolved: what lists and names stand for here, in one order everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench.axes import axis_of
from vcsbench.axes.here import Here
from vcsbench.config.study import Study
from vcsbench.errors import UserError


def values_of(study: Study, here: Here) -> dict[str, list[str]]:
    """Each axis of a study with the values that it may have here. A UserError where there are none."""
    return {name: axis_of(name).values(given, study, here) for name, given in study.axes.items()}


def found_out(study: Study, here: Here) -> list[str]:
    """What was found out of the user's own repository, in sentences: of the axes of a study whose values that
    says."""
    return [said for name in study.axes_named() for said in axis_of(name).own(here)]


def measured_values(study: Study, here: Here) -> dict[str, list[str]]:
    """The same of a study that is measured: a UserError where that cannot be with these values, or where a
    table has nothing to compare."""
    values = values_of(study, here)
    for name, found in values.items():
        axis_of(name).check(found, study, here)
    for table, definition in resolved_tables(study, values).items():
        compare = definition.get("compare", {})
        if compare.get("candidates") == []:
            place, names = here.config.where([study.axes[compare["axis"]]]), values[compare["axis"]]
            raise UserError(
                f"{place}: `{study.axes[compare['axis']]}` has {names[0]} only, and {study.name}'s table "
                f"{table} compares the first with the others; name another one (the same binaries under "
                f"another name show the noise)"
            )
    return values


def order_of(
    study: Study, here: Here, published: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Each axis with its values in the order of every table and page: the study's; where the configuration
    names them, those that were published first."""
    return {
        name: list(
            dict.fromkeys([*(published.get(name, ()) if _is_named(study, name) else ()), *values])
        )
        for name, values in values_of(study, here).items()
    }


def _is_named(study: Study, name: str) -> bool:
    return isinstance(study.axes[name], str)


def resolved_tables(study: Study, values: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """The tables of a study, with the values that `first` and `rest` stand for in an axis whose values the
    configuration names: the first of them, and all others."""
    return {name: _resolved(study, table, values) for name, table in study.tables.items()}


def _resolved(
    study: Study, table: dict[str, Any], values: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    compare = dict(table.get("compare", {}))
    axis = compare.get("axis", "")
    if axis not in study.axes or not _is_named(study, axis):
        return table
    names = values[axis]
    if compare["baseline"] == "first":
        compare["baseline"] = next(iter(names), "")
    if compare["candidates"] == "rest":
        compare["candidates"] = [name for name in names if name != compare["baseline"]]
    return {**table, "compare": compare}
