"""Names that file systems and git allow and Subversion refuses."""

from __future__ import annotations

import re

# Subversion wants UTF-8 without control characters. `?\010` (decimal) is how its own messages
# show a byte that it refuses. A name that already looks so has its `?` escaped, so that two
# names never become one.
_REFUSED = re.compile("[\x00-\x1f\x7f\udc80-\udcff]|\\?(?=\\\\[0-9]{3})")


def _escape(match: re.Match[str]) -> str:
    return f"?\\{ord(match[0]) & 0xFF:03d}"


def subversion_path(path: bytes) -> bytes:
    """The path as Subversion can have it; most are as they were."""
    # A byte that is not UTF-8 becomes U+DC80 to U+DCFF, whose low byte is that byte.
    text = path.decode("utf-8", "surrogateescape")
    return _REFUSED.sub(_escape, text).encode("utf-8")
