"""Runs of a part of the default study by users with other rights, in folders that not everybody can enter."""

import shutil
import subprocess
import sys

import pytest

from project import (
    AS_USER,
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

pytestmark = [
    needs("svn", "svnserve", "apache2", "hyperfine", "setpriv", "vmtouch", "unshare"),
    needs_root,
]
# A part of the default grid, which is smaller for root: each cold run clears the caches of the machine.
PART = {**HOT, "command": ["log", "export"], "access": ["file", "svn", "http"]}
PART |= {"cache": ["cold", "hot-os"]}
# The tests that start a process of another user.
OF_OTHER_USERS = (
    "tests/unit/test_making.py::test_why_cannot_make_without_right_to_mount",
    "tests/workflow/test_recovery_disk.py::test_run_in_folder_of_another_user_is_refused",
)


@pytest.mark.parametrize(
    ("start", "uid", "parts"),
    [
        pytest.param(AS_USER, "12345", (), id="ordinary user"),
        pytest.param(WITHOUT_PTRACE, "0", (PART,), id="root without CAP_SYS_PTRACE"),
        pytest.param(WITHOUT_PTRACE, "0", (), id="all without PTRACE", marks=pytest.mark.slow),
    ],
)
def test_default_study_has_no_invalid_run(project, start, uid, parts):
    # Without a part, it is the default grid: each command, access, format, configuration and cache state.
    project.configure(*parts, repositories=ruby(0.002))
    subprocess.run(["chown", "-R", f"{uid}:{uid}", project.path], check=True)
    command = [project.path / "vcsbench", "run", "--cores", "2", "--configfile", project.config]
    home = {"HOME": str(project.path), "USER": f"user{uid}", "PATH": path_of_tool()}
    done = run_merged([*opened(start), *command], project.path, RUN_LIMIT_S, **home)
    assert done.returncode == 0 and "Traceback" not in done.stdout, done.stdout
    runs = project.rows(f"measurements/{STUDY}.csv")
    planned = {row["cell"] for row in project.rows(f"grid/{STUDY}.csv")}
    assert len(planned) == (12 if parts else 25)
    assert {run["cell"] for run in runs if run["repo"] == "ruby"} == planned
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
