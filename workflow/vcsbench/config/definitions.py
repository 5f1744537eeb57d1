"""Findings and expectations as their files have them, read and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from vcsbench.config.study_models import Finding
from vcsbench.config.validation import read_yaml, validate
from vcsbench.errors import UserError


def read_findings(
    path: str | Path, study: str, axes: Sequence[str], metrics: Collection[str]
) -> list[dict[str, Any]]:
    """The findings of a study, as config.study_models.Finding defines them; none if it has
    none. `axes` are all that its cells are told apart by, `metrics` the names of all metrics.

    Raises a UserError where a key is missing or unknown, one names an axis that the study does not
    have or a metric that is none, or an id stands twice.
    """
    return [finding for _, finding in _read([path], study, axes, metrics)]


def statements_in(path: str | Path, study: str) -> list[dict[str, str]]:
    """The findings of a study as they stand in a file: `id` and `statement` of each."""
    found = _content(str(path)).get(study, [])
    return [{"id": finding["id"], "statement": finding["statement"]} for finding in found]


def read_expectations(
    paths: Sequence[str | Path],
    study: str,
    axes: Mapping[str, Sequence[str] | None],
    metrics: Collection[str],
) -> list[dict[str, Any]]:
    """The expectations of a study from all files, in the form of findings. `axes` has each axis with
    its values, or None where they are not known beforehand.

    Raises a UserError as read_findings does, and where a value is none that can be measured: such an
    expectation would never be checked.
    """
    found = _read(paths, study, list(axes), metrics)
    for name, finding in found:
        _check_values(finding, name, axes)
    return [finding for _, finding in found]


def check_metric(metric: str | None, metrics: Collection[str], where: str) -> None:
    """Raise a UserError for a metric that is none; `where` names the file and the key."""
    if metric is not None and metric not in metrics:
        raise UserError(
            f"{where}: {metric} is no metric; say one of {', '.join(sorted(metrics))}, or add it "
            f"to workflow/vcsbench/metrics.py"
        )


def studies_of(paths: Sequence[str | Path]) -> list[str]:
    """The studies that the files have something of."""
    return list(dict.fromkeys(study for path in paths for study in _content(str(path))))


def _read(
    paths: Sequence[str | Path], study: str, axes: Sequence[str], metrics: Collection[str]
) -> list[tuple[str, dict[str, Any]]]:
    """Each check of a study with where it stands, for messages."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in paths:
        for index, finding in enumerate(_content(str(path)).get(study, [])):
            name = f"{path}: `{study}[{index}]`"
            _check(finding, name, axes)
            check_metric(finding.get("level"), metrics, f"{name}: `level`")
            metric = finding.get("compare", {}).get("metric")
            check_metric(metric, metrics, f"{name}: `compare.metric`")
            if finding["id"] in found:
                raise UserError(f"{name}: the id `{finding['id']}` stands twice; give it another")
            found[finding["id"]] = name, {"where": {}, **finding}
    return list(found.values())


@cache
def _content(path: str) -> dict[str, Any]:
    content: Any = read_yaml(Path(path))
    checked: dict[str, Any] = {} if content is None else content
    validate(checked, dict[str, list[Finding]], lambda _keys: path)
    return checked


def _check(finding: Mapping[str, Any], name: str, axes: Sequence[str]) -> None:
    """Raise a UserError for what the schema cannot say."""
    compare = finding.get("compare")
    if (compare is None) == ("level" not in finding):
        raise UserError(f"{name}: needs either `compare` or `level`; say which")
    if not {"at_least", "at_most"} & finding["expect"].keys():
        raise UserError(f"{name}: `expect` has no bound; add `at_least` or `at_most`")
    if compare is not None:
        _check_compare(compare, name)
    compared = [compare["axis"]] if compare and "axis" in compare else []
    for axis in [*finding.get("where", {}), *compared]:
        if axis not in axes:
            raise UserError(f"{name}: the study has no axis `{axis}`; it has {', '.join(axes)}")


def _check_compare(compare: Mapping[str, Any], name: str) -> None:
    sides = {"axis", "baseline", "candidate"}
    if "to" in compare:
        if mixed := sorted(compare.keys() - {"to"}):
            raise UserError(
                f"{name}: `compare.{mixed[0]}` does not go with `compare.to`; leave one of them out"
            )
    elif missing := sorted(sides - compare.keys()):
        raise UserError(
            f"{name}: `compare.{missing[0]}` is missing; `compare` needs axis, baseline and candidate"
        )


def _check_values(
    finding: Mapping[str, Any], name: str, axes: Mapping[str, Sequence[str] | None]
) -> None:
    """Raise a UserError for a value that its axis does not have."""
    compare = finding.get("compare", {})
    sides = [compare[side] for side in ("baseline", "candidate") if side in compare]
    wanted = [*finding["where"].items(), *((compare["axis"], side) for side in sides)]
    for axis, values in wanted:
        known = axes[axis]
        for value in values if isinstance(values, list) else [values]:
            if known is not None and str(value) not in known:
                raise UserError(f"{name}: `{axis}` has no value {value}; it has {', '.join(known)}")
