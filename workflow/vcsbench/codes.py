"""The codes of results: outcomes of comparisons, verdicts of findings, and reasons for both.

CSV and JSON files hold these codes, and all code compares them. Texts are made from them once, for readers
(vcsbench.statistics.texts).
"""

from __future__ import annotations

from enum import StrEnum


class Call(StrEnum):
    """The outcome of a comparison: of a candidate against the baseline (column `call`), or of a choice.

    Times are FASTER or SLOWER, all other metrics LESS or MORE. EQUAL: any difference is shown to be below the
    margin. BOUNDED: any difference is shown to be below 1.5 margins. UNDECIDED: it can be larger.
    TOO_SMALL: start-up alone can explain the difference. A row without a ratio has no call. NOT_COMPARED is
    no call of a row: advice has it for a value that no comparison of a case has.
    """

    FASTER = "faster"
    SLOWER = "slower"
    LESS = "less"
    MORE = "more"
    EQUAL = "equal"
    BOUNDED = "bounded"
    UNDECIDED = "undecided"
    TOO_SMALL = "too small"
    NOT_COMPARED = "not compared"


class Direction(StrEnum):
    """The direction of a finding whose statement has no number (key `expect.direction`).

    It is the candidate's, against the baseline. EQUAL is a difference below the margin.
    """

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "equal"
    NOT_FASTER = "not faster"


class Result(StrEnum):
    """The class in which a comparison is counted (column `result`): its call without the direction.

    A called difference below the margin is counted as EQUAL, because it is no reason to change anything. All
    values but DIFFERENT are also calls.
    """

    DIFFERENT = "different"
    EQUAL = "equal"
    BOUNDED = "bounded"
    UNDECIDED = "undecided"
    TOO_SMALL = "too small"


class WhyUndecided(StrEnum):
    """Why a comparison is undecided."""

    FEW_ROUNDS = "few-rounds"
    NO_DUPLICATES = "no-duplicates"
    # The direction changes without the runs that other programs disturbed.
    DISTURBED = "disturbed"
    WIDE_INTERVAL = "wide-interval"


class WithheldCode(StrEnum):
    """Why measured cells have no value or are not compared (column `withheld`, separated by spaces).

    Most of these codes are also flags (evidence/flags.py).
    """

    HOSTS_DIFFER = "hosts-differ"
    OTHER_WORK = "other-work"
    WORK_UNKNOWN = "work-unknown"
    # A ratio of counts, and one of them is 0.
    ZERO = "zero"
    # The storage is in memory, or the kernel does not show the count.
    HIDDEN_COUNT = "hidden-count"
    # The machine has no free counter of instructions for this user.
    NO_COUNTER = "no-counter"
    # strace is missing, or the study does not trace the cell's system calls.
    UNTRACED = "untraced"
    NO_SHARED_ROUND = "no-shared-round"
    # Of comparisons with a saved baseline.
    NOT_SAVED = "not-saved"
    SAME_RUNS = "same-runs"
    OTHER_COMMAND = "other-command"
    OTHER_REPOSITORY = "other-repository"
    OTHER_METHOD = "other-method"


class Verdict(StrEnum):
    """The verdict on a finding: the first nine. An expectation holds or fails instead of the first six."""

    REPRODUCED = "reproduced"
    WEAKER = "weaker"
    STRONGER = "stronger"
    # Equal here, and an effect was published.
    GONE = "gone"
    REVERSED = "reversed"
    # Pairs or cells disagree by more than the margin.
    MIXED = "mixed"
    UNDECIDED = "undecided"
    TOO_SMALL = "too small"
    NOT_MEASURED = "not measured"
    HOLDS = "holds"
    FAILS = "fails"


class ReasonCode(StrEnum):
    """A reason of a verdict. The first eight can explain a difference from the published number."""

    # Cold results shrank more than warm ones, which only the storage explains.
    FASTER_STORAGE = "faster-storage"
    OTHER_STORAGE = "other-storage"
    SCALE = "scale"
    GENERATED = "generated"
    NEWER_VERSION = "newer-version"
    OTHER_SYSTEM = "other-system"
    SAME_MACHINE = "same-machine"
    FEWER_CELLS = "fewer-cells"
    # Reasons without a clear verdict.
    FEW_ROUNDS = "few-rounds"
    NEEDS_ROUNDS = "needs-rounds"
    ON_BOUND = "on-bound"
    SAVED_ROUNDS = "saved-rounds"
    NO_METRIC = "no-metric"
    OLD_VERSION = "old-version"
    TOO_NEW_VERSION = "too-new-version"
    HOSTS_DIFFER = "hosts-differ"
    FIXED_COST = "fixed-cost"
    NOT_COUNTED = "not-counted"
    NOT_IN_GRID = "not-in-grid"
    SKIPPED = "skipped"
    INCOMPLETE = "incomplete"
    NO_SHARED_ROUND = "no-shared-round"
    NO_RESULT = "no-result"
    NO_BASELINE = "no-baseline"
    STUDY_NOT_MEASURED = "study-not-measured"
    OTHER_WORK = "other-work"
    WORK_UNKNOWN = "work-unknown"
    NOT_COMPARED = "not-compared"
    # Remarks.
    PARTIAL = "partial"
    NO_DUPLICATES = "no-duplicates"
    NOT_IN_TURNS = "not-in-turns"
    ALL_PUBLISHED = "all-published"
    # The place of each pair or cell of a mixed finding (RangePlace).
    DISAGREEMENT = "disagreement"
    # The time for each revision or file, published and measured.
    UNIT_TIMES = "unit-times"


class RangePlace(StrEnum):
    """The place of a measured interval: inside, below or above the expected range of a finding.

    OPEN: the interval crosses an end of the range, or is unknown.
    """

    INSIDE = "inside"
    BELOW = "below"
    ABOVE = "above"
    OPEN = "open"


class WorkUnit(StrEnum):
    """The unit in which the work of a command is counted."""

    REVISION = "revision"
    FILE = "file"


class StopReason(StrEnum):
    """Why a run with minutes gives no more rounds to a study (key `why` of decisions and accounts)."""

    ALL_DECIDED = "answered"
    TIME_IS_UP = "time is up"
    # The remaining comparisons have too much noise that no round reduces.
    UNREACHABLE = "more rounds tell nothing"


class AnswerKind(StrEnum):
    """The kind of answer to a question of a study."""

    # One value is best. It may lose in single cases.
    VALUE = "value"
    # Each value wins by more than the margin for a kind of case, such as cold logs. Of a question with an
    # answer for each candidate: the candidate is slower somewhere.
    DEPENDS = "depends"
    # Of a question about costs: some value takes longer than the baseline.
    COST = "cost"
    EQUAL = "equal"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"
    NOT_COMPARED = "not compared"


class WhyNoBest(StrEnum):
    """Why a situation has no best choice."""

    SEVERAL_HOSTS = "several-hosts"
    FEW_ROUNDS = "few-rounds"
    ONE_CHOICE = "one-choice"
    OTHER_WORK = "other-work"
    TOO_SMALL = "too small"
