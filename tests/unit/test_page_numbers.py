"""All factors and counts of a page, of the terminal and of the index, recomputed from the CSV files of a run.

The numbers are compared as a reader would: a printed number must be a rounding of the exact one.
"""

import csv
import json
import math
import re
import tarfile
from collections import Counter
from statistics import fmean
from typing import NamedTuple
from urllib.parse import parse_qsl

import pandas as pd
import pytest
import yaml

from unit.html_tree import Element, parse
from unit.report_files import (
    DEFINITIONS,
    default_grid,
    default_study,
    derive,
    make_files,
    order_of,
    results_of,
)
from unit.synthetic import FACTORS, known_seconds
from unit.test_saved_run import ROUNDS, SAVED
from vcsbench.advice.labels import value_label
from vcsbench.evidence.collection import collect
from vcsbench.evidence.flags import is_invalid
from vcsbench.evidence.measurements import read_grid, read_measurements, write_frame
from vcsbench.evidence.time_breakdown import break_down_time
from vcsbench.metrics import metric_in
from vcsbench.report.index_page import build_index
from vcsbench.report.make_command import MakeCommand
from vcsbench.report.page import build_page, describe_page
from vcsbench.report.results import read_results
from vcsbench.report.terminal import CUT, format_summaries
from vcsbench.result_paths import CellRound
from vcsbench.statistics.budget import budget_report, list_comparisons
from vcsbench.statistics.comparisons import DEFAULT_LIMITS

STUDY = default_study()
MARGIN = 1.1
# The words of results on a page.
RESULT_WORDS = {"bounded": "nearly equal", "too small": "too small to compare"}
BETTER_WORDS = ("faster", "less")
# The questions of the terminal.
QUESTIONS = {"format": "Format?", "packing": "Pack?", "access": "http/svn?"}


class Run(NamedTuple):
    """The files of a run, its page as a tree, the text of the terminal, and the index of its page."""

    folder: object
    page: Element
    terminal: str
    index: Element
    is_synthetic: bool

    def rows(self, *names):
        """Return the rows of a CSV file below the folder `results`, [] without the file."""
        path = self.folder.joinpath(*names)
        if not path.exists():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def table(self, name, folder="tables"):
        return self.rows(folder, STUDY.name, f"{name}.csv")

    @property
    def measurements(self):
        return self.rows("measurements", f"{STUDY.name}.csv")

    @property
    def findings(self):
        return self.rows("findings", f"{STUDY.name}.csv")

    def comparisons(self, axis=""):
        """Return the rows of all tables that compare times, or those on one axis only."""
        rows = []
        for name in TIME_TABLES:
            if axis in ("", STUDY.tables[name]["compare"]["axis"]):
                rows += [row for row in self.table(name) if row["ratio"] and not row["withheld"]]
        return rows


TIME_TABLES = [
    name
    for name, definition in STUDY.tables.items()
    if definition.get("compare") and metric_in(definition).is_duration
]


def seconds(axes):
    """Return times with all results: differences on both sides, equal, nearly equal and undecided ones."""
    factors = {**FACTORS, "packing": {"pack": 1.05}, "access": {"svn": 0.93, "file": 0.6}}
    if axes["command"] == "export":
        factors["packing"] = {"pack": 0.8}
    if axes["access"] == "http":
        factors["format"] = {"f7": 1.0 if axes["command"] == "export" else 1.3}
    return known_seconds(axes, factors)


def invalid_flags(axes, number):
    """Return the flags that make all runs of one cell invalid."""
    cell = ("export", "file", "f7", "pack", "cold")
    names = ("command", "access", "format", "packing", "cache")
    return ["cache-not-cold"] if tuple(axes[name] for name in names) == cell else []


def make_synthetic(folder):
    failed = [("log/svn/ruby/f6/nopack/slow/cold", 2)]
    made = make_files(
        folder,
        skip=default_grid,
        twins=2,
        noise=0.06,
        seconds=seconds,
        rounds=6,
        failed=failed,
        flags=invalid_flags,
    )
    write_account(made.results, made.frame())
    return results_of(made)


