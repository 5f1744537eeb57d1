"""FSFS's formats: their names, and what real repositories say of theirs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from vcsbench.axes.table import axis_of
from vcsbench.formats import (
    RELEASE_SETTINGS,
    RELEASES,
    FormatFile,
    effective_settings,
    has_memcached,
    parse_format,
    read_format,
    read_settings,
    upgrade_value,
)
from vcsbench.subjects import fsfs

needs_svnadmin = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")


def test_a_value_is_a_format_or_an_upgrade_of_one_to_a_newer() -> None:
    assert parse_format("f7") == ("f7", "f7", False) and not parse_format("f7").is_upgraded
    made = parse_format("f6-to-f8")
    assert made == ("f6", "f8", False) and made.is_upgraded and made.value == "f6-to-f8"
    assert parse_format("as-is").is_as_is and parse_format("as-is-to-f8") == ("as-is", "f8", False)
    assert (
        parse_format("f6-today") == ("f6", "f6", True)
        and parse_format("f6-today").loaded_as == "f6-today"
    )
    assert upgrade_value("f8", "f8") == "f8"


@pytest.mark.parametrize(
    "value",
    [
        *("f5", "f9", "f6-to-f5", "f8-to-f6", "f7-to-f7", "f6-f8", "own", "", "as-is-today"),
        *("f6-today-to-f8", "as-is-to-as-is", "as-is-to-f5"),
    ],
)
def test_nothing_else_is(value: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_format(value)
    assert "is no format; there are f1, f2, f3, f4, f6, f7, f8" in axis_of("format").why_invalid(
        value
    )


@needs_svnadmin
@pytest.mark.parametrize("fmt", RELEASES)
def test_each_is_made_and_says_so_and_an_upgrade_leaves_its_layout(
    fmt: str, tmp_path: Path
) -> None:
    path, made = tmp_path / "repository", parse_format(fmt)
    fsfs.create(path, fmt)
    shard = 1000 if made.is_sharded else 0
    assert read_format(path) == FormatFile(int(fmt[1]), shard, made.is_logical)
    assert fsfs.mismatch(path, fmt, "nopack") == ""
    fsfs.upgrade(path, made._replace(format="f8"))
    assert read_format(path)[1:] == (shard, made.is_logical)
    if fmt not in ("f7", "f8"):
        assert "it is of format f8, not of" in fsfs.mismatch(path, fmt, "nopack")
        assert "addressed physically" in fsfs.mismatch(path, "f8", "nopack")
        assert fsfs.mismatch(path, f"{fmt}-to-f8", "nopack") == ""


@needs_svnadmin
def test_a_fresh_repository_can_be_an_upgraded_one(tmp_path: Path) -> None:
    fsfs.create(tmp_path / "fresh", "f4-to-f8")
    assert read_format(tmp_path / "fresh") == FormatFile(8, 1000, False)
    info = subprocess.check_output(["svnadmin", "info", tmp_path / "fresh"], text=True)
    assert "Logical Addressing: no" in info


# Of the releases themselves, as their db/fsfs.conf documents them: 1.6, 1.8, 1.9 and 1.10.
@needs_svnadmin
@pytest.mark.parametrize(
    ("fmt", "expected"),
    [
        ("f4", {"enable-dir-deltification": "false", "max-linear-deltification": "1"}),
        (
            "f6",
            {
                "enable-dir-deltification": "false",
                "enable-props-deltification": "false",
                "max-deltification-walk": "1023",
                "max-linear-deltification": "16",
                "revprop-pack-size": "64",
                "compression": "zlib-5",
            },
        ),
        (
            "f7",
            {
                "enable-dir-deltification": "true",
                "enable-props-deltification": "true",
                "revprop-pack-size": "4",
                "compression": "zlib-5",
                "block-size": "64",
            },
        ),
        ("f8", {"compression": "lz4", "revprop-pack-size": "16", "l2p-page-size": "8192"}),
        ("f6-to-f8", {"compression": "lz4", "enable-dir-deltification": "true"}),
    ],
)
def test_create_writes_settings_of_the_release(
    fmt: str, expected: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "repository"
    fsfs.create(path, fmt)
    assert expected.items() <= read_settings(path).items()
    assert read_settings(path) == RELEASE_SETTINGS[parse_format(fmt).format]
    subprocess.run(["svn", "mkdir", "-q", "-m", "", f"{path.as_uri()}/trunk"], check=True)
    subprocess.run(["svnadmin", "verify", "-q", path], check=True)


@needs_svnadmin
def test_create_today_leaves_the_file_of_svnadmin(tmp_path: Path) -> None:
    fsfs.create(tmp_path / "ours", "f6-today")
    subprocess.run(
        ["svnadmin", "create", "--compatible-version", "1.8", tmp_path / "theirs"], check=True
    )
    ours, theirs = (tmp_path / name / "db/fsfs.conf" for name in ("ours", "theirs"))
    assert ours.read_bytes() == theirs.read_bytes() and read_settings(tmp_path / "ours") == {}
    assert effective_settings(tmp_path / "ours", 6)["enable-dir-deltification"] == "true"


def directories_as_deltas(path: Path) -> int:
    """Count the revisions with a directory or file stored as a delta of another, after 40 new folders."""
    for number in range(40):
        url = f"{path.as_uri()}/trunk/folder{number}"
        subprocess.run(["svn", "mkdir", "-q", "--parents", "-m", "", url], check=True)
    revs = path / "db" / "revs" / "0"
    return sum(b"DELTA " in file.read_bytes() for file in revs.iterdir())


@needs_svnadmin
def test_f6_stores_no_directory_as_delta_and_f6_today_does(tmp_path: Path) -> None:
    for fmt in ("f6", "f6-today"):
        fsfs.create(tmp_path / fmt, fmt)
    assert directories_as_deltas(tmp_path / "f6") == 0
    assert directories_as_deltas(tmp_path / "f6-today") > 10


@needs_svnadmin
def test_unlike_names_settings_of_another_release(tmp_path: Path) -> None:
    path = tmp_path / "old"
    subprocess.run(["svnadmin", "create", "--compatible-version", "1.8", path], check=True)
    assert "db/fsfs.conf has not the settings of f6" in fsfs.mismatch(path, "f6", "nopack")
    assert fsfs.mismatch(path, "f6-today", "nopack") == ""
    assert fsfs.mismatch(path, "as-is", "nopack") == ""


@pytest.mark.parametrize(
    ("text", "settings", "memcached"),
    [
        ("", {}, False),
        (
            "[deltification]\nENABLE-DIR-DELTIFICATION: no\n",
            {"enable-dir-deltification": "no"},
            False,
        ),
        (
            "[deltification]\ncompression-level = 9\n# compression = lz4\n",
            {"compression-level": "9"},
            False,
        ),
        (
            "[rep-sharing]\nenable-rep-sharing = false\n[rep-sharing]\n",
            {"enable-rep-sharing": "false"},
            False,
        ),
        ("[memcached-servers]\nfirst = 192.0.2.1:11211\n", {}, True),
        ("no section\n", {}, False),
        ("\0\xff", {}, False),
    ],
)
def test_read_settings_takes_any_text(
    text: str, settings: dict[str, str], memcached: bool, tmp_path: Path
) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "fsfs.conf").write_text(text, encoding="latin-1")
    assert read_settings(tmp_path) == settings
    assert has_memcached(tmp_path) == memcached
    if "compression-level" in settings:
        assert "compression" not in effective_settings(tmp_path, 8)
