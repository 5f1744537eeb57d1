"""The report of `vcsbench plan`: cells, side effects, duration, and detectable differences."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from vcsbench import words
from vcsbench.axes import findings_of
from vcsbench.codes import StopReason
from vcsbench.evidence.measurements import read_measurements
from vcsbench.files import read_json
from vcsbench.forecast import trials
from vcsbench.forecast.durations import forecast_run, unmeasured_rounds
from vcsbench.forecast.side_effects import loaded_bytes, side_effects
from vcsbench.machine import host, host_label
from vcsbench.plan.grid import CellSpec, is_duplicate, is_fixed_cost
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import decision_of
from vcsbench.prepare.repositories import PreparedRepositories
from vcsbench.statistics.calls import detectable_effect
from vcsbench.statistics.noise import run_scatter
from vcsbench.systems import SYSTEMS, repository_system

# The variance of a comparison is estimated from this many comparisons of its class, about.
COMPARISONS = 10
# As a logarithm. Larger differences need no statistics.
MAX_EFFECT = 10.0


def describe_plan(
    plan: Plan, repositories: PreparedRepositories, spent_s: float = 0.0
) -> Iterator[str]:
    """Yield the lines of a report on the next run: what it measures, its side effects, and its duration.

    `spent_s` are the seconds of earlier runs for results that are still valid: they count in the time limit.
    """
    yield "Repositories"
    yield from _describe_repositories(plan)
    yield ""
    yield "Cells"
    for study in plan.grids:
        yield from _describe_cells(plan, study)
    yield _describe_rest(plan)
    yield ""
    yield "Side effects"
    for effect in side_effects(plan, repositories):
        yield f"  {effect}"
    yield ""
    yield from _describe_duration(plan, repositories, spent_s)
    yield from _describe_detectable_differences(plan)
    yield from _describe_lacks("Cannot be measured here", plan, trials.OF_SOME_CELLS)
    yield from _describe_lacks("Less evidence", plan, trials.EVIDENCE)


def _describe_lacks(heading: str, plan: Plan, tried: Sequence[trials.Trial]) -> Iterator[str]:
    """Yield a heading and a sentence for each thing that this machine lacks; nothing if it has all."""
    lacks = trials.find_lacks(plan, tried)
    if lacks:
        yield ""
        yield heading
        for lack in lacks:
            yield f"  {lack.sentence()}"


def _describe_repositories(plan: Plan) -> Iterator[str]:
    """Yield a line for each repository that cells read, and one line for the other configured ones.

    For example: "  ruby: 526 revisions, about 12 MiB loaded, for fsfs-san-2014".
    """
    unused = []
    units = _units_by_repository(plan)
    for name, studies in _studies_by_repository(plan).items():
        if not studies:
            unused.append(name)
            continue
        revisions = words.count_of(plan.env.revisions(name), units[name])
        size = words.size(loaded_bytes(plan, name))
        yield f"  {name}: {revisions}, about {size} loaded, for {words.enumeration(studies)}"
    if unused:
        yield f"  not measured in these studies: {', '.join(unused)}"


def _studies_by_repository(plan: Plan) -> dict[str, list[str]]:
    """Return the names of the studies that read each configured repository, such as {"ruby": ["builds"]}."""
    studies_by_repository: dict[str, list[str]] = {name: [] for name in plan.env.named_repositories}
    for cell in plan.cells:
        name = plan.draft(cell).get("repository", {}).get("name")
        # The empty repository is not configured, and so has no key.
        if name in studies_by_repository and cell.study not in studies_by_repository[name]:
            studies_by_repository[name].append(cell.study)
    return studies_by_repository


def _units_by_repository(plan: Plan) -> dict[str, str]:
    """Return the unit of the histories of repositories that cells read: {"ruby": "revision"}.

    If several systems load a repository, the first of them in SYSTEMS gives the unit.
    """
    systems_by_repository: dict[str, set[str]] = {}
    for cell in plan.cells:
        repository = plan.draft(cell).get("repository", {})
        names = systems_by_repository.setdefault(repository.get("name", ""), set())
        names.add(repository_system(repository).name)
    units = {}
    for name, systems in systems_by_repository.items():
        units[name] = next(system.unit for system in SYSTEMS.values() if system.name in systems)
    return units


def _describe_cells(plan: Plan, study: str) -> Iterator[str]:
    """Yield lines on the cells of a study: how many there are, facts about them, and why some are skipped.

    For example: "  fsfs-san-2014: 40 cells (4 of them duplicates) in 5 rounds, 3 skipped".
    """
    grid = plan.grids[study]
    cells = plan.measured(study)
    # Fixed cost varies little, so its cells have one round, and a line of their own.
    repeated = [cell for cell in cells if not is_fixed_cost(cell.axes)]
    cells_text = words.count_of(len(repeated), "cell")
    duplicates = sum(is_duplicate(cell.path) for cell in repeated)
    if duplicates:
        cells_text += f" ({duplicates} of them duplicates)"
    # In a run with a time limit, some cells may get more rounds.
    rounds = words.count_of(_rounds_of_all_cells(plan, study), "round")
    yield f"  {study}: {cells_text} in {rounds}, {len(grid) - len(cells)} skipped"
    fixed_cost_cells = len(cells) - len(repeated)
    if fixed_cost_cells:
        yield f"    {words.count_of(fixed_cost_cells, 'cell')} of fixed cost, each measured once"
    # The user's own repository decides on some values, such as its format.
    for fact in findings_of(plan.config.studies[study], plan.env):
        yield f"    {fact}"
    for reason, skipped in skip_reasons(grid):
        yield f"    skipped, {skipped}: {reason}"


def _describe_rest(plan: Plan) -> str:
    """Return how much is left to measure: "  12 cell-rounds to measure, 28 are measured"."""
    planned = sum(len(plan.exports_of(cell)) for cell in plan.cells)
    missing = sum(unmeasured_rounds(plan).values())
    text = f"  {words.count_of(missing, 'cell-round')} to measure"
    return f"{text}, {planned - missing} are measured" if missing < planned else text


def skip_reasons(cells: Sequence[CellSpec]) -> list[tuple[str, int]]:
    """Return each reason why cells are skipped and their number, the most frequent first."""
    return Counter(cell.skip for cell in cells if cell.skip).most_common()


def _rounds_of_all_cells(plan: Plan, study: str) -> int:
    """Return the rounds that each cell of a study has at least, 0 for a study without cells to measure.

    Fixed cost does not count: it has one round.
    """
    cells = [cell for cell in plan.cells if cell.study == study and not is_fixed_cost(cell.axes)]
    return min((len(plan.exports_of(cell)) for cell in cells), default=0)


def _describe_duration(
    plan: Plan, repositories: PreparedRepositories, spent_s: float
) -> Iterator[str]:
    """Yield the time of each stage of the next run and of all, and how it fits the user's time limit."""
    forecast = forecast_run(plan, repositories)
    # Typical rates are of small repositories without a network. So a run mostly takes longer.
    rough = "Duration, at least (in part from typical rates)"
    yield rough if forecast.is_rough else "Duration"
    for stage, seconds in forecast.seconds_by_stage.items():
        yield f"  {stage:<12}  {words.duration(seconds):>9}"
    yield f"  {'all':<12}  {words.duration(forecast.total_s):>9}"
    # None if the user has fixed the number of rounds instead.
    minutes = plan.config.minutes_of_run
    if minutes is not None:
        yield f"  {_describe_limit(plan, minutes, spent_s, forecast.total_s)}"


