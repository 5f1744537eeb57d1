"""The glossary: what it has to explain, and how words carry their meaning where they are first met."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from vcsbench.config.definitions import load_glossary
from vcsbench.config.study import load_study
from vcsbench.errors import UserError

ROOT = Path(__file__).parents[2]
ALL = [f"f{number}" for number in (1, 2, 3, 4, 6, 7, 8)]
OF_ONES_OWN = {
    "format": {"current": ALL, "upgraded": [f"{old}-to-f8" for old in ALL[:-1]]},
    "packing": {"current": ["nopack", "pack"], "if_packable": ["nopack", "pack"]},
}
DEFAULT = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())


@pytest.mark.parametrize("name", DEFAULT["grid"])
def test_glossary_has_values_of_default_grids(name: str) -> None:
    study, glossary = load_study(ROOT / "config" / "studies" / f"{name}.yaml"), load_glossary(ROOT)
    wanted: dict[str, set[str]] = {axis: set() for axis in study.axes}
    for part in DEFAULT["grid"][name]["include"]:
        for axis, given in study.axes.items():
            values = {
                "commands": list(study.commands),
                "repositories": [
                    repo
                    for repo, one in DEFAULT["repositories"].items()
                    if name in one.get("studies", [name])
                ],
                "filesystems": list(DEFAULT["filesystems"]),
                "storage and filesystems": ["storage", *DEFAULT["filesystems"]],
            }.get(str(given), given if isinstance(given, list) else [])
            named = part.get(axis, values)
            wanted[axis] |= set([named] if isinstance(named, str) else named)
    # Words of a grid that stand for values.
    for axis, stands_for in OF_ONES_OWN.items():
        if axis in wanted:
            found = wanted[axis] - set(stands_for)
            wanted[axis] = found.union(*(stands_for[word] for word in wanted[axis] - found))
    missing = [(a, v) for a, vs in wanted.items() for v in sorted(vs) if not glossary.of(a, v)]
    assert any(wanted.values()) and not missing


def test_load_glossary_invalid_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "words.yaml").write_text("axes: {ra: {svn: 5}}\nothers: {}\n")
    with pytest.raises(UserError, match=r"words\.yaml: `axes\.ra\.svn`: '5' must be text"):
        load_glossary(tmp_path)


@pytest.mark.parametrize(
    ("questions", "says"),
    [
        ("{colour: {question: Which?}}", "`questions`: the study has no axis colour"),
        (
            "{packing: {question: Pack?, yes_value: packed}}",
            "`questions.packing.yes_value`: the axis has no value packed",
        ),
        (
            "{packing: {question: Pack?, actions: {all: {command: x}}}}",
            "`questions.packing.actions`: the axis has no value all",
        ),
    ],
)
def test_load_study_question_on_missing_axis_is_error(
    tmp_path: Path, questions: str, says: str
) -> None:
    text = (ROOT / "config" / "studies" / "builds.yaml").read_text()
    head, tail = text.split("questions:", 1)
    path = tmp_path / "builds.yaml"
    path.write_text(f"{head}questions: {questions}\n\ncommands:{tail.split('commands:', 1)[1]}")
    with pytest.raises(UserError, match=says):
        load_study(path)
