"""The report of `vcsbench plan`: cells, side effects, duration, and detectable differences."""

import math
import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from vcsbench import kernel, processes, words
from vcsbench.axes import findings_of
from vcsbench.axes.server_axes import cache_bytes, server_settings
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence.measurements import read_measurements
from vcsbench.forecast import trials
from vcsbench.machine import host, host_label
from vcsbench.measure.server import HOST
from vcsbench.plan.grid import CellSpec, is_duplicate, is_fixed_cost, variance_class
from vcsbench.plan.plan import Plan
from vcsbench.plan.recipe import OWN, SHARED, USER, is_private_cell
from vcsbench.plan.result_state import read_context
from vcsbench.prepare.loader import repository_bytes
from vcsbench.prepare.repositories import PreparedRepositories
from vcsbench.statistics.calls import detectable_effect
from vcsbench.statistics.noise import run_scatter
from vcsbench.storages.cell_filesystem import SMALLEST
from vcsbench.storages.filesystems import IN_MEMORY, free_bytes, mount_of
from vcsbench.storages.workdir import resolve

# Rates of a machine with two cores, until this one has results: seconds to load and verify a revision in one
# format, to copy it once, to measure a cell-round, and to trace a command.
LOAD_S, COPY_S, CELL_ROUND_S, TRACE_S = 0.0026, 0.0003, 2.0, 4.0
FIXED_COST_S = 1.0
# The rest of a cell-round: Python, Snakemake, start and end of the server.
OVERHEAD_S = 0.22
REPORT_S, TABLE_S = 15.0, 0.5
COMPARISONS = 10
# As a logarithm. Larger differences need no statistics.
MAX_EFFECT = 10.0

CLEAR = "clear-caches"
EVICT = "`clear_caches: evict` in the configuration drops only the files of the repositories"


