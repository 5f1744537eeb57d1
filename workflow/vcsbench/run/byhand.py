"""One cell outside of the workflow: what it does in words, and a run of it that keeps no result."""

from __future__ import annotations

import difflib
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from vcsbench.axes.cache import steps_of
from vcsbench.errors import UserError
from vcsbench.files import server_files
from vcsbench.measure.stage import Stage
from vcsbench.measure.steps import STEPS
from vcsbench.measure.work import kind_of
from vcsbench.plan.plan import Plan
from vcsbench.run.cell import measure
from vcsbench.run.cluster import clean_nodes
from vcsbench.run.leftovers import end_processes, remove_leftovers
from vcsbench.run.lock import checkout_lock
from vcsbench.run.project import Project
from vcsbench.storages.runfolder import abandoned_places, run_folder


def find(plan: Plan, name: str) -> tuple[str, str]:
    """The study and the path of a cell that a user names; a UserError with the nearest if there is none."""
    known = {f"{study}/{path}": (study, path) for study, path in plan.by_path}
    name = name.removeprefix("results/cells/").strip("/")
    found = known.get(name) or next((pair for pair in known.values() if pair[1] == name), None)
    if found:
        return found
    skipped = [c for grid in plan.grids.values() for c in grid if c.skip and name.endswith(c.path)]
    if skipped:
        raise UserError(f"{name}: is skipped on this machine: {skipped[0].skip}")
    near = difflib.get_close_matches(name, [*known, *(path for _, path in plan.by_path)], 3, 0.3)
    hint = f"near it are {', '.join(near)}" if near else "results/grid has them all"
    raise UserError(f"{name}: there is no such cell in the grid; {hint}")


def show(project: Project, study: str, path: str, number: int) -> str:
    """What a round of a cell does, as text."""
    recipe = _prepared(project, study, path)
    state = recipe["state"]
    clears = "clear-caches" in steps_of(state)
    with run_folder(project.config.root) as folder:
        stage = Stage(recipe, number, folder)
        for subject in stage.subjects:
            subject.check()
        stage.fill()
        copy = f" (copy {stage.reads.facts().get('copy', number)})" if stage.reads else ""
        lines = [
            ("cell", f"{study}/{path}, round {number}{copy}"),
            ("times", shlex.join(stage.argv) + (f" < {stage.stdin}" if stage.stdin else "")),
        ]
        if stage.server:
            lines.append(("server", shlex.join(stage.server.of.command(stage.server))))
    if recipe["servers"]:
        files = server_files(Path(recipe["servers"]), recipe["access"]["files"])
        lines.append(("files", ", ".join(map(str, files.values()))))
    lines += _steps("once", state["setup"]) + _steps("before the first", state.get("first", []))
    lines += _steps("before each run", state["prepare"])
    lines += [
        ("runs", f"{_untimed(state)} not count, then {recipe['runs']} timed by hyperfine"),
        ("work", f"{recipe['work']}: {kind_of(recipe['work']).says}"),
        ("caches", f"cleared by {recipe['clearing']}" if clears else "kept"),
        ("result", f"results/cells/{study}/{path}/round{number}.json"),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def run(project: Project, study: str, path: str, number: int) -> str:
    """Run a round of a cell once; returns its times and its certificate as text, and keeps no result."""
    recipe = _prepared(project, study, path)
    exported, context = measure(recipe, number, project.config.thresholds)
    result = json.loads(exported)["results"][0]
    times = result.get("times") or [
        run["time_wall_clock"]["value"] for run in result["measurements"]
    ]
    lines = []
    for seconds, seen in zip(times, context["runs"], strict=True):
        flags = " ".join([*seen["flags"], *context["flags"]]) or "none"
        lines.append(f"run {seen['run']}: {seconds:.3f} s, flags: {flags}")
        lines += [
            f"  {key}: {value}"
            for key, value in seen["certificate"].items()
            if value not in (None, "")
        ]
    return "\n".join(lines)


def clean(project: Project) -> list[str]:
    """Remove what vcsbench made for this checkout: its folders on the storages and in the scratch folder, and
    those on the nodes of a cluster, what killed measurements left, and results/; and the folders of checkouts
    that are no more, as of this one before it was moved. Returns what was removed. A UserError
    while a run is at work."""
    root = project.config.root
    with checkout_lock(root):
        end_processes(root)
        said = clean_nodes(root)
        said += remove_leftovers(root, [])
        here = project.places()
        for place in [*here, *(gone for one in here for gone in abandoned_places(one.storage))]:
            if place.path.exists():
                place.remove()
                said.append(
                    f"{place.path} is left: it has files that vcsbench did not make"
                    if place.path.exists()
                    else f"removed {place.path}"
                )
        results = root / "results"
        if results.is_symlink():
            said.append(f"removed the link {results}; {results.resolve()} is left")
            results.unlink()
        elif results.exists():
            shutil.rmtree(results)
            said.append(f"removed {results}")
    return said or ["there is nothing to remove"]


def _prepared(project: Project, study: str, path: str) -> dict[str, Any]:
    """The recipe of a cell as the workflow passes it on; a UserError where what it needs is not prepared."""
    recipe: dict[str, Any] = json.loads(project.plan.recipe_json(study, path))
    for record in project.records(study, path):
        if not (project.config.root / record).exists():
            raise UserError(
                f"{record}: the cell's subjects are not prepared; `snakemake --cores all {record}` does it"
            )
    return recipe


def _untimed(state: dict[str, Any]) -> str:
    once = "the first over a copy does" if state.get("discard") else ""
    return once if once and not state["warmup"] else f"{state['warmup']} that do"


def _steps(when: str, steps: list[str]) -> list[tuple[str, str]]:
    said = [f"{step}: {(STEPS[step].__doc__ or '').strip().rstrip('.')}" for step in steps]
    return [(when if i == 0 else "", text) for i, text in enumerate(said)]
