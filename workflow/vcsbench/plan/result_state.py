"""Read results: which are up to date, which sampling batches are decided, and which files are unreadable.

The first batch has the fewest rounds of each block. A decision file defines each later one: the total
rounds of each block. The last one that gave any is enough. Without rounds, the run ends.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vcsbench.cell_rounds import CONTEXT, CellRound
from vcsbench.errors import UserError
from vcsbench.external import open_regular, read_bytes
from vcsbench.files import CSV_BYTES, read_json
from vcsbench.records import Context, RecipeRepository, complete_context
from vcsbench.storages.file_trees import remove_path

FOLDER = "results/budget"
ALL, NOTHING = "all", "nothing"
# The reason of a cell-round without a result in a run that measures nothing. Pages have a text for it.
OUTDATED = "outdated"
# Folders below results/ that remove_unreadable() leaves alone: logs and builds are no data, and a job that
# reads an unreadable record of a preparation makes it again without measuring again.
UNCHECKED = ("logs", "builds", "cluster", "loaded", "packed", "dumps", "repositories")


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
        # The decisions that were read. A decision stays as it is, so none is read twice.
        self._rounds = {1: dict.fromkeys(blocks, least)}
        files = (root / FOLDER / study).glob("batch*.json")
        matches = (re.fullmatch(r"batch(\d+)\.json", file.name) for file in files)
        numbers = sorted((int(match[1]) for match in matches if match), reverse=True)
        giving = (number for number in numbers if self._gives_rounds(number))
        self._first = next(giving, 1)

    def _gives_rounds(self, number: int) -> bool:
        """Return True if a batch is decided and has any rounds."""
        if number in self._rounds:
            return True
        path = self.root / decision_of(self.study, number)
        decision = read_json(path) if os.path.exists(path) else {}
        if not decision.get("gives"):
            return False
        rounds, digests = decision["rounds"], decision["of"]
        self._rounds[number] = {
            block: max(self.least, rounds[block]) if digests.get(block) == digest else self.least
            for block, digest in self.blocks.items()
        }
        return True

    @property
    def last(self) -> int:
        """Return the number of the last batch with rounds that is decided now."""
        number = self._first
        while self._gives_rounds(number + 1):
            number += 1
        return number

    @property
    def next(self) -> int:
        return self.last + 1

    def rounds(self, number: int | None = None) -> dict[str, int]:
        if number in self._rounds:
            return self._rounds[number]
        return self._rounds[self.last]


def is_up_to_date(result: CellRound, digest: str) -> bool:
    """Return True if a result exists, and the recipe in its context has a digest.

    A run looks at thousands of results before it starts. To search a context takes a tenth of the time of
    a parser. Each is written atomically, so a check of the export's content can wait.
    """
    try:
        with open(open_regular(result.context), "rb") as file:
            context = file.read()
    except (OSError, UserError):
        return False
    is_whole = context.endswith(b"}") and os.path.exists(result.export)
    return is_whole and f'"recipe_digest": "{digest}"'.encode() in context


def is_readable(result: CellRound) -> bool:
    """Return True if the export and the context of a cell-round are complete JSON files."""
    return bool(read_json(result.export)) and bool(read_json(result.context))


def read_context(path: str | Path) -> Context | None:
    """Return a context with all its parts (complete_context); None if it is missing or unreadable."""
    record = read_json(path)
    return complete_context(record) if record else None


def check_version(path: Path, context: Context) -> None:
    """Raise UserError for a context of an earlier version of vcsbench, which has other keys."""
    if not all(run["evidence"] for run in context["runs"]):
        raise UserError(
            f"{path}: an earlier version of vcsbench measured it. Run `make report` to measure it again."
        )


def remove_unreadable(root: Path) -> list[Path]:
    """Remove the results of a checkout that no program can read, and return their paths.

    Snakemake makes missing files again, but looks at no content. The caller holds the lock of the checkout.
    """
    removed = []
    for folder in sorted((root / "results").glob("*")):
        if folder.name in UNCHECKED or not folder.is_dir():
            continue
        for path in sorted(folder.rglob("*.*")):
            if _is_readable_file(path):
                continue
            # The output of these rules is the folder of a study: Snakemake does not miss a file in it.
            output = path.parent if folder.name in ("tables", "published") else path
            remove_path(output)
            removed.append(output)
    return removed


def _is_readable_file(path: Path) -> bool:
    """Return False for a .json file that is no JSON, and for a .csv file without text."""
    # A file of a folder that was just removed is gone.
    if path.suffix not in (".json", ".csv") or not os.path.lexists(path):
        return True
    try:
        content = read_bytes(path, CSV_BYTES)
        if path.suffix == ".json":
            json.loads(content)
            return True
        # A full disk or a power cut can leave zeros.
        return bool(content.decode()) and b"\0" not in content
    # A RecursionError is raised for thousands of nested brackets.
    except (OSError, UserError, ValueError, RecursionError):
        return False


def results(root: Path) -> Iterator[CellRound]:
    """Yield the cell-rounds of a checkout that have a context. The export may be missing."""
    for context in root.glob(f"results/cells/*/**/round*{CONTEXT}"):
        yield CellRound.parse(context)
