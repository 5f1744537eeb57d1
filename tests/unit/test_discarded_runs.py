"""The stored bytes of discarded cold runs."""

import os
import time
from pathlib import Path

import pytest

from vcsbench.measure.discarded_run import DISCARDED_RUN_S, DiscardedRun
from vcsbench.subjects import Subject

READ_BYTES = 4096


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("storage", "copy1", "copy2"):
        (tmp_path / name).mkdir()
    storage = {"path": str(tmp_path / "storage")}
    return {"argv": "{svn} log {url}", "stdin": "", "axes": {}, "storage": storage}


def cache_of(recipe, copy="copy1", **other):
    subject = Subject(recipe, 1, Path(), Path.cwd())
    subject.folders = [Path(recipe["storage"]["path"]).parent / copy]
    return DiscardedRun(recipe | other, subject, Path.cwd())


def test_discarded_run_is_stored_per_command_and_copy_until_it_expires(recipe, tmp_path):
    cache = cache_of(recipe)
    assert cache.read() is None
    cache.write(READ_BYTES)
    assert cache_of(recipe).read() == READ_BYTES
    others = (cache_of(recipe, "copy2"), cache_of(recipe, argv="{svn} export {url}"))
    for other in (*others, cache_of(recipe, "gone"), DiscardedRun(recipe, None, Path.cwd())):
        assert other.read() is None
    cache.file.write_bytes(b"")
    assert cache.read() is None
    cache.write(READ_BYTES)
    expired = time.time() - DISCARDED_RUN_S - 1
    os.utime(cache.file, (expired, expired))
    assert cache.read() is None
    cache.renew()
    assert cache.read() == READ_BYTES
    (tmp_path / "copy1").rename(tmp_path / "old")
    (tmp_path / "copy1").mkdir()
    assert cache_of(recipe).read() is None


@pytest.mark.parametrize(
    ("other", "read_bytes"),
    [
        ({"program": "rename"}, None),
        ({"axes": {"level": "2", "access": "svn"}}, None),
        ({"revisions_behind": 100}, None),
        # The template does not have this axis: the command reads the same files over each access.
        ({"axes": {"level": "1", "access": "http"}}, READ_BYTES),
    ],
)
def test_discarded_run_counts_for_the_same_command_only(recipe, other, read_bytes):
    recipe["argv"] = "{program} --level={level} {source}"
    recipe["program"] = "copytree"
    recipe["axes"] = {"level": "1", "access": "svn"}
    cache_of(recipe).write(READ_BYTES)
    assert cache_of(recipe, **other).read() == read_bytes
