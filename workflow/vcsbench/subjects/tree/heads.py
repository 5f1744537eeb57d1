"""Youngest trees, taken from where their sources have them (Source.head), without any history."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.files import ADMINISTRATIVE
from vcsbench.subjects.tree.stores.store import copy
from vcsbench.subjects.working_copy import client
from vcsbench.urls import pegged

# Where the package lies.
WORKFLOW = str(Path(__file__).parents[3])


def take(head: Mapping[str, Any], path: Path, work_in: Path, svn: str) -> list[str]:
    """Put the tree of a head at `path`, where nothing is, and return notes on what was renamed or left out.

    `work_in` is a private folder next to it, `svn` the client.
    """
    return KINDS[head["kind"]](head, path, work_in, svn) or []


def _directory(head: Mapping[str, Any], path: Path, _work_in: Path, _svn: str) -> None:
    copy(Path(head["path"]), path, ADMINISTRATIVE)


def _archive(head: Mapping[str, Any], path: Path, work_in: Path, _svn: str) -> None:
    # How it is unpacked is no part of what is measured, and so no part of this code.
    words = [sys.executable, "-m", "vcsbench.sources", "archive", head["path"], str(work_in)]
    Path(_said(words, {"PYTHONPATH": WORKFLOW})).rename(path)


def _git(head: Mapping[str, Any], path: Path, _work_in: Path, _svn: str) -> list[str]:
    """Write the files of a commit, byte by byte as the commit has them."""
    # The code of the source is no part of what is measured: it runs on its own.
    words = [
        sys.executable,
        "-m",
        "vcsbench.sources",
        "git",
        head["path"],
        head["commit"],
        str(path),
    ]
    return _said(words, {"PYTHONPATH": WORKFLOW}).splitlines()


def _svn(head: Mapping[str, Any], path: Path, _work_in: Path, svn: str) -> None:
    at = [f"-r{head['revision']}"] if head["revision"] else []
    tree = head["tree"]
    if tree is None:
        tree = (
            "trunk"
            if "trunk/"
            in client.run(svn, "list", *at, pegged(head["url"]), user_settings=True).split("\n")
            else ""
        )
    url = f"{head['url']}/{urllib.parse.quote(tree)}".rstrip("/")
    client.run(
        svn, "export", "-q", "--ignore-externals", *at, pegged(url), path, user_settings=True
    )


KINDS = {"directory": _directory, "archive": _archive, "git": _git, "svn": _svn}


def _said(words: list[str], own: Mapping[str, str]) -> str:
    """What a program prints; a UserError with its last words where it fails."""
    done = subprocess.run(words, env={**os.environ, **own}, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise UserError(
            last[0] if words[0] == sys.executable else f"{' '.join(words[:3])}: {last[0]}"
        )
    return done.stdout
