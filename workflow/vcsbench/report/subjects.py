"""What the cells worked on, from what the contexts beside the results say of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vcsbench import words
from vcsbench.config.study import Study
from vcsbench.report.records import Record, distinct

# Facts that tell what a subject is, and where; all others are columns of its table.
ABOUT = ("name", "scale", "source", "description", "notes", "identity", "variant", "path", "tree")
# Facts by another name than their own.
HEADINGS = {"bytes": "size", "youngest": "revisions", "last": "last revision"}


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

    def add(self, context: Record, kinds: Iterable[str]) -> None:
        """Take what a context says of subjects of these kinds: under the kind's name."""
        for kind in kinds:
            facts = context.get(kind)
            if not isinstance(facts, Mapping):
                continue
            name = str(facts.get("name") or kind)
            if facts.get("scale") is not None:
                self.scales[name] = float(facts["scale"])
            self.about[kind, name] = _about(facts)
            told = {
                fact: value
                for fact, value in facts.items()
                if fact not in ABOUT and isinstance(value, (str, int, float)) and value != name
            }
            if told:
                self.variants.setdefault(kind, {})[(kind, name), *told.items()] = None

    @property
    def names(self) -> list[str]:
        """The names of the subjects."""
        return distinct(name for _, name in self.about)

    @property
    def headlines(self) -> list[str]:
        """Return each subject with its size: `ruby: 3,007 revisions, 17.4 MiB`."""
        found: dict[str, str] = {}
        for facts in map(dict, self._all_facts()):
            name = next((v for k, v in facts.items() if k in self.variants), "")
            parts = (
                [words.count_of(int(facts["youngest"]), "revision")]
                if facts.get("youngest")
                else []
            )
            parts += [words.size(facts["bytes"])] if facts.get("bytes") else []
            share = self.scales.get(str(name), 1.0)
            parts += [f"{100 * share:.2g} % of its published size"] if share < 1 else []
            found.setdefault(str(name), f"{name}: {', '.join(parts)}" if parts else str(name))
        return list(found.values())

    def _all_facts(self) -> Iterator[tuple[tuple[str, Any], ...]]:
        for variants in self.variants.values():
            yield from variants

    def smaller(self, published: float | None) -> list[tuple[str, float]]:
        """Those that were measured below the published scale, and their scale."""
        below = published or 0.0
        return [(name, scale) for name, scale in self.scales.items() if scale < below]

    def tables(self) -> list[Table]:
        """A table for each kind of which there is more to say than a name."""
        made = []
        for kind, found in self.variants.items():
            variants = [dict(facts) for facts in found]
            numbers = {fact for facts in variants for fact in facts if words.is_number(facts[fact])}
            columns = distinct(fact for facts in variants for fact in facts)
            columns.sort(key=numbers.__contains__)
            rows = sorted([[_written(c, facts.get(c, "")) for c in columns] for facts in variants])
            heads = [HEADINGS.get(c, c).replace("_", " ").capitalize() for c in columns]
            if len(columns) > 1:
                made.append(Table(kind, heads, rows, [c in numbers for c in columns]))
        return made


def kinds_of(study: Study) -> list[str]:
    """The kinds of subjects that the commands of a study are about: what they read, or else write."""
    commands = study.commands.values()
    found = (command.input or command.output for command in commands)
    return distinct(kind for kind in found if kind)


def _about(facts: Record) -> str:
    about, scale = str(facts.get("description") or facts.get("source") or ""), facts.get("scale")
    if scale is not None and "scale" not in about:
        about = f"{about}, scale {scale:g}" if about else f"scale {scale:g}"
    notes = [str(note).rstrip(".") for note in facts.get("notes") or []]
    return "; ".join(filter(None, [about, *notes]))


def _written(fact: str, value: Any) -> str:
    if not words.is_number(value):
        return str(value)
    return words.size(value) if fact == "bytes" else words.grouped(value)
