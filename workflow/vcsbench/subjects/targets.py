"""The subject `targets`: what several clients write at once, each its own."""

from __future__ import annotations

from vcsbench.subjects.subject import CLIENT, Words
from vcsbench.subjects.target import Target


class Targets(Target):
    """{target} is a client's own, in a folder that is made anew before each run."""

    def words(self) -> Words:
        """{target}, with the place of a client's number in it."""
        return {"target": lambda: str(self.path / CLIENT)}

    idle_words = words

    def restore(self) -> None:
        """Remove what the last run wrote."""
        super().restore()
        self.path.mkdir()


SUBJECT = Targets
