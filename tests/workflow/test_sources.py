"""Histories of users: the report lists what a conversion lost, and a damaged dump is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

from git_histories import FILE, SUBMODULE, Commit, make_git
from project import Project, measurements_of, needs

pytestmark = needs("svn", "svnadmin", "hyperfine", "git")

STUDY = "fsfs-san-2014"
PART = {
    "command": "log",
    "ra": "file",
    "format": "f7",
    "packing": "nopack",
    "config": "slow",
    "cache": "hot-os",
}


def measure(project: Project, path: Path, *targets: str) -> str:
    """Measure one cell of a repository. Return the output of a failed run, or ""."""
    project.configure(repository=str(path), rounds=1, copies=1, grid={STUDY: {"include": [PART]}})
    done = project.snakemake(*targets)
    return "" if done.returncode == 0 else done.stdout


def test_report_lists_losses_of_a_git_conversion(project: Project) -> None:
    commits = [
        Commit({b"a": (FILE, b"1\n"), b"sub": (SUBMODULE, b"1" * 40)}),
        Commit({b"odd\x07name": (FILE, b"2\n")}, seconds=1_000_000_000),
        Commit({b"a": (FILE, b"3\n")}, seconds=999_999_000),
    ]
    path = make_git(project.path / "git", commits)
    assert measure(project, path) == ""
    page = project.page(STUDY)
    for note in (
        "Submodules left out: 1",
        "Paths escaped, as in ?\\010",
        "before it and Subversion",
    ):
        assert note in page, note


def test_dump_with_damaged_delta_is_refused_with_its_position(project: Project) -> None:
    repository, file = project.path / "repository", project.path / "damaged.svndump"
    subprocess.run(["svnadmin", "create", repository], check=True)
    work = project.path / "work"
    subprocess.run(["svn", "checkout", "-q", f"file://{repository}", work], check=True)
    text = work / "text"
    for number in range(4):
        text.write_text("".join(f"line {line} of {number}\n" for line in range(200)))
        subprocess.run(["svn", "add", "-q", "--force", text], check=True)
        subprocess.run(["svn", "commit", "-q", "-m", f"{number}", work], check=True)
    argv = ["svnadmin", "dump", "-q", "--deltas", repository]
    dump = subprocess.check_output(argv)
    third = dump.index(b"\nRevision-number: 3\n") + 1
    at = dump.index(b"line 9", third)
    file.write_bytes(dump[:at] + b"l" + b"\xc4" + dump[at + 2 :])
    output = measure(project, file, measurements_of(STUDY))
    assert f"(revision 3 of {file}, at byte {third:,} of the stream)" in output, output
    assert "hecksum mismatch" in output
    assert project.exports() == {}
