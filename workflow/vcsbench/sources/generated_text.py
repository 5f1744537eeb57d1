"""Generate names, messages and file contents.

A file is a list of pieces of a pool, which is one long text: it costs a few bytes of memory per edit. A
stretch of lines shares a small vocabulary, so that contents compress as source code does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import chain
from random import Random
from typing import NamedTuple, TypeAlias, TypeVar

from vcsbench.sources import generated_profiles as profiles

Item = TypeVar("Item")
NameGenerator: TypeAlias = Callable[[], str]
# Start and end offsets in a pool, alternating. Copies of a file share the array: it is never changed.
Pieces: TypeAlias = "array[int]"

# Larger than the windows of zlib (32 KiB) and svndiff (100 KB), and than nearly all files.
POOL_BYTES = 1 << 20
STRETCH_LINES = 250
# With 20 names, texts of 2 to 40 KB compress by a factor of 2.8 to 4.5, as ruby's do.
STRETCH_NAMES = 20
# From this number on, edits change the places of earlier edits, which limits memory.
MAX_PIECES = 32
LONG_PIECE = 1500
SMALLEST_TEXT = 30
CHURN_HUNKS = 8


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SYLLABLES = _words("""
    al an ar as at ba be bi bo bu ca ce ci co cu da de di do du el en er es ex fa fe fi fo ga ge
    go ha he hi ho id il im in ir is ka ke ki ko la le li lo lu ma me mi mo mu na ne ni no nu ob
    on or os ou pa pe pi po ra re ri ro ru sa se si so su ta te ti to tu un ur us va ve vi vo wa
    we wi xe ya ze
""")
NOUNS = _words("""
    addr alloc arg array attr base bit block body bound buffer bytes cache call char child class
    code conf const context copy count cpu ctx cursor data date debug depth desc dev dir entry env
    error event expr field file filter flag format frame func graph group hash head heap host
    index info init input insn item iter job key label lang leaf len level lib line link list load
    lock log loop map mask mem method mode mount mutex name net node num object offset op option
    order output packet page parse pars path pattern pool port prefix proc proto query queue range
    rate ratio record ref region regex req result root route rule scan scope sector seed seg set
    shift signal size slot socket source span stack stage stat state status stmt step store str
    stream string struct sum symbol sync sys table tag target task temp test text thread time
    timer token trace tree type unit user utf util val value var vec vendor version view vm width
    window word zone
""")
VERBS = _words("""
    add allow append assign attach avoid bind build bump check clean clear close compare convert
    copy create define delete detach disable document drop enable ensure evaluate expand extract
    fetch fill find fix flush free get handle hide ignore import improve initialize insert keep
    limit load lock make mark match merge move normalize open parse pass prevent print push quote
    raise read rebuild reduce refactor regenerate release remove rename replace reset restore
    return revert rewrite save select send set show simplify skip sort split start stop store
    support switch sync test trim unify unlock update use validate wait wrap write
""")
GLUE = _words("""
    a after all also and are as at be before but by can case does each for from has have if in
    instead into is it its may more must new no not now of old on one only or other out over same
    should so some than that the then there these this to too under until use used was were when
    where which while will with without
