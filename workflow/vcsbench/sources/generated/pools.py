"""The pools of lines that every generated text is cut from.

A pool is one long text. A file's text is a list of pieces of a pool, so that a file costs a few
bytes of memory for every edit it went through, and its text comes out at the speed of copying
memory. Within a pool, a stretch of lines shares a small vocabulary, as the lines of one source
file do: that makes it compress as source code does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from random import Random

from vcsbench.sources.generated.words import identifier, sentence

# Larger than zlib's window (32 KiB) and than svndiff's (100 KB), and than all but few files.
POOL_BYTES = 1 << 20
STRETCH_LINES = 250
# So few identifiers in a stretch make texts of 2 to 40 KB compress 2.8 to 4.5 times, as ruby's do.
STRETCH_NAMES = 20


class Pool:
    """A text and the offsets at which its lines start."""

    def __init__(self, text: bytes, starts: array[int]) -> None:
        self.text = text
        self._starts = starts

    def line_start(self, offset: int) -> int:
        """The offset of the first line that starts at or after `offset`, or the text's end."""
        i = bisect_left(self._starts, offset)
        return self._starts[i] if i < len(self._starts) else len(self.text)


def lines_pool(lines: list[str]) -> Pool:
    """The pool of these lines, which have no line ends."""
    starts = array("I")
    offset = 0
    for line in lines:
        starts.append(offset)
        offset += len(line) + 1
    return Pool(("\n".join(lines) + "\n").encode("ascii"), starts)


def bytes_pool(rng: Random) -> Pool:
    """A pool that does not compress, for images and archives; a "line" is 64 bytes."""
    text = rng.getrandbits(8 * POOL_BYTES).to_bytes(POOL_BYTES, "little")
    return Pool(text, array("I", range(0, POOL_BYTES, 64)))


class Vocabulary:
    """The identifiers of one stretch: few of them make up most of the text."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._names = [identifier(rng) for _ in range(STRETCH_NAMES)]

    def name(self) -> str:
        """An identifier, the first ones the most often."""
        return self._names[int(STRETCH_NAMES * self._rng.random() ** 2)]


def brace_lines(rng: Random) -> list[str]:
    """Lines of a language with braces."""
    lines: list[str] = []
    size = 0
    while size < POOL_BYTES:
        words = Vocabulary(rng)
        stretch = [line for _ in range(STRETCH_LINES // 10) for line in _function(rng, words)]
        size += sum(len(line) + 1 for line in stretch)
        lines += stretch
    return lines


def _function(rng: Random, words: Vocabulary) -> list[str]:
    name = words.name
    lines = [f"static int {name()}_{name()}(struct {name()} *{name()}, int {name()})", "{"]
    indent = 1
    for _ in range(3 + int(rng.random() * 14)):
        tab = "\t" * indent
        kind = rng.random()
        if kind < 0.25:
            lines.append(f"{tab}{name()} = {name()}({name()}, {name()});")
        elif kind < 0.4:
            lines.append(f"{tab}if ({name()}->{name()} == NULL) {{")
            indent += 1
        elif kind < 0.5:
            lines.append(f"{tab}/* {sentence(rng, 4 + int(rng.random() * 6))}. */")
        elif kind < 0.62:
            lines.append(f"{tab}{name()}->{name()} = {int(rng.random() * 256)};")
        elif kind < 0.72:
            lines.append(f"{tab}return {name()};")
        elif kind < 0.82:
            lines.append("")
        else:
            lines.append(f"{tab}{name()}({name()}, &{name()}, sizeof(*{name()}));")
        if indent > 1 and rng.random() < 0.35:
            indent -= 1
            lines.append("\t" * indent + "}")
    while indent:
        indent -= 1
        lines.append("\t" * indent + "}")
    lines.append("")
    return lines


def end_lines(rng: Random) -> list[str]:
    """Lines of a language whose blocks close with `end`."""
    lines: list[str] = []
    size = 0
    while size < POOL_BYTES:
        words = Vocabulary(rng)
        stretch = [line for _ in range(STRETCH_LINES // 8) for line in _method(rng, words)]
        size += sum(len(line) + 1 for line in stretch)
        lines += stretch
    return lines


def _method(rng: Random, words: Vocabulary) -> list[str]:
    name = words.name
    lines = [f"  def {name()}({name()}, {name()} = nil)"]
    for _ in range(2 + int(rng.random() * 9)):
        kind = rng.random()
        if kind < 0.3:
            lines.append(f"    {name()} = {name()}.{name()}({name()})")
        elif kind < 0.5:
            lines.append(f'    assert_equal({name()}, {name()}.{name()}, "{name()}")')
        elif kind < 0.6:
            lines.append(f"    # {sentence(rng, 4 + int(rng.random() * 7))}.")
        elif kind < 0.75:
            lines.append(f"    {name()}.each do |{name()}|")
            lines.append(f"      {name()} << {name()}[:{name()}]")
            lines.append("    end")
        elif kind < 0.85:
            lines.append("")
        else:
            lines.append(f"    return {name()} if {name()}.{name()}?")
    lines += ["  end", ""]
    return lines


def prose_lines(rng: Random) -> list[str]:
    """Paragraphs of prose with short lines, as in documents and change logs."""
    lines: list[str] = []
    size = 0
    while size < POOL_BYTES:
        words = Vocabulary(rng)
        lines.append(f"* {words.name()}.c ({words.name()}): {sentence(rng, 5)}")
        size += len(lines[-1]) + 1
        for _ in range(int(rng.random() * 4)):
            lines.append(f"  {sentence(rng, 6 + int(rng.random() * 5)).lower()}")
            size += len(lines[-1]) + 1
        lines.append("")
        size += 1
    return lines


def make_pools(seed: str) -> dict[str, Pool]:
    """The pools by the kind of file that is cut from them."""
    return {
        "braces": lines_pool(brace_lines(Random(f"{seed} braces"))),
        "ends": lines_pool(end_lines(Random(f"{seed} ends"))),
        "prose": lines_pool(prose_lines(Random(f"{seed} prose"))),
        "bytes": bytes_pool(Random(f"{seed} bytes")),
    }
