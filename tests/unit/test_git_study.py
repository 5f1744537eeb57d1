"""The study git-server: its grid, its access, and what decides on it."""

import dataclasses
import re
from types import SimpleNamespace

import pytest

from git_histories import FILE, Commit, Graph, make_git, make_work
from project import DEFAULT, ROOT, needs
from unit.study_grid import study_environment, study_grid
from vcsbench import sources
from vcsbench.advice.advise import AdviceSettings, _role_cards
from vcsbench.advice.questions import CardQuestion
from vcsbench.axes import axis_of
from vcsbench.axes.build_axis import why_no_sshd
from vcsbench.codes import AnswerKind
from vcsbench.config.definitions import read_definitions
from vcsbench.config.validation import read_yaml
from vcsbench.environment import QUIET_GIT, git_settings, program_environment
from vcsbench.errors import UserError
from vcsbench.evidence import run_columns
from vcsbench.history_forms import HistoryForm
from vcsbench.machine import Machine
from vcsbench.measure.cell_setup import fill_template
from vcsbench.plan.recipe import draft_recipe, why_not
from vcsbench.records import complete_context, complete_run
from vcsbench.report.card_texts import describe_role
from vcsbench.run.environment_reader import open_environment
from vcsbench.systems import GIT, SYSTEMS, fsfs
from vcsbench.systems.plain_system import PlainSystem

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
    axes = {"command": "log", "access": "git", "repo": "ruby", "format": "f8", "packing": "nopack"}
    other = study_environment("fsfs-san-2014")
    recipe = draft_recipe(other.config.studies["fsfs-san-2014"], axes, other)
    assert why_not(axes, recipe, other) == "a repository of Subversion is not reached over git"


def set_git(monkeypatch, version):
    """Let the git on the PATH, and that of each build, have a version."""
    for module in ("axes.git_axes", "axes.build_axis", "systems.git_store"):
        monkeypatch.setattr(f"vcsbench.{module}.git_version", lambda programs=None: version)


@pytest.mark.parametrize(
    ("version", "ref_storage", "why"),
    [
        ("2.39.5", "reftable", r".*needs git 2\.45.*"),
        ("2.47.3", "reftable", ""),
        ("", "packed", ".*not installed.*"),
    ],
)
def test_why_not_depends_on_git_version(environment, monkeypatch, version, ref_storage, why):
    set_git(monkeypatch, version)
    recipe = draft(environment, ref_storage=ref_storage)
    reason = why_not({**CLONE, "ref_storage": ref_storage}, recipe, environment)
    assert re.fullmatch(why, reason)


def test_why_not_of_an_upkeep_depends_on_git_version(environment, monkeypatch):
    set_git(monkeypatch, "2.33.1")
    for upkeep, why in (
        ("bitmap", ""),
        ("midx-bitmap", "midx-bitmap needs git 2.34 or later, and git is 2.33.1"),
        ("midx-reuse", "midx-reuse needs git 2.44 or later, and git is 2.33.1"),
    ):
        recipe = draft(environment, upkeep=upkeep)
        assert why_not({**CLONE, "upkeep": upkeep}, recipe, environment) == why


def test_repository_that_a_build_made_is_skipped_for_a_git_that_cannot_read_it(
    environment, monkeypatch
):
    """git before 2.44 refuses the setting, and the first build that is not too old makes the state."""
    set_git(monkeypatch, "2.39.5")
    monkeypatch.setattr("vcsbench.axes.git_axes.find_maker", lambda state, builds: "a build")
    why = "midx-reuse needs git 2.44 or later, and git is 2.39.5"
    for upkeep, ref_storage, expected in (
        ("midx-bitmap", "packed", ""),
        ("midx-reuse", "packed", why),
        ("midx-bitmap", "reftable", "reftable needs git 2.45 or later, and git is 2.39.5"),
        ("midx-reuse", "reftable", why),
    ):
        axes = {**CLONE, "upkeep": upkeep, "ref_storage": ref_storage}
        recipe = draft_recipe(environment.config.studies[STUDY], axes, environment)
        assert why_not(axes, recipe, environment) == expected


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_history_of_one_commit_has_no_cell_with_many_packs(tmp_path, commits):
    path = tmp_path / "mine"
    history = [Commit({b"a": (FILE, b"%d" % number)}) for number in range(commits)]
    make_git(path, Graph(history, {"main": commits - 1}))
    short = study_environment(STUDY, repository=str(path))
    reasons = {}
    for upkeep in ("as-is", "bitmap", "many-packs", "midx-bitmap", "geometric"):
        axes = {**CLONE, "repo": "mine", "upkeep": upkeep}
        recipe = draft_recipe(short.config.studies[STUDY], axes, short)
        reasons[upkeep] = why_not(axes, recipe, short)
    why = "mine has 1 commit, and many packs need 2" if commits == 1 else ""
    assert reasons == {
        **dict.fromkeys(["as-is", "bitmap"], ""),
        **dict.fromkeys(["many-packs", "midx-bitmap", "geometric"], why),
    }


