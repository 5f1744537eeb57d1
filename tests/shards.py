"""Repositories with small shards, so that one of a few revisions has something to pack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vcsbench.subjects import fsfs


def set_shard_size(path: Path, size: int) -> None:
    """Give a repository that was just created shards of so many revisions."""
    said = path / "db" / "format"
    text = said.read_text().replace("layout sharded 1000", f"layout sharded {size}")
    said.chmod(0o644)
    said.write_text(text)


@contextmanager
def small_shards(size: int = 10) -> Iterator[None]:
    """While it lasts, vcsbench creates repositories with shards of so many revisions."""
    create = fsfs.create

    def created(path: Path, fmt: str) -> None:
        create(path, fmt)
        set_shard_size(path, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsfs, "create", created)
        yield
