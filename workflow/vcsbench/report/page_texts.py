"""Sentences of a page about its run as a whole: its head, missing and undecided results, time, and limits."""

from collections.abc import Mapping, Sequence
from statistics import geometric_mean

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import value_label
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.axes import axis_of
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import BUILD_AXIS, CACHE_AXIS
from vcsbench.codes import Call, Result, StopReason
from vcsbench.evidence.flags import Flag
from vcsbench.plan.grid import originals
from vcsbench.plan.result_state import OUTDATED, UNMEASURED
from vcsbench.report.account import Account, describe_results
from vcsbench.report.quality_section import count_runs
from vcsbench.report.results import Results, Rows, grouped_by, unique_values, values_in
from vcsbench.report.setup_section import Setup
from vcsbench.report.summary import MORE_ROUNDS, NextStep
from vcsbench.report.table_sections import PlainTable
from vcsbench.statistics import comparisons, texts
from vcsbench.systems import GIT, SUBVERSION

# By codes.StopReason.
WHY_ENDED: Mapping[str, str] = {
    StopReason.ALL_DECIDED: "all comparisons are answered or too small",
    StopReason.TIME_IS_UP: "no further round fits into the time limit{limit}",
    StopReason.UNREACHABLE: "more rounds cannot answer the rest",
}
COLD_MEANING = "Cold: the caches are empty, as for the first command of a morning."
SIDE_BY_SIDE_LIMIT = (
    "Times of different machines, published ones included, are shown side by side only. "
    "Verdicts compare ratios and shares."
)


def describe_head(results: Results, setup: Setup) -> list[str]:
    """Return the lines below the title of a page, or one sentence if there is no result to show.

    Lines without content are left out.
    """
    if not originals(results.measurements):
        if any(row["reason"] == OUTDATED for row in results.failures):
            return ["No result is up to date."]
        return ["Nothing has been measured."]
    lines = (
        _describe_subjects(setup),
        _describe_session(results, setup),
        describe_cold(results),
        explain_labels(results),
        # A sentence of the study on what it does not measure.
        results.study.leaves_out,
    )
    return [line for line in lines if line]


def _describe_subjects(setup: Setup) -> str:
    """Return the repositories with their storage, and what the commands read or write, as far as known.

    Example: `ruby: 5,526 revisions, on ext4 (virtual disk); dump reads 601 revisions`.
    """
    conditions = setup.conditions
    storage = f"on {conditions.storage}" if conditions.storage else ""
    repositories = _join(", ", [conditions.repositories, storage])
    return _join("; ", [repositories, conditions.parts])


def _describe_session(results: Results, setup: Setup) -> str:
    """Return the programs and the machine, the day and the duration, and the number of runs.

    Example: `Subversion 1.14.2 on here (2 cores); 21 November 2026, 14 min with preparation and report; 360
    timed runs of 72 cells (a command with all its settings)`. An unknown part is left out.
    """
    machine = f"on {setup.conditions.machine}" if setup.conditions.machine else ""
    programs = _join(" ", [_name_programs(results, setup), machine])
    time = ""
    if setup.first and setup.last:
        if results.account.taken_s:
            # The user's limit in minutes counts all steps of a session, so the page shows the time of all.
            length = f"{words.duration(results.account.taken_s)} with preparation and report"
        else:
            length = words.duration((setup.last - setup.first).total_seconds())
        time = f"{words.day(setup.last)}, {length}"
    runs = count_runs(results.measurements, " (a command with all its settings)")
    return _join("; ", [programs, time, runs])


def _name_programs(results: Results, setup: Setup) -> str:
    """Return the measured programs: `Subversion 1.14.2, git 2.39.5`.

    A study that compares builds of one system names each build: `Subversion trunk 1.15.0, mine 1.14.2`.
    """
    builds = ", ".join(_list_build_versions(results))
    if not builds:
        return setup.conditions.systems
    title = SUBVERSION.title if setup.conditions.subversion else GIT.title
    return f"{title} {builds}"


def explain_labels(results: Results) -> str:
    """Return the settings behind labels that stand for several ones: `tuned 1 GiB: 1 GiB of cache, ...`."""
    meanings = []
    for axis, values in results.grid_values.items():
        for value in values:
            parts = load_vocabulary().value(axis, value).parts
            if parts:
                # The page prints backticks as they are.
                meanings.append(f"{value_label(axis, value)}: {parts.replace('`', '')}.")
    return " ".join(meanings)


