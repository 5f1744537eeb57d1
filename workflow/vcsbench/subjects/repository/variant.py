"""A repository as cells read it."""

from __future__ import annotations

from typing import NamedTuple


class Variant(NamedTuple):
    """A repository in one format, packed or not. `identity` is its source's (Source.identity)."""

    repo: str
    format: str
    packing: str
    identity: str

    @property
    def name(self) -> str:
        """The variant's name on a storage."""
        return f"{self.repo}.{self.format}.{self.packing}"
