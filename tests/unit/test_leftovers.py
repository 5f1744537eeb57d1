"""Folders and mounts of killed tests and runs are removed by the next one, and nothing besides."""

import os
import subprocess
from pathlib import Path

import pytest

from git_histories import git
from project import PREFIX, ROOT, needs, needs_root, remove_leftovers, start_python
from vcsbench.errors import UserError
from vcsbench.run import workflow
from vcsbench.storages.workdir import remove_abandoned

HOLD = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from project import mounted, open_folder
with open_folder(sys.argv[1]) as path, mounted(path / "disk"), mounted(path / "disk/sp ace"):
    print(path, flush=True)
    sys.stdin.read()
"""


@needs_root
def test_leftovers_of_a_killed_test_are_removed_once_nothing_uses_them(tmp_path):
    with start_python(HOLD, tmp_path) as test:
        assert test.stdout
        path = Path(test.stdout.readline().strip())
        remove_leftovers(str(tmp_path))
        assert os.path.ismount(path / "disk/sp ace"), "a test that runs"
        test.kill()
    with subprocess.Popen(["sleep", "100"], cwd=path / "disk") as other:
        remove_leftovers(str(tmp_path))
        assert os.path.ismount(path / "disk/sp ace"), "a process that works there"
        other.kill()
    with (path / "disk/file").open("w"):
        remove_leftovers(str(tmp_path))
        assert (path / "disk/file").exists(), "an open file"
    remove_leftovers(str(tmp_path))
    assert not [*tmp_path.iterdir()]


@needs_root
def test_leftovers_of_others_stay(tmp_path):
    for name in ("vcsbench-0123abcd", f"{PREFIX}theirs", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").touch()
    os.chown(tmp_path / f"{PREFIX}theirs", 12345, 12345)
    (tmp_path / f"{PREFIX}link").symlink_to("mine")
    (tmp_path / f"{PREFIX}file").touch()
    before = sorted(tmp_path.rglob("*"))
    remove_leftovers(str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before


READ = """
import sys
from pathlib import Path
from vcsbench.sources.git_repository import open_repository
with open_repository(Path(sys.argv[1]), root="."):
    print("opened", flush=True)
    sys.stdin.read()
"""


@needs("git")
def test_private_folder_of_a_killed_reader_is_abandoned(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    git(tmp_path, "init", "-q", "mine")
    start = ("env", f"TMPDIR={tmp_path}")
    with start_python(READ, tmp_path / "mine", start=start) as reader:
        assert reader.stdout and reader.stdout.readline() == "opened\n"
        assert remove_abandoned(os.getcwd(), []) == []
        reader.kill()
    assert len(remove_abandoned(os.getcwd(), [])) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_process_that_outlives_a_kill_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(workflow, "GRACE_S", 0.01)
    monkeypatch.setattr(workflow, "KILL_LIMIT_S", 0.1)
    # No process has this id, so no signal reaches one.
    monkeypatch.setattr(workflow, "run_processes", lambda root: [2**22 + 1])
    with pytest.raises(UserError, match=rf"{2**22 + 1}\. End them .* --cap-add KILL"):
        workflow.end_processes(tmp_path)
