"""Texts of the codes of results. They are for readers only: no code compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from vcsbench import words
from vcsbench.codes import (
    Call,
    RangePlace,
    ReasonCode,
    Result,
    Verdict,
    WhyNoBest,
    WhyUndecided,
    WithheldCode,
)
from vcsbench.evidence.flags import FLAGS
from vcsbench.plan.result_state import OUTDATED, UNMEASURED
from vcsbench.statistics.verdicts import MixedPart, Reason, mixed_parts


class OutcomeWords(NamedTuple):
    """The words of the outcome of a comparison, and its style: a CSS class of pages, which has the colour.

    `short` is for places with little room. The style "candidate" is a faster candidate, and "reference" a
    faster baseline. Only times are drawn, so an outcome of other metrics has the style of an open one.
    """

    text: str
    short: str
    style: str = "undecided"


class ReasonWords(NamedTuple):
    """The words of a reason: its label, and its facts, "" without any."""

    label: str
    facts: str = ""


# By call, and by result: all results but DIFFERENT are also calls.
OUTCOMES: Mapping[Call | Result, OutcomeWords] = {
    Call.FASTER: OutcomeWords("faster", "faster", "candidate"),
    Call.SLOWER: OutcomeWords("slower", "slower", "reference"),
    Call.LESS: OutcomeWords("less", "less"),
    Call.MORE: OutcomeWords("more", "more"),
    Call.EQUAL: OutcomeWords("equal", "equal", "equal"),
    Call.BOUNDED: OutcomeWords("nearly equal", "nearly equal"),
    Call.UNDECIDED: OutcomeWords("undecided", "undecided"),
    Call.TOO_SMALL: OutcomeWords("too small to compare", "too small", "small"),
    Call.NOT_COMPARED: OutcomeWords("not compared", "not compared"),
    Result.DIFFERENT: OutcomeWords("different", "different"),
}
UNDECIDED_TEXTS = {
    WhyUndecided.FEW_ROUNDS: "one round only",
    WhyUndecided.NO_DUPLICATES: "no duplicates",
    WhyUndecided.DISTURBED: "disturbed by other programs",
    WhyUndecided.WIDE_INTERVAL: "wide interval",
}
# The texts of codes that are no flags. A code that is a flag has the message of the flag (withheld_text).
WITHHELD = {
    WithheldCode.ZERO: "no ratio: a value is 0",
    WithheldCode.HIDDEN_COUNT: "not counted: the storage is in memory, or the kernel hides the count",
    WithheldCode.NO_COUNTER: "not counted: the machine has no free counter of instructions for this user",
    WithheldCode.UNTRACED: "not counted: strace is missing, or the study does not trace its system calls",
    WithheldCode.NO_SHARED_ROUND: "no round has valid runs of both sides",
}
# The texts of a cell-round that has no result, but did not fail.
OUTDATED_TEXT = "outdated: measured with other settings, programs, or another version of vcsbench"
UNMEASURED_TEXT = "no workflow run has finished this so far"
PENDING_TEXTS = {OUTDATED: OUTDATED_TEXT, UNMEASURED: UNMEASURED_TEXT}
NO_BEST = {
    WhyNoBest.SEVERAL_HOSTS: "measured on several machines: measure all of it on one (`--forcerun cell`)",
    WhyNoBest.FEW_ROUNDS: "one round only",
    WhyNoBest.ONE_CHOICE: "one choice only",
    WhyNoBest.OTHER_WORK: "its choices did different work",
    WhyNoBest.TOO_SMALL: "too small to compare: start-up can explain the difference, or runs are short",
}
# The place of a pair or cell against the expected range.
PLACES = {
    RangePlace.INSIDE: "inside",
    RangePlace.BELOW: "below",
    RangePlace.ABOVE: "above",
    RangePlace.OPEN: "open",
}
# The states of the caches of a finding's times. "" is for a study that has no states.
TIMES_BY_STATE = {"cold": "cold ", "warm": "warm ", "": ""}
# A verdict in a sentence such as "the finding is weaker".
VERDICTS = {verdict: str(verdict) for verdict in Verdict} | {Verdict.FAILS: "does not hold"}
# By the code of a reason: its label and its facts. A name in braces is a key of Reason.values, or one that
# reason_words() adds.
REASON_WORDS = {
    ReasonCode.FASTER_STORAGE: ReasonWords(
        "other storage",
        "{measured}, published on {published}. For each revision or file, cold runs take "
        "{cold_share:g} % of the published time, warm runs {warm_share:g} %",
    ),
    ReasonCode.OTHER_STORAGE: ReasonWords("other storage", "{measured}, published on {published}"),
    ReasonCode.SCALE: ReasonWords(
        "smaller scale", "{subject} has {share:g} % of its published revisions"
    ),
    ReasonCode.GENERATED: ReasonWords("generated history", "published on real ones"),
    ReasonCode.NEWER_VERSION: ReasonWords(
        "newer Subversion", "{measured}, published with {published}"
    ),
    ReasonCode.OTHER_SYSTEM: ReasonWords(
        "other operating system", "servers on Linux, published on {published}"
    ),
    ReasonCode.SAME_MACHINE: ReasonWords(
        "same machine", "client and server share it, published with a network between"
    ),
    ReasonCode.FEWER_CELLS: ReasonWords(
        "fewer cells", "{measured} of {published}, for which {value:.3g} was published"
    ),
    ReasonCode.FEW_ROUNDS: ReasonWords("one round only", "two or more have an interval"),
    ReasonCode.NEEDS_ROUNDS: ReasonWords(
        "more rounds", "{n} are measured, about {needed:.0f} needed"
    ),
    ReasonCode.ON_BOUND: ReasonWords("on a bound", "more rounds hardly help"),
    ReasonCode.SAVED_ROUNDS: ReasonWords("wide interval", "the saved baseline gets no more rounds"),
    ReasonCode.OLD_VERSION: ReasonWords(
        "older version", "the statement is about {since} or later, measured {measured}"
    ),
    ReasonCode.TOO_NEW_VERSION: ReasonWords(
        "later version", "the statement is about versions before {until}, measured {measured}"
    ),
    ReasonCode.NO_METRIC: ReasonWords("no metric", "{metric} was not measured"),
    ReasonCode.HOSTS_DIFFER: ReasonWords(
        "hosts differ", "measured on {hosts}, and their numbers are never divided"
    ),
    ReasonCode.FIXED_COST: ReasonWords(
        "mostly fixed cost, or too short", "{excluded} of {total} excluded"
    ),
    ReasonCode.NOT_COUNTED: ReasonWords("no count", "{withheld}"),
    ReasonCode.NOT_IN_GRID: ReasonWords("not in the grid", "cells with {cells}"),
    ReasonCode.SKIPPED: ReasonWords("skipped", "{reason}"),
    ReasonCode.INCOMPLETE: ReasonWords(
        "incomplete rounds", "none has a valid run of each of {total}"
    ),
    ReasonCode.NO_SHARED_ROUND: ReasonWords("no shared round", "{withheld}"),
    ReasonCode.NO_RESULT: ReasonWords(
        "no result", "no cell has a valid run: they failed, are invalid, outdated or not finished"
    ),
    ReasonCode.NO_BASELINE: ReasonWords(
        "no baseline", "{name} has no results of this study, use make baseline NAME={name}"
    ),
    ReasonCode.STUDY_NOT_MEASURED: ReasonWords("the key `studies` lacks {study}"),
    ReasonCode.OTHER_WORK: ReasonWords("other work", "{detail}"),
    ReasonCode.WORK_UNKNOWN: ReasonWords("work unknown", "{detail}"),
    ReasonCode.NOT_COMPARED: ReasonWords("{withheld}", "{excluded} of {total} cells not compared"),
    ReasonCode.PARTIAL: ReasonWords(
        "measured", "{measured} of {total} cells, reduced over {reduced}"
    ),
    ReasonCode.NO_DUPLICATES: ReasonWords("noise unknown", "the grid has no duplicates"),
    ReasonCode.NOT_IN_TURNS: ReasonWords(
        "not in turns", "sides measured at different times, use --forcerun cell"
    ),
    ReasonCode.ALL_PUBLISHED: ReasonWords("published over all {published}", "{shown}"),
    ReasonCode.DISAGREEMENT: ReasonWords("the {noun}s disagree", "{places} (expected range)"),
    ReasonCode.UNIT_TIMES: ReasonWords("each {unit}, published → measured", "{times}"),
}
# What to do about a reason of a verdict: one sentence each.
PUBLISHED_STORAGE = "Measure on the published kind of storage (keys `storage` and `storages`)."
MORE_TIME = "Continue with more time: `make report` with a larger `MINUTES=`."
RUN_AGAIN = "Run again: failed, outdated and incomplete rounds are measured again."
ACTION_TEXTS = {
    ReasonCode.NEEDS_ROUNDS: MORE_TIME,
    ReasonCode.FEW_ROUNDS: MORE_TIME,
    ReasonCode.ON_BOUND: "No run decides this: the value lies on the bound of the range.",
    ReasonCode.FASTER_STORAGE: PUBLISHED_STORAGE,
    ReasonCode.OTHER_STORAGE: PUBLISHED_STORAGE,
    ReasonCode.SCALE: "Measure the repository at a larger scale (key `repositories`).",
    ReasonCode.GENERATED: "Measure a real history (key `repositories`: a dump, or `REPO=`).",
    ReasonCode.NEWER_VERSION: "Compare a build of the published version with yours (docs/builds.md).",
    ReasonCode.OTHER_SYSTEM: "This cannot be tested here: all servers run on Linux.",
    ReasonCode.SAME_MACHINE: "Measure with a server on another machine (key `server`).",
    ReasonCode.FEWER_CELLS: "Measure the other cells, too (config/full.yaml).",
    ReasonCode.FIXED_COST: "Take a larger repository or scale, so that runs take longer (Next steps).",
    ReasonCode.OLD_VERSION: "Install that version, and measure again.",
    ReasonCode.TOO_NEW_VERSION: "No run can: the statement is not about the measured version.",
    ReasonCode.NOT_IN_GRID: "Add these cells to the grid (docs/extending.md).",
    ReasonCode.SKIPPED: "`make doctor` names what is missing here, with a remedy.",
    ReasonCode.INCOMPLETE: RUN_AGAIN,
    ReasonCode.NO_SHARED_ROUND: RUN_AGAIN,
    ReasonCode.NO_RESULT: RUN_AGAIN,
}


def outcome_text(outcome: Call | Result | WhyUndecided) -> str:
    """Return the outcome of a comparison (`equal`), or why it is undecided (`wide interval`)."""
    if isinstance(outcome, WhyUndecided):
        return UNDECIDED_TEXTS[outcome]
    return OUTCOMES[outcome].text


def failure_text(reason: str) -> str:
    """Return the text why a cell-round has no result.

    The reason of a failure is a text already. A cell-round that did not fail has a code, such as OUTDATED.
    """
    return PENDING_TEXTS.get(reason, reason)


def withheld_text(codes: Iterable[str], detail: str = "") -> str:
    """Return the text why cells are not compared, a clause for each code, joined by `; `.

    A code of different or unknown work becomes `detail`, if there is one: `log: 6,000 revisions (f6) against
    5,000 (f7)`. Any other code that is also a flag becomes the message of the flag.
    """
    texts = []
    for code in codes:
        if detail and code in (WithheldCode.OTHER_WORK, WithheldCode.WORK_UNKNOWN):
            texts.append(detail)
        elif code in FLAGS:
            texts.append(FLAGS[code].message.rstrip("."))
        else:
            texts.append(WITHHELD[WithheldCode(code)])
    return "; ".join(texts)


def reason_text(reason: Reason) -> str:
    """Return a reason as a clause: `smaller scale: ruby has 5 % of its published revisions`."""
    label, facts = reason_words(reason)
    return f"{label}: {facts}" if facts else label


def _name_selection(where: Mapping[str, Sequence[str]]) -> str:
    """Return the values of cells as configurations have them: `format f7, cache cold or hot-os`."""
    conditions = [f"{axis} {' or '.join(values)}" for axis, values in where.items()]
    return ", ".join(conditions) or "any"


def reason_words(
    reason: Reason, describe_cells: Callable[[Mapping[str, Sequence[str]]], str] = _name_selection
) -> ReasonWords:
    """Return the words of a reason: its code's words (REASON_WORDS), filled with the reason's values.

    `describe_cells` makes the text of the values of cells: {"format": ["f7"], "cache": ["cold", "hot-os"]}.
    """
    values = dict(reason.values)
    if "where" in values:
        values["cells"] = describe_cells(cast("Mapping[str, Sequence[str]]", values["where"]))
    if "withheld" in values:
        values["withheld"] = withheld_text([str(values["withheld"])])
    if reason.code == ReasonCode.SCALE:
        values["share"] = _two_digits(float(str(values["share"])))
    if reason.code == ReasonCode.FASTER_STORAGE:
        # `cold` and `warm` are how many times less time the runs take than published. The text has shares of
        # the published time: 4 times less is 25 %.
        for name in ("cold", "warm"):
            values[f"{name}_share"] = _two_digits(100 / float(str(values[name])))
    if reason.code == ReasonCode.DISAGREEMENT:
        values["places"] = _count_places(mixed_parts(reason))
    if reason.code == ReasonCode.UNIT_TIMES:
        values["times"] = _unit_times_text(values["seconds"])
    label, facts = REASON_WORDS[reason.code]
    return ReasonWords(label.format(**values), facts.format(**values))


def _count_places(parts: Iterable[MixedPart]) -> str:
    """Return the numbers of pairs or cells by their place: `3 inside, 1 below`."""
    counts = Counter(part.place for part in parts)
    return ", ".join(f"{counts[place]} {text}" for place, text in PLACES.items() if counts[place])


def _unit_times_text(seconds: Any) -> str:
    """Return `cold 9.2 → 0.28 ms, warm 0.41 → 0.09 ms` for the seconds of a unit of work.

    `seconds` has the published and the measured seconds by the state of the caches: {"cold": [0.0092,
    0.00028]}.
    """
    texts = []
    for state, text in TIMES_BY_STATE.items():
        if state in seconds:
            numbers = [words.significant(1000 * each, 2) for each in seconds[state]]
            texts.append(f"{text}{' → '.join(numbers)} ms")
    return ", ".join(texts)


def _two_digits(number: float) -> float:
    """Return a number rounded to two digits: 3.0 for 3.03. REASON_WORDS prints it without a decimal: `3 %`.

    The format `.2g` alone would print 99.6 as 1e+02, and words.significant() 3.03 as `3.0`.
    """
    return float(f"{number:.2g}")
