"""How many timed runs in a cell-round tell most for the time, by the variances and the costs of a whole run.

usage: python benchmarks/runs.py RESULTS [STUDY]
Reads results/measurements of a run and measures nothing. For each kind of hot cell (command, ra): what single
runs of a cell-round scatter by, what cell-rounds scatter by beyond that (whatever all cells of a block share
in a round apart), and how much time each number of runs would take for the same error, against the number
that the run had: (between + within / runs) x (cost of a round + runs x cost of a run). Kalibera and Jones,
Rigorous Benchmarking in Reasonable Time, 2013.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from rows import ROOT

sys.path.insert(0, str(ROOT / "workflow"))

from vcsbench.errors import UserError
from vcsbench.evidence.measurements import read_measurements
from vcsbench.evidence.spent import spent

BLOCK = ["command", "repo", "cache"]
KIND = ["command", "ra", "cache"]
NUMBERS = (2, 3, 4, 5, 6, 8)


def kinds(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per kind of cells that have several runs in a cell-round: how many these are, the two variances
    (of logarithms), and the seconds of a run and of a whole cell-round with what lies before the next."""
    costs = spent(frame, BLOCK, [])
    between_rounds = costs.waiting_s / len(frame.drop_duplicates(["cell", "round"]))
    frame = frame.assign(log=np.log(frame["elapsed_s"].astype(float)))
    rounds = frame.groupby([*BLOCK, "ra", "cell", "round"], dropna=False).agg(
        runs=("log", "size"), mean=("log", "mean"), within=("log", "var"),
        run_s=("elapsed_s", "mean"), took_s=("cell_round_s", "first"),
    ).reset_index()  # fmt: skip
    rounds = rounds[rounds["runs"] > 1]
    rounds["off"] = rounds["mean"] - rounds.groupby("cell")["mean"].transform("mean")
    rounds["off"] -= rounds.groupby([*BLOCK, "round"], dropna=False)["off"].transform("mean")
    by_block = rounds.groupby(BLOCK, dropna=False)
    # What is left of the freedom of each cell-round when its cell's and its round's means are taken out.
    free = (1 - 1 / by_block["cell"].transform("nunique")) * (
        1 - 1 / by_block["round"].transform("nunique")
    )
    rounds["square"] = (rounds["off"] ** 2 / free).where(free > 0)
    found = rounds.groupby(KIND, dropna=False)[
        ["runs", "within", "square", "run_s", "took_s"]
    ].mean()
    found["between"] = (found["square"] - found["within"] / found["runs"]).clip(lower=0)
    found["took_s"] += between_rounds
    found["seconds"] = found["took_s"] * rounds.groupby(KIND, dropna=False).size()
    return found


def time_for_the_same(kind: pd.Series, runs: float) -> float:
    """How much time so many runs take for the error that the kind's own number has, against that."""

    def product(number: float) -> float:
        cost = kind["took_s"] + (number - kind["runs"]) * kind["run_s"]
        return float((kind["between"] + kind["within"] / number) * cost)

    return product(runs) / product(kind["runs"])


def timed(kind: pd.Series, runs: float) -> float:
    """The share of a cell-round that is timed, with so many runs."""
    return float(runs * kind["run_s"] / (kind["took_s"] + (runs - kind["runs"]) * kind["run_s"]))


def main(results: str, study: str = "fsfs-san-2014") -> None:
    """Read, and print a row per kind and one for all of them, by the time that they took."""
    found = kinds(read_measurements(Path(results, "measurements", f"{study}.csv")))
    had = round(found["runs"].mean())
    print("| kind | runs scatter by | cell-rounds beyond that |", end="")
    print(*(f" time with {number}, of that with {had} |" for number in NUMBERS), sep="")
    print("| --- |" + " ---: |" * (2 + len(NUMBERS)))
    for name, kind in found.iterrows():
        scatter = (f"{100 * np.sqrt(kind[which]):.1f} %" for which in ("within", "between"))
        times = (f"{time_for_the_same(kind, number):.2f}" for number in NUMBERS)
        print(f"| {' '.join(map(str, name))} |", " | ".join([*scatter, *times]), "|")
    weights = found["seconds"] / found["seconds"].sum()
    for what, of in (("time for the same", time_for_the_same), ("of it timed", timed)):
        both = (found.apply(of, axis=1, runs=number) for number in NUMBERS)
        told = (f"{float((column * weights).sum()):.2f}" for column in both)
        print(f"| all, by their time: {what} | | |", " | ".join(told), "|")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
