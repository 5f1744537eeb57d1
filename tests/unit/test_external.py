import os

import pytest

from vcsbench.errors import UserError
from vcsbench.external import parse_number, printable, read_bytes


def test_read_bytes_regular_file_returns_content(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5) == b"12345"


def test_read_bytes_above_limit_raises(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"123456")
    with pytest.raises(UserError, match="larger than 5 bytes"):
        read_bytes(path, 5)


def test_read_bytes_pipe_raises_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        read_bytes(tmp_path / "pipe", 5)


def test_read_bytes_device_raises():
    with pytest.raises(UserError, match="not a regular file"):
        read_bytes("/dev/zero", 5)


def test_read_bytes_link_without_follow_links_raises(tmp_path):
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="symbolic links"):
        read_bytes(tmp_path / "link", 5, follow_links=False)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"0", 0),
        (b"007", 7),
        ("100", 100),
        (b"101", None),
        (b"-1", None),
        (b"1e2", None),
        (b"", None),
        (b"9" * 5000, None),
        (b"0" * 5000 + b"9", 9),
        ("٣", None),
    ],
)
def test_parse_number_accepts_only_decimals_up_to_limit(text, number):
    assert parse_number(text, 100) == number


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü\n", "plain ü\n"),
        ("\x1b[2Jgone\x07", "\\x1b[2Jgone\\x07"),
        (b"\xff\x9b", "\\xff\\x9b"),
        ("a\u202eb", "a\\u202eb"),
        (os.fsdecode(b"name\xff"), "name\\xff"),
    ],
)
def test_printable_escapes_control_characters(text, shown):
    assert printable(text) == shown


def test_printable_half_a_character_is_escaped() -> None:
    assert printable("a\ud800b") == "a\\ud800b"
