"""Read results: which are up to date, which sampling batches are decided, and which files are unreadable.

A batch is the rounds that are measured before the next decision. The first batch has the fewest rounds of
each block. A decision file defines each later one by the total rounds of each block. A decision without
rounds ends the run.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.external import open_regular, read_bytes
from vcsbench.files import CSV_BYTES, read_json
from vcsbench.records import Context, RecipeRepository, complete_context
from vcsbench.result_paths import CONTEXT, CellRound
from vcsbench.storages.file_trees import remove_path

BUDGET_FOLDER = "results/budget"
ALL, NOTHING = "all", "nothing"
# Reasons of a cell-round without a result that did not fail. Pages have a text for each of them. OUTDATED: a
# run that measures nothing has left out its result, which is of another recipe. UNMEASURED: no run has
# finished it so far.
OUTDATED, UNMEASURED = "outdated", "unmeasured"
# The next run measures cell-rounds with these reasons. All other reasons are failures.
PENDING = (OUTDATED, UNMEASURED)
# Folders below results/ that remove_unreadable() leaves alone. Logs and builds are no data. The others have
# records of preparations: a job that finds one unreadable prepares again, and nothing is measured again.
UNCHECKED = ("logs", "builds", "cluster", "loaded", "packed", "dumps", "repositories")
# Folders below results/ in which a rule makes a folder for each study.
OUTPUT_FOLDERS = ("tables", "published", "charts")


def reason_by_cell(rounds: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the reason why each cell has rounds without a result, by the cell's path.

    Each row of `rounds` is a round without a result: {"cell": "log/f7", "reason": "unmeasured"}. A cell gets
    the reason of its last failed round or, without a failure, of its last round.
    """
    rows = list(rounds)
    failed = [row for row in rows if row["reason"] not in PENDING]
    # A later row of the same cell replaces an earlier one, so failures come after all rows.
    return {row["cell"]: str(row["reason"]) for row in (*rows, *failed)}


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
    """The decided rounds of each block of a study, from its decision files."""

    def __init__(
        self, study: str, root: Path, least_rounds: int, blocks: Mapping[str, str]
    ) -> None:
        """Read the last decision on rounds of each block (cells that are measured next to each other).

        Rounds are measured in batches. Batch 1 has `least_rounds` rounds of each block. Before each later
        batch, a decision is written: the total rounds of each block after the batch. `blocks` has the digest
        of the repositories of each block: {"log/ruby/cold": "9f86d081884c7d65"}. A decision on a block counts
        only while the block has the same digest.
        """
        self.study = study
        self.root = root
        self.least_rounds = least_rounds
        self.blocks = blocks
        # The total rounds of each block, by batch. A decision with rounds never changes, so it is read once.
        self._rounds_by_batch = {1: dict.fromkeys(blocks, least_rounds)}
        decided_batches = []
        for path in (root / BUDGET_FOLDER / study).glob("batch*.json"):
            match = re.fullmatch(r"batch(\d+)\.json", path.name)
            if match:
                decided_batches.append(int(match[1]))
        # The last decision may be to measure no more, so the last one with rounds is searched from the end.
        # It has the total rounds, so earlier ones are not read.
        self._last_at_start = 1
        for number in sorted(decided_batches, reverse=True):
            if self._rounds_after(number) is not None:
                self._last_at_start = number
                break

    def _rounds_after(self, number: int) -> dict[str, int] | None:
        """Return the total rounds of each block after a batch; None for a batch without rounds.

        The decision on the batch is a file, such as {"gives": true, "of": {"log/cold": "9f86..."}, "rounds":
        {"log/cold": 7}}. `gives` is false if the batch has no rounds, which ends the run. `of` has the
        digests of the blocks' repositories. A block with another digest by now begins again.
        """
        if number in self._rounds_by_batch:
            return self._rounds_by_batch[number]
        # A missing or unreadable decision is {}. Snakemake then makes it.
        decision = read_json(self.root / decision_of(self.study, number))
        if not decision.get("gives"):
            return None
        rounds = dict.fromkeys(self.blocks, self.least_rounds)
        for block, digest in self.blocks.items():
            if decision["of"].get(block) == digest:
                # The user may have raised the least number of rounds since the decision.
                rounds[block] = max(self.least_rounds, decision["rounds"][block])
        self._rounds_by_batch[number] = rounds
        return rounds

    @property
    def last(self) -> int:
        """Return the number of the last batch with rounds that is decided now."""
        number = self._last_at_start
        while self._rounds_after(number + 1) is not None:
            number += 1
        return number

    @property
    def next(self) -> int:
        return self.last + 1

    def rounds(self, batch: int | None = None) -> dict[str, int]:
        """Return the total rounds of each block after a batch, by default the last one: {"log/cold": 7}."""
        if batch in self._rounds_by_batch:
            return self._rounds_by_batch[batch]
        # The decision of a batch before `_last_at_start` was not read. The rounds of the last batch include
        # those of all earlier ones.
        return self._rounds_by_batch[self.last]


