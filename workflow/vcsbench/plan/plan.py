"""Plan a run: the cells of each study, their recipes, files and order."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import product

from vcsbench.axes.axis import Environment
from vcsbench.cell_rounds import CellRound
from vcsbench.config.configuration import ENVIRONMENTS
from vcsbench.config.study import Study, matches_cell
from vcsbench.errors import UserError
from vcsbench.plan import recipe as recipes
from vcsbench.plan.grid import CellSpec, is_fixed_cost, make_grid, variance_class
from vcsbench.plan.recipe import TracedCell
from vcsbench.plan.result_state import SamplingBatches, block_name, is_up_to_date, subject_digest
from vcsbench.records import Recipe, RecipeRepository

Blocks = Mapping[tuple[str, ...], Sequence[CellSpec]]
Block = tuple[str, str]
# Snakemake takes about 1 ms and 10 KiB for each.
MOST_CELL_ROUNDS = 100_000


class Plan:
    """The cells of the configured studies; `grids` has them by study, skipped ones included."""

    def __init__(self, env: Environment, by_block: bool = False) -> None:
        """Without `by_block`, a round of all blocks ends before the next round begins."""
        self.env, self.by_block = env, by_block
        self.config = env.config
        self.root = env.root
        self._drafts: dict[tuple[str, ...], Recipe] = {}

        def why_skip(axes: Mapping[str, str], study: Study) -> str:
            return recipes.why_not(axes, self._draft(study, axes), env)

        self.grids = {
            name: make_grid(env, study, partial(why_skip, study=study))
            for name, study in self.config.studies.items()
        }
        self.cells = [cell for grid in self.grids.values() for cell in grid if not cell.skip]
        number = len(self.cells) * (self.config.settings.rounds or 1)
        if number > MOST_CELL_ROUNDS:
            key = "rounds" if self.config.settings.rounds else "grid"
            text = (
                f"{number:,} cell-rounds are too many to plan. Make at most {MOST_CELL_ROUNDS:,}."
            )
            raise self.config.error([key], text)
        self.by_path = {(cell.study, cell.path): cell for cell in self.cells}
        studies = () if self.config.settings.rounds else self.grids
        self.batches = {study: self._batches(study) for study in studies}

    def _draft(self, study: Study, axes: Mapping[str, str]) -> Recipe:
        key = (study.name, *axes.values())
        if key not in self._drafts:
            self._drafts[key] = recipes.draft_recipe(study, axes, self.env)
        return self._drafts[key]

    def draft(self, cell: CellSpec) -> Recipe:
        return self._draft(self.config.studies[cell.study], cell.axes)

    def cell(self, study: str, path: str) -> CellSpec:
        """Raise UserError if the grid lacks the cell, or skips it."""
        if (study, path) in self.by_path:
            return self.by_path[study, path]
        for cell in self.grids.get(study, []):
            if cell.path == path:
                raise UserError(f"{study}/{path}: is skipped here: {cell.skip}. Use another cell.")
        raise UserError(f"{study}/{path}: no such cell. `grid.{study}` defines the cells.")

    @cache  # noqa: B019 - there is one of it
    def recipe(self, study: str, path: str) -> Recipe:
        cell = self.cell(study, path)
        return recipes.recipe_of(cell, self.draft(cell), self.env)

    @cache  # noqa: B019 - there is one of it
    def recipe_json(self, study: str, path: str) -> str:
        return json.dumps(self.recipe(study, path))

    def digest(self, study: str, path: str) -> str:
        """Return "" for a cell that is not measured."""
        return str(self.recipe(study, path)["digest"]) if (study, path) in self.by_path else ""

    def _batches(self, study: str) -> SamplingBatches:
        subjects: dict[str, list[RecipeRepository]] = defaultdict(list)
        for cell in self.measured(study):
            if not is_fixed_cost(cell.axes):
                repository = self.draft(cell).get("repository", {})
                subjects[self.name_of_block(cell)].append(repository)
        blocks = {block: subject_digest(of) for block, of in subjects.items()}
        return SamplingBatches(study, self.root, self.config.least_rounds, blocks)

    def measured(self, study: str) -> list[CellSpec]:
        return [cell for cell in self.grids[study] if not cell.skip]

    def name_of_block(self, cell: CellSpec) -> str:
        return block_name(self.config.studies[cell.study].block, cell.axes)

    def rounds_of(self, cell: CellSpec, after: int | None = None) -> int:
        if is_fixed_cost(cell.axes):
            return 1
        if not self.batches:
            return self.config.settings.rounds or 0
        return self.batches[cell.study].rounds(after)[self.name_of_block(cell)]

    def rounds_by_cell(self, study: str, after: int | None = None) -> dict[str, int]:
        return {cell.path: self.rounds_of(cell, after) for cell in self.measured(study)}

    def rounds_of_cell(self, cell: CellSpec, after: int | None = None) -> list[CellRound]:
        numbers = range(1, self.rounds_of(cell, after) + 1)
        return [CellRound(cell.study, cell.path, number) for number in numbers]

    def exports_of(self, cell: CellSpec, after: int | None = None) -> list[str]:
        return [cell_round.export for cell_round in self.rounds_of_cell(cell, after)]

    def cell_files(self, study: str, only_fresh: bool = False) -> list[str]:
        exports_of = self.fresh_exports if only_fresh else self.exports_of
        return [export for cell in self.measured(study) for export in exports_of(cell)]

    @cache  # noqa: B019 - there is one of it
    def traced(self, study: str) -> dict[str, TracedCell]:
        """Return by path which cell's trace counts a cell's system calls."""
        traced = self.config.studies[study].trace_syscalls
        if traced is None:
            return {}
        return recipes.traced_cells(
            self.recipe(study, cell.path)
            for cell in self.measured(study)
            if matches_cell(cell.axes, traced, fits_empty=True) and not is_fixed_cost(cell.axes)
        )

    def traces_of(self, study: str, existing: bool | None = None) -> dict[str, str]:
        """Return the files of traces by the path of the traced cell: all, or the existing (`existing`) or
        the missing ones."""
        paths = dict.fromkeys(cell.path for cell in self.traced(study).values())
        files = {path: f"results/calls/{study}/{path}.json" for path in paths}
        return {p: f for p, f in files.items() if existing in (None, (self.root / f).exists())}

    @cache  # noqa: B019 - there is one of it
    def is_fresh(self, result: CellRound) -> bool:
        """Return True if a cell-round has a result of the present recipe."""
        return is_up_to_date(result.below(self.root), self.digest(result.study, result.cell))

    def fresh_exports(self, cell: CellSpec) -> list[str]:
        return [result.export for result in self.rounds_of_cell(cell) if self.is_fresh(result)]

    @cache  # noqa: B019 - there is one of it
    def _order(self, rounds: int) -> dict[tuple[str, str, int], int]:
        blocks = {name: study.block for name, study in self.config.studies.items()}
        return run_order(self.cells, blocks, rounds, self.config.settings.seed, self.by_block)

    @property
    def order(self) -> dict[tuple[str, str, int], int]:
        decided = [n for batches in self.batches.values() for n in batches.rounds().values()]
        return self._order(self.config.settings.rounds or max(decided))

    def position(self, study: str, path: str, number: int) -> int:
        """Put a target that the user named last."""
        return self.order.get((study, path, number), len(self.order))

    @cache  # noqa: B019 - there is one of it
    def environments(self, study: str, path: str) -> list[str]:
        """Return the folders of a cell's conda environments, and the record of each."""
        names = self.draft(self.cell(study, path))["environments"]
        return [f"{ENVIRONMENTS}/{name}{end}" for name in names for end in ("", ".sha256")]

    def grid_rows(self, study: str) -> list[list[str]]:
        cells = self.grids[study]
        rows = [[cell.path, *cell.axes.values(), cell.skip] for cell in cells]
        return [["cell", *cells[0].axes, "skip"], *rows]


