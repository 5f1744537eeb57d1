"""URLs as arguments of Subversion's clients, tried with the real svn."""

from __future__ import annotations

import subprocess

import pytest

from vcsbench.urls import file_url, pegged, without_password


@pytest.mark.parametrize(
    "name", ["plain", "a@5", "50%2Foff", "sp ace", "ü", "q?#[]'\"", "back\\slash"]
)
def test_file_url_of_odd_names_opens_that_repository(tmp_path, name):
    repository = tmp_path / name
    subprocess.run(["svnadmin", "create", repository], check=True)
    url = pegged(file_url(repository))
    said = subprocess.run(
        ["svn", "info", "--show-item", "revision", url],
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stdout.strip()) == (0, "0"), said.stderr


@pytest.mark.parametrize(
    ("url", "argument"),
    [
        ("svn://host/trunk", "svn://host/trunk"),
        ("svn+ssh://user@host/trunk", "svn+ssh://user@host/trunk"),
        ("svn://host/a%402", "svn://host/a%402@"),
        ("http://user@host/a@2/b", "http://user@host/a@2/b@"),
        ("/a/path@2", "/a/path@2"),
    ],
)
def test_pegged_adds_at_sign_only_behind_urls_with_one_in_the_path(url, argument):
    assert pegged(url) == argument


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("svn://bob:secret@host/x", "svn://...@host/x"),
        ("https://bob@host:8080/x", "https://...@host:8080/x"),
        ("http://bob:p@ss@host", "http://...@host"),
        ("see http://a:b@c/d and svn+ssh://e:f@g/h.", "see http://...@c/d and svn+ssh://...@g/h."),
        ("http://host/a@5", "http://host/a@5"),
        ("file:///srv/a@5", "file:///srv/a@5"),
        ("nobody@example.org", "nobody@example.org"),
    ],
)
def test_without_password_keeps_all_but_user_and_password(text, safe):
    assert without_password(text) == safe
