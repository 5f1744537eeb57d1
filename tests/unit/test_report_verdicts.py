"""Which table a finding links to: the one that compares its two values, else that of its metric."""

from __future__ import annotations

from typing import Any

import pytest

from unit.report_files import CONFIG, DEFINITIONS, default_study
from vcsbench.config.validation import read_yaml
from vcsbench.report.verdicts import table_of, verdicts

FINDINGS = [
    pytest.param(study, finding, id=finding["id"])
    for study, findings in read_yaml(DEFINITIONS).items()
    if (CONFIG / "studies" / f"{study}.yaml").exists()
    for finding in findings
]
LEVEL = {
    "elapsed_s": "elapsed",
    "client_cpu_pct": "client-cpu",
    "throughput_mb_s": "throughput",
    "opens_read_only": "io",
    "bytes_read": "io",
}


@pytest.mark.parametrize(("study", "finding"), FINDINGS)
def test_a_finding_links_to_the_table_of_its_values(study: str, finding: dict[str, Any]) -> None:
    tables = default_study(study).tables
    name, where = table_of(finding, tables)
    wanted = finding.get("compare", {})
    values = {wanted.get("baseline"), wanted.get("candidate")}
    comparing = [
        table
        for table, definition in tables.items()
        for compare in [definition.get("compare", {})]
        for candidate in compare.get("candidates", [])
        if compare.get("metric") == wanted.get("metric")
        if compare["axis"] == wanted.get("axis") and {compare["baseline"], candidate} == values
    ]
    if comparing:
        assert name == comparing[0]
        assert {tables[name]["compare"]["baseline"], where["candidate"]} == values
    else:
        level = LEVEL[wanted.get("metric") or finding.get("level") or "elapsed_s"]
        assert name == (level if level in tables else "best")


def test_a_finding_links_to_a_table_that_has_its_cells() -> None:
    tables = default_study("server-prototype-2010").tables
    many = {"where": {"command": "exports"}, "level": "throughput_mb_s"}
    assert table_of(many, tables)[0] == "throughput-by-clients"
    assert table_of({**many, "where": {"command": "export"}}, tables)[0] == "throughput"


def test_the_orientation_of_a_table_does_not_matter() -> None:
    found = {
        f.values[1]["id"]: table_of(f.values[1], default_study(f.values[0]).tables)[0]
        for f in FINDINGS
    }
    assert found["ssd-dump-format-neutral"] == found["ssd-load-f7-cost"] == "f7-vs-f6"
    assert found["ssd-log-packing-cold"] == "pack-vs-nopack"
    assert found["ssd-load-ram-vs-ssd"] == "ssd-vs-ram"
    assert found["cold-packed-f7-log"] == "f6-vs-f7"
    assert found["svn-beats-http-hot-log"] == "http-vs-ra"
    assert found["hot-fast-log-client-bound"] == "client-cpu"


def test_a_finding_on_another_metric_links_to_the_table_of_that() -> None:
    compare = {"axis": "format", "baseline": "f6", "candidate": "f7", "metric": "client_cpu_pct"}
    tables = default_study().tables
    assert table_of({"compare": compare}, tables) == ("client-cpu", {"format": ["f6", "f7"]})
    del compare["metric"]
    assert table_of({"compare": compare}, tables) == ("f6-vs-f7", {"candidate": "f7"})
    assert table_of({"compare": {"to": "before"}}, tables) == ("", {})


def test_the_link_leads_to_a_row_that_the_finding_is_about() -> None:
    _, where = table_of(
        {
            "where": {"cache": "hot"},
            "compare": {"axis": "config", "baseline": "medium", "candidate": "fast"},
        },
        default_study("fsfs-ssd-2014").tables,
    )
    assert where == {"cache": "hot", "config": ["medium", "fast"]}


def test_a_value_says_what_it_is_of() -> None:
    row = {"id": "x", "expected": "at least 80", "published": None, "measured": 47.9, "low": 47.0}
    row |= {"high": 49.0, "verdict": "differs", "unit": "%", "over": "least of 12 cells", "why": ""}
    (found,) = verdicts([row], {}, {}, [])
    assert (found["measured"], found["interval"]) == ("47.9", "47.0 to 49.0")
    assert found["of"] == "%; least of 12 cells"
