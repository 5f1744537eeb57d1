"""All files of a synthetic run that the report reads, and its page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from project import CONFIG
from unit.synthetic import SyntheticStudy, make_study
from vcsbench.advice.advise import AdviceSettings, advise
from vcsbench.advice.cards import ADVICE, Advice
from vcsbench.advice.questions import read_questions
from vcsbench.config.definitions import read_expectations
from vcsbench.config.study import Study
from vcsbench.config.study_reader import load_study
from vcsbench.evidence.measurements import read_grid, write_frame
from vcsbench.report.page import build_page_with_charts
from vcsbench.report.results import Results, read_records, read_results
from vcsbench.statistics import findings
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.comparisons import DEFAULT_LIMITS
from vcsbench.statistics.evaluations import Conditions
from vcsbench.statistics.settings import StudySettings
from vcsbench.statistics.tables import make_tables

DEFINITIONS = CONFIG / "published" / "findings.yaml"
SLOW_AND_FAST = [("slow", "cold"), ("slow", "hot-os"), ("fast", "hot-server")]
OUTSIDE = "outside of the grid"


def default_study(name: str = "fsfs-san-2014") -> Study:
    return load_study(CONFIG / "studies" / f"{name}.yaml")


def default_grid(axes: dict[str, str]) -> str:
    """Return the `skip` of the default configuration, which has 72 cells."""
    return "" if (axes["config"], axes["cache"]) in SLOW_AND_FAST else OUTSIDE


def make_files(root: Path, **options: Any) -> SyntheticStudy:
    """Write exports and all derived files of a study below `root`/results."""
    made = make_study(root, **options)
    lines = made.grid.read_text(encoding="utf-8").splitlines(keepends=True)
    made.grid.write_text("".join(line for line in lines if OUTSIDE not in line), encoding="utf-8")
    study, folder = default_study(made.name), made.results
    (folder / "failures").mkdir(exist_ok=True)
    frame, failed = made.frame(), made.collected().failures
    write_frame(failed, folder / "failures" / f"{study.name}.csv")
    derive(study, folder, frame, *read_grid(made.grid), failed.to_dict("records"))
    return made


def derive(
    study: Study,
    folder: Path,
    frame: Any,
    axes: list[str],
    grid: list[Any],
    failed: Sequence[dict[str, Any]] = (),
) -> None:
    """Write the files that the rules derive from the measurements of a study."""
    for name in ("findings", "advice"):
        (folder / name).mkdir(exist_ok=True)
    tables = _write_tables(study, frame, folder / "tables" / study.name)
    assert study.published
    published = read_published([CONFIG / "published" / study.published.numbers], axes)
    _write_tables(study, published, folder / "published" / study.name)
    defined = read_expectations([DEFINITIONS], study.name, dict.fromkeys(axes))
    study_settings = StudySettings({axis: [] for axis in axes}, [], study.block, {}, DEFAULT_LIMITS)
    conditions = Conditions(study.published.scale)
    basis = findings.make_context(frame, grid, study_settings, conditions)
    verdicts = findings.evaluate_findings(defined, axes, published, frame, basis)
    write_frame(verdicts, folder / "findings" / f"{study.name}.csv")
    advice = Advice()
    if len(frame):
        values, questions = _values(study, frame), read_questions(study.questions, {})
        settings = AdviceSettings(values, study.scenario_axes, study.block, questions)
        advice = advise(settings, frame, tables, grid, failed)
    (folder / "advice" / f"{study.name}.json").write_bytes(ADVICE.dump_json(advice))


def _values(study: Study, frame: Any) -> dict[str, list[str]]:
    found = {axis: [v for v in frame[axis].unique() if v] for axis in study.axes if axis in frame}
    return order_of(study, found)


def _write_tables(study: Study, frame: Any, folder: Path) -> list[Any]:
    """Write all tables of measurements and return those that compare, with their definitions."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = make_tables(frame, study.tables, _values(study, frame), study.block)
    for name, table in tables.items():
        write_frame(table, folder / f"{name}.csv")
    compared = ((name, of) for name, of in study.tables.items() if of.get("compare"))
    return [(definition, read_records(folder / f"{name}.csv")) for name, definition in compared]


def order_of(study: Study, axes: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the values of each axis, from the study or `axes`."""
    return {a: v if isinstance(v, list) else axes.get(a, []) for a, v in study.axes.items()}


def results_of(made: SyntheticStudy) -> Results:
    study = default_study(made.name)
    return read_results(study, made.results, DEFINITIONS, order_of(study, made.axes))


def write_page(made: SyntheticStudy, folder: Path, **changes: Any) -> Path:
    """Write the page of a study and its charts into a folder. `changes` replace fields of Results."""
    path = folder / f"{made.name}.html"
    results = replace(results_of(made), **changes)
    page, _ = build_page_with_charts(results, folder / "charts")
    path.write_text(page, encoding="utf-8")
    return path
