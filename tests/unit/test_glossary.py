"""The glossary explains all values of the default grids; questions must fit their study."""

import pytest
import yaml

from project import CONFIG, ROOT
from vcsbench.config.definitions import load_glossary
from vcsbench.config.study import load_study
from vcsbench.errors import UserError

DEFAULT = yaml.safe_load((CONFIG / "config.yaml").read_text())
FORMATS = [f"f{number}" for number in (1, 2, 3, 4, 6, 7, 8)]
# Words of a grid that stand for several values.
STAND_FOR = {
    "format": {"current": FORMATS, "upgraded": [f"{old}-to-f8" for old in FORMATS[:-1]]},
    "packing": {"current": ["nopack", "pack"], "if_packable": ["nopack", "pack"]},
}


def axis_values(name, axis_values, commands):
    """Return the values of an axis of a study, given as a list or by the name of a list."""
    repositories = DEFAULT["repositories"].items()
    lists = {
        "commands": commands,
        "repositories": [r for r, keys in repositories if name in keys.get("studies", [name])],
        "filesystems": [*DEFAULT["filesystems"]],
        "storage and filesystems": ["storage", *DEFAULT["filesystems"]],
    }
    return axis_values if isinstance(axis_values, list) else lists.get(str(axis_values), [])


@pytest.mark.parametrize("name", DEFAULT["grid"])
def test_glossary_has_values_of_default_grids(name):
    study, glossary = load_study(CONFIG / "studies" / f"{name}.yaml"), load_glossary(ROOT)
    values = set()
    for part in DEFAULT["grid"][name]["include"]:
        for axis, given in study.axes.items():
            chosen = part.get(axis, axis_values(name, given, list(study.commands)))
            for word in [chosen] if isinstance(chosen, str) else chosen:
                values |= {(axis, v) for v in STAND_FOR.get(axis, {}).get(word, [word])}
    assert values and [value for value in sorted(values) if not glossary.of(*value)] == []


def test_load_glossary_invalid_file_is_named(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "words.yaml").write_text("axes: {ra: {svn: 5}}\nothers: {}\n")
    with pytest.raises(UserError, match=r"words\.yaml: `axes\.ra\.svn`: '5'"):
        load_glossary(tmp_path)
