"""The file of labels, meanings and actions: it has what the shipped grids need."""

import re
from dataclasses import replace

import pytest

from project import DEFAULT
from unit.html_tree import parse
from unit.report_files import results_of
from unit.study_grid import study_grid
from vcsbench.advice import labels
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.config.validation import read_yaml
from vcsbench.evidence.flags import FLAGS
from vcsbench.formats import RELEASES
from vcsbench.report.make_command import MakeCommand
from vcsbench.report.page import build_page
from vcsbench.report.terminal import format_summaries

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


# Forms that pages and the terminal have in another one: 6,000, MiB, undecided, `server cache warm` or `OS
# cache warm`, not packed. A statement or a machine of a publication keeps its MB.
DOUBLES = re.compile(
    r"(?<![\d.,])\d{1,3}[ \u00a0\u2009\u202f]\d{3}\b(?![.,]\d)|\d MB\b(?!/s)|too noisy|caches warm|hot caches"
    r"|unpacked|detectable from"
)
RAW_NAMES = re.compile(r"\b(?:nopack|hot-os|hot-server)\b")


def texts_of(element):
    """Return the texts of an element without commands, each cell and paragraph for itself."""
    if element.tag in ("code", "pre", "script", "style", "template"):
        return []
    texts = [" ".join(child for child in element.children if isinstance(child, str))]
    for child in element.children:
        if not isinstance(child, str):
            texts += texts_of(child)
    return texts


@pytest.mark.parametrize("own_repository", ["", "/srv/svn/project"])
def test_page_and_terminal_have_one_form_of_numbers_units_and_words(whole_study, own_repository):
    results = replace(results_of(whole_study), own_repository=own_repository)
    page = parse(build_page(results))
    texts = texts_of(page) + format_summaries([results], MakeCommand())
    assert [text for text in texts if DOUBLES.search(text)] == []
    assert any("46,054 revisions" in text for text in texts)
    # The section Words also has the names for commands and files, the section Quality the paths of cells.
    for name in ("findings", "answer", "situations", "tables"):
        named = texts_of(page.by_id(name))
        assert [text for text in named if RAW_NAMES.search(text)] == []


def test_words_of_reports_have_no_doubles():
    texts = [*load_vocabulary().terms, *load_vocabulary().terms.values()]
    for axis in load_vocabulary().axes.values():
        for words_of_value in axis.values.values():
            texts += [words_of_value.label, words_of_value.meaning, words_of_value.parts]
            if words_of_value.action:
                texts += words_of_value.action.model_dump().values()
    texts += [flag.sentence for flag in FLAGS.values()]
    assert [text for text in texts if DOUBLES.search(text)] == []