""")


def pick(rng: Random, items: Sequence[Item]) -> Item:
    return items[int(rng.random() * len(items))]


def ranked(rng: Random, count: int, power: int) -> int:
    """Return a random rank below `count`; a higher `power` makes low ranks more likely."""
    return int(count * rng.random() ** power)


def noun(rng: Random) -> bytes:
    return pick(rng, NOUNS).encode("ascii")


def invented_word(rng: Random, syllables: int) -> str:
    return "".join(pick(rng, SYLLABLES) for _ in range(syllables))


def _identifier(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.35:
        return f"{pick(rng, NOUNS)}_{pick(rng, NOUNS)}"
    if kind < 0.6:
        return f"{pick(rng, VERBS)}_{pick(rng, NOUNS)}"
    if kind < 0.8:
        return pick(rng, NOUNS)
    return invented_word(rng, 2 + int(rng.random() * 2))


def sentence(rng: Random, words: int) -> str:
    picked = [pick(rng, VERBS).capitalize()]
    while len(picked) < words:
        kind = rng.random()
        if kind < 0.45:
            picked.append(pick(rng, GLUE))
        elif kind < 0.7:
            picked.append(pick(rng, NOUNS))
        elif kind < 0.8:
            picked.append(pick(rng, VERBS))
        else:
            picked.append(_identifier(rng))
    return " ".join(picked)


def log_message(rng: Random, size: int) -> bytes:
    lines: list[str] = []
    while size > 0:
        lines.append(sentence(rng, 1 + min(size // 6, 5 + int(rng.random() * 6))))
        size -= len(lines[-1]) + 1
    return "\n".join(lines).encode("ascii")


def _function(rng: Random, name: NameGenerator) -> list[str]:
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


def _method(rng: Random, name: NameGenerator) -> list[str]:
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


def _paragraph(rng: Random, name: NameGenerator) -> list[str]:
    first = f"* {name()}.c ({name()}): {sentence(rng, 5)}"
    others = range(int(rng.random() * 4))
    return [first, *(f"  {sentence(rng, 6 + int(rng.random() * 5)).lower()}" for _ in others), ""]


class Pool(NamedTuple):
    """A text and the offsets of its lines."""

    text: bytes
    starts: array[int]

    def line_start(self, offset: int) -> int:
        i = bisect_left(self.starts, offset)
        return self.starts[i] if i < len(self.starts) else len(self.text)


def _pool_of_lines(
    seed: str, unit: Callable[[Random, NameGenerator], list[str]], count: int
) -> Pool:
    rng = Random(seed)
    lines: list[str] = []
    starts = array("I")
    size = 0
    while size < POOL_BYTES:
        names = [_identifier(rng) for _ in range(STRETCH_NAMES)]

        def name(names: list[str] = names) -> str:
            return names[ranked(rng, STRETCH_NAMES, 2)]

        for line in chain.from_iterable(unit(rng, name) for _ in range(count)):
            lines.append(line)
            starts.append(size)
            size += len(line) + 1
    return Pool(("\n".join(lines) + "\n").encode("ascii"), starts)


def make_pools(seed: str) -> dict[str, Pool]:
    noise = Random(f"{seed} bytes").getrandbits(8 * POOL_BYTES).to_bytes(POOL_BYTES, "little")
    return {
        "braces": _pool_of_lines(f"{seed} braces", _function, STRETCH_LINES // 10),
        "ends": _pool_of_lines(f"{seed} ends", _method, STRETCH_LINES // 8),
        "prose": _pool_of_lines(f"{seed} prose", _paragraph, 1),
        "bytes": Pool(noise, array("I", range(0, POOL_BYTES, 64))),
    }


def text_size(pieces: Pieces) -> int:
    return sum(pieces[1::2]) - sum(pieces[::2])


class Editor:
    """Creates and edits texts of pools. Sizes are approximate, because edits are of whole lines."""

    def __init__(self, rng: Random, seed: str) -> None:
        self._rng = rng
        self._pools = make_pools(seed)

    def text(self, pool: str, pieces: Pieces) -> bytes:
        text = self._pools[pool].text
        if len(pieces) == 2:
            return text[pieces[0] : pieces[1]]
        bounds = iter(pieces)
        return b"".join([text[start:end] for start, end in zip(bounds, bounds, strict=True)])

    def create(self, pool: str, size: int) -> Pieces:
        text, line_start = self._pools[pool].text, self._pools[pool].line_start
        pieces = array("I")
        size = max(size, SMALLEST_TEXT)
        while size > 0:
            length = min(size, len(text) // 2)
            start = line_start(int(self._rng.random() * (len(text) - length)))
            pieces.extend((start, line_start(start + length)))
            size -= length
        return pieces

    def edit(self, kind: profiles.FileKind, pieces: Pieces, excess: float = 0.0) -> Pieces:
        """Return the next version of a text. `excess` from -1 to 1: above 0, it becomes shorter."""
        size = text_size(pieces)
        if kind.churn >= 1:
            return self.create(kind.pool, int(size * (0.95 + 0.1 * self._rng.random())))
        if kind.churn > 0:
            part = int(kind.churn * size / CHURN_HUNKS)
            hunks = [(part, int(part * (1 - 0.5 * excess)))] * CHURN_HUNKS
        else:
            hunks = self._hunks(size, excess)
        if len(pieces) >= 2 * MAX_PIECES:
            return self._apply_in_place(kind.pool, pieces, hunks)
        return self._apply(kind.pool, pieces, hunks)

    def _hunks(self, size: int, excess: float) -> list[tuple[int, int]]:
        rng = self._rng
        additions, removals = profiles.PURE_ADDITIONS, profiles.PURE_REMOVALS
        if excess > 0:
            additions, removals = removals, additions
        hunks = []
        for _ in range(profiles.HUNKS.draw(rng)):
            changed = profiles.HUNK_BYTES.draw(rng)
            share = rng.random()
            if share < additions:
                hunks.append((0, changed))
            elif share < additions + removals:
                hunks.append((min(changed, size // 4), 0))
            else:
                added = int(changed * (0.5 + rng.random()) * (1 - 0.5 * excess))
                hunks.append((min(changed, size // 2), added))
        return hunks

    def _apply(self, name: str, pieces: Pieces, hunks: list[tuple[int, int]]) -> Pieces:
        pool = self._pools[name]
        size = text_size(pieces)
        places = sorted(int(self._rng.random() * size) for _ in hunks)
        result = array("I")
        piece_end = to_remove = done = 0
        for i in range(0, len(pieces), 2):
            start, end = pieces[i], pieces[i + 1]
            origin = start - piece_end
            piece_end += end - start
            if to_remove > 0:
                start, to_remove = _cut(pool, start, end, to_remove)
            while done < len(hunks) and places[done] < piece_end:
                removed, added = hunks[done]
                cut = min(pool.line_start(max(origin + places[done], start)), end)
                if cut > start:
                    result.extend((start, cut))
                if added > 0:
                    result.extend(self.create(name, added))
                start, rest = _cut(pool, cut, end, removed)
                to_remove += rest
                done += 1
            if start < end:
                result.extend((start, end))
        return result if result else self.create(name, SMALLEST_TEXT)

    def _apply_in_place(self, name: str, pieces: Pieces, hunks: list[tuple[int, int]]) -> Pieces:
        pool = self._pools[name]
        result = array("I", pieces)
        for removed, added in hunks:
            i = 2 * int(self._rng.random() * (len(result) // 2))
            length = result[i + 1] - result[i]
            if length > LONG_PIECE + removed:
                result[i] = min(pool.line_start(result[i] + removed), result[i + 1])
                result[i + 1] = pool.line_start(min(result[i + 1] + added, len(pool.text)))
                continue
            end = i + 2
            while end < len(result) and removed > 0:
                start, removed = _cut(pool, result[end], result[end + 1], removed)
                result[end] = start
                if start < result[end + 1]:
                    break
                end += 2
            # Bytes that could not be removed, because the text ends, are not added either.
            result[i:end] = self.create(name, length + added - removed)
        return result

    def add_entry(self, journal: Pieces, limit: int) -> Pieces:
        """Return a journal with an entry in front. Beyond `limit` bytes, remove its older half.

        The front grows backwards through the pool, so that a journal stays a few pieces.
        """
        pool, added = self._pools["prose"], profiles.JOURNAL_ENTRIES.draw(self._rng)
        result = array("I", journal)
        start = pool.line_start(max(result[0] - added, 0))
        if start < result[0]:
            result[0] = start
        else:
            result = self.create("prose", added) + result
        excess = text_size(result) - limit
        if excess > 0:
            excess += limit // 2
            while len(result) > 2 and excess >= result[-1] - result[-2]:
                excess -= result[-1] - result[-2]
                del result[-2:]
            result[-1] = max(pool.line_start(result[-1] - excess), pool.line_start(result[-2] + 1))
        return result


def _cut(pool: Pool, start: int, end: int, removed: int) -> tuple[int, int]:
    if removed <= 0:
        return start, 0
    if start + removed >= end:
        return end, removed - (end - start)
    return min(pool.line_start(start + removed), end), 0
