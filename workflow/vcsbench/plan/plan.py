"""All that the rules ask while Snakemake builds its graph: cells, their specs and order, repositories."""

from __future__ import annotations

import datetime
import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from vcsbench import sources
from vcsbench.axes import build as builds
from vcsbench.axes.ra import ACCESS
from vcsbench.config.configuration import Config, load_config
from vcsbench.config.study import Study
from vcsbench.errors import UserError
from vcsbench.machine import Machine, why_never_cold
from vcsbench.plan import fresh
from vcsbench.plan.grid import Cell, make_grid, run_order
from vcsbench.plan.recipe import about, cell_spec
from vcsbench.sources import Source
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import copies, loading
from vcsbench.subjects.repository.copies import Variant

# Subversion's shards as every `svnadmin create` makes them; only full ones get packed.
SHARD = 1000


class Plan:
    """What the configuration asks of this machine."""

    def __init__(
        self, raw: Mapping[str, Any], root: Path, files: Sequence[Path], deployed: bool = False
    ) -> None:
        self.config: Config = load_config(raw, root, files)
        self.began = time.time()
        self.all_fresh = True
        self.machine = Machine(deployed=deployed)
        self.sources: dict[str, Source] = {}
        self.revisions: dict[str, int] = {}
        self.moments: dict[str, str] = {}
        self.moments_loaded: dict[str, str] = {}
        self.missing: dict[str, list[tuple[Variant, int]]] = {}
        self.specs: dict[tuple[str, str], dict[str, Any]] = {}
        for name, definition in self.config.repositories.items():
            where = self.config.where(["repositories"])
            self.sources[name] = sources.open_source(name, definition, where)
        self.grids = {
            name: make_grid(self.config, study, partial(self.why_skip, study))
            for name, study in self.config.studies.items()
        }
        for name in sorted({cell.axes["repo"] for cell in self.all_cells}):
            self.sources[name].check()

    @cached_property
    def all_cells(self) -> list[Cell]:
        """The cells of all studies that this machine can measure."""
        return [cell for grid in self.grids.values() for cell in grid if not cell.skip]

    @cached_property
    def by_path(self) -> dict[tuple[str, str], Cell]:
        """The measured cells by study and path."""
        return {(cell.study, cell.path): cell for cell in self.all_cells}

    @cached_property
    def order(self) -> dict[tuple[str, str, int], int]:
        """The position of each cell-round in the whole run."""
        return run_order(self.all_cells, self.config["rounds"], self.config["seed"])

    def why_skip(self, study: Study, axes: Mapping[str, str]) -> str:
        """Why a cell cannot be measured here; "" if it can."""
        storage = self.config["storages"][self.storage_of(axes)]
        argv = study.commands[axes["command"]]["argv"]
        server = ACCESS[axes.get("ra", "")].server
        build = self.config.build_of(axes)
        reason = builds.why_lacking(build, self.machine, argv, server)
        if not reason and axes.get("cache") == "cold":
            reason = why_never_cold(self.machine, storage, self.config["clear_caches"])
        if not reason and axes.get("packing") == "pack":
            revisions = self._revisions(axes["repo"])
            if revisions < SHARD:
                reason = (
                    f"{axes['repo']} has {revisions} revisions, fewer than a shard of {SHARD}: "
                    f"there is nothing to pack"
                )
        return reason

    def storage_of(self, axes: Mapping[str, str]) -> str:
        """The name of the storage that holds a cell's repository."""
        return axes.get("storage") or self.config["storage"]

    def _revisions(self, repo: str) -> int:
        if repo not in self.revisions:
            self.sources[repo].check()
            self.revisions[repo] = self.sources[repo].estimate().revisions
        return self.revisions[repo]

    @cached_property
    def about(self) -> dict[str, dict[str, Any]]:
        """What a spec says of each repository that cells read (specs.about)."""
        names = sorted({cell.axes["repo"] for cell in self.all_cells})
        return {name: about(name, self.sources[name]) for name in names}

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

    def spec(self, study: str, path: str) -> dict[str, Any]:
        """The spec of a cell (specs.cell_spec) and its digest; made once, and asked for in every round."""
        if (study, path) not in self.specs:
            cell = self.cell(study, path)
            repository = self.about[cell.axes["repo"]]
            spec = cell_spec(
                self.config, self.config.studies[study], cell, repository, self.machine
            )
            text = json.dumps(spec, sort_keys=True)
            spec["spec_digest"] = hashlib.sha256(text.encode()).hexdigest()[:16]
            self.specs[study, path] = spec
        return self.specs[study, path]

    def cell_files(self, study: str, only_fresh: bool = False) -> list[str]:
        """The exports that a study's measurements are made of: all of its rounds, or only those that there
        are, measured as their spec says now."""
        wanted = [
            export
            for cell in self.grids[study]
            if not cell.skip
            for export in self.exports_of(cell)
        ]
        return fresh.only_fresh(wanted, self.spec_digest) if only_fresh else wanted

    def exports_of(self, cell: Cell) -> list[str]:
        """The exports of all rounds of a cell."""
        folder = f"results/cells/{cell.study}/{cell.path}"
        return [f"{folder}/round{number}.json" for number in range(1, self.config["rounds"] + 1)]

    def is_fresh(self, wildcards: Any) -> bool:
        """Whether a cell-round has a result, measured as its spec says now."""
        export = f"results/cells/{wildcards.study}/{wildcards.cell}/round{wildcards.round}.json"
        found = fresh.is_fresh(f"{self.config.root}/{export}", self.spec_digest)
        self.all_fresh &= found
        return found

    def only_copies_were_made(self) -> bool:
        """Whether this run has made copies and measured nothing."""
        records = (self.config.root / "results" / "repositories").glob("*.json")
        return self.all_fresh and any(path.stat().st_mtime >= self.began for path in records)

    def spec_json(self, study: str, path: str) -> str:
        """The spec as JSON, as the measuring process takes it."""
        return json.dumps(self.spec(study, path))

    def spec_digest(self, study: str, path: str) -> str:
        """A digest of the spec; "" for a cell that is not measured."""
        return str(self.spec(study, path)["spec_digest"]) if (study, path) in self.by_path else ""

    def is_measured(self, storage: str) -> bool:
        """Whether all cell-rounds on a storage have a result, measured as their spec says now."""
        return all(
            fresh.is_fresh(f"{self.config.root}/{export}", self.spec_digest)
            for cell in self.all_cells
            if self.storage_of(cell.axes) == storage
            for export in self.exports_of(cell)
        )

    def position(self, wildcards: Any) -> int:
        """Where a cell-round stands in the whole run; one that is asked for by hand comes last."""
        key = (wildcards.study, wildcards.cell, int(wildcards.round))
        return self.order.get(key, len(self.order))

    @cached_property
    def environments(self) -> dict[str, str]:
        """The conda environments of all builds: the name of each, and its file."""
        builds = self.config.builds.values()
        return {name: file for build in builds for name, file in build.environments.items()}

    def environment_records(self, wildcards: Any) -> list[str]:
        """The records of the conda environments that a cell's build is made of."""
        build = self.config.build_of(self.cell(wildcards.study, wildcards.cell).axes)
        return [builds.environment_record(name, self.config.root) for name in build.environments]

    def storage_of_cell(self, wildcards: Any) -> str:
        """The name of the storage of a cell, by its wildcards."""
        return self.storage_of(self.cell(wildcards.study, wildcards.cell).axes)

    def grid_rows(self, study: str) -> list[list[str]]:
        """The grid as its file has it: a heading and a row for each cell."""
        cells = self.grids[study]
        rows = [[cell.path, *cell.axes.values(), cell.skip] for cell in cells]
        return [["cell", *cells[0].axes, "skip"], *rows]

    def variants_of(self, repo: str) -> list[list[str]]:
        """The formats and packings of a repository that cells read."""
        found = {
            (v.format, v.packing)
            for s in self.storages()
            for v in self.variants(s)
            if v.repo == repo
        }
        return [list(pair) for pair in sorted(found)]

    def repositories(self, storage: str) -> list[str]:
        """The names of the repositories on a storage."""
        return sorted({variant.repo for variant in self.variants(storage)})

    def variant_rows(self, storage: str) -> list[list[str]]:
        """The variants on a storage as plain data."""
        return [[v.repo, v.format, v.packing, v.identity] for v in self.variants(storage)]

    def variants(self, storage: str) -> list[Variant]:
        """The repositories that cells read from a storage, in every format and packing."""
        wanted = {
            (c.axes["repo"], c.axes["format"], c.axes["packing"])
            for c in self.all_cells
            if self.storage_of(c.axes) == storage
        }
        return [Variant(r, f, p, self.about[r]["identity"]) for r, f, p in sorted(wanted)]

    def storages(self) -> list[str]:
        """The names of the storages that cells use."""
        return sorted({self.storage_of(cell.axes) for cell in self.all_cells})

    def other_storages(self, storage: str) -> dict[str, list[str]]:
        """By repository of a storage, the other storages that get copies of it."""
        return {
            repo: [s for s in self.storages() if s != storage and repo in self.repositories(s)]
            for repo in self.repositories(storage)
        }

    def place(self, storage: str) -> Place:
        """vcsbench's folder on a storage."""
        return Place(self.config["storages"][storage], self.config.root)

    def places(self) -> list[Place]:
        """vcsbench's folders on all storages and in the scratch folder."""
        folders = [*self.config["storages"].values(), self.config["scratch"]]
        return [Place(folder, self.config.root) for folder in dict.fromkeys(folders)]

    def scratch(self) -> Place:
        """vcsbench's folder in the scratch folder."""
        return Place(self.config["scratch"], self.config.root)

    def made(self, storage: str) -> str:
        """When the copies on a storage were made, as their record has it; another moment where some have
        vanished (a tmpfs after a reboot) or were changed, so that the rule that makes them runs again."""
        if storage not in self.moments:
            self.moments[storage] = self._look_after(storage)
        return self.moments[storage]

    def _look_after(self, storage: str) -> str:
        record = self.config.root / "results" / "repositories" / f"{storage}.json"
        place, known = self.place(storage), copies.recorded(record, self.variants(storage))
        gone = [pair for pair in self._missing(storage) if pair[0] in known]
        if gone:
            print(copies.said_of_gone(place.path, gone), file=sys.stderr)
        whole = not gone and (not known or copies.empty_is_whole(place.path))
        return (copies.moment(record) if whole else "") or _now()

    def _missing(self, storage: str) -> list[tuple[Variant, int]]:
        if storage not in self.missing:
            place, variants = self.place(storage), self.variants(storage)
            self.missing[storage] = copies.missing(
                place.path, variants, self.config["copies"], copies.LOOKED_AT
            )
        return self.missing[storage]

    def loaded(self, repo: str) -> str:
        """When a repository was loaded, as its record has it; another moment where there is nothing left to
        make copies from that are missing, so that the rule that loads runs again."""
        if repo not in self.moments_loaded:
            record = self.config.root / "results" / "loaded" / f"{repo}.json"
            gone = any(
                self._is_gone(storage, variant)
                for storage in self.storages()
                for variant in self.variants(storage)
                if variant.repo == repo
            )
            self.moments_loaded[repo] = ("" if gone else copies.moment(record)) or _now()
        return self.moments_loaded[repo]

    def _is_gone(self, storage: str, variant: Variant) -> bool:
        """Whether there is neither a copy of a variant on a storage, nor what one could be made from."""
        place, numbers = self.place(storage), range(1, self.config["copies"] + 1)
        below = Path(loading.FOLDER, variant.repo, f"{variant.format}.{variant.packing}", "format")
        missing = self._missing(storage)
        return all((variant, number) in missing for number in numbers) and not any(
            (p.path / below).exists() for p in (self.scratch(), place)
        )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat()
