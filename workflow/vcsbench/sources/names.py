"""Rename what file systems and git allow and Subversion, or a working copy of it, does not."""

from __future__ import annotations

import hashlib
import re

from vcsbench.treefiles import ADMINISTRATIVE

# Linux's limit for a name.
NAME_BYTES = 255
# The reasons for another name, as the notes of a report give them.
ESCAPED = (
    "Paths escaped, as in ?\\010, because Subversion refuses control characters and what is not UTF-8, and "
    "XML has no U+FFFE and U+FFFF"
)
RESERVED = "Paths renamed, as .svn to ?\\046svn, because version control systems reserve such names"
SHORTENED = (
    "Paths with a name cut, as in begin?\\#1f2e3d4c5b6a7988, because no file system has names over "
    f"{NAME_BYTES} bytes"
)
REASONS = (ESCAPED, RESERVED, SHORTENED)

# Subversion's own messages show a byte that they refuse as `?\010` (decimal). A `?` that begins such an
# escape is escaped itself. So two names never become one.
_REFUSED = re.compile(r"[\x00-\x1f\x7f\udc80-\udcff\ufffe\uffff]|\?(?=\\(?:[0-9]{3}|#))")
_NAMES = b"|".join(re.escape(name.encode()) for name in sorted(ADMINISTRATIVE) if name != ".git")
_RESERVED = rb"(?:(?i:\.git)|\.\.?|" + _NAMES + rb")?"
_RESERVED_NAME = re.compile(_RESERVED)
# A path without a match, in UTF-8, stays as it is.
_ODD = re.compile(
    rb"[\x00-\x1f\x7f]|\xef\xbf[\xbe\xbf]|\?\\(?:[0-9]{3}|#)|(?:\A|/)"
    + _RESERVED
    + rb"(?:/|\Z)|[^/]{256}"
)


def escape(text: bytes) -> bytes:
    """Return text with each byte escaped that a path in Subversion cannot have."""
    # A byte that is not UTF-8 becomes U+DC80 to U+DCFF, whose low byte is that byte.
    decoded = text.decode("utf-8", "surrogateescape")
    return _REFUSED.sub(lambda match: _bytes(match[0]), decoded).encode("utf-8")


def _bytes(text: str) -> str:
    return "".join(f"?\\{byte:03d}" for byte in text.encode("utf-8", "surrogateescape"))


def subversion_path(path: bytes) -> bytes:
    """Return the path that Subversion and a working copy of it can have; most paths stay as they are."""
    if not _is_odd(path):
        return path
    return b"/".join(_rename(name)[0] for name in path.split(b"/"))


def reasons(path: bytes) -> set[str]:
    """Return the reasons, of REASONS, for which subversion_path() changes a path."""
    if not _is_odd(path):
        return set()
    return {reason for name in path.split(b"/") for reason in _rename(name)[1]}


def file_path(path: bytes) -> tuple[bytes, set[str]]:
    """Return the path that a file outside Subversion can have, and the reasons for a change.

    Only reserved and overlong names change: file systems hold control characters and any bytes.
    """
    if not _is_odd(path):
        return path, set()
    new, why = [], set[str]()
    for name in path.split(b"/"):
        if _RESERVED_NAME.fullmatch(name) or len(name) > NAME_BYTES:
            renamed, reasons_of_name = _rename(name)
            new.append(renamed)
            why.update(reasons_of_name)
        else:
            new.append(name)
    return b"/".join(new), why


def _is_odd(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return True
    return bool(_ODD.search(path))


def _rename(name: bytes) -> tuple[bytes, list[str]]:
    """Return a name without slashes as Subversion can have it, and the reasons for a change."""
    if not name:
        return b"?\\000", [RESERVED]
    if _RESERVED_NAME.fullmatch(name):
        first = b"." if name.startswith(b".") else name[:1]
        dots = len(name) - len(name.lstrip(first)) if first == b"." else 1
        return (b"?\\%03d" % first[0]) * dots + name[dots:], [RESERVED]
    new = escape(name)
    why = [ESCAPED] * (new != name)
    if len(new) <= NAME_BYTES:
        return new, why
    end = b"?\\#" + hashlib.sha256(name).hexdigest()[:16].encode()
    start = new[: NAME_BYTES - len(end)].decode("utf-8", "ignore").encode()
    return start + end, [*why, SHORTENED]
