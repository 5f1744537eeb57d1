"""A short calibration: a sample of what the run prepares is prepared, and a cell-round or two of each class
of cells is measured on it. What the whole takes is worked out from how much more that is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from vcsbench.axes.filesystem import mounted_folders
from vcsbench.files import read_json
from vcsbench.foresee.costs import Costs, Seen, told
from vcsbench.foresee.sample import REVISIONS, Loaded, Sample, sample
from vcsbench.plan import twins
from vcsbench.plan.fixed_cost import is_fixed_cost
from vcsbench.plan.grid import Cell
from vcsbench.plan.plan import Plan
from vcsbench.sources import Estimate
from vcsbench.subjects.repository.labels import last_of
from vcsbench.subjects.repository.shelf import Shelf

# When so much was spent on cell-rounds, no other is begun.
LIMIT_S = 45.0
# What a command does no more of, whatever the repository has.
_LIMIT = re.compile(r"--limit[= ](\d+)")

Say = Callable[[str], None]


class Calibration(NamedTuple):
    """What was seen: by repository what its sample took, by storage the seconds for one copy of each variant
    of the samples, and what cell-rounds take of the whole repositories."""

    loaded: dict[str, Loaded]
    copied: dict[str, float]
    costs: Costs


def calibrate(plan: Plan, shelf: Shelf, say: Say, limit_s: float = LIMIT_S) -> Calibration:
    """Prepare samples, and measure some cells on them. Nothing of it stays. A UserError where a history
    cannot be read or loaded."""
    config = plan.config
    used = {plan.parts(cell)["storage"]["path"] for cell in plan.cells}
    folders = [config.settings.scratch, *sorted(used.union(mounted_folders(config)))]
    with sample(config.root, folders) as small:
        loaded, copied = {}, {}
        for repo in shelf.all_repositories():
            say(f"loading the first revisions of {repo}")
            args = (repo, shelf.formats(repo), config.settings.scratch, _copies(shelf, repo))
            loaded[repo] = small.load(plan.here.sources[repo], *args)
            if repo in shelf.dumps:
                small.dump(loaded[repo], shelf.dumps[repo], config.settings.scratch)
        for name in shelf.storages:
            say(f"copying them to {name}")
            folder, fragmentation_kib = (
                config.settings.storages[name],
                config.settings.fragmentation_kib,
            )
            copied[name] = small.copy(name, folder, shelf.wanted[name], loaded, fragmentation_kib)
        seen = _measure(plan, shelf.storages, small, say, limit_s)
    return Calibration(loaded, copied, Costs(plan, seen, f"{len(seen)} cell-rounds on a sample"))


def _copies(shelf: Shelf, repo: str) -> dict[str, int]:
    """By folder of a storage, how many copies of a repository a run makes there."""
    return {
        shelf.folders[name]: sum(variant.repo == repo for variant, _ in shelf.missing(name))
        for name in shelf.storages
    }


def _measure(
    plan: Plan, storages: Sequence[str], small: Sample, say: Say, limit_s: float
) -> list[Seen]:
    cells, seen = _chosen(plan), list[Seen]()
    folders = plan.config.settings.storages
    idle = {name: small.idle_s(folders[name]) for name in storages}
    spent_s = 0.0
    for number, cell in enumerate(cells, 1):
        if spent_s >= limit_s:
            break
        say(f"measuring on them, {number} of {len(cells)}: {cell.path}")
        recipe = plan.recipe(cell.study, cell.path)
        export = small.measure(recipe, plan.config.thresholds)
        if export:
            context = read_json(export.with_suffix(".context.json"))
            one = told(context, export)
            spent_s += one.wall_s
            seen.append(
                _of_the_whole(one, context, plan, idle.get(recipe["storage"]["shelf"], 0.0))
            )
    return seen


def _chosen(plan: Plan) -> list[Cell]:
    """The first cell of each class in the order of the grid and then the last: these two differ in all else,
    so that the mean of both is near that of all. Only of those that need no more than samples are."""
    classes: dict[tuple[str, ...], list[Cell]] = {}
    for cell in plan.cells:
        ready = all(
            (plan.root / record).exists()
            for record in plan.environment_records(cell.study, cell.path)
        )
        sampled = plan.parts(cell)["input"] in ("repository", "dump", "tree")
        if sampled and ready and not twins.is_twin(cell.path) and not is_fixed_cost(cell.axes):
            named = plan.config.studies[cell.study].cost_class
            classes.setdefault((cell.study, *twins.class_of(cell.axes, named)), []).append(cell)
    firsts = [cells[0] for cells in classes.values()]
    return firsts + [cells[-1] for cells in classes.values() if len(cells) > 1]


def _of_the_whole(one: Seen, context: Mapping[str, Any], plan: Plan, idle_s: float) -> Seen:
    """What the cell-round would have taken on the whole repository: each run does so much more work."""
    estimate = plan.here.sources[context["repository"]["name"]].estimate()
    parts = plan.parts(plan.cell(context["study"], context["cell"]))
    if "revisions" in parts:
        estimate = replace(estimate, revisions=last_of(parts, estimate.revisions))
    more = growth(context["runs"][0]["work"], estimate, context["argv_template"])
    times = [idle_s + max(0.0, time - idle_s) * more for time in one.times]
    per_run = sum(times) / len(times) / (sum(one.times) / len(one.times))
    runs_s = one.runs_s * per_run
    return one._replace(wall_s=one.wall_s + runs_s - one.runs_s, runs_s=runs_s, times=times)


def growth(work: Mapping[str, Any], estimate: Estimate, argv: str) -> float:
    """How much more a command does on a whole repository than it did on a sample of it (`work`)."""
    whole = {"revisions": estimate.revisions, "files": estimate.files}
    limit = _LIMIT.search(argv)
    if limit:
        whole["revisions"] = min(whole["revisions"], int(limit[1]))
    known = [whole[key] / work[key] for key in whole if work.get(key) and whole[key]]
    if not known and "files" in work:
        # Nobody has estimated the tree.
        known = [math.sqrt(estimate.revisions / min(REVISIONS, estimate.revisions))]
    return max(1.0, known[0]) if known else 1.0
