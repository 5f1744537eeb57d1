"""The configuration: what is right is read, what is wrong is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vcsbench.config.configuration import load_config, merge
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.sources import own_repository

ROOT = Path(__file__).parent.parent.parent
DEFAULT = ROOT / "config" / "config.yaml"


def configured(tmp_path: Path, **over: Any) -> Any:
    """The default configuration with `over` laid over it from a file."""
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(over))
    return load_config(merge(read_yaml(DEFAULT), over), ROOT, [DEFAULT, file])


def sentence(tmp_path: Path, **over: Any) -> str:
    with pytest.raises(UserError) as caught:
        configured(tmp_path, **over)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_load_config_shipped_files_are_valid(tmp_path: Path) -> None:
    assert configured(tmp_path).minutes == 15
    full = configured(tmp_path, **read_yaml(ROOT / "config" / "full.yaml"))
    mine = {name for name, r in full.repositories.items() if "studies" not in r}
    assert mine == {"ruby", "bsd"}  # the others are another study's
    assert full.settings.rounds == 5 and full.minutes is None


def test_load_config_without_minutes_and_rounds_is_error(tmp_path: Path) -> None:
    assert configured(tmp_path, rounds=3).minutes is None
    assert "neither `minutes` nor `rounds`" in sentence(tmp_path, minutes=None)
    assert "`minutes`" in sentence(tmp_path, minutes=0)


def test_minutes_of_shared_named_or_fixed_rounds(tmp_path: Path) -> None:
    both = ["fsfs-san-2014", "server-prototype-2010"]
    own = configured(tmp_path, studies=both)
    assert (own.minutes, [own.minutes_of(name) for name in both]) == (20, [15, 5])
    shared = configured(tmp_path, studies=both, minutes=8)
    assert (shared.minutes, [shared.minutes_of(name) for name in both]) == (8, [4, 4])
    fixed = configured(tmp_path, studies=both, rounds=3)
    assert fixed.minutes is None and fixed.minutes_of(both[0]) is None
    named = {**read_yaml(DEFAULT), "minutes": {both[1]: 5}}
    with pytest.raises(UserError, match=r"`minutes\.fsfs-san-2014` is missing"):
        load_config(named, ROOT, [DEFAULT])
    assert load_config({**named, "studies": both[1:]}, ROOT, [DEFAULT]).minutes == 5


def test_studies_all_are_published_ones_with_grid(tmp_path: Path) -> None:
    published = set(read_yaml(DEFAULT)["grid"]) - {"own-repository"}
    assert set(configured(tmp_path, studies=["all"]).studies) == published


def test_studies_depend_on_own_repository(tmp_path: Path) -> None:
    both = {"repository": ["own-repository"], "default": ["fsfs-ssd-2014"]}
    assert list(configured(tmp_path, studies=both).studies) == ["fsfs-ssd-2014"]
    own = configured(tmp_path, studies=both, repository="/srv/svn")
    assert list(own.studies) == ["own-repository"] and own.minutes == 15
    one = {**read_yaml(DEFAULT), "studies": {"repository": ["own-repository"]}}
    with pytest.raises(UserError, match=r"`studies.*default"):
        load_config(one, ROOT, [DEFAULT])
    assert "`studies" in sentence(tmp_path, studies={"own": ["builds"]})


def test_load_config_published_scales_are_valid(tmp_path: Path) -> None:
    ssd = configured(tmp_path, **read_yaml(ROOT / "config" / "full-ssd.yaml"))
    assert list(ssd.studies) == ["fsfs-ssd-2014"] and ssd.settings.rounds == 5


def test_load_config_elsewhere_has_fewest_rounds(tmp_path: Path) -> None:
    there = load_config(read_yaml(DEFAULT), ROOT, [DEFAULT], elsewhere=True)
    assert there.settings.rounds == there.least_rounds == 5 and there.minutes is None
    own = load_config({**read_yaml(DEFAULT), "rounds": 9}, ROOT, [DEFAULT], elsewhere=True)
    assert own.settings.rounds == 9


def test_load_config_unknown_key_names_file_key_and_remedy(tmp_path: Path) -> None:
    text = sentence(tmp_path, storagee="disk")
    assert "mine.yaml" in text and "`storagee`" in text and "Did you mean `storage`" in text


def test_load_config_unknown_nested_key_is_error(tmp_path: Path) -> None:
    text = sentence(tmp_path, repositories={"ruby": {"source": "generated", "profle": "ruby"}})
    assert "`repositories.ruby.profle`" in text and "Did you mean `profile`" in text


def test_load_config_wrong_type_names_key(tmp_path: Path) -> None:
    text = sentence(tmp_path, rounds="five")
    assert "mine.yaml" in text and "`rounds`" in text and "'five' must be a whole number" in text


def test_load_config_wrong_grid_value_names_place(tmp_path: Path) -> None:
    text = sentence(tmp_path, grid={"fsfs-san-2014": {"include": [{"cache": 3}]}})
    assert "`grid.fsfs-san-2014.include[0].cache`" in text


def test_load_config_missing_study_lists_others(tmp_path: Path) -> None:
    text = sentence(tmp_path, studies=["fsfs-2015"])
    assert "fsfs-2015.yaml" in text and "fsfs-san-2014" in text


def test_load_config_study_without_commands_is_error(tmp_path: Path) -> None:
    studies = tmp_path / "config" / "studies"
    studies.mkdir(parents=True)
    study = read_yaml(ROOT / "config" / "studies" / "fsfs-ssd-2014.yaml")
    study.pop("commands")
    (studies / "old.yaml").write_text(yaml.safe_dump(study))
    with pytest.raises(UserError, match="published numbers only"):
        load_config({**read_yaml(DEFAULT), "studies": ["old"]}, tmp_path, [DEFAULT])


def test_load_config_undefined_storage_is_error(tmp_path: Path) -> None:
    assert "`storage`: 'tape' is not defined" in sentence(tmp_path, storage="tape")


@pytest.mark.parametrize("folder", ["/srv/a\nb", "/srv/a\tb", "/srv/\x7f"])
def test_load_config_folder_with_control_character_is_error(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "`storages.disk`" in sentence(tmp_path, storages={"disk": folder})
    assert "`scratch`" in sentence(tmp_path, scratch=folder)
    monkeypatch.setattr("tempfile.tempdir", folder)
    assert sentence(tmp_path).startswith("TMPDIR: ")


def test_load_config_link_to_non_utf8_folder_is_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(b"/srv/\xff".decode(errors="surrogateescape"))
    assert "is not UTF-8" in sentence(tmp_path, scratch=str(tmp_path / "link"))


def test_load_config_invalid_yaml_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1\nb: 2")
    with pytest.raises(UserError, match="is not valid YAML") as caught:
        read_yaml(broken)
    assert "\n" not in str(caught.value)


def test_own_repository_has_name_of_its_folder(tmp_path: Path) -> None:
    import subprocess

    path = tmp_path / "My repo"
    subprocess.run(["git", "init", "-q", path], check=True)
    assert list(own_repository(str(path), {})) == ["My-repo"]


def test_own_repository_with_configured_name_gets_another(tmp_path: Path) -> None:
    import subprocess

    path = tmp_path / "ruby.git"
    subprocess.run(["git", "init", "-q", "--bare", path], check=True)
    assert list(own_repository(str(path), {"ruby": {}})) == ["ruby-own"]


@pytest.mark.parametrize("path", ["/does/not/exist", "/etc/passwd", "/usr"])
def test_own_repository_missing_path_is_error(path: str) -> None:
    with pytest.raises(UserError, match=path):
        own_repository(path, {})
