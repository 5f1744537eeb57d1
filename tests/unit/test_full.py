"""Full and read-only folders are named in the error, and progress never fails a job."""

import os
import subprocess
from pathlib import Path

import pytest

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.files import write_json
from vcsbench.storages import filesystems


@pytest.fixture
def results(tmp_path):
    """A folder on a small file system of its own."""
    folder = tmp_path / "results"
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder]
    if os.geteuid() or subprocess.call(argv):
        pytest.skip("this user may not mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


def make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)


@pytest.mark.parametrize("fault", ["read-only", "full"])
def test_explain_write_errors_folder_is_named(tmp_path, results, fault):
    if fault == "read-only":
        make_read_only(results)
    explained = filesystems.explain_write_errors(tmp_path / "scratch", "name another `scratch`")
    with pytest.raises(UserError, match=f"^{results}: is {fault}; ") as caught, explained:
        write_json(results / "loaded.json", "x" * (1 << 20))
    assert "scratch" not in str(caught.value)


def test_report_progress_read_only_log_raises_nothing(results):
    log = results / "load.log"
    with progress.report_progress(log), progress.stage("loading"):
        while not progress.progress_file(log).exists():
            pass
        make_read_only(results)
    progress.forget(log)