def describe_cold(results: Results) -> str:
    """Return sentences on cold runs: how fast they read, and if warm runs are faster.

    Example of the first: `A cold run read 2.10 MiB to 40.0 MiB from the device, at 15.0 MiB/s to 210 MiB/s.`
    This sentence is missing if no cold run is known to read a device. The others are made
    by _compare_cold_and_warm().
    """
    runs = [run for run in results.comparable_runs if run.get(CACHE_AXIS)]
    cold_runs = [run for run in runs if cache_state(run[CACHE_AXIS]).is_cold]
    # The bytes are unknown on a storage in memory, and if the kernel hides them.
    measured_runs = [run for run in cold_runs if words.is_number(run.get("device_bytes"))]
    reading_runs = [run for run in measured_runs if run["device_bytes"] > 0]
    reads = ""
    if reading_runs:
        sizes = [run["device_bytes"] for run in reading_runs]
        rates = [run["device_bytes"] / run["elapsed_s"] for run in reading_runs]
        size_ends = [words.size(end) for end in (min(sizes), max(sizes))]
        rate_ends = [f"{words.size(end)}/s" for end in (min(rates), max(rates))]
        # Ends with the same text are named once.
        size = " to ".join(unique_values(size_ends))
        rate = " to ".join(unique_values(rate_ends))
        reads = f"A cold run read {size} from the device, at {rate}."
    return _join(" ", [reads, _compare_cold_and_warm(runs, results)])


def _compare_cold_and_warm(runs: Rows, results: Results) -> str:
    """Return two sentences on the cold cells that take no longer than warm ones, "" without such a cell.

    A cold cell has to read from the device, so it should be slower than a warm one. If it is not, a cache
    outside this machine, such as that of its host, may have answered in place of the device. Example: `2 of 6
    cold cells with a warm counterpart are as fast (within 10 %). There, ...`.
    """
    # Times within this factor, such as 1.1, count as equal.
    margin = results.advice.margin
    compared_cells = 0
    cells_as_fast = 0
    # A group has the runs of a cold cell, such as a cold log over http, and of its warm counterparts. A
    # second cold state in the group is not counted again.
    other_axes = [axis for axis in results.order if axis != CACHE_AXIS]
    for group in grouped_by(runs, lambda run: values_in(run, other_axes)).values():
        cold_means, warm_means = _mean_times(group)
        if cold_means and warm_means:
            compared_cells += 1
            # A warm state can be slow for another reason than the device, so the fastest one counts.
            if min(cold_means) <= min(warm_means) * margin:
                cells_as_fast += 1
    if not cells_as_fast:
        return ""
    number = f"{cells_as_fast} of {words.count_of(compared_cells, 'cold cell')}"
    verb = words.is_or_are(cells_as_fast)
    return (
        f"{number} with a warm counterpart {verb} as fast (within {results.advice.min_effect_pct:g} %). "
        "There, a cache below this machine (host, controller) may answer: this tells little about slow disks."
    )


def _mean_times(runs: Rows) -> tuple[list[float], list[float]]:
    """Return the mean seconds of the runs in each cold state of the caches, and in each warm state."""
    cold_means: list[float] = []
    warm_means: list[float] = []
    for state, members in grouped_by(runs, lambda run: run[CACHE_AXIS]).items():
        # A server with useless warm caches reads as much as a new one, so its time shows nothing about the
        # device.
        if any(Flag.CACHE_INEFFECTIVE in run["flags"].split() for run in members):
            continue
        mean = geometric_mean([run["elapsed_s"] for run in members])
        if cache_state(state).is_cold:
            cold_means.append(mean)
        else:
            warm_means.append(mean)
    return cold_means, warm_means


def _join(separator: str, parts: Sequence[str]) -> str:
    """Return the parts that are not "", joined."""
    return separator.join(part for part in parts if part)


def _list_build_versions(results: Results) -> list[str]:
    """Return each build of Subversion or git with its versions: `["trunk 1.15.0", "mine 1.14.2"]`.

    A client and a server of different versions give `mixed 1.14.2, 1.15.0`. A build without a known version
    is left out.
    """
    versions: dict[str, list[str]] = {name: [] for name in results.order.get(BUILD_AXIS, ())}
    for context in results.contexts:
        build = context["build"]
        # Without the axis, the only build has no name, and `versions` is empty.
        name = build.get("name", "")
        if name not in versions:
            continue
        for program in (build.get("client"), build.get("server")):
            # A local command has no server.
            if program and program.get("version"):
                versions[name].append(program["version"])
    return [
        f"{name} {', '.join(unique_values(numbers))}"
        for name, numbers in versions.items()
        if numbers
    ]


