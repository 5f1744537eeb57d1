"""Keep the number of commits of a repository next to its own files: the system would have to count them."""

from pathlib import Path

from vcsbench.external import read_number

COMMITS = "vcsbench-commits"
MOST_COMMITS = 1 << 40


def keep_commit_count(path: Path, commits: int) -> None:
    (path / COMMITS).write_text(f"{commits}\n")


def read_commit_count(path: Path) -> int:
    """Return the number of commits. Raise OSError or UserError if it cannot be read."""
    return read_number(path / COMMITS, MOST_COMMITS)
