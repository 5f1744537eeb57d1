"""The data of a page's charts, from the results of a study."""

import math
from collections.abc import Mapping, Sequence

from vcsbench import words
from vcsbench.advice import labels
from vcsbench.advice.decision import Row
from vcsbench.evidence.flags import is_invalid
from vcsbench.metrics import metric_in
from vcsbench.plan.grid import originals
from vcsbench.report import charts
from vcsbench.report.answers import CardView, make_forest_chart
from vcsbench.report.charts import Chart, LinePoint, RoundDot
from vcsbench.report.findings_section import MEANINGS, FindingView
from vcsbench.report.results import Results, Rows, grouped_by, values_label, varying

# The steps of a session in an account, with their words.
STEPS = {
    "preparation": "preparation",
    "measuring": "measuring",
    "waiting": "waiting between cell-rounds",
}
OTHER_STEPS = "start, analysis and report"


def charts_of(
    results: Results,
    cards: Sequence[CardView],
    findings: Sequence[FindingView],
    picks: Sequence[str],
) -> list[Chart]:
    """Return all charts of a page that have data. `picks` are the axes of the picker."""
    found = [make_forest_chart(view, picks) for view in cards if view.rows]
    dots = [view.dot for view in findings if view.dot]
    if dots:
        shown = {dot.verdict for dot in dots}
        found.append(charts.findings_chart(dots, [v for v in MEANINGS if v in shown]))
    found += _level_charts(results)
    found += _history_charts(results)
    rounds = _round_dots(results)
    if rounds:
        found.append(charts.noise_chart(rounds, picks))
    seconds = seconds_of_steps(results.account)
    if seconds:
        found.append(charts.time_chart(seconds))
    return found


def _level_charts(results: Results) -> list[Chart]:
    """Return a chart of each table that the study shows over an axis, such as the number of clients."""
    found = []
    for name, definition in results.study.tables.items():
        over = definition.get("over")
        rows = [row for row in results.tables.get(name, []) if words.is_number(row.get("value"))]
        if not over or not rows:
            continue
        present = {row[over] for row in rows}
        places = [value for value in results.order[over] if value in present]
        shown = varying(rows, [axis for axis in results.order if axis != over])
        metric, axis = metric_in(definition), labels.axis_label(over)
        found.append(
            charts.line_chart(
                f"level-{words.slug(name)}",
                f"{metric.title} ({metric.unit}) by {axis}",
                _line_points(rows, over, shown),
                places,
                (axis, f"{metric.title}, {metric.unit}"),
            )
        )
    return found


def _history_charts(results: Results) -> list[Chart]:
    """Return a chart for each block over the saved baselines and this run."""
    study, points = results.study, results.history.get("points", [])
    times = [time["name"] for time in results.history.get("times", [])]
    if len(times) < 2:
        return []
    axes = [axis for axis in results.order if axis not in study.block]
    # A line joins comparable numbers only.
    shown = varying(points, [*axes, "host", "settings"])
    found = []
    for block, rows in grouped_by(points, lambda row: values_label(row, study.block)).items():
        found.append(
            charts.line_chart(
                f"history-{words.slug(block)}" if block else "history",
                f"Elapsed seconds over time: {block}",
                _line_points(rows, "time", shown),
                times,
                ("saved baseline", "elapsed time, s"),
            )
        )
    return found


def _line_points(rows: Rows, over: str, shown: Sequence[str]) -> list[LinePoint]:
    return [
        LinePoint(values_label(row, shown) or "all cells", str(row[over]), float(row["value"]))
        for row in rows
        if words.is_number(row.get("value"))
    ]


def _round_dots(results: Results) -> list[RoundDot]:
    """Return the mean of each round of each cell, against the mean of its cell. Both are geometric."""
    valid = [
        run
        for run in originals(results.measurements)
        if words.is_number(run["elapsed_s"])
        and run["elapsed_s"] > 0
        and not is_invalid(run["flags"])
    ]
    axes = list(results.order)
    shown = varying(valid, axes)
    dots = []
    for runs in grouped_by(valid, lambda run: run["cell"]).values():
        logs = {
            int(number): math.fsum(math.log(run["elapsed_s"]) for run in members) / len(members)
            for number, members in grouped_by(runs, lambda run: run["round"]).items()
        }
        mean = math.fsum(logs.values()) / len(logs)
        where = {axis: runs[0][axis] for axis in axes if runs[0].get(axis)}
        for number, log in logs.items():
            dots.append(
                RoundDot(
                    label=labels.case_label(where, shown),
                    where=where,
                    number=number,
                    deviation_pct=100 * math.expm1(log - mean),
                    seconds=labels.seconds(math.exp(log)),
                )
            )
    return dots


def seconds_of_steps(account: Row) -> Mapping[str, float]:
    """Return the seconds of all sessions by step, {} if they are unknown."""
    spent = account.get("spent_s")
    if not spent:
        return {}
    seconds = {STEPS.get(step, step): float(value) for step, value in spent.items()}
    seconds[OTHER_STEPS] = max(0.0, account["taken_s"] - sum(seconds.values()))
    return seconds
