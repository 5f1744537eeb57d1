"""Simulate studies with a known truth, and count how often intervals and calls are right.

usage: python benchmarks/simulation.py [--write | --check]
Makes studies with noise of 3 % per run and judges them by the workflow's code. Prints all cases, with `yes`
or `no` for their limits, and exits with 1 if a case breaks a limit. --write puts the result into
docs/statistics.md. --check exits with 1 if the document has another result. Seeds are fixed. It takes some
minutes.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from stopping import estimate_ratios, stop_by_minutes, stop_by_width

from vcsbench.codes import Call
from vcsbench.metrics import DEFAULT_METRIC, METRICS
from vcsbench.statistics.calls import ALPHA, TABLE_ALPHA, call_ratios, p_values
from vcsbench.statistics.comparisons import DEFAULT_LIMITS
from vcsbench.statistics.estimates import Estimate, ratio_interval
from vcsbench.statistics.noise import LogTable, Noise

DOCUMENT = Path(__file__).parents[1] / "docs" / "statistics.md"
BEGIN, END = "<!-- simulation -->", "<!-- end of simulation -->"

NOISE = 0.03
SLOWDOWN = math.log(1.10)
# By the difference between duplicates (Case.difference): the standard deviation of its logarithm.
DIFFERENCE_SD = {"alike": 0.0, "differ": 0.03, "by 1.5 %": 0.015, "by 2 %": 0.02}
# The share of the noise that differs between the runs of a cell-round.
WITHIN = 0.8
# Rules that end the rounds of a block without a fixed number, and its largest number of rounds.
STOPS = {"by width": (stop_by_width, 15), "by minutes": (stop_by_minutes, 60)}

# A block is as in the default grid: 12 cells, and a duplicate for each access.
AXES = ["command", "access", "packing", "format"]
BLOCK = ["command"]
ACCESSES, PACKINGS, FORMATS = ("http", "svn", "file"), ("nopack", "pack"), ("f6", "f7")
CELLS = list(itertools.product(ACCESSES, PACKINGS, FORMATS))
# Cells that are measured twice. A case uses the first `duplicates` of them.
DUPLICATED = [CELLS.index((access, packing, "f6")) for packing in PACKINGS for access in ACCESSES]
PAIRS = len(CELLS) // 2

# Drift as logarithms: from round to round, its standard deviation, and from the first to the last cell of a
# block. Each round has its own random order of cells.
PER_ROUND, WAVER, WITHIN_BLOCK = -0.08, 0.05, -0.03
# Limits. The prior of the duplicate variance makes intervals a little wider than 95 %.
COVERAGE = (0.93, 0.975)
FALSE_CALLS, FALSE_TABLES, FALSE_ALIKE = 1 / 200, 1 / 20, 1 / 20
POWER, POWER_ROUNDS, SLACK = 0.9, 10, 0.03


@dataclass(frozen=True)
class Case:
    """Studies of one kind, with a table of six comparisons in each of `blocks`.

    `rounds` is a number, or the rule of STOPS that gives a block more than 5. `scatter` is the noise of
    cells: `equal`, `unequal` (by a factor of about 1.3), `5 times` (in half of the comparisons), or `one
    10 times` (in one cell). `difference` is between duplicates, a key of DIFFERENCE_SD. `runs` is the number
    of runs whose mean a cell-round has. `noise` is `normal` or `heavy-tailed` (Student's t with 3 degrees of
    freedom, the same standard deviation).
    """

    rounds: int | str
    blocks: int = 8
    scatter: str = "equal"
    difference: str = "alike"
    runs: int = 1
    noise: str = "normal"
    experiments: int = 500
    duplicates: int = 3  # pairs of identical cells in each block

    @property
    def size(self) -> int:
        """Return the number of cells of a block, duplicates included."""
        return len(CELLS) + self.duplicates

    @property
    def has_limits(self) -> bool:
        """Return False for heavy tails, and for small differences of few duplicates."""
        return self.noise == "normal" and not self.difference.startswith("by")

    @property
    def has_few_duplicates(self) -> bool:
        return self.blocks * self.duplicates <= 4


@dataclass(frozen=True)
class Outcome:
    """Shares of a case.

    `coverage` is the share of intervals with the truth, `noisiest` among the noisiest comparisons,
    `averages` among averages over a block. `false_calls` is the share of identical pairs that are called
    different alone, `false_tables` of tables of identical pairs with a call, `false_halves` of half-identical
    tables with a call on an identical pair. `power` is the share of slowdowns of 10 % that are called,
    `own_power` by their own rounds alone, `false_alike` of slowdowns called equal, `alike` of identical
    pairs called equal.
    """

    coverage: float
    noisiest: float
    averages: float
    false_calls: float
    false_tables: float
    false_halves: float
    power: float
    own_power: float
    false_alike: float
    alike: float


@dataclass(frozen=True)
class JudgedStudy:
    """A judged study: a row for each comparison, and True for each average of a block that is right.

    Columns: `truth` (the true logarithm), `holds` (the interval contains the truth), `noisy` (the noise of
    the baseline, relative to the usual noise), `call`, `own` (the call by the own rounds alone), and `alone`
    (a difference without Holm's correction). An average is right if its interval contains the truth.
    """

    rows: pd.DataFrame
    right_averages: list[bool]

    @property
    def is_called(self) -> pd.Series:
        return self.rows["call"].isin([Call.FASTER, Call.SLOWER])


def simulate(case: Case, seed: int = 1) -> Outcome:
    """Simulate a case with identical pairs only (`same`), and with every other pair slowed (`half`)."""
    rng = np.random.default_rng(seed)
    same = [judge_study(case, 0.0, rng) for _ in range(case.experiments)]
    half = [judge_study(case, SLOWDOWN, rng) for _ in range(case.experiments)]
    studies = [*same, *half]
    rows = pd.concat(study.rows for study in studies)
    is_noisiest = rows["noisy"] == rows["noisy"].max()
    right_averages = [is_right for study in studies for is_right in study.right_averages]
    rows_of_same = pd.concat(study.rows for study in same)
    rows_of_half = pd.concat(study.rows for study in half)
    slowed = rows_of_half[rows_of_half["truth"] != 0]
    false_halves = [any(study.is_called & (study.rows["truth"] == 0)) for study in half]
    return Outcome(
        coverage=float(rows["holds"].mean()),
        noisiest=float(rows[is_noisiest]["holds"].mean()),
        averages=float(np.mean(right_averages)),
        false_calls=float(rows_of_same["alone"].mean()),
        false_tables=float(np.mean([any(study.is_called) for study in same])),
        false_halves=float(np.mean(false_halves)),
        power=float((slowed["call"] == Call.SLOWER).mean()),
        own_power=float((slowed["own"] == Call.SLOWER).mean()),
        false_alike=float((slowed["call"] == Call.EQUAL).mean()),
        alike=float((rows_of_same["call"] == Call.EQUAL).mean()),
    )


def judge_study(case: Case, slowdown: float, rng: np.random.Generator) -> JudgedStudy:
    """Make a study and judge it. The candidate of every other comparison is slower by `slowdown`."""
    measured, scatter = make_study(case, slowdown, rng)
    pairs = list(list_pairs(case.blocks, case.size))
    if isinstance(case.rounds, str):
        stop, _ = STOPS[case.rounds]
        measured = stop(measured, pairs)
    noise, ratios = estimate_ratios(measured, pairs)
    own_ratios = []
    for baseline, candidate in pairs:
        own_ratios.append(ratio_interval(measured.logs[baseline] - measured.logs[candidate]))
    log_ratios = np.array([math.log(ratio.value) for ratio in ratios])
    errors = np.array([ratio.error for ratio in ratios])
    degrees = np.array([ratio.degrees for ratio in ratios])
    # The ratio is baseline / candidate, so a slower candidate has a negative logarithm.
    truth = -slowdown * (np.arange(len(pairs)) % 2)
    calls = METRICS[DEFAULT_METRIC].calls
    rows = pd.DataFrame(
        {
            "truth": truth,
            "holds": contain_truth(ratios, truth),
            "noisy": [scatter[baseline] for baseline, _ in pairs],
            "call": call_ratios(ratios, noise.has_duplicates, calls, DEFAULT_LIMITS),
            "own": call_ratios(own_ratios, True, calls, DEFAULT_LIMITS),
            "alone": p_values(log_ratios, errors, degrees) <= ALPHA,
        }
    )
    averages = [average_of_block(measured, noise, block, case.size) for block in range(case.blocks)]
    true_averages = truth.reshape(case.blocks, PAIRS).mean(axis=1)
    return JudgedStudy(rows, contain_truth(averages, true_averages))


def contain_truth(estimates: Sequence[Estimate], truth: np.ndarray) -> list[bool]:
    """Return for each interval if it contains the true logarithm."""
    holds = []
    for estimate, log in zip(estimates, truth, strict=True):
        holds.append(estimate.low <= math.exp(log) <= estimate.high)
    return holds


def list_pairs(blocks: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the rows to compare: f6 and f7 of each block, access and packing."""
    for block in range(blocks):
        for pair in range(PAIRS):
            yield block * size + 2 * pair, block * size + 2 * pair + 1


def average_of_block(measured: LogTable, noise: Noise, block: int, size: int) -> Estimate:
    """Return the ratio of the formats over all pairs of a block."""
    pairs = list(list_pairs(block + 1, size))[-PAIRS:]
    logs = [measured.logs[baseline] - measured.logs[candidate] for baseline, candidate in pairs]
    keys = [(measured.keys[baseline], measured.keys[candidate]) for baseline, candidate in pairs]
    return noise.with_error(ratio_interval(np.mean(logs, axis=0), PAIRS), keys)


def make_study(
    case: Case, slowdown: float, rng: np.random.Generator
) -> tuple[LogTable, np.ndarray]:
    """Return a study as the workflow measures it, and the noise of each row, relative to the usual noise.

    A row is a cell, a column a round. The rows of a block follow each other: its cells, then its duplicates.
    """
    rounds = STOPS[case.rounds][1] if isinstance(case.rounds, str) else case.rounds
    size = case.size
    cells_of_block = [*range(len(CELLS)), *DUPLICATED[: case.duplicates]]
    keys = []
    for block in range(case.blocks):
        keys += [(f"c{block}", *CELLS[cell]) for cell in cells_of_block]
    scatter = draw_scatter(case, rng)
    # The true logarithm of each cell. The cells 2n and 2n + 1 are f6 and f7 of pair n, so the cells 3, 7 and
    # 11 are f7 of every other pair.
    level = np.zeros((case.blocks, size))
    level[:, 3 : len(CELLS) : 4] = slowdown
    sd = DIFFERENCE_SD[case.difference]
    if sd > 0:
        # The deviation of a difference is sqrt(2) times that of each of the two cells.
        level += rng.normal(0, sd / math.sqrt(2), level.shape)
    shape = (case.blocks * size, rounds)
    logs = level.reshape(-1, 1) + scatter[:, None] * draw_noise(case, shape, rng)
    # All cells of a block drift alike from round to round, and within a round by their random order.
    drift = PER_ROUND * np.arange(rounds) + rng.normal(0, WAVER, (case.blocks, rounds))
    places = np.tile(np.arange(size)[:, None], (case.blocks, 1, rounds))
    order = rng.permuted(places, axis=1).reshape(shape)
    logs += np.repeat(drift, size, axis=0) + WITHIN_BLOCK * order / (size - 1)
    is_duplicate = [cell >= len(CELLS) for cell in range(size)] * case.blocks
    return LogTable(keys, ["here"] * len(keys), is_duplicate, logs, [0]), scatter


def draw_scatter(case: Case, rng: np.random.Generator) -> np.ndarray:
    """Return the noise of each row, relative to the usual noise."""
    scatter = np.ones(case.blocks * case.size)
    if case.scatter == "unequal":
        return np.asarray(np.exp(rng.normal(0, 0.25, len(scatter))))
    rows = np.arange(len(scatter)) % case.size
    if case.scatter == "5 times":
        scatter[rows < len(CELLS) // 2] = 5.0
    if case.scatter == "one 10 times":
        scatter[0] = 10.0
    return scatter


def draw_noise(case: Case, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Return the noise of cell-rounds as logarithms; of several runs, their mean."""

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        if case.noise == "normal":
            return rng.normal(0, NOISE, shape)
        return rng.standard_t(3, shape) * NOISE / math.sqrt(3)

    if case.runs == 1:
        return draw(shape)
    runs = draw((*shape, case.runs)).mean(axis=2)
    return math.sqrt(WITHIN) * runs + math.sqrt(1 - WITHIN) * draw(shape)


def make_measurements(measured: LogTable) -> pd.DataFrame:
    """Return a study as rows of a measurements file."""
    rows = []
    cells = zip(measured.keys, measured.is_duplicate, measured.logs, strict=True)
    for key, is_duplicate, logs in cells:
        path = "/".join(key) + ("~2" if is_duplicate else "")
        cell = {"cell": path, **dict(zip(AXES, key, strict=True))}
        for number, log in enumerate(logs, start=1):
            rows.append({**cell, "round": number, "elapsed_s": math.exp(log)})
    return pd.DataFrame(rows).assign(
        user_s=0.1, system_s=0.1, host="here", flags="", work='{"kind": "log"}'
    )


def list_cases() -> list[Case]:
    """Return the simulated cases, those of the document among them."""
    numbers = (2, 3, 4, 5, 10)
    cases = [Case(rounds) for rounds in numbers]
    cases += [Case(rounds, blocks=1, experiments=2000) for rounds in numbers]
    cases += [Case(rounds, scatter="unequal") for rounds in (5, 10)]
    cases += [Case(rounds, scatter="5 times") for rounds in (5, 10)]
    cases += [Case(5, scatter="one 10 times"), Case(5, runs=4)]
    cases += [Case(rounds, difference="differ") for rounds in (5, 10)]
    cases += [Case(5, blocks=4, difference=difference) for difference in ("by 1.5 %", "by 2 %")]
    # Small grids: one block and few duplicates. These show little if duplicates really differ.
    small = Case(5, blocks=1, experiments=2000)
    for difference in ("alike", "by 1.5 %"):
        for duplicates in (1, 2, 4):
            cases.append(replace(small, duplicates=duplicates, difference=difference))
    by_width = Case("by width", experiments=250)
    cases += [by_width, replace(by_width, scatter="unequal")]
    # 500 studies estimate a share of 1 in 20 to within 1 in 100, which is too coarse close to the limit.
    cases += [Case("by minutes"), Case("by minutes", scatter="unequal", experiments=1500)]
    cases += [Case("by minutes", scatter="5 times"), Case("by minutes", difference="differ")]
    cases += [Case(rounds, noise="heavy-tailed") for rounds in (5, 10)]
    return cases


def list_broken_limits(case: Case, outcome: Outcome) -> list[str]:
    """Return a text for each limit that an outcome breaks; [] for a case without limits."""
    if not case.has_limits:
        return []
    low, high = COVERAGE
    # With few duplicates, the prior makes intervals wider.
    if case.has_few_duplicates:
        high = 1.0
    if (case.rounds, case.scatter, case.difference) == (POWER_ROUNDS, "equal", "alike"):
        least_power = POWER
    elif case.difference == "differ":
        # Where duplicates differ, the own rounds alone call too many differences to compare with.
        least_power = 0.0
    else:
        least_power = min(outcome.own_power, POWER) - SLACK
    is_kept = {
        "coverage": low <= outcome.coverage <= high,
        # The average over a block has two values after two rounds, and is not printed then.
        "averages": case.rounds == 2 or low <= outcome.averages <= high,
        "false_calls": outcome.false_calls <= FALSE_CALLS,
        "false_tables": outcome.false_tables <= FALSE_TABLES,
        "false_halves": outcome.false_halves <= FALSE_TABLES,
        "false_alike": outcome.false_alike <= FALSE_ALIKE,
        "power": outcome.power >= least_power,
    }
    broken = [name for name in is_kept if not is_kept[name]]
    return [f"{case}: {name} is {getattr(outcome, name):.2%}" for name in broken]


def format_outcomes(outcomes: dict[Case, Outcome]) -> str:
    """Return a line per case, with its shares in per cent, and `yes` or `no` for its limits."""
    rows = []
    for case, outcome in outcomes.items():
        shares = {name: f"{share:.2%}" for name, share in asdict(outcome).items()}
        held = "no" if list_broken_limits(case, outcome) else "yes"
        rows.append({**asdict(case), **shares, "held": held if case.has_limits else "-"})
    return pd.DataFrame(rows).to_string(index=False)


def format_summary(outcomes: dict[Case, Outcome]) -> str:
    """Return the rows of the document: the most usual cases, and their most important shares."""
    cases = {
        "2 rounds, 24 pairs of duplicates": Case(2),
        "3 rounds, 24 pairs": Case(3),
        "5 rounds, 24 pairs": Case(5),
        "10 rounds, 24 pairs": Case(10),
        "5 rounds, 3 pairs": Case(5, blocks=1, experiments=2000),
        "5 rounds, 1 pair": Case(5, blocks=1, duplicates=1, experiments=2000),
        "as many rounds as a session decides, 24 pairs": Case("by minutes"),
        "the same, unequal noise": Case("by minutes", scatter="unequal", experiments=1500),
        "10 rounds, 24 pairs that differ by 3 %": Case(10, difference="differ"),
        "5 rounds, 12 pairs that differ by 2 %": Case(5, blocks=4, difference="by 2 %"),
        "5 rounds, 1 pair that differs by 1.5 %": Case(
            5, blocks=1, duplicates=1, difference="by 1.5 %", experiments=2000
        ),
    }
    lines = [
        "| case | intervals that contain the truth | equal pairs called different "
        "| tables with such a call | slowdowns of 10 % called |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, case in cases.items():
        outcome = outcomes[case]
        shares = [f"{outcome.coverage:.1%}", f"{outcome.false_calls:.2%}"]
        shares += [f"{outcome.false_tables:.1%}", f"{outcome.power:.1%}"]
        lines.append(f"| {name} | {' | '.join(shares)} |")
    return "\n".join(lines)


def main(write: bool, check: bool) -> int:
    """Simulate and print. Return 1 if a limit is broken, or with `check` if the document differs."""
    outcomes = {case: simulate(case) for case in list_cases()}
    print(format_outcomes(outcomes))
    summary = format_summary(outcomes)
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    written, _, after = rest.partition(END)
    if write:
        DOCUMENT.write_text(f"{before}{BEGIN}\n{summary}\n{END}{after}", encoding="utf-8")
    failures = []
    for case, outcome in outcomes.items():
        failures += list_broken_limits(case, outcome)
    print(f"held: {'no' if failures else 'yes'} (levels {ALPHA} and {TABLE_ALPHA})")
    if check and written.strip() != summary:
        failures.append(f"{DOCUMENT.name} has another result: run this with --write")
    print(*failures, sep="\n", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - {"--write", "--check"}
    if unknown:
        sys.exit(f"unknown: {' '.join(sorted(unknown))}\n{__doc__}")
    sys.exit(main("--write" in sys.argv[1:], "--check" in sys.argv[1:]))
