"""A round of a cell: the template of its command, and the cache of discarded runs."""

import os
import time
from pathlib import Path

import pytest

from vcsbench.measure.cell_round import DISCARDED_RUN_S, DiscardedRun
from vcsbench.subjects import Subject

READ_BYTES = 4096


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("storage", "copy1", "copy2"):
        (tmp_path / name).mkdir()
    return {"argv": "{svn} log {url}", "stdin": "", "storage": {"path": str(tmp_path / "storage")}}


def cache_of(recipe, copy="copy1", **other):
    subject = Subject(recipe, 1, Path())
    subject.folders = [Path(recipe["storage"]["path"]).parent / copy]
    return DiscardedRun(recipe | other, subject)


def test_discarded_run_is_stored_per_command_and_copy(recipe):
    assert cache_of(recipe).read() is None
    cache_of(recipe).write(READ_BYTES)
    assert cache_of(recipe).read() == READ_BYTES
    for other in (
        cache_of(recipe, "copy2"),
        cache_of(recipe, argv="{svn} export {url}"),
        cache_of(recipe, "gone"),
        DiscardedRun(recipe, None),
    ):
        assert other.read() is None


def test_discarded_run_of_recreated_copy_or_truncated_file_is_unknown(recipe, tmp_path):
    cache = cache_of(recipe)
    cache.write(READ_BYTES)
    cache.file.write_bytes(b"")
    assert cache.read() is None
    cache.write(READ_BYTES)
    assert cache.read() == READ_BYTES
    (tmp_path / "copy1").rename(tmp_path / "old")
    (tmp_path / "copy1").mkdir()
    assert cache_of(recipe).read() is None


def test_discarded_run_expires_unless_renewed(recipe):
    cache = cache_of(recipe)
    cache.write(READ_BYTES)
    assert cache.file
    expired = time.time() - DISCARDED_RUN_S - 1
    os.utime(cache.file, (expired, expired))
    assert cache.read() is None
    cache.renew()
    assert cache.read() == READ_BYTES
    os.utime(cache.file, (expired, expired))
    cache_of(recipe, "copy2").write(READ_BYTES)
    assert not cache.file.exists()
