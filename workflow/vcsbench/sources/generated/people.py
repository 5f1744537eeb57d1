"""Authors, dates and log messages of generated revisions."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from vcsbench.sources import dumpstream
from vcsbench.sources.generated import measured
from vcsbench.sources.generated.profile import Profile
from vcsbench.sources.generated.quantiles import ranked
from vcsbench.sources.generated.words import made_up, sentence

# With the third power the first of 91 authors has 22 percent of the revisions, the first five
# 38; measured were 24 and 53 in ruby, 10 and 36 among subversion's 173, where it gives 18 and 31.
AUTHORS_POWER = 3


class People:
    """Who commits, when, and what they say about it."""

    def __init__(self, rng: Random, profile: Profile) -> None:
        self._rng = rng
        self._messages = profile.message_bytes
        self._authors = [made_up(rng, 2 + i % 2).encode("ascii") for i in range(profile.authors)]
        whole = profile.last_date - profile.first_date
        # Pauses are ruby's, drawn out so that the last revision gets the profile's last date.
        self._pause = whole.total_seconds() / profile.revisions / measured.GAPS.mean()
        self._date = profile.first_date

    def revision_0(self) -> dict[bytes, bytes]:
        """The properties of revision 0."""
        return {b"svn:date": dumpstream.date(self._date)}

    def properties(self) -> dict[bytes, bytes]:
        """The properties of the next revision."""
        rng = self._rng
        pause = 1 + int(1e6 * self._pause * measured.GAPS.value(rng))
        self._date += timedelta(microseconds=pause)
        return {
            b"svn:log": self._message(),
            b"svn:author": self._authors[ranked(rng, len(self._authors), AUTHORS_POWER)],
            b"svn:date": dumpstream.date(self._date),
        }

    def _message(self) -> bytes:
        rng = self._rng
        room = self._messages.draw(rng)
        lines: list[str] = []
        while room > 0:
            # A word and its space are some six bytes.
            words = 1 + min(room // 6, 5 + int(rng.random() * 6))
            lines.append(sentence(rng, words))
            room -= len(lines[-1]) + 1
        return "\n".join(lines).encode("ascii")
