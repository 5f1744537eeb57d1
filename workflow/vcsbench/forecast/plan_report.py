"""The report of `vcsbench plan`: cells, side effects, duration, and detectable differences."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

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

# The variance of a comparison is estimated from this many comparisons of its class, about.
COMPARISONS = 10
# As a logarithm. Larger differences need no statistics.
MAX_EFFECT = 10.0


def describe_plan(
    plan: Plan, repositories: PreparedRepositories, spent_s: float = 0.0
) -> Iterator[str]:
    """Yield the lines of the report: what a run measures, its effects on the machine, and its duration.

    `spent_s` is how long earlier runs took for the results (SamplingState.spent_s).
    """
    yield "Repositories"
    yield from _describe_repositories(plan)
    yield ""
    yield "Cells"
    yield from _describe_cells(plan)
    yield ""
    yield "Side effects"
    for effect in side_effects(plan, repositories):
        yield f"  {effect}"
    yield ""
    yield from _describe_duration(plan, repositories, spent_s)
    yield from _describe_detectable_differences(plan)
    # The cells that need these things fail. A run measures the others.
    yield from _describe_lacks("Cannot be measured here", plan, trials.OF_SOME_CELLS)
    # Runs can do without these things, but their evidence is then not complete.
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
    """Yield a line for each measured repository, with its size and its studies, and one line for all others.

    For example: "  ruby: 1 000 revisions, about 120 MiB loaded, for fsfs-san-2014".
    """
    studies_by_repository: dict[str, list[str]] = {name: [] for name in plan.env.named_repositories}
    for cell in plan.cells:
        # A draft is the recipe of a cell without digests. The name is None for a cell without a repository.
        name = plan.draft(cell).get("repository", {}).get("name")
        # The empty repository, which measures fixed cost, has no entry.
        if name in studies_by_repository and cell.study not in studies_by_repository[name]:
            studies_by_repository[name].append(cell.study)
    unused = []
    for name, studies in studies_by_repository.items():
        if not studies:
            unused.append(name)
            continue
        revisions = words.count_of(plan.env.revisions(name), "revision")
        size = words.size(loaded_bytes(plan, name))
        yield f"  {name}: {revisions}, about {size} loaded, for {words.enumeration(studies)}"
    if unused:
        yield f"  not measured in these studies: {', '.join(unused)}"


def _describe_cells(plan: Plan) -> Iterator[str]:
    """Yield the numbers of cells of each study, the reasons of skipped ones, and how much is left to measure.

    A duplicate is a second cell with the settings of another cell. For example: "fsfs-san-2014: 40 cells (4
    of them duplicates) in 5 rounds, 3 skipped".
    """
    rounds = words.count_of(_rounds_of_all_cells(plan), "round")
    for study, grid in plan.grids.items():
        cells = plan.measured(study)
        # Cells of fixed cost, on the empty repository, have one round. So they have a line of their own.
        repeated = [cell for cell in cells if not is_fixed_cost(cell.axes)]
        duplicates = sum(is_duplicate(cell.path) for cell in repeated)
        cells_text = words.count_of(len(repeated), "cell")
        if duplicates:
            cells_text += f" ({duplicates} of them duplicates)"
        yield f"  {study}: {cells_text} in {rounds}, {len(grid) - len(cells)} skipped"
        fixed_cost_cells = len(cells) - len(repeated)
        if fixed_cost_cells:
            yield f"    {words.count_of(fixed_cost_cells, 'cell')} of fixed cost, each measured once"
        # Sentences on the user's repository, from axes whose values depend on it.
        for fact in findings_of(plan.config.studies[study], plan.env):
            yield f"    {fact}"
        for reason, skipped in skip_reasons(grid):
            yield f"    skipped, {skipped}: {reason}"
    # A cell-round is one round of one cell. It has one export, the file of its times. So the planned exports
    # are as many as the cell-rounds.
    total = sum(len(plan.exports_of(cell)) for cell in plan.cells)
    missing = sum(unmeasured_rounds(plan).values())
    text = f"  {words.count_of(missing, 'cell-round')} to measure"
    if missing < total:
        text += f", {total - missing} are measured"
    yield text


def skip_reasons(cells: Sequence[CellSpec]) -> list[tuple[str, int]]:
    """Return each reason why cells are skipped and their number, the most frequent first."""
    return Counter(cell.skip for cell in cells if cell.skip).most_common()


def _rounds_of_all_cells(plan: Plan) -> int:
    """Return the rounds that each cell has at least. Fixed cost does not count: it has one round."""
    rounds = [len(plan.exports_of(cell)) for cell in plan.cells if not is_fixed_cost(cell.axes)]
    return min(rounds, default=0)


def _describe_duration(
    plan: Plan, repositories: PreparedRepositories, spent_s: float
) -> Iterator[str]:
    """Yield the time of each stage and of all, and how it fits the time limit."""
    forecast = forecast_run(plan, repositories)
    # Typical rates are those of small repositories and local access, so that a run mostly takes longer.
    rough = "Duration, at least (in part from typical rates)"
    yield rough if forecast.is_rough else "Duration"
    for stage, seconds in forecast.seconds_by_stage.items():
        yield f"  {stage:<12}  {words.duration(seconds):>9}"
    yield f"  {'all':<12}  {words.duration(forecast.total_s):>9}"
    minutes = plan.config.minutes_of_run
    if minutes is not None:
        yield f"  {_describe_limit(plan, minutes, spent_s, forecast.total_s)}"


def _describe_limit(plan: Plan, minutes: float, spent_s: float, forecast_s: float) -> str:
    """Return a sentence on further rounds within the time limit, which all runs together may take.

    `minutes` is the limit, `spent_s` the time of earlier runs, and `forecast_s` the time of the next run.
    """
    # Reasons against further rounds; [] if some study may still get rounds.
    reasons = _list_stop_reasons(plan)
    if StopReason.TIME_IS_UP in reasons:
        return f"No more rounds follow: the {minutes:g} min are spent. A longer limit gives more rounds."
    if reasons:
        return "No more rounds follow: they would decide nothing more."
    # A run that measures takes more than a second. So a shorter time means that nothing was measured.
    spent = f", of which {words.duration(spent_s)} are spent" if spent_s >= 1 else ""
    left_s = minutes * 60 - spent_s
    if left_s > forecast_s:
        return f"More rounds follow until all comparisons are decided, or {minutes:g} min are over{spent}."
    return f"This is more than `minutes: {minutes:g}`{spent}. The planned rounds are measured all the same."


def _list_stop_reasons(plan: Plan) -> list[str]:
    """Return the reason of each study's last decision (StopReason), if no study gets further rounds.

    A decision is a file about the next batch of rounds of a study: {"gives": false, "why": "time is up",
    "minutes": 15}. Return [] if a planned round is not measured yet, or if a study has no decision against
    further rounds. A decision with another time limit does not count, because the next run makes it again.
    """
    if any(unmeasured_rounds(plan).values()):
        return []
    reasons = []
    for study, batches in plan.batches.items():
        # A missing decision is read as {}, which is no decision against further rounds.
        decision = read_json(plan.root / decision_of(study, batches.next))
        is_same_limit = decision.get("minutes") == plan.config.minutes_of(study)
        if decision.get("gives") is not False or not is_same_limit:
            return []
        reasons.append(str(decision.get("why", "")))
    return reasons


def _describe_detectable_differences(plan: Plan) -> Iterator[str]:
    """Yield the smallest difference that each study can detect, if earlier results show the scatter."""
    rounds = _rounds_of_all_cells(plan)
    min_rounds = plan.config.least_rounds
    if rounds < min_rounds:
        yield f"  Fewer than {min_rounds} rounds (`thresholds.min_rounds`) decide only large differences."
        return
    for study, scatter_pct in scatter_pct_by_study(plan).items():
        smallest_pct = detectable_pct(scatter_pct / 100, rounds)
        yield (
            f"  {words.count_of(rounds, 'round')} of {study} can detect differences of "
            f"{smallest_pct:.0f} %: runs of a typical cell scattered by {scatter_pct:.2g} % here."
        )


def scatter_pct_by_study(plan: Plan) -> dict[str, float]:
    """Return how much runs of a typical cell scatter, in per cent by study: {"fsfs-san-2014": 1.8}.

    A study without results of this machine, or with too few of them to estimate the scatter, is left out. So
    is a study whose blocks got another axis after its results were measured.
    """
    scatter_pct = {}
    for study, definition in plan.config.studies.items():
        path = plan.root / "results" / "measurements" / f"{study}.csv"
        if not path.exists():
            continue
        frame = read_measurements(path)
        measured_here = frame[frame["host"] == host_label(host())]
        # Measurements of an earlier session lack the column of an axis that was added later. Without the axes
        # of blocks (cells that are measured together), no scatter can be computed.
        has_block_axes = set(definition.block) <= set(frame.columns)
        if measured_here.empty or not has_block_axes:
            continue
        # `scatter` is the standard deviation of the logarithms of times. It is estimated from cells of the
        # same block, such as those of one command. It is NaN if no block has two cells with two rounds.
        scatter = run_scatter(measured_here, definition.block)
        if not math.isnan(scatter):
            # Such as 1.8 for 0.018.
            scatter_pct[study] = 100 * math.expm1(scatter)
    return scatter_pct


def detectable_pct(scatter: float, rounds: int) -> float:
    """Return the smallest difference in per cent that 9 of 10 experiments detect.

    `scatter` is the standard deviation of a round's time, as a share: 0.018 for 1.8 %.
    """
    # A comparison is the mean over rounds of a difference of two times, each with this scatter.
    standard_error = math.log1p(scatter) * math.sqrt(2 / rounds)
    # About COMPARISONS comparisons share in the estimate of the scatter, each with all of its rounds.
    degrees_of_freedom = COMPARISONS * (rounds - 1)
    effect = float(detectable_effect(standard_error, degrees_of_freedom))
    # The effect is a logarithm. If runs scatter extremely, MAX_EFFECT limits the result.
    return 100 * math.expm1(min(effect, MAX_EFFECT))
