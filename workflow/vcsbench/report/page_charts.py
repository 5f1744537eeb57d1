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
from vcsbench.report.findings_section import FindingView
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

    They are, in this order: a forest plot of each card, one plot of all findings, line plots of tables and of
    the history, the noise, and the use of time. `picks` are the axes on which a reader can choose a value:
    forest plots and the noise then show only the rows that fit it.
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
                margin=view.card.margin,
            )
            charts.append(chart)
    # A finding without a measured factor has no dot in the plot.
    dots = [view.dot for view in findings if view.dot]
    if dots:
        chart = chart_specs.findings_chart(dots)
        # The chart's key counts the measured findings without a dot, too. So a reader finds the same number
        # of each verdict as in the table of verdicts.
        measured = [view for view in findings if view.verdict != Verdict.NOT_MEASURED]
        undrawn = [view.counted_verdict for view in measured if not view.dot]
        if undrawn:
            counts = describe_verdicts(undrawn)
            note = f"Not drawn, because there is no factor: {counts}."
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
        # The start of Snakemake, the analysis and the report are no steps of the account, so they are the
        # rest of the whole time `taken_s`.
        seconds[OTHER_STEPS] = max(0.0, account.taken_s - sum(seconds.values()))
        charts.append(chart_specs.time_chart(seconds))
    return charts


def _make_level_charts(results: Results) -> list[Chart]:
    """Return a line plot of each table that has a horizontal axis, such as the number of clients.

    The key `over` of the table's definition names this axis. A level is the number of a cell itself, such as
    requests per second, and no comparison of two cells.
    """
    charts = []
    for name, definition in results.study.tables.items():
        over = definition.get("over")
        # The column `value` has no number if the level is withheld for a reason.
        rows = [row for row in results.tables.get(name, []) if words.is_number(row.get("value"))]
        if not over or not rows:
            continue
        # Values that are not present would leave gaps on the horizontal axis.
        present = {row[over] for row in rows}
        # There is a line for each combination of values of these axes.
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
    """Return a line plot for each block: the elapsed seconds of each saved baseline and of this run.

    Return [] if baselines and this run are fewer than two. Example of a point of the history: `{"time":
    "before-upgrade", "host": "host#1a2b", "settings": "", "command": "log", "cache": "cold", "value": 1.25}`.
    """
    study = results.study
    points = results.history.get("points", [])
    # The names of the saved baselines and of this run, the oldest first.
    times = [time["name"] for time in results.history.get("times", [])]
    if len(times) < 2:
        return []
    axes = [axis for axis in results.order if axis not in study.block]
    # A line joins comparable numbers only: of one host, with the same settings.
    line_axes = varying(points, [*axes, "host", "settings"])
    charts = []
    # The name of a block is `log, ruby`, or "" if the study has no blocks.
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
    """Return a point of a line plot for each row with a number in the column `value`.

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

    Both means are geometric. Invalid runs, runs of 0 s, and duplicates are left out.
    """
    axes = list(results.order)
    label_axes = varying(results.comparable_runs, axes)
    dots = []
    for runs in grouped_by(results.comparable_runs, lambda run: run["cell"]).values():
        # By the number of a round: the mean of ln(seconds).
        log_means = {}
        for number, members in grouped_by(runs, lambda run: run["round"]).items():
            logs = [math.log(run["elapsed_s"]) for run in members]
            log_means[int(number)] = math.fsum(logs) / len(logs)
        # Each round counts the same, even if some of its runs are invalid.
        cell_log_mean = math.fsum(log_means.values()) / len(log_means)
        # The page filters the dots by these axis values.
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
