"""Measure a git history for the model of generated repositories (docs/generated-model.md).

    python benchmarks/measure_history.py path/to/repository [revision] [name of its journal]

prints, along first parents, the quantiles and shares that workflow/vcsbench/sources/generated/
has in measured.py and profiles.py. Nothing is written.
"""

from __future__ import annotations

import argparse
import random
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence

SHARES = (0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999, 1)
# A revision that changes more is a sweep over the tree; it would drown the others in the means.
SWEEP = 60
SAMPLE = 2500


class History:
    """The commits along first parents and what each of them changed."""

    def __init__(self, path: str, revision: str, journal: str) -> None:
        self._path = path
        self._journal = journal.encode()
        self.tip = revision
        self.commits = self.git("rev-list", "--first-parent", revision).split()

    def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What a git command prints."""
        argv = ["git", "-C", self._path, *arguments]
        return subprocess.run(argv, input=stdin, check=True, stdout=subprocess.PIPE).stdout

    def is_journal(self, path: bytes) -> bool:
        """Whether a path is the journal, in any folder."""
        return bool(self._journal) and path.rpartition(b"/")[2] == self._journal

    def changes(self) -> list[list[tuple[bytes, bytes]]]:
        """For each commit the status (A, M, D, R, C) and path of each file, the journal apart."""
        out = self.git(
            "diff-tree", "--stdin", "-r", "--raw", "--root", "-M", "-C", "-m", "--first-parent",
            stdin=b"\n".join(self.commits) + b"\n",
        )  # fmt: skip
        found: list[list[tuple[bytes, bytes]]] = []
        for line in out.splitlines():
            if not line.startswith(b":"):
                found.append([])
                continue
            head, *paths = line.split(b"\t")
            if not self.is_journal(paths[-1]):
                found[-1].append((head.split()[-1][:1], paths[-1]))
        return found

    def hunks(self) -> Iterator[tuple[list[int], list[int]]]:
        """Bytes removed and added by each hunk of a changed file, in a sample of commits."""
        for commit in random.Random(1).sample(self.commits, min(SAMPLE, len(self.commits))):
            text = self.git(
                "diff-tree", "-r", "-p", "-U0", "--no-renames", "--diff-filter=M", "-m",
                "--first-parent", commit.decode(),
            )  # fmt: skip
            files = text.split(b"\ndiff --git ")[1:]
            for file in files if len(files) < SWEEP else ():
                if not self.is_journal(file.partition(b"\n")[0]):
                    removed, added = _hunk_sizes(file)
                    if removed:
                        yield removed, added


def _hunk_sizes(file: bytes) -> tuple[list[int], list[int]]:
    removed: list[int] = []
    added: list[int] = []
    for line in file.split(b"\n"):
        if line.startswith(b"@@"):
            removed.append(0)
            added.append(0)
        elif removed and line.startswith(b"-"):
            removed[-1] += len(line)
        elif removed and line.startswith(b"+"):
            added[-1] += len(line)
    return removed, added


def show(name: str, values: Sequence[int]) -> None:
    """Print a distribution."""
    ordered = sorted(values)
    if not ordered:
        return
    points = [
        (share, ordered[min(len(ordered) - 1, int(share * len(ordered)))]) for share in SHARES
    ]
    print(f"{name}: {len(ordered)} values, mean {sum(ordered) / len(ordered):.1f}")
    print("   ", ", ".join(f"({share:g}, {value})" for share, value in points))


def show_changes(history: History) -> None:
    """Print what revisions change, and how unevenly the changes are spread over the files."""
    changes = history.changes()
    show("files changed per revision, without the journal", [len(c) for c in changes])
    actions = Counter(status.decode() for c in changes if len(c) < SWEEP for status, _ in c)
    whole = sum(actions.values())
    print("shares:", {status: round(number / whole, 4) for status, number in actions.items()})
    hot = Counter(path for c in changes for status, path in c if status == b"M")
    counts = sorted(hot.values(), reverse=True)
    for part in (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        share = sum(counts[: max(1, int(part * len(counts)))]) / sum(counts)
        print(f"    {part:.1%} of the files ever changed have {share:.1%} of the changes")


def show_hunks(history: History) -> None:
    """Print how texts change."""
    hunks = list(history.hunks())
    removed = [size for file, _ in hunks for size in file]
    added = [size for _, file in hunks for size in file]
    show("hunks per changed file", [len(file) for file, _ in hunks])
    show("bytes removed per hunk", removed)
    show("bytes added per hunk", added)
    print(f"    only additions {removed.count(0) / len(removed):.3f}", end=", ")
    print(f"only removals {added.count(0) / len(added):.3f}")


def main() -> None:
    """Measure the history that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("repository")
    parser.add_argument("revision", nargs="?", default="HEAD")
    parser.add_argument("journal", nargs="?", default="", help="e.g. ChangeLog: counted apart")
    words = parser.parse_args()
    history = History(words.repository, words.revision, words.journal)
    print(f"{len(history.commits)} commits")
    show_changes(history)
    show_hunks(history)
    entries = history.git("ls-tree", "-r", "-l", history.tip).splitlines()
    show("file sizes", [int(e.split()[3]) for e in entries if e.split()[1] == b"blob"])
    messages = history.git("log", "--first-parent", "-z", "--format=%B", history.tip).split(b"\0")
    show("bytes of messages", [len(m.partition(b"\ngit-svn-id:")[0].strip()) for m in messages])


if __name__ == "__main__":
    main()
