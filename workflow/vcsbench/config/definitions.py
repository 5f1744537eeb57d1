"""Read and check the files of findings and expectations, and the glossary."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypedDict, cast

from vcsbench.config.study_models import (
    Finding,
    FindingDefinition,
    GlossaryFile,
    SidesDefinition,
)
from vcsbench.config.validation import read_yaml, validate
from vcsbench.errors import UserError

GLOSSARY = Path("config", "words.yaml")

AxisValues = Mapping[str, Sequence[str] | None]


class Statement(TypedDict):
    """The statement of a finding."""

    id: str
    statement: str


def read_findings(
    path: str | Path, study: str, axes: Sequence[str], metrics: Collection[str]
) -> list[FindingDefinition]:
    """Return the findings of a study; [] if it has none.

    `axes` are those of its cells, `metrics` the names of all metrics. Raise UserError for an unknown or
    missing key, an unknown axis or metric, and a repeated id.
    """
    return [finding for _, finding in _read([path], study, axes, metrics)]


def statements_in(path: str | Path, study: str) -> list[Statement]:
    """Return `id` and `statement` of each finding of a study."""
    findings = _content(str(path)).get(study, [])
    return [{"id": finding["id"], "statement": finding["statement"]} for finding in findings]


def read_expectations(
    paths: Sequence[str | Path], study: str, axes: AxisValues, metrics: Collection[str]
) -> list[FindingDefinition]:
    """Return the expectations of a study from all files, in the form of findings.

    `axes` has the values of each axis, or None if they are unknown. Raise UserError like read_findings, and
    for a value that no cell has: such an expectation would never be checked.
    """
    expectations = _read(paths, study, list(axes), metrics)
    for place, expectation in expectations:
        _check_values(expectation, place, axes)
    return [expectation for _, expectation in expectations]


def check_metric(metric: str | None, metrics: Collection[str], place: str) -> None:
    """Raise UserError for an unknown metric; `place` is the file and the key."""
    if metric is not None and metric not in metrics:
        raise UserError(
            f"{place}: no metric {metric}. Use one of {', '.join(sorted(metrics))}, or add it "
            f"to workflow/vcsbench/metrics.py."
        )


def studies_of(paths: Sequence[str | Path]) -> list[str]:
    """Return the studies that the files have findings of."""
    return list(dict.fromkeys(study for path in paths for study in _content(str(path))))


def _read(
    paths: Sequence[str | Path], study: str, axes: Sequence[str], metrics: Collection[str]
) -> list[tuple[str, FindingDefinition]]:
    """Return each finding of a study with its place in a file, for messages."""
    findings: dict[str, tuple[str, FindingDefinition]] = {}
    for path in paths:
        for index, finding in enumerate(_content(str(path)).get(study, [])):
            place = f"{path}: `{study}[{index}]`"
            _check(finding, place, axes)
            check_metric(finding.get("level"), metrics, f"{place}: `level`")
            if compare := finding.get("compare"):
                check_metric(compare.get("metric"), metrics, f"{place}: `compare.metric`")
            if finding["id"] in findings:
                raise UserError(f"{place}: the id `{finding['id']}` is there twice. Rename one.")
            findings[finding["id"]] = place, finding
    return list(findings.values())


@cache
def _content(path: str) -> dict[str, list[FindingDefinition]]:
    content = read_yaml(Path(path))
    content = {} if content is None else content
    validate(content, dict[str, list[Finding]], lambda _keys: path)
    # Unlike the model, the content keeps a bound of 2 an integer, as it is printed.
    studies = cast(Mapping[str, Sequence[FindingDefinition]], content)
    return {
        study: [_without_nulls(finding) for finding in findings]
        for study, findings in studies.items()
    }


def _without_nulls(finding: FindingDefinition) -> FindingDefinition:
    """Return a finding whose null keys are left out, with a `where`."""
    known = {name: value for name, value in finding.items() if value is not None}
    return cast(FindingDefinition, {"where": {}, **known})


def _check(finding: FindingDefinition, place: str, axes: Sequence[str]) -> None:
    """Raise UserError for faults that the model does not detect."""
    compare = finding.get("compare")
    if (compare is None) == ("level" not in finding):
        raise UserError(f"{place}: needs either `compare` or `level`. Add one of them.")
    if not {"at_least", "at_most"} & finding["expect"].keys():
        raise UserError(f"{place}: `expect` has no bound. Add `at_least` or `at_most`.")
    if compare is not None:
        _check_compare(compare, place)
    compared = [compare["axis"]] if compare and "axis" in compare else []
    for axis in [*finding["where"], *compared]:
        if axis not in axes:
            raise UserError(
                f"{place}: the study has no axis `{axis}`. Use one of {', '.join(axes)}."
            )


def _check_compare(compare: SidesDefinition, place: str) -> None:
    if "to" in compare:
        if mixed := sorted(compare.keys() - {"to"}):
            raise UserError(
                f"{place}: `compare.{mixed[0]}` excludes `compare.to`. Remove one of them."
            )
    elif missing := sorted({"axis", "baseline", "candidate"} - compare.keys()):
        raise UserError(
            f"{place}: `compare.{missing[0]}` is missing. `compare` needs axis, baseline and candidate."
        )


def _check_values(finding: FindingDefinition, place: str, axes: AxisValues) -> None:
    """Raise UserError for a value that its axis does not have."""
    selected = [*finding["where"].items()]
    if (compare := finding.get("compare")) and "axis" in compare:
        selected += [(compare["axis"], [compare["baseline"], compare["candidate"]])]
    for axis, values in selected:
        known = axes[axis]
        for value in values if isinstance(values, list) else [values]:
            if known is not None and str(value) not in known:
                raise UserError(
                    f"{place}: `{axis}` has no value {value}. Use one of {', '.join(known)}."
                )


@dataclass(frozen=True)
class Glossary:
    """The meanings of axis values, by axis, and of other words."""

    axes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    def of(self, axis: str, value: str) -> str:
        """Return the meaning of a value; "" if it has none."""
        return self.axes.get(axis, {}).get(value, "")


def load_glossary(root: Path) -> Glossary:
    """Return the glossary of a checkout. Raise UserError for a fault in its file."""
    path = root / GLOSSARY
    file = validate(read_yaml(path), GlossaryFile, lambda _keys: str(path))
    return Glossary(file.axes, file.others)
