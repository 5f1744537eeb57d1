"""A small project for the tests that run the real workflow."""

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
    """A copy of the workflow with a test configuration, in folders that the servers' user can enter."""

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
        """Remove the tables of counts from all studies. Each takes a job in every report."""
        for path in (self.path / "config" / "studies").glob("*.yaml"):
            study = yaml.safe_load(path.read_text())
            tables = {n: t for n, t in study["tables"].items() if not metric_in(t).exact}
            featured = [name for name in study.get("featured_tables", []) if name in tables]
            study |= {"tables": tables, "featured_tables": featured}
            path.write_text(yaml.safe_dump(study, sort_keys=False))

    def configure(self, **keys: Any) -> None:
        """Lay keys over config/config.yaml. The defaults are no duplicates and one run per cell-round."""
        base = {
            "studies": ["fsfs-san-2014"],
            "storages": {"disk": str(self.path / "storage")},
            "scratch": str(self.path / "scratch"),
            "duplicates": 0,
            "runs": 1,
        }
        self.config.write_text(yaml.safe_dump({**base, **keys}, sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of Snakemake for this project."""
        return [
            *(sys.executable, "-m", "snakemake", "--cores", "2"),
            *arguments,
            *("--configfile", str(self.config)),
        ]

    def snakemake(
        self, *arguments: str, timeout: float = 900, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run Snakemake. `stdout` has both streams."""
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
        """Run Snakemake up to the measurements. Tables and report take longer than few cells."""
        return self.snakemake("measured", *arguments)

    def tool(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command-line tool with the project's configuration. `stdout` has both streams."""
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
        """Return the exports of all cells without fixed cost, and the time of each in ns."""
        cells = self.path / "results" / "cells"
        return {
            str(path.relative_to(cells)): path.stat().st_mtime_ns
            for path in cells.rglob("round*.json")
            if not path.name.endswith(".context.json") and "/empty/" not in str(path)
        }


def measurements_of(study: str) -> str:
    """Return the target that measures all cells of a study, without tables and report."""
    return f"results/measurements/{study}.csv"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip where one of the programs is missing."""
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def fill(folder: Path, left: int) -> Path:
    """Fill the disk of a folder up to this number of bytes, and return the large file."""
    disk = os.statvfs(folder)
    path = folder / "mine"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - left)
    return path


def make_project() -> Iterator[Project]:
    """Make a project below /var/tmp, which is no tmpfs and open to the servers' user."""
    with open_folder("/var/tmp") as path:
        yield Project(path)


@contextmanager
def open_folder(above: str) -> Iterator[Path]:
    """Create a folder that the servers' user can enter. The folders of pytest are closed to it."""
    path = Path(tempfile.mkdtemp(prefix="vcsbench-test-", dir=above))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def servers_of(project: Project) -> list[str]:
    """Return the command lines of running servers on the project's storage."""
    servers = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        program = line.partition("\0")[0]
        if program.endswith(("svnserve", "apache2", "httpd")) and str(project.path) in line:
            servers.append(line.replace("\0", " "))
    return servers