def is_up_to_date(result: CellRound, digest: str) -> bool:
    """Return True if a result exists, and was measured by the recipe with this digest.

    The export is not read here: it was written atomically, and whoever reads it reports damage.
    """
    # A run checks thousands of results before it starts. To search the text of the context takes a tenth of
    # the time of parsing it.
    try:
        with open(open_regular(result.context), "rb") as file:
            context = file.read()
    except (OSError, UserError):
        return False
    has_digest = f'"recipe_digest": "{digest}"'.encode() in context
    # A context that a power cut damaged does not end with its bracket.
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
    """Remove the files below results/ that a power cut or a full disk damaged, and return the removed paths.

    Snakemake makes missing files again, but does not look at their content, so a damaged file would stay.
    Folders of UNCHECKED stay, and so does a file that cannot be read for now, for example because a disk has
    failed. The caller holds the lock of the checkout.
    """
    removed: list[Path] = []
    for folder in sorted((root / "results").glob("*")):
        if folder.name in UNCHECKED or not folder.is_dir():
            continue
        for path in sorted(folder.rglob("*.*")):
            # An earlier turn may have removed the whole folder of this file (below).
            is_gone = not os.path.lexists(path)
            if is_gone or _is_readable_file(path):
                continue
            # The output of some rules is a folder, in which Snakemake would not notice one missing file.
            is_in_output_folder = folder.name in OUTPUT_FOLDERS
            output = path.parent if is_in_output_folder else path
            remove_path(output)
            removed.append(output)
    return removed


def _is_readable_file(path: Path) -> bool:
    """Return False for a .json file that is no JSON, and for a .csv file without text.

    A folder, and a file whose read fails, are no damaged files: return True for them.
    """
    if path.suffix not in (".json", ".csv"):
        return True
    # The results of a repository named `x.json` are in a folder of this name.
    if os.path.isdir(path) and not os.path.islink(path):
        return True
    try:
        # The limit of CSV files (1 GiB) is also for JSON files, which are smaller. Above it, read_bytes()
        # raises UserError.
        content = read_bytes(path, CSV_BYTES)
        if path.suffix == ".json":
            json.loads(content)
            return True
        # A full disk or a power cut can leave zeros in place of text.
        return bool(content.decode()) and b"\0" not in content
    except OSError as error:
        # The content may be good: a disk, a mount or a limit of open files has failed. But a link that leads
        # to itself has no content.
        return error.errno != errno.ELOOP
    except (UserError, ValueError, RecursionError):
        # A RecursionError is raised for thousands of nested brackets.
        return False


def has_results(root: Path) -> bool:
    """Return True if a checkout has any measured cell-round."""
    contexts = root.glob(f"results/cells/*/**/round*{CONTEXT}")
    # A folder of a cell's path may have such a name, too.
    return any(os.path.isfile(path) for path in contexts)
