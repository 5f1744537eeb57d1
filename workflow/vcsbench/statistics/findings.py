"""Evaluate findings, and a user's expectations, on published and measured numbers.

A finding that differs has possible reasons: other conditions than published that explain its direction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import pandas as pd

from vcsbench import words
from vcsbench.axes.cache_states import cache_state
from vcsbench.codes import ReasonCode, Verdict
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.statistics import finding_checks, verdicts
from vcsbench.statistics.aggregation import MEAN, add_key_columns, by_round, rows_of_statistic
from vcsbench.statistics.comparisons import Limits
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate
from vcsbench.statistics.finding_checks import CellCheck, Conditions, Evaluation, EvaluationContext
from vcsbench.statistics.noise import Noise, noise_by_metric
from vcsbench.statistics.verdicts import Reason

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

DIFFERENT = (Verdict.WEAKER, Verdict.STRONGER, Verdict.GONE, Verdict.REVERSED)
SLOWNESS = {"RAM": 0, "SSD": 1, "spinning disk": 2}


def context_of(
    measured: pd.DataFrame,
    axes: Sequence[str],
    grid: Sequence[Mapping[str, str]],
    block: Sequence[str],
    limits: Limits,
    published: Conditions | None = None,
    study: str = "",
    by: Sequence[str] = (),
) -> EvaluationContext:
    def values(*columns: str) -> list[str]:
        known = [measured[column].dropna() for column in columns if column in measured]
        return [str(value) for column in known for value in column.unique()]

    @cache
    def noises(statistic: str) -> Callable[[str], Noise]:
        frame, keys = add_key_columns(measured, by)[0], [*axes, *by]
        return noise_by_metric(frame, keys, block, statistic=statistic)

    subject = same_work.subject_axis(axes)
    lowest = measured.groupby(subject)["scale"].min().dropna() if subject else pd.Series()
    return EvaluationContext(
        noise=lambda metric, statistic: noises(statistic)(metric),
        scales={str(value): float(scale) for value, scale in lowest.items()},
        versions=values("client_version", "server_version"),
        storages=values("storage_kind"),
        study=study,
        published=published or Conditions(),
        grid=[row for row in grid if row.get("repo") != EMPTY],
        limits=limits,
    )


def evaluate_findings(
    findings: Sequence[FindingDefinition],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
    context: EvaluationContext | None = None,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """Return a row per finding, with the columns verdicts.OF_FINDINGS.

    `published` is a frame of read_published, `measured` of the measurements; either may be None. `by` are
    columns that identify cells as axes do. `measured` of a row is the mean over cells or pairs and rounds
    (geometric for ratios), or the least or greatest of their means, `low` and `high` its interval.
    `published` is the value over the measured cells, or over all if none of them was published.
    """
    keys = [*axes, *by]
    context = context or EvaluationContext()
    known = None if published is None else rounds_of(published, keys, by)
    rounds = None if measured is None else cache(partial(rounds_of, measured, keys, by))
    rows = []
    for finding in findings:
        check, theirs, remarks = finding_checks.check_of(finding, keys), NO_ESTIMATE, list[Reason]()
        ours = check.evaluate(rounds(check.statistic), context) if rounds else Evaluation()
        if known is not None and check.metric in known:
            of_statistic = rows_of_statistic(known, check.statistic)
            theirs, remarks = _published(check, of_statistic, ours)
        possible = (
            reasons_of_difference(check, ours, rounds(check.statistic), context) if rounds else ()
        )
        reasons = [*ours.reasons, *possible, *remarks]
        rows.append(
            {
                "id": finding["id"],
                "statement": finding["statement"],
                "published": theirs.value,
                "measured": ours.estimate.value,
                "low": ours.estimate.low,
                "high": ours.estimate.high,
                "unit": check.unit,
                "over": ours.over,
                "expected": bounds_text(finding),
                "verdict": ours.verdict,
                "reasons": _reasons_json(reasons),
            }
        )
    return pd.DataFrame(rows, columns=verdicts.OF_FINDINGS)


def _published(
    check: CellCheck, published: pd.DataFrame, ours: Evaluation
) -> tuple[Estimate, list[Reason]]:
    """Return the published value of the measured cells, and remarks if all cells have another.

    It is a possible reason if it differs from the expected range as the measured value does.
    """
    known = check.values(check.involved(published))
    theirs, all_ = check.estimate(known), check.count(known)
    rows = check.rows_of(ours.values, known) if ours.estimate.n else known
    same, number = check.estimate(rows), check.count(rows)
    if number == all_ or not same.n:
        return theirs, []
    count = words.count_of(all_, check.noun)
    unit = "x" if theirs.is_ratio else f" {check.unit}".rstrip()
    shown = f"{words.significant(theirs.value)}{unit}"
    numbers = {"published": count, "value": theirs.value, "shown": shown}
    reasons = [Reason(ReasonCode.ALL_PUBLISHED, numbers)]
    low, high = finding_checks.expected_bounds(check.finding)
    sides = [(v > high) - (v < low) for v in (same.value, ours.estimate.value)]
    if ours.verdict in DIFFERENT and sides[0] == sides[1]:
        numbers = {"measured": number, "published": count, "value": same.value}
        reasons.append(Reason(ReasonCode.FEWER_CELLS, numbers))
    return same, reasons


def evaluate_expectations(
    expectations: Sequence[FindingDefinition],
    axes: Sequence[str],
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> pd.DataFrame:
    context = replace(context, are_expectations=True)
    rows = evaluate_findings(expectations, axes, None, measured, context)
    renamed = {Verdict.REPRODUCED: Verdict.HOLDS, **dict.fromkeys(DIFFERENT, Verdict.FAILS)}
    return _with_passes(expectations, rows.replace({"verdict": renamed}))


def unmeasured_expectations(study: str, expectations: Sequence[FindingDefinition]) -> pd.DataFrame:
    rows = evaluate_findings(expectations, [], None, None)
    reasons = _reasons_json([Reason(ReasonCode.STUDY_NOT_MEASURED, {"study": study})])
    return _with_passes(expectations, rows.assign(reasons=reasons))


def _with_passes(expectations: Sequence[FindingDefinition], rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `passes`: yes if it holds, or if its key allows the verdict."""
    passes = []
    for expectation, verdict in zip(expectations, rows["verdict"], strict=True):
        does_pass = verdict == Verdict.HOLDS
        if verdict in (Verdict.UNDECIDED, Verdict.TOO_SMALL):
            does_pass = expectation.get("allow_inconclusive", False)
        elif verdict == Verdict.NOT_MEASURED:
            does_pass = expectation.get("allow_not_measured", False)
        passes.append("yes" if does_pass else "no")
    return rows.assign(passes=passes)[verdicts.OF_EXPECTATIONS]