def make_saved(folder):
    results = folder / "results"
    with tarfile.open(SAVED) as archive:
        archive.extractall(results, filter="data")
    axes, grid = read_grid(results / "grid" / f"{STUDY.name}.csv")
    exports = [path for path in results.rglob("round*.json") if "context" not in path.name]
    rounds = [CellRound.parse(export) for export in exports]
    expected = {row["cell"]: ROUNDS for row in grid}
    collected = collect(STUDY.name, axes, grid, expected, rounds, folder=str(results))
    for name, frame in (
        ("measurements", collected.measurements),
        ("failures", collected.failures),
    ):
        (results / name).mkdir(exist_ok=True)
        write_frame(frame, results / name / f"{STUDY.name}.csv")
    frame = read_measurements(results / "measurements" / f"{STUDY.name}.csv")
    derive(STUDY, results, frame, axes, grid, collected.failures.to_dict("records"))
    write_account(results, frame)
    values = {axis: list(dict.fromkeys(row[axis] for row in grid if row[axis])) for axis in axes}
    return read_results(STUDY, results, DEFINITIONS, order_of(STUDY, values))


def write_account(results, frame):
    texts = [*STUDY.axes, "baseline", "candidate", "call", "result", "flags", "withheld", "detail"]
    tables = {}
    for name in TIME_TABLES:
        path = results / "tables" / STUDY.name / f"{name}.csv"
        if path.exists():
            table = pd.read_csv(path, dtype=dict.fromkeys(texts, str))
            tables[name] = table.assign(**table[table.columns.intersection(texts)].fillna(""))
    compared = list_comparisons(tables, STUDY.tables, STUDY.block, DEFAULT_LIMITS)
    spent = break_down_time(frame, STUDY.block, [])
    account = budget_report(compared, spent, len(frame), DEFAULT_LIMITS, 0.05)
    (results / "budget").mkdir(exist_ok=True)
    content = account | {"minutes": None, "studies": 1, "why": ""}
    (results / "budget" / f"{STUDY.name}.json").write_text(json.dumps(content))


@pytest.fixture(scope="module", params=[make_synthetic, make_saved])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    results = request.param(folder)
    entries = {f"{STUDY.name}.html": describe_page(results).facts}
    definitions = list(results.definitions.values())
    index = build_index(entries, [(STUDY.name, STUDY.title, definitions)])
    terminal = "\n".join(format_summaries([results], MakeCommand()))
    page = parse(build_page(results))
    return Run(folder / "results", page, terminal, parse(index), request.param is make_synthetic)


def is_printed(text, exact):
    """Return True if a printed number such as `2.0` or `+7.2` is a rounding of the exact one."""
    number = text.replace("\N{MINUS SIGN}", "-").replace(",", "")
    _, _, decimals = number.partition(".")
    return abs(float(number) - exact) <= 0.5 * 10 ** -len(decimals) + 1e-9


def is_factor(number, unit, factor):
    """Return True if `2.0` with the unit `x`, or `5.7` with ` %`, is a factor of at least 1."""
    return is_printed(number, factor if unit == "x" else 100 * (factor - 1))


def at_least_1(ratio):
    return max(ratio, 1 / ratio)


def is_change(text, ratio):
    """Return True if a text such as `2.0x faster` is the change of a ratio baseline / candidate."""
    number, unit, word = re.fullmatch(r"([\d.]+)(x| %) (.*)", text).groups()
    has_direction = float(number) not in (0.0, 1.0)
    is_right_word = not has_direction or (word.split()[0] in BETTER_WORDS) == (ratio > 1)
    return is_factor(number, unit, at_least_1(ratio)) and is_right_word


