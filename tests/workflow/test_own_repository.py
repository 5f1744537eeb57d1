"""A repository of a user in format 6: it is the baseline, and copies of it are upgraded."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from project import Project, needs
from vcsbench.config.validation import read_yaml
from vcsbench.formats import FormatFile, read_format

pytestmark = needs("svn", "svnadmin", "hyperfine")

STUDY = "own-repository"
PART = {"command": "log", "ra": "file", "config": "default", "cache": "hot-os"}


def times(path: Path) -> dict[str, int]:
    return {str(file): os.stat(file).st_ctime_ns for file in path.rglob("*")}


def test_own_repository_is_the_baseline_and_is_upgraded_in_a_copy(project: Project) -> None:
    own = project.path / "mine"
    subprocess.run(["svnadmin", "create", "--compatible-version", "1.8", own], check=True)
    for name in ("trunk", "trunk/a"):
        url = f"{own.as_uri()}/{name}"
        subprocess.run(["svn", "mkdir", "-q", "-m", name, url], check=True)
    before = times(own)
    studies = read_yaml(project.path / "config" / "config.yaml")["studies"]
    part = {**PART, "format": ["current", "upgraded", "f6"], "packing": "current"}
    keys = {"rounds": 1, "copies": 1, "grid": {STUDY: {"include": [part]}}, "studies": studies}
    project.configure(repository=str(own), **keys)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert len([path for path in project.exports() if "/mine/" in path]) == 3
    page = project.page(STUDY)
    assert (
        "mine is of format 6: a copy of it by `svnadmin hotcopy` (as-is) is the baseline." in page
    )
    assert "as-is: directory deltification on" in page and "f6: directory deltification off" in page
    assert "It has 0 full shards, 0 packed: nopack is the baseline." in page
    table = project.rows(f"tables/{STUDY}/own-vs-format.csv")
    pairs = {(row["baseline"], row["candidate"]) for row in table}
    # On a busy machine a run of some milliseconds may leave the table.
    assert pairs and pairs <= {("as-is", "as-is-to-f8"), ("as-is", "f6")}
    (copies,) = (project.path / "storage").glob("*/repositories")
    assert read_format(copies / "mine.as-is.nopack.1") == FormatFile(6, 1000, False)
    assert read_format(copies / "mine.as-is-to-f8.nopack.1") == FormatFile(8, 1000, False)
    for revision in (own / "db" / "revs" / "0").iterdir():
        for fmt in ("as-is", "as-is-to-f8"):
            copy = copies / f"mine.{fmt}.nopack.1" / "db" / "revs" / "0" / revision.name
            assert copy.read_bytes() == revision.read_bytes()
    contexts = (project.path / "results" / "cells" / STUDY).rglob("round1.context.json")
    (context,) = (path for path in contexts if "/mine/f6/" in str(path))
    settings = json.loads(context.read_text())["repository"]["fsfs_settings"]
    assert settings["enable-dir-deltification"] == "false"
    assert times(own) == before
