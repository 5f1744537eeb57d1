"""The data of a page's charts, from the results of a study."""

import math
from collections.abc import Sequence
from dataclasses import replace

from vcsbench import words
from vcsbench.advice import labels
from vcsbench.codes import Verdict
from vcsbench.metrics import metric_in
from vcsbench.report import chart_specs
from vcsbench.report.answers import CardView
from vcsbench.report.charts import Chart, LinePoint, RoundDot
from vcsbench.report.findings_section import MEANINGS, FindingView
from vcsbench.report.results import Results, Rows, grouped_by, values_label, varying
from vcsbench.report.summary import describe_verdicts

# The words of the steps in an account, if they differ from its keys.
STEP_LABELS = {"waiting": "waiting between cell-rounds"}
OTHER_STEPS = "start, analysis and report"


def make_charts(
    results: Results,
    cards: Sequence[CardView],
    findings: Sequence[FindingView],
    picks: Sequence[str],
) -> list[Chart]:
    """Return all charts of a page that have data.

    They are, in this order: a forest plot of each card, one plot of all findings, line plots of tables (over
    an axis such as the number of clients) and of the history (over saved baselines), the noise, and the use
    of time. `picks` are the axes on which a reader can pick a value.
    """
    charts = []
    for view in cards:
        if view.rows:
            chart = chart_specs.forest_chart(
                name=view.anchor,
                title=view.card.question.text,
                rows=view.rows,
                sides=(view.left, view.right),
                compared=view.card.question.axis,
                picks=picks,
                margin=1 + view.card.min_effect_pct / 100,
            )
            charts.append(chart)
    # The place of each finding in the plot. It is None for a finding without a measured factor.
    dots = [view.dot for view in findings if view.dot]
    if dots:
        # In the order of the table of verdicts: reversed findings are first.
        order = [str(verdict) for verdict in MEANINGS]
        dots.sort(key=lambda dot: order.index(dot.verdict))
        chart = chart_specs.findings_chart(dots)
        # The key also has the verdicts of the measured findings without a dot. With them, the dots of a
        # verdict add up to its count in the table of verdicts.
        measured = [view for view in findings if view.verdict != Verdict.NOT_MEASURED]
        undrawn = [view.verdict for view in measured if not view.dot]
        if undrawn:
            counts = describe_verdicts(undrawn)
            note = f"Not in the chart, because their number is no factor: {counts}."
            chart = replace(chart, key=f"{chart.key} {note}")
        charts.append(chart)
    charts += _make_level_charts(results)
    charts += _make_history_charts(results)
    rounds = _make_round_dots(results)
    if rounds:
        charts.append(chart_specs.noise_chart(rounds, picks))
    account = results.account
    if account.spent_s:
        steps = account.spent_s.items()
        seconds = {STEP_LABELS.get(step, step): spent_s for step, spent_s in steps}
        # The account has no step for the start of Snakemake, the analysis and the report.
        seconds[OTHER_STEPS] = max(0.0, account.taken_s - sum(seconds.values()))
        charts.append(chart_specs.time_chart(seconds))
    return charts


def _make_level_charts(results: Results) -> list[Chart]:
    """Return a line plot of each table that the study shows over an axis, such as the number of clients.

    The key `over` of the table's definition has this axis, the horizontal one. The other axes with several
    values distinguish the lines. A level is the number of a cell itself, and no comparison with another one.
    """
    charts = []
    for name, definition in results.study.tables.items():
        over = definition.get("over")
        # The column `value` has the level.
        rows = [row for row in results.tables.get(name, []) if words.is_number(row.get("value"))]
        if not over or not rows:
            continue
        # Only these values are places on the horizontal axis. Other values would leave gaps.
        present = {row[over] for row in rows}
        line_axes = varying(rows, [axis for axis in results.order if axis != over])
        metric = metric_in(definition)
        axis_label = labels.axis_label(over)
        chart = chart_specs.line_chart(
            name=f"level-{words.slug(name)}",
            title=f"{metric.title} ({metric.unit}) by {axis_label}",
            points=_make_line_points(rows, over, line_axes),
            places=[value for value in results.order[over] if value in present],
            place_title=axis_label,
            value_title=f"{metric.title}, {metric.unit}",
        )
        charts.append(chart)
    return charts


def _make_history_charts(results: Results) -> list[Chart]:
    """Return a line plot for each block: elapsed seconds at the time of each saved baseline and of this run.

    A block is a group of cells that are compared with each other, such as the cells of one repository. Return
    [] for fewer than two times. Example of a point of the history: `{"time": "before-upgrade", "host":
    "host#1a2b", "settings": "", "command": "log", "cache": "cold", "value": 1.25}`.
    """
    study = results.study
    points = results.history.get("points", [])
    # The names of the saved baselines and of this run, the oldest first.
    times = [time["name"] for time in results.history.get("times", [])]
    if len(times) < 2:
        return []
    axes = [axis for axis in results.order if axis not in study.block]
    # Points with different values on one of these axes belong to different lines: a line joins comparable
    # numbers only, of one host and with the same settings. An axis with one value in all points is left out.
    line_axes = varying(points, [*axes, "host", "settings"])
    charts = []
    # The label of a block has its values. It is "" if the study defines no blocks.
    for block, rows in grouped_by(points, lambda row: values_label(row, study.block)).items():
        title = "Elapsed seconds over time"
        chart = chart_specs.line_chart(
            name=f"history-{words.slug(block)}" if block else "history",
            title=f"{title}: {block}" if block else title,
            points=_make_line_points(rows, "time", line_axes),
            places=times,
            place_title="saved baseline",
            value_title="elapsed time, s",
        )
        charts.append(chart)
    return charts


def _make_line_points(rows: Rows, over: str, line_axes: Sequence[str]) -> list[LinePoint]:
    """Return a point for each row with a value.

    `over` is the column of the horizontal axis. Rows that differ on `line_axes` belong to different lines.
    """
    points = []
    for row in rows:
        if words.is_number(row.get("value")):
            line = values_label(row, line_axes) or "all cells"
            points.append(LinePoint(line, str(row[over]), float(row["value"])))
    return points


def _make_round_dots(results: Results) -> list[RoundDot]:
    """Return a dot for each round of each cell: its mean time, and how far that is from the cell's mean.

    Both means are geometric: 1.1 s in a cell with a mean of 1.0 s is 10 per cent above it. Invalid runs and
    duplicates are left out.
    """
    axes = list(results.order)
    label_axes = varying(results.comparable_runs, axes)
    dots = []
    for runs in grouped_by(results.comparable_runs, lambda run: run["cell"]).values():
        # By the number of a round: the mean of ln(seconds). Its exponential is the geometric mean.
        log_means = {}
        for number, members in grouped_by(runs, lambda run: run["round"]).items():
            logs = [math.log(run["elapsed_s"]) for run in members]
            log_means[int(number)] = math.fsum(logs) / len(logs)
        # A mean of the rounds, not of the runs: some runs of a round may be invalid.
        cell_log_mean = math.fsum(log_means.values()) / len(log_means)
        where = {axis: runs[0][axis] for axis in axes if runs[0].get(axis)}
        for number, log_mean in log_means.items():
            dot = RoundDot(
                label=labels.case_label(where, label_axes),
                where=where,
                number=number,
                # expm1(x) is exp(x) - 1, here: the round's mean / the cell's mean - 1.
                deviation_pct=100 * math.expm1(log_mean - cell_log_mean),
                seconds=labels.seconds(math.exp(log_mean)),
            )
            dots.append(dot)
    return dots
