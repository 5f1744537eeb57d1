"""Define and read findings and expectations, and the glossary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Required, Self, TypedDict

from pydantic import Field, model_validator

from vcsbench.config.models import NAME, Metric, Model, Name, Text, key
from vcsbench.config.validation import read_mapping, read_yaml, validate
from vcsbench.errors import UserError

GLOSSARY = Path("config", "words.yaml")
Scalar = str | int | float


class ComparedSides(Model):
    axis: Text | None = None
    """The compared axis."""
    baseline: Scalar | None = None
    """Its value in the numerator."""
    candidate: Scalar | None = None
    """Its value in the denominator."""
    metric: Metric | None = None
    """The metric (default: elapsed_s)."""
    to: Name | None = None
    """A saved baseline to compare with: elapsed(saved) / elapsed(now); 0.952 is 5 % slower."""

    @model_validator(mode="after")
    def _has_sides(self) -> Self:
        sides = {name: getattr(self, name) for name in ("axis", "baseline", "candidate", "metric")}
        given = [name for name, value in sides.items() if value is not None]
        if self.to is not None and given:
            raise ValueError(f"`{given[0]}` excludes `to`. Remove one of them.")
        if self.to is None and (missing := [*sides.keys() - {"metric", *given}]):
            raise ValueError(
                f"`{min(missing)}` is missing. `compare` needs axis, baseline and candidate."
            )
        return self


class Expected(Model):
    over: Literal["median", "min", "max"]
    """Of several cells or pairs: the median, taken within each round, or the least or greatest of their means
    over the rounds."""
    at_least: float | None = key(None, ge=-1e12, le=1e12)
    """The lower bound."""
    at_most: float | None = key(None, ge=-1e12, le=1e12)
    """The upper bound."""
    ours: bool | None = None
    """A published statement has no number, so vcsbench chose the bounds. The page shows it."""

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("has no bound. Add `at_least` or `at_most`.")
        return self


class Finding(Model):
    id: str = key(pattern=NAME)
    """A short name, once in a study."""
    statement: Text
    """The statement, in a sentence."""
    where: dict[str, Scalar | Annotated[list[Scalar], Field(min_length=1)]] | None = None
    """The cells of the finding: axes of the study, each with a value or a list of values. An axis that is
    left out (for example the repository) takes all that are measured."""
    level: Metric | None = None
    """The metric whose own values are checked, by its name in workflow/vcsbench/metrics.py."""
    compare: ComparedSides | None = None
    """Instead of `level`: the compared sides. The value is metric(baseline) / metric(candidate): above 1 the
    candidate is faster. Needs `axis`, `baseline` and `candidate`, or `to`."""
    expect: Expected
    """The bounds: `at_least`, `at_most` or both."""
    allow_inconclusive: bool | None = None
    """An expectation only: `check` accepts an inconclusive result."""
    allow_not_measured: bool | None = None
    """An expectation only: `check` accepts that nothing of it was measured."""

    @model_validator(mode="after")
    def _has_level_or_compares(self) -> Self:
        if (self.level is None) == (self.compare is None):
            raise ValueError("needs either `compare` or `level`. Add one of them.")
        return self


class SidesDefinition(TypedDict, total=False):
    axis: str
    baseline: Scalar
    candidate: Scalar
    metric: str
    to: str


class BoundsDefinition(TypedDict, total=False):
    over: Required[Literal["median", "min", "max"]]
    at_least: float
    at_most: float
    ours: bool


class FindingDefinition(TypedDict, total=False):
    id: Required[str]
    statement: Required[str]
    where: Required[Mapping[str, Scalar | Sequence[Scalar]]]
    level: str
    compare: SidesDefinition
    expect: Required[BoundsDefinition]
    allow_inconclusive: bool
    allow_not_measured: bool


# None if a value may have any name.
AxisChoices = Mapping[str, Sequence[str] | None]


def read_findings(path: str | Path, study: str, axes: Sequence[str]) -> list[FindingDefinition]:
    """Return the findings of a study whose cells have these axes; [] if it has none.

    Raise UserError for an unknown or missing key, an unknown axis or metric, and a repeated id.
    """
    return read_expectations([path], study, dict.fromkeys(axes))


def read_expectations(
    paths: Sequence[str | Path], study: str, axes: AxisChoices
) -> list[FindingDefinition]:
    """Return the expectations of a study from all files, in the form of findings.

    Raise UserError like read_findings, and for a value that no cell has, because it would never be
    checked.
    """
    expectations: dict[str, FindingDefinition] = {}
    for path in paths:
        for index, expectation in enumerate(read_definitions(str(path)).get(study, [])):
            place = f"{path}: `{study}[{index}]`"
            _check(expectation, place, axes)
            if expectation["id"] in expectations:
                raise UserError(
                    f"{place}: the id `{expectation['id']}` is there twice. Rename one."
                )
            expectations[expectation["id"]] = expectation
    return list(expectations.values())


@cache
def read_definitions(path: str) -> dict[str, list[FindingDefinition]]:
    """Return findings or expectations by study, without null keys and with a `where`."""
    content: Any = read_mapping(Path(path))
    validate(content, dict[str, list[Finding]], lambda _keys: path)
    # Unlike the model, the content keeps a bound of 2 an integer, as it is printed.
    return {
        study: [{"where": {}} | _without_nulls(each) for each in findings]
        for study, findings in content.items()
    }


def _without_nulls(content: Any) -> Any:
    if not isinstance(content, Mapping):
        return content
    return {key: _without_nulls(value) for key, value in content.items() if value is not None}


def _check(finding: FindingDefinition, place: str, axes: AxisChoices) -> None:
    """Raise UserError for an axis that the study lacks, or a value that no cell has."""
    selected = [*finding["where"].items()]
    compare = finding.get("compare", {})
    if "axis" in compare:
        selected += [(compare["axis"], [compare["baseline"], compare["candidate"]])]
    for axis, values in selected:
        if axis not in axes:
            raise UserError(
                f"{place}: the study has no axis `{axis}`. Use one of {', '.join(axes)}."
            )
        known = axes[axis]
        for value in values if isinstance(values, list) else [values]:
            if known is not None and str(value) not in known:
                raise UserError(
                    f"{place}: `{axis}` has no value {value}. Use one of {', '.join(known)}."
                )


class Glossary(Model):
    """config/words.yaml: the meanings of words in reports."""

    axes: dict[str, dict[str, Text]]
    """The meanings of values, by axis."""
    others: dict[str, Text]
    """The meanings of other words of the reports."""

    def of(self, axis: str, value: str) -> str:
        return self.axes.get(axis, {}).get(value, "")


def load_glossary(root: Path) -> Glossary:
    path = root / GLOSSARY
    return validate(read_yaml(path), Glossary, lambda _keys: str(path))
