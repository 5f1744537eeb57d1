"""Generate names, messages and file contents.

A text consists of lines of a pool. A stretch of a pool's lines shares a small vocabulary, so that contents
compress as source code does.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import NamedTuple, TypeVar

from vcsbench.sources import generated_profiles as profiles

Item = TypeVar("Item")

# Larger than the windows of zlib (32 KiB) and svndiff (100 KB), and than nearly all files.
POOL_BYTES = 1 << 20
# The lines that share a vocabulary.
STRETCH_LINES = 250
# With 20 names, texts of 2 to 40 KB compress by a factor of 2.8 to 4.5, as ruby's do.
STRETCH_NAMES = 20
# The bytes of a line of a binary file, which is not compressible.
NOISE_LINE = 64
SMALLEST_TEXT = 30
# The number of places at which one change replaces parts of a text that a program writes.
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


class Unit(NamedTuple):
    """The pattern of a function or paragraph: `first`, 1 to `most` random ones of `others`, and `last`.

    `$` stands for a name, `~` for a sentence.
    """

    first: str
    others: tuple[str, ...]
    most: int
    last: str


UNITS = {
    "braces": Unit(
        "static int $_$(struct $ *$, int $)\n{",
        (
            "\t$ = $($, $);",
            "\t$->$ = $;",
            "\t/* ~. */",
            "\treturn $;",
            "",
            "\t$($, &$, sizeof(*$));",
            "\tif ($->$ == NULL) {\n\t\t$ = $($, $);\n\t}",
        ),
        12,
        "}\n",
    ),
    "ends": Unit(
        "  def $($, $ = nil)",
        (
            "    $ = $.$($)",
            '    assert_equal($, $.$, "$")',
            "    # ~.",
            "",
            "    return $ if $.$?",
            "    $.each do |$|\n      $ << $[:$]\n    end",
        ),
        9,
        "  end\n",
    ),
    "prose": Unit("* $.c ($): ~", ("  ~",), 3, ""),
}


def pick(rng: Random, items: Sequence[Item]) -> Item:
    return items[int(rng.random() * len(items))]


def pick_rank(rng: Random, count: int, power: int) -> int:
    """Return a random rank below `count`; a higher `power` makes low ranks more likely."""
    return int(count * rng.random() ** power)


def pick_noun(rng: Random) -> bytes:
    return pick(rng, NOUNS).encode("ascii")


def invent_word(rng: Random, syllables: int) -> str:
    return "".join(pick(rng, SYLLABLES) for _ in range(syllables))


def _make_identifier(rng: Random) -> str:
    """Return a name as programs have them: parse_buffer, buffer or kanero."""
    kind = rng.random()
    if kind < 0.6:
        first = pick(rng, pick(rng, (NOUNS, VERBS)))
        return f"{first}_{pick(rng, NOUNS)}"
    if kind < 0.8:
        return pick(rng, NOUNS)
    return invent_word(rng, 2 + int(rng.random() * 2))


def sentence(rng: Random, words: int) -> str:
    """Return a sentence of `words` words. It begins with a verb, as log messages do."""
    picked = [pick(rng, VERBS).capitalize()]
    while len(picked) < words:
        # Half of the words are of grammar, a quarter nouns, and a quarter (the empty vocabulary) names.
        vocabulary = pick(rng, (GLUE, GLUE, NOUNS, ()))
        picked.append(pick(rng, vocabulary) if vocabulary else _make_identifier(rng))
    return " ".join(picked)


def make_log_message(rng: Random, size: int) -> bytes:
    """Return lines of sentences with about `size` bytes."""
    lines: list[str] = []
    while size > 0:
        # A word and the blank behind it have six bytes.
        words = min(size // 6, 5 + int(rng.random() * 6))
        lines.append(sentence(rng, 1 + words))
        size -= len(lines[-1]) + 1
    return "\n".join(lines).encode("ascii")


class Pool:
    """Lines to make texts of. A text stores only the numbers of its lines in the pool."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        # The byte at which each line begins, and the end of the last one.
        self._starts = array("I", accumulate(map(len, lines), initial=0))

    def draw(self, rng: Random, size: int) -> array[int]:
        """Return the numbers of lines that follow each other in the pool, with about `size` bytes in all.

        A text of more than half of the pool is several of these pieces, one after the other.
        """
        numbers = array("I")
        while size > 0:
            # At most half of the pool at a time, so that also long texts begin at many places.
            length = min(size, POOL_BYTES // 2)
            # The first line that begins at or behind a random byte, and the line behind the last one.
            first = bisect_left(self._starts, rng.random() * (POOL_BYTES - length))
            end = bisect_left(self._starts, self._starts[first] + length, hi=len(self.lines))
            numbers.extend(range(first, end))
            size -= length
        return numbers

    def size(self, numbers: array[int]) -> int:
        return sum(map(len, map(self.lines.__getitem__, numbers)))


def make_pools(seed: str) -> dict[str, Pool]:
    """Return the pools of a history: one for each of UNITS, and `bytes` for binary files."""
    pools = {}
    for name, unit in UNITS.items():
        # Each pool has its own random numbers: a change of one pool leaves all other pools as they are.
        pools[name] = Pool(_pool_lines(Random(f"{seed} {name}"), unit))
    noise = Random(f"{seed} bytes").getrandbits(8 * POOL_BYTES).to_bytes(POOL_BYTES, "little")
    pieces = [noise[at : at + NOISE_LINE] for at in range(0, POOL_BYTES, NOISE_LINE)]
    pools["bytes"] = Pool(pieces)
    return pools


def _pool_lines(rng: Random, unit: Unit) -> list[bytes]:
    """Return the lines of a pool: functions or paragraphs after a pattern, with POOL_BYTES or a little more.

    Each is `unit.first` (such as `static int $_$(...)`), 1 to `unit.most` random ones of `unit.others`, and
    `unit.last` (`}`). In these, a name replaces `$`, and a sentence `~`: `$ = $($);` becomes `buffer =
    parse_list(len);`. Each stretch of about STRETCH_LINES (250) lines shares STRETCH_NAMES (20) names, so
    that the lines compress as well as those of real code.
    """
    lines: list[bytes] = []
    size = 0
    # The names of the present stretch. Each turn of the outer loop below replaces the list.
    names: list[str] = []

    def fill(placeholder: re.Match[str]) -> str:
        # Only random() gives the same numbers on every Python, so randrange() is not used.
        if placeholder[0] == "~":
            # 4 to 9 words.
            return sentence(rng, 4 + int(rng.random() * 6))
        # By the power 2, the first of the names are picked more often.
        return names[pick_rank(rng, STRETCH_NAMES, 2)]

    # Each turn makes one stretch.
    while size < POOL_BYTES:
        names = [_make_identifier(rng) for _ in range(STRETCH_NAMES)]
        end = len(lines) + STRETCH_LINES
        while len(lines) < end:
            # One function or paragraph.
            count = 1 + int(rng.random() * unit.most)
            others = [pick(rng, unit.others) for _ in range(count)]
            text = re.sub("[$~]", fill, "\n".join([unit.first, *others, unit.last, ""]))
            lines += text.encode("ascii").splitlines(keepends=True)
            size += len(text)
    return lines


@dataclass(slots=True, eq=False)
class Text:
    """A text made of a pool: the numbers of its lines, which take 4 bytes each, and its size in bytes.

    Only whole lines are added and removed. So all sizes to add or remove are approximate.
    """

    pool: Pool
    lines: array[int]
    size: int

    @classmethod
    def create(cls, rng: Random, pool: Pool, size: int) -> Text:
        text = cls(pool, array("I"), 0)
        text.replace(rng, 0, 0, max(size, SMALLEST_TEXT))
        return text

    def copy(self) -> Text:
        return Text(self.pool, self.lines[:], self.size)

    def content(self) -> bytes:
        return b"".join(map(self.pool.lines.__getitem__, self.lines))

    def replace(self, rng: Random, at: int, removed: int, added: int) -> None:
        """Replace a part of the text. `at` counts lines; `removed` and `added` count bytes.

        Behind the first `at` lines, remove lines with about `removed` bytes, and put lines of the pool with
        about `added` bytes there.
        """
        # The line behind the last one to remove.
        end = at
        old_size = self.size
        while old_size - self.size < removed and end < len(self.lines):
            self.size -= len(self.pool.lines[self.lines[end]])
            end += 1
        new = self.pool.draw(rng, added)
        self.size += self.pool.size(new)
        self.lines[at:end] = new

    def edit(self, rng: Random, churn: float, excess: float = 0.0) -> None:
        """Change the text as a commit does. It never becomes empty.

        - `churn` 0: a few hunks change at random places, as a person edits.
        - between 0 and 1: this share of the text is replaced, at CHURN_HUNKS places, as by a program.
        - from 1: all of the text is replaced, as for an image. `excess` has no effect then.

        With an `excess` above 0 (at most 1), the files of trunk are too large now, so the text becomes
        shorter, on average. With one below 0 (at least -1), they are too small, and it becomes longer.
        """
        if churn >= 1:
            # A new version of an image has about the size of the old one.
            self.replace(rng, 0, self.size, int(self.size * (0.95 + 0.1 * rng.random())))
            return
        if churn:
            # The text has CHURN_HUNKS (8) sections of equal length. In each section, a part is replaced. It
            # has `part` bytes: the share `churn` of the section.
            part = int(churn * self.size / CHURN_HUNKS)
            for number in range(CHURN_HUNKS):
                # `place` is where the part begins, as a share of the text: the section with number 2 is from
                # 0.25 to 0.375. With a churn of 0.4, the part begins at random in the first 60 % of the
                # section, so that it ends in the section, too.
                place = (number + (1 - churn) * rng.random()) / CHURN_HUNKS
                # replace() counts the place in lines, and both sizes in bytes.
                at = int(place * len(self.lines))
                # The new part is half as large (excess 1: files are too large) to 1.5 times as large (-1).
                self.replace(rng, at, part, int(part * (1 - 0.5 * excess)))
        else:
            # The edit of a person: a few hunks, each behind a random number of lines.
            for hunk in _draw_hunks(rng, self.size, excess):
                at = int(rng.random() * len(self.lines))
                self.replace(rng, at, hunk.removed, hunk.added)
        if not self.lines:
            self.replace(rng, 0, 0, SMALLEST_TEXT)

    def add_entry(self, rng: Random, limit: int) -> None:
        """Put an entry of a journal (a change log) in front. Beyond `limit` bytes, remove the older half."""
        self.replace(rng, 0, 0, profiles.JOURNAL_ENTRIES.draw(rng))
        if self.size > limit:
            del self.lines[len(self.lines) // 2 :]
            self.size = self.pool.size(self.lines)


class Hunk(NamedTuple):
    """The bytes that a change removes and adds at one place."""

    removed: int
    added: int


def _draw_hunks(rng: Random, size: int, excess: float) -> list[Hunk]:
    """Return the hunks of one change of a text with `size` bytes: random in number, kind and length.

    A hunk removes and adds bytes at one place. `excess` is from -1 to 1. Above 0, the files of trunk are too
    large now, so more bytes are removed. Below 0, more bytes are added.
    """
    # The shares of hunks that only add bytes, and that only remove bytes. All other hunks replace bytes.
    # PURE_ADDITIONS is the larger share, so texts grow. If files are too large, the shares are exchanged.
    additions, removals = profiles.PURE_ADDITIONS, profiles.PURE_REMOVALS
    if excess > 0:
        additions, removals = removals, additions
    hunks = []
    for _ in range(profiles.HUNKS.draw(rng)):
        changed = profiles.HUNK_BYTES.draw(rng)
        # One random number decides on the kind of the hunk.
        share = rng.random()
        if share < additions:
            hunks.append(Hunk(removed=0, added=changed))
        elif share < additions + removals:
            # At most a quarter, so that a large hunk does not empty a small file.
            hunks.append(Hunk(removed=min(changed, size // 4), added=0))
        else:
            # At random, the new bytes are 0.5 to 1.5 times as many as the old ones. This number is then
            # multiplied by 0.5 (excess 1) to 1.5 (excess -1).
            added = int(changed * (0.5 + rng.random()) * (1 - 0.5 * excess))
            hunks.append(Hunk(removed=min(changed, size // 2), added=added))
    return hunks