@pytest.mark.parametrize(("version", "is_too_old"), [("2.31.8", True), ("2.32.0", False)])
def test_git_that_reads_the_configuration_of_a_user_is_not_measured(
    environment, monkeypatch, version, is_too_old
):
    set_git(monkeypatch, version)
    why = f"git is {version}, and vcsbench needs 2.32 or later: "
    why += "an older git reads the user's configuration"
    expected = why if is_too_old else ""
    assert why_not(CLONE, draft(environment), environment) == expected
    # So it is in the study of several systems, and their other cells stay.
    history = {"source": "generated", "profile": "ruby", "scale": 0.001}
    systems = study_environment("systems", repositories={"mine": history})
    reasons = {}
    for axes in FIRST_COPIES:
        recipe = draft_recipe(systems.config.studies["systems"], axes, systems)
        reasons[axes["system"]] = axis_of("upkeep").why_not("", recipe, systems)
    assert reasons.pop("git") == expected
    assert set(reasons.values()) == {""}


@pytest.mark.parametrize("upkeep", ["one-pack", "midx-bitmap"])
def test_git_on_the_path_does_not_count_if_programs_are_deployed(environment, monkeypatch, upkeep):
    set_git(monkeypatch, "2.31.8")
    recipe = draft(environment, upkeep=upkeep)
    assert "git is 2.31.8" in axis_of("upkeep").why_not(upkeep, recipe, environment)
    deployed = dataclasses.replace(environment, machine=Machine(deployed=True))
    assert axis_of("upkeep").why_not(upkeep, recipe, deployed) == ""


def test_why_not_without_an_upkeep_leaves_the_error_to_the_variant(environment):
    recipe = {"repository": {"system": "git", "name": "project"}}
    assert axis_of("upkeep").why_not("", recipe, environment) == ""


@pytest.mark.parametrize(
    ("axis", "value"), [("upkeep", "tidy"), ("refs", "0"), ("refs", "many"), ("ref_storage", "db")]
)
def test_unknown_state_is_refused(axis, value):
    assert axis_of(axis).why_invalid(value).startswith("is no ")


def test_grid_of_a_generated_history_leaves_out_as_is_and_has_its_fixed_cost():
    _, grid = study_grid(STUDY, {**CLONE, "upkeep": ["as-is", "bitmap"]})
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


def test_own_repository_chooses_the_study_by_its_kind(work):
    raw = read_yaml(DEFAULT)
    for path in (work, work / ".git"):
        config = open_environment({**raw, "repository": str(path)}, ROOT, []).config
        assert list(config.studies) == [STUDY]
    own = {**raw, "repository": str(work), "studies": ["own-repository"]}
    environment = open_environment(own, ROOT, [])
    assert environment.repositories["work"]["history"] == "first-parent"


@pytest.mark.parametrize("name", ["mine", "my repo", "my%20repo"])
def test_own_repository_at_a_local_url_chooses_the_study_by_its_kind(tmp_path, name):
    path = make_work(tmp_path / name)
    for url in (path.as_uri(), f"file://{path}", f"file://localhost{path}"):
        config = open_environment({**read_yaml(DEFAULT), "repository": url}, ROOT, []).config
        assert list(config.studies) == [STUDY]


@needs("svnadmin")
def test_own_repository_of_subversion_is_refused_by_the_study(tmp_path):
    fsfs.create(tmp_path / "svn", "f8")
    raw = {**read_yaml(DEFAULT), "repository": str(tmp_path / "svn")}
    config = open_environment(raw, ROOT, []).config
    assert list(config.studies) == ["own-repository"]
    with pytest.raises(UserError, match="is no git repository"):
        sources.own_repository(str(tmp_path / "svn"), {}, keeps_git=True)


