"""Names and links that Subversion, working copies and disks accept, and replacements for others."""

import hashlib
import re

from vcsbench.sources.dump_format import SPECIAL, Properties
from vcsbench.storages.file_trees import (
    ADMINISTRATIVE_FOLDERS,
    LINK_NAME_BYTES,
    MAX_DEPTH,
    NAME_BYTES,
    PATH_BYTES,
)

LONGEST_TARGET = 4095
RENAMED_NOTE = (
    "Paths renamed, as .svn to ?\\046svn, because Subversion refuses their names, version control systems "
    "reserve them, or they are too long"
)
LINKS_NOTE = (
    "Symbolic links made plain files, because Subversion makes none whose target is empty, over "
    f"{LONGEST_TARGET:,} bytes, not UTF-8, or has a line end or NUL"
)
# Subversion's own messages show a refused byte as `?\010` (decimal). A `?` that begins such an escape is
# escaped itself, so two names never become one.
_REFUSED = re.compile(r"[\x00-\x1f\x7f\udc80-\udcff\ufffe\uffff]|\?(?=\\(?:[0-9]{3}|#))")
# `.git` in upper or lower case, because file systems may not tell them apart; `.`, `..` and an empty name.
_RESERVED = rb"(?:(?i:\.git)|\.\.?|%s)?" % b"|".join(
    re.escape(name.encode()) for name in sorted(ADMINISTRATIVE_FOLDERS) if name != ".git"
)
_RESERVED_NAME = re.compile(_RESERVED)
# A path with something that is escaped. It is searched first, because nearly all paths have nothing.
_ODD = re.compile(
    rb"[\x00-\x1f\x7f]|\xef\xbf[\xbe\xbf]|\?\\(?:[0-9]{3}|#)|(?:\A|/)"
    + _RESERVED
    + rb"(?:/|\Z)|[^/]{%d}" % (LINK_NAME_BYTES + 1)
)


def subversion_path(path: bytes) -> bytes:
    """Return the path that Subversion and all disks can have: `a/?\\046svn` for `a/.svn`."""
    if is_utf8(path) and not _ODD.search(path):
        return path
    return b"/".join(map(_rename, path.split(b"/")))


def _rename(name: bytes) -> bytes:
    """Return a name that Subversion and all disks can have: `?\\046svn` for `.svn`.

    Bytes that must be escaped become `?\\` and three decimal digits. A name that is too long is cut, and ends
    with a digest of the whole name. Two names never become one.
    """
    if not name:
        return b"?\\000"
    if _RESERVED_NAME.fullmatch(name):
        # The first byte is escaped: `.svn` becomes `?\046svn`. In `..`, both bytes are: `?\046?\046`.
        count = 2 if name == b".." else 1
        return _escape_bytes(name[:count]) + name[count:]
    # A byte that is not UTF-8 becomes U+DC80 to U+DCFF, whose low byte is that byte.
    text = name.decode("utf-8", "surrogateescape")
    escaped = _REFUSED.sub(_escape_match, text).encode("utf-8")
    # Any name may be that of a link. The limit of links is the smallest, so it is used for all names.
    if len(escaped) <= LINK_NAME_BYTES:
        return escaped
    end = b"?\\#" + hashlib.sha256(name).hexdigest()[:16].encode()
    # The cut may be in the middle of a UTF-8 character, whose first bytes are then dropped ("ignore"). A part
    # of an escape, such as `?\04`, does no harm, because the digest identifies the name.
    beginning = escaped[: LINK_NAME_BYTES - len(end)].decode("utf-8", "ignore")
    return beginning.encode() + end


def _escape_bytes(text: bytes) -> bytes:
    return b"".join(b"?\\%03d" % byte for byte in text)


def _escape_match(match: re.Match[str]) -> str:
    return _escape_bytes(match[0].encode("utf-8", "surrogateescape")).decode("ascii")


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def tree_prefix(tree: str) -> bytes:
    """Return the beginning of the paths below a tree: b"trunk/" for trunk, b"" for the root."""
    return f"{tree}/".lstrip("/").encode(errors="surrogateescape")


def is_impossible(path: bytes) -> bool:
    """Return True if no disk can hold a path: it is too long, too deep, or its last name is too long.

    The names of the folders above are not checked, because these folders are paths of their own.
    """
    path = path.rstrip(b"/")
    has_long_name = len(path.rpartition(b"/")[2]) > NAME_BYTES
    return has_long_name or len(path) > PATH_BYTES or path.count(b"/") > MAX_DEPTH


def is_reserved(path: bytes) -> bool:
    """Return True if the last name of a path is .svn, which no working copy can hold (RESERVED_PATHS)."""
    return path.rpartition(b"/")[2] == b".svn"


def is_link_target(target: bytes) -> bool:
    """Return True if Subversion can make a link with this target."""
    has_refused_byte = b"\n" in target or b"\0" in target
    return 0 < len(target) <= LONGEST_TARGET and not has_refused_byte and is_utf8(target)


def link(target: bytes) -> tuple[Properties, bytes]:
    """Return the properties and the text of a link; {} and the target if Subversion can make no link."""
    if is_link_target(target):
        return SPECIAL, b"link " + target
    return {}, target