def is_interval(text, low, high):
    """Return True if `1.9x to 2.1x faster`, or `2.0 % slower to 4.0 % faster`, is an interval of ratios."""
    parts = text.split(" to ")
    number, unit, word = re.fullmatch(r"([\d.]+)(x| %) (\w+)", parts[-1]).groups()
    ends = [(number, unit, word)]
    if len(parts) == 2:
        first = re.fullmatch(r"([\d.]+)(x| %)?(?: (\w+))?", parts[0])
        ends.insert(0, (first[1], first[2] or unit, first[3] or word))
    if high < 1:
        exact = [(1 / high, "slower"), (1 / low, "slower")]
    elif low >= 1:
        exact = [(low, "faster"), (high, "faster")]
    else:
        exact = [(1 / low, "slower"), (high, "faster")]
    if len(ends) == 1:
        # Both ends have the same text.
        ends *= 2
    return all(
        is_factor(number, unit, factor) and word == expected_word
        for (number, unit, word), (factor, expected_word) in zip(ends, exact, strict=True)
    )


def with_class(element, name):
    return [each for each in element if name in each.attributes.get("class", "").split()]


def named_cell(row, name):
    (cell,) = [cell for cell in row.all("td") if cell.attributes.get("data-name") == name]
    return cell


def own_text(element):
    return "".join(child for child in element.children if isinstance(child, str)).strip()


def keys_of(element):
    return dict(parse_qsl(element.attributes["data-of"]))


def find_row(rows, keys):
    (found,) = [
        row for row in rows if all(row.get(key, "") == value for key, value in keys.items())
    ]
    return found


def places_of(section):
    """Return the axis values and the element of each place in the measured grids of a table."""
    places = []
    for figure in with_class(section, "measured"):
        (table,) = with_class(figure, "values")
        columns = [keys_of(column) for column in table.all("col") if "data-of" in column.attributes]
        for row in table.all("tr"):
            if "data-of" not in row.attributes:
                continue
            cells = [
                cell for cell in row.children if isinstance(cell, Element) and cell.tag == "td"
            ]
            for column, cell in zip(columns, cells, strict=True):
                places.append(({**keys_of(table), **keys_of(row), **column}, cell))
    return places


def test_each_place_of_a_table_has_the_number_of_its_row(run):
    sections = {element.attributes["id"]: element for element in with_class(run.page, "table")}
    checked = 0
    for name, definition in STUDY.tables.items():
        rows = [row for row in run.table(name) if row["value"]]
        section = sections.get(f"table-{name}")
        if section is None:
            assert not rows
            continue
        numbers = [
            (keys, cell) for keys, cell in places_of(section) if "data-cells" in cell.attributes
        ]
        assert len(numbers) == len(rows)
        published_rows = run.table(name, "published")
        for keys, cell in numbers:
            row = find_row(rows, keys)
            text, value = own_text(cell), float(row["value"])
            if not definition.get("compare"):
                assert is_printed(text, value)
            elif published_rows:
                ratio = float(row["ratio"]) if row["low"] else 1 + value / 100
                assert is_printed(text, 100 * (ratio - 1))
            else:
                assert is_change(text, float(row["ratio"] or 1 + value / 100))
            for small in cell.all("small"):
                assert is_printed(small.text, float(find_row(published_rows, keys)["value"]))
            checked += 1
    assert checked > 100


def cards_of(run):
    """Return the cards with comparisons: the axis, the element, and the rows of their table."""
    cards = []
    for card in with_class(run.page, "card"):
        rows = [row for row in card.all("tr") if "data-candidate" in row.attributes]
        if rows:
            cards.append((card.attributes["data-axis"], card, rows))
    return cards


def comparison_of(run, axis, row):
    """Return the row of the CSV file for a row of a card."""
    sides = {side: row.attributes[f"data-{side}"] for side in ("baseline", "candidate")}
    return find_row(run.comparisons(axis), {**keys_of(row), **sides})


