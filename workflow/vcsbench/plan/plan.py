"""What the configuration asks of this machine: the cells of each study, their recipes and their order."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from vcsbench.axes.here import Here
from vcsbench.config.builds import environment_record
from vcsbench.config.study import Study
from vcsbench.errors import UserError
from vcsbench.plan import counted, fresh
from vcsbench.plan.fixed_cost import is_fixed_cost
from vcsbench.plan.grid import Cell, is_meant, make_grid
from vcsbench.plan.order import block_of, run_order
from vcsbench.plan.passes import Passes, block_name, subject_digest
from vcsbench.plan.recipe import parts_of, recipe_of, why_not

Recipe = dict[str, Any]


class Plan:
    """All cells of the configured studies; `grids` has them by study, skipped ones included."""

    def __init__(self, here: Here, by_block: bool = False) -> None:
        """`by_block` says whether a block has all of its rounds before another begins."""
        self.here, self.by_block = here, by_block
        self.config = here.config
        self.root = here.root
        self._parts: dict[tuple[str, ...], Recipe] = {}
        self.grids = {
            name: make_grid(here, study, partial(self._why_skip, study))
            for name, study in self.config.studies.items()
        }
        self.cells = [cell for grid in self.grids.values() for cell in grid if not cell.skip]
        self.by_path = {(cell.study, cell.path): cell for cell in self.cells}
        # By study; none where the number of rounds is fixed.
        self.passes = (
            {} if self.config.settings.rounds else {s: self._passes(s) for s in self.grids}
        )
        self._ordered = cache(self._order)

    def _why_skip(self, study: Study, axes: Mapping[str, str]) -> str:
        return why_not(axes, self._parts_of(study, axes), self.here)

    def _parts_of(self, study: Study, axes: Mapping[str, str]) -> Recipe:
        key = (study.name, *axes.values())
        if key not in self._parts:
            self._parts[key] = parts_of(study, axes, self.here)
        return self._parts[key]

    def parts(self, cell: Cell) -> Recipe:
        """What a cell is, without the digests that its recipe has."""
        return self._parts_of(self.config.studies[cell.study], cell.axes)

    def cell(self, study: str, path: str) -> Cell:
        """A cell by its path; a UserError where the grid does not have it, or skips it."""
        if (study, path) in self.by_path:
            return self.by_path[study, path]
        skips = [cell.skip for cell in self.grids.get(study, []) if cell.path == path]
        if skips:
            raise UserError(f"{study}/{path}: is skipped on this machine: {skips[0]}")
        raise UserError(
            f"{study}/{path}: there is no such cell; `grid.{study}` says which there are"
        )

    # This and its JSON are asked for in every round.
    @cache  # noqa: B019 - there is one of it
    def recipe(self, study: str, path: str) -> Recipe:
        """The recipe of a cell."""
        cell = self.cell(study, path)
        return recipe_of(cell, self.parts(cell), self.here)

    @cache  # noqa: B019 - there is one of it
    def recipe_json(self, study: str, path: str) -> str:
        """The recipe as JSON, as the measuring process takes it."""
        return json.dumps(self.recipe(study, path))

    def digest(self, study: str, path: str) -> str:
        """The digest of a recipe; "" for a cell that is not measured."""
        return str(self.recipe(study, path)["digest"]) if (study, path) in self.by_path else ""

    @cache  # noqa: B019 - there is one of it
    def stale_by(self, study: str, path: str, part: str) -> str:
        """Return a digest of one part of a recipe, such as its `code`, or of all the rest for ""."""
        recipe = self.recipe(study, path)
        parts = ("code", "server_files", "binaries")
        rest = {key: value for key, value in recipe.items() if key not in (*parts, "digest")}
        text = json.dumps(recipe[part] if part else rest, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{part or 'settings'} {digest}"

    def _passes(self, study: str) -> Passes:
        histories: dict[str, list[Recipe]] = defaultdict(list)
        for cell in self.measured(study):
            if is_fixed_cost(cell.axes):
                continue
            histories[self.name_of_block(cell)].append(self.parts(cell).get("repository", {}))
        blocks = {block: subject_digest(of) for block, of in histories.items()}
        return Passes(study, self.root, self.config.least_rounds, blocks)

    def measured(self, study: str) -> list[Cell]:
        """The cells of a study that are not skipped."""
        return [cell for cell in self.grids[study] if not cell.skip]

    def name_of_block(self, cell: Cell) -> str:
        """The name of a cell's block."""
        return block_name(self.config.studies[cell.study].block, cell.axes)

    def rounds_of(self, cell: Cell, after: int | None = None) -> int:
        """In how many rounds a cell is measured: those that are fixed, or as many as its block was given,
        by the end of a pass if one is named."""
        if is_fixed_cost(cell.axes):
            return 1
        if not self.passes:
            return self.config.settings.rounds or 0
        return self.passes[cell.study].rounds(after)[self.name_of_block(cell)]

    def rounds_by_cell(self, study: str, after: int | None = None) -> int | dict[str, int]:
        """The same for all cells of a study: one number where it is fixed, else by the cell's path."""
        return {cell.path: self.rounds_of(cell, after) for cell in self.measured(study)}

    def exports_of(self, cell: Cell, after: int | None = None) -> list[str]:
        """The exports of all rounds of a cell."""
        folder = f"results/cells/{cell.study}/{cell.path}"
        return [
            f"{folder}/round{number}.json" for number in range(1, self.rounds_of(cell, after) + 1)
        ]

    def cell_files(self, study: str, only_fresh: bool = False) -> list[str]:
        """The exports that a study's measurements are made of: all of its rounds, or only those that there
        are, measured as their recipe says now."""
        wanted = [export for cell in self.measured(study) for export in self.exports_of(cell)]
        return fresh.only_fresh(wanted, self.digest) if only_fresh else wanted

    @cache  # noqa: B019 - there is one of it
    def counted(self, study: str) -> dict[str, counted.Counted]:
        """Whose system calls are a cell's own, by its path: of the cells whose calls the study counts."""
        wanted = self.config.studies[study].trace_syscalls
        cells = [
            cell
            for cell in self.measured(study)
            if wanted is not None and is_meant(cell.axes, wanted) and not is_fixed_cost(cell.axes)
        ]
        return counted.shared(self.recipe(study, cell.path) for cell in cells)

    def calls_of(self, study: str, there: bool | None = None) -> dict[str, str]:
        """The files of the system calls of a study, by the path of the cell that is run for each: all, or
        those that are there, or those that are not."""
        paths = dict.fromkeys(one.path for one in self.counted(study).values())
        files = {path: f"results/calls/{study}/{path}.json" for path in paths}
        return {p: f for p, f in files.items() if there in (None, (self.root / f).exists())}

    def clients_of(self, study: str) -> list[int]:
        """The numbers of clients for which the machine's ceiling is measured beside a study."""
        axis = self.config.studies[study].machine_limits
        return sorted({int(cell.axes[axis]) for cell in self.measured(study) if cell.axes[axis]})

    @cache  # noqa: B019 - there is one of it
    def is_fresh(self, export: str) -> bool:
        """Whether there was a result at this path when the run began, measured as its recipe says now."""
        return fresh.is_fresh(f"{self.root}/{export}", self.digest)

    @property
    def order(self) -> dict[tuple[str, str, int], int]:
        """The position of each cell-round in the whole run."""
        if not self.passes:
            return self._ordered(self.config.settings.rounds)
        return self._ordered(max(n for p in self.passes.values() for n in p.rounds().values()))

    def _order(self, rounds: int) -> dict[tuple[str, str, int], int]:
        blocks = {name: study.block for name, study in self.config.studies.items()}
        return run_order(self.cells, blocks, rounds, self.config.settings.seed, self.by_block)

    def position(self, wildcards: Any) -> int:
        """Return the position of a cell-round in the whole run. A target of the user's own comes last."""
        return self.position_of(wildcards.study, wildcards.cell, int(wildcards.round))

    def position_of(self, study: str, path: str, number: int) -> int:
        """Return the same by the names of the cell-round."""
        return self.order.get((study, path, number), len(self.order))

    def block(self, study: str, path: str) -> tuple[str, ...]:
        """What tells the block of a cell from others."""
        return block_of(self.cell(study, path), self.config.studies[study].block)

    def environment_records(self, study: str, path: str) -> list[str]:
        """The records of the conda environments that a cell's build is made of."""
        names = self.parts(self.cell(study, path))["environments"]
        return [environment_record(name, self.root) for name in names]

    def grid_rows(self, study: str) -> list[list[str]]:
        """The grid as its file has it: a heading and a row for each cell."""
        cells = self.grids[study]
        rows = [[cell.path, *cell.axes.values(), cell.skip] for cell in cells]
        return [["cell", *cells[0].axes, "skip"], *rows]
