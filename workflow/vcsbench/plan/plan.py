"""Plan a run: the cells of each study, their recipes, files and order."""

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from vcsbench.axes.axis import Environment
from vcsbench.config.builds import ENVIRONMENTS
from vcsbench.config.study import Study, matches_cell
from vcsbench.errors import UserError
from vcsbench.plan import recipe as recipes
from vcsbench.plan.grid import CellSpec, is_fixed_cost, make_grid
from vcsbench.plan.order import CellRoundKey, run_order
from vcsbench.plan.recipe import TracedCell
from vcsbench.plan.result_state import SamplingBatches, block_name, is_up_to_date, subject_digest
from vcsbench.records import Recipe, RecipeRepository
from vcsbench.result_paths import CellRound

# Snakemake takes about 1 ms and 10 KiB for each.
MOST_CELL_ROUNDS = 100_000


class Plan:
    """The cells of the configured studies."""

    def __init__(self, env: Environment, by_block: bool = False) -> None:
        """Make the grids of all configured studies, and read the rounds that earlier runs have decided.

        Without `by_block`, a round of all blocks ends before the next round begins. With it, a block has all
        of its rounds before the next block. Raise UserError for a grid without a cell, and for too many
        cell-rounds of all studies.
        """
        self.env = env
        self.by_block = by_block
        self.config = env.config
        self.root = env.root
        # By study and values of axes: ("ssd", "log", "f7"). A cell and its duplicate share one.
        self._drafts: dict[tuple[str, ...], Recipe] = {}
        # The cells of each study, skipped ones included.
        self.grids: dict[str, list[CellSpec]] = {}
        for name, study in self.config.studies.items():
            self.grids[name] = self._make_grid(study)
        # The cells of all studies that can be measured here.
        self.cells = [cell for grid in self.grids.values() for cell in grid if not cell.skip]
        self._check_size()
        # By study and path: {("ssd", "log/f7"): CellSpec(...)}.
        self.cell_by_key = {(cell.study, cell.path): cell for cell in self.cells}
        # By study. Without a time limit, the configuration fixes the rounds, and there are no batches.
        self.batches: dict[str, SamplingBatches] = {}
        if self.config.settings.rounds is None:
            self.batches = {study: self._read_batches(study) for study in self.grids}

    def _make_grid(self, study: Study) -> list[CellSpec]:
        return make_grid(
            self.env,
            study,
            why_skip=lambda axes: recipes.why_not(axes, self._draft(study, axes), self.env),
        )

    def _check_size(self) -> None:
        """Raise UserError before Snakemake would take minutes and gigabytes to plan."""
        rounds = self.config.settings.rounds
        number = len(self.cells) * (rounds or 1)
        if number > MOST_CELL_ROUNDS:
            raise self.config.error(
                ["rounds" if rounds else "grid"],
                f"{number:,} cell-rounds are too many to plan. Make at most {MOST_CELL_ROUNDS:,}.",
            )

    def _read_batches(self, study: str) -> SamplingBatches:
        """Return the rounds of each block of a study that are decided so far.

        A decision does not count if the repositories of the block have another digest since.
        """
        repositories: dict[str, list[RecipeRepository]] = defaultdict(list)
        for cell in self.measured(study):
            # A cell of fixed cost is measured in one round only.
            if not is_fixed_cost(cell.axes):
                repository = self.draft(cell).get("repository", {})
                repositories[self.name_of_block(cell)].append(repository)
        digests = {block: subject_digest(subjects) for block, subjects in repositories.items()}
        return SamplingBatches(study, self.root, self.config.least_rounds, digests)

    def _draft(self, study: Study, axes: Mapping[str, str]) -> Recipe:
        key = (study.name, *axes.values())
        if key not in self._drafts:
            self._drafts[key] = recipes.draft_recipe(study, axes, self.env)
        return self._drafts[key]

    def draft(self, cell: CellSpec) -> Recipe:
        """Return the recipe of a cell without digests of code and files, which take time."""
        return self._draft(self.config.studies[cell.study], cell.axes)

    def cell(self, study: str, path: str) -> CellSpec:
        """Return a cell that is measured here. Raise UserError if the grid lacks it, or skips it."""
        if (study, path) in self.cell_by_key:
            return self.cell_by_key[study, path]
        for cell in self.grids.get(study, []):
            if cell.path == path:
                raise UserError(f"{study}/{path}: is skipped here: {cell.skip}. Use another cell.")
        raise UserError(f"{study}/{path}: no such cell. `grid.{study}` defines the cells.")

    def measured(self, study: str) -> list[CellSpec]:
        """Return the cells of a study that are to be measured here."""
        return [cell for cell in self.grids[study] if not cell.skip]

    def name_of_block(self, cell: CellSpec) -> str:
        return block_name(self.config.studies[cell.study].block, cell.axes)

    # The following methods are called for each cell-round.

    @cache  # noqa: B019 - one instance
    def recipe(self, study: str, path: str) -> Recipe:
        """Return the complete recipe of a cell. Raise UserError if it is not measured here."""
        cell = self.cell(study, path)
        return recipes.complete_recipe(cell, self.draft(cell), self.env)

    @cache  # noqa: B019 - one instance
    def recipe_json(self, study: str, path: str) -> str:
        return json.dumps(self.recipe(study, path))

    def digest(self, study: str, path: str) -> str:
        """Return the digest of a cell's recipe; "" for a cell that is not measured."""
        if (study, path) not in self.cell_by_key:
            return ""
        return self.recipe(study, path)["digest"]

    def number_of_rounds(self, cell: CellSpec, batch: int | None = None) -> int:
        """Return the number of rounds of a cell after a batch of rounds; by default after the last batch."""
        if is_fixed_cost(cell.axes):
            return 1
        if self.config.settings.rounds is not None:
            return self.config.settings.rounds
        return self.batches[cell.study].rounds(batch)[self.name_of_block(cell)]

    def rounds_by_cell(self, study: str, batch: int | None = None) -> dict[str, int]:
        return {cell.path: self.number_of_rounds(cell, batch) for cell in self.measured(study)}

    def cell_rounds_of(self, cell: CellSpec, batch: int | None = None) -> list[CellRound]:
        numbers = range(1, self.number_of_rounds(cell, batch) + 1)
        return [CellRound(cell.study, cell.path, number) for number in numbers]

    def exports_of(self, cell: CellSpec, batch: int | None = None) -> list[str]:
        return [cell_round.export for cell_round in self.cell_rounds_of(cell, batch)]

    def fresh_exports(self, cell: CellSpec) -> list[str]:
        """Return the exports of a cell that exist and are up to date."""
        return [result.export for result in self.cell_rounds_of(cell) if self.is_fresh(result)]

    @cache  # noqa: B019 - one instance
    def is_fresh(self, result: CellRound) -> bool:
        """Return True if a cell-round has a result of the present recipe."""
        return is_up_to_date(result.below(self.root), self.digest(result.study, result.cell))

    def exports_of_study(self, study: str, batch: int | None = None) -> list[str]:
        return [file for cell in self.measured(study) for file in self.exports_of(cell, batch)]

    def fresh_exports_of_study(self, study: str) -> list[str]:
        return [file for cell in self.measured(study) for file in self.fresh_exports(cell)]

    @cache  # noqa: B019 - one instance
    def traced(self, study: str) -> dict[str, TracedCell]:
        """Return the cells that are traced, by the paths of the cells whose system calls are counted.

        Cells that make the same calls share one traced cell: {"log/svn/hot": TracedCell("log/svn/cold",
        "9f86...")}. Cells of fixed cost are left out. Return {} if the study counts no system calls.
        """
        # Such as {"access": ["svn"]}; {} for all cells.
        counted_axes = self.config.studies[study].trace_syscalls
        if counted_axes is None:
            return {}
        counted = []
        for cell in self.measured(study):
            # An axis that does not apply to a cell does not exclude the cell.
            is_counted = matches_cell(cell.axes, counted_axes, fits_empty=True)
            if is_counted and not is_fixed_cost(cell.axes):
                counted.append(self.recipe(study, cell.path))
        return recipes.traced_cells(counted)

    @cache  # noqa: B019 - one instance
    def trace_files(self, study: str) -> dict[str, str]:
        """Return the files of system-call counts, by the path of the traced cell."""
        # Several cells share one trace.
        paths = dict.fromkeys(cell.path for cell in self.traced(study).values())
        return {path: f"results/calls/{study}/{path}.json" for path in paths}

    def existing_traces(self, study: str) -> list[str]:
        return [file for file in self.trace_files(study).values() if (self.root / file).exists()]

    def missing_traces(self, study: str) -> list[str]:
        existing = self.existing_traces(study)
        return [file for file in self.trace_files(study).values() if file not in existing]

    def position(self, study: str, path: str, number: int) -> int:
        """Return the position of a cell-round in the order. A round that only the user named comes last."""
        return self.order.get((study, path, number), len(self.order))

    @property
    def order(self) -> dict[CellRoundKey, int]:
        """Return the position of each cell-round that is decided."""
        rounds = self.config.settings.rounds
        if rounds is None:
            # The order is drawn for the block with the most rounds, so it also has positions of rounds that
            # other blocks do not have.
            decided: list[int] = []
            for batches in self.batches.values():
                decided += batches.rounds().values()
            rounds = max(decided)
        return self._order(rounds)

    @cache  # noqa: B019 - one instance
    def _order(self, rounds: int) -> dict[CellRoundKey, int]:
        block_axes = {name: study.block for name, study in self.config.studies.items()}
        return run_order(self.cells, block_axes, rounds, self.config.settings.seed, self.by_block)

    @cache  # noqa: B019 - one instance
    def environments(self, study: str, path: str) -> list[str]:
        """Return the folders of a cell's conda environments, and the record of each."""
        files = []
        for name in self.draft(self.cell(study, path))["environments"]:
            files += [f"{ENVIRONMENTS}/{name}", f"{ENVIRONMENTS}/{name}.sha256"]
        return files

    def grid_rows(self, study: str) -> list[list[str]]:
        """Return the heading and the rows of results/grid/<study>.csv."""
        cells = self.grids[study]
        rows = [["cell", *cells[0].axes, "skip"]]
        for cell in cells:
            rows.append([cell.path, *cell.axes.values(), cell.skip])
        return rows
