"""Evaluate findings, and a user's expectations, on published and measured numbers.

A finding that differs has possible reasons: other conditions than published that explain its direction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING

import pandas as pd

from vcsbench import words
from vcsbench.axes import STATES
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.statistics import finding_checks, verdicts
from vcsbench.statistics.aggregation import MEAN, add_key_columns, by_round, rows_of_statistic
from vcsbench.statistics.comparisons import Limits
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate
from vcsbench.statistics.finding_checks import CellCheck, Conditions, Evaluation, EvaluationContext
from vcsbench.statistics.noise import Noise, noise_by_metric
from vcsbench.statistics.verdicts import CELLS, Reason, ReasonTest

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

WEAKER, STRONGER = "weaker", "stronger"
SLOWNESS = {"RAM": 0, "SSD": 1, "spinning disk": 2}
# The axes of the study `builds`, and the values of those with a list of their own.
BUILD_AXES = ("command", "ra", "format", "packing", "config", "cache")
BUILD_VALUES = {
    "command": {"log", "null-log", "export", "null-export", "dump"},
    "cache": {"cold", "hot-os", "hot-svn"},
}
# States with the same promises.
BUILD_NAMES = {"hot": "hot-svn"}


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
    columns that identify cells as axes do. `measured` of a row is the mean over rounds (geometric for
    ratios) of the median in each round, or the least or greatest such mean, `low` and `high` its interval.
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
                "why": "; ".join(reason.text for reason in reasons),
                "reasons": json.dumps([asdict(reason) for reason in reasons], default=float),
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
    reasons = [Reason("all-published", numbers)]
    low, high = finding_checks.expected_bounds(check.finding)
    sides = [(v > high) - (v < low) for v in (same.value, ours.estimate.value)]
    if ours.verdict == verdicts.DIFFERS and sides[0] == sides[1]:
        numbers = {"measured": number, "published": count, "value": same.value}
        reasons.append(Reason("fewer-cells", numbers))
    return same, reasons


def evaluate_expectations(
    expectations: Sequence[FindingDefinition],
    axes: Sequence[str],
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> pd.DataFrame:
    rows = evaluate_findings(expectations, axes, None, measured, context)
    return _with_passes(
        expectations, rows.replace({"verdict": {verdicts.REPRODUCED: verdicts.HOLDS}})
    )


def unmeasured_expectations(study: str, expectations: Sequence[FindingDefinition]) -> pd.DataFrame:
    rows = evaluate_findings(expectations, [], None, None)
    return _with_passes(expectations, rows.assign(why=f"the key `studies` lacks {study}"))


def _with_passes(expectations: Sequence[FindingDefinition], rows: pd.DataFrame) -> pd.DataFrame:
    allowing = {
        verdicts.INCONCLUSIVE: "allow_inconclusive",
        verdicts.NOT_MEASURED: "allow_not_measured",
    }
    pairs = zip(expectations, rows["verdict"], strict=True)
    passes = [
        verdict == verdicts.HOLDS or e.get(allowing.get(verdict, ""), False) for e, verdict in pairs
    ]
    columns = verdicts.OF_EXPECTATIONS
    return rows.assign(passes=["yes" if passed else "no" for passed in passes])[columns]


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
    if ours.verdict != verdicts.DIFFERS or ours.values.empty:
        return ()
    cells = (check.estimate(of).value for _, of in group_rows(ours.values, check.keys))
    # A condition that all cells share does not explain a level that only some of them lack.
    is_expected = partial(finding_checks.is_expected, check.finding)
    is_mixed = not check.sides and any(map(is_expected, cells))
    direction = "" if is_mixed else direction_of(check.finding, ours.estimate.value)
    rows = check.rows_of(ours.values, check.involved(rounds))
    return possible_reasons(direction, rows, same_work.subject_axis(check.axes), context)


def possible_reasons(
    direction: str, rows: pd.DataFrame, subject: str, context: EvaluationContext
) -> Iterator[Reason]:
    """Yield the conditions that can explain a direction, each with the run that tests it.

    `rows` are the rounds of the finding's cells, `subject` is the axis of repositories or trees.
    """
    published = context.published
    smaller = finding_checks.smaller_scales(rows, subject, context)
    for name, scale in smaller if direction == WEAKER else ():
        values = {"subject": name, "share": 100 * scale / (published.scale or 1.0)}
        yield Reason("scale", values, finding_checks.larger_scale(rows, subject, context))
    kinds = [kind for kind in context.storages if kind] if _reads_storage(rows) else []
    if published.storage not in kinds and direction in set().union(
        *(_effects(kind, published.storage) for kind in kinds)
    ):
        values = {"measured": words.enumeration(kinds), "published": published.storage}
        names = {*rows["storage"]} - {"ram"} if "storage" in rows else set()
        folders = ", ".join(f"{name}: /mnt/other" for name in sorted(names) or ["other"])
        storage = f"{{storages: {{{folders}}}{'' if names else ', storage: other'}}}"
        before = f"replace /mnt/other by a folder on {published.storage}"
        yield Reason(
            "other-storage", values, ReasonTest(context.study, "other.yaml", storage, before)
        )
    if published.server and direction == STRONGER:
        yield Reason("same-machine", {})
    accesses = {*rows["ra"]} if "ra" in rows else set()
    if published.system not in ("", "Linux") and accesses and "file" not in accesses:
        yield Reason("other-system", {"published": published.system})
    newer = [v for v in dict.fromkeys(context.versions) if _is_newer(v, published.subversion)]
    if newer:
        values = {"measured": words.enumeration(newer), "published": published.subversion}
        yield Reason("newer-version", values, _older_build(rows, published.subversion))


def direction_of(finding: FindingDefinition, value: float) -> str:
    low, high = finding_checks.expected_bounds(finding)
    if "compare" not in finding:
        return WEAKER if value < low else STRONGER
    if low <= 1 <= high:
        return STRONGER
    if low > 1:
        return verdicts.REVERSED if value < 1 else WEAKER if value < low else STRONGER
    return verdicts.REVERSED if value > 1 else WEAKER if value > high else STRONGER


def _older_build(rows: pd.DataFrame, version: str) -> ReasonTest | None:
    """Return the run that measures the cells of `rows` with an older build, too."""
    used = {
        axis: [BUILD_NAMES.get(value, value) for value in dict.fromkeys(filter(None, rows[axis]))]
        for axis in BUILD_AXES
        if axis in rows
    }
    if not all(values.issuperset(used.get(axis, [""])) for axis, values in BUILD_VALUES.items()):
        return None
    cells = ", ".join(f"{axis}: [{', '.join(values)}]" for axis, values in used.items() if values)
    folder = f"/opt/svn-{version}"
    builds = f"builds: {{old: {{prefix: {folder}}}, new: {{}}}}"
    content = f"{{{builds}, grid: {{builds: {{include: [{CELLS}]}}}}}}"
    first = f"install Subversion {version} in {folder} and compare the builds old and new"
    return ReasonTest("builds", "old.yaml", content, first, f"{{{cells}}}")


def _reads_storage(rows: pd.DataFrame) -> bool:
    caches = {*rows["cache"]} if "cache" in rows else {""}
    states = (STATES.get(str(cache), STATES[""])["promises"] for cache in caches)
    return any(promises.get("os") != "hot" for promises in states)


def _effects(kind: str, published: str) -> set[str]:
    """Return the directions that a storage explains. A virtual disk may be faster or slower."""
    if not published:
        return set()
    ranks = [SLOWNESS[kind]] if kind in SLOWNESS else [*SLOWNESS.values()]
    effects = {WEAKER, verdicts.REVERSED} if min(ranks) < SLOWNESS[published] else set()
    return effects | {STRONGER} if max(ranks) > SLOWNESS[published] else effects


def _is_newer(version: str, published: str) -> bool:
    pair = [re.match(r"(\d+)\.(\d+)", text) for text in (version, published)]
    numbers = [tuple(map(int, match.groups())) for match in pair if match]
    return len(numbers) == 2 and numbers[0] > numbers[1]