def _groups(plan: Plan, study: str, axes: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the groups of a cell, the smallest first: the cell itself, its block, its study."""
    block = variance_class(axes, plan.config.studies[study].block)
    return [("cell", study, *axes.values()), ("block", study, *block), ("study", study)]


def measured_durations(plan: Plan) -> dict[tuple[str, ...], float]:
    """Return the mean seconds of cell-rounds by group, from results of the same repositories here."""
    durations: dict[tuple[str, ...], list[float]] = defaultdict(list)
    me = host()["id"]
    for cell in plan.cells:
        repository = plan.draft(cell).get("repository", {})
        for cell_round in plan.rounds_of_cell(cell):
            result = cell_round.below(plan.root)
            context = read_context(result.context)
            if not context:
                continue
            before = (context["host"].get("id"), context["repository"].get("identity"))
            is_same = before == (me, repository.get("identity"))
            if context["took"] and is_same and os.path.exists(result.export):
                hyperfine_s = context["took"]["hyperfine_s"] * (1 + len(context["set_aside"]))
                for group in _groups(plan, cell.study, cell.axes):
                    durations[group].append(hyperfine_s + OVERHEAD_S)
    return {group: statistics.fmean(seconds) for group, seconds in durations.items()}


def forecast(plan: Plan, repositories: PreparedRepositories) -> tuple[dict[str, float], bool]:
    """Return the seconds of a run by stage, and whether typical rates stand for unknown ones."""
    repos = repositories.all_repositories()
    revisions = {repo: plan.env.revisions(repo) for repo in repos if repo != EMPTY}
    loading_s = sum(revisions[repo] * LOAD_S for repo, _ in missing_loads(repositories))
    copying_s = sum(
        revisions.get(variant.repo, 0) * COPY_S
        for storage in repositories.storages
        for variant, _ in repositories.missing(storage)
    )
    tracing_s = TRACE_S * sum(len(plan.traces_of(study, existing=False)) for study in plan.grids)
    measuring_s, is_rough, known = 0.0, bool(loading_s), measured_durations(plan)
    for (study, path), number in unmeasured_rounds(plan).items():
        axes = plan.by_path[study, path].axes
        if is_fixed_cost(axes):
            measuring_s += number * FIXED_COST_S
            continue
        groups = [group for group in _groups(plan, study, axes) if group in known]
        is_rough |= not groups and number > 0
        measuring_s += number * (known[groups[0]] if groups else CELL_ROUND_S)
    stages = {
        "loading": loading_s,
        "copying": copying_s,
        "system calls": tracing_s,
        "measuring": measuring_s,
        "report": sum(REPORT_S + TABLE_S * len(s.tables) for s in plan.config.studies.values()),
    }
    return stages, is_rough


def skip_reasons(cells: Sequence[CellSpec]) -> list[tuple[str, int]]:
    return Counter(cell.skip for cell in cells if cell.skip).most_common()


def plan_report(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    effects = side_effects(plan, repositories)
    yield from ("Repositories", *_repositories(plan), "", "Cells", *_cells(plan))
    yield from ("", "Side effects", *(f"  {effect}" for effect in effects))
    stages, is_rough = forecast(plan, repositories)
    total_s, config = sum(stages.values()), plan.config
    minutes = sum(config.minutes_of(study) or 0.0 for study in config.studies)
    yield from ("", f"Duration{', in part from typical rates' * is_rough}")
    for stage, seconds in (stages | {"all": total_s}).items():
        yield f"  {stage:<12}  {words.duration(seconds):>9}"
    if minutes * 60 > total_s:
        yield f"  More rounds follow until all comparisons are decided, or {minutes:g} min are over."
    elif minutes:
        yield f"  This is more than `minutes: {minutes:g}`. The first rounds are measured all the same."
    rounds = _rounds(plan)
    if rounds < plan.config.least_rounds:
        least = plan.config.least_rounds
        yield f"  Fewer than {least} rounds (`thresholds.min_rounds`) decide only large differences."
    else:
        for study, percent in scatter_pct_by_study(plan).items():
            yield (
                f"  {words.count_of(rounds, 'round')} of {study} can detect differences of "
                f"{detectable_pct(percent / 100, rounds):.0f} %: runs of a typical cell scattered by "
                f"{percent:.2g} % here."
            )
    limited = trials.lacks(plan, trials.EVIDENCE)
    if limited:
        yield from ("", "Less evidence")
        yield from (f"  {lack.sentence()}" for lack in limited)


def _repositories(plan: Plan) -> Iterator[str]:
    """Yield a line for each repository of the grid, with its size and studies, and one for all others."""
    studies_of: dict[str, list[str]] = {name: [] for name in plan.env.named_repositories}
    for cell in plan.cells:
        name = plan.draft(cell).get("repository", {}).get("name")
        # The empty repository of fixed cost has no entry.
        if name in studies_of and cell.study not in studies_of[name]:
            studies_of[name].append(cell.study)
    for name, studies in studies_of.items():
        if studies:
            revisions = words.count_of(plan.env.revisions(name), "revision")
            size = words.size(repository_bytes(plan.env.sources[name].estimate()))
            yield f"  {name}: {revisions}, about {size} loaded, for {words.enumeration(studies)}"
    unused = [name for name, studies in studies_of.items() if not studies]
    if unused:
        yield f"  not measured in these studies: {', '.join(unused)}"


def _cells(plan: Plan) -> Iterator[str]:
    for study, grid in plan.grids.items():
        cells = plan.measured(study)
        duplicates = sum(is_duplicate(cell.path) for cell in cells)
        measured = [cell for cell in cells if not is_fixed_cost(cell.axes)]
        twice = f" ({duplicates} of them duplicates)" if duplicates else ""
        number, skipped = words.count_of(len(measured), "cell"), len(grid) - len(cells)
        yield f"  {study}: {number}{twice} in {words.count_of(_rounds(plan), 'round')}, {skipped} skipped"
        if once := len(cells) - len(measured):
            yield f"    {words.count_of(once, 'cell')} of fixed cost, each measured once"
        yield from (f"    {fact}" for fact in findings_of(plan.config.studies[study], plan.env))
        yield from (f"    skipped, {n}: {reason}" for reason, n in skip_reasons(grid))
    total = sum(len(plan.exports_of(cell)) for cell in plan.cells)
    missing = sum(unmeasured_rounds(plan).values())
    done = f", {total - missing} are measured" if missing < total else ""
    yield f"  {words.count_of(missing, 'cell-round')} to measure{done}"


def _rounds(plan: Plan) -> int:
    cells = (cell for cell in plan.cells if not is_fixed_cost(cell.axes))
    return min((len(plan.exports_of(cell)) for cell in cells), default=0)


def scatter_pct_by_study(plan: Plan) -> dict[str, float]:
    """Return how much runs of a typical cell scatter, in percent, from results of this machine.

    A study without enough results here is left out.
    """
    scatters = {}
    for study in plan.config.studies:
        path = plan.root / "results" / "measurements" / f"{study}.csv"
        if not path.exists():
            continue
        frame = read_measurements(path)
        frame = frame[frame["host"] == host_label(host())]
        scatter = run_scatter(frame, plan.config.studies[study].block) if len(frame) else math.nan
        if not math.isnan(scatter):
            scatters[study] = 100 * math.expm1(scatter)
    return scatters


def detectable_pct(scatter: float, rounds: int) -> float:
    """Return the smallest difference, in percent, that 9 of 10 experiments detect.

    `scatter` is the standard deviation of a round's time, as a share.
    """
    error = math.log1p(scatter) * math.sqrt(2 / rounds)
    effect = float(detectable_effect(error, COMPARISONS * (rounds - 1)))
    return 100 * math.expm1(min(effect, MAX_EFFECT))


@cache
def missing_packages(root: Path) -> list[tuple[str, bool, str]]:
    """Return the Debian packages that set-up would install: name, whether it is required, and purpose."""
    listed = processes.run_program([root / "envs" / "list-missing.sh", "--table"]).output
    rows = (line.split("\t") for line in listed.splitlines())
    return [(package, need == "must", purpose) for need, package, purpose in rows]


def missing_loads(repositories: PreparedRepositories) -> list[tuple[str, str]]:
    """Return the repositories and formats that a run loads."""
    loads = repositories.loads()
    return [
        (repo, fmt) for repo, fmt in loads if repo != EMPTY and repositories.needs_load(repo, fmt)
    ]


def unmeasured_rounds(plan: Plan) -> dict[tuple[str, str], int]:
    return {
        (cell.study, cell.path): len(plan.exports_of(cell)) - len(plan.fresh_exports(cell))
        for cell in plan.cells
    }


def side_effects(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    drafts = [plan.draft(cell) for cell in plan.cells]
    if missing := [package for package, _, _ in missing_packages(plan.root)]:
        names = words.enumeration(missing)
        yield f"Set-up installs {names} if it may (apt-get, as root). Starts no system service."
    else:
        yield "Installs nothing: all packages and tools are installed. Starts no system service."
    yield _cache_effects(plan)
    yield from _disk(plan, repositories)
    if made := [part["filesystem"] for part in drafts if part.get("filesystem", {}).get("make")]:
        kinds, folders = (
            words.enumeration(sorted({str(fs[k]) for fs in made})) for k in ("make", "root")
        )
        yield (
            f"Makes file systems ({kinds}) in images of at least {words.size(SMALLEST)} in {folders}, one "
            f"at a time. Only the measured command sees them, and they are removed."
        )
    yield from _memory(plan)
    servers = sorted({draft["access"]["server"] for draft in drafts} - {""})
    verb = "listen" if len(servers) > 1 else "listens"
    yield (
        f"{words.enumeration(servers)} {verb} on a free port of {HOST} while a cell runs. One measurement "
        f"at a time runs on this machine."
        if servers
        else "Opens no port."
    )
    yield from _privacy(plan)


def _cache_effects(plan: Plan) -> str:
    clearings = {}
    for key, cell in plan.by_path.items():
        recipe, state = plan.draft(cell), plan.draft(cell)["state"]
        once, runs = [*state["setup"], *state.get("first", [])], state["warmup"] + recipe["runs"]
        clearings[key] = once.count(CLEAR) + state["prepare"].count(CLEAR) * int(runs)
    number = sum(n * clearings[key] for key, n in unmeasured_rounds(plan).items())
    per_round = sum(clearings.values())
    times = [f"about {words.count_of(number, 'time')}"] * bool(number)
    if plan.batches and per_round:
        each = f"in each {'further ' * bool(number)}round"
        times.append(f"up to {words.count_of(per_round, 'time')} {each}")
    if not times:
        return "Clears no caches."
    if plan.env.machine.clearing(plan.config.settings.clear_caches) == "evict":
        return f"Drops the repositories' files from the page cache, {', and '.join(times)}."
    return (
        f"Empties the kernel's caches for all programs on this machine, {', and '.join(times)}. "
        f"They read from the disk again. On a production server, {EVICT}."
    )


def _disk(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    scratch = resolve(plan.config.settings.scratch, plan.root)

    def bytes_of(repo: str) -> int:
        return repository_bytes(plan.env.sources[repo].estimate())

    if loading := missing_loads(repositories):
        need = sum(bytes_of(repo) for repo, _ in loading)
        kind = "RAM" if mount_of(scratch).filesystem in IN_MEMORY else "disk"
        yield f"Takes {_space(need, scratch)} ({kind}) while repositories are loaded."
    for repo, last in repositories.dumps.items():
        revisions = words.count_of(min(last, plan.env.revisions(repo)) + 1, "revision")
        yield f"Keeps a dump file of {revisions} of {repo} in {scratch} until `make clean`."
    for storage in repositories.storages:
        folder = resolve(plan.config.settings.storages[storage], plan.root)
        need = sum(bytes_of(variant.repo) for variant, _ in repositories.missing(storage))
        if storage == repositories.storages[0]:
            # Loaded repositories stay, so that another packing needs no load.
            need += sum(bytes_of(repo) for repo, _ in missing_loads(repositories))
        place = f"All of it is in {repositories.workdir(storage).path} until `make clean`."
        if need:
            yield f"Takes {_space(need, folder)} for repositories and their copies. {place}"
        else:
            yield f"All copies on {storage} exist. {place}"


def _space(need: float, folder: Path) -> str:
    if not folder.is_dir():
        return f"{words.size(need)} in {folder} (which does not exist)"
    free = free_bytes(folder)
    return f"{words.size(need)} of the {words.size(free)} free in {folder}{' (too little)' * (need > free)}"


def _memory(plan: Plan) -> Iterator[str]:
    now = kernel.memory()
    if now.limit is not None:
        yield (
            f"A control group limits memory to {words.size(now.limit)}, of which "
            f"{words.size(now.available or 0)} are available."
        )
    caches = []
    for folder in sorted({plan.draft(cell)["server_folder"] for cell in plan.cells} - {""}):
        options = server_settings(plan.root, Path(folder).name)["svnserve"]
        caches += [f"{words.size(size)} ({folder})" for size in cache_bytes("svnserve", options)]
    if caches:
        yield f"The cache of a server takes up to this much RAM: {', '.join(caches)}."


def _privacy(plan: Plan) -> Iterator[str]:
    parts = [part for part in map(plan.draft, plan.cells) if is_private_cell(part, plan.env)]
    if not (names := sorted({part["repository"]["name"] for part in parts})):
        return
    networks = {part["network"] for part in parts}
    servers = "no server of vcsbench has it"
    if SHARED in networks:
        servers = "its servers answer every user of this machine"
    elif networks & {OWN, USER}:
        servers = "its servers answer only in a network of the session"
    verb = "is" if len(names) == 1 else "are"
    yield (
        f"{words.enumeration(names)} {verb} private: only you and the servers' user can read the copies; "
        f"{servers}."
    )
