"""The configuration: valid files are read, an invalid one is a UserError of one line with file and key.

A long run of mutations prints its counts: python -m pytest -s -m slow tests/unit/test_config.py
"""

import copy
import datetime
import itertools
import math
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from config_tables import PAGES, with_keys
from fuzz import dice_of, limits
from project import CONFIG, DEFAULT, ROOT, needs, slow
from unit.study_grid import merge
from vcsbench.axes import axis_of
from vcsbench.config import validation
from vcsbench.config.configuration import load_config, merge_configurations, read_configuration
from vcsbench.config.definitions import read_expectations
from vcsbench.config.models import Settings
from vcsbench.config.study import SUBJECT_WORDS, WORDS, StudyFile
from vcsbench.config.study_reader import load_study
from vcsbench.config.validation import parse_yaml, read_yaml, validate
from vcsbench.errors import LONGEST_MESSAGE, UserError
from vcsbench.external import printable
from vcsbench.measure.cell_setup import SUBJECTS, CellSetup
from vcsbench.run.environment_reader import open_environment
from vcsbench.run.project import Project
from vcsbench.sources import own_repository

SAN, SSD, PROTOTYPE = "fsfs-san-2014", "fsfs-ssd-2014", "server-prototype-2010"
KEYWORDS = ("all", "default", "index")
OWN = {"repository": ["own-repository"], "default": [SSD]}


def configured(tmp_path, **over):
    """Return the default configuration with a file of these keys laid over it."""
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(over))
    return load_config(merge(read_yaml(DEFAULT), over), ROOT, [DEFAULT, file])


def error_of(tmp_path, **over):
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        configured(tmp_path, **over)
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "studies", "rounds", "minutes"),
    [
        ({"studies": OWN}, [SSD], None, [15]),
        (read_yaml(ROOT / "config/full.yaml"), None, 5, None),
        ({"studies": OWN, "repository": "/srv/svn"}, ["own-repository"], None, [15]),
        ({"studies": [SAN, PROTOTYPE], "minutes": 8}, [SAN, PROTOTYPE], None, [4, 4]),
        ({"studies": [SAN, PROTOTYPE], "rounds": 3}, [SAN, PROTOTYPE], 3, [None, None]),
    ],
)
def test_load_config_valid_keys_set_studies_and_budget(tmp_path, keys, studies, rounds, minutes):
    config = configured(tmp_path, **keys)
    assert config.settings.rounds == rounds
    assert studies is None or list(config.studies) == studies
    assert minutes is None or [config.minutes_of(name) for name in config.studies] == minutes


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ({"repositories": {"a": {"x": 1, "y": 2}, "b": {"x": 3}}}, {"repositories": {"a": {"x": 4}}},
         {"repositories": {"a": {"x": 4}, "b": {"x": 3}}}),
        ({"builds": {"a": {"client": {"prefix": "/a"}}}}, {"builds": {"a": {"server": "b"}}},
         {"builds": {"a": {"server": "b"}}}),
        ({"grid": {"a": {"include": [1], "exclude": [2]}}}, {"grid": {"a": {"include": [3]}}},
         {"grid": {"a": {"include": [3]}}}),
        ({"storages": {"a": "/a", "b": "/b"}}, {"storages": {"b": "/c"}},
         {"storages": {"a": "/a", "b": "/c"}}),
        ({"minutes": {"default": 15}}, {"minutes": {"a": 3}}, {"minutes": {"default": 15, "a": 3}}),
        ({"minutes": {"default": 15}}, {"minutes": 3}, {"minutes": 3}),
        ({"workload": {"log": 100}}, {"workload": {"export": 100}}, {"workload": {"export": 100}}),
        ({"server": {"host": "a", "url": "b"}}, {"server": {"url": "c"}}, {"server": {"url": "c"}}),
        ({"rounds": 5, "seed": 1}, {"rounds": None}, {"rounds": None, "seed": 1}),
    ],
)  # fmt: skip
def test_merge_configurations_later_entry_replaces_earlier(earlier, later, expected):
    before = copy.deepcopy(earlier)
    assert merge_configurations([earlier, later]) == expected
    assert merge_configurations([{}, earlier, later]) == expected
    assert earlier == before