CHECKOUT = {
    "operation": "first copy", "system": "subversion", "command": "svn checkout", "access": "svn",
    "includes": "the head", "repo": "mine", "network": "loopback", "cache": "hot-os",
}  # fmt: skip
# The first copy in each other system, which has all history.
WHOLE_COPY = {**CHECKOUT, "includes": "all history"}
FIRST_COPIES = [
    CHECKOUT,
    {**WHOLE_COPY, "system": "git", "command": "git clone", "access": "git"},
    {**WHOLE_COPY, "system": "mercurial", "command": "hg clone", "access": "http"},
    {**WHOLE_COPY, "system": "fossil", "command": "fossil open", "access": "http"},
]


def why_not_loaded(environment, study, axes):
    recipe = draft_recipe(environment.config.studies[study], axes, environment)
    return axis_of("system").why_not(axes.get("system", ""), recipe, environment)


def test_git_loads_no_repository_that_another_study_converts(tmp_path):
    path = make_work(tmp_path / "mine")
    clone = {**CLONE, "repo": "mine", "upkeep": "bitmap"}
    both = study_environment(STUDY, studies=[STUDY, "own-repository"], repository=str(path))
    assert both.repositories["mine"]["history"] == "first-parent"
    why = why_not_loaded(both, STUDY, clone)
    assert why.startswith("mine is converted to Subversion") and "no other study" in why
    # The whole check of a cell has the same reason.
    recipe = draft_recipe(both.config.studies[STUDY], clone, both)
    assert why_not(clone, recipe, both) == why
    alone = study_environment(STUDY, repository=str(path))
    assert alone.repositories["mine"]["history"] == "as-is"
    assert why_not_loaded(alone, STUDY, clone) == ""
    # A study of Subversion is loaded from the converted history.
    axes = {"command": "log", "access": "svn", "repo": "mine", "format": "f8", "packing": "nopack"}
    axes |= {"config": "default", "cache": "cold"}
    assert why_not_loaded(both, "own-repository", axes) == ""


@pytest.mark.parametrize(
    ("history", "refused"),
    [
        ("as-is", {"subversion", "mercurial", "fossil"}),
        ("first-parent", {"git", "mercurial", "fossil"}),
        (None, set()),
    ],
)
def test_systems_load_the_sources_that_they_can(tmp_path, history, refused):
    definition = {"source": "generated", "profile": "ruby", "scale": 0.001}
    if history:
        path = str(make_work(tmp_path / "mine"))
        definition = {"source": "git", "path": path, "history": history}
    environment = study_environment("systems", repositories={"mine": definition})
    reasons = {
        axes["system"]: why_not_loaded(environment, "systems", axes) for axes in FIRST_COPIES
    }
    assert {system for system, why in reasons.items() if why} == refused
    for system in refused & {"mercurial", "fossil"}:
        assert re.fullmatch(".* cannot load mine, only a generated history; .*", reasons[system])
    if history == "as-is":
        assert "use `history: first-parent`" in reasons["subversion"]


@pytest.mark.parametrize(
    ("forms", "why"),
    [
        ({HistoryForm.DUMP, HistoryForm.FAST_IMPORT}, ""),
        (
            {HistoryForm.DUMP},
            "Another cannot load mine, only a generated history; measure such a repository",
        ),
    ],
)
def test_new_system_loads_a_history_by_way_of_git(monkeypatch, forms, why):
    class AnotherSystem(PlainSystem):
        name = "another"
        title = "Another"

    monkeypatch.setitem(SYSTEMS, "another", AnotherSystem())
    recipe = {"input": "repository", "repository": {"name": "mine", "system": "another"}}
    environment = SimpleNamespace(sources={"mine": SimpleNamespace(forms=forms, kind="dump")})
    assert axis_of("system").why_invalid("another") == ""
    assert axis_of("system").why_not("another", recipe, environment) == why


@pytest.mark.parametrize("history", ["as-is", "first-parent"])
def test_tree_of_a_git_repository_needs_no_load(tmp_path, history):
    path = str(make_work(tmp_path / "mine"))
    definition = {"source": "git", "path": path, "history": history}
    environment = study_environment("tree-building-2007", repositories={"mine": definition})
    axes = {"repo": "mine", "filesystem": "storage", "cache": "hot-os", "strategy": "cp"}
    assert why_not_loaded(environment, "tree-building-2007", axes) == ""


def test_findings_have_a_source_each():
    findings = read_definitions(str(ROOT / "config/published/findings.yaml"))[STUDY]
    assert len(findings) >= 10
    assert all(finding["source"].startswith("http") for finding in findings)


