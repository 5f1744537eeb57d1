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
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from stopping import by_minutes, by_width, judged

from vcsbench.codes import Call
from vcsbench.metrics import DEFAULT, METRICS
from vcsbench.statistics.calls import ALPHA, TABLE_ALPHA, call_ratios, p_values
from vcsbench.statistics.comparisons import DEFAULT_LIMITS
from vcsbench.statistics.estimates import Estimate, ratio_interval
from vcsbench.statistics.noise import LogTable, Noise

DOCUMENT = Path(__file__).parents[1] / "docs" / "statistics.md"
BEGIN, END = "<!-- simulation -->", "<!-- end of simulation -->"

NOISE = 0.03
SLOWDOWN = math.log(1.10)
TWIN_SD = {"alike": 0.0, "differ": 0.03, "by 1.5 %": 0.015, "by 2 %": 0.02}
# The share of the noise that differs between the runs of a cell-round.
WITHIN = 0.8
# Rules that end the rounds of a block without a fixed number, and its largest number of rounds.
STOPS = {"by width": (by_width, 15), "by minutes": (by_minutes, 60)}

# A block is as in the default grid: 12 cells, and a duplicate for each access.
AXES = ["command", "access", "packing", "format"]
BLOCK = ["command"]
RAS, PACKINGS, FORMATS = ("http", "svn", "file"), ("nopack", "pack"), ("f6", "f7")
CELLS = list(itertools.product(RAS, PACKINGS, FORMATS))
# Cells that are measured twice. A case uses the first `duplicates` of them.
TWINS = [CELLS.index((access, packing, "f6")) for packing in PACKINGS for access in RAS]
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
    10 times` (in one cell). `twins` is the difference between duplicates: `alike`, `differ` (by 3 %), or
    another number. `runs` is the number of runs whose median a cell-round has. `noise` is `normal` or
    `heavy-tailed` (Student's t with 3 degrees of freedom, the same standard deviation).
    """

    rounds: int | str
    blocks: int = 8
    scatter: str = "equal"
    twins: str = "alike"
    runs: int = 1
    noise: str = "normal"
    experiments: int = 500
    duplicates: int = 3  # pairs of identical cells in each block

    @property
    def size(self) -> int:
        """Return the number of cells of a block, duplicates included."""
        return len(CELLS) + self.duplicates


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


def outcome(case: Case, seed: int = 1) -> Outcome:
    """Simulate a case twice: with identical pairs only, and with a slowdown of every other pair."""
    random = np.random.default_rng(seed)
    same = [study(case, 0.0, random) for _ in range(case.experiments)]
    half = [study(case, SLOWDOWN, random) for _ in range(case.experiments)]
    both = pd.concat(itertools.chain.from_iterable((s.rows, s.averages) for s in same + half))
    rows = both[both["noisy"] >= 0]
    called = [s.rows["call"].isin(["faster", "slower"]) for s in same]
    halves = pd.concat(s.rows for s in half)
    slowed = halves[halves["truth"] != 0]
    false = [s.rows["call"].isin(["faster", "slower"]) & (s.rows["truth"] == 0) for s in half]
    identical = pd.concat(s.rows for s in same)
    return Outcome(
        coverage=float(rows["holds"].mean()),
        noisiest=float(rows[rows["noisy"] == rows["noisy"].max()]["holds"].mean()),
        averages=float(both[both["noisy"] < 0]["holds"].mean()),
        false_calls=float(identical["alone"].mean()),
        false_tables=float(np.mean([any(c) for c in called])),
        false_halves=float(np.mean([any(c) for c in false])),
        power=float((slowed["call"] == "slower").mean()),
        own_power=float((slowed["own"] == "slower").mean()),
        false_alike=float((slowed["call"] == Call.EQUAL).mean()),
        alike=float((identical["call"] == Call.EQUAL).mean()),
    )


@dataclass(frozen=True)
class Study:
    """A judged study: a row for each comparison, and a row for the average of each block."""

    rows: pd.DataFrame
    averages: pd.DataFrame


def study(case: Case, slowdown: float, random: np.random.Generator) -> Study:
    """Make a study and judge it. The candidate of every other comparison is slower by `slowdown`."""
    measured, scatter = made(case, slowdown, random)
    pairs = list(pairs_of(case.blocks, case.size))
    if isinstance(case.rounds, str):
        measured = STOPS[case.rounds][0](measured, pairs)
    noise, found = judged(measured, pairs)
    own = [ratio_interval(measured.logs[one] - measured.logs[other]) for one, other in pairs]
    truth = -slowdown * (np.arange(len(pairs)) % 2)
    words = METRICS[DEFAULT].calls
    rows = pd.DataFrame(
        {
            "truth": truth,
            "holds": holding(found, truth),
            "noisy": [scatter[one] for one, _ in pairs],
            "call": call_ratios(found, noise.has_duplicates, words, DEFAULT_LIMITS),
            "own": call_ratios(own, True, words, DEFAULT_LIMITS),
            "alone": p_values(*np.array([(math.log(e.value), e.error, e.degrees) for e in found]).T)
            <= ALPHA,
        }
    )
    averages = [average(measured, noise, block, case.size) for block in range(case.blocks)]
    mean = [truth[block * PAIRS : (block + 1) * PAIRS].mean() for block in range(case.blocks)]
    return Study(rows, pd.DataFrame({"holds": holding(averages, mean), "noisy": -1.0}))


def holding(estimates: list[Estimate], truth: np.ndarray | list[float]) -> list[bool]:
    """Return for each interval if it contains the true logarithm."""
    return [e.low <= math.exp(t) <= e.high for e, t in zip(estimates, truth, strict=True)]


def pairs_of(blocks: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the rows to compare: f6 and f7 of each block, access and packing."""
    for block in range(blocks):
        for pair in range(PAIRS):
            yield block * size + 2 * pair, block * size + 2 * pair + 1


def average(measured: LogTable, noise: Noise, block: int, size: int) -> Estimate:
    """Return the ratio of the formats over all pairs of a block."""
    rows = list(pairs_of(block + 1, size))[-PAIRS:]
    d = np.mean([measured.logs[one] - measured.logs[other] for one, other in rows], axis=0)
    keys = [(measured.keys[one], measured.keys[other]) for one, other in rows]
    return noise.with_error(ratio_interval(d, PAIRS), keys)


def made(case: Case, slowdown: float, random: np.random.Generator) -> tuple[LogTable, np.ndarray]:
    """Return a study as the workflow measures it, and the relative noise of each row."""
    rounds = STOPS[case.rounds][1] if isinstance(case.rounds, str) else case.rounds
    size, twins = case.size, TWINS[: case.duplicates]
    count = case.blocks * size
    keys = [(f"c{b}", *CELLS[i]) for b in range(case.blocks) for i in [*range(len(CELLS)), *twins]]
    scatter = scatters(case, random)
    level = np.zeros((case.blocks, size))
    level[:, 3 : len(CELLS) : 4] = slowdown  # f7 of every other pair
    if sd := TWIN_SD[case.twins]:
        level += random.normal(0, sd / math.sqrt(2), level.shape)
    logs = level.reshape(-1, 1) + scatter[:, None] * noise_of_rounds(case, (count, rounds), random)
    drift = PER_ROUND * np.arange(rounds) + random.normal(0, WAVER, (case.blocks, rounds))
    places = np.tile(np.arange(size)[:, None], (case.blocks, 1, rounds))
    order = random.permuted(places, axis=1).reshape(count, rounds)
    logs += np.repeat(drift, size, axis=0) + WITHIN_BLOCK * order / (size - 1)
    twin = [i >= len(CELLS) for _ in range(case.blocks) for i in range(size)]
    return LogTable(keys, ["here"] * count, twin, logs, [0]), scatter


def scatters(case: Case, random: np.random.Generator) -> np.ndarray:
    """Return the noise of each row, relative to the usual noise."""
    found = np.ones(case.blocks * case.size)
    if case.scatter == "unequal":
        return np.asarray(np.exp(random.normal(0, 0.25, len(found))))
    rows = np.arange(len(found)) % case.size
    if case.scatter == "5 times":
        found[rows < len(CELLS) // 2] = 5.0
    if case.scatter == "one 10 times":
        found[0] = 10.0
    return found


def noise_of_rounds(case: Case, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    """Return the noise of cell-rounds as logarithms; of several runs, their mean."""

    def drawn(shape: tuple[int, ...]) -> np.ndarray:
        if case.noise == "normal":
            return random.normal(0, NOISE, shape)
        return random.standard_t(3, shape) * NOISE / math.sqrt(3)

    if case.runs == 1:
        return drawn(shape)
    runs = drawn((*shape, case.runs)).mean(axis=2)
    return math.sqrt(WITHIN) * runs + math.sqrt(1 - WITHIN) * drawn(shape)


def measurements(measured: LogTable) -> pd.DataFrame:
    """Return a study as rows of a measurements file."""
    rows = []
    for key, twin, logs in zip(measured.keys, measured.is_duplicate, measured.logs, strict=True):
        cell = {"cell": "/".join(key) + ("~2" if twin else ""), **dict(zip(AXES, key, strict=True))}
        rows += [{**cell, "round": i, "elapsed_s": math.exp(log)} for i, log in enumerate(logs, 1)]
    return pd.DataFrame(rows).assign(
        user_s=0.1, system_s=0.1, host="here", flags="", work='{"kind": "log"}'
    )


def cases() -> list[Case]:
    """Return the cases of the document."""
    known = [Case(rounds) for rounds in (2, 3, 4, 5, 10)]
    known += [Case(rounds, blocks=1, experiments=2000) for rounds in (2, 3, 4)]
    known += [Case(rounds, blocks=1, experiments=2000) for rounds in (5, 10)]
    known += [Case(rounds, scatter=of) for of in ("unequal", "5 times") for rounds in (5, 10)]
    known += [Case(5, scatter="one 10 times"), Case(5, runs=4)]
    known += [Case(rounds, twins="differ") for rounds in (5, 10)]
    known += [Case(5, blocks=4, twins=by) for by in ("by 1.5 %", "by 2 %")]
    # Small grids: one block and few duplicates. These show little if duplicates really differ.
    known += [
        Case(5, blocks=1, duplicates=n, twins=twins, experiments=2000)
        for twins in ("alike", "by 1.5 %")
        for n in (1, 2, 4)
    ]
    known += [Case("by width", scatter=of, experiments=250) for of in ("equal", "unequal")]
    # 500 studies estimate a share of 1 in 20 to within 1 in 100, which is too coarse close to the limit.
    known += [Case("by minutes"), Case("by minutes", scatter="unequal", experiments=1500)]
    known += [Case("by minutes", scatter="5 times"), Case("by minutes", twins="differ")]
    known += [Case(rounds, noise="heavy-tailed") for rounds in (5, 10)]
    return known


def broken(case: Case, found: Outcome) -> list[str]:
    """Return the limits that an outcome breaks. Some cases have no limits."""
    if for_information(case):
        return []
    low, high = COVERAGE
    has_usual_power = case.rounds == POWER_ROUNDS and (case.scatter, case.twins) == (
        "equal",
        "alike",
    )
    limits = {
        # With few duplicates the prior makes intervals wider.
        "coverage": low <= found.coverage and (found.coverage <= high or is_small(case)),
        # The average over a block has two values after two rounds, and is not printed then.
        "averages": case.rounds == 2
        or (low <= found.averages and (found.averages <= high or is_small(case))),
        "false_calls": found.false_calls <= FALSE_CALLS,
        "false_tables": found.false_tables <= FALSE_TABLES,
        "false_halves": found.false_halves <= FALSE_TABLES,
        "false_alike": found.false_alike <= FALSE_ALIKE,
        # If duplicates differ, their own rounds alone call a difference.
        "power": (case.twins == "differ" or found.power >= min(found.own_power, POWER) - SLACK)
        and (found.power >= POWER or not has_usual_power),
    }
    return [
        f"{case}: {name} is {getattr(found, name):.2%}" for name, kept in limits.items() if not kept
    ]


def for_information(case: Case) -> bool:
    """Return True if a case has no limits: heavy tails, and small differences of few duplicates."""
    return case.noise != "normal" or case.twins.startswith("by")


def is_small(case: Case) -> bool:
    """Return True if a case has at most four pairs of duplicates."""
    return case.blocks * case.duplicates <= 4


def document(results: list[tuple[Case, Outcome]]) -> str:
    """Return a line per case, with its shares in per cent."""
    rows = [
        {**asdict(case), **{name: f"{share:.2%}" for name, share in asdict(found).items()}}
        | {"held": "-" if for_information(case) else "no" if broken(case, found) else "yes"}
        for case, found in results
    ]
    return pd.DataFrame(rows).to_string(index=False)


def summary(results: list[tuple[Case, Outcome]]) -> str:
    """Return the rows of the document: the most usual cases, and their most important shares."""
    found = dict(results)
    names = {
        "2 rounds, 24 pairs of duplicates": Case(2),
        "3 rounds, 24 pairs": Case(3),
        "5 rounds, 24 pairs": Case(5),
        "10 rounds, 24 pairs": Case(10),
        "5 rounds, 3 pairs": Case(5, blocks=1, experiments=2000),
        "5 rounds, 1 pair": Case(5, blocks=1, duplicates=1, experiments=2000),
        "as many rounds as a session decides, 24 pairs": Case("by minutes"),
        "the same, unequal noise": Case("by minutes", scatter="unequal", experiments=1500),
        "10 rounds, 24 pairs that differ by 3 %": Case(10, twins="differ"),
        "5 rounds, 12 pairs that differ by 2 %": Case(5, blocks=4, twins="by 2 %"),
        "5 rounds, 1 pair that differs by 1.5 %": Case(
            5, blocks=1, duplicates=1, twins="by 1.5 %", experiments=2000
        ),
    }
    lines = [
        "| case | intervals that contain the truth | equal pairs called different "
        "| tables with such a call | slowdowns of 10 % called |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, case in names.items():
        one = found[case]
        shares = (
            f"{one.coverage:.1%} | {one.false_calls:.2%} | {one.false_tables:.1%} | {one.power:.1%}"
        )
        lines.append(f"| {name} | {shares} |")
    return "\n".join(lines)


def main(write: bool, check: bool) -> int:
    """Simulate and print. Return 1 if a limit is broken, or with `check` if the document differs."""
    results = [(case, outcome(case)) for case in cases()]
    text = document(results)
    print(text)
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    written, _, after = rest.partition(END)
    if write:
        DOCUMENT.write_text(f"{before}{BEGIN}\n{summary(results)}\n{END}{after}", encoding="utf-8")
    failures = [limit for case, found in results for limit in broken(case, found)]
    print(f"held: {'no' if failures else 'yes'} (levels {ALPHA} and {TABLE_ALPHA})")
    if check and written.strip() != summary(results):
        failures.append(f"{DOCUMENT.name} has another result: run this with --write")
    print(*failures, sep="\n", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    if wrong := set(sys.argv[1:]) - {"--write", "--check"}:
        sys.exit(
            f"unknown: {' '.join(sorted(wrong))}; usage: python benchmarks/simulation.py [--write | --check]"
        )
    sys.exit(main("--write" in sys.argv[1:], "--check" in sys.argv[1:]))
