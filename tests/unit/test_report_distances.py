"""The revisions that an update really went over stand beside its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vcsbench.config.study import load_study
from vcsbench.report.distances import distances
from vcsbench.report.results import Results
from vcsbench.report.sections import table_sections
from vcsbench.statistics.contract import CALL, STATISTICS

STUDY = load_study(Path(__file__).parents[2] / "config" / "studies" / "working-copy-2012.yaml")


def context(command: str, first: int, last: int, **repository: Any) -> dict[str, Any]:
    return {
        "axes": {"command": command, "repo": repository["name"]},
        "repository": repository,
        "working_copy": {"revisions": [first, last]},
    }


def said(*contexts: dict[str, Any]) -> dict[str, list[str]]:
    found = distances(contexts, STUDY)
    return {name: [one.replace("\u202f", ",") for one in told] for name, told in found.items()}


def test_an_update_over_fewer_revisions_than_its_name_says_so_and_why() -> None:
    assert said(context("update-1000", 2, 231, name="main", scale=1.0)) == {
        "update-1000": [
            "update-1000 of main goes over 229 revisions, from 2 to 231, and not over 1,000: "
            "there are no more."
        ]
    }
    at_scale = said(context("update-1000", 951, 1001, name="large", scale=0.05))["update-1000"]
    assert at_scale[0].endswith("and not over 1,000: the repository is at scale 0.05.")


def test_one_over_all_of_them_says_which_and_a_checkout_says_nothing() -> None:
    found = said(
        context("update-1000", 500, 1500, name="large", scale=1.0),
        context("update-1000", 500, 1500, name="large", scale=1.0),
        context("checkout", 0, 1500, name="large", scale=1.0),
        context("update-null", 1500, 1500, name="large", scale=1.0),
    )
    assert found == {
        "update-1000": ["update-1000 of large goes over 1,000 revisions, from 500 to 1,500."]
    }


def test_the_tables_that_have_the_command_say_it() -> None:
    row = {"command": "update-1000", "repo": "main", "filesystem": "ext4", "value": 1.0}
    name = next(iter(STUDY.tables))
    results = Results(
        STUDY,
        {axis: [] for axis in STUDY.axes},
        tables={name: [{**dict.fromkeys([*STUDY.axes, *STATISTICS, *CALL], ""), **row}]},
        contexts=[context("update-1000", 2, 231, name="main", scale=1.0)],
    )
    notes = {section.name: section.notes for section in table_sections(results)}
    assert [note for note in notes[name] if "229 revisions" in note]
    assert not any(notes[other] for other in notes if other != name)