def test_fill_template_adds_a_peg_revision_for_subversion_only():
    words = {"repository": "/a@b", "url": "file:///a@b", "svn": ["/usr/bin/svn"]}
    assert fill_template("git clone {url}", words) == ["git", "clone", "file:///a@b"]
    # The git of a build has its path in the place of its name.
    words_of_build = {**words, "git": ["/opt/git/bin/git"]}
    assert fill_template("{git} clone {url}", words_of_build)[-1] == "file:///a@b"
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
    clone, fetch = "git clone {url} {target}", "git --git-dir={clone} fetch {url}"

    def columns(run, objects, argv):
        trace = {"protocol": "2", "objects": objects}
        context = complete_context({"git_trace": trace, "argv_template": argv})
        return run_columns.git_columns(run, context)

    assert run_columns.git_columns(run, complete_context({})) == {}
    assert columns(run, 5, fetch) == {"git_objects": 5}
    # Nothing was new. The clone has its objects from before.
    assert columns(run, 0, fetch) == {"git_objects": 0}
    # The trace of a clone has no objects, and that of a blobless clone the contents of its files only.
    assert columns(run, 0, clone) == columns(run, 5, clone) == {"git_objects": 12}
    assert columns(complete_run({}), 0, clone) == {"git_objects": 0}


def row(command, candidate, ratio, result="different", call="less"):
    sides = {"command": command, "baseline": "one-pack", "candidate": candidate}
    numbers = {"ratio": ratio, "low": ratio, "high": ratio, "n": 5}
    return {**sides, **numbers, "result": result, "call": call}


def test_card_answers_by_other_metrics_for_those_for_whom_they_count():
    question = CardQuestion(
        "upkeep", "Which?", next_to={"server_cpu_s": "a busy server", "wire_mib": "a slow network"}
    )
    compare = {"axis": "upkeep", "baseline": "one-pack", "metric": "server_cpu_s"}
    rows = [
        row("clone", "bitmap", 8.0),
        row("clone", "many-packs", 0.5, call="more"),
        row("fetch", "bitmap", 4.0),
        row("fetch", "many-packs", 1.02, "equal", "equal"),
    ]
    tables = [
        ({"compare": compare}, rows),
        ({"compare": {"axis": "access", "baseline": "git"}}, rows),
    ]
    settings = AdviceSettings({"command": [], "upkeep": []}, ["command"], [], [question])
    # No table compares the bytes on the network.
    (role,) = _role_cards(question, settings, tables)
    assert describe_role(role).scope == "For a busy server (server CPU time)"
    assert role.card.answer.value == "bitmap"
    assert describe_role(role).text == (
        "one pack + bitmap: bare clone 8.0x, fetch 4.0x less (of 2 cases 2 less, 0 more)"
    )
    assert _role_cards(CardQuestion("upkeep", "Which?"), settings, tables) == []


def test_card_by_an_exact_metric_counts_differences_from_the_margin_on():
    """Tables count 2 % fewer bytes as fewer. They are no reason to change anything."""
    question = CardQuestion("upkeep", "Which?", next_to={"wire_mib": "a slow network"})
    compare = {"axis": "upkeep", "baseline": "one-pack", "metric": "wire_mib"}
    settings = AdviceSettings({"command": [], "upkeep": []}, ["command"], [], [question])
    small = [
        row("clone", "bitmap", 1 / 1.02, call="more"),
        row("fetch", "bitmap", 1 / 1.03, call="more"),
    ]
    (role,) = _role_cards(question, settings, [({"compare": compare}, small)])
    assert role.card.answer.kind == AnswerKind.EQUAL
    assert describe_role(role).text == "equal: within 10 % in 2 of 2 cases"
    large = [row("clone", "bitmap", 1.5), row("fetch", "bitmap", 1 / 1.02, call="more")]
    (role,) = _role_cards(question, settings, [({"compare": compare}, large)])
    assert describe_role(role).text == (
        "one pack + bitmap: bare clone 1.5x less (of 2 cases 1 less, 0 more, 1 equal)"
    )


def test_card_by_another_metric_keeps_the_first_measured_start_in_a_tie():
    next_to = {"server_cpu_s": "a busy server"}
    question = CardQuestion("upkeep", "Which?", start=["as-is", "bitmap"], next_to=next_to)
    compare = {"axis": "upkeep", "baseline": "one-pack", "metric": "server_cpu_s"}
    rows = [
        row("clone", "bitmap", 1.0, "equal", "equal"),
        row("clone", "many-packs", 0.5, call="more"),
    ]
    settings = AdviceSettings({"command": [], "upkeep": []}, ["command"], [], [question])
    (role,) = _role_cards(question, settings, [({"compare": compare}, rows)])
    assert role.card.answer.value == "bitmap"
