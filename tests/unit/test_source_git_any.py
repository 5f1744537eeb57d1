"""Any git history keeps its trees: small random ones, converted and compared."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from git_histories import (
    EXECUTABLE,
    FILE,
    SUBMODULE,
    SYMLINK,
    Commit,
    converted,
    log,
)
from vcsbench.sources.dump_format import subversion_path

pytestmark = pytest.mark.skipif(
    not (shutil.which("svnadmin") and shutil.which("git")), reason="not installed: svnadmin or git"
)


# Few names, so that files, directories and symlinks often take each other's place.
names = st.sampled_from([b"a", b"b", b"a b", b"\xc3\xa9", b"\x01", b"\xff", b"?\\001", b"%41"])
paths = st.lists(names, min_size=1, max_size=3).map(b"/".join)
contents = st.one_of(st.binary(max_size=40), st.sampled_from([b"same", b"link same", b"a\n"]))
nodes = st.one_of(
    st.none(),
    st.tuples(st.sampled_from([FILE, EXECUTABLE]), contents),
    st.tuples(st.just(SYMLINK), st.sampled_from([b"a", b"../b", b"same"])),
    st.tuples(st.just(SUBMODULE), st.sampled_from([b"1" * 40, b"2" * 40])),
)
commits = st.builds(
    Commit,
    nodes=st.dictionaries(paths, nodes, max_size=6),
    message=st.binary(max_size=20),
    seconds=st.integers(0, 2**33),
    encoding=st.sampled_from(["", "ISO-8859-1", "UTF-16", "utf-8", "hex", "idna"]),
    author=st.sampled_from([b"A. U. Thor", b"\xff", b""]),
)
histories = st.lists(commits, min_size=1, max_size=5)
QUICKLY = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


def check_history(history: list[Commit]) -> None:
    """Convert and compare; what svn log prints must be valid XML."""
    with tempfile.TemporaryDirectory() as folder:
        converted(Path(folder), *history)
        assert len(log(Path(folder) / "svn")) == len(history) + 1


@given(histories)
@settings(QUICKLY, max_examples=12, phases=[Phase.generate])  # shrinking would take minutes
def test_any_history_keeps_its_trees(history: list[Commit]) -> None:
    check_history(history)


@pytest.mark.slow
@given(histories)
@settings(QUICKLY, max_examples=200)
def test_any_of_many_histories_keeps_its_trees(history: list[Commit]) -> None:
    check_history(history)


@given(st.lists(st.binary(max_size=12).filter(lambda name: b"/" not in name), max_size=8))
def test_two_names_never_become_one(found: list[bytes]) -> None:
    escaped = [subversion_path(name) for name in found]
    assert len(set(escaped)) == len(set(found))
    for name in escaped:
        assert name.decode("utf-8").isprintable() or not any(
            byte < 32 or byte == 127 for byte in name
        )