def test_read_configuration_repository_keeps_nothing_of_the_shipped_one(tmp_path):
    file = tmp_path / "mine.yaml"
    text = "repositories: {small: {source: git, path: /srv/a}, ruby: {source: svn, path: /b}}"
    file.write_text(text)
    options = {"repositories": {"ruby": {"source": "dump", "path": "/srv/c"}}}
    repositories = read_configuration([DEFAULT, file], options)["repositories"]
    assert repositories["small"] == {"source": "git", "path": "/srv/a"}
    assert repositories["ruby"] == {"source": "dump", "path": "/srv/c"}
    assert repositories["linux"] == read_yaml(DEFAULT)["repositories"]["linux"]


GENERATED = {"source": "generated", "profile": "ruby", "scale": 0.01, "seed": 1}
REPOSITORY = {"source": "generated", "profle": "ruby"}


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"minutes": 0}, "minutes"),
        ({"minutes": {SAN: "3 min"}}, f"minutes.{SAN}"),
        ({"minutes": {"otherwise": 5}}, "minutes.otherwise"),
        ({"minutes": {"fsfs-2041": 5, "default": 1}}, "minutes.fsfs-2041"),
        ({"copies": None}, "copies"),
        ({"rounds": "five"}, "rounds"),
        ({"studies": SAN}, "studies"),
        ({"studies": []}, "studies"),
        ({"shared_servers": 1}, "shared_servers"),
        ({"scratch": "/srv/a\tb"}, "scratch"),
        ({"cluster": {3: 1}}, "cluster[3]"),
        ({"cluster": {"nodes": ["a b"]}}, "cluster.nodes[0]"),
        ({"baselines": ["a\n"]}, "baselines[0]"),
        ({"server": {"host": "a", "url": "https://a"}}, "server.url"),
        ({"server": {"host": "other", "url": "svn://other/{rep}"}}, "server.url"),
        ({"repositories": {"ru/by": {"source": "git", "path": "x"}}}, "repositories.ru/by"),
        ({"repositories": {"ruby": REPOSITORY}}, "repositories.ruby.profle"),
        ({"repositories": {"ruby": {**GENERATED, "studies": ["x"]}}}, "repositories.ruby.studies"),
        ({"grid": {SAN: {"include": [{"cache": 3}]}}}, f"grid.{SAN}.include[0].cache"),
        ({"grid": {"mine": {"include": [{}]}}}, "grid.mine"),
        ({"storage": "tape"}, "storage"),
        ({"storages": {"disk": "/srv/a\nb"}}, "storages.disk"),
        ({"workload": {"log": 90}}, "workload"),
        ({"workload": {"jump": 100}}, "workload"),
    ],
)
def test_load_config_invalid_value_names_file_and_key(tmp_path, keys, place):
    assert error_of(tmp_path, **keys).startswith(f"{tmp_path}/mine.yaml: `{place}`")


def opened(*files, **options):
    """Return the environment of configuration files over the default one, and of options over all."""
    all_files = [DEFAULT, *files]
    return open_environment(read_configuration(all_files, options), ROOT, all_files)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"copies": 0}, "--config: `copies`: '0'"),
        ({"minutes": 0}, "--minutes (make: MINUTES=): `minutes`: '0'"),
        ({"thresholds": {"min_rounds": 1}}, "--config: `thresholds.min_rounds`: '1'"),
        ({}, "{file}: `copies`: '0'"),
    ],
)
def test_invalid_value_of_an_option_is_not_that_of_a_file(tmp_path, options, place):
    file = tmp_path / "mine.yaml"
    file.write_text("thresholds: {min_rounds: 3}\n" if options else "copies: 0\n")
    with pytest.raises(UserError) as caught:
        opened(file, **options)
    assert str(caught.value).startswith(place.format(file=file))


