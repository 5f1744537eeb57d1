"""What a study's time was spent on, what it has answered, and what more of it would."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vcsbench import words
from vcsbench.compare.decisions import ANSWERED, NEVER, NOISY_PCT, TIME_IS_UP

ENDED = {
    ANSWERED: "The run ended because no comparison needs more rounds.",
    TIME_IS_UP: "The run ended because its {minutes} were up.",
    NEVER: "The run ended because more rounds tell nothing of what is left.",
}


class Mark(NamedTuple):
    """So many seconds more, and what is then left of each table that is too noisy to say."""

    seconds: float
    left: Mapping[str, int]

    @property
    def after(self) -> str:
        """`40 more minutes`."""
        return f"{words.duration(self.seconds)} more"

    @property
    def all_left(self) -> int:
        """Of all tables."""
        return sum(self.left.values())


@dataclass(frozen=True)
class Bought:
    """The sentences that lead; the marks that lie ahead; a row per table (name, comparisons, different,
    alike, too noisy to say, those left at each mark); what the time went to (what, rounds, how long); and how
    much of the measuring was timed."""

    sentences: list[str]
    marks: list[Mark]
    tables: list[list[str]]
    spent: list[tuple[str, str, str]]
    timed: str


def bought(account: Mapping[str, Any]) -> Bought | None:
    """The same from what the rule `account` wrote; None without it."""
    if not account:
        return None
    ahead = marks([Mark(one["seconds"], one["left"]) for one in account["outlook"]])
    return Bought(
        list(_sentences(account, ahead)),
        ahead,
        [_row(name, counts, ahead) for name, counts in account["tables"].items()],
        list(_spent(account)),
        _timed(account),
    )


def marks(outlook: Sequence[Mark]) -> list[Mark]:
    """When three quarters are told of what can be told, and when all is."""
    now, last = outlook[0].all_left, outlook[-1].all_left
    most = next(mark for mark in outlook if 4 * (mark.all_left - last) <= now - last)
    ahead = [most] if most == outlook[-1] else [most, outlook[-1]]
    return [mark for mark in ahead if mark.seconds]


def _sentences(account: Mapping[str, Any], ahead: Sequence[Mark]) -> Iterator[str]:
    counts = account["tables"].values()
    all_of, different, alike = (
        sum(one[key] for one in counts) for key in ("comparisons", "different", "alike")
    )
    if not all_of:
        yield "There was nothing to compare."
        return
    notable = f"{account['min_effect_pct']:g} %"
    yield (
        f"{different + alike} of {words.count_of(all_of, 'comparison')} are answered: {different} differ, "
        f"{alike} show no difference of {notable}; {all_of - different - alike} are too noisy to say."
    )
    if noisy := account.get("noisy"):
        yield (
            f"Runs of a cell scatter by {noisy['scatter_pct']:.0f} % here, more than {NOISY_PCT:g} %: so "
            f"{notable} is worth noting (min_effect_pct_if_noisy), and not {noisy['elsewhere_pct']:g} %; "
            f"{noisy['alike']:g} of the {alike} show no difference of {noisy['elsewhere_pct']:g} % either."
        )
    if twins := account["twins_sd"]:
        yield (
            f"Twins, the same cell twice, differ by {100 * math.expm1(twins):.1f} % beyond what rounds "
            "make of it, as far as these tell. That is in every comparison's error, and no round reduces it; "
            "more minutes tell how much of it is chance."
        )
    if account["minutes"] is None:
        yield "All cells were measured in the same number of rounds, as the configuration says."
    elif account["why"] in ENDED:
        yield ENDED[account["why"]].format(minutes=words.duration(60 * account["minutes"]))
    never = account["outlook"][-1]["left"]
    for mark in ahead:
        told = "all" if not mark.all_left else f"all but {mark.all_left}"
        yield f"{mark.after} (MINUTES={_minutes(account, mark)}) would tell {told} of these at {notable}."
    if lost := sum(never.values()):
        yield f"No number of rounds tells {lost} of them: there are no twins (duplicates: 0)."


def _minutes(account: Mapping[str, Any], mark: Mark) -> int:
    """The minutes to ask for to come to a mark; studies share them."""
    seconds = sum(account["spent_s"].values()) + account["around_s"] + mark.seconds
    return math.ceil(account["studies"] * seconds / 60)


def _row(name: str, counts: Mapping[str, int], ahead: Sequence[Mark]) -> list[str]:
    different, alike = counts["different"], counts["alike"]
    numbers = [counts["comparisons"], different, alike, counts["comparisons"] - different - alike]
    return [name, *map(str, [*numbers, *(mark.left.get(name, 0) for mark in ahead)])]


def _spent(account: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    spent = account["spent_s"]
    yield "preparation", "", words.duration(spent["preparation"])
    for block in account["blocks"]:
        yield f"measuring {block['block']}", str(block["rounds"]), words.duration(block["seconds"])
    yield "waiting between cell-rounds", "", words.duration(spent["waiting"])


def _timed(account: Mapping[str, Any]) -> str:
    spent = account["spent_s"]
    share = account["timed_s"] / (spent["measuring"] + spent["waiting"] or math.inf)
    return (
        f"Timed runs are {100 * share:.0f} % of measuring and waiting. The rest prepares them, warms caches "
        "up, reads what the command prints, and certifies."
    )
