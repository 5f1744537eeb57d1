"""Read results: which are up to date, which sampling batches are decided, and which files are unreadable.

A batch is the rounds that are measured before the next decision. The first batch has the fewest rounds of
each block. A decision file defines each later one by the total rounds of each block. A decision without
rounds ends the run.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from vcsbench.cell_rounds import CONTEXT, CellRound
from vcsbench.errors import UserError
from vcsbench.external import open_regular, read_bytes
from vcsbench.files import CSV_BYTES, read_json
from vcsbench.records import Context, RecipeRepository, complete_context
from vcsbench.storages.file_trees import remove_path

BUDGET_FOLDER = "results/budget"
ALL, NOTHING = "all", "nothing"
# The reason of a cell-round without a result in a run that measures nothing. Pages have a text for it.
OUTDATED = "outdated"
# Folders below results/ that remove_unreadable() leaves alone. Logs and builds are no data. The others have
# records of preparations: a job that finds one unreadable prepares again, and nothing is measured again.
UNCHECKED = ("logs", "builds", "cluster", "loaded", "packed", "dumps", "repositories")


def block_name(block: Sequence[str], axes: Mapping[str, object]) -> str:
    """Return the values of a cell on the axes of a block, for example "log/ruby/cold"."""
    return "/".join(str(axes.get(axis) or "-") for axis in block) or "all"


def subject_digest(subjects: Sequence[RecipeRepository]) -> str:
    """Return 16 hexadecimal digits for the repositories of a block, in any order."""
    texts = sorted({json.dumps(subject, sort_keys=True) for subject in subjects})
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def decision_of(study: str, number: int) -> str:
    """Return the decision file of a batch; the first batch has none."""
    return f"{BUDGET_FOLDER}/{study}/batch{number}.json"


class SamplingBatches:
    """The decided rounds of each block of a study, from its decision files.

    A block is a group of cells that is measured together, such as "log/ruby/cold".
    """

    def __init__(self, study: str, root: Path, least: int, blocks: Mapping[str, str]) -> None:
        """`blocks` has the digest of its repositories by block; a decision on others does not count.

        Each block has at least `least` rounds.
        """
        self.study = study
        self.root = root
        self.least = least
        self.blocks = blocks
        # The rounds of each block, by batch. A decision stays as it is, so none is read twice.
        self._rounds = {1: dict.fromkeys(blocks, least)}
        # A decision has the total rounds of each block. So only the last decision with rounds is read here,
        # and no earlier one.
        self._first_read = 1
        for number in sorted(self._numbers_of_files(), reverse=True):
            if self._has_rounds(number):
                self._first_read = number
                break

    def _numbers_of_files(self) -> list[int]:
        numbers = []
        for path in (self.root / BUDGET_FOLDER / self.study).glob("batch*.json"):
            match = re.fullmatch(r"batch(\d+)\.json", path.name)
            if match:
                numbers.append(int(match[1]))
        return numbers

    def _has_rounds(self, number: int) -> bool:
        """Return True if a batch is decided and has any rounds. Store the rounds of its blocks then.

        A decision has `gives` (whether it adds rounds), `of` (the digest of the repositories of each block)
        and `rounds` (the total rounds of each block).
        """
        if number in self._rounds:
            return True
        path = self.root / decision_of(self.study, number)
        decision = read_json(path) if os.path.exists(path) else {}
        # An unreadable decision is {}: Snakemake decides again.
        if not decision.get("gives"):
            return False
        rounds: dict[str, int] = {}
        for block, digest in self.blocks.items():
            has_same_repositories = decision["of"].get(block) == digest
            # A block that the decision does not have, or that has another repository now, begins with the
            # fewest rounds.
            rounds[block] = (
                max(self.least, decision["rounds"][block]) if has_same_repositories else self.least
            )
        self._rounds[number] = rounds
        return True

    @property
    def last(self) -> int:
        """Return the number of the last batch with rounds that is decided now."""
        number = self._first_read
        while self._has_rounds(number + 1):
            number += 1
        return number

    @property
    def next(self) -> int:
        return self.last + 1

    def rounds(self, batch: int | None = None) -> dict[str, int]:
        """Return the total rounds of each block after a batch; of the last batch by default.

        Batches before the first one that was read have its rounds, because those are measured already.
        """
        if batch in self._rounds:
            return self._rounds[batch]
        return self._rounds[self.last]


def is_up_to_date(result: CellRound, digest: str) -> bool:
    """Return True if a result exists, and was measured by the recipe with this digest.

    A run looks at thousands of results before it starts. So the text of the context is searched, which takes
    a tenth of the time of parsing it. The content of the export is not looked at here, because it was
    written atomically; whoever reads it reports damage.
    """
    try:
        with open(open_regular(result.context), "rb") as file:
            context = file.read()
    except (OSError, UserError):
        return False
    has_digest = f'"recipe_digest": "{digest}"'.encode() in context
    is_whole = context.endswith(b"}")
    return has_digest and is_whole and os.path.exists(result.export)


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
    """Remove damaged files below results/ of a checkout, and return the removed paths.

    A .json file is damaged if it is no JSON, a .csv file if it is empty or has a NUL. A power cut or a full
    disk leaves damaged files. Snakemake makes missing files again, but does not look at their content, so a
    damaged file would stay. The caller holds the lock of the checkout.
    """
    removed: list[Path] = []
    for folder in sorted((root / "results").glob("*")):
        if folder.name in UNCHECKED or not folder.is_dir():
            continue
        for path in sorted(folder.rglob("*.*")):
            if _is_readable_file(path):
                continue
            # For these two folders, the output of a rule is the whole folder of a study. Snakemake would not
            # notice one missing file in it, so the folder is removed.
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
        # A full disk or a power cut can leave zeros in place of text.
        return bool(content.decode()) and b"\0" not in content
    # A RecursionError is raised for thousands of nested brackets.
    except (OSError, UserError, ValueError, RecursionError):
        return False


def has_results(root: Path) -> bool:
    """Return True if a checkout has any measured cell-round."""
    return any(root.glob(f"results/cells/*/**/round*{CONTEXT}"))
