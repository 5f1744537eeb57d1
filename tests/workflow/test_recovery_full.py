"""A disk that is full while measuring: one sentence, the run ends, and what stays is right."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from project import Project, fill, measurements_of, needs
from vcsbench.plan.result_state import measured_recipe

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
    mine = fill(small, 4096)
    done = project.measure(STUDY)
    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    assert "No space left on device" in done.stdout
    assert project.exports() == {}
    mine.unlink()
    again = project.measure(STUDY)
    assert again.returncode == 0 and len(project.exports()) == 6, again.stdout
    assert not list(small.glob("vcsbench-*"))


@pytest.fixture
def disk(project: Project) -> Iterator[Path]:
    """A small disk of the user's."""
    path = project.path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=755", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


def report(project: Project, *targets: str) -> subprocess.CompletedProcess[str]:
    """What `make report` runs; without its report if there are targets."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [project.path / "vcsbench", "run", *project.command(*targets)[3:]],
        cwd=project.path,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


def halves(project: Project) -> list[Path]:
    """Exports and contexts that are no pair of a whole result, and files that were only begun."""
    cells = project.path / "results/cells"
    found = [
        p
        for p in cells.rglob("*.json")
        if measured_recipe(str(p).replace(".context.json", ".json")) is None
    ]
    return [*found, *(project.path / "results").rglob(".*.new")]


# What is left of the disk: nothing, and so little that the run begins and does not end.
@pytest.mark.parametrize("leave", [pytest.param(8192, marks=pytest.mark.slow), 300_000])
def test_results_on_a_disk_that_is_full(project: Project, disk: Path, leave: int) -> None:
    (disk / "results").mkdir()
    (project.path / "results").symlink_to(disk / "results")
    project.configure(repositories=RUBY, rounds=2, copies=1, grid={STUDY: {"include": [PART]}})
    first = project.snakemake(
        f"results/cells/{STUDY}/log/svn/ruby/f7/nopack/slow/hot-os/round1.json"
    )
    assert first.returncode == 0, first.stdout
    before = project.exports()
    assert len(before) == 1
    mine = fill(disk, leave)

    done = report(project)

    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    said = [line for line in done.stdout.splitlines() if "ree some space" in line]
    assert any(str(project.path / "results") in line for line in said), done.stdout
    assert halves(project) == [], "nothing wrong stays"
    after = project.exports()
    assert {path: after.get(path) for path in before} == before
    mine.unlink()
    again = report(project)
    assert again.returncode == 0 and "Traceback" not in again.stdout, again.stdout
    last = project.exports()
    assert {path: last.get(path) for path in after} == after and len(last) == 6
    assert (project.path / f"results/failures/{STUDY}.csv").read_text().count("\n") == 1
    assert (project.path / "results").is_symlink()


@pytest.mark.slow
def test_a_storage_that_is_full_when_a_target_is_written(project: Project, disk: Path) -> None:
    part = {**PART, "command": "export", "cache": "hot-os"}
    project.configure(
        repositories={"ruby": {**RUBY["ruby"], "scale": 0.01}},
        rounds=2,
        copies=1,
        storages={"disk": str(disk)},
        output_location="storage",
        grid={STUDY: {"include": [part]}},
    )
    assert project.snakemake("results/repositories/disk.json").returncode == 0
    mine = fill(disk, 20_000)

    done = report(project, measurements_of(STUDY))

    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    (said, *_) = [line for line in done.stdout.splitlines() if line.startswith("svn exits")]
    assert str(disk) in said and "No space left on device" in said, said
    assert said.endswith("; the run ends here: free some space and run again"), said
    assert done.stdout.count("failed: results/cells/") == 1, "no other cell is tried"
    assert project.exports() == {} and halves(project) == []
    assert not list(disk.glob("vcsbench-*/targets/*"))
    mine.unlink()
    again = report(project, measurements_of(STUDY))
    assert again.returncode == 0 and len(project.exports()) == 2, again.stdout
