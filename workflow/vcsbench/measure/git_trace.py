"""Read the trace that git writes of an untimed run: the protocol, and the number of sent objects."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError

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
    """Return the version of the protocol and the number of sent objects, from the trace of a client's run.

    They are "" and 0 for a run without a server. A line of the trace is a step of git's work: {"event":
    "data", "key": "negotiated-version", "value": "2"}. Raise UserError if git has written no trace.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError("git writes no trace. Use git 2.22 or newer.") from None
    protocol = ""
    # Numbers of objects.
    received = 0
    written = 0
    # The lines of bytes, not of text: a text also ends a line at U+2028, which may stand within JSON.
    for line in content.splitlines():
        event = json.loads(line.decode(errors="replace"))
        if event["event"] == "data" and event["key"] == "negotiated-version":
            protocol = str(event["value"])
        elif event["event"] == "data" and event["key"] == "write_pack_file/wrote":
            written += int(event["value"])
        elif event["event"] == "child_start":
            # A client that receives a pack starts a child, whose arguments have the number of its objects.
            received += _count_received(event["argv"])
    # A client that pushes receives no objects, but writes the pack that it sends. So written objects count
    # only without received ones.
    return GitTrace(protocol, received or written)


def _count_received(argv: Sequence[str]) -> int:
    """Return the number of objects in a received pack, from a child's arguments; 0 without a pack."""
    for word in argv:
        match = _PACK_HEADER.fullmatch(word)
        if match:
            return int(match[1])
    return 0
