"""Plan a run: the cells of each study, their recipes, files and order."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from vcsbench.axes.axis import Environment
from vcsbench.config.builds import environment_record
from vcsbench.config.study import Study
from vcsbench.errors import UserError
from vcsbench.plan import recipe as recipes
from vcsbench.plan.grid import CellSpec, is_fixed_cost, is_within, make_grid
from vcsbench.plan.order import block_of, run_order
from vcsbench.plan.recipe import CallCount
from vcsbench.plan.result_state import (
    SamplingBatches,
    block_name,
    is_up_to_date,
    only_up_to_date,
    subject_digest,
)

if TYPE_CHECKING:
    from vcsbench.records import Recipe, RepositoryPart


class CellRoundWildcards(Protocol):
    """The wildcards of a rule for one cell-round."""

    study: str
    cell: str
    round: str


class Plan:
    """The cells of the configured studies; `grids` has them by study, skipped ones included."""

    def __init__(self, env: Environment, by_block: bool = False) -> None:
        """With `by_block`, a block has all of its rounds before another begins."""
        self.env, self.by_block = env, by_block
        self.config = env.config
        self.root = env.root
        self._parts: dict[tuple[str, ...], Recipe] = {}
        self.grids = {
            name: make_grid(env, study, partial(self._why_skip, study))
            for name, study in self.config.studies.items()
        }
        self.cells = [cell for grid in self.grids.values() for cell in grid if not cell.skip]
        self.by_path = {(cell.study, cell.path): cell for cell in self.cells}
        # By study; empty if the number of rounds is fixed.
        self.passes = (
            {} if self.config.settings.rounds else {s: self._batches(s) for s in self.grids}
        )
        self._ordered = cache(self._order)

    def _why_skip(self, study: Study, axes: Mapping[str, str]) -> str:
        return recipes.why_not(axes, self._parts_of(study, axes), self.env)

    def _parts_of(self, study: Study, axes: Mapping[str, str]) -> Recipe:
        key = (study.name, *axes.values())
        if key not in self._parts:
            self._parts[key] = recipes.parts_of(study, axes, self.env)
        return self._parts[key]

    def parts(self, cell: CellSpec) -> Recipe:
        """Return the recipe of a cell without its digests."""
        return self._parts_of(self.config.studies[cell.study], cell.axes)

    def cell(self, study: str, path: str) -> CellSpec:
        """Return a cell by its path. Raise UserError if the grid lacks it, or skips it."""
        if (study, path) in self.by_path:
            return self.by_path[study, path]
        for cell in self.grids.get(study, []):
            if cell.path == path:
                raise UserError(f"{study}/{path}: is skipped on this machine: {cell.skip}")
        raise UserError(f"{study}/{path}: no such cell. `grid.{study}` defines the cells.")

    # Each round needs the recipe and its JSON.
    @cache  # noqa: B019 - there is one of it
    def recipe(self, study: str, path: str) -> Recipe:
        """Return the recipe of a cell."""
        cell = self.cell(study, path)
        return recipes.recipe_of(cell, self.parts(cell), self.env)

    @cache  # noqa: B019 - there is one of it
    def recipe_json(self, study: str, path: str) -> str:
        """Return the recipe as JSON, for the measuring process."""
        return json.dumps(self.recipe(study, path))

    def digest(self, study: str, path: str) -> str:
        """Return the digest of a recipe; "" for a cell that is not measured."""
        return str(self.recipe(study, path)["digest"]) if (study, path) in self.by_path else ""

    @cache  # noqa: B019 - one instance; called for each round of a cell
    def recipe_digests(self, study: str, path: str) -> str:
        """Return a digest of each part of a recipe: code, server files, binaries, and all other settings."""
        recipe = self.recipe(study, path)
        parts: dict[str, object] = {
            "code": recipe["code"],
            "server_files": recipe["server_files"],
            "binaries": recipe["binaries"],
        }
        parts["settings"] = {k: v for k, v in recipe.items() if k not in (*parts, "digest")}
        texts = {part: json.dumps(content, sort_keys=True) for part, content in parts.items()}
        digests = {part: hashlib.sha256(text.encode()).hexdigest() for part, text in texts.items()}
        return ", ".join(f"{part} {digest[:12]}" for part, digest in digests.items())

    def _batches(self, study: str) -> SamplingBatches:
        subjects: dict[str, list[RepositoryPart]] = defaultdict(list)
        for cell in self.measured(study):
            if not is_fixed_cost(cell.axes):
                repository = self.parts(cell).get("repository", {})
                subjects[self.name_of_block(cell)].append(repository)
        blocks = {block: subject_digest(of) for block, of in subjects.items()}
        return SamplingBatches(study, self.root, self.config.least_rounds, blocks)

    def measured(self, study: str) -> list[CellSpec]:
        """Return the cells of a study that are not skipped."""
        return [cell for cell in self.grids[study] if not cell.skip]

    def name_of_block(self, cell: CellSpec) -> str:
        """Return the name of a cell's block."""
        return block_name(self.config.studies[cell.study].block, cell.axes)

    def rounds_of(self, cell: CellSpec, after: int | None = None) -> int:
        """Return the number of rounds of a cell: the fixed one, or its block's after a batch."""
        if is_fixed_cost(cell.axes):
            return 1
        if not self.passes:
            return self.config.settings.rounds or 0
        return self.passes[cell.study].rounds(after)[self.name_of_block(cell)]

    def rounds_by_cell(self, study: str, after: int | None = None) -> int | dict[str, int]:
        """Return the number of rounds of each cell of a study, by path."""
        return {cell.path: self.rounds_of(cell, after) for cell in self.measured(study)}

    def exports_of(self, cell: CellSpec, after: int | None = None) -> list[str]:
        """Return the export files of all rounds of a cell."""
        folder = f"results/cells/{cell.study}/{cell.path}"
        return [f"{folder}/round{n}.json" for n in range(1, self.rounds_of(cell, after) + 1)]

    def cell_files(self, study: str, only_fresh: bool = False) -> list[str]:
        """Return the export files of a study: all of its rounds, or only those that are up to date."""
        exports = [export for cell in self.measured(study) for export in self.exports_of(cell)]
        return only_up_to_date(exports, self.digest) if only_fresh else exports

    @cache  # noqa: B019 - there is one of it
    def counted(self, study: str) -> dict[str, CallCount]:
        """Return by path which cell counts a cell's system calls, of the cells whose calls are counted."""
        part = self.config.studies[study].trace_syscalls
        if part is None:
            return {}
        return recipes.call_counts(
            self.recipe(study, cell.path)
            for cell in self.measured(study)
            if is_within(cell.axes, part) and not is_fixed_cost(cell.axes)
        )

    def calls_of(self, study: str, existing: bool | None = None) -> dict[str, str]:
        """Return the files of system calls of a study by the path of the counting cell: all, or the existing
        (`existing`) or the missing ones."""
        paths = dict.fromkeys(count.path for count in self.counted(study).values())
        files = {path: f"results/calls/{study}/{path}.json" for path in paths}
        return {p: f for p, f in files.items() if existing in (None, (self.root / f).exists())}

    @cache  # noqa: B019 - there is one of it
    def is_fresh(self, export: str) -> bool:
        """Return True if a result was up to date when the run began."""
        return is_up_to_date(f"{self.root}/{export}", self.digest)

    @property
    def order(self) -> dict[tuple[str, str, int], int]:
        """Return the position of each cell-round (study, path, round) in the whole run."""
        if not self.passes:
            return self._ordered(self.config.settings.rounds)
        return self._ordered(max(n for p in self.passes.values() for n in p.rounds().values()))

    def _order(self, rounds: int) -> dict[tuple[str, str, int], int]:
        blocks = {name: study.block for name, study in self.config.studies.items()}
        return run_order(self.cells, blocks, rounds, self.config.settings.seed, self.by_block)

    def position(self, wildcards: CellRoundWildcards) -> int:
        """Return the position of a cell-round by its wildcards. A target that the user named comes last."""
        return self.position_of(wildcards.study, wildcards.cell, int(wildcards.round))

    def position_of(self, study: str, path: str, number: int) -> int:
        """Return the position of a cell-round by the names of its study, cell and round."""
        return self.order.get((study, path, number), len(self.order))

    def block(self, study: str, path: str) -> tuple[str, ...]:
        """Return the key of a cell's block."""
        return block_of(self.cell(study, path), self.config.studies[study].block)

    def environment_records(self, study: str, path: str) -> list[str]:
        """Return the record files of the conda environments of a cell's build."""
        names = self.parts(self.cell(study, path))["environments"]
        return [environment_record(name, self.root) for name in names]

    def grid_rows(self, study: str) -> list[list[str]]:
        """Return the rows of the grid file, a heading first: cell, axes, skip."""
        cells = self.grids[study]
        rows = [[cell.path, *cell.axes.values(), cell.skip] for cell in cells]
        return [["cell", *cells[0].axes, "skip"], *rows]
