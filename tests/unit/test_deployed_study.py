"""The study of deployed servers: its default grid, questions and findings."""

import re

import pytest

from project import CONFIG, ROOT
from unit.study_grid import study_environment
from vcsbench.advice.questions import read_questions
from vcsbench.config.validation import read_mapping
from vcsbench.plan.grid import make_grid
from vcsbench.plan.recipe import draft_recipe, why_not
from vcsbench.run.study_params import StudyParams

STUDY = "deployed-server"
# Of what this machine may lack.
LACKING = re.compile(r"not installed|root|kernel|Debian|library|gcc|no name|cannot enter|TMPDIR")


@pytest.fixture(scope="module")
def environment():
    return study_environment(STUDY)


@pytest.fixture(scope="module")
def cells(environment):
    study = environment.config.studies[STUDY]

    def why_skip(axes):
        return why_not(axes, draft_recipe(study, axes, environment), environment)

    return make_grid(environment, study, why_skip)


def test_default_grid_skips_cells_for_a_lacking_program_or_right_only(cells):
    assert len(cells) >= 50
    reasons = {cell.skip for cell in cells if cell.skip}
    assert [reason for reason in reasons if not LACKING.search(reason)] == []


def test_default_grid_changes_one_axis_at_a_time(cells):
    """Each cell has a pair in the grid that differs in one axis, as a comparison needs it."""
    points = [cell.axes for cell in cells]
    alone = [
        cell.path
        for cell in cells
        if not any(
            sum(value != other[axis] for axis, value in cell.axes.items()) == 1 for other in points
        )
    ]
    assert alone == []


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


def test_full_grid_has_an_open_loop_next_to_the_closed_one():
    full = study_environment(STUDY, **read_mapping(CONFIG / "full-deployed.yaml"))
    requests = [
        cell.axes
        for cell in make_grid(full, full.config.studies[STUDY], lambda axes: "")
        if cell.axes["command"] == "requests-60"
    ]
    (opened,) = [axes for axes in requests if axes["arrival"] == "5"]
    assert {**opened, "arrival": "closed"} in requests


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
