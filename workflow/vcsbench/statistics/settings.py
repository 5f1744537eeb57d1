"""The settings of a study that its statistics need, as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from vcsbench.metrics import metric_in
from vcsbench.statistics.comparisons import Limits

if TYPE_CHECKING:
    from vcsbench.config.study import TableDefinition


@dataclass(frozen=True)
class StudySettings:
    """The settings of a study.

    - `order`: the axes, each with its values in order.
    - `by`: the further columns that tables group by.
    - `block`: the axes of a block, whose cells are measured next to each other.
    - `tables`: the definition of each table, by its name.
    - `limits`: the thresholds of comparisons.
    """

    order: Mapping[str, list[str]]
    by: Sequence[str]
    block: Sequence[str]
    tables: Mapping[str, TableDefinition]
    limits: Limits

    @classmethod
    def from_param(cls, param: Mapping[str, Any]) -> Self:
        """Return the settings of a rule's param, which to_param() made."""
        return cls(
            order=param["order"],
            by=param["by"],
            block=param["block"],
            tables=param["tables"],
            limits=Limits(**param["limits"]),
        )

    def to_param(self) -> dict[str, Any]:
        """Return the settings in types that Snakemake can compare with the last run's settings."""
        return asdict(self)

    @property
    def axes(self) -> list[str]:
        return list(self.order)

    @property
    def comparing_tables(self) -> dict[str, TableDefinition]:
        """Return the definitions of the tables that compare, by name: first of times, then of counts.

        The order matters because advice begins with times.
        """
        comparing = [(name, table) for name, table in self.tables.items() if "compare" in table]
        # `exact` is True for counts, and sorts last.
        return dict(sorted(comparing, key=lambda item: metric_in(item[1]).exact))

    def of_times(self) -> Self:
        """Return the settings with only the tables that compare times, which decide about more rounds.

        Counts have no noise, and are decided after two rounds.
        """
        times = {
            name: table
            for name, table in self.comparing_tables.items()
            if not metric_in(table).exact
        }
        return replace(self, tables=times)
