"""The study git-server: its grid, its access, and what decides on it."""

import pytest

from git_histories import make_work
from project import ROOT, needs
from unit.study_grid import study_environment, study_grid
from vcsbench import sources
from vcsbench.advice.advise import AdviceSettings, _role_answers
from vcsbench.advice.questions import CardQuestion
from vcsbench.axes.build_axis import why_no_sshd
from vcsbench.config.definitions import read_definitions
from vcsbench.config.validation import read_yaml
from vcsbench.environment import QUIET_GIT, git_settings, program_environment
from vcsbench.errors import UserError
from vcsbench.evidence import run_columns
from vcsbench.measure.prepared_cell import fill_template
from vcsbench.plan.recipe import draft_recipe, why_not
from vcsbench.records import complete_context, complete_run
from vcsbench.run.environment_reader import open_environment
from vcsbench.systems import GIT

pytestmark = needs("git")

STUDY = "git-server"
CLONE = {
    "command": "clone", "access": "git", "repo": "project", "upkeep": "one-pack", "refs": "as-is",
    "ref_storage": "packed", "protocol": "2", "network": "loopback", "cache": "hot-os",
}  # fmt: skip


@pytest.fixture(scope="module")
def environment():
    return study_environment(STUDY)


def draft(environment, **axes):
    return draft_recipe(environment.config.studies[STUDY], {**CLONE, **axes}, environment)


@pytest.mark.parametrize("access", GIT.accesses)
def test_recipe_of_git_has_git_s_server(environment, access):
    recipe = draft(environment, access=access)
    assert recipe["access"] == GIT.accesses[access]
    repository = recipe["repository"]
    assert (repository["system"], repository["upkeep"]) == ("git", "one-pack")
    reason = why_not({**CLONE, "access": access}, recipe, environment)
    # The servers' user may not enter the folder of the checkout, where the unpacked sshd is.
    assert reason == (why_no_sshd() if access == "ssh" else "")


def test_recipe_of_a_local_command_has_no_server(environment):
    recipe = draft(environment, command="log-graph", access="", protocol="", network="")
    assert recipe["access"]["server"] == "" and recipe["repository"]["system"] == "git"


def test_access_of_another_system_is_a_reason_to_skip(environment):
    recipe = draft(environment, access="svn")
    reason = why_not({**CLONE, "access": "svn"}, recipe, environment)
    assert reason == "a repository of git is not reached over svn"
    subversion = {
        "command": "log",
        "access": "git",
        "repo": "ruby",
        "format": "f8",
        "packing": "nopack",
    }
    other = study_environment("fsfs-san-2014")
    recipe = draft_recipe(other.config.studies["fsfs-san-2014"], subversion, other)
    reason = why_not(subversion, recipe, other)
    assert reason == "a repository of Subversion is not reached over git"


def test_reftable_of_an_old_git_is_skipped(environment, monkeypatch):
    monkeypatch.setattr("vcsbench.axes.git_axes.git_version", lambda: "2.39.5")
    recipe = draft(environment, ref_storage="reftable")
    assert "needs git 2.45" in why_not({**CLONE, "ref_storage": "reftable"}, recipe, environment)
    monkeypatch.setattr("vcsbench.axes.git_axes.git_version", lambda: "2.47.3")
    assert why_not({**CLONE, "ref_storage": "reftable"}, recipe, environment) == ""
    monkeypatch.setattr("vcsbench.axes.git_axes.git_version", lambda: "")
    assert "git is not installed" in why_not(CLONE, draft(environment), environment)


@pytest.mark.parametrize(
    ("axis", "value"), [("upkeep", "tidy"), ("refs", "0"), ("refs", "many"), ("ref_storage", "db")]
)
def test_unknown_state_is_refused(environment, axis, value):
    from vcsbench.axes import axis_of

    assert axis_of(axis).why_invalid(value).startswith("is no ")


def test_grid_of_a_generated_history_leaves_out_as_is_and_has_its_fixed_cost():
    part = {**CLONE, "upkeep": ["as-is", "bitmap"]}
    _, grid = study_grid(STUDY, part)
    assert [cell.path for cell in grid] == [
        "clone/git/project/bitmap/as-is/packed/2/loopback/hot-os",
        "clone/git/empty/one-pack/as-is/packed/2/loopback/hot-os",
    ]


def test_grid_of_an_own_repository_begins_as_it_is(tmp_path):
    path = make_work(tmp_path / "mine")
    part = {**CLONE, "upkeep": ["as-is", "bitmap"]}
    environment, grid = study_grid(STUDY, part, repository=str(path))
    assert [cell.path for cell in grid][:2] == [
        "clone/git/mine/as-is/as-is/packed/2/loopback/hot-os",
        "clone/git/mine/bitmap/as-is/packed/2/loopback/hot-os",
    ]
    assert environment.repositories["mine"]["history"] == "as-is"


