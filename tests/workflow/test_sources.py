"""Users' histories through the real workflow: own formats, losses, odd dates, names and damage."""

import subprocess

import pytest

from dump_streams import DATE, HEAD, copied, deleted, file, folder, revision
from git_histories import FILE, SUBMODULE, Commit, listing, make_git
from project import HOT, STUDY, needs
from vcsbench.config.validation import read_yaml
from vcsbench.formats import read_shape
from vcsbench.sources.git_conversion import SUBMODULES
from vcsbench.sources.svn_names import RENAMED_NOTE
from vcsbench.storages.file_trees import IMPOSSIBLE_PATHS

pytestmark = needs("svn", "svnadmin", "hyperfine", "git")

PART = {**HOT, "access": "file"}
OLD = (
    HEAD
    + revision(1, {b"svn:date": b"first monday"})
    + folder(b"trunk")
    + file(b"trunk/f")
    + file(b"trunk/" + b"x" * 256)
    + revision(2, {b"svn:log": b"a\r\nb", b"svn:date": DATE})
    + folder(b"p")
    + copied(b"p/trunk", b"trunk", 1)
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["repository", "dump"])
def test_old_repository_with_a_bogus_date_and_a_long_name_is_measured(project, kind):
    path = project.path / "mine"
    if kind == "dump":
        path.write_bytes(OLD)
    else:
        subprocess.run(["svnadmin", "create", path], check=True)
        argv = ["svnadmin", "load", "-q", "--bypass-prop-validation", path]
        subprocess.run(argv, input=OLD + deleted(b"trunk"), check=True)
    project.configure({**PART, "command": ["log", "export"]}, repository=str(path))
    project.succeed()
    page = project.page(STUDY)
    assert "first revision 1:" in page
    assert f"{IMPOSSIBLE_PATHS}: 1" in page
    skips = {row["command"]: row["skip"] for row in project.rows(f"grid/{STUDY}.csv")}
    assert not skips["log"] and IMPOSSIBLE_PATHS in skips["export"]


@pytest.mark.slow
def test_report_lists_losses_of_a_git_conversion(project):
    commits = [
        Commit({b"a": (FILE, b"1\n"), b"sub": (SUBMODULE, b"1" * 40)}),
        Commit({b"odd\x07name": (FILE, b"2\n")}, seconds=1_000_000_000),
        Commit({b"a": (FILE, b"3\n")}, seconds=999_999_000),
    ]
    path = make_git(project.path / "git", commits)
    project.configure(PART, repository=str(path))
    project.succeed()
    page = project.page(STUDY)
    for note in (f"{SUBMODULES}: 1", f"{RENAMED_NOTE}: 1", "the date of the one before them"):
        assert note in page, note


@pytest.mark.slow
def test_own_repository_is_the_baseline_and_is_upgraded_in_a_copy(project):
    study, own = "own-repository", project.path / "mine"
    subprocess.run(["svnadmin", "create", "--compatible-version", "1.8", own], check=True)
    for name in ("trunk", "trunk/a"):
        url = f"{own.as_uri()}/{name}"
        subprocess.run(["svn", "mkdir", "-q", "-m", name, url], check=True)
    before = listing(own)
    studies = read_yaml(project.path / "config" / "config.yaml")["studies"]
    part = {"command": "log", "access": "file", "config": "default", "cache": "hot-os"}
    part |= {"format": ["current", "upgraded", "f6"], "packing": "current"}
    project.configure(part, study=study, repository=str(own), studies=studies)
    project.succeed()
    assert len([path for path in project.exports() if "/mine/" in path]) == 3
    page = project.page(study)
    for text in (
        "mine is of format 6",
        "as-is: enable-rep-sharing = true, enable-dir-deltification = true",
        "f6: enable-rep-sharing = true, enable-dir-deltification = false",
        "nopack is",
    ):
        assert text in page, text
    table = project.rows(f"tables/{study}/own-vs-format.csv")
    pairs = {(row["baseline"], row["candidate"]) for row in table}
    # On a busy machine a run of some milliseconds may leave the table.
    assert pairs and pairs <= {("as-is", "as-is-to-f8"), ("as-is", "f6")}
    (copies,) = (project.path / "storage").glob("*/repositories")
    for fmt, number in (("as-is", 6), ("as-is-to-f8", 8)):
        assert read_shape(copies / f"mine.{fmt}.nopack.1")[:3] == (number, 1000, False)
    assert listing(own) == before
