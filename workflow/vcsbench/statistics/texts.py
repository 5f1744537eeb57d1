"""Texts of the codes of results. They are for readers only: no code compares them."""

from __future__ import annotations

from collections.abc import Iterable

from vcsbench.codes import (
    Call,
    ReasonCode,
    Result,
    Verdict,
    WhyNoBest,
    WhyUndecided,
    WithheldCode,
)
from vcsbench.evidence.flags import FLAGS
from vcsbench.plan.result_state import OUTDATED, UNMEASURED
from vcsbench.statistics.verdicts import Reason

CALL_TEXTS = {
    Call.FASTER: "faster",
    Call.SLOWER: "slower",
    Call.LESS: "less",
    Call.MORE: "more",
    Call.EQUAL: "equal",
    Call.BOUNDED: "nearly equal",
    Call.UNDECIDED: "undecided",
    Call.TOO_SMALL: "too small to compare",
}
RESULTS = {
    Result.DIFFERENT: "different",
    Result.EQUAL: "equal",
    Result.BOUNDED: "nearly equal",
    Result.UNDECIDED: "undecided",
    Result.TOO_SMALL: "too small to compare",
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
# The texts of a cell-round (one cell in one round) that has no result, but did not fail.
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
# A verdict in a sentence such as "the finding is weaker".
VERDICTS = {verdict: str(verdict) for verdict in Verdict} | {Verdict.FAILS: "does not hold"}
# A text has a head, and the facts behind a colon. A name in braces is a key of Reason.values, or one that
# reason_text() adds.
REASON_TEXTS = {
    ReasonCode.FASTER_STORAGE: (
        "other storage: {measured}, published on {published}. For each revision or file, cold runs take "
        "{cold_share:g} % of the published time, warm runs {warm_share:g} %"
    ),
    ReasonCode.OTHER_STORAGE: "other storage: {measured}, published on {published}",
    ReasonCode.SCALE: "smaller scale: {subject} has {share:g} % of its published revisions",
    ReasonCode.GENERATED: "generated history: published on real ones",
    ReasonCode.NEWER_VERSION: "newer Subversion: {measured}, published with {published}",
    ReasonCode.OTHER_SYSTEM: "other operating system: servers on Linux, published on {published}",
    ReasonCode.SAME_MACHINE: "same machine: client and server share it, published with a network between",
    ReasonCode.FEWER_CELLS: "fewer cells: {measured} of {published}, for which {value:.3g} was published",
    ReasonCode.FEW_ROUNDS: "one round only: two or more have an interval",
    ReasonCode.NEEDS_ROUNDS: "more rounds: {n} are measured, about {needed:.0f} needed",
    ReasonCode.ON_BOUND: "on a bound: more rounds hardly help",
    ReasonCode.SAVED_ROUNDS: "wide interval: the saved baseline gets no more rounds",
    ReasonCode.OLD_VERSION: "older version: the statement is about {since} or later, measured {measured}",
    ReasonCode.NO_METRIC: "no metric: {metric} was not measured",
    ReasonCode.HOSTS_DIFFER: "hosts differ: measured on {hosts}, and their numbers are never divided",
    ReasonCode.FIXED_COST: "mostly fixed cost, or too short: {excluded} of {total} excluded",
    ReasonCode.NOT_COUNTED: "no count: {withheld}",
    ReasonCode.NOT_IN_GRID: "not in the grid: cells with {cells}",
    ReasonCode.SKIPPED: "skipped: {reason}",
    ReasonCode.INCOMPLETE: "incomplete rounds: none has a valid run of each of {total}",
    ReasonCode.NO_SHARED_ROUND: "no shared round: {withheld}",
    ReasonCode.NO_RESULT: (
        "no result: no cell has a valid run: they failed, are invalid, outdated or not finished"
    ),
    ReasonCode.NO_BASELINE: "no baseline: {name} has no results of this study, use make baseline NAME={name}",
    ReasonCode.STUDY_NOT_MEASURED: "the key `studies` lacks {study}",
    ReasonCode.OTHER_WORK: "other work: {detail}",
    ReasonCode.WORK_UNKNOWN: "work unknown: {detail}",
    ReasonCode.NOT_COMPARED: "{withheld}: {excluded} of {total} cells not compared",
    ReasonCode.PARTIAL: "measured: {measured} of {total} cells, reduced over {reduced}",
    ReasonCode.NO_DUPLICATES: "noise unknown: the grid has no duplicates",
    ReasonCode.NOT_IN_TURNS: "not in turns: sides measured at different times, use --forcerun cell",
    ReasonCode.ALL_PUBLISHED: "published over all {published}: {shown}",
}
# What to do about a reason of a verdict: one sentence each.
PUBLISHED_STORAGE = "Measure on the published kind of storage (keys `storage` and `storages`)."
MORE_TIME = "Continue with more time: `make report` with a larger `MINUTES=`."
RUN_AGAIN = "Run again: failed, outdated and incomplete rounds are measured again."
ACTION_TEXTS = {
    ReasonCode.NEEDS_ROUNDS: MORE_TIME,
    ReasonCode.FEW_ROUNDS: MORE_TIME,
    ReasonCode.ON_BOUND: "Nothing: the value lies on the bound of the range.",
    ReasonCode.FASTER_STORAGE: PUBLISHED_STORAGE,
    ReasonCode.OTHER_STORAGE: PUBLISHED_STORAGE,
    ReasonCode.SCALE: "Measure the repository at a larger scale (key `repositories`).",
    ReasonCode.GENERATED: "Measure a real history (key `repositories`: a dump, or `REPO=`).",
    ReasonCode.NEWER_VERSION: "Compare a build of the published version with yours (docs/builds.md).",
    ReasonCode.OTHER_SYSTEM: "Nothing: all servers run on Linux here.",
    ReasonCode.SAME_MACHINE: "Measure with a server on another machine (key `server`).",
    ReasonCode.FEWER_CELLS: "Measure the other cells, too (config/full.yaml).",
    ReasonCode.FIXED_COST: "Take a larger repository or scale, so that runs take longer (Next steps).",
    ReasonCode.OLD_VERSION: "Install that version, and measure again.",
    ReasonCode.NOT_IN_GRID: "Add these cells to the grid (docs/extending.md).",
    ReasonCode.SKIPPED: "`make doctor` names what is missing here, with a remedy.",
    ReasonCode.INCOMPLETE: RUN_AGAIN,
    ReasonCode.NO_SHARED_ROUND: RUN_AGAIN,
    ReasonCode.NO_RESULT: RUN_AGAIN,
}


def failure_text(reason: str) -> str:
    """Return the text why a cell-round (one cell in one round) has no result.

    The reason of a failure is a text already. A cell-round that did not fail has a code, such as OUTDATED.
    """
    return PENDING_TEXTS.get(reason, reason)


def withheld_text(codes: Iterable[str], detail: str = "") -> str:
    """Return the text why cells are not compared, a clause for each code, joined by `; `.

    A code of different or unknown work becomes `detail`, if that is not "": `log: 6,000 revisions (f6)
    against 5,000 (f7)`. Any other code that is also a flag becomes the message of the flag. Without codes,
    the result is "".
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
    """Return a reason as a clause: `smaller scale: ruby has 5 % of its published revisions`.

    The clause is the text of the reason's code (REASON_TEXTS), filled with the values of the reason.
    """
    values = dict(reason.values)
    # This value is a code, and becomes its text.
    if "withheld" in values:
        values["withheld"] = withheld_text([str(values["withheld"])])
    if reason.code == ReasonCode.SCALE:
        values["share"] = _two_digits(float(str(values["share"])))
    if reason.code == ReasonCode.FASTER_STORAGE:
        # `cold` and `warm` are how many times less time the runs take than published. The text has shares of
        # the published time: 4 times less is 25 %.
        for name in ("cold", "warm"):
            values[f"{name}_share"] = _two_digits(100 / float(str(values[name])))
    return REASON_TEXTS[reason.code].format(**values)


def _two_digits(number: float) -> float:
    """Return a number rounded to two digits: 3.0 for 3.03. REASON_TEXTS prints it without a decimal: `3 %`.

    The format `.2g` alone would print 99.6 as 1e+02, and words.significant() 3.03 as `3.0`.
    """
    return float(f"{number:.2g}")
