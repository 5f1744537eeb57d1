"""What `vcsbench plan` says: cells, room, time, and what that can show."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator

from vcsbench import words
from vcsbench.axes.values import found_out
from vcsbench.foresee import power
from vcsbench.foresee.calibration import LIMIT_S, Say, calibrate
from vcsbench.foresee.costs import Costs, seen_here
from vcsbench.foresee.effects import effects
from vcsbench.foresee.forecast import Forecast, cell_rounds, forecast, round_s, rounds, to_load
from vcsbench.foresee.noise import RUN_S, probe, scatter
from vcsbench.foresee.others import at_work
from vcsbench.foresee.skips import grouped_skips
from vcsbench.plan.plan import Plan
from vcsbench.plan.twins import is_twin
from vcsbench.statistics.contract import Limits
from vcsbench.subjects.repository.shelf import Shelf


def outlook(plan: Plan, shelf: Shelf, say: Say) -> Iterator[str]:
    """The plan as lines, each as soon as it is known. `say` gets what is being done meanwhile. A UserError
    where a run would fail."""
    yield from ("Cells", *_cells(plan))
    yield from ("", "What a run does to this machine")
    yield from (f"  {sentence}" for sentence in effects(plan, shelf, at_work()))
    costs, calibration = seen_here(plan), None
    prepared = not to_load(shelf) and not any(map(shelf.missing, shelf.storages))
    if any(cell_rounds(plan).values()) and (not costs or not prepared):
        calibration = calibrate(plan, shelf, say, 0.0 if costs else LIMIT_S)
        costs = costs or calibration.costs
    told = forecast(plan, shelf, costs, calibration)
    more = _more_rounds(plan, costs, told)
    yield from ("", f"Time, from {costs.says}", *_time(plan, told))
    yield from ("", "What it can show", *_shown(plan, costs, rounds(plan) + more, say))


def _more_rounds(plan: Plan, costs: Costs, told: Forecast) -> int:
    """How many more rounds of all cells there is time for, where a run has minutes."""
    each_s = round_s(plan, costs)
    return int(max(0.0, (plan.config.minutes or 0.0) * 60 - told.total_s) / each_s) if each_s else 0


def _cells(plan: Plan) -> Iterator[str]:
    for study, grid in plan.grids.items():
        cells = [cell for cell in grid if not cell.skip]
        number, least = words.count_of(len(cells), "cell"), words.count_of(rounds(plan), "round")
        twins = sum(is_twin(cell.path) for cell in cells)
        twice = f" ({len(cells) - twins}, and {twins} of them twice)" if twins else ""
        yield f"  {study}: {number}{twice} in {least}, {len(grid) - len(cells)} skipped"
        for axis in plan.config.studies[study].block[:1]:
            counted = Counter(cell.axes[axis] for cell in cells)
            yield "    " + ", ".join(f"{value or '-'} {n}" for value, n in counted.items())
        yield from (f"    {said}" for said in found_out(plan.config.studies[study], plan.here))
        for reason, n in grouped_skips(grid):
            yield f"    skipped, {n}: {reason}"
    whole = sum(len(plan.exports_of(cell)) for cell in plan.cells)
    wanted = sum(cell_rounds(plan).values())
    there = f", {whole - wanted} are there" if wanted < whole else ""
    yield f"  {words.count_of(wanted, 'cell-round')} to measure{there}"


def _time(plan: Plan, told: Forecast) -> Iterator[str]:
    width = max(map(len, told.stages))
    for stage, seconds in told.stages.items():
        known = "not known" if stage in told.unknown else words.duration(seconds)
        yield f"  {stage:<{width}}  {known:>9}" + ("  (done)" if stage == "set-up" else "")
    yield f"  {'all':<{width}}  {words.duration(told.total_s):>9}, give or take half of it"
    minutes = plan.config.minutes or 0.0
    if minutes * 60 > told.total_s:
        yield f"  more rounds, where they answer most, until all is answered or {minutes:g} min are over"
    elif minutes:
        yield f"  which is more than `minutes: {minutes:g}`: so many rounds come first"


def _shown(plan: Plan, costs: Costs, number: int, say: Say) -> Iterator[str]:
    seen = _scatter_of_results(costs)
    if seen:
        share, whence = seen, "as earlier results do"
    else:
        say("runs that do the same, to hear the machine's noise")
        share, whence = scatter(probe()), f"as runs of {RUN_S:g} s did just now"
    yield f"  Where rounds scatter by {100 * share:.0f} %, {whence}:"
    enough = plan.config.thresholds["min_rounds"]
    if number >= enough:
        shown = power.shown_pct(share, number)
        size = f"{shown:.0f} %" if shown < 100 else f"a factor of {1 + shown / 100:.1f}"
        yield f"  {number} rounds show differences of {size} and more between two cells;"
    else:
        yield f"  nothing is concluded from fewer than {enough:g} rounds (`thresholds.min_rounds`);"
    yield f"  {power.rounds_said(share, Limits(**plan.config.limits))}."


def _scatter_of_results(costs: Costs) -> float:
    """By how much the rounds of a cell differ, over all cells that were seen in several; 0 where none was."""
    squares = degrees = 0.0
    for times in costs.rounds():
        if len(times) > 1:
            squares += statistics.variance(map(math.log, times)) * (len(times) - 1)
            degrees += len(times) - 1
    return math.expm1(math.sqrt(squares / degrees)) if degrees else 0.0
