"""A disk that is full, or folders that cannot be written: one error, and valid results are kept."""

import errno
import os
import subprocess

import pytest

from project import (
    NOBODY,
    RUN_LIMIT_S,
    STUDY,
    fill,
    measurements_of,
    mounted,
    needs,
    needs_root,
    opened,
    path_of_tool,
    ruby,
    run_merged,
    slow,
)
from vcsbench.plan.result_state import is_readable
from vcsbench.result_paths import CellRound

pytestmark = [needs("svn", "svnserve", "hyperfine", "setpriv"), needs_root]

NO_SPACE = os.strerror(errno.ENOSPC)
PART = {"command": "log", "access": "svn", "format": "f7", "packing": "nopack", "config": "slow"}


@pytest.fixture
def small(project, monkeypatch):
    """A small disk for the temporary files of measurements."""
    project.configure(PART)
    project.prepare()
    with mounted(project.path / "small", "size=1m,mode=1777") as path:
        monkeypatch.setenv("TMPDIR", str(path))
        yield path


@pytest.mark.slow
def test_temporary_disk_full_ends_the_run_and_next_run_continues(project, small):
    hog = fill(small, 4096)
    assert NO_SPACE in project.fail("measured")
    assert project.exports() == {}
    hog.unlink()
    project.succeed("measured")
    assert len(project.exports()) == 3
    assert not list(small.glob("vcsbench-*"))


@pytest.fixture
def disk(project):
    with mounted(project.path / "disk", "size=40m,mode=755") as path:
        yield path


def incomplete_files(project):
    """Return exports and contexts without their counterpart, and files of unfinished writes."""
    cells = project.path / "results/cells"
    unpaired = [p for p in cells.rglob("*.json") if not is_readable(CellRound.parse(p))]
    return [*unpaired, *(project.path / "results").rglob(".*.new")]


# Free bytes: too few to start, and too few to finish.
@pytest.mark.slow
@pytest.mark.parametrize("leave", [slow(8192), 300_000])
def test_results_on_full_disk_keep_whole_results_only(project, disk, leave):
    (disk / "results").mkdir()
    (project.path / "results").symlink_to(disk / "results")
    project.configure(PART, rounds=2)
    project.succeed(f"results/cells/{STUDY}/log/svn/ruby/f7/nopack/slow/hot-os/round1.json")
    before = project.exports()
    assert len(before) == 1
    hog = fill(disk, leave)
    output = project.tool("run", code=1)
    errors = [line for line in output.splitlines() if "ree some space" in line]
    assert any(str(project.path / "results") in line for line in errors), output
    assert incomplete_files(project) == []
    after = project.exports()
    assert not project.measured_since(before) & before.keys()
    hog.unlink()
    project.tool("run", "measured")
    assert not project.measured_since(after) & after.keys() and len(project.exports()) == 6
    assert project.rows(f"failures/{STUDY}.csv") == []
    assert (project.path / "results").is_symlink()


def report(project, *before):
    """Return the output of `make report`, which fails."""
    command = [*before, project.path / "vcsbench", "run", "--cores", "2"]
    done = run_merged(command, project.path, RUN_LIMIT_S, PATH=path_of_tool())
    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    return done.stdout


@pytest.mark.parametrize("name", ["results", ".snakemake"])
def test_run_in_folder_of_another_user_is_refused(project, name):
    subprocess.run(["chown", "-R", "nobody", project.path], check=True)
    (project.path / name).mkdir()  # root's
    output = report(project, *opened(NOBODY))
    assert output.startswith(f"{project.path / name}: cannot be written"), output
    assert "owner" in output and output.count("\n") == 1


@pytest.mark.parametrize("name", ["results", ".snakemake"])
def test_run_in_read_only_folder_is_refused(project, name):
    with mounted(project.path / name, "size=1m,ro") as folder:
        output = report(project)
    assert output.startswith(f"{folder}: ") and "read-only" in output, output
    assert output.count("\n") == 1


@pytest.mark.slow
def test_output_on_full_storage_ends_the_run(project, disk):
    keys = {"storages": {"disk": str(disk)}, "output_location": "storage", "rounds": 2}
    part = {**PART, "command": "export", "cache": "hot-os"}
    project.configure(part, repositories=ruby(0.01), **keys)
    project.prepare()
    hog = fill(disk, 20_000)
    output = project.tool("run", measurements_of(STUDY), code=1)
    (error, *_) = [line for line in output.splitlines() if line.startswith("svn exits")]
    assert str(disk) in error and NO_SPACE in error, error
    assert output.count("failed: results/cells/") == 1
    assert project.exports() == {} and incomplete_files(project) == []
    assert not list(disk.glob("vcsbench-*/targets/*"))
    hog.unlink()
    project.tool("run", measurements_of(STUDY))
    assert len(project.exports()) == 2