def test_each_row_of_a_card_has_the_numbers_of_its_comparison(run):
    bounds = 0
    for axis, card, rows in cards_of(run):
        (summary,) = [s.text for s in card.all("summary") if s.text.endswith("as a table")]
        assert summary.startswith(f"{len(rows)} comparison")
        for row in rows:
            compared = comparison_of(run, axis, row)
            ratio, low, high = (float(compared[name] or "nan") for name in ("ratio", "low", "high"))
            text = named_cell(row, "Result").text
            label = value_label(axis, compared["candidate"])
            if compared["call"] in ("faster", "slower"):
                change, _, note = text.removeprefix(f"{label} ").partition(" (")
                assert is_change(change, ratio)
                assert (note == "sure but small)") == (compared["result"] == "equal")
            else:
                result = compared["result"]
                expected = RESULT_WORDS.get(result, result) if low < high else "one round only"
                assert text.startswith(expected)
            # The bound is the far end of the interval in the same row.
            for number, unit in re.findall(r"at most ([\d.]+)(x| %) apart", text):
                assert is_factor(number, unit, max(high, 1 / low))
                bounds += 1
            interval = named_cell(row, "Interval").text.removeprefix(f"{label} ")
            assert is_interval(interval, low, high) if low < high else interval == text
            times = named_cell(row, "Times").text.split(" | ")
            exact = (float(compared["baseline_mean"]), float(compared["candidate_mean"]))
            for time, mean in zip(times, exact, strict=True):
                assert is_printed(time.removesuffix(" s"), mean)
    assert bounds


def chosen_value(axis, card):
    """Return the value of a card's answer, "" without one."""
    (answer,) = with_class(card, "answer")
    if axis == "packing":
        return {"yes": "pack", "no": "nopack"}.get(answer.text, "")
    return answer.text if answer.text in STUDY.axes[axis] else ""


def effect_of(comparison, value):
    """Return the effect of a value in a comparison, such as `faster`, with its factor."""
    ratio = float(comparison["ratio"])
    if comparison["candidate"] != value:
        ratio = 1 / ratio
    if comparison["result"] == "different":
        return ("faster" if ratio > 1 else "slower"), at_least_1(ratio)
    result = comparison["result"]
    return RESULT_WORDS.get(result, result), at_least_1(ratio)


def group_of(comparison):
    temperature = "cold" if comparison["cache"] == "cold" else "warm"
    return f"{temperature} {comparison['command']}"


def effects_in_card(run, axis, rows, value):
    """Return the group, effect, factor and row of a value in each comparison that a card counts."""
    sides = {
        tuple(row.attributes[f"data-{side}"] for side in ("baseline", "candidate")) for row in rows
    }
    counted = [row for row in run.comparisons(axis) if (row["baseline"], row["candidate"]) in sides]
    return [(group_of(row), *effect_of(row, value), row) for row in counted]


def check_ranges(text, effects):
    """Check `cold log (packed) 2.0x to 2.1x, others 1.9x faster, at most 1.4x slower` by the effects."""
    direction, clauses = "", []
    for clause in reversed(text.split(", ")):
        if clause.endswith(("faster", "slower")):
            direction = clause[-6:]
        clauses.insert(0, (clause.removesuffix(f" {direction}"), direction))
    named = set()
    for clause, word in clauses:
        clause_form = r"(?:([a-z][a-z ]*)(?: \(([^)]*)\))? )?([\d.]+)x(?: to ([\d.]+)x)?"
        name, condition, low, high = re.fullmatch(clause_form, clause).groups()
        large = [each for each in effects if each[1] == word and each[2] >= MARGIN]
        counted = [each for each in large if name in (each[0], None, "at most")]
        if name == "others":
            counted = [each for each in large if each[0] not in named]
        factors = [factor for _, _, factor, _ in counted]
        if condition:
            labels = [
                {value_label(axis, row[axis]) for axis in STUDY.axes if axis in row}
                for *_, row in counted
            ]
            assert condition in set.intersection(*labels)
        named.add(name)
        assert is_printed(high or low, max(factors))
        assert name == "at most" or is_printed(low, min(factors))