def test_wrong_entry_is_that_of_the_file_with_its_name(tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("filesystems: {far: guest}\n")
    second.write_text(
        f"filesystems: {{near: /tmp}}\nrepositories: {{other: {{source: dump, path: {second}}}}}\n"
    )
    environment = opened(first, second)
    with pytest.raises(UserError, match=rf"^{first}: `filesystems\.far`: "):
        axis_of("filesystem").recipe_keys("far", environment)
    with pytest.raises(UserError, match=rf"^{second}: `filesystems` has no 'none'"):
        axis_of("filesystem").recipe_keys("none", environment)
    # A key of other sources.
    first.write_text("repositories: {mine: {source: git, path: /srv/x, tree: trunk}}\n")
    with pytest.raises(UserError, match=rf"^{first}: `repositories\.mine\.tree`: "):
        opened(first, second)


@needs("svnadmin")
def test_own_repository_that_is_empty_is_that_of_its_option(tmp_path):
    subprocess.run(["svnadmin", "create", tmp_path / "mine"], check=True)
    environment = opened(repository=str(tmp_path / "mine"))
    with pytest.raises(UserError, match=r"^--repository \(make: REPO=\): .* is empty"):
        environment.sources["mine"].check()


def test_definition_of_a_load_has_no_keys_of_copies(tmp_path):
    file = tmp_path / "mine.yaml"
    definition = {**GENERATED, "packing": "pack", "studies": [SAN]}
    file.write_text(yaml.safe_dump({"repositories": {"mine": definition}}))
    environment = opened(file)
    assert environment.repositories["mine"]["packing"] == "pack"
    assert environment.definition("mine") == GENERATED


def test_load_config_missing_study_or_duration_is_named(tmp_path):
    assert "fsfs-2015.yaml" in error_of(tmp_path, studies=["fsfs-2015"])
    assert "`minutes` and `rounds` are missing" in error_of(tmp_path, minutes=None)


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("copies", "3", "an integer (without quotation marks"),
        ("scratch", 5, "need quotation marks"),
        ("storagee", "disk", "mean `storage`"),
        ("", "disk", "The keys are"),
        # The documentation of the key.
        ("copies", 0, "interleaved"),
    ],
)
def test_load_config_invalid_value_has_a_remedy(tmp_path, key, value, remedy):
    error = error_of(tmp_path, **{key: value})
    assert error.startswith(f"{tmp_path}/mine.yaml: `{key}`")
    assert remedy in error


def test_load_config_minutes_by_study_must_name_each_study():
    def loaded(**keys):
        return load_config({**read_yaml(DEFAULT), **keys}, ROOT, [DEFAULT])

    with pytest.raises(UserError, match=rf"`minutes\.{SAN}` is missing"):
        loaded(minutes={PROTOTYPE: 5}, studies=[SAN, PROTOTYPE])
    assert loaded(minutes={PROTOTYPE: 5}, studies=[PROTOTYPE]).minutes_of(PROTOTYPE) == 5
    with pytest.raises(UserError, match=r"`studies.*default"):
        loaded(studies={"repository": ["own-repository"]})


@pytest.mark.parametrize("name", ["Own", "my study", "a.b", "a_b", "é", "-x", *KEYWORDS])
def test_load_config_study_name_of_no_rule_or_a_keyword_is_error(tmp_path, name):
    shutil.copytree(CONFIG / "studies", tmp_path / "config" / "studies")
    file = tmp_path / "config" / "studies" / f"{name}.yaml"
    shutil.copy(CONFIG / "studies" / f"{SSD}.yaml", file)
    is_keyword = name in KEYWORDS
    expected = f"^{file}: `{name}` " if is_keyword else f"`studies`: '{name}' .*Rename"
    keys = {**read_yaml(DEFAULT), "studies": [SSD if is_keyword else name]}
    with pytest.raises(UserError, match=expected):
        load_config(keys, tmp_path, [DEFAULT])


