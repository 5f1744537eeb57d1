"""Servers of vcsbench that are alive beside the one of the cell."""

from __future__ import annotations

import os
from collections.abc import Collection

from vcsbench import processes

# In the environment of every server that vcsbench starts.
MARKER = "VCSBENCH_SERVER"
NAMES = frozenset({"svnserve", "httpd", "apache2"})
# What a place on a storage and a cell's private folder have in their path.
PATH = "/vcsbench-"


def servers(own: Collection[int]) -> list[str]:
    """The command lines of processes that are a server of vcsbench's, of whichever user and checkout, but
    for those with a pid in `own`. Processes whose environment cannot be read are known by their command line.
    """
    found = []
    for pid in set(processes.all_pids()).difference(own):
        words = processes.command_line(pid)
        # A kernel thread has no command line.
        if words and (_is_marked(pid) or _serves_a_place(words)):
            found.append(" ".join(words))
    return sorted(found)


def _is_marked(pid: int) -> bool:
    return any(word.startswith(f"{MARKER}=") for word in processes.environment(pid))


def _serves_a_place(words: list[str]) -> bool:
    # The program may be run by a loader, which then comes first.
    names = {os.path.basename(word) for word in words[:4]}
    return bool(names & NAMES) and any(PATH in word for word in words)