def test_answers_have_the_counts_and_factors_of_their_comparisons(run):
    answered = 0
    for axis, card, rows in cards_of(run):
        value = chosen_value(axis, card)
        if not value:
            continue
        effects = effects_in_card(run, axis, rows, value)
        assert len(effects) == len(rows)
        (sentence,) = with_class(card, "sentence")
        text, counts = re.fullmatch(r"Choose .*?: (.*) \(of (.*)\)\.", sentence.text).groups()
        check_ranges(text, effects)
        total, rest = re.fullmatch(r"(\d+) cases (.*)", counts).groups()
        printed = {word: int(n) for n, word in re.findall(r"(\d+) ([a-z ]+)", rest)}
        expected = Counter(effect for _, effect, _, _ in effects)
        assert int(total) == len(effects)
        assert {word: n for word, n in printed.items() if n} == dict(expected)
        # The short answers at the top, and the terminal, have the same text.
        effect = f"{text} (of {counts})"
        short = run.page.by_id(f"{card.attributes['id']}-short").text
        assert short.endswith(f": {effect}")
        question = QUESTIONS[axis]
        lines = re.search(rf"^{re.escape(question)} .*(?:\n {{22}}.*)*", run.terminal, re.MULTILINE)
        _, _, in_terminal = " ".join(lines[0].split()).partition(" ")[2].partition(" ")
        assert effect.startswith(in_terminal.removesuffix(CUT)) and len(in_terminal) > 30
        answered += 1
    # The saved run decides too little for an answer.
    assert answered == (3 if run.is_synthetic else 0)


def operation_of(heading):
    """Return the command and the state of the caches of a column: `log, OS cache warm`."""
    if heading.startswith("cold "):
        return heading.removeprefix("cold "), "cold"
    command, _, state = heading.partition(", ")
    states = {value_label("cache", cache): cache for cache in ("hot-os", "hot-server")}
    return command, states[state]


def test_steps_have_the_counts_factors_and_times_of_their_comparisons(run):
    values = {
        f"#{card.attributes['id']}": (axis, chosen_value(axis, card))
        for axis, card, _ in cards_of(run)
    }
    card_rows = {axis: rows for axis, _, rows in cards_of(run)}
    (table,) = with_class(run.page.by_id("first"), "steps") or [Element("table", {})]
    checked = 0
    for step in table.all("tbody"):
        (anchor,) = [link.attributes["href"] for link in step.all("a")]
        axis, value = values[anchor]
        compared = [comparison_of(run, axis, row) for row in card_rows[axis]]
        for cell in step.all("td"):
            operation = operation_of(cell.attributes["data-name"])
            of_operation = [row for row in compared if (row["command"], row["cache"]) == operation]
            for chip in with_class(cell, "chip"):
                text = own_text(chip)
                (word,) = re.findall(r"faster|slower|nearly equal|equal|undecided", text)
                rows = [row for row in of_operation if effect_of(row, value)[0] == word]
                for share in re.findall(r"in (\d+ of \d+)", text):
                    assert share == f"{len(rows)} of {len(of_operation)}"
                names = text.partition(":")[0].split(", ") if ":" in text else []
                assert not names or {*names} <= {name for row in rows for name in row.values()}
                factors = re.findall(r"([\d.]+)x", text)
                if factors:
                    exact = [effect_of(row, value)[1] for row in rows]
                    assert is_printed(min(factors, key=float), min(exact))
                    assert is_printed(max(factors, key=float), max(exact))
                for times in chip.all("small"):
                    (row,) = rows
                    means = [float(row["baseline_mean"]), float(row["candidate_mean"])]
                    if row["candidate"] != value:
                        means.reverse()
                    for time, mean in zip(times.text.split(" → "), means, strict=True):
                        assert is_printed(time.removesuffix(" s"), mean)
                checked += 1
    assert checked > 10 or not table.children


def logs_by_cell(run, where):
    """Return ln(seconds) of each cell with two rounds or more, by its label and the number of a round."""
    runs = {}
    for row in run.measurements:
        is_counted = "~" not in row["cell"] and not is_invalid(row["flags"])
        if is_counted and all(row[axis] == value for axis, value in where.items()):
            labels = [value_label(axis, row[axis]) for axis in ("format", "packing", "config")]
            of_cell = runs.setdefault(", ".join(labels), {})
            of_cell.setdefault(int(row["round"]), []).append(math.log(float(row["elapsed_s"])))
    cells = {label: rounds for label, rounds in runs.items() if len(rounds) > 1}
    return {
        label: {number: fmean(logs) for number, logs in rounds.items()}
        for label, rounds in cells.items()
    }


