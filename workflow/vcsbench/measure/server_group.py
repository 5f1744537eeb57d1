"""Count the CPU time of a server with a control group of the kernel's (cgroup).

The CPU time of processes that have ended is counted by their parent in whole ticks only: for a server that
starts a process for each connection, that is too coarse. The group has it in microseconds. It has no
controllers, so that it neither limits its processes nor changes when they run.
"""

import contextlib
import os
from pathlib import Path

from vcsbench import process_facts
from vcsbench.kernel import groups, number_in, read

NAME = "vcsbench-server-"
# Each time, the processes that were started in the meantime are added.
TRIES = 5


class ServerGroup:
    """A control group for the servers of one cell-round, below the group of this process.

    Without version 2 of control groups, or the right to make one, cpu_s() returns None.
    """

    def __init__(self) -> None:
        self._folder = _make_folder()

    def add(self, pid: int) -> None:
        """Add a server with its descendants. All that they start later belongs to the group as well.

        If one of them cannot be added, close the group for good: from then on, cpu_s() returns None.
        """
        if self._folder and not self._try_to_add(pid):
            # A count without one of the processes would be wrong.
            self.close()

    def _try_to_add(self, pid: int) -> bool:
        """Add a server and its descendants. Return False if some could not be added."""
        # The kernel lists the pids of the group in this file, and adds each pid that is written to it.
        members_file = f"{self._folder}/cgroup.procs"
        # A process may start others before it is added, so the list is made again until all are in the group.
        for _ in range(TRIES):
            added = read(members_file).split()
            missing = [member for member in process_facts.family(pid) if str(member) not in added]
            if not missing:
                return True
            for member in missing:
                try:
                    with open(members_file, "w") as file:
                        file.write(str(member))
                except ProcessLookupError:
                    continue
                except OSError:
                    return False
        # The server starts processes faster than they can be added.
        return False

    def cpu_s(self) -> float | None:
        """Return the CPU time of all processes that are or were in the group; None if unknown."""
        if not self._folder:
            return None
        used_us = number_in(self._folder / "cpu.stat", "usage_usec")
        return None if used_us is None else used_us / 1e6

    def close(self) -> None:
        """Remove the group, and count nothing from then on. The kernel keeps a group with processes."""
        if self._folder:
            with contextlib.suppress(OSError):
                self._folder.rmdir()
        self._folder = None


def _make_folder() -> Path | None:
    """Make a control group that only counts CPU time, and return its folder; None if that is impossible.

    It is a child of the group of this process. It must not change when its processes run.
    """
    # In version 2 of control groups, all controllers have the same groups, so "cpu" finds those of all. The
    # first one is the group of this process, and the others are its ancestors.
    folders = [group.folder for group in groups("cpu") if group.version == 2]
    if not folders:
        return None
    own_folder = folders[0]
    _remove_abandoned_groups(own_folder)
    folder = own_folder / f"{NAME}{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        return None
    # A controller limits or shares out a resource: by "cpu", the group would get a share of the processors.
    controllers = read(folder / "cgroup.controllers").strip()
    if controllers:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    return folder


def _remove_abandoned_groups(own_folder: Path) -> None:
    """Remove the groups that killed processes have left. Their names end with the pid of their process."""
    for old_folder in own_folder.glob(f"{NAME}*"):
        pid = old_folder.name.removeprefix(NAME)
        if not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                old_folder.rmdir()
