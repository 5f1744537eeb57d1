"""What expectations came to, as files for others: JUnit's XML for a build server, Markdown for a pull
request."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

from vcsbench import words
from vcsbench.wholefile import write_whole

Row = Mapping[str, str]
JUNIT, MARKDOWN = "check.junit.xml", "check.md"
# Of verdicts that fail, those that say that something does not hold.
DIFFERS = "differs"


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write both into a folder; the paths."""
    texts = {JUNIT: junit(rows), MARKDOWN: markdown(rows)}
    for name, text in texts.items():
        write_whole(folder / name, text.encode())
    return [folder / name for name in texts]


def junit(rows: Sequence[Row]) -> str:
    """A test case for each expectation, in a suite for each study: a failure where one does not hold, an
    error where that could not be told."""
    suites = ET.Element("testsuites", name="vcsbench")
    for study in dict.fromkeys(row["study"] for row in rows):
        of_study = [row for row in rows if row["study"] == study]
        failed = [row for row in of_study if row["passes"] != "yes"]
        failures = sum(row["verdict"] == DIFFERS for row in failed)
        numbers = {"tests": len(of_study), "failures": failures, "errors": len(failed) - failures}
        said = {"name": study} | {name: str(number) for name, number in numbers.items()}
        suite = ET.SubElement(suites, "testsuite", said)
        for row in of_study:
            _case(suite, row)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, row: Row) -> None:
    case = ET.SubElement(suite, "testcase", classname=row["study"], name=row["id"])
    if row["passes"] != "yes":
        kind = "failure" if row["verdict"] == DIFFERS else "error"
        about = f"{row['verdict']}: {value_of(row)}, expected {row['expected']}"
        ET.SubElement(case, kind, message=about).text = row["why"] or None
    ET.SubElement(case, "system-out").text = f"{row['statement']} {value_of(row)}".strip()


def markdown(rows: Sequence[Row]) -> str:
    """A table with a row for each expectation."""
    passed = sum(row["passes"] == "yes" for row in rows)
    lines = [
        f"**{passed} of {words.count_of(len(rows), 'expectation')} pass**",
        "",
        "| | expectation | expected | measured |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        sign = "✓" if row["passes"] == "yes" else "✗"
        statement = row["statement"].replace("|", "\\|")
        about = f"{statement} (`{row['study']}` `{row['id']}`)"
        lines.append(f"| {sign} {row['verdict']} | {about} | {row['expected']} | {value_of(row)} |")
    return "\n".join(lines) + "\n"


def value_of(row: Row) -> str:
    """`1.3 (1.1 to 1.5) times, f6 / f7`, or that there is none."""
    if not row["measured"]:
        return "no value"
    value = words.significant(float(row["measured"]))
    if row["low"] and row["high"]:
        low, high = (words.significant(float(row[bound])) for bound in ("low", "high"))
        value += f" ({low} to {high})"
    return f"{value} {row.get('unit', '')}".strip()
