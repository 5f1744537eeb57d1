"""Builds of git: their programs, their reasons to skip a cell, and repositories that only they can read."""

import os
import shutil
from pathlib import Path

import pytest

from git_histories import FILE, Commit, Graph, make_git, run
from project import needs
from vcsbench.axes.build_axis import why_lacking
from vcsbench.config.builds import Build, git_builds
from vcsbench.machine import Machine
from vcsbench.prepare.git_preparation import make_state
from vcsbench.programs import Programs
from vcsbench.systems import git_store
from vcsbench.systems.git_program import GIT_BUILD, git_of, git_version, keep_git, run_git
from vcsbench.systems.git_store import GitState, find_maker

pytestmark = needs("git")
CLONE = "{git} clone -q {url} {target}"


@pytest.fixture
def prefix(tmp_path):
    """A build of git: a wrapper that notes its calls, and a folder with the programs that git runs."""
    tmp_path.chmod(0o755)
    folder = tmp_path / "build"
    (folder / "bin").mkdir(parents=True)
    shutil.copytree(
        Programs().find_git("git-daemon").rpartition("/")[0], folder / "core", symlinks=True
    )
    wrapper = folder / "bin" / "git"
    wrapper.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\nexport GIT_EXEC_PATH={folder}/core\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    return folder


def build_of(prefix):
    programs = Programs(str(prefix))
    return Build(programs, programs)


def test_programs_of_a_build_are_below_its_prefix(prefix):
    programs = Programs(str(prefix))
    assert programs.path("git") == f"{prefix}/bin/git"
    assert programs.path("git-daemon") == f"{prefix}/core/git-daemon"
    # A build of Subversion has no git of its own.
    (prefix / "bin" / "git").rename(prefix / "bin" / "svn")
    other = Programs(str(prefix))
    assert other.find_git("git") == "" and other.path("git") == Programs().path("git")


def test_build_of_git_has_all_that_a_clone_needs(prefix, monkeypatch):
    monkeypatch.setattr("vcsbench.axes.build_axis.closed_folder", lambda path: None)
    assert why_lacking(build_of(prefix), Machine(), CLONE, "git-daemon") == ""


def test_build_that_runs_programs_of_another_git_is_skipped(prefix):
    (prefix / "bin" / "git").unlink()
    (prefix / "bin" / "git").symlink_to(shutil.which("git"))
    reason = why_lacking(build_of(prefix), Machine(), CLONE, "")
    assert (
        f"outside of {prefix}" in reason
        and os.path.dirname(Programs().find_git("git-daemon")) in reason
    )


@pytest.mark.parametrize(
    ("removed", "reason"),
    [
        ("core/git-daemon", "has no git-daemon (Debian: git)"),
        ("bin/git", "has no git in bin or sbin"),
    ],
)
def test_build_without_a_program_is_skipped_and_not_measured_with_the_path(
    prefix, monkeypatch, removed, reason
):
    monkeypatch.setattr("vcsbench.axes.build_axis.closed_folder", lambda path: None)
    (prefix / removed).unlink()
    assert why_lacking(build_of(prefix), Machine(), CLONE, "git-daemon") == f"{prefix} {reason}"
    assert why_lacking(build_of(prefix), Machine(), "git log", "git-daemon") == f"{prefix} {reason}"


def test_programs_of_a_build_start_its_git(prefix):
    programs = Programs(str(prefix))
    argv = [*programs.env_command(), "git", "--exec-path"]
    assert run(*argv).decode().strip() == f"{prefix}/core"
    assert programs.environment()["PATH"].startswith(f"{prefix}/bin:")


def test_git_builds_are_those_with_a_git_of_their_own(prefix, tmp_path):
    builds = {"system": Build(), "subversion": build_of(tmp_path), "new": build_of(prefix)}
    assert git_builds(builds) == [Programs(str(prefix))]


def test_git_that_made_a_repository_reads_it_and_its_copies(prefix, tmp_path):
    repository = tmp_path / "git.as-is"
    make_git(repository, Graph([Commit({b"a": (FILE, b"1")})], {"main": 0}))
    if (repository / ".git").exists():
        repository = repository / ".git"
    assert git_of(repository) == Programs()
    keep_git(repository, Programs(str(prefix)))
    copy = shutil.copytree(repository, tmp_path / "copy")
    assert git_of(copy) == Programs(str(prefix))
    assert run_git(copy, "rev-list", "--count", "--all") == b"1\n"
    assert f"--git-dir={copy}" in (prefix / "calls").read_text()


def test_state_is_made_by_the_first_git_that_can(prefix, tmp_path, monkeypatch):
    programs = Programs(str(prefix))
    versions = {Programs(): "2.33.0", programs: "2.46.0"}
    monkeypatch.setattr(git_store, "git_version", lambda made_by=Programs(): versions[made_by])  # noqa: B008
    monkeypatch.setattr("vcsbench.prepare.git_preparation.git_version", lambda: "2.33.0")
    assert find_maker(GitState("bitmap"), [programs]) == Programs()
    # git 2.34 is the first with a bitmap of many packs.
    state = GitState("midx-bitmap")
    assert find_maker(state, []) is None
    assert find_maker(state, [programs]) == programs
    loaded = tmp_path / "git.as-is"
    commits = [Commit({b"a": (FILE, b"%d" % number)}) for number in range(4)]
    git_store.create_bare(loaded)
    source = tmp_path / "source"
    make_git(source, Graph(commits, {"main": 3}))
    run_git(loaded, "fetch", "-q", str(source), "+refs/*:refs/*")
    git_store.write_commit_count(loaded)
    made = make_state(loaded, state, [programs]).path
    assert git_of(made) == programs and not (loaded / GIT_BUILD).exists()
    calls = Path(prefix, "calls").read_text()
    assert "multi-pack-index write" in calls
    one_pack = make_state(loaded, GitState("one-pack"), [programs]).path
    assert git_of(one_pack) == Programs()


def test_git_version_of_a_build_is_that_of_its_program(prefix):
    (prefix / "bin" / "git").write_text("#!/bin/sh\necho git version 9.9.1\n")
    assert git_version(Programs(str(prefix))) == "9.9.1"
    assert git_version(Programs("/nonexistent")) == ""