def _describe_limit(plan: Plan, minutes: float, spent_s: float, forecast_s: float) -> str:
    """Return a sentence on the rounds that follow the planned ones within the user's time limit.

    `minutes` is the limit of all runs together, `spent_s` the time of the earlier ones, and `forecast_s` that
    of the planned rounds.
    """
    reasons = _list_stop_reasons(plan)
    # Only this reason has a remedy, a longer limit, so it comes first.
    if StopReason.TIME_IS_UP in reasons:
        return f"No more rounds follow: the {minutes:g} min are spent. A longer limit gives more rounds."
    if reasons:
        return "No more rounds follow: they would decide nothing more."
    # With less than a second, nothing was measured so far.
    spent = f", of which {words.duration(spent_s)} are spent" if spent_s >= 1 else ""
    left_s = minutes * 60 - spent_s
    if left_s > forecast_s:
        return f"More rounds follow until all comparisons are decided, or {minutes:g} min are over{spent}."
    return f"This is more than `minutes: {minutes:g}`{spent}. The planned rounds are measured all the same."


def _list_stop_reasons(plan: Plan) -> list[str]:
    """Return why each study gets no more rounds, such as ["time is up"]; [] if some study may get more.

    When a batch of rounds is measured, the decision on the next one is written to a file: {"gives": false,
    "why": "time is up", "minutes": 15}.
    """
    # Until the planned rounds are measured, nothing is decided.
    if any(unmeasured_rounds(plan).values()):
        return []
    reasons = []
    for study, batches in plan.batches.items():
        # The decision is {} if the next batch is not decided so far.
        decision = read_json(plan.root / decision_of(study, batches.next))
        is_refused = decision.get("gives") is False
        # After a change of the user's time limit, the next run decides again.
        is_same_limit = decision.get("minutes") == plan.config.minutes_of(study)
        if not is_refused or not is_same_limit:
            return []
        reasons.append(str(decision.get("why", "")))
    return reasons