def test_best_combinations_have_the_times_of_their_cells(run):
    rows = [row for row in run.page.by_id("situations").all("tr") if "data-of" in row.attributes]
    assert run.page.by_id("situation-count").text == f"{len(rows)} situations"
    checked = 0
    for line in rows:
        time, factor = (named_cell(line, name).text for name in ("Time", "Factor"))
        if not time:
            continue
        # The cells of a situation are compared over the rounds that all of them have, two or more.
        logs = logs_by_cell(run, keys_of(line))
        common = set.intersection(*({*rounds} for rounds in logs.values()))
        means = {}
        for labels, rounds in logs.items():
            used = [rounds[number] for number in common if len(common) > 1] or list(rounds.values())
            means[labels] = math.exp(fmean(used))
        best = min(means, key=means.get)
        assert named_cell(line, "Best").text == best
        assert is_printed(time.removesuffix(" s"), means[best])
        if factor:
            number, unit = re.fullmatch(r"([\d.]+)(x| %)", factor).groups()
            slowest = max(means, key=means.get)
            of_both = logs[best].keys() & logs[slowest].keys()
            ratio = fmean(logs[slowest][number] - logs[best][number] for number in of_both)
            assert is_factor(number, unit, math.exp(ratio))
        checked += 1
    assert checked > 5


def counted_verdicts(run):
    """Return the numbers of findings by their verdict; a reproduced direction is counted apart."""
    definitions = yaml.safe_load(DEFINITIONS.read_text(encoding="utf-8"))
    expected = {
        finding["id"]: finding["expect"] for key in STUDY.findings for finding in definitions[key]
    }
    counts = Counter()
    for finding in run.findings:
        is_direction = "direction" in expected[finding["id"]]
        if finding["verdict"] == "reproduced" and is_direction:
            counts["reproduced in direction only"] += 1
        else:
            counts[finding["verdict"]] += 1
    return counts


def verdicts_in(text):
    """Return the numbers in a text such as `6 reproduced, 1 reversed`."""
    words = "reproduced in direction only|reproduced|weaker|stronger|gone|reversed|mixed|undecided|"
    words += "too small|not measured"
    return {
        word: int(number) for number, word in re.findall(rf"(\d+) (?:is |are )?({words})", text)
    }


def test_verdicts_are_counted_alike_in_page_index_and_terminal(run):
    expected = counted_verdicts(run)
    total = expected.total()
    measured = total - expected["not measured"]
    (overview,) = [p.text for p in run.page.all("p") if p.text.startswith("Findings: ")]
    assert f" {measured} of {total} findings " in overview
    different = {"weaker", "stronger", "gone", "reversed", "mixed"}
    numbers = verdicts_in(overview)
    assert {word: numbers.get(word, 0) for word in different} == {
        word: expected[word] for word in different
    }
    assert numbers.get("reproduced", 0) == expected["reproduced"]
    in_direction = re.findall(r"(\d+) more in direction only", overview)
    assert sum(map(int, in_direction)) == expected["reproduced in direction only"]
    differ = re.findall(r"(\d+) differs?:", overview)
    assert sum(map(int, differ)) == sum(expected[word] for word in different)

    (table,) = with_class(run.page, "verdicts")
    assert f"Of {total}" in table.text
    rows = [[cell.text for cell in row.all("td")][:2] for row in table.all("tr")[1:]]
    assert {word: int(number) for number, word in rows} == dict(expected)
    (of_index,) = [p.text for p in run.index.all("p") if "published finding" in p.text]
    assert f"of {total} published findings" in of_index
    assert verdicts_in(of_index.partition("findings")[2]) == dict(expected)
    in_terminal = " ".join(run.terminal.split())
    assert f"{total} findings: " in in_terminal
    shown = verdicts_in(in_terminal.partition("findings: ")[2])
    assert shown.items() <= dict(expected).items() and shown


