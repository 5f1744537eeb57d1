"""Input from outside: limits, numbers, safe printing, and URLs as arguments of the real svn."""

import errno
import os
import re
import subprocess

import pytest

from fuzz import limits
from vcsbench import external
from vcsbench.errors import UserError, describe_fault, sentence_of
from vcsbench.files import write_bytes


def test_open_regular_follows_links_only_if_allowed(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert external.read_bytes(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="symbolic links"):
        external.open_regular(tmp_path / "link", follow_links=False)


def test_read_bytes_takes_the_memory_of_the_file_not_of_the_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    with limits(mib=64):
        assert external.read_bytes(tmp_path / "file", 1 << 30) == b"12345"
        os.truncate(tmp_path / "file", 1 << 29)
        with pytest.raises(UserError, match="larger than 5 bytes"):
            external.read_bytes(tmp_path / "file", 5)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone\x07", "\\x1b[2Jgone\\x07"),
        (b"\xff\x9b", "\\xff\\x9b"),
        ("a\u202eb", "a\\u202eb"),
        ("a\ud800b", "a\\ud800b"),
        ("x" * 401, "x" * 401),
        ("tab\tü\n", "tab\tü\n"),
    ],
)
def test_printable_and_one_line_escape_control_characters(text, shown):
    assert external.printable(text) == shown
    line = shown.replace("\n", "\\n").replace("\t", "\\t")
    assert external.one_line(text) == (line if len(line) <= 400 else line[:397] + "...")


@pytest.mark.parametrize("name", ["a@5", "50%2Foff", "sp ace", "ü", "q?#[]'\"", "back\\slash"])
def test_file_url_of_odd_names_opens_that_repository(tmp_path, name):
    repository = tmp_path / name
    subprocess.run(["svnadmin", "create", repository], check=True)
    url = external.pegged(external.file_url(repository))
    env = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    argv = ["svn", "info", "--show-item", "revision", url]
    assert subprocess.check_output(argv, env=env, text=True).strip() == "0"


PLAIN_URLS = ("https://host/a@5", "svn://host:3690", "svn://[::1]:3690/a@5", "file:///srv/a:b@5")
PLAIN_URLS += ("svn+ssh://bob@host/x", "http://host_1/a?b#c")
OTHER_URLS = ("svn://bob:secret@host/x", "https://bob@host:8080/x", "host/x", "bob:s@host:x")
OTHER_URLS += ("http://bob:p@ss@host", "svn://bob:se/cr@et@host/x", "https://", "a://host/")
OTHER_URLS += ("svn+ssh://bob:pw@host/x", "svn:/bob:secret@host", "https:\\\\bob:secret@host")
OTHER_URLS += ("http:///bob:secret@host", "https//bob:secret@host", "svn://host/a b")
OTHER_URLS += ("svn://host/a\nb",)


@pytest.mark.parametrize("url", [*PLAIN_URLS, *OTHER_URLS])
def test_is_plain_url_refuses_users_and_passwords(url):
    assert external.is_plain_url(url) == (url in PLAIN_URLS)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("target")])
def test_write_bytes_follows_no_pipe_or_link_at_its_temporary_name(tmp_path, make):
    make(tmp_path / ".file.new")
    with pytest.raises(OSError, match=r"/\.file\.new'$"):
        write_bytes(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []
    write_bytes(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.parametrize("name", [0, 11, None])
def test_sentence_of_an_error_without_a_name_has_the_place(name):
    error = OSError(errno.EPERM, "Operation not permitted", name)
    assert sentence_of(error, "the run").startswith("the run: Operation not permitted. Check ")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (MemoryError(), r"^Cannot allocate memory\. Free some memory"),
        (RuntimeError("can't start new thread"), r"^Resource .*ulimit -u"),
        (RuntimeError("other"), "fault of vcsbench"),
    ],
)
def test_describe_fault_of_a_limit_is_no_fault_of_vcsbench(error, remedy):
    with pytest.raises(type(error)) as caught:
        raise error
    assert re.search(remedy, describe_fault(caught.value))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *((b"0", 0), (b"007", 7), ("100", 100), (b"0" * 5000 + b"9", 9)),
        *((text, None) for text in (b"101", b"-1", b"1e2", b"", b"9" * 5000, "٣")),
    ],
)
def test_parse_number_accepts_only_decimals_up_to_limit(text, number):
    assert external.parse_number(text, 100) == number


@pytest.mark.parametrize(
    ("url", "end"),
    [
        *(("svn://host/trunk", ""), ("svn+ssh://user@host/trunk", ""), ("/a/path@2", "")),
        *(("svn://host/a%402", "@"), ("http://user@host/a@2/b", "@")),
    ],
)
def test_pegged_adds_at_sign_only_behind_urls_with_one_in_the_path(url, end):
    assert external.pegged(url) == url + end