def test_load_config_unusable_names_of_folders_are_errors(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(b"/srv/\xff".decode(errors="surrogateescape"))
    assert "is not UTF-8" in error_of(tmp_path, scratch=str(tmp_path / "link"))
    monkeypatch.setattr("tempfile.tempdir", "/srv/a\nb")
    assert error_of(tmp_path).startswith("TMPDIR: ")


def test_load_config_without_a_folder_for_temporary_files_is_error(tmp_path, monkeypatch):
    def fail():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", fail)
    assert error_of(tmp_path).startswith("TMPDIR: no temporary file")


# Words in braces


def test_words_of_commands_are_those_of_cells_and_subjects():
    # A cell, and a subject of each kind.
    fake = SimpleNamespace(
        path=Path("/x"), tree="", load_options=[], metadata={"folder": "", "youngest": 1},
        recipe={"axes": {}, "program": "start"}, files=Path("/x"), input=None, subjects=(), _program=str,
        output=None, branch="", template="", working_copy=Path("/x"),
    )  # fmt: skip
    words = {kind: {*subject.words(fake)} for kind, subject in SUBJECTS.items()}
    # Of the cell's server.
    for kind in ("repository", "committed_repository", "git_repository", "fossil_repository"):
        words[kind].add("url")
    words["git_pushed"].add("push_url")
    assert words == {kind: {*of_kind} for kind, of_kind in SUBJECT_WORDS.items()}
    assert {*CellSetup._words(fake)} == {*WORDS, "program"}


COPY = "{svn} export {url}/{tree} {target}"
READ_FILES = "{svn} log file://{repository}"
NO_ACCESS = {"inapplicable_axes": ["access"]}
ONLY_SVN = {**NO_ACCESS, "defaults": {"access": "svn"}}
TREE = {"input": "tree", "output": "built_tree", "work": "tree", **NO_ACCESS}


@pytest.mark.parametrize(
    ("command", "key", "expected"),
    [
        ({"argv": "{svn} log {urrl}"}, "argv", "{urrl} stands for nothing. Use one of {command}, "),
        ({"argv": "{svn} log {url} {target}"}, "argv", "{target} stands for nothing"),
        ({"argv": "{program} {url}"}, "argv", "{program} stands for nothing"),
        ({"argv": "{svn} log", "stdin": "{dump}"}, "stdin", "{dump} stands for nothing"),
        ({"argv": "{source}"}, "argv", "{source} stands for nothing"),
        ({"argv": "x={svn} {url}"}, "argv", "{svn} stands for several"),
        ({"argv": "{svn} 'log {url}"}, "argv", "closing quotation"),
        ({"argv": "  "}, "argv", "no program"),
        ({"argv": "x", "environment": {"HOME": "{rnu}"}}, "environment.HOME", "Use one of {run}."),
        ({"argv": "x", "environment": {"A=B": "x"}}, "environment.A=B", ""),
        ({"argv": "x", "environment": {"A": "\0"}}, "environment.A", "NUL"),
        ({"argv": COPY, "output": "target", "environment": {"HOME": "{run}"}}, "", ""),
        ({"argv": "{program} {source} {target}", "program": "naive", **TREE}, "", ""),
        ({"argv": "{svn} log {access}:{repo} {url} '{}' {{}}"}, "", ""),
        # A command that reads the files itself has no label of a server.
        ({"argv": READ_FILES}, "argv", "{url}"),
        ({"argv": READ_FILES, "restrict_to": {"access": ["file"]}}, "", ""),
        ({"argv": READ_FILES, **NO_ACCESS}, "", ""),
        ({"argv": "{svn} log {repository}", **ONLY_SVN}, "argv", "{url}"),
        ({"argv": "{svn} update {working_copy}", "output": "working_copy"}, "argv", "{url}"),
        # Neither has one that asks the server for a little, and reads the files itself.
        ({"argv": f"{READ_FILES} {{url}}"}, "argv", "{repository} is a path"),
        ({"argv": "cat", "stdin": "{url} {repository}"}, "stdin", "{repository} is a path"),
        ({"argv": f"{READ_FILES} {{url}}", "restrict_to": {"access": ["file"]}}, "", ""),
    ],
)
def test_load_study_unknown_word_names_file_key_and_words(tmp_path, command, key, expected):
    content = read_yaml(CONFIG / "studies" / f"{SAN}.yaml")
    content["commands"]["log"] = {"input": "repository", "work": "log", **command}
    path = written(content, tmp_path)
    if not key:
        assert load_study(path).commands["log"].argv == command["argv"]
        return
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        load_study(path)
    assert str(caught.value).startswith(f"{path}: `commands.log.{key}`: ")
    assert expected in str(caught.value)


@pytest.mark.parametrize("other", ["log v", "log-v", "log   -v"])
def test_load_study_values_with_one_path_are_refused(tmp_path, other):
    content = read_yaml(CONFIG / "studies" / f"{SAN}.yaml")
    log = {"argv": "{svn} log {url}", "input": "repository", "work": "log"}
    content["commands"] |= {"log -v": log, other: log}
    with pytest.raises(UserError, match=r"^[^\n]*\.yaml: `commands"):
        load_study(written(content, tmp_path))
    del content["commands"][other]
    assert "log -v" in load_study(written(content, tmp_path)).commands
    content["axes"]["config"] = ["log -v", other]
    with pytest.raises(UserError, match=r"^[^\n]*\.yaml: `axes\.config"):
        load_study(written(content, tmp_path))


# Limits


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("time_limit_s", ".nan"), ("time_limit_s", ".inf")),
        *(("minutes", ".inf"), ("minutes", f"{{{SAN}: .nan, default: 1}}"), ("minutes", "1.0e+9")),
        *((key, "1000000000") for key in ("rounds", "runs", "copies", "duplicates")),
        *(("thresholds", "{min_rounds: 1}"), ("thresholds", "{min_rounds: 10001}")),
        *(("scratch", r'"a\0b"'), ("storages", r'{disk: "/a\0b"}'), ("\x1b[2J", "1")),
    ],
)
def test_validate_value_out_of_bounds_or_with_nul_names_key(key, value):
    content = {**read_yaml(DEFAULT), key: yaml.safe_load(value)}
    with pytest.raises(UserError, match=r"^my\.yaml: [^\n\x1b]*$") as caught:
        validate(content, Settings, lambda keys: "my.yaml")
    assert str(caught.value).startswith(f"my.yaml: `{key}".replace("\x1b", r"\x1b"))
    assert ("NUL" in str(caught.value)) == (r"\0" in value)


