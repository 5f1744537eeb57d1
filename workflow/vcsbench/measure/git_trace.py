"""Read the trace that git writes of an untimed run: the protocol, and the number of sent objects."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# git and its children append a line of JSON for each event to the file in this variable.
TRACE_VARIABLE = "GIT_TRACE2_EVENT"
# The head of a received pack in the arguments of index-pack: its version, and its number of objects.
_PACK_HEADER = re.compile(r"--pack_header=\d+,(\d+)")


class GitTrace(NamedTuple):
    """The version of the protocol ("" if none was negotiated), and the objects that were sent.

    The objects of several packs are added. It is 0 for a clone, whose objects git does not trace.
    """

    protocol: str = ""
    objects: int = 0


def read_git_trace(path: Path) -> GitTrace:
    """Return the protocol and the number of sent objects from the trace file of a run.

    A run without a server has neither. A line of the file is, for example, {"event": "data", "key":
    "negotiated-version", "value": "2"}.
    """
    protocol = ""
    received = 0
    written = 0
    for line in path.read_text(errors="replace").splitlines():
        event = json.loads(line)
        if event["event"] == "data" and event["key"] == "negotiated-version":
            protocol = str(event["value"])
        elif event["event"] == "data" and event["key"] == "write_pack_file/wrote":
            written += int(event["value"])
        # The arguments of a child have the number of objects that a client received.
        elif event["event"] == "child_start":
            received += _count_received(event["argv"])
    # A client that pushes writes the pack, and the server, whose events are elsewhere, receives it.
    return GitTrace(protocol, received or written)


def _count_received(argv: Sequence[str]) -> int:
    for word in argv:
        match = _PACK_HEADER.fullmatch(word)
        if match:
            return int(match[1])
    return 0
