"""The study of deployed servers: its default grid, questions and findings."""

import re

import pytest

from project import CONFIG, ROOT
from unit.study_grid import study_environment
from vcsbench.advice.cards import fits
from vcsbench.advice.decision import compares
from vcsbench.advice.questions import read_questions
from vcsbench.axes import measured_values, resolved_tables
from vcsbench.config.validation import read_mapping
from vcsbench.metrics import DEFAULT_METRIC, METRICS, name_in
from vcsbench.plan.grid import make_grid
from vcsbench.plan.recipe import draft_recipe, why_not
from vcsbench.run.study_params import StudyParams

STUDY = "deployed-server"
# Of what this machine may lack.
LACKING = re.compile(r"not installed|root|kernel|Debian|library|gcc|no name|cannot enter|TMPDIR")
# By axis and value, the reason why neither the default grid nor config/full-deployed.yaml has it.
IN_NO_GRID: dict[tuple[str, str], str] = {}


@pytest.fixture(scope="module")
def environment():
    return study_environment(STUDY)


@pytest.fixture(scope="module")
def cells(environment):
    study = environment.config.studies[STUDY]

    def why_skip(axes):
        return why_not(axes, draft_recipe(study, axes, environment), environment)

    return make_grid(environment, study, why_skip)


@pytest.fixture(scope="module")
def full():
    return study_environment(STUDY, **read_mapping(CONFIG / "full-deployed.yaml"))


@pytest.fixture(scope="module")
def full_points(full):
    """Return the axis values of each cell of config/full-deployed.yaml."""
    grid = make_grid(full, full.config.studies[STUDY], lambda axes: "")
    # A duplicate has the values of its original.
    return list({cell.path.partition("~")[0]: cell.axes for cell in grid}.values())


@pytest.fixture(scope="module")
def questions(environment):
    settings = read_questions(environment.config.studies[STUDY].questions, {})
    return {question.name: question for question in settings}


def pairs_of(question, points, environment):
    """Return the pairs of cells (the axis values of both) that the card of a question compares."""
    study = environment.config.studies[STUDY]
    axis, pairs = question.axis, []
    for definition in resolved_tables(study, measured_values(study, environment)).values():
        if not compares(definition, axis, question.doubles or DEFAULT_METRIC):
            continue
        sides = definition["compare"]
        candidates = [
            value
            for value in sides["candidates"]
            if not question.values or value in question.values
        ]
        for point in points:
            if point[axis] != sides["baseline"] or not fits(point, question.where):
                continue
            others = [{**point, axis: value} for value in candidates]
            pairs += [(point, other) for other in others if other in points]
    return pairs


def test_default_grid_skips_cells_for_a_lacking_program_or_right_only(cells):
    assert len(cells) >= 50
    reasons = {cell.skip for cell in cells if cell.skip}
    assert [reason for reason in reasons if not LACKING.search(reason)] == []


@pytest.mark.parametrize("grid", ["default", "full"])
def test_grid_changes_one_axis_at_a_time(cells, full_points, grid):
    """Each cell has a pair in the grid that differs in one axis, as a comparison needs it."""
    points = full_points if grid == "full" else [cell.axes for cell in cells]
    alone = [
        point
        for point in points
        if not any(
            sum(value != other[axis] for axis, value in point.items()) == 1 for other in points
        )
    ]
    assert alone == []


def test_each_value_of_an_axis_is_in_a_grid_or_has_a_reason(environment, cells, full_points):
    axes = environment.config.studies[STUDY].axes
    points = [*(cell.axes for cell in cells), *full_points]
    # A word in place of values, such as `formats`, stands for the user's own repositories.
    values = {
        (axis, str(value))
        for axis, of_axis in axes.items()
        if not isinstance(of_axis, str)
        for value in of_axis
    }
    measured = {(axis, point[axis]) for point in points for axis in axes}
    assert len(values) > 50
    assert values - measured == IN_NO_GRID.keys()


