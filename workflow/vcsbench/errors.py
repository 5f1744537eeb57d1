"""Errors with a message for the user."""

import errno
import io
import os
import re
import sys
import traceback

# C0 and C1 control characters, and the characters that reverse the direction of text.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Half of a character, as JSON can have it. U+DC80 to U+DCFF stand for bytes that are not UTF-8.
_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
LONGEST_MESSAGE = 4000
LONGEST_FAULT = 400
# Errors after which no file can be written any more: a full disk, a quota, or a limit on the size of files.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PERMISSIONS = "Check the permissions and whether the file system is read-only"
_IN_THE_WAY = (errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENOTDIR)
REMEDY_BY_ERRNO = {
    errno.ENOSPC: "Free some space, or inodes (df -i)",
    errno.EDQUOT: "Free some space, or raise the quota",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f)",
    errno.EMFILE: "Raise the limit on open files (ulimit -n)",
    errno.ENOMEM: "Free some memory",
    errno.EAGAIN: "End some processes, or raise their limit (ulimit -u)",
    errno.EIO: "Check the disk: dmesg names its errors",
    **dict.fromkeys(_IN_THE_WAY, "Move the file elsewhere that is in the way"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _PERMISSIONS),
}
# The options of the command line by the keys that they set, and the variables of make that set them.
OPTION_BY_KEY = {
    "repository": "--repository (make: REPO=)",
    "tree": "--tree (make: TREE=)",
    "server_log": "--server-log (make: LOG=)",
    "studies": "--study (make: STUDY=)",
    "minutes": "--minutes (make: MINUTES=)",
    "cores": "--cores (make: CORES=)",
    "name": "--name (make: NAME=)",
    "cell": "cell (make: CELL=)",
    "bundle": "bundle (make: BUNDLE=)",
}


def printable(text: str | bytes) -> str:
    r"""Return text that is safe to print on a terminal: control characters are shown as \x1b."""
    if isinstance(text, bytes):
        text = text.decode(errors="backslashreplace")
    # Half of a character becomes \ud800, because encode() below would fail. ascii() adds quotation marks.
    text = _SURROGATE.sub(lambda match: ascii(match[0])[1:-1], text)
    # In a path, Python keeps a byte that is not UTF-8 as one of U+DC80 to U+DCFF. It becomes \xff here.
    text = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def accept_all_characters() -> None:
    """Print "?" for each character that the encoding of the standard output lacks, in place of an error.

    ISO 8859-15 lacks the narrow space in numbers. Python's standard error accepts all characters already.
    """
    # The caller may have closed the standard output.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


class UserError(Exception):
    """A mistake that the user can fix. The message names the file, the key and the remedy.

    Control characters in it are escaped, and its length is limited.
    """

    def __init__(self, message: str = "") -> None:
        text = printable(message)
        super().__init__(text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}...")


class ProgramError(UserError):
    """A program failed. Its own message is the reason, and names no file or key of vcsbench."""


class ChangedError(UserError):
    """A subject of a measurement has changed."""


def sentence_of(error: OSError, place: object = "") -> str:
    """Return, for example, "/srv: Input/output error. Check the disk: dmesg names its errors, and run again."

    The sentence begins with the file of the error. If the error has no file, it begins with `place`.
    """
    # After a call with a descriptor, the filename is the number of the descriptor, which names nothing.
    has_file = bool(error.filename) and not isinstance(error.filename, int)
    subject = error.filename if has_file else place
    remedy = REMEDY_BY_ERRNO.get(error.errno or 0, "Fix that")
    sentence = f"{error.strerror or error}. {remedy}, and run again."
    return f"{subject}: {sentence}" if subject else sentence


def describe_fault(error: Exception) -> str:
    """Return a sentence about an error of the user, of the system, or otherwise of vcsbench itself."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):
        return sentence_of(error)
    # Python raises these two for faults of the system: no further thread, no memory. They lack the number by
    # which sentence_of() chooses the remedy.
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return sentence_of(OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)))
    if isinstance(error, MemoryError):
        return sentence_of(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
    last = traceback.extract_tb(error.__traceback__)[-1]
    on_one_line = " ".join(str(error).split())
    fault = f"{type(error).__name__}: {on_one_line}"[:LONGEST_FAULT]
    return (
        f"{fault} ({last.filename}:{last.lineno}). This is a fault of vcsbench: please report it."
    )


def full_errno(text: str) -> int:
    """Return the error number in FULL, such as ENOSPC, whose English message is in a text; 0 without one."""
    for number in FULL:
        if os.strerror(number) in text:
            return number
    return 0