# Each list repeats the one before ten times.
BOMB = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
BOMB += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 100_000, "[" * 1000 + "]" * 1000, "- x\n" * 200_000, "a: &a [*a]"),
        "\n".join(BOMB),
        *("a: !!python/object/apply:os.system [true]", "a: \x00", "? {a: b}\n: c\n? ["),
        *("minutes: 1:30", f"a: {'1:' * 50_000}1", f"seed: 0x{'f' * 4300}", f"a: {'9' * 41}"),
        *("a: 010", "a: 0o17", "a: 1_000", "a: 0b1", "a: 1e3", "a: on", "no: 1", "a: 2010-01-01"),
        *("a: !!int 3", "a: !!float 1:30", "a: !!python/tuple [1]", "a: *b", "a: [1\nb: 2"),
        *("a: 1\n'a': 2", "x: [{a: 1, b: {a: 1}, a: 1}]"),
    ],
)
def test_parse_yaml_hostile_text_is_user_error(text):
    with pytest.raises(UserError, match=r"^my\.yaml: [^\n]*$"):
        parse_yaml(text, "my.yaml")


@pytest.mark.parametrize(("text", "names_tab"), [("a:\n\tb: 1", True), ("a: @b", False)])
def test_parse_yaml_remedy_names_tabs_only_for_a_tab(text, names_tab):
    with pytest.raises(UserError) as refused:
        parse_yaml(text, "my.yaml")
    assert ("not tabs" in str(refused.value)) is names_tab, refused.value


def test_parse_yaml_reads_numbers_and_words_of_both_versions():
    text = "[1, -20, 0x1F, 2.5, .5, 1.0e+3, true, False, null, ~, 'on', \"1:30\", 10:x, 1.10.0]"
    expected = [1, -20, 31, 2.5, 0.5, 1000.0, True, False, None, None]
    expected += ["on", "1:30", "10:x", "1.10.0"]
    assert parse_yaml(text, "my.yaml") == expected == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["{", "9" * 5000, "[" * 100_000])
def test_read_yaml_of_a_damaged_json_file_is_user_error(tmp_path, text):
    (tmp_path / "my.json").write_text(text)
    with pytest.raises(UserError, match=r"my\.json: [^\n]*$"):
        read_yaml(tmp_path / "my.json")


def test_read_yaml_of_a_json_file_reads_exponents(tmp_path):
    (tmp_path / "my.json").write_text('{"scale": 5e-06, "on": 1e3}')
    assert read_yaml(tmp_path / "my.json") == {"scale": 5e-06, "on": 1000.0}


