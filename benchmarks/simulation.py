"""How often tables are right: intervals, calls and noise floors on made-up measurements of known truth.

usage: python benchmarks/simulation.py [--write | --check]
Makes measurements with noise of 3 % per run, makes tables of them by the workflow's own code, and counts.
Prints the cases with `yes` or `no` for whether each keeps its limits, and exits with 1 where one does not.
--write puts the result into docs/statistics.md, --check exits with 1 also where the document has another.
Seeds are fixed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from vcsbench.compare.decisions import USUAL
from vcsbench.compare.family import with_calls
from vcsbench.compare.tables import make_table
from vcsbench.metrics import DEFAULT, metric_of

DOCUMENT = Path(__file__).parents[1] / "docs" / "statistics.md"
BEGIN, END = "<!-- simulation -->", "<!-- end of simulation -->"

NOISE = 0.03
SLOWDOWN = 1.10
# A table compares two pairs of cells in each class, as that of the default grid does.
PAIRS_PER_CLASS = 2
COMPARE = {"axis": "format", "baseline": "f6", "candidates": ["f7"]}
DEFINITION = {"compare": COMPARE, "rows": [], "columns": []}
AXES = ["repo", "command", "packing", "format"]
NOISE_CLASS = ["command"]

# Drift: how much faster each round is than the last, give or take how much; and from the first to the
# last cell of a block, all as logarithms.
PER_ROUND, WAVER, WITHIN_BLOCK = -0.08, 0.05, -0.03
# The limits that are to be kept.
COVERAGE = (0.93, 0.97)
FALSE_CALLS = 1 / 200
POWER, POWER_ROUNDS = 0.9, 10


@dataclass(frozen=True)
class Case:
    """Experiments of one kind: so many tables of `family` comparisons over `rounds`.

    `drift` is `none`; `rounds`: all cells of a round move together, getting faster and wavering, as
    what lies below the caches makes them; or `blocks`: also within a block, in a straight line from
    the first to the last of its cells, whose order is drawn anew in each round. A block is here the
    cells of a class. `noise` is `normal` or `heavy-tailed` (Student's t with 3 degrees of
    freedom, the same standard deviation); both are noise of the logarithm.
    """

    rounds: int
    family: int
    drift: str = "none"
    noise: str = "normal"
    experiments: int = 1000


@dataclass(frozen=True)
class Outcome:
    """Shares of a case: of intervals that hold the truth, of comparisons of identical cells that are
    called a difference, of tables with any such, and of slowdowns of 10 % that are called slower."""

    coverage: float
    false_calls: float
    false_tables: float
    power: float


def outcome(case: Case, seed: int = 1) -> Outcome:
    """Simulate a case: once with identical cells, once with one slowdown in each table."""
    same = tables(case, 1.0, seed)
    called = same["call"].isin(["faster", "slower"])
    changed = tables(case, SLOWDOWN, seed + 1)
    slowed = changed[changed["first"]]
    truth = np.where(changed["first"], 1 / SLOWDOWN, 1.0)
    holds = pd.concat(
        [
            (same["low"] <= 1) & (same["high"] >= 1),
            (changed["low"] <= truth) & (truth <= changed["high"]),
        ]
    )
    return Outcome(
        coverage=float(holds.mean()),
        false_calls=float(called.mean()),
        false_tables=float(called.groupby(same["repo"]).any().mean()),
        power=float((slowed["call"] == "slower").mean()),
    )


def tables(case: Case, slowdown: float, seed: int) -> pd.DataFrame:
    """The rows of all experiments' tables; `repo` is the experiment, `first` marks the comparison whose
    candidate takes `slowdown` times as long.

    One call makes the rows of all experiments, each of which has classes of its own; then those of each
    are judged as the one table that they are.
    """
    frame = measurements(case, slowdown, np.random.default_rng(seed))
    order = {axis: list(frame[axis].unique()) for axis in AXES}
    rows = make_table(frame, "simulated", DEFINITION, order, NOISE_CLASS)
    rows["first"] = rows["command"].str.endswith(".0") & (rows["packing"] == "p0")
    words = metric_of(DEFAULT).calls
    called = [with_calls(of_one, words, USUAL) for _, of_one in rows.groupby("repo", sort=False)]
    return pd.concat(called, ignore_index=True)


def measurements(case: Case, slowdown: float, random: np.random.Generator) -> pd.DataFrame:
    """Measurements as the workflow has them: in each class pairs of cells, one of them with a twin."""
    pairs = min(PAIRS_PER_CLASS, case.family)
    cells = [
        (*cell, place)
        for repo in range(case.experiments)
        for place in range(case.family // pairs)
        for cell in _class_of_cells(f"e{repo}", f"e{repo}.{place}", pairs)
    ]
    frame = pd.DataFrame(cells, columns=["cell", *AXES, "place"])
    slow = (frame["place"] == 0) & (frame["packing"] == "p0") & (frame["format"] == "f7")
    level = np.log(np.where(slow, slowdown, 1.0))
    logs = level[:, None] + _noise(case, (len(frame), case.rounds), random)
    if case.drift != "none":
        experiment, _ = pd.factorize(frame["repo"])
        logs += _drift(case, random)[experiment]
    if case.drift == "blocks":
        logs += _drift_within(case, len(frame), 2 * pairs + 1, random)
    numbers = np.arange(1, case.rounds + 1)
    long = frame.loc[frame.index.repeat(case.rounds)].assign(
        round=np.tile(numbers, len(frame)), elapsed_s=np.exp(logs).ravel()
    )
    return long.assign(user_s=0.1, system_s=0.1, host="here", flags="", work='{"kind": "log"}')


def _class_of_cells(repo: str, command: str, pairs: int) -> Iterator[tuple[str, ...]]:
    for pair in range(pairs):
        for side in ("f6", "f7"):
            axes = (repo, command, f"p{pair}", side)
            yield ("/".join(axes), *axes)
    twin = (repo, command, "p0", "f6")
    yield ("/".join(twin) + "~2", *twin)


def _noise(case: Case, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    if case.noise == "normal":
        return random.normal(0, NOISE, shape)
    return random.standard_t(3, shape) * NOISE / math.sqrt(3)


def _drift(case: Case, random: np.random.Generator) -> np.ndarray:
    """A row per experiment: how all cells of each round are moved."""
    steady = PER_ROUND * np.arange(case.rounds)
    return steady + random.normal(0, WAVER, (case.experiments, case.rounds))


def _drift_within(case: Case, cells: int, size: int, random: np.random.Generator) -> np.ndarray:
    """A row per cell: how its place in the block's order moves it in each round. `size` cells that
    follow one another are a block, twins among them."""
    places = np.tile(np.arange(size)[:, None], (cells // size, 1, case.rounds))
    shuffled = random.permuted(places, axis=1)
    return WITHIN_BLOCK * shuffled.reshape(cells, case.rounds) / (size - 1)


def cases() -> list[Case]:
    """What the document shows."""
    known = [
        Case(rounds, 1, drift, experiments=4000)
        for rounds in (5, 10)
        for drift in ("none", "rounds", "blocks")
    ]
    known += [Case(rounds, 12, experiments=400) for rounds in (5, 10)]
    known += [Case(rounds, 48, experiments=200) for rounds in (5, 10)]
    known += [Case(10, 48, "blocks", experiments=200)]
    known += [Case(rounds, 1, noise="heavy-tailed", experiments=3000) for rounds in (5, 10)]
    return known


def broken(case: Case, found: Outcome) -> list[str]:
    """Which limits an outcome does not keep; heavy tails are for information."""
    if case.noise != "normal":
        return []
    said = []
    if not COVERAGE[0] <= found.coverage <= COVERAGE[1]:
        said.append(f"{case}: {found.coverage:.1%} of the intervals hold the truth")
    if found.false_calls > FALSE_CALLS:
        said.append(f"{case}: {found.false_calls:.2%} false calls")
    if case.rounds >= POWER_ROUNDS and found.power < POWER:
        said.append(f"{case}: {found.power:.0%} of the slowdowns are called")
    return said


def _held(case: Case, found: Outcome) -> str:
    return "-" if case.noise != "normal" else "no" if broken(case, found) else "yes"


def document(results: list[tuple[Case, Outcome]]) -> str:
    """The results as a Markdown table."""
    lines = [
        "| rounds | comparisons in the table | noise | drift | intervals that hold the truth | "
        "false calls of identical cells | tables with any | slowdowns of 10 % called | held |",
        "| ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for case, found in results:
        lines.append(
            f"| {case.rounds} | {case.family} | {case.noise} | {case.drift} | "
            f"{found.coverage:.1%} | {found.false_calls:.2%} | {found.false_tables:.1%} | "
            f"{found.power:.1%} | {_held(case, found)} |"
        )
    return "\n".join(lines)


def main(write: bool, check: bool) -> int:
    """Simulate, print, and say which limits are not kept, and whether the document has the result."""
    results = [(case, outcome(case)) for case in cases()]
    text = document(results)
    print(text)
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    written, _, after = rest.partition(END)
    if write:
        DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    failures = [said for case, found in results for said in broken(case, found)]
    print(f"held: {'no' if failures else 'yes'}")
    if check and written.strip() != text:
        failures.append(f"{DOCUMENT.name} has another result: run this with --write")
    print(*failures, sep="\n", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    if wrong := set(sys.argv[1:]) - {"--write", "--check"}:
        sys.exit(
            f"unknown: {' '.join(sorted(wrong))}; usage: python benchmarks/simulation.py [--write | --check]"
        )
    sys.exit(main("--write" in sys.argv[1:], "--check" in sys.argv[1:]))
