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

    They are, in this order: a forest plot of each card (a question with its comparisons), one plot of all
    findings (verdicts on published statements), line plots of tables (over an axis such as the number of
    clients) and of the history (over saved baselines), the noise, and the use of time. `picks` are the axes
    on which a reader can choose a value: forest plots and the noise then show only the rows that fit it.
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
    # `dot` is the data of a finding in the plot, None for a finding without a measured factor. `findings` are
    # in the order of the table of verdicts: reversed ones are first.
    dots = [view.dot for view in findings if view.dot]
    if dots:
        chart = chart_specs.findings_chart(dots)
        # The key explains the marks of the chart. It gets a sentence on the number of measured findings
        # without a dot. So a reader finds the same number of each verdict as in the table of verdicts.
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
        # By step of the sessions, such as `measuring`: its seconds.
        steps = account.spent_s.items()
        seconds = {STEP_LABELS.get(step, step): spent_s for step, spent_s in steps}
        # `taken_s` is all of the time. The start of Snakemake, the analysis and the report are no steps of
        # the account, so they are the rest. max() only prevents a negative rest.
        seconds[OTHER_STEPS] = max(0.0, account.taken_s - sum(seconds.values()))
        charts.append(chart_specs.time_chart(seconds))
    return charts


def _make_level_charts(results: Results) -> list[Chart]:
    """Return a line plot of each table that has a horizontal axis, such as the number of clients.

    The key `over` of the table's definition names this axis of the study. A level is the number of a cell
    itself, such as requests per second, and no comparison of two cells.
    """
    charts = []
    for name, definition in results.study.tables.items():
        over = definition.get("over")
        # The column `value` has the level. It has no number if the level is withheld for a reason.
        rows = [row for row in results.tables.get(name, []) if words.is_number(row.get("value"))]
        if not over or not rows:
            continue
        # Only these values are places on the horizontal axis. Other values would leave gaps.
        present = {row[over] for row in rows}
        # The other axes on which the rows differ. There is a line for each combination of their values.
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

    A block has the cells (commands with all their settings) of one chart, such as those of one command and
    repository. `study.block` has the axes on which they agree. A baseline is the results of an earlier run.
    Return [] for fewer than two times. Example of a point of the history: `{"time": "before-upgrade", "host":
    "host#1a2b", "settings": "", "command": "log", "cache": "cold", "value": 1.25}`.
    """
    study = results.study
    points = results.history.get("points", [])
    # A time is a saved baseline or this run. These are their names, the oldest first.
    times = [time["name"] for time in results.history.get("times", [])]
    if len(times) < 2:
        return []
    axes = [axis for axis in results.order if axis not in study.block]
    # Points with different values on one of these axes belong to different lines. A line joins comparable
    # numbers only: those of one host, with the same settings.
    line_axes = varying(points, [*axes, "host", "settings"])
    charts = []
    # The name of a block has its values on `study.block`: `log, ruby`. It is "" if the study has no blocks.
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

    A cell is a command with all its settings. A round is one repetition of a cell, with one or more runs.
    Both means are geometric. A round of 1.1 s is 10 per cent above a cell's mean of 1.0 s. Invalid runs, runs
    of 0 s, and duplicates (second measurements) are left out.
    """
    axes = list(results.order)
    # Labels of cells name the axes on which cells differ, and always the command and the cache.
    label_axes = varying(results.comparable_runs, axes)
    dots = []
    for runs in grouped_by(results.comparable_runs, lambda run: run["cell"]).values():
        # By the number of a round: the mean of ln(seconds). Its exponential is the geometric mean.
        log_means = {}
        for number, members in grouped_by(runs, lambda run: run["round"]).items():
            logs = [math.log(run["elapsed_s"]) for run in members]
            log_means[int(number)] = math.fsum(logs) / len(logs)
        # The mean of the rounds, so that each round counts the same, even if some of its runs are invalid.
        cell_log_mean = math.fsum(log_means.values()) / len(log_means)
        # The axis values of the cell, by which the page filters the dots.
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
