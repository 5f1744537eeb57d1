"""The time of a run: what it answered, what more minutes would answer, and what the time was spent on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench import words
from vcsbench.statistics.contract import ALL_DECIDED, TIME_IS_UP, UNREACHABLE

_ENDED = {
    ALL_DECIDED: "The run ended because all comparisons are answered.",
    TIME_IS_UP: "The run ended because its {minutes} were over.",
    UNREACHABLE: "The run ended because more rounds cannot answer the rest.",
}


@dataclass(frozen=True)
class Step:
    """A longer run: its minutes in all, and what the additional ones answer."""

    minutes: int
    text: str


@dataclass(frozen=True)
class Budget:
    """The account of a run: sentences, a row per table (name, comparisons, different, equal, undecided),
    and what the time was spent on (what, rounds, duration)."""

    sentences: Sequence[str]
    tables: Sequence[tuple[str, int, int, int, int]]
    spent: Sequence[tuple[str, str, str]]


def budget_of(account: Mapping[str, Any]) -> Budget | None:
    """Return the budget from a study's account; None without one."""
    if not account:
        return None
    tables = [
        (
            name,
            n["comparisons"],
            n["different"],
            n["alike"],
            n["comparisons"] - n["different"] - n["alike"],
        )
        for name, n in account["tables"].items()
    ]
    return Budget(list(_sentences(account)), tables, list(_spent(account)))


def answered(account: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many comparisons are answered, and how many there are."""
    counts = account.get("tables", {}).values()
    return sum(n["different"] + n["alike"] for n in counts), sum(n["comparisons"] for n in counts)


def next_step(account: Mapping[str, Any]) -> Step | None:
    """Return the shortest longer run that answers three quarters of what can be answered."""
    outlook = [(m["seconds"], sum(m["left"].values())) for m in account.get("outlook", [])]
    if not outlook:
        return None
    now, last = outlook[0][1], outlook[-1][1]
    seconds, left = next(m for m in outlook if 4 * (m[1] - last) <= now - last)
    if not seconds or left >= now:
        return None
    total = sum(account["spent_s"].values()) + account["around_s"] + seconds
    minutes = math.ceil(account["studies"] * total / 60)
    what = f"{now - left} of {now} undecided" if left else f"all {now} undecided"
    return Step(minutes, f"{words.duration(seconds)} more decide {what} comparisons")


def _sentences(account: Mapping[str, Any]) -> Iterator[str]:
    done, whole = answered(account)
    if not whole:
        yield "No comparison was measured."
        return
    effect = f"{account['min_effect_pct']:g} %"
    counts = account["tables"].values()
    different = sum(n["different"] for n in counts)
    yield (
        f"{done} of {words.count_of(whole, 'comparison')} are answered: {different} differ, "
        f"{done - different} show no difference of {effect}. {whole - done} are undecided."
    )
    if noisy := account.get("noisy"):
        yield f"Runs scatter by {noisy['scatter_pct']:.0f} % here, so only differences of {effect} count."
    if duplicates := account.get("twins_sd"):
        percent = 100 * math.expm1(duplicates)
        yield f"Duplicates differ by {percent:.1f} % beyond their scatter. Every error includes that."
    if account["minutes"] is None:
        yield "All cells were measured in the configured number of rounds."
    elif account["why"] in _ENDED:
        yield _ENDED[account["why"]].format(minutes=words.duration(60 * account["minutes"]))
    if step := next_step(account):
        yield f"{step.text.capitalize()} (MINUTES={step.minutes})."
    if never := sum(account["outlook"][-1]["left"].values()) if account.get("outlook") else 0:
        yield f"No number of rounds decides {never} of them."


def _spent(account: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    spent = account["spent_s"]
    yield "preparation", "", words.duration(spent["preparation"])
    for block in account["blocks"]:
        yield f"measuring {block['block']}", str(block["rounds"]), words.duration(block["seconds"])
    yield "waiting between cell-rounds", "", words.duration(spent["waiting"])
    share = account["timed_s"] / (spent["measuring"] + spent["waiting"] or math.inf)
    yield (
        f"timed runs: {100 * share:.0f} % of measuring and waiting",
        "",
        words.duration(account["timed_s"]),
    )