def _reasons_json(reasons: Sequence[Reason]) -> str:
    return json.dumps([asdict(reason) for reason in reasons], default=float)


def bounds_text(finding: FindingDefinition) -> str:
    low, high = (finding["expect"].get(bound) for bound in ("at_least", "at_most"))
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def rounds_of(
    frame: pd.DataFrame, keys: Sequence[str], by: Sequence[str], statistic: str = MEAN
) -> pd.DataFrame:
    return by_round(add_key_columns(frame, by)[0], keys, statistic)


def reasons_of_difference(
    check: CellCheck, ours: Evaluation, rounds: pd.DataFrame, context: EvaluationContext
) -> Iterable[Reason]:
    """Return the possible reasons if the value of cells differs."""
    if ours.verdict not in DIFFERENT or ours.values.empty:
        return ()
    cells = (check.estimate(of).value for _, of in group_rows(ours.values, check.keys))
    # A condition that all cells share does not explain a level that only some of them lack.
    is_expected = partial(finding_checks.is_expected, check.finding)
    is_mixed = not check.sides and any(map(is_expected, cells))
    direction = None if is_mixed else ours.verdict
    rows = check.rows_of(ours.values, check.involved(rounds))
    return possible_reasons(direction, rows, same_work.subject_axis(check.axes), context)


def possible_reasons(
    direction: Verdict | None, rows: pd.DataFrame, subject: str, context: EvaluationContext
) -> Iterator[Reason]:
    """Yield the conditions that can explain a direction.

    `rows` are the rounds of the finding's cells, `subject` is the axis of repositories or trees.
    """
    published = context.published
    kinds = [kind for kind in context.storages if kind] if _reads_storage(rows) else []
    if published.storage not in kinds and direction in set().union(
        *(_effects(kind, published.storage) for kind in kinds)
    ):
        values: dict[str, object] = {
            "measured": words.enumeration(kinds),
            "published": published.storage,
        }
        yield Reason(ReasonCode.OTHER_STORAGE, values)
    smaller = finding_checks.smaller_scales(rows, subject, context)
    for name, scale in smaller if direction in (Verdict.WEAKER, Verdict.GONE) else ():
        values = {"subject": name, "share": 100 * scale / (published.scale or 1.0)}
        yield Reason(ReasonCode.SCALE, values)
    newer = [v for v in dict.fromkeys(context.versions) if _is_newer(v, published.subversion)]
    if newer:
        values = {"measured": words.enumeration(newer), "published": published.subversion}
        yield Reason(ReasonCode.NEWER_VERSION, values)
    accesses = {*rows["ra"]} if "ra" in rows else set()
    if published.system not in ("", "Linux") and accesses and "file" not in accesses:
        yield Reason(ReasonCode.OTHER_SYSTEM, {"published": published.system})
    if published.server and direction == Verdict.STRONGER:
        yield Reason(ReasonCode.SAME_MACHINE)


def _reads_storage(rows: pd.DataFrame) -> bool:
    caches = {*rows["cache"]} if "cache" in rows else {""}
    return not all(cache_state(cache).is_hot for cache in caches)


def _effects(kind: str, published: str) -> set[Verdict]:
    """Return the directions that a storage explains. A virtual disk may be faster or slower."""
    if not published:
        return set()
    ranks = [SLOWNESS[kind]] if kind in SLOWNESS else [*SLOWNESS.values()]
    effects = set()
    if min(ranks) < SLOWNESS[published]:
        effects |= {Verdict.WEAKER, Verdict.GONE, Verdict.REVERSED}
    if max(ranks) > SLOWNESS[published]:
        effects.add(Verdict.STRONGER)
    return effects


def _is_newer(version: str, published: str) -> bool:
    pair = [re.match(r"(\d+)\.(\d+)", text) for text in (version, published)]
    numbers = [tuple(map(int, match.groups())) for match in pair if match]
    return len(numbers) == 2 and numbers[0] > numbers[1]
