"""A disk that is full while a run measures: the run ends with one error and keeps valid results."""

from __future__ import annotations

import os
import subprocess
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
    """A small disk for the temporary files of measurements."""
    path = project.path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", path], check=True)
    project.configure(repositories=RUBY, rounds=2, copies=1, grid={STUDY: {"include": [PART]}})
    project.prepare()
    monkeypatch.setenv("TMPDIR", str(path))
    yield path
    subprocess.run(["umount", path], check=True)


def test_temporary_disk_full_ends_the_run_and_next_run_continues(
    project: Project, small: Path
) -> None:
    hog = fill(small, 4096)
    done = project.measure(STUDY)
    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    assert "No space left on device" in done.stdout
    assert project.exports() == {}
    hog.unlink()
    again = project.measure(STUDY)
    assert again.returncode == 0 and len(project.exports()) == 6, again.stdout
    assert not list(small.glob("vcsbench-*"))


@pytest.fixture
def disk(project: Project) -> Iterator[Path]:
    """A small disk of the user."""
    path = project.path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=755", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


def incomplete_files(project: Project) -> list[Path]:
    """Return exports and contexts without their counterpart, and files of unfinished writes."""
    cells = project.path / "results/cells"
    unpaired = [
        p
        for p in cells.rglob("*.json")
        if measured_recipe(str(p).replace(".context.json", ".json")) is None
    ]
    return [*unpaired, *(project.path / "results").rglob(".*.new")]


# Free bytes: too few to start, and too few to finish.
@pytest.mark.parametrize("leave", [pytest.param(8192, marks=pytest.mark.slow), 300_000])
def test_results_on_full_disk_keep_whole_results_only(
    project: Project, disk: Path, leave: int
) -> None:
    (disk / "results").mkdir()
    (project.path / "results").symlink_to(disk / "results")
    project.configure(repositories=RUBY, rounds=2, copies=1, grid={STUDY: {"include": [PART]}})
    first = project.snakemake(
        f"results/cells/{STUDY}/log/svn/ruby/f7/nopack/slow/hot-os/round1.json"
    )
    assert first.returncode == 0, first.stdout
    before = project.exports()
    assert len(before) == 1
    hog = fill(disk, leave)

    done = project.tool("run")

    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    errors = [line for line in done.stdout.splitlines() if "ree some space" in line]
    assert any(str(project.path / "results") in line for line in errors), done.stdout
    assert incomplete_files(project) == []
    after = project.exports()
    assert {path: after.get(path) for path in before} == before
    hog.unlink()
    again = project.tool("run", "measured")
    assert again.returncode == 0 and "Traceback" not in again.stdout, again.stdout
    last = project.exports()
    assert {path: last.get(path) for path in after} == after and len(last) == 6
    assert project.rows(f"failures/{STUDY}.csv") == []
    assert (project.path / "results").is_symlink()


@pytest.mark.slow
def test_output_on_full_storage_ends_the_run(project: Project, disk: Path) -> None:
    part = {**PART, "command": "export", "cache": "hot-os"}
    project.configure(
        repositories={"ruby": {**RUBY["ruby"], "scale": 0.01}},
        rounds=2,
        copies=1,
        storages={"disk": str(disk)},
        output_location="storage",
        grid={STUDY: {"include": [part]}},
    )
    project.prepare()
    hog = fill(disk, 20_000)

    done = project.tool("run", measurements_of(STUDY))

    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    (error, *_) = [line for line in done.stdout.splitlines() if line.startswith("svn exits")]
    assert str(disk) in error and "No space left on device" in error, error
    assert "the run ends here" in error, error
    assert done.stdout.count("failed: results/cells/") == 1, "the run starts no other cell"
    assert project.exports() == {} and incomplete_files(project) == []
    assert not list(disk.glob("vcsbench-*/targets/*"))
    hog.unlink()
    again = project.tool("run", measurements_of(STUDY))
    assert again.returncode == 0 and len(project.exports()) == 2, again.stdout
