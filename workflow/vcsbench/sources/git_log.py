"""Read commits, their dates, authors, messages and changes from `git log`."""

import re
from typing import NamedTuple

from vcsbench.external import parse_number
from vcsbench.processes import Program
from vcsbench.sources.git_objects import check_count, check_paths, read_field
from vcsbench.sources.git_repository import Git

# The options of `git log` for read_details(). Renames are searched among at most 400 files, because the time
# grows with the square of their number.
DETAILS = (
    *("--raw", "-z", "-r", "-t", "--no-abbrev", "-M", "-l400", "--root"),
    *("--diff-merges=first-parent", "--encoding=UTF-8"),
    "--format=%H%x00%ct%x00%an%x00%B",
)
# The end of 9999: Subversion's dates have four digits for the year.
LAST_SECOND = 253402300799
UNREADABLE_DATE = -1
# Control characters except tab and line feed, and code points that are no characters.
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class TreeChange(NamedTuple):
    """A file, link, folder or submodule that a commit adds, deletes, renames or changes.

    `source` is the path before a rename or copy. In any other change, it is equal to `path`. `is_moved` is
    True for a rename, whose source is gone after the commit. Modes are git's, such as b"100644" for a file.
    The old mode of an added path, and the new mode of a deleted one, is b"000000".
    """

    path: bytes
    source: bytes
    old_mode: bytes
    new_mode: bytes
    old_object: bytes
    new_object: bytes
    is_moved: bool


class CommitDetails(NamedTuple):
    """A commit: its name (a hex digest), date, author, text and changes.

    The date is in seconds since 1970, or UNREADABLE_DATE.
    """

    name: bytes
    seconds: int
    author: str
    text: str
    changes: list[TreeChange]


def read_details(program: Program, git: Git) -> CommitDetails:
    """Return the details of the next commit in the output of `git log` with the options DETAILS.

    Author and message are changed to what Subversion accepts: UTF-8, with LF as line ends, and without
    control characters. Raise UserError if the output ends early, if the commit has too many changes, or if a
    path is damaged.
    """
    name = read_field(program)
    # git prints nothing for a date before 1970, and a number for a damaged one.
    seconds = parse_number(read_field(program), LAST_SECOND)
    author = read_field(program).decode("utf-8", "replace")
    message = read_field(program).decode("utf-8", "replace")
    message = message.replace("\r\n", "\n").replace("\r", "\n")
    # git prints a line end between the message and the first change, and no line end without changes.
    if program.stdout.peek()[:1] == b"\n":
        program.stdout.read(1)
    changes = list[TreeChange]()
    # Each change begins with a colon, and the next commit with its name.
    while program.stdout.peek()[:1] == b":":
        changes.append(_read_change(program))
        # A huge commit is refused before it fills the memory.
        check_count(changes, git)
    check_paths([(change.path, change.new_mode) for change in changes], git)
    # An author has one line, without blanks at its ends.
    plain_author = " ".join(_REFUSED.sub(" ", author).split())
    text = _REFUSED.sub("\N{REPLACEMENT CHARACTER}", message)
    date = UNREADABLE_DATE if seconds is None else seconds
    return CommitDetails(name, date, plain_author, text, changes)


def _read_change(program: Program) -> TreeChange:
    """Return the next change: `:<old mode> <new mode> <old object> <new object> <status>`, NUL, path, NUL.

    A rename has the old path and the new one, and the status R with a percentage, such as R087. If one file
    became several, one of these has the status R. The others have C (a copy), and also two paths.
    """
    head = read_field(program).removeprefix(b":")
    old_mode, new_mode, old_object, new_object, status = head.split(b" ")
    source = read_field(program)
    has_two_paths = status.startswith((b"R", b"C"))
    path = read_field(program) if has_two_paths else source
    return TreeChange(
        path=path,
        source=source,
        old_mode=old_mode,
        new_mode=new_mode,
        old_object=old_object,
        new_object=new_object,
        is_moved=status.startswith(b"R"),
    )
