"""FSFS's formats: their names, and what real repositories say of theirs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from vcsbench.axes import axis_of
from vcsbench.formats import RELEASES, Said, made_of, read_format, upgraded
from vcsbench.subjects.repository import fsfs, svnadmin

needs_svnadmin = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")


def test_a_value_is_a_format_or_an_upgrade_of_one_to_a_newer() -> None:
    assert made_of("f7") == ("f7", "f7") and not made_of("f7").is_upgraded
    made = made_of("f6-to-f8")
    assert made == ("f6", "f8") and made.is_upgraded and made.value == "f6-to-f8"
    assert upgraded("f8", "f8") == "f8"


@pytest.mark.parametrize(
    "value", ["f5", "f9", "f6-to-f5", "f8-to-f6", "f7-to-f7", "f6-f8", "own", ""]
)
def test_nothing_else_is(value: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        made_of(value)
    assert "is no format; there are f1, f2, f3, f4, f6, f7, f8" in axis_of("format").unfit(value)


@needs_svnadmin
@pytest.mark.parametrize("fmt", RELEASES)
def test_each_is_made_and_says_so_and_an_upgrade_leaves_its_layout(
    fmt: str, tmp_path: Path
) -> None:
    path, made = tmp_path / "repository", made_of(fmt)
    svnadmin.create(path, fmt)
    shard = 1000 if made.is_sharded else 0
    assert read_format(path) == Said(int(fmt[1]), shard, made.is_logical)
    assert fsfs.unlike(path, fmt, "nopack") == ""
    svnadmin.run("upgrade", path)
    assert read_format(path)[1:] == (shard, made.is_logical)
    if fmt not in ("f7", "f8"):
        assert "it is of format f8, not of" in fsfs.unlike(path, fmt, "nopack")
        assert "addressed physically" in fsfs.unlike(path, "f8", "nopack")
        assert fsfs.unlike(path, f"{fmt}-to-f8", "nopack") == ""


@needs_svnadmin
def test_a_fresh_repository_can_be_an_upgraded_one(tmp_path: Path) -> None:
    svnadmin.create(tmp_path / "fresh", "f4-to-f8")
    assert read_format(tmp_path / "fresh") == Said(8, 1000, False)
    info = subprocess.check_output(["svnadmin", "info", tmp_path / "fresh"], text=True)
    assert "Logical Addressing: no" in info
