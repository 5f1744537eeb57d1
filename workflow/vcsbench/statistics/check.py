"""Report whether expectations hold: `python -m vcsbench.statistics.check results/check.csv`.

Exit codes: 0 all pass; 1 nothing to check, or unreadable; 3 one does not hold; 4 one is inconclusive or
was not measured. The rule `checks` writes the same as JUnit XML for build servers and as Markdown for pull
requests.
"""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from vcsbench import words
from vcsbench.codes import Verdict
from vcsbench.errors import UserError, accept_all_characters
from vcsbench.files import read_rows
from vcsbench.statistics import texts
from vcsbench.statistics.verdicts import EXPECTATION_COLUMNS, Reason

CsvRow = Mapping[str, str]
# Exit codes. Code 2 stands for a wrong command line.
EXIT_NOTHING_CHECKED = 1
EXIT_FAILS = 3
EXIT_UNDECIDED = 4
JUNIT, MARKDOWN = "check.junit.xml", "check.md"
RUN_CHECK_AGAIN = "Run `make check` to write it again."
REASONS = TypeAdapter(list[Reason])


def main(arguments: Sequence[str]) -> int:
    """Print the verdicts of a file results/check.csv, a line for each expectation, and return the exit code.

    `arguments` has the path of the file. The module's docstring has the exit codes.
    """
    path = Path(arguments[0])
    try:
        rows = read_rows(path, RUN_CHECK_AGAIN, columns=("study", *EXPECTATION_COLUMNS))
    except UserError as error:
        print(error, file=sys.stderr)
        return EXIT_NOTHING_CHECKED
    if not rows:
        print(
            "There is nothing to check: the files of the key `expectations` have no expectation. "
            "See config/expectations.yaml for examples.",
            file=sys.stderr,
        )
        return EXIT_NOTHING_CHECKED
    for row in rows:
        print(_line(row))
    # The rule `checks` has written these files next to the CSV file.
    files = [str(path.with_name(name)) for name in (JUNIT, MARKDOWN)]
    print("as files:", words.enumeration(files))
    print(summary(rows))
    # An expectation that may be inconclusive passes in spite of its verdict.
    verdicts_without_pass = {row["verdict"] for row in rows if not _passes(row)}
    if Verdict.FAILS in verdicts_without_pass:
        return EXIT_FAILS
    return EXIT_UNDECIDED if verdicts_without_pass else 0


def _passes(row: CsvRow) -> bool:
    return row["passes"] == "yes"


def _verdict_text(row: CsvRow) -> str:
    return texts.VERDICTS[Verdict(row["verdict"])]


def _line(row: CsvRow) -> str:
    """Return the line of an expectation for the terminal.

    Example: `does not hold: fsfs-ssd-2014 hot-log: 3.00 (2.90 to 3.10) s, expected at most 2 [reasons]`.
    """
    verdict = _verdict_text(row)
    # An expectation without a result passes only by its key `allow_inconclusive` or `allow_not_measured`.
    if _passes(row) and row["verdict"] != Verdict.HOLDS:
        verdict += ", allowed"
    line = f"{verdict}: {row['study']} {row['id']}: {value_text(row)}, expected {row['expected']}"
    reasons = reasons_text(row)
    return f"{line} [{reasons}]" if reasons else line


def summary(rows: Sequence[CsvRow]) -> str:
    passed = sum(_passes(row) for row in rows)
    return f"{passed} of {words.count_of(len(rows), 'expectation')} pass"


def junit(rows: Sequence[CsvRow]) -> str:
    """Return the verdicts as JUnit XML, which build servers show as tests.

    A study is a suite, and each of its expectations a test. An expectation that does not hold is a failure.
    One that is undecided or not measured is an error, because nothing could be tested. An expectation that
    passes is `<testcase classname="fsfs-ssd-2014" name="hot-log"><system-out>The log is fast 1.20 s...`.
    """
    suites = ET.Element("testsuites", name="vcsbench")
    for study in dict.fromkeys(row["study"] for row in rows):
        rows_of_study = [row for row in rows if row["study"] == study]
        not_passed = [row for row in rows_of_study if not _passes(row)]
        failures = sum(row["verdict"] == Verdict.FAILS for row in not_passed)
        suite = ET.SubElement(
            suites,
            "testsuite",
            name=study,
            tests=str(len(rows_of_study)),
            failures=str(failures),
            errors=str(len(not_passed) - failures),
        )
        for row in rows_of_study:
            case = ET.SubElement(suite, "testcase", classname=study, name=row["id"])
            if not _passes(row):
                tag = "failure" if row["verdict"] == Verdict.FAILS else "error"
                message = f"{_verdict_text(row)}: {value_text(row)}, expected {row['expected']}"
                problem = ET.SubElement(case, tag, message=message)
                problem.text = reasons_text(row) or None
            output = ET.SubElement(case, "system-out")
            output.text = f"{row['statement']} {value_text(row)}".strip()
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def markdown(rows: Sequence[CsvRow]) -> str:
    """Return the verdicts as a Markdown table for the comment on a pull request, a line per expectation.

    Example: `| ✓ holds | The log is fast (`fsfs-ssd-2014` `hot-log`) | at most 2 | 1.20 (1.10 to 1.30) s |`.
    """
    lines = [
        f"**{summary(rows)}**",
        "",
        "| | expectation | expected | measured |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        sign = "✓" if _passes(row) else "✗"
        # The user's own statement may have several lines, or a bar, which would end the column.
        statement = " ".join(row["statement"].split()).replace("|", "\\|")
        name = f"{statement} (`{row['study']}` `{row['id']}`)"
        lines.append(
            f"| {sign} {_verdict_text(row)} | {name} | {row['expected']} | {value_text(row)} |"
        )
    return "\n".join(lines) + "\n"


def reasons_text(row: CsvRow) -> str:
    """Return the reasons of a row as clauses, such as `on a bound: more rounds hardly help`."""
    reasons = REASONS.validate_json(row["reasons"] or "[]")
    return "; ".join(texts.reason_text(reason) for reason in reasons)


def value_text(row: CsvRow) -> str:
    """Return the measured value with its interval and unit: `1.20 (1.00 to 1.50) s`, or `no value`."""
    if not row["measured"]:
        return "no value"
    text = words.significant(float(row["measured"]))
    if row["low"] and row["high"]:
        low, high = words.significant(float(row["low"])), words.significant(float(row["high"]))
        text += f" ({low} to {high})"
    return f"{text} {row['unit']}".strip()


if __name__ == "__main__":
    accept_all_characters()
    sys.exit(main(sys.argv[1:]))
