"""What the words of the reports mean: config/words.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vcsbench.config.study_models import Words
from vcsbench.config.validation import read_yaml, validate

FILE = Path("config", "words.yaml")


@dataclass(frozen=True)
class Glossary:
    """The meanings of axis values, by axis, and of `others`; nothing where a word has none."""

    axes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    def of(self, axis: str, value: str) -> str:
        """What a value of an axis means; "" where nothing is said."""
        return self.axes.get(axis, {}).get(value, "")


def load_glossary(root: Path) -> Glossary:
    """The glossary of a checkout; a UserError names what is wrong with its file."""
    path = root / FILE
    raw = read_yaml(path)
    validate(raw, Words, lambda _keys: str(path))
    return Glossary(**raw)
