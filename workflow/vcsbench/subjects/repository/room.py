"""Where a repository is loaded: in RAM where it fits, else beside copies on a storage."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

from vcsbench import words
from vcsbench.errors import UserError
from vcsbench.sources import Estimate
from vcsbench.storages.describe import free_bytes
from vcsbench.storages.place import Place
from vcsbench.subjects.progress import say


def choose_place(
    estimate: Estimate, repositories: int, scratch: Place, copies: Mapping[Place, int]
) -> Place:
    """The place to load into: scratch, or the first storage that has the room. A UserError where none has,
    or a storage has not the room for its copies.

    So many `repositories` of the estimated size are made there, and by storage, so many `copies` of them.
    What lies on one device shares its room.
    """
    one = bytes_of(estimate)
    devices = {place: _device(place) for place in (scratch, *copies)}
    free = {devices[place]: free_bytes(place.path) for place in (scratch, *copies)}
    need: Counter[int] = Counter()
    for place, number in copies.items():
        need[devices[place]] += one * number
        if need[devices[place]] > free[devices[place]]:
            raise _no_room(place, need[devices[place]], free[devices[place]])
    say(
        f"{repositories} repositories of about {words.size(one)} each, and {sum(copies.values())} copies; "
        + ", ".join(f"{place.path} has {words.size(free[at])}" for place, at in devices.items())
    )
    for place, at in devices.items():
        if need[at] + one * repositories <= free[at]:
            if place is not scratch:
                say(f"too large for {scratch.path}: loaded on {place.path}, which takes longer")
            return place
    place = next(iter(copies), scratch)
    raise _no_room(place, need[devices[place]] + one * repositories, free[devices[place]])


def bytes_of(estimate: Estimate) -> int:
    """What a repository takes on a storage, not packed."""
    # Two files for each revision, each with its last block half empty.
    return estimate.repository_bytes + 2 * estimate.revisions * 4096


def _device(place: Place) -> int:
    return os.stat(place.make()).st_dev


def _no_room(place: Place, need: int, free: int) -> UserError:
    return UserError(
        f"{place.path}: about {words.size(need)} are needed for repositories and their copies, and "
        f"{words.size(free)} are free; name another folder in `storages`, or lower `copies` or the scale"
    )
