"""Runs of a part of the default study by users with other rights, in folders that not everybody can enter."""

import shutil
import subprocess
import sys

import pytest

from project import (
    AS_USER,
    DEFAULT,
    HOT,
    ROOT,
    RUN_LIMIT_S,
    STUDY,
    WITHOUT_PTRACE,
    invalid_flags,
    needs,
    needs_root,
    opened,
    path_of_tool,
    ruby,
    run_merged,
)
from vcsbench.config.validation import read_yaml

pytestmark = [
    needs("svn", "svnserve", "apache2", "hyperfine", "setpriv", "vmtouch", "unshare"),
    needs_root,
]
ACCESSES = ["file", "svn", "http"]
# The cells of the default grid, and of all other commands. No repository of this size can be packed.
SMALL, SCALE = read_yaml(DEFAULT)["grid"][STUDY]["include"], 0.002
SMALL = [*SMALL, {**HOT, "command": ["null-log", "null-export", "dump"], "access": "svn"}]
# Root clears the caches of the machine before each cold run, which takes longer.
FEW = [{**HOT, "command": ["log", "export"], "access": ACCESSES, "cache": ["cold", "hot-os"]}]
# Cells of each command, access, cache state and packing, of a repository with a full shard.
PACKED, PACKED_SCALE = {**HOT, "packing": "pack"}, 0.022
LARGE = [
    {**PACKED, "command": ["log", "export"], "access": ACCESSES, "cache": ["cold", "hot-os"]},
    {**HOT, "command": ["log", "export"], "access": ACCESSES, "cache": "cold"},
    {**PACKED, "command": ["null-log", "null-export"], "cache": "hot-server"},
    {**PACKED, "command": "dump", "cache": "cold"},
]
# The values of these axes that are measured. The command dump has no access.
OF_FEW = {"log", "export", *ACCESSES, "cold", "hot-os", "nopack"}
ALL = OF_FEW | {"null-log", "null-export", "dump", "", "hot-server", "pack"}
# The tests that start a process of another user.
OF_OTHER_USERS = (
    "tests/unit/test_making.py::test_why_cannot_make_without_right_to_mount",
    "tests/workflow/test_recovery_disk.py::test_run_in_folder_of_another_user_is_refused",
)


@pytest.mark.parametrize(
    ("start", "uid", "parts", "scale", "values"),
    [
        pytest.param(AS_USER, "12345", SMALL, SCALE, ALL - {"pack"}, id="ordinary user"),
        pytest.param(WITHOUT_PTRACE, "0", FEW, SCALE, OF_FEW, id="root without CAP_SYS_PTRACE"),
        pytest.param(AS_USER, "12345", LARGE, PACKED_SCALE, ALL, id="full", marks=pytest.mark.slow),
    ],
)
def test_default_study_has_no_invalid_run(project, start, uid, parts, scale, values):
    project.configure(*parts, repositories=ruby(scale))
    subprocess.run(["chown", "-R", f"{uid}:{uid}", project.path], check=True)
    command = [project.path / "vcsbench", "run", "--cores", "2", "--configfile", project.config]
    home = {"HOME": str(project.path), "USER": f"user{uid}", "PATH": path_of_tool()}
    done = run_merged([*opened(start), *command], project.path, RUN_LIMIT_S, **home)
    assert done.returncode == 0 and "Traceback" not in done.stdout, done.stdout
    runs = project.rows(f"measurements/{STUDY}.csv")
    measured = [run for run in runs if run["repo"] == "ruby"]
    grid = [row for row in project.rows(f"grid/{STUDY}.csv") if row["repo"] == "ruby"]
    assert {run["cell"] for run in measured} == {row["cell"] for row in grid if not row["skip"]}
    axes = ("command", "access", "cache", "packing")
    assert {run[axis] for run in measured for axis in axes} == values
    assert invalid_flags(runs) == []
    assert project.rows(f"failures/{STUDY}.csv") == []


def test_tests_of_other_users_pass_in_a_folder_that_only_its_owner_enters(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o700)
    checkout = tmp_path / "closed" / "checkout"
    # Set-up makes .venv or .conda. The Python of the tests is in one of them.
    left_out = (".venv", ".conda", ".tools", ".git", "results", "reports", ".snakemake")
    ignored = shutil.ignore_patterns(*left_out)
    shutil.copytree(ROOT, checkout, ignore=ignored, symlinks=True)
    (checkout / ".tools").symlink_to((ROOT / ".tools").resolve())
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *OF_OTHER_USERS]
    done = run_merged(command, checkout, RUN_LIMIT_S, PYTHONPATH=str(checkout / "workflow"))
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout and " skipped" not in done.stdout, done.stdout
