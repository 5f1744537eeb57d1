"""Write URLs for Subversion's clients, and remove passwords from URLs."""

from __future__ import annotations

import os
import re
import urllib.parse
from pathlib import Path

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# A user and a password before the host. A password may contain an unquoted @: the last @ ends it.
_USERINFO = re.compile(r"(?<=://)[^/\s\"'<>]*@")


def file_url(path: str | Path, below: str = "") -> str:
    """Return the file:// URL of a path; `below` is a quoted path inside the repository."""
    url = f"file://{urllib.parse.quote(os.fsencode(os.path.abspath(path)))}"
    return f"{url}/{below}".rstrip("/")


def pegged(url: str) -> str:
    """Return a URL as an argument of svn, with an @ at the end if its path has one.

    Otherwise svn reads the text behind the last @ as a revision. svnrdump and svnmucc accept no @ at the end.
    Text that is no URL does not change.
    """
    if not _URL.match(url):
        return url
    _, _, path = url.partition("://")[2].partition("/")
    return f"{url}@" if "@" in urllib.parse.unquote(path) else url


def split_credentials(url: str) -> tuple[str, str, str]:
    """Return a URL without its user and password, the user or "", and the password or "".

    The user of svn+ssh:// stays in the URL: ssh reads the name there.
    """
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    userinfo, at, host = authority.rpartition("@")
    if not mark or not at:
        return url, "", ""
    user, _, password = map(urllib.parse.unquote, userinfo.partition(":"))
    if scheme == "svn+ssh":
        return f"{scheme}://{urllib.parse.quote(user)}@{host}{slash}{path}", "", ""
    return f"{scheme}://{host}{slash}{path}", user, password


def without_password(text: str) -> str:
    """Return text with the user and the password of every URL replaced by three dots."""
    return _USERINFO.sub("...@", text)
