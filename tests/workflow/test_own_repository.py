"""A repository of format 6, as a user brings it: what the real workflow finds out, makes and measures."""

from __future__ import annotations

import csv
import os
import subprocess
from pathlib import Path

import yaml

from project import Project, needs
from vcsbench.config.validation import read_yaml
from vcsbench.formats import Said, read_format

pytestmark = needs("svn", "svnadmin", "hyperfine")

STUDY = "own-repository"
PART = {"command": "log", "ra": "file", "config": "default", "cache": "hot-os"}


def times(path: Path) -> dict[str, int]:
    return {str(file): os.stat(file).st_ctime_ns for file in path.rglob("*")}


def keep_one_table(project: Project) -> None:
    """Each takes a job."""
    file = project.path / "config" / "studies" / f"{STUDY}.yaml"
    study = read_yaml(file)
    study["tables"] = {"own-vs-format": study["tables"]["own-vs-format"]}
    file.write_text(yaml.safe_dump(study, sort_keys=False))


def test_it_is_the_baseline_and_is_upgraded_in_a_copy(project: Project) -> None:
    own = project.path / "mine"
    subprocess.run(["svnadmin", "create", "--compatible-version", "1.8", own], check=True)
    for name in ("trunk", "trunk/a"):
        url = f"{own.as_uri()}/{name}"
        subprocess.run(["svn", "mkdir", "-q", "-m", name, url], check=True)
    before = times(own)
    keep_one_table(project)
    studies = read_yaml(project.path / "config" / "config.yaml")["studies"]
    part = {**PART, "format": ["own", "upgraded"], "packing": "own"}
    keys = {"rounds": 1, "copies": 1, "grid": {STUDY: {"include": [part]}}, "studies": studies}
    project.configure(repository=str(own), **keys)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert len(project.exports()) == 2
    page = (project.path / "reports" / f"{STUDY}.html").read_text()
    assert "mine is of format 6: f6 is the baseline. f6-to-f8 is that, upgraded in place" in page
    assert "It has 0 full shards, 0 packed: nopack is the baseline." in page
    with (project.path / "results" / "tables" / STUDY / "own-vs-format.csv").open() as file:
        assert [(r["baseline"], r["candidate"]) for r in csv.DictReader(file)] == [
            ("f6", "f6-to-f8")
        ]
    (copies,) = (project.path / "storage").glob("*/repositories")
    assert read_format(copies / "mine.f6.nopack.1") == Said(6, 1000, False)
    assert read_format(copies / "mine.f6-to-f8.nopack.1") == Said(8, 1000, False)
    assert times(own) == before