@pytest.mark.parametrize(
    "where",
    [
        {"command": "log", "access_rules": "1000", "path_authz": "off"},
        {"command": "commit", "access": "https", "hooks": "python"},
        {"command": "commit", "access": "svn+ssh", "hooks": "shell"},
        {"command": "commit", "cache": "cold", "access": "http"},
        {"command": "commit", "cache": "cold", "access": "svn"},
        {"command": "export", "access": "http", "network": "namespace"},
        {"command": "export", "access": "svn", "network": "namespace"},
        {"command": "mixed-60", "arrival": "5", "committers": "2"},
    ],
)
def test_full_grid_has_a_change_of_a_single_value(full_points, where):
    assert any(fits(point, where) for point in full_points)


def test_each_question_compares_cells_of_a_grid(environment, cells, full, full_points, questions):
    points = [cell.axes for cell in cells]
    default = {
        name for name, question in questions.items() if pairs_of(question, points, environment)
    }
    in_full = {
        name for name, question in questions.items() if pairs_of(question, full_points, full)
    }
    assert default | in_full == questions.keys()
    # The number of clients is asked for in two seconds, and in a minute.
    assert "readers" in default & in_full


def test_compression_of_svnserve_is_decided_by_accesses_of_svnserve(full, full_points, questions):
    pairs = pairs_of(questions["compression"], full_points, full)
    assert {point["network"] for point, _ in pairs} == {"office", "line", "far"}
    assert {point["access"] for pair in pairs for point in pair} <= {"svn", "svn+ssh"}
    # The tables compare http as well.
    assert any(
        point["access"] == "http" and {**point, "config": "default"} in full_points
        for point in full_points
        if point["config"] == "no-compression"
    )


def test_each_latency_has_a_table_and_committers_are_compared(environment):
    tables = environment.config.studies[STUDY].tables.values()
    shown = {name_in(definition) for definition in tables if "compare" not in definition}
    latencies = {name for name in METRICS if re.fullmatch(r"(latency|commit)_p\d+_ms", name)}
    assert len(latencies) == 4 and latencies <= shown
    assert {"server_load_pct", "client_load_pct"} <= shown
    compared = {d["compare"]["axis"] for d in tables if "compare" in d}
    assert "committers" in compared


def test_questions_on_requirements_recommend_nothing(environment):
    questions = read_questions(environment.config.studies[STUDY].questions, {})
    costs = {question.name for question in questions if question.is_cost}
    required = {"https", "authentication", "access_rules", "network", "ssh", "hooks"}
    assert costs == required
    assert not any(question.actions for question in questions if question.is_cost)
    # A path check that is off leaves rules without effect.
    (check,) = [question for question in questions if question.name == "path_authz"]
    assert tuple(check.values) == ("on", "short_circuit")
    assert check.short == "SVNPathAuthz?"


def test_full_grid_has_an_open_loop_next_to_the_closed_one(full_points):
    opened = [point for point in full_points if point["arrival"] == "5"]
    # Without committers, and with two.
    assert {point["committers"] for point in opened} == {"0", "2"}
    assert all({**point, "arrival": "closed"} in full_points for point in opened)


def test_full_grid_has_committers_next_to_readers_alone(full_points):
    mixed = [point for point in full_points if point["command"] == "mixed-60"]
    assert {point["readers"] for point in mixed if point["committers"] == "2"} == {"1", "4"}
    written = [point for point in mixed if point["committers"] == "2" and point["readers"] == "4"]
    closed = [point for point in written if point["arrival"] == "closed"]
    assert len(closed) == 2 and all({**point, "committers": "0"} in mixed for point in closed)


def test_findings_have_addresses_and_name_cells_of_the_default_grid(cells):
    findings = StudyParams(STUDY, ROOT, None).findings
    assert len(findings) >= 9
    for finding in findings:
        assert finding["source"].startswith("http"), finding["id"]
        compare = finding["compare"]
        for side in (compare["baseline"], compare["candidate"]):
            where = finding["where"] | {compare["axis"]: side}
            chosen = {axis: of if isinstance(of, list) else [of] for axis, of in where.items()}
            assert any(
                all(cell.axes[axis] in map(str, values) for axis, values in chosen.items())
                for cell in cells
            ), finding["id"]
