"""A disk that is full while measuring: one sentence, the run ends, and what stays is right."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from project import Project, needs

pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(os.geteuid() != 0, reason="takes root to mount a file system"),
]

STUDY = "fsfs-san-2014"
PART = {"command": "log", "ra": "svn", "format": "f7", "packing": "nopack", "config": "slow"}
RUBY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}}


@pytest.fixture
def small(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small disk for what a measurement writes of its own."""
    path = project.path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", path], check=True)
    project.configure(repositories=RUBY, rounds=2, copies=1, grid={STUDY: {"include": [PART]}})
    assert project.snakemake("results/repositories/disk.json").returncode == 0
    monkeypatch.setenv("TMPDIR", str(path))
    yield path
    subprocess.run(["umount", path], check=True)


def test_a_full_disk_ends_the_run_with_one_sentence(project: Project, small: Path) -> None:
    fill = ["dd", "if=/dev/zero", f"of={small / 'mine'}", "bs=4k", "count=255"]
    subprocess.run(fill, stderr=subprocess.DEVNULL, check=True)
    done = project.snakemake()
    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    assert "No space left on device; the run ends here: free some space" in done.stdout
    assert done.stdout.count("Error in rule cell:") == 1, "no other cell is tried"
    assert project.exports() == {}
    (small / "mine").unlink()
    again = project.snakemake()
    assert again.returncode == 0 and len(project.exports()) == 6, again.stdout
    assert not list(small.glob("vcsbench-*"))
