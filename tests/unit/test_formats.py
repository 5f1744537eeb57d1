"""Formats of FSFS: their values, and the formats and settings of real repositories."""

import re
import subprocess

import pytest

from project import needs
from vcsbench import formats
from vcsbench.axes import axis_of
from vcsbench.systems import fsfs

needs_svnadmin = needs("svnadmin")


@pytest.mark.parametrize(
    "value",
    [
        *("f5", "f8-to-f6", "f7-to-f7", "f6-f8", "own", "", "as-is-today"),
        *("f6-today-to-f8", "as-is-to-as-is", "as-is-to-f5"),
    ],
)
def test_parse_format_invalid_is_refused(value):
    with pytest.raises(ValueError, match="is no"):
        formats.parse_format(value)
    known = re.findall(r"\bf\d\b(?!-)", axis_of("format").why_invalid(value))
    assert {*known} >= {*formats.RELEASES}


@needs_svnadmin
@pytest.mark.parametrize("fmt", formats.RELEASES)
def test_upgrade_keeps_layout_and_addressing(fmt, tmp_path):
    path, release = tmp_path / "repository", formats.parse_format(fmt)
    fsfs.create(path, fmt)
    shard = 1000 if release.is_sharded else 0
    assert formats.read_shape(path)[:3] == (int(fmt[1]), shard, release.is_logical)
    assert fsfs.mismatch(path, fmt, "nopack") == ""
    fsfs.upgrade(path, release._replace(format="f8"))
    assert formats.read_shape(path)[1:3] == (shard, release.is_logical)
    info = subprocess.check_output(["svnadmin", "info", path], text=True)
    assert ("Logical Addressing: yes" in info) is release.is_logical
    if fmt not in ("f7", "f8"):
        assert "format f8" in fsfs.mismatch(path, fmt, "nopack")
        assert "addressed physically" in fsfs.mismatch(path, "f8", "nopack")
        assert fsfs.mismatch(path, f"{fmt}-to-f8", "nopack") == ""


# Some options of db/fsfs.conf of the releases 1.6, 1.8, 1.9 and 1.10.
PLAIN = {"enable-dir-deltification": "false"}
SETTINGS = {
    "f4": {**PLAIN, "max-linear-deltification": "1"},
    "f6": {**PLAIN, "compression": "zlib-5", "max-deltification-walk": "1023"},
    "f7": {"enable-dir-deltification": "true", "revprop-pack-size": "4", "block-size": "64"},
    "f8": {"compression": "lz4", "revprop-pack-size": "16", "l2p-page-size": "8192"},
    "f6-to-f8": {"compression": "lz4", "enable-dir-deltification": "true"},
}


@needs_svnadmin
@pytest.mark.parametrize("fmt", SETTINGS)
def test_create_writes_settings_of_the_release(fmt, tmp_path):
    path = tmp_path / "repository"
    fsfs.create(path, fmt)
    assert SETTINGS[fmt].items() <= formats.read_settings(path).items()
    assert formats.read_settings(path) == formats.RELEASE_SETTINGS[formats.parse_format(fmt).format]
    subprocess.run(["svn", "mkdir", "-q", "-m", "", f"{path.as_uri()}/trunk"], check=True)
    subprocess.run(["svnadmin", "verify", "-q", path], check=True)


@needs_svnadmin
def test_create_today_leaves_the_file_of_svnadmin(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    fsfs.create(ours, "f6-today")
    subprocess.run(["svnadmin", "create", "--compatible-version", "1.8", theirs], check=True)
    assert (ours / "db/fsfs.conf").read_bytes() == (theirs / "db/fsfs.conf").read_bytes()
    assert formats.read_settings(ours) == {}
    assert formats.effective_settings(ours, 6)["enable-dir-deltification"] == "true"
    assert "db/fsfs.conf" in fsfs.mismatch(theirs, "f6", "nopack")
    for fmt in ("f6-today", "as-is"):
        assert fsfs.mismatch(theirs, fmt, "nopack") == ""


SHARING_OFF = {"enable-rep-sharing": "false"}
LEVEL = "[deltification]\ncompression-level = 9\n# compression = lz4\n"


@pytest.mark.parametrize(
    ("text", "settings", "memcached"),
    [
        ("[deltification]\nENABLE-DIR-DELTIFICATION: false\n", PLAIN, False),
        (LEVEL, {"compression-level": "9"}, False),
        ("\xef\xbb\xbf[MEMCACHED-Servers]\nFirst = 192.0.2.1:11211\n", {}, True),
        ("[Rep-Sharing]\nenable-rep-sharing = false\n[REP-SHARING]\n", SHARING_OFF, False),
        ("\0\xff", {}, False),
    ],
)
def test_read_settings_takes_any_text(text, settings, memcached, tmp_path):
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "fsfs.conf").write_text(text, encoding="latin-1")
    assert formats.read_settings(tmp_path) == settings
    assert formats.has_memcached(tmp_path) == memcached
    if "compression-level" in settings:
        assert "compression" not in formats.effective_settings(tmp_path, 8)
