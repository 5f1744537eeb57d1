"""Read input from outside with a type, a limit and a plain error; write and clean URLs.

Every reader of a user's repository, dump, bundle or configuration uses these functions.
"""

import contextlib
import os
import re
import stat
import urllib.parse
from pathlib import Path

from vcsbench.errors import UserError, printable

SMALL_FILE = 1 << 16
# The bytes that are read at once.
CHUNK = 1 << 20
# The part of a name that an error shows, so that its remedy is not cut.
LONGEST_SHOWN = 400
FILE_SCHEME = "file://"
# Python raises these for an unusable path: no permission, a NUL, or the home of an unknown user.
PATH_ERRORS = (OSError, ValueError, RuntimeError)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# A name or an address, [::1] for one of IPv6, and a port.
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/@?#\\]+)(?::[0-9]*)?"
_PLAIN_URL = re.compile(
    rf"(?:(?:https?|svn)://|svn\+ssh://(?:[^\s:/@?#\\]+@)?){_HOST}(?:/\S*)?|file://[^\s:/@?#\\]*/\S*"
)
URL_FORM = (
    "must be a URL that begins with http://, https://, svn://, svn+ssh:// or file://, without blanks, user "
    "and password. Let svn store a password: run `svn info URL` once"
)


def open_regular(path: str | Path, *, follow_links: bool = True) -> int:
    """Open a regular file and return its descriptor.

    Raise UserError for a pipe, a device or a folder. Raise OSError as os.open() does, for example for a
    socket, and for a link with `follow_links=False`.
    """
    # Without O_NONBLOCK, os.open() would wait for a writer of a pipe.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    if not follow_links:
        flags |= os.O_NOFOLLOW
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{one_line(path)}: this is not a regular file. Use one.")
    return descriptor


def read_bytes(path: str | Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes. Raise UserError if it is larger.

    A file that never ends, such as /proc/kmsg, is read as an empty one.
    """
    with open(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        # Files of the kernel that block or never end have the size 0. A file that grows is read up to its
        # size when it was opened.
        content = file.read(size) if 0 < size <= limit else b""
    if size > limit:
        raise _too_large_error(path, limit)
    return content


def check_size(path: str | Path, limit: int) -> None:
    """Raise UserError if a file is larger than `limit` bytes. A missing file is no fault."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return
    if size > limit:
        raise _too_large_error(path, limit)


def _too_large_error(path: str | Path, limit: int) -> UserError:
    return UserError(f"{one_line(path)}: the file is larger than {limit} bytes. Shorten it.")


def read_number(path: str | Path, largest: int) -> int:
    """Return the number from 0 to `largest` that is the first word of a file. Raise UserError without one."""
    words = read_bytes(path, SMALL_FILE).split()
    first = words[0] if words else b""
    number = parse_number(first, largest)
    if number is None:
        shown = one_line(first, 40)
        raise UserError(
            f"{one_line(path)}: '{shown}' is no number from 0 to {largest}. Correct it."
        )
    return number


def parse_number(text: bytes | str, largest: int) -> int | None:
    """Return a decimal number from 0 to `largest`, or None for anything else."""
    # The text becomes bytes, because isdigit() of a str accepts digits of all scripts.
    digits = text.encode(errors="replace") if isinstance(text, str) else text
    digits = digits.strip()
    if not digits.isdigit():
        return None
    significant = digits.lstrip(b"0")
    # int() refuses more than 4,300 digits.
    if len(significant) > len(str(largest)):
        return None
    number = int(significant or b"0")
    return number if number <= largest else None


def one_line(text: object, limit: int = LONGEST_SHOWN) -> str:
    """Return text that is safe to print on one line, cut to `limit` characters."""
    text = text if isinstance(text, bytes) else str(text)
    # A name may have megabytes, so it is cut first. One character over the limit shows that it is too long.
    line = printable(text[: limit + 1]).replace("\n", "\\n").replace("\t", "\\t")
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def file_url(path: str | Path, below: str = "") -> str:
    """Return the URL of a local repository, or of a path in it: file:///srv/50%25/trunk"""
    url = f"file://{urllib.parse.quote(os.fsencode(os.path.abspath(path)))}"
    return f"{url}/{below}".rstrip("/")


def pegged(url: str) -> str:
    """Return a URL as an argument of svn, with an @ at the end if its path has one.

    Otherwise svn reads the text behind the last @ as a revision. svnrdump and svnmucc accept no @ at the end.
    """
    if not _URL.match(url):
        return url
    # The path follows the host, so the @ of svn+ssh://user@host/x is no part of it.
    _, _, path = url.partition("://")[2].partition("/")
    return f"{url}@" if "@" in urllib.parse.unquote(path) else url


def is_plain_url(url: str) -> bool:
    """Return True for a URL that svn can read, without blanks, user and password.

    A password in a configuration would reach logs, results and the nodes of a cluster. Only svn+ssh has its
    user in the URL: ssh reads the name there.
    """
    return bool(_PLAIN_URL.fullmatch(url))


def is_url(text: str) -> bool:
    """Return True if a user's text is a URL and no path, also for a mistyped URL and an address of ssh."""
    if "://" in text:
        return True
    # A path that exists may have any name. `//host` may be a mistyped URL.
    if os.path.lexists(text) or text.startswith((".", "~")) or re.match("/(?!/)", text):
        return False
    # https:/host and https:\\host: somebody mistyped a URL, which may contain a password.
    is_mistyped = bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]+:[/\\]", text))
    # user@host:path is an address of ssh. Another text without a colon or an @ is a path, such as `trunk`.
    return is_mistyped or (":" in text and "@" in text)


def local_path(text: str) -> Path:
    """Return the path that a user wrote: /home/ann/x for ~/x, and /srv/x for file:///srv/x.

    The path need not exist. Raise one of PATH_ERRORS for an impossible name, an unknown user in `~user`, a
    relative path behind file://, and a folder above the path that may not be entered.
    """
    if text.startswith(FILE_SCHEME):
        # file://localhost/srv/x is another form of file:///srv/x.
        as_written = Path(text.removeprefix(FILE_SCHEME).removeprefix("localhost"))
        if not as_written.is_absolute():
            raise ValueError("a path behind file:// begins with a slash")
        # In a URL, `%20` stands for a blank, but a name may also have `%20` in it.
        unquoted = Path(urllib.parse.unquote(os.fspath(as_written)))
        path = as_written if as_written.exists() else unquoted
    else:
        path = Path(text).expanduser()
    # stat() raises an error if a folder above cannot be entered, or if a name is too long. exists() may
    # return False for both, and the error would be about a missing file.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.stat()
    return path