def test_parse_yaml_reads_aliases_and_merges():
    text = "a: &a {x: 1}\nb: &b {<<: *a, y: &y two}\nc: {<<: *b, x: *y}"
    expected = {"a": {"x": 1}, "b": {"x": 1, "y": "two"}, "c": {"x": "two", "y": "two"}}
    assert parse_yaml(text, "my.yaml") == expected


@pytest.mark.parametrize("file", sorted(CONFIG.rglob("*.yaml")), ids=lambda file: file.name)
def test_shipped_yaml_is_read_as_pyyaml_reads_it(file):
    assert read_yaml(file) == yaml.safe_load(file.read_text())


def test_read_yaml_large_file_is_user_error(tmp_path, monkeypatch):
    monkeypatch.setattr(validation, "YAML_BYTES", 100)
    path = tmp_path / "large.yaml"
    path.write_text("#" * 101)
    with pytest.raises(UserError, match=f"^{path}: .*100 bytes"):
        read_yaml(path)


def test_user_error_is_escaped_and_limited():
    assert str(UserError("k\x1b[2J\u202e\x9b")) == r"k\x1b[2J\u202e\x9b"
    assert len(str(UserError("x" * 70_000))) < 5000


@pytest.mark.parametrize(
    ("model", "content", "place", "new"),
    [
        (Settings, {"twins": 1}, "twins", "duplicates"),
        (Settings, {"thresholds": {"enough_rounds": 5}}, "thresholds.enough_rounds", "min_rounds"),
        (StudyFile, {"commands": {"x": {"reads": 1}}}, "commands.x.reads", "input"),
        (StudyFile, {"questions": {"access": {"ask": 1}}}, "questions.access.ask", "question"),
    ],
)
def test_validate_former_key_names_the_new_one(model, content, place, new):
    with pytest.raises(UserError, match=rf"^my\.yaml: `{place}` .* now `{new}`"):
        validate(content, model, lambda keys: "my.yaml")


@pytest.mark.parametrize("name", ["max_steal_pct", "short_s"])
def test_validate_threshold_that_is_fixed_now_is_refused_with_the_remedy(name):
    content = {**read_yaml(DEFAULT), "thresholds": {name: 1}}
    with pytest.raises(UserError, match=rf"^my\.yaml: `thresholds\.{name}` .* remove the key"):
        validate(content, Settings, lambda keys: "my.yaml")


def test_load_config_whole_history_of_git_is_refused_with_the_remedy(tmp_path):
    repository = {"source": "git", "path": "/srv/x", "history": "whole"}
    error = error_of(tmp_path, repositories={"mine": repository})
    assert error.startswith(f"{tmp_path}/mine.yaml: `repositories.mine.history`: ")
    assert "Use first-parent" in error


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_of_keys_is_made_from_the_models(page):
    text = page.read_text()
    assert with_keys(text) == text, "run tests/config_tables.py"
    assert "<!-- end -->" in text


def test_config_readme_has_each_key_of_the_settings_once():
    listed = re.findall(r"^- `(\w+)` \(", PAGES[0].read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(Settings.model_fields)


@needs("git")
@pytest.mark.parametrize(("folder", "name"), [("My repo", "My-repo"), ("ruby.git", "ruby-own")])
def test_own_repository_has_free_name_of_its_folder(tmp_path, folder, name):
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / folder], check=True)
    assert list(own_repository(str(tmp_path / folder), {"ruby": {}})) == [name]


@needs("git")
def test_own_repository_in_the_home_folder_has_the_name_of_that_folder(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q", tmp_path / "alice"], check=True)
    monkeypatch.setenv("HOME", str(tmp_path / "alice"))
    assert list(own_repository("~/.git", {})) == ["alice"]


# Mutated configurations, studies, findings and expectations


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("date", "2014-7", "date"),
        ("url", "ftp://x", "url"),
        ("axes", {"Ra": ["svn"]}, "axes.Ra"),
        ("axes", {"access": ["a  b"]}, "axes.access[0]"),
        ("published", {"subversion": "1"}, "published.subversion"),
    ],
)
def test_validate_malformed_text_names_key_and_rule_in_words(key, value, place):
    content = read_yaml(CONFIG / "studies" / f"{SAN}.yaml")
    content[key] = {**content[key], **value} if isinstance(value, dict) else value
    with pytest.raises(UserError, match=rf"^my\.yaml: `{re.escape(place)}`") as caught:
        validate(content, StudyFile, lambda keys: "my.yaml")
    # The pattern itself.
    assert "[a-z" not in str(caught.value)


