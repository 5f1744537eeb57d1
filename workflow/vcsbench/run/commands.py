"""The commands `show` and `measure`, which work outside of the workflow."""

from __future__ import annotations

import difflib
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.axes.cache import steps_of
from vcsbench.errors import UserError
from vcsbench.files import server_files
from vcsbench.measure.prepared_cell import STEPS, PreparedCell
from vcsbench.measure.work import KINDS
from vcsbench.plan.plan import Plan
from vcsbench.run.cell import measure
from vcsbench.run.project import Project
from vcsbench.storages.workdir import run_folder

if TYPE_CHECKING:
    from vcsbench.records import Recipe


def _find_cell(plan: Plan, name: str) -> tuple[str, str]:
    """Return the study and the path of a cell. Raise a UserError with similar names if there is none."""
    known = {f"{study}/{path}": (study, path) for study, path in plan.by_path}
    name = name.removeprefix("results/cells/").strip("/")
    if cell := known.get(name) or next((p for p in known.values() if p[1] == name), None):
        return cell
    cells = (cell for grid in plan.grids.values() for cell in grid)
    if skipped := next((c for c in cells if c.skip and name.endswith(c.path)), None):
        raise UserError(f"{name}: the cell is skipped on this machine: {skipped.skip}")
    near = difflib.get_close_matches(name, [*known, *(path for _, path in plan.by_path)], 3, 0.3)
    hint = f"Similar cells: {', '.join(near)}." if near else "See results/grid for all cells."
    raise UserError(f"{name}: no such cell in the grid. {hint}")


def describe_cell(project: Project, name: str, number: int) -> str:
    """Return the steps of a round of a cell as text."""
    study, path = _find_cell(project.plan, name)
    recipe = _recipe(project, study, path)
    state = recipe["state"]
    with run_folder(project.config.root) as folder:
        cell = PreparedCell(recipe, number, folder)
        for subject in cell.subjects:
            subject.check()
        cell.fill_in()
        copy = f" (copy {cell.input.facts().get('copy', number)})" if cell.input else ""
        lines = [
            ("cell", f"{study}/{path}, round {number}{copy}"),
            ("command", shlex.join(cell.argv) + (f" < {cell.stdin}" if cell.stdin else "")),
        ]
        if cell.server:
            lines.append(("server", shlex.join(cell.server.command())))
    if recipe["servers"]:
        files = server_files(Path(recipe["servers"]), recipe["access"]["files"])
        lines.append(("files", ", ".join(map(str, files.values()))))
    lines += _steps("once", state["setup"]) + _steps("before the first", state.get("first", []))
    lines += _steps("before each run", state["prepare"])
    is_first_discarded = state.get("discard") and not state["warmup"]
    warmup = "the first run of a copy" if is_first_discarded else f"{state['warmup']} runs"
    clears = "clear-caches" in steps_of(state)
    lines += [
        ("warm-up", warmup),
        ("runs", f"{recipe['runs']} timed by hyperfine"),
        ("work", f"{recipe['work']}: {KINDS[recipe['work']].description}"),
        ("caches", f"cleared by {recipe['clearing']}" if clears else "not cleared"),
        ("result", f"results/cells/{study}/{path}/round{number}.json"),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def measure_once(project: Project, name: str, number: int) -> str:
    """Measure a round of a cell, and return its times, flags and evidence as text. Store no result."""
    recipe = _recipe(project, *_find_cell(project.plan, name))
    exported, context = measure(recipe, number, project.config.thresholds)
    result = json.loads(exported)["results"][0]
    times = result.get("times") or [
        run["time_wall_clock"]["value"] for run in result["measurements"]
    ]
    lines = []
    for seconds, run in zip(times, context["runs"], strict=True):
        flags = " ".join([*run["flags"], *context["flags"]]) or "none"
        lines.append(f"run {run['run']}: {seconds:.3f} s, flags: {flags}")
        evidence = run["certificate"].items()
        lines += [f"  {key}: {value}" for key, value in evidence if value not in (None, "")]
    return "\n".join(lines)


def _recipe(project: Project, study: str, path: str) -> Recipe:
    """Return the recipe of a cell. Raise a UserError if its subjects are not prepared."""
    recipe: Recipe = json.loads(project.plan.recipe_json(study, path))
    for record in project.records(study, path):
        if not (project.config.root / record).exists():
            raise UserError(
                f"{record}: the subjects of the cell are not prepared. Run `snakemake --cores all {record}`."
            )
    return recipe


def _steps(when: str, steps: list[str]) -> list[tuple[str, str]]:
    texts = [f"{step}: {(STEPS[step].__doc__ or '').strip().rstrip('.')}" for step in steps]
    return [(when if i == 0 else "", text) for i, text in enumerate(texts)]
