"""Mutated configurations, studies, findings and expectations: only a UserError of one line escapes.

The long run prints its counts: python -m pytest -s -m slow tests/unit/test_config_fuzz.py
"""

import copy
import datetime
import itertools
import math

import pytest
import yaml

from fuzz import dice_of, limits
from project import DEFAULT, ROOT
from unit.study_grid import merge
from vcsbench.config.definitions import read_expectations, read_findings
from vcsbench.config.study import load_study
from vcsbench.config.validation import read_yaml
from vcsbench.errors import LONGEST, UserError
from vcsbench.external import printable
from vcsbench.run.project import Project

STUDY = "fsfs-ssd-2014"
FINDINGS = ROOT / "config/published/findings.yaml"
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


def open_configuration(content, folder):
    """Read the configuration of a small grid as a run does, up to its plan."""
    Project(content, ROOT, [DEFAULT])


def read_study(content, folder):
    load_study(written(content, folder))


def read_checks(content, folder):
    path = written(content, folder)
    values = {"command": ["dump", "export", "load", "log"], "format": ["f6", "f7"]}
    axes = {
        axis: values.get(axis) for axis in load_study(ROOT / f"config/studies/{STUDY}.yaml").axes
    }
    read_findings(path, STUDY, list(axes))
    read_expectations([path], STUDY, axes)


def written(content, folder):
    # A new name: the readers cache files.
    path = folder / f"{next(NUMBER)}.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), errors="replace")
    return path


CELL = {"command": "log", "ra": "svn", "format": ["f6", "f7"], "config": "slow", "cache": "cold"}
SMALL = {
    "repositories": {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.01, "seed": 1}},
    "grid": {"fsfs-san-2014": {"include": [CELL]}},
    "builds": {"one": {"prefix": "/usr"}, "two": {"client": "one", "server": "one"}},
    "workload": {"log": 60, "export": 40},
}
# A reader, the content that is mutated, and how often in short and in long.
READERS = {
    "plan": (open_configuration, merge({**read_yaml(DEFAULT), "grid": {}}, SMALL), 30, 4000),
    "study": (read_study, read_yaml(ROOT / f"config/studies/{STUDY}.yaml"), 60, 5000),
    "checks": (read_checks, {STUDY: read_yaml(FINDINGS)[STUDY]}, 60, 5000),
}


@pytest.mark.parametrize(
    ("reader", "count"),
    [
        *((name, short) for name, (_, _, short, _) in READERS.items()),
        *(pytest.param(name, many, marks=pytest.mark.slow) for name, (*_, many) in READERS.items()),
    ],
)
def test_mutated_configuration_raises_only_user_errors(tmp_path, monkeypatch, reader, count):
    monkeypatch.chdir(ROOT)
    read, seed, *_ = READERS[reader]
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
    assert all(printable(text) == text and len(text) <= LONGEST + 3 for text in refused)
