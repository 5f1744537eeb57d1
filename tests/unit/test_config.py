"""The configuration: valid files are read, an invalid one is a UserError of one line with file and key."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from project import needs
from vcsbench.config import study_models, validation
from vcsbench.config.configuration import load_config, merge
from vcsbench.config.documentation import README, with_tables
from vcsbench.config.models import Settings
from vcsbench.config.validation import parse_yaml, read_yaml, validate
from vcsbench.errors import UserError
from vcsbench.sources import own_repository

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "config" / "config.yaml"
SAN, SSD, PROTOTYPE = "fsfs-san-2014", "fsfs-ssd-2014", "server-prototype-2010"


def configured(tmp_path: Path, **over: Any) -> Any:
    """Return the default configuration with a file of these keys laid over it."""
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(over))
    return load_config(merge(read_yaml(DEFAULT), over), ROOT, [DEFAULT, file])


def error_of(tmp_path: Path, **over: Any) -> str:
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        configured(tmp_path, **over)
    return str(caught.value)


def loaded(**keys: Any) -> Any:
    """Return the default configuration with these keys replaced."""
    return load_config({**read_yaml(DEFAULT), **keys}, ROOT, [DEFAULT])


def test_load_config_shipped_files_are_valid(tmp_path: Path) -> None:
    assert configured(tmp_path).minutes == 15
    full = configured(tmp_path, **read_yaml(ROOT / "config" / "full.yaml"))
    assert full.settings.rounds == 5 and full.minutes is None
    # The other repositories belong to another study.
    assert {n for n, r in full.repositories.items() if "studies" not in r} == {"ruby", "bsd"}
    ssd = configured(tmp_path, **read_yaml(ROOT / "config" / "full-ssd.yaml"))
    assert list(ssd.studies) == [SSD] and ssd.settings.rounds == 5


def test_load_config_without_minutes_and_rounds_is_error(tmp_path: Path) -> None:
    assert configured(tmp_path, rounds=3).minutes is None
    assert "`minutes` and `rounds` are missing" in error_of(tmp_path, minutes=None)
    assert "`minutes`" in error_of(tmp_path, minutes=0)


@pytest.mark.parametrize(
    ("keys", "total", "of_studies"),
    [({}, 20, [15, 5]), ({"minutes": 8}, 8, [4, 4]), ({"rounds": 3}, None, [None, None])],
)
def test_minutes_of_studies_shared_or_fixed_rounds(
    tmp_path: Path, keys: dict[str, int], total: int | None, of_studies: list[int | None]
) -> None:
    config = configured(tmp_path, studies=[SAN, PROTOTYPE], **keys)
    assert config.minutes == total
    assert [config.minutes_of(name) for name in (SAN, PROTOTYPE)] == of_studies


def test_minutes_by_study_must_name_each_study() -> None:
    with pytest.raises(UserError, match=rf"`minutes\.{SAN}` is missing"):
        loaded(minutes={PROTOTYPE: 5}, studies=[SAN, PROTOTYPE])
    assert loaded(minutes={PROTOTYPE: 5}, studies=[PROTOTYPE]).minutes == 5


def test_studies_all_are_published_ones_with_grid(tmp_path: Path) -> None:
    published = set(read_yaml(DEFAULT)["grid"]) - {"own-repository"}
    assert set(configured(tmp_path, studies=["all"]).studies) == published


def test_studies_depend_on_own_repository(tmp_path: Path) -> None:
    both = {"repository": ["own-repository"], "default": [SSD]}
    assert list(configured(tmp_path, studies=both).studies) == [SSD]
    config = configured(tmp_path, studies=both, repository="/srv/svn")
    assert list(config.studies) == ["own-repository"] and config.minutes == 15
    with pytest.raises(UserError, match=r"`studies.*default"):
        loaded(studies={"repository": ["own-repository"]})
    assert "`studies" in error_of(tmp_path, studies={"own": ["builds"]})


@pytest.mark.parametrize(("keys", "rounds"), [({}, 5), ({"rounds": 9}, 9)])
def test_load_config_elsewhere_has_fewest_rounds(keys: dict[str, int], rounds: int) -> None:
    config = load_config({**read_yaml(DEFAULT), **keys}, ROOT, [DEFAULT], elsewhere=True)
    assert config.settings.rounds == rounds and config.least_rounds == 5
    assert config.minutes is None


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"storagee": "disk"}, ["mine.yaml", "`storagee`", "Did you mean `storage`"]),
        (
            {"repositories": {"ruby": {"source": "generated", "profle": "ruby"}}},
            ["`repositories.ruby.profle`", "Did you mean `profile`"],
        ),
        ({"rounds": "five"}, ["mine.yaml", "`rounds`", "'five' must be a whole number"]),
        ({"grid": {SAN: {"include": [{"cache": 3}]}}}, [f"`grid.{SAN}.include[0].cache`"]),
        ({"studies": ["fsfs-2015"]}, ["fsfs-2015.yaml", SAN]),
        ({"storage": "tape"}, ["`storage`: 'tape' is not defined"]),
    ],
)
def test_load_config_invalid_names_file_key_and_remedy(
    tmp_path: Path, keys: dict[str, Any], expected: list[str]
) -> None:
    text = error_of(tmp_path, **keys)
    assert [part for part in expected if part not in text] == [], text


def test_load_config_study_without_commands_is_error(tmp_path: Path) -> None:
    studies = tmp_path / "config" / "studies"
    studies.mkdir(parents=True)
    study = read_yaml(ROOT / "config" / "studies" / f"{SSD}.yaml")
    study.pop("commands")
    (studies / "old.yaml").write_text(yaml.safe_dump(study))
    with pytest.raises(UserError, match="published numbers only"):
        load_config({**read_yaml(DEFAULT), "studies": ["old"]}, tmp_path, [DEFAULT])


@pytest.mark.parametrize("folder", ["/srv/a\nb", "/srv/a\tb", "/srv/\x7f"])
def test_load_config_folder_with_control_character_is_error(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "`storages.disk`" in error_of(tmp_path, storages={"disk": folder})
    assert "`scratch`" in error_of(tmp_path, scratch=folder)
    monkeypatch.setattr("tempfile.tempdir", folder)
    assert error_of(tmp_path).startswith("TMPDIR: ")


def test_load_config_link_to_non_utf8_folder_is_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(b"/srv/\xff".decode(errors="surrogateescape"))
    assert "is not UTF-8" in error_of(tmp_path, scratch=str(tmp_path / "link"))


@needs("git")
@pytest.mark.parametrize(("folder", "name"), [("My repo", "My-repo"), ("ruby.git", "ruby-own")])
def test_own_repository_has_free_name_of_its_folder(tmp_path: Path, folder: str, name: str) -> None:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / folder], check=True)
    assert list(own_repository(str(tmp_path / folder), {"ruby": {}})) == [name]


@pytest.mark.parametrize("path", ["/does/not/exist", "/etc/passwd", "/usr"])
def test_own_repository_missing_path_is_error(path: str) -> None:
    with pytest.raises(UserError, match=path):
        own_repository(path, {})


# Limits


def settings_error(**changes: Any) -> str:
    with pytest.raises(UserError, match=r"^my\.yaml: [^\n]*$") as caught:
        validate({**read_yaml(DEFAULT), **changes}, Settings, lambda keys: "my.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("time_limit_s", ".nan"), ("time_limit_s", ".inf")),
        *(("minutes", ".inf"), ("minutes", f"{{{SAN}: .nan, default: 1}}"), ("minutes", "1.0e+9")),
        *((key, "1000000000") for key in ("rounds", "runs", "copies", "duplicates")),
        *(("fragmentation_kib", ".inf"), ("min_effect_pct", ".nan"), ("workload", "{log: .inf}")),
        *(("thresholds", f"{{max_steal_pct: {value}}}") for value in ("-.inf", ".nan")),
        ("thresholds", "{min_rounds: 1000000000}"),
    ],
)
def test_validate_number_without_bound_names_key(key: str, value: str) -> None:
    assert settings_error(**{key: yaml.safe_load(value)}).startswith(f"my.yaml: `{key}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scratch", "a\0b"),
        ("storages", {"disk": "/a\0b"}),
        ("filesystems", {"ext4": "\0"}),
        ("expectations", ["a\0b"]),
    ],
)
def test_validate_path_with_nul_names_key(key: str, value: object) -> None:
    message = settings_error(**{key: value})
    assert message.startswith(f"my.yaml: `{key}") and "has a NUL character" in message


def test_validate_unknown_key_with_control_characters_is_escaped() -> None:
    assert "\x1b" not in settings_error(**{"\x1b[2J": 1})


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 100_000, "[" * 1000 + "]" * 1000, bomb(9), "- x\n" * 200_000, "a: &a [*a]"),
        *("a: !!python/object/apply:os.system [true]", "a: \x00", "? {a: b}\n: c\n? ["),
        "a: [1\nb: 2",
    ],
)
def test_parse_yaml_hostile_text_is_user_error(text: str) -> None:
    with pytest.raises(UserError, match=r"^my\.yaml: [^\n]*$"):
        parse_yaml(text, "my.yaml")


def test_read_yaml_large_file_is_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "YAML_BYTES", 100)
    path = tmp_path / "large.yaml"
    path.write_text("#" * 101)
    with pytest.raises(UserError, match="larger than 100 bytes"):
        read_yaml(path)


def test_user_error_is_escaped_and_limited() -> None:
    assert str(UserError("k\x1b[2J\u202e\x9b")) == r"k\x1b[2J\u202e\x9b"
    assert len(str(UserError("x" * 70_000))) < 5000


# Documentation


def test_config_readme_has_generated_tables() -> None:
    text = (ROOT / README).read_text()
    assert text.count("<!-- keys of ") == 3
    assert with_tables(text) == text, "run `python -m vcsbench.config.documentation`"


def test_config_readme_documents_each_default_key() -> None:
    text = (ROOT / README).read_text()
    for key in read_yaml(DEFAULT):
        assert f"| `{key}` |" in text


@pytest.mark.parametrize(
    ("definition", "model"),
    [
        (study_models.TableDefinition, study_models.Table),
        (study_models.ComparisonDefinition, study_models.Compare),
        (study_models.FindingDefinition, study_models.Finding),
        (study_models.SidesDefinition, study_models.ComparedSides),
        (study_models.BoundsDefinition, study_models.Expected),
    ],
)
def test_definition_has_keys_of_model(definition: Any, model: Any) -> None:
    assert definition.__annotations__.keys() == model.model_fields.keys()