def describe_condition(results: Results, setup: Setup) -> str:
    """Return a warning that changes may gain more or less for cold commands elsewhere; "" if none is needed.

    A warning is needed if the published study had another storage, or a larger part of the repository.
    Example: `Measured on ext4 (virtual disk) with 5,526 revisions. On other storage (published: spinning
    disk), cold commands may gain more or less:` The colon stands before a link to the findings.
    """
    published = results.study.published
    storage = setup.conditions.storage
    has_cold_run = any(cache_state(run.get(CACHE_AXIS)).is_cold for run in results.measurements)
    # Results of the user's own repository are not meant to reproduce published ones.
    if results.own_repository or not published or not storage or not has_cold_run:
        return ""
    repositories = [context["repository"] for context in results.contexts]
    differences = []
    # The measured storage has the file system, too: "SSD" is in "ext4 (SSD)". An unpublished storage ("") is
    # in any text.
    if published.storage not in storage:
        differences.append(f"on other storage (published: {published.storage})")
    # The scale is the measured share of the original repository: 0.13. A real repository has none.
    scales = [repository.get("scale") for repository in repositories]
    if any(scale is not None and scale < published.scale for scale in scales):
        differences.append("with more revisions")
    if not differences:
        return ""
    revisions = max((int(repository.get("youngest", 0)) for repository in repositories), default=0)
    # A tree has no revisions.
    size = f" with {words.count_of(revisions, 'revision')}" if revisions else ""
    clause = " or ".join(differences)
    # Not capitalize(), which would change SSD to ssd.
    clause = clause[0].upper() + clause[1:]
    return f"Measured on {storage}{size}. {clause}, cold commands may gain more or less:"


def describe_missing(results: Results) -> str:
    """Return what has no result, "" if nothing is missing.

    Example: `2 cell-rounds failed, all runs of 1 cell are invalid and 3 cells cannot be measured here`.
    """
    phrases = []
    outdated = sum(row["reason"] == OUTDATED for row in results.failures)
    if outdated:
        cell_rounds = f"{words.count_of(outdated, 'cell-round')} left out ({texts.OUTDATED_TEXT})"
        phrases.append(f"{cell_rounds}, `{results.command.text()}` measures them again")
    unmeasured = sum(row["reason"] == UNMEASURED for row in results.failures)
    if unmeasured:
        cell_rounds = f"{words.count_of(unmeasured, 'cell-round')} not measured so far"
        phrases.append(f"{cell_rounds}, `{results.command.text()}` continues")
    failed = len(results.failed_rounds)
    if failed:
        phrases.append(f"{words.count_of(failed, 'cell-round')} failed")
    measured_cells = {run["cell"] for run in originals(results.measurements)}
    invalid_cells = len(measured_cells - {run["cell"] for run in results.valid_runs})
    if invalid_cells:
        phrases.append(f"all runs of {words.count_of(invalid_cells, 'cell')} are invalid")
    skipped = count_skipped(results)
    if skipped:
        phrases.append(f"{words.count_of(skipped, 'cell')} cannot be measured here")
    return words.enumeration(phrases)


def count_skipped(results: Results) -> int:
    """Return the number of cells that cannot be measured here, without duplicates."""
    return sum(1 for cell in originals(results.grid) if cell["skip"])


def describe_uncertain(results: Results, steps: Sequence[NextStep], in_cards: int) -> list[str]:
    """Return sentences on the comparisons without an answer (neither different nor equal), [] without any.

    - Undecided: the difference may be large.
    - Nearly equal: the difference is below 15 %, but perhaps above the margin (10 % by default).
    - Too small: start-up can explain the difference, or runs are short.

    The first two are open: more rounds may answer them. `steps` are the next runs that the page recommends,
    and `in_cards` is the number of different comparisons in the cards.
    """
    account = results.account
    counts = account.count_results()
    has_undecided = counts[Result.UNDECIDED] > 0
    has_too_small = counts[Result.TOO_SMALL] > 0
    has_open = account.count_open() > 0
    if not has_open and not has_too_small:
        return []
    sentences = [f"Answered over all cases: {describe_results(account)}."]
    # Some comparisons are in tables only, for example by other metrics than the elapsed time.
    if in_cards < counts.total():
        shown = words.count_of(in_cards, "comparison")
        sentences.append(f"The cards show {shown} (a case can have several), the tables all.")
    # On a noisy machine, the scatter is the likely reason why comparisons are undecided.
    if has_undecided and account.scatter_pct > comparisons.NOISY_PCT:
        noise = f"{account.scatter_pct:.2g} %"
        sentences.append(f"Noise ({noise}) is the reason for the undecided ones.")
    if has_too_small:
        sentences.append(
            "Too small: start-up can explain the difference, or runs are short; a larger repository or scale "
            "answers it."
        )
    # The page recommends more rounds if up to a day of them may answer at least one comparison.
    has_more_rounds = any(step.name == MORE_ROUNDS for step in steps)
    if has_open and not has_more_rounds:
        sentences.append("More rounds of up to a day answer no more.")
    return sentences