def _describe_detectable_differences(plan: Plan) -> Iterator[str]:
    """Yield the smallest difference that the planned rounds of each study can detect.

    A study without results of this machine has no line, because its scatter is unknown.
    """
    studies = {cell.study for cell in plan.cells}
    rounds = {study: _rounds_of_all_cells(plan, study) for study in studies}
    # Fewer rounds have wide intervals, whatever the scatter is. `min_rounds` is at least 2, which
    # detectable_pct() needs.
    min_rounds = plan.config.least_rounds
    if min(rounds.values(), default=0) < min_rounds:
        yield f"  Fewer than {min_rounds} rounds (`thresholds.min_rounds`) decide only large differences."
    for study, scatter_pct in scatter_pct_by_study(plan).items():
        if rounds.get(study, 0) < min_rounds:
            continue
        smallest_pct = detectable_pct(scatter_pct / 100, rounds[study])
        yield (
            f"  {words.count_of(rounds[study], 'round')} of {study} can detect differences of "
            f"{smallest_pct:.0f} %: runs of a typical cell scattered by {scatter_pct:.2g} % here."
        )


def scatter_pct_by_study(plan: Plan) -> dict[str, float]:
    """Return how much runs of a typical cell scatter, in per cent by study: {"fsfs-san-2014": 1.8}.

    A study whose earlier results on this machine do not show the scatter is left out.
    """
    scatter_by_study = {}
    for study, definition in plan.config.studies.items():
        path = plan.root / "results" / "measurements" / f"{study}.csv"
        scatter = _scatter_of_results(path, definition.block) if path.exists() else math.nan
        if not math.isnan(scatter):
            # A standard deviation of logarithms of 0.018 is 1.8 %.
            scatter_by_study[study] = 100 * math.expm1(scatter)
    return scatter_by_study


def _scatter_of_results(path: Path, block: Sequence[str]) -> float:
    """Return the standard deviation of the logarithms of times in a table of results; NaN if it is unknown.

    The times of one cell are compared over its rounds. Cells with equal values on the axes `block` scatter
    alike.
    """
    frame = read_measurements(path)
    # Another machine scatters in another way.
    measured_here = frame[frame["host"] == host_label(host())]
    # If the study has got another axis since its results were measured, they lack its column.
    has_block_axes = set(block) <= set(frame.columns)
    if measured_here.empty or not has_block_axes:
        return math.nan
    return run_scatter(measured_here, block)


def detectable_pct(scatter: float, rounds: int) -> float:
    """Return the smallest difference in per cent that 9 of 10 experiments with this many rounds detect.

    `scatter` is the standard deviation of the time of a round, as a share. With 0.03 (3 %) and 5 rounds, the
    result is about 9 (%). At least 2 rounds are needed.
    """
    # Two cells are compared by the mean, over the rounds, of the difference of their times. Each of the two
    # times has this scatter. Logarithms turn shares into differences.
    standard_error = math.log1p(scatter) * math.sqrt(2 / rounds)
    # The scatter is estimated from about COMPARISONS similar comparisons together. Each of them adds a degree
    # of freedom for each round but the first.
    degrees_of_freedom = COMPARISONS * (rounds - 1)
    effect = float(detectable_effect(standard_error, degrees_of_freedom))
    # The effect is a logarithm. If runs scatter extremely, MAX_EFFECT keeps the result finite.
    return 100 * math.expm1(min(effect, MAX_EFFECT))
