"""Objects by name, from one `git cat-file --batch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vcsbench.errors import UserError
from vcsbench.sources.process import Program

# So few requests fit into a pipe, so that neither side waits for the other for ever.
REQUESTS = 256


class Objects:
    """Reads objects; requests are sent ahead of the answers."""

    def __init__(self, program: Program, where: str) -> None:
        self._program = program
        self._where = where

    def read(self, names: Sequence[bytes]) -> Iterator[bytes]:
        """The contents of the objects, in order."""
        requests = self._program.process.stdin
        assert requests is not None
        for start in range(0, len(names), REQUESTS):
            part = names[start : start + REQUESTS]
            try:
                requests.write(b"".join(name + b"\n" for name in part))
                requests.flush()
            except BrokenPipeError:
                raise self._program.failed() from None
            for name in part:
                yield self._answer(name)

    def _answer(self, name: bytes) -> bytes:
        answers = self._program.stdout
        head = answers.readline().split()
        if len(head) != 3:
            if not head:
                raise self._program.failed()
            raise UserError(
                f"{self._where}: the object {name.decode()} is missing: the clone is partial or "
                "damaged; clone it again, without --filter"
            )
        content = answers.read(int(head[2]))
        answers.read(1)
        return content