def describe_time(account: Account) -> list[str]:
    """Return sentences on the time of all sessions, and on why the measuring ended.

    Example: `All sessions took 14 min: preparation 60 s, measuring 700 s, waiting 21 s (between cell-rounds),
    start and report about 59 s. The timed runs are 357 s of the measuring.`
    """
    sentences = []
    if account.spent_s:
        seconds = {step: round(spent_s) for step, spent_s in account.spent_s.items()}
        # The start of Snakemake and the report are no steps, so they are the rest of the time. The rounded
        # steps can add up to a second more than the whole.
        start_and_report = max(0, round(account.taken_s) - sum(seconds.values()))
        steps = [f"{step} {words.group_digits(number)} s" for step, number in seconds.items()]
        timed = words.group_digits(round(account.timed_s))
        # The last step is "waiting", which `(between cell-rounds)` explains.
        sentences.append(
            f"All sessions took {words.duration(account.taken_s)}: {', '.join(steps)} (between "
            f"cell-rounds), start and report about {start_and_report} s. The timed runs are "
            f"{timed} s of the measuring."
        )
    # Each reason is about comparisons, so it needs some. `why` is "" after an interruption, or with a fixed
    # number of rounds.
    if account.count_results().total() and account.why in WHY_ENDED:
        limit = "" if account.minutes is None else f" of {words.duration(60 * account.minutes)}"
        reason = WHY_ENDED[account.why].format(limit=limit)
        sentences.append(f"The measuring ended because {reason}.")
    return sentences


def describe_limits(results: Results, setup: Setup) -> list[str]:
    """Return sentences on the limits of the page's numbers.

    First come the limits of measured commands (the key `caveat`), then the limits of the axes (Axis.limits).
    The last one is on each page: times of different machines are not compared.
    """
    study = results.study
    limits = []
    measured_commands = {study.command_name(cell) for cell in results.grid}
    for name, command in study.commands.items():
        if name in measured_commands and command.caveat:
            limits.append(f"{name}: {command.caveat}")
    for axis, present in results.grid_values.items():
        if present:
            # The limit of the axis `cache` names the hypervisors: their caches cannot be cleared.
            hypervisors = sorted(setup.hypervisors)
            limits += axis_of(axis).limits(present, hypervisors, results.grid_values)
    limits.append(SIDE_BY_SIDE_LIMIT)
    return limits


def make_history_table(history: Row) -> PlainTable | None:
    """Return a table with a row for each saved baseline and for this run; None for fewer than two rows.

    Example of a row: `("now", "21 November 2026, ...", "here#1a2b", "old", "4 faster, 2 equal", "kernel 6 to
    7")`. `history` is the file results/history/<study>.json (baseline_comparison.make_history).
    """
    entries = history.get("times", [])
    if len(entries) < 2:
        return None
    rows = []
    for entry in entries:
        first, last = words.moment(entry["first"]), words.moment(entry["last"])
        period = words.period(first, last) if first and last else ""
        hosts = words.enumeration(unique_values(entry["hosts"]))
        # The number of comparisons by outcome: {"faster": 4, "equal": 2}.
        calls = entry["calls"].items()
        outcomes = ", ".join(
            f"{number} {texts.outcome_text(Call(call))}" for call, number in calls if number
        )
        changed = "; ".join(entry["changed"])
        # The first baseline of a host has none before it, so its last three columns stay empty.
        if entry["before"]:
            outcomes = outcomes or "not comparable"
            changed = changed or "nothing known"
        rows.append((entry["name"], period, hosts, entry["before"], outcomes, changed))
    heads = ["Saved", "Measured", "Host", "Compared with", "Comparisons", "Changed"]
    return PlainTable("Saved baselines", heads, rows)