NUMBER = itertools.count()
# Known keys and values, and odd ones.
KEYS = ["all", "default", "auto", "pack", "f6", "log", "ruby", "disk", "elapsed_s", "over", "to"]
KEYS += ["git", "path", "", " ", "..", "/", "~2", "a\nb", "é", "\x1b[2J", "\0", "{x}", "%2F", 0, 3]
KEYS += ["9" * 5000, "x" * 70000]
VALUES = [*KEYS, None, True, -1, 10**30, 1.5, math.nan, math.inf, b"x", datetime.date(2014, 1, 1)]
VALUES += [[], {}, [[]], ["log", 3], {"a": {"b": []}}, {"": None}, {3: [1, {"x": "y"}]}]


def places(content):
    """Return each container of a tree with each of its keys."""
    keys = content.keys() if isinstance(content, dict) else range(len(content))
    pairs = [(content, key) for key in keys]
    for key in keys:
        if isinstance(content[key], dict | list):
            pairs += places(content[key])
    return pairs


def mutated(dice, content):
    """Replace, remove, add or repeat up to three values of a tree."""
    content = copy.deepcopy(content)
    for _ in range(dice.randint(1, 3)):
        if not (all_places := places(content)):
            break
        (above, key), (other, other_key) = dice.choices(all_places, k=2)
        value = copy.deepcopy(dice.choice([other[other_key], *dice.choices(VALUES, k=3)]))
        kind = dice.choice(("replace", "replace", "remove", "add"))
        if kind == "remove":
            del above[key]
        elif kind == "add" and isinstance(above, list):
            above.append(value)
        else:
            above[dice.choice(KEYS) if kind == "add" else key] = value
    return content


def read_checks(content, folder):
    path = written(content, folder)
    values = {"command": ["dump", "export", "load", "log"], "format": ["f6", "f7"]}
    axes = {axis: values.get(axis) for axis in load_study(ROOT / f"config/studies/{SSD}.yaml").axes}
    read_expectations([path], SSD, dict.fromkeys(axes))
    read_expectations([path], SSD, axes)


def written(content, folder):
    # A new name: the readers cache files.
    path = folder / f"{next(NUMBER)}.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), errors="replace")
    return path


CELL = {"command": "log", "access": "svn", "format": ["f6", "f7"]}
CELL |= {"config": "slow", "cache": "cold"}
SMALL = {
    "repositories": {"ruby": GENERATED},
    "grid": {"fsfs-san-2014": {"include": [CELL]}},
    "builds": {"one": {"prefix": "/usr"}, "two": {"client": "one", "server": "one"}},
    "workload": {"log": 60, "export": 40},
}
# A reader, and the content that is mutated.
READERS = {
    "plan": (
        lambda content, _: Project(content, ROOT, [DEFAULT]),
        merge({**read_yaml(DEFAULT), "grid": {}}, SMALL),
    ),
    "study": (
        lambda content, folder: load_study(written(content, folder)),
        read_yaml(CONFIG / f"studies/{SSD}.yaml"),
    ),
    "checks": (read_checks, {SSD: read_yaml(CONFIG / "published/findings.yaml")[SSD]}),
}


@pytest.mark.parametrize(
    ("reader", "count"),
    [
        *(("plan", 30), ("study", 60), ("checks", 60)),
        *(slow("plan", 4000), slow("study", 5000), slow("checks", 5000)),
    ],
)
def test_mutated_configuration_raises_only_user_errors(tmp_path, monkeypatch, reader, count):
    monkeypatch.chdir(ROOT)
    read, seed = READERS[reader]
    read(copy.deepcopy(seed), tmp_path)
    dice, refused = dice_of("configuration", reader), []
    for _ in range(count):
        try:
            with limits():
                read(mutated(dice, seed), tmp_path)
        except UserError as error:
            refused.append(str(error))
    print(f"{count} mutations: {len(refused)} refused")
    assert 0 < len(refused) < count
    assert all(printable(text) == text and len(text) <= LONGEST_MESSAGE + 3 for text in refused)
