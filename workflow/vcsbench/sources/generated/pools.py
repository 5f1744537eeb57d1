"""The pools of lines that every generated text is cut from.

A pool is one long text. A file's text is a list of pieces of a pool, so that a file costs a few
bytes of memory for every edit it went through, and its text comes out at the speed of copying
memory. Within a pool, a stretch of lines shares a small vocabulary, as the lines of one source
file do: that makes it compress as source code does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from itertools import chain
from random import Random
from typing import TypeAlias

from vcsbench.sources.generated.quantiles import ranked
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


def bytes_pool(rng: Random) -> Pool:
    """A pool that does not compress, for images and archives; a "line" is 64 bytes."""
    text = rng.getrandbits(8 * POOL_BYTES).to_bytes(POOL_BYTES, "little")
    return Pool(text, array("I", range(0, POOL_BYTES, 64)))


# Gives the next identifier.
Name: TypeAlias = Callable[[], str]


def vocabulary(rng: Random) -> Name:
    """The identifiers of one stretch: few of them, the first ones, make up most of the text."""
    names = [identifier(rng) for _ in range(STRETCH_NAMES)]
    return lambda: names[ranked(rng, STRETCH_NAMES, 2)]


def lines_pool(rng: Random, unit: Callable[[Random, Name], list[str]], count: int) -> Pool:
    """The pool of the lines that `unit` makes, called so often for each stretch."""
    lines: list[str] = []
    starts = array("I")
    size = 0
    while size < POOL_BYTES:
        name = vocabulary(rng)
        for line in chain.from_iterable(unit(rng, name) for _ in range(count)):
            lines.append(line)
            starts.append(size)
            size += len(line) + 1
    return Pool(("\n".join(lines) + "\n").encode("ascii"), starts)


def _function(rng: Random, name: Name) -> list[str]:
    """The lines of a function, in a language with braces."""
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
    return [*lines, *("\t" * i + "}" for i in reversed(range(indent))), ""]


def _method(rng: Random, name: Name) -> list[str]:
    """The lines of a method, in a language whose blocks close with `end`."""
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
    return [*lines, "  end", ""]


def _paragraph(rng: Random, name: Name) -> list[str]:
    """Short lines of prose, as in documents and change logs."""
    first = f"* {name()}.c ({name()}): {sentence(rng, 5)}"
    others = range(int(rng.random() * 4))
    return [first, *(f"  {sentence(rng, 6 + int(rng.random() * 5)).lower()}" for _ in others), ""]


def make_pools(seed: str) -> dict[str, Pool]:
    """The pools by the kind of file that is cut from them."""
    return {
        "braces": lines_pool(Random(f"{seed} braces"), _function, STRETCH_LINES // 10),
        "ends": lines_pool(Random(f"{seed} ends"), _method, STRETCH_LINES // 8),
        "prose": lines_pool(Random(f"{seed} prose"), _paragraph, 1),
        "bytes": bytes_pool(Random(f"{seed} bytes")),
    }
