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
from vcsbench.errors import UserError
from vcsbench.files import read_rows
from vcsbench.statistics import texts
from vcsbench.statistics.verdicts import OF_EXPECTATIONS, Reason

Row = Mapping[str, str]
NOTHING, FAILED, UNDECIDED = 1, 3, 4
JUNIT, MARKDOWN = "check.junit.xml", "check.md"
AGAIN = "Run `make check` to write it again."
REASONS = TypeAdapter(list[Reason])


def main(arguments: Sequence[str]) -> int:
    path = Path(arguments[0])
    try:
        rows = read_rows(path, AGAIN, columns=("study", *OF_EXPECTATIONS))
    except UserError as error:
        print(error, file=sys.stderr)
        return NOTHING
    if not rows:
        print(
            "There is nothing to check: the files of the key `expectations` have no expectation. "
            "See config/expectations.yaml for examples.",
            file=sys.stderr,
        )
        return NOTHING
    for row in rows:
        verdict = texts.VERDICTS[Verdict(row["verdict"])]
        if row["passes"] == "yes" and row["verdict"] != Verdict.HOLDS:
            verdict += ", allowed"
        why = f" [{reasons_of(row)}]" if reasons_of(row) else ""
        print(
            f"{verdict}: {row['study']} {row['id']}: {value_of(row)}, expected {row['expected']}{why}"
        )
    files = [str(path.with_name(name)) for name in (JUNIT, MARKDOWN)]
    print("as files:", words.enumeration(files))
    print(summary(rows))
    failed = {row["verdict"] for row in rows if row["passes"] != "yes"}
    return FAILED if Verdict.FAILS in failed else UNDECIDED if failed else 0


def summary(rows: Sequence[Row]) -> str:
    passed = sum(row["passes"] == "yes" for row in rows)
    return f"{passed} of {words.count_of(len(rows), 'expectation')} pass"


def junit(rows: Sequence[Row]) -> str:
    """Write "does not hold" as a failure, and an undecided expectation as an error."""
    suites = ET.Element("testsuites", name="vcsbench")
    for study in dict.fromkeys(row["study"] for row in rows):
        of_study = [row for row in rows if row["study"] == study]
        failed = [row for row in of_study if row["passes"] != "yes"]
        failures = sum(row["verdict"] == Verdict.FAILS for row in failed)
        numbers = {"tests": len(of_study), "failures": failures, "errors": len(failed) - failures}
        attributes = {"name": study} | {name: str(number) for name, number in numbers.items()}
        suite = ET.SubElement(suites, "testsuite", attributes)
        for row in of_study:
            case = ET.SubElement(suite, "testcase", classname=study, name=row["id"])
            if row["passes"] != "yes":
                kind = "failure" if row["verdict"] == Verdict.FAILS else "error"
                verdict = texts.VERDICTS[Verdict(row["verdict"])]
                message = f"{verdict}: {value_of(row)}, expected {row['expected']}"
                ET.SubElement(case, kind, message=message).text = reasons_of(row) or None
            output = f"{row['statement']} {value_of(row)}".strip()
            ET.SubElement(case, "system-out").text = output
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def markdown(rows: Sequence[Row]) -> str:
    lines = [
        f"**{summary(rows)}**",
        "",
        "| | expectation | expected | measured |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        sign = "✓" if row["passes"] == "yes" else "✗"
        statement = row["statement"].replace("|", "\\|")
        name = f"{statement} (`{row['study']}` `{row['id']}`)"
        verdict = texts.VERDICTS[Verdict(row["verdict"])]
        lines.append(f"| {sign} {verdict} | {name} | {row['expected']} | {value_of(row)} |")
    return "\n".join(lines) + "\n"


def reasons_of(row: Row) -> str:
    reasons = REASONS.validate_json(row["reasons"] or "[]")
    return "; ".join(texts.reason_text(reason) for reason in reasons)


def value_of(row: Row) -> str:
    if not row["measured"]:
        return "no value"
    value = words.significant(float(row["measured"]))
    if row["low"] and row["high"]:
        low, high = (words.significant(float(row[bound])) for bound in ("low", "high"))
        value += f" ({low} to {high})"
    return f"{value} {row.get('unit', '')}".strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
