"""Load workflow/report/words.yaml: labels and meanings of axes and values, and how to apply a value."""

from functools import cache
from pathlib import Path

from vcsbench.config.models import Model, key
from vcsbench.config.validation import read_mapping, validate

VOCABULARY = Path(__file__).parents[2] / "report" / "words.yaml"


class ActionWords(Model):
    """How to apply a value. The head of the file explains the keys; "" for a text that an action lacks."""

    title: str = ""
    command: str = ""
    note: str = ""
    cost: str = ""
    undo: str = ""
    condition: str = ""
    downtime: str = ""


class ValueWords(Model):
    """The words of a value: its label ("": the value itself), its meaning, and the action that applies it.

    The labels of cases have the `short` label if there is one, and no `silent` value, such as no password. A
    value that stands for several settings has them as `parts`, in place of a meaning. A command with
    `benchmark` does no work for a user, such as a command of svnbench.
    """

    label: str = ""
    short: str = ""
    silent: bool = False
    benchmark: bool = False
    meaning: str = ""
    parts: str = ""
    action: ActionWords | None = None

    @property
    def explanation(self) -> str:
        """Return the meaning, or the parts of a value that stands for several settings; "" without both."""
        return self.meaning or self.parts


class AxisWords(Model):
    """The words of an axis: its label ("": its name), the short form of its question, and its values."""

    label: str = ""
    short_question: str = ""
    values: dict[str, ValueWords] = key({})


# Of axes and values of the user, such as a build.
NO_AXIS_WORDS = AxisWords()
NO_VALUE_WORDS = ValueWords()


class Vocabulary(Model):
    """The words of all axes, and the meanings of other terms of the reports.

    `system_terms` has the terms of each system, by its name.
    """

    axes: dict[str, AxisWords]
    terms: dict[str, str]
    system_terms: dict[str, dict[str, str]]

    def axis(self, name: str) -> AxisWords:
        """Return the words of an axis, empty ones for an axis that the file lacks."""
        return self.axes.get(name, NO_AXIS_WORDS)

    def value(self, axis: str, value: str) -> ValueWords:
        """Return the words of a value, empty ones for a value that the file lacks."""
        return self.axis(axis).values.get(value, NO_VALUE_WORDS)


@cache
def load_vocabulary() -> Vocabulary:
    """Return the vocabulary, read once per process. Raise UserError for a wrong key or text."""
    return validate(read_mapping(VOCABULARY), Vocabulary, lambda _keys: str(VOCABULARY))
