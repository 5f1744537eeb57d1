"""Read the file `info/alternates` of a git repository as git does: the folders from which it borrows objects.

vcsbench checks the files of each lender before it starts git on the repository. If it read a name in another
way than git, git would open a folder that nobody has checked.
"""

import re

# A string of C as git writes and reads it (unquote_c_style), and one escape in it.
QUOTATION = re.compile(rb'"((?:[^"\\]|\\[abfnrtv\\"]|\\[0-3][0-7]{2})*)"')
ESCAPE = re.compile(rb'\\([abfnrtv\\"]|[0-3][0-7]{2})')
ESCAPED_BYTES = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
    b'"': b'"',
}


def read_alternates(content: bytes) -> list[bytes]:
    """Return the names of the folders in the content of a file `info/alternates`, one for each line.

    `/srv/a`, a line end and `"/srv/b\\tc"` give b"/srv/a" and b"/srv/b\\tc", whose \\t is a tab. The rules
    are git's. It ends at a NUL byte, and skips lines that begin with #. A line that begins with a quotation
    mark is unquoted as a string of C. Behind the closing mark, git skips one character, whatever that is. A
    line whose quotation is wrong is a name as it stands.
    """
    names = []
    text = content.partition(b"\0")[0] + b"\n"
    position = 0
    while position < len(text):
        quotation = QUOTATION.match(text, position)
        if quotation:
            name = ESCAPE.sub(_unescape, quotation[1])
            # The character behind the closing mark is skipped: usually the line end.
            position = quotation.end() + 1
        else:
            end = text.index(b"\n", position)
            name = text[position:end]
            position = end + 1
            # Only a line without quotation marks can be a comment.
            if name.startswith(b"#"):
                continue
        if name:
            names.append(name)
    return names


def _unescape(escape: re.Match[bytes]) -> bytes:
    """Return the byte of an escape: `\\t`, or three digits in octal."""
    text = escape[1]
    if text.isdigit():
        return bytes([int(text, 8)])
    return ESCAPED_BYTES[text]
