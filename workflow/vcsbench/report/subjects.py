"""What the cells worked on, from what the contexts beside the results say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vcsbench import words
from vcsbench.config.study import Study

Facts = Mapping[str, Any]

# Facts that tell what a subject is, and where; all others are columns of its table.
ABOUT = ("name", "scale", "source", "description", "notes", "identity", "variant", "path", "tree")
# Facts by another name than their own.
HEADINGS = {"bytes": "size", "youngest": "revisions"}


@dataclass(frozen=True)
class Table:
    """The subjects of one kind (`repository`) that were measured, a row each, with the facts of them."""

    kind: str
    columns: list[str]
    rows: list[list[str]]
    numeric: list[bool]


@dataclass
class Subjects:
    """The distinct subjects of a study's cell-rounds by kind: what each is, its scale, and the facts of its
    variants (what differs in any fact is another one)."""

    about: dict[tuple[str, str], str] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    variants: dict[str, dict[tuple[tuple[str, Any], ...], None]] = field(default_factory=dict)

    def add(self, context: Facts, kinds: Iterable[str]) -> None:
        """Take what a context says of subjects of these kinds: under the kind's name."""
        known = [(kind, context[kind]) for kind in kinds if isinstance(context.get(kind), Mapping)]
        for kind, facts in known:
            name = str(facts.get("name") or kind)
            if facts.get("scale") is not None:
                self.scales[name] = float(facts["scale"])
            self.about[kind, name] = _about(facts)
            told = {
                k: v for k, v in facts.items() if k not in ABOUT and v is not None and v != name
            }
            plain = [(k, v) for k, v in told.items() if isinstance(v, (str, int, float))]
            self.variants.setdefault(kind, {})[(kind, name), *plain] = None

    @property
    def names(self) -> list[str]:
        """The names of the subjects."""
        return list(dict.fromkeys(name for _, name in self.about))

    def smaller(self, published: float | None) -> list[tuple[str, float]]:
        """Those that were measured below the published scale, and their scale."""
        below = published or 0.0
        return [(name, scale) for name, scale in self.scales.items() if scale < below]

    def tables(self) -> list[Table]:
        """A table for each kind of which there is more to say than a name."""
        made = []
        for kind, found in self.variants.items():
            variants = [dict(facts) for facts in found]
            columns = sorted(
                dict.fromkeys(key for facts in variants for key in facts),
                key=lambda key: any(words.is_number(facts.get(key)) for facts in variants),
            )
            numeric = [any(words.is_number(facts.get(c)) for facts in variants) for c in columns]
            rows = sorted([[_written(c, f.get(c, "")) for c in columns] for f in variants])
            heads = [
                HEADINGS.get(column, column).replace("_", " ").capitalize() for column in columns
            ]
            if len(columns) > 1:
                made.append(Table(kind, heads, rows, numeric))
        return made


def kinds_of(study: Study) -> list[str]:
    """The kinds of subjects that the commands of a study read and write."""
    said = (
        command.get(side) for side in ("reads", "writes") for command in study.commands.values()
    )
    return list(dict.fromkeys(filter(None, said)))


def _about(facts: Facts) -> str:
    about, scale = str(facts.get("description") or facts.get("source") or ""), facts.get("scale")
    if scale is not None and "scale" not in about:
        about = f"{about}, scale {scale:g}" if about else f"scale {scale:g}"
    notes = [str(note).rstrip(".") for note in facts.get("notes") or []]
    return "; ".join(filter(None, [about, *notes]))


def _written(fact: str, value: Any) -> str:
    if not words.is_number(value):
        return str(value)
    return words.size(value) if fact == "bytes" else words.grouped(value)
