"""The axis `repo`: the repositories that the configuration names, or the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis

if TYPE_CHECKING:
    from vcsbench.axes.here import Here
    from vcsbench.config.study import Study


class Repo(Axis):
    """`repositories` stands for the names in the configuration."""

    changes_work = True

    def values(self, given: Sequence[str] | str, study: Study, here: Here) -> list[str]:
        """Those of a study: a repository may be for some studies only (its `studies`)."""
        found = super().values(given, study, here)
        return [
            name
            for name in found
            if study.name in here.repositories.get(name, {}).get("studies", [study.name])
        ]

    def named(self, here: Here) -> tuple[str, list[str]]:
        """The configured names."""
        return "repositories", here.named_repositories

    def wanted(self, named: list[str], values: list[str], here: Here) -> list[str]:
        """The user's own repository stands for whichever the grid names."""
        return named if here.config.settings.repository is None else values

    def defined_in(self, given: Sequence[str] | str, study: Study) -> str:
        """The key of the configuration."""
        return "`repositories`"

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """What there is to say of the repository in all of its formats."""
        if not value:
            return {}
        source = here.sources[value]
        return {
            "repository": {
                "name": value,
                "identity": source.identity(),
                "source": source.kind,
                "scale": source.scale(),
                "description": source.describe(),
                "head": here.head(value),
            }
        }


AXIS = Repo("repo")
