"""The file of labels, meanings and actions: it has what the shipped grids need."""

import pytest

from project import DEFAULT
from unit.study_grid import study_grid
from vcsbench.advice import labels
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.config.validation import read_yaml
from vcsbench.formats import RELEASES

AXES = load_vocabulary().axes


def test_vocabulary_has_meanings_of_default_grids():
    values = {("format", name) for f in RELEASES if f != "f8" for name in (f, f"{f}-to-f8")}
    for study in read_yaml(DEFAULT)["grid"]:
        for cell in study_grid(study)[1]:
            values.update((axis, value) for axis, value in cell.axes.items() if value)
    assert len(values) > 80
    words = {pair: load_vocabulary().value(*pair) for pair in sorted(values)}
    # A label that stands for several settings has them as parts.
    assert [pair for pair, value in words.items() if not (value.meaning or value.parts)] == []


@pytest.mark.parametrize("axis", AXES)
def test_actions_have_their_cost_and_the_way_back(axis):
    for value, words in AXES[axis].values.items():
        # A repository that is left as it is costs nothing.
        if words.action and value not in ("as-is", "partly"):
            assert words.action.cost and words.action.undo, value
            assert words.action.command or words.action.note, value


def test_server_configurations_with_other_settings_have_other_labels():
    names = ("default", "cache-256", "cache-1024", "revprops", "block-read", "fast", "tuned")
    assert len({labels.value_label("config", name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("axis", "value", "label"),
    [
        ("packing", "nopack", "not packed"),
        ("format", "f6-to-f8", "f6 upgraded to f8"),
        ("format", "f7", "f7"),
        ("clients", "4", "4 clients"),
        ("reflink", "off", "reflinks off"),
        # An axis and a value of a user.
        ("my_axis", "on", "my axis on"),
        ("build", "mine", "mine"),
    ],
)
def test_value_label_of_known_and_unknown_values(axis, value, label):
    assert labels.value_label(axis, value) == label
