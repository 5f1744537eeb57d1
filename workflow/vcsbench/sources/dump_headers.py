"""The headers of records in Subversion's dump format, with the numbers and dates that Subversion accepts."""

import re

from vcsbench.external import parse_number

FORMAT = b"SVN-fs-dump-format-version"
REVISION = b"Revision-number"
NODE_PATH = b"Node-path"
ACTION = b"Node-action"
NODE_KIND = b"Node-kind"
COPY_PATH = b"Node-copyfrom-path"
PROPERTIES, TEXT = b"Prop-content-length", b"Text-content-length"
CONTENT = b"Content-length"
# The headers with numbers, and the largest numbers.
LARGEST_NUMBERS = {FORMAT: 1000, REVISION: 2**40, PROPERTIES: 2**62, TEXT: 2**62, CONTENT: 2**62}
DATE = b"svn:date"
# svn_time_from_cstring() ignores what follows, and reads an empty number as 0.
_DATE = re.compile(rb"(\d{0,9})-(\d{0,9})-(\d{0,9})T\d*:\d*:\d*\.\d*Z")
# Before Subversion 0.14: Tue 3 Oct 2000 09:00:00.000 (day 277, dst 1, gmt_off -18000)
_OLD_DATE = re.compile(
    rb"\s*\S{1,3}\s*\d+\s*(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s*(\d{4,9})\s+\d\d?:\s*\d\d?"
    rb":\s*\d\d?\.\s*\d{1,6}\s*\(day\s*\d{1,3},\s*dst\s*\d+,\s*gmt_off\s*-?\d{1,6}"
)


def header_number(key: bytes, value: bytes) -> int | None:
    """Return the number of a header, or None for anything else."""
    digits = value.strip()
    # svnadmin accepts `+1`, and refuses `++1`.
    if digits[:1] == b"+" and digits[1:2].isdigit():
        digits = digits[1:]
    return parse_number(digits, LARGEST_NUMBERS[key])


def is_date(text: bytes) -> bool:
    """Return True if Subversion reads a text as a date. It accepts a 32nd day, and nothing before 1970."""
    # Subversion reads a string of C, which ends at a NUL.
    text = text.partition(b"\0")[0]
    match = _DATE.match(text)
    if match:
        year, month, day = (int(number or b"0") for number in match.groups())
        return 1 <= month <= 12 and (year, month, day) >= (1970, 1, 1)
    old_match = _OLD_DATE.match(text)
    return old_match is not None and int(old_match[1]) >= 1970
