"""What a preparation says while it is at work."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """A line of progress for the rule's log."""
    print(text, file=sys.stderr, flush=True)
