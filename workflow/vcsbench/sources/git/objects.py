"""Objects by name, from one `git cat-file --batch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vcsbench.errors import UserError
from vcsbench.sources.process import CHUNK, Program

# So few requests and answers' headers fit into a pipe: neither side waits for the other for ever.
REQUESTS = 256


class Content:
    """An object's content, to be read before the next object's."""

    def __init__(self, program: Program, size: int) -> None:
        self._program = program
        self.size = size
        self._left = size

    def chunks(self) -> Iterator[bytes]:
        """The content, piece by piece."""
        while self._left > 0:
            chunk = self._program.stdout.read(min(self._left, CHUNK))
            if not chunk:
                raise self._program.failed()
            self._left -= len(chunk)
            yield chunk

    def whole(self) -> bytes:
        """The content in one piece."""
        return b"".join(self.chunks())


class Objects:
    """Reads objects; requests are sent ahead of the answers."""

    def __init__(self, program: Program, where: str) -> None:
        self._program = program
        self.where = where

    def read(self, names: Sequence[bytes]) -> Iterator[Content]:
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
                content = self._answer(name)
                yield content
                for _ in content.chunks():
                    pass
                self._program.stdout.read(1)

    def whole(self, name: bytes) -> bytes:
        """One object's content."""
        for content in self.read([name]):
            text = content.whole()
        return text

    def _answer(self, name: bytes) -> Content:
        head = self._program.stdout.readline().split()
        if not head:
            raise self._program.failed()
        if len(head) != 3:
            raise UserError(
                f"{self.where}: the object {name.decode()} is missing: the clone is partial or "
                "damaged. Clone it again, without --filter."
            )
        return Content(self._program, int(head[2]))