def run_order(
    cells: Iterable[CellSpec],
    blocks: Mapping[str, Sequence[str]],
    rounds: int,
    seed: int,
    by_block: bool = False,
) -> dict[tuple[str, str, int], int]:
    """Return the position of each cell-round (study, path, round), from 0.

    The order is by study, then by round, with blocks and their cells in random order. The position within a
    study does not depend on the number of later rounds. With `by_block`, a block has all of its rounds before
    another: if a node is lost, whole blocks stay.
    """
    by_study: dict[str, dict[tuple[str, ...], list[CellSpec]]] = {study: {} for study in blocks}
    for cell in cells:
        key = (cell.study, *variance_class(cell.axes, blocks[cell.study]))
        by_study[cell.study].setdefault(key, []).append(cell)
    order: list[tuple[str, str, int]] = []
    for of_study in by_study.values():
        keys = sorted(of_study)
        random.Random(f"{seed}/blocks").shuffle(keys)
        turns: list[Blocks] = [{key: of_study[key]} for key in keys] if by_block else [of_study]
        for turn, number in product(turns, range(1, rounds + 1)):
            shuffler = random.Random(f"{seed}/{number}")
            for key in _shuffled(turn, shuffler):
                block = sorted(turn[key], key=lambda cell: cell.path)
                shuffler.shuffle(block)
                order += [(cell.study, cell.path, number) for cell in block]
    return {cell_round: position for position, cell_round in enumerate(order)}


def _shuffled(blocks: Blocks, shuffler: random.Random) -> list[tuple[str, ...]]:
    """Return the blocks in random order, blocks of one cache state next to each other.

    A cold run empties the caches that the next hot run has to fill before it is timed. The order is a
    circle that begins at a random block: each block is in each position equally often.
    """
    by_cache: dict[str, list[tuple[str, ...]]] = {}
    for key in sorted(blocks):
        by_cache.setdefault(blocks[key][0].axes.get("cache", ""), []).append(key)
    groups = list(by_cache.values())
    shuffler.shuffle(groups)
    for keys in groups:
        shuffler.shuffle(keys)
    circle = [key for keys in groups for key in keys]
    first = shuffler.randrange(len(circle) or 1)
    return circle[first:] + circle[:first]


def shares_of(
    sizes: Mapping[Block, int], count: int, before: Mapping[Block, int]
) -> dict[Block, int]:
    """Return the share (from 1) of each block; `sizes` are its numbers of cells, `count` the shares.

    A block keeps its share from `before`, because another node would have to measure it again. The
    others go, the largest first, to the smallest share.
    """
    shares = {block: before[block] for block in sizes if 1 <= before.get(block, 0) <= count}
    load = Counter(dict.fromkeys(range(1, count + 1), 0))
    for block, share in shares.items():
        load[share] += sizes[block]
    for block in sorted(sizes.keys() - shares.keys(), key=lambda block: (-sizes[block], block)):
        shares[block] = min(load, key=lambda share: (load[share], share))
        load[shares[block]] += sizes[block]
    return shares
