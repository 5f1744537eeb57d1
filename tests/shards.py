"""Repositories with small shards, so that a few revisions can be packed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vcsbench.systems import fsfs


def set_shard_size(path: Path, size: int) -> None:
    """Set the shard size of an empty repository, in revisions."""
    file = path / "db" / "format"
    text = file.read_text().replace("layout sharded 1000", f"layout sharded {size}")
    file.chmod(0o644)
    file.write_text(text)


@contextmanager
def small_shards(size: int = 10) -> Iterator[None]:
    """Let vcsbench create repositories with this shard size."""
    create = fsfs.create

    def created(path: Path, fmt: str) -> None:
        create(path, fmt)
        set_shard_size(path, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsfs, "create", created)
        yield
