"""The axis `storage`: the folders under test that the configuration names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis
from vcsbench.errors import UserError
from vcsbench.storages.place import resolve

if TYPE_CHECKING:
    from vcsbench.axes.here import Here
    from vcsbench.config.study import Study


class Storage(Axis):
    """A study lists names, and the configuration says where each is; without the axis it is the one that
    the key `storage` names."""

    speaks = True

    def named(self, here: Here) -> tuple[str, list[str]]:
        """The configured names."""
        return "storages", list(here.config.settings.storages)

    def defined_in(self, given: Sequence[str] | str, study: Study) -> str:
        """The key of the configuration, where the study leaves it to that."""
        return "`storages`" if isinstance(given, str) else super().defined_in(given, study)

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The folder under test; `shelf` is the first of the names that it has, by which it is prepared. A
        UserError where the configuration does not have it."""
        name, folders = value or here.config.settings.storage, here.config.settings.storages
        if name not in folders:
            raise UserError(
                f"{here.config.where(['storages'])}: `storages.{name}` is missing, on which the grid "
                f"measures; name a folder, or leave {name} out of the grid; there are {', '.join(folders)}"
            )
        shelf = _shelf(name, tuple(folders.items()), here.root)
        return {"storage": {"name": name, "path": folders[name], "shelf": shelf}}


@cache
def _shelf(name: str, folders: tuple[tuple[str, str], ...], root: Path) -> str:
    at = {one: resolve(folder, root) for one, folder in folders}
    return next(one for one in at if at[one] == at[name])


AXIS = Storage("storage")
