"""A small project of its own for the tests that run the real workflow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcsbench.metrics import metric_in

ROOT = Path(__file__).parent.parent
PARTS = ("Snakefile", "config", "envs", "profiles", "vcsbench", "workflow")


class Project:
    """A copy of the workflow with a configuration of its own, in folders that the servers' user can enter."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for part in PARTS:
            source = ROOT / part
            copy: Callable[..., Any] = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, path / part)
        for folder in ("storage", "scratch"):
            (path / folder).mkdir()
        self.config = path / "test.yaml"

    def leave_out_counts(self) -> None:
        """Do without the tables of what is counted: each takes a job in every report."""
        for path in (self.path / "config" / "studies").glob("*.yaml"):
            study = yaml.safe_load(path.read_text())
            study["tables"] = {
                name: table for name, table in study["tables"].items() if not metric_in(table).exact
            }
            study["featured_tables"] = [
                name for name in study.get("featured_tables", []) if name in study["tables"]
            ]
            path.write_text(yaml.safe_dump(study, sort_keys=False))

    def configure(self, **keys: Any) -> None:
        """Lay keys over config/config.yaml; without twins, and with one run in a cell-round, unless `keys`
        wants more."""
        base = {
            "studies": ["fsfs-san-2014"],
            "storages": {"disk": str(self.path / "storage")},
            "scratch": str(self.path / "scratch"),
            "duplicates": 0,
            "runs": 1,
        }
        self.config.write_text(yaml.safe_dump({**base, **keys}, sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        """Snakemake's command line for this project."""
        return [
            *(sys.executable, "-m", "snakemake", "--cores", "2"),
            *arguments,
            *("--configfile", str(self.config)),
        ]

    def snakemake(
        self, *arguments: str, timeout: float = 900, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run Snakemake with this in its environment; what it said is in `stdout`."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            env={**os.environ, **(environment or {})},
        )

    def measure(self, study: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake up to a study's measurements: its tables and its report, which take longer than a
        small project's cells, are left out."""
        return self.snakemake("measured", *arguments)

    def tool(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command-line tool with the project's configuration; stdout has both streams."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["./vcsbench", *arguments, "--configfile", str(self.config)],
            cwd=self.path,
            env={**os.environ, "PATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )

    def exports(self) -> dict[str, int]:
        """Return the exports of all cells and when each was written, without those of fixed cost."""
        cells = self.path / "results" / "cells"
        return {
            str(path.relative_to(cells)): path.stat().st_mtime_ns
            for path in cells.rglob("round*.json")
            if not path.name.endswith(".context.json") and "/empty/" not in str(path)
        }


def measurements_of(study: str) -> str:
    """The target that measures all cells of a study, and makes no table and no report."""
    return f"results/measurements/{study}.csv"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip where one of the programs is missing."""
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def fill(folder: Path, left: int) -> Path:
    """Take all of a folder's disk but so many bytes; the file that does."""
    there = os.statvfs(folder)
    hog = folder / "mine"
    with hog.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, there.f_bavail * there.f_frsize - left)
    return hog


def make_project() -> Iterator[Project]:
    """Make a project below /var/tmp, which is no tmpfs and open to the servers' user."""
    with open_folder("/var/tmp") as path:
        yield Project(path)


@contextmanager
def open_folder(above: str) -> Iterator[Path]:
    """A folder that the servers' user can enter: pytest's own may be entered by its owner only."""
    path = Path(tempfile.mkdtemp(prefix="vcsbench-test-", dir=above))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def servers_of(project: Project) -> list[str]:
    """The command lines of running servers that serve from the project's storage."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(str(project.path) in word for word in words) and (
                words[0].endswith(("svnserve", "apache2", "httpd"))
            ):
                found.append(" ".join(words))
    return found
