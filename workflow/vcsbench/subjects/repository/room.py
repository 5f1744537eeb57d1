"""Where a repository is loaded: in RAM where it fits, else beside the copies on the storage."""

from __future__ import annotations

import os
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.machine import IN_MEMORY, Machine
from vcsbench.sources import Estimate
from vcsbench.storages.place import Place
from vcsbench.subjects.repository.load import say
from vcsbench.subjects.repository.making import gib


def choose_place(
    estimate: Estimate, variants: int, copies: int, scratch: Place, storage: Place
) -> Place:
    """The place to load into, scratch or storage; a UserError where neither has the room.

    `variants` repositories of the estimated size are made there, and `copies` of each on the storage.
    """
    # Two files for each revision, each with its last block half empty.
    one = estimate.repository_bytes + 2 * estimate.revisions * 4096
    free = {place.path: free_bytes(place.make()) for place in (scratch, storage)}
    in_ram, on_storage = free[scratch.path], free[storage.path]
    say(
        f"{variants} repositories of about {gib(one)} each, and {copies} copies; {scratch.path} has "
        f"{gib(in_ram)}, {storage.path} has {gib(on_storage)}"
    )
    fits = one * variants <= in_ram
    need = one * variants * (copies if fits else copies + 1)
    if need > on_storage:
        raise UserError(
            f"{storage.path}: about {gib(need)} are needed for {variants} repositories x {copies} copies, "
            f"and {gib(on_storage)} are free; name another folder in `storages`, or lower `copies` or "
            f"the scale"
        )
    if not fits:
        say(f"too large for {scratch.path}: loaded on the storage, which takes longer")
    return scratch if fits else storage


def free_bytes(folder: Path) -> int:
    """What may be written to a folder: the file system's free bytes, in RAM no more than is available."""
    there = os.statvfs(folder)
    free = there.f_bavail * there.f_frsize
    if Machine().filesystem(str(folder)).filesystem in IN_MEMORY:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        # A tenth is left to the programs that load.
        free = min(free, int(int(lines["MemAvailable"].split()[0]) * 1024 * 0.9))
    return free
