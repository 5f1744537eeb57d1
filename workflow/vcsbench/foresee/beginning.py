"""The first revisions of a history, as a source of its own."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

from vcsbench.sources import Estimate, Facts, Source
from vcsbench.sources.dump_format import REVISION
from vcsbench.sources.svn import has_folder

_NUMBER = re.compile(rb"^" + REVISION + rb": *(\d{1,18})", re.MULTILINE)
_LENGTH = re.compile(rb"^(Content|Prop-content|Text-content)-length: *(\d{1,18})", re.MULTILINE)
_END = b"\n\n"
# Lines between records that begin so are comments.
_BLANK = (b"\n", b" ", b"\t", b"\r")


class Beginning(Source):
    """What a source writes before its revision `last` + 1. `written_s` is how long it took to write
    them, and `waited_s` how much of that was spent waiting for whoever reads them."""

    def __init__(self, source: Source, last: int) -> None:
        self.kind = source.kind
        self.source = source
        self.last = last
        self.written_s = self.waited_s = 0.0

    def identity(self) -> str:
        """That of the whole."""
        return self.source.identity()

    def describe(self) -> str:
        """One line."""
        return f"the first {self.last} revisions of: {self.source.describe()}"

    @cached_property
    def _estimate(self) -> Estimate:
        """That of the whole, but for the revisions."""
        return replace(self.source.estimate(), revisions=self.last)

    def write(self, out: BinaryIO) -> Facts:
        """Write that much of the stream."""
        began = time.monotonic()
        cut = _Cut(out, self.last)
        try:
            return self.source.write(cast(Any, cut))
        except _Enough:
            out.flush()
            return Facts(revisions=self.last)
        finally:
            self.written_s, self.waited_s = time.monotonic() - began, cut.waited_s

    def tree(self, loaded: Path | None = None) -> str:
        """Return the whole history's tree if its beginning has it, otherwise the root."""
        tree = self.source.tree()
        return tree if loaded is None or has_folder(loaded, tree) else ""


class _Enough(Exception):
    """What is written from here on is not wanted."""


class _Cut:
    """Passes a dump stream on up to a revision."""

    def __init__(self, out: BinaryIO, last: int) -> None:
        self.waited_s = 0.0
        self._out = out
        self._last = last
        self._kept = b""  # the beginning of a record's headers
        self._content = 0  # what is left of a record's content
        self._revisions = 0

    def write(self, data: bytes) -> int:
        held = self._kept + data
        at = 0
        while True:
            passed = min(self._content, len(held) - at)
            at, self._content = at + passed, self._content - passed
            start = at
            while held.startswith(_BLANK, start) and (line := held.find(b"\n", start)) >= 0:
                start = line + 1
            end = held.find(_END, start)
            if self._content or end < 0:
                break
            headers = held[start:end]
            # A history may begin with any number: its revisions are counted.
            number = _NUMBER.search(headers)
            self._revisions += bool(number and int(number[1]))
            if number and self._revisions > self._last:
                self._pass_on(held[:at])
                raise _Enough
            lengths = {name: int(length) for name, length in _LENGTH.findall(headers)}
            whole = lengths.pop(b"Content", 0)
            self._content = whole or sum(lengths.values())
            at = end + len(_END)
        self._kept = held[at:]
        self._pass_on(held[:at])
        return len(data)

    def flush(self) -> None:
        """Pass on what is left."""
        self._pass_on(self._kept)
        self._kept = b""
        self._out.flush()

    def _pass_on(self, data: bytes) -> None:
        began = time.monotonic()
        self._out.write(data)
        self.waited_s += time.monotonic() - began