def test_findings_have_the_numbers_of_their_file(run):
    compared = []
    for row in run.comparisons():
        # One round has no interval.
        ends = [float(row[name] or row["ratio"]) for name in ("ratio", "low", "high")]
        compared += [ends, [1 / ends[0], 1 / ends[2], 1 / ends[1]]]
    for finding in run.findings:
        (row,) = [
            each for each in run.page if each.attributes.get("id") == f"finding-{finding['id']}"
        ]
        (verdict,) = with_class(row, "verdict")
        assert verdict.text == finding["verdict"]
        *_, cell = [
            each for each in row.all("td") if each.attributes.get("data-name") == "Measured"
        ]
        if not finding["measured"]:
            assert not cell.text
            continue
        exact = [float(finding["measured"])]
        exact += [float(finding[name]) for name in ("low", "high") if finding[name]]
        numbers = re.findall(
            r"-?[\d.]+", own_text(cell) + " " + " ".join(s.text for s in cell.all("small"))
        )
        # A range with two equal ends has one number.
        expected = exact if len(numbers) == len(exact) else exact[: len(numbers)]
        assert all(
            is_printed(number, value) for number, value in zip(numbers, expected, strict=True)
        )
        for pairs in with_class(row, "pair-list"):
            for line in pairs.all("tr")[1:]:
                number = named_cell(line, "Measured").text.removesuffix("x")
                ends = re.findall(r"[\d.]+", named_cell(line, "Interval").text)
                printed = [number, *(ends or [number]), *ends[:1]][:3]
                assert any(all(map(is_printed, printed, pair)) for pair in compared)


def test_comparisons_and_runs_are_counted_alike_in_page_index_and_terminal(run):
    results = Counter(row["result"] for row in run.comparisons())
    total = results.total()
    answered = results["different"] + results["equal"]
    counts = f"{answered} of {total} comparisons"
    for result in ("bounded", "too small", "undecided"):
        if results[result]:
            counts += f", {results[result]} {RESULT_WORDS.get(result, result)}"
    assert " ".join(run.terminal.split()).count(f"Answered {counts};") == 1
    shown = {
        (
            axis,
            row.attributes["data-of"],
            row.attributes["data-baseline"],
            row.attributes["data-candidate"],
        )
        for axis, _, rows in cards_of(run)
        for row in rows
    }
    uncertain = run.page.by_id("uncertain").text
    assert uncertain.startswith(f"Answered over all cases: {counts}.")
    in_cards = re.findall(r"The cards show ([\d,]+) comparisons", uncertain)
    assert in_cards == ([str(len(shown))] if len(shown) < total else [])

    runs = run.measurements
    originals = [row for row in runs if "~" not in row["cell"]]
    cells = {row["cell"] for row in originals}
    duplicates = {row["cell"] for row in runs} - cells
    header = run.page.all("header")[0].text
    assert f"{len(runs):,} timed runs of {len(cells)} cells" in header
    assert f"{len(duplicates)} cells are measured twice" in header or not duplicates
    valid = {row["cell"] for row in originals if not is_invalid(row["flags"])}
    failures = run.rows("failures", f"{STUDY.name}.csv")
    failed = [row for row in failures if row["reason"] not in ("outdated", "unmeasured")]
    (missing,) = with_class(run.page, "bad") or [Element("p", {})]
    numbers = {
        "failed": re.findall(r"(\d+) cell-rounds? failed", missing.text),
        "invalid": re.findall(r"all runs of (\d+) cells? (?:is|are) invalid", missing.text),
    }
    assert sum(map(int, numbers["failed"])) == len(failed)
    assert sum(map(int, numbers["invalid"])) == len(cells) - len(valid)
    invalid_runs = sum(is_invalid(row["flags"]) for row in runs)
    in_terminal = re.findall(r"Invalid +(\d+) of ([\d,]+) timed runs", run.terminal)
    assert in_terminal == ([(str(invalid_runs), f"{len(runs):,}")] if invalid_runs else [])

    grid = [row for row in run.rows("grid", f"{STUDY.name}.csv") if "~" not in row["cell"]]
    (of_index,) = [row for row in run.index.all("tr") if row.all("td") and STUDY.title in row.text][
        :1
    ]
    assert named_cell(of_index, "Cells").text.startswith(f"{len(cells)} of {len(grid)}")
    assert named_cell(of_index, "Failures").text == str(len(failed))
