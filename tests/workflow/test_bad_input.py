"""Bad input through Snakemake: an error that names the key or the file, and no traceback."""

import subprocess

import pytest

from project import HOT, mounted, needs, needs_root, ruby, slow

pytestmark = needs("svn", "svnadmin", "hyperfine", "git")

PART = {**HOT, "access": "file"}


def error(project, *parts, **keys):
    project.configure(*parts, **keys)
    return project.fail("measured")


def test_configuration_unknown_key_on_command_line_is_refused(shared_project, tmp_path):
    shared_project.configure()
    (tmp_path / "config.yaml").write_text("keep-going: true\n")
    for profile in ([], ["--profile", str(tmp_path)]):
        text = shared_project.fail("-n", *profile, "--config", "roundz=3")
        assert "`rounds`?" in text.splitlines()[-1] and "common.smk" not in text


def test_run_in_another_folder_is_refused(shared_project, tmp_path):
    shared_project.configure()
    text = shared_project.fail("-n", "--directory", str(tmp_path))
    assert f"\n{tmp_path}: vcsbench works in its clone only." in text


@pytest.mark.parametrize(
    "target", ["measurements/nope.csv", slow("published/nope"), slow("loaded/nope.json")]
)
def test_target_with_an_unknown_name_is_refused(shared_project, target):
    shared_project.configure()
    assert f"No rule to produce results/{target}" in shared_project.fail("-n", f"results/{target}")


def test_repository_empty_is_refused(shared_project):
    for kind, argv, reason in (
        ("svn", ["svnadmin", "create"], "no revision"),
        ("git", ["git", "init", "-q"], "no commit"),
    ):
        path = shared_project.path / f"empty-{kind}"
        subprocess.run([*argv, path], check=True)
        text = error(shared_project, repository=str(path))
        assert str(path) in text and reason in text, text


@needs_root
@pytest.mark.parametrize(
    ("options", "expected"),
    [("size=3m,mode=755", "repositories and copies need about"), ("ro", "cannot be written")],
)
def test_storage_too_small_or_read_only_is_refused_before_loading(project, options, expected):
    with mounted(project.path / "storage", options) as storage:
        text = error(project, PART, copies=20, repositories=ruby(0.001))
    assert expected in text and str(storage) in text
    assert not (project.path / "results" / "repositories" / "disk.json").exists()


@needs_root
def test_storage_closed_to_the_user_of_servers_is_refused(project):
    closed = project.path / "storage"
    closed.chmod(0o700)
    assert f"cannot enter {closed}" in error(project, PART)