def test_own_repository_chooses_the_study_by_its_kind(tmp_path):
    raw = read_yaml(ROOT / "config/config.yaml")
    git = make_work(tmp_path / "work")
    for path in (git, git / ".git"):
        config = open_environment({**raw, "repository": str(path)}, ROOT, []).config
        assert list(config.studies) == [STUDY]
    own = {**raw, "repository": str(git), "studies": ["own-repository"]}
    environment = open_environment(own, ROOT, [])
    assert environment.repositories["work"]["history"] == "first-parent"


@needs("svnadmin")
def test_own_repository_of_subversion_is_refused_by_the_study(tmp_path):
    from vcsbench.systems import fsfs

    fsfs.create(tmp_path / "svn", "f8")
    raw = read_yaml(ROOT / "config/config.yaml")
    config = open_environment({**raw, "repository": str(tmp_path / "svn")}, ROOT, []).config
    assert list(config.studies) == ["own-repository"]
    with pytest.raises(UserError, match="is no git repository"):
        sources.own_repository(str(tmp_path / "svn"), {}, keeps_git=True)


def test_findings_have_a_source_each():
    findings = read_definitions(str(ROOT / "config/published/findings.yaml"))[STUDY]
    assert len(findings) >= 10
    assert all(finding["source"].startswith("http") for finding in findings)


def test_fill_template_adds_a_peg_revision_for_subversion_only():
    words = {"repository": "/a@b", "url": "file:///a@b", "svn": ["/usr/bin/svn"]}
    assert fill_template("git clone {url}", words) == ["git", "clone", "file:///a@b"]
    assert fill_template("{svn} log {url}", words)[-1] == "file:///a@b@"


def test_git_settings_of_all_programs_are_quiet():
    variables = program_environment()
    count = int(variables["GIT_CONFIG_COUNT"])
    settings = {
        variables[f"GIT_CONFIG_KEY_{n}"]: variables[f"GIT_CONFIG_VALUE_{n}"] for n in range(count)
    }
    assert settings == QUIET_GIT and variables["GIT_CONFIG_NOSYSTEM"] == "1"
    assert git_settings({"a.b": "c"})["GIT_CONFIG_COUNT"] == "1"


def test_git_columns_take_objects_of_the_trace_or_of_a_clone():
    run = complete_run({"work": {"objects": 12, "digest": "0"}})

    def columns(run, objects, work_kind):
        trace = {"protocol": "2", "objects": objects}
        context = complete_context({"git_trace": trace, "work_kind": work_kind})
        return run_columns.git_columns(run, context)

    assert run_columns.git_columns(run, complete_context({})) == {}
    assert columns(run, 5, "git_clone") == {"git_objects": 5}
    assert columns(run, 0, "git_clone") == {"git_objects": 12}
    # The trace of a blobless clone has the contents of its files only.
    assert columns(run, 5, "git_partial_clone") == {"git_objects": 12}
    assert columns(complete_run({}), 0, "git_clone") == {"git_objects": 0}


def row(candidate, ratio, result="different", call="less"):
    numbers = {"ratio": ratio, "low": ratio, "high": ratio, "n": 5}
    return {
        "baseline": "one-pack",
        "candidate": candidate,
        "result": result,
        "call": call,
        **numbers,
    }


def test_card_answers_by_other_metrics_for_those_for_whom_they_count():
    question = CardQuestion(
        "upkeep", "Which?", next_to={"server_cpu_s": "a busy server", "wire_mib": "a slow network"}
    )
    compare = {"axis": "upkeep", "baseline": "one-pack", "metric": "server_cpu_s"}
    rows = []
    for command, bitmap, many in (("clone", 8.0, 0.5), ("fetch", 4.0, 1.02)):
        rows.append({**row("bitmap", bitmap), "command": command})
        call, result = ("more", "different") if many < 1 else ("equal", "equal")
        rows.append({**row("many-packs", many, result, call), "command": command})
    tables = [
        ({"compare": compare}, rows),
        ({"compare": {"axis": "access", "baseline": "git"}}, rows),
    ]
    settings = AdviceSettings({"command": [], "upkeep": []}, ["command"], [], [question])
    # No table compares the bytes on the network.
    (role,) = _role_answers(question, settings, tables)
    assert role.scope == "For a busy server (server CPU time)"
    assert role.answer.value == "bitmap"
    assert role.text == (
        "one pack + bitmap: bare clone 8.0x, fetch 4.0x less (of 2 cases 2 less, 0 more)"
    )
    assert _role_answers(CardQuestion("upkeep", "Which?"), settings, tables) == []
