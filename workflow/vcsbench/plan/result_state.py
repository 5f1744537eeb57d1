"""Read results: which are up to date, which sampling batches are decided, and which files are damaged.

The first batch has the fewest rounds of each block. A decision file defines each later one: the total
rounds of each block. The last one that gave any is enough. Without rounds, the run ends.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from vcsbench.errors import UserError
from vcsbench.external import open_regular, printable
from vcsbench.files import context_path, read_json, read_sealed, write_json
from vcsbench.records import Context, RecipeRepository
from vcsbench.storages.file_trees import remove_path

FOLDER = "results/budget"
ALL, UNFAILED, NOTHING = "all", "unfailed", "nothing"
# The reason of a cell-round without a result in a run that measures nothing.
OUTDATED = "outdated, measured with other settings, programs, or another version of vcsbench"
# The digests of the files that are made of the raw data, from the end of the last run.
DIGESTS = Path(".vcsbench", "digests.json")
# The JSON files that a run reads, and the keys of each.
RECORDS = {
    "results/loaded/*.json": {"repo"},
    "results/repositories/*.json": {"storage"},
    "results/calls/**/*.json": {"digest"},
    "results/budget/*/batch*.json": {"gives", "rounds", "of"},
}
LISTED = 5


def block_name(block: Sequence[str], axes: Mapping[str, object]) -> str:
    return "/".join(str(axes.get(axis) or "-") for axis in block) or "all"


def subject_digest(subjects: Sequence[RecipeRepository]) -> str:
    texts = sorted({json.dumps(subject, sort_keys=True) for subject in subjects})
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def decision_of(study: str, number: int) -> str:
    """Return the decision file of a batch; the first batch has none."""
    return f"{FOLDER}/{study}/batch{number}.json"


class SamplingBatches:
    """Read the decision files of a study."""

    def __init__(self, study: str, root: Path, least: int, blocks: Mapping[str, str]) -> None:
        """`blocks` has the digest of its repositories by block; a decision on others does not count.

        Each block has at least `least` rounds.
        """
        self.study, self.root, self.least, self.blocks = study, root, least, blocks
        self._rounds = {1: dict.fromkeys(blocks, least)}
        self.last = 1
        files = (root / FOLDER / study).glob("batch*.json")
        matches = (re.fullmatch(r"batch(\d+)\.json", file.name) for file in files)
        for number in sorted((int(match[1]) for match in matches if match), reverse=True):
            if self._take(number):
                break

    def _take(self, number: int) -> bool:
        decision = read_sealed(self.root / decision_of(self.study, number))
        if not decision.get("gives"):
            return False
        self.last = number
        rounds, digests = decision["rounds"], decision["of"]
        self._rounds[number] = {
            block: max(self.least, rounds[block]) if digests.get(block) == digest else self.least
            for block, digest in self.blocks.items()
        }
        return True

    @property
    def next(self) -> int:
        return self.last + 1

    def take(self) -> bool:
        """Read the decision on the next batch. Return True if it gives any rounds."""
        return self._take(self.next)

    def rounds(self, number: int | None = None) -> dict[str, int]:
        return self._rounds.get(number or self.last, self._rounds[self.last])


def is_up_to_date(export: str, digest: str) -> bool:
    """Return True if a result exists, and the recipe in its context has a digest.

    A run looks at thousands of results before it starts. To search a context takes a tenth of the time of
    a parser. Each is written atomically, so a check of the export's content can wait.
    """
    try:
        with open(open_regular(context_path(export)), "rb") as file:
            context = file.read()
    except (OSError, UserError):
        return False
    is_whole = context.endswith(b"}") and os.path.exists(export)
    return is_whole and f'"recipe_digest": "{digest}"'.encode() in context


def is_intact(export: str | Path) -> bool:
    """Return True if an export has the digest that its context records, and the context is not altered."""
    context = read_context(context_path(export))
    try:
        with open(open_regular(export), "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    except (OSError, UserError):
        return False
    has_recipe = {"study", "cell", "recipe_digest"} <= context.keys()
    return has_recipe and context.get("export_sha256") == digest


def read_context(path: str | Path) -> Context:
    """Return a context; {} if it is missing, damaged or altered."""
    return cast("Context", read_json(path))


def check_version(path: Path, context: Context) -> None:
    """Raise UserError for a context of an earlier version of vcsbench, which has other keys."""
    if not all("evidence" in run for run in context.get("runs", [])):
        raise UserError(
            f"{path}: an earlier version of vcsbench measured it. Run `make report` to measure it again."
        )


def remove_damaged(root: Path) -> str:
    """Remove the damaged files of a checkout, and return a sentence that names them; "" if there are none.

    The caller holds the lock of the checkout, and no Snakemake works there.
    """
    damaged = [path for path in dict.fromkeys(_damaged(root)) if os.path.lexists(path)]
    for path in damaged:
        # Without a record of copies, Snakemake would measure all cells again. A damaged one is written again,
        # if Snakemake does not take it for write-protected.
        is_record = path.parent.name in ("loaded", "repositories")
        if is_record and path.is_file() and os.access(path, os.R_OK | os.W_OK):
            continue
        remove_path(path)
        if is_record:
            path.touch()
    names = [printable(os.path.relpath(path, root)) for path in damaged]
    more = [f"{len(names) - LISTED:,} more"] if len(names) > LISTED else []
    listed = ", ".join(names[:LISTED] + more)
    return f"removed damaged or changed files, to make them again: {listed}" if names else ""


def store_digests(root: Path, names: Iterable[str]) -> None:
    """Store the digests of files, and of the files in folders, for the next run."""
    known = read_json(root / DIGESTS)
    for name in names:
        if files := _digests(root, name):
            known[name] = files
        else:
            known.pop(name, None)
    write_json(root / DIGESTS, known)


def results(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the export, which may be missing, and the context of all results of a checkout."""
    for context in root.glob(context_path("results/cells/*/**/round*")):
        yield context.with_name(context.name.replace(".context.json", ".json")), context


def _damaged(root: Path) -> Iterator[Path]:
    for export, context in results(root):
        # A killed job can leave a context alone.
        if os.path.lexists(export) and not is_intact(export):
            yield from (export, context)
    for pattern, keys in RECORDS.items():
        yield from (path for path in root.glob(pattern) if not keys <= read_sealed(path).keys())
    # Then the files and folders that are not as the last run left them.
    for name, files in read_json(root / DIGESTS).items():
        path = root / name
        is_ours = any(path.is_relative_to(root / folder) for folder in ("results", "reports"))
        if is_ours and ".." not in path.parts and _digests(root, name) != files:
            yield path


def _digests(root: Path, name: str) -> dict[str, str]:
    """Return the digests of a file, or of the files in a folder, by relative path."""
    path = root / name
    files = sorted(path.rglob("[!.]*")) if path.is_dir() else [path]
    return {
        os.path.relpath(file, root): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.is_file()
    }
