"""The cards at the head of the page: answers as advice has them, with their words explained where they are
met first."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from vcsbench import words
from vcsbench.axes import axis_of, with_files
from vcsbench.evidence.flags import has_false_label
from vcsbench.report.results import Results

# So many flags are named, those of the most runs.
FLAGS_NAMED = 3


def cards_of(results: Results) -> list[dict[str, Any]]:
    """The cards, each case with its ratio and interval as they are written."""
    found = []
    for card in results.advice.get("cards", []):
        cases = [{**case, "times": _times(case)} for case in card["cases"]]
        found.append({**card, "cases": cases})
    return found


def _times(case: Mapping[str, Any]) -> str:
    ratio, low, high = (words.significant(case[key]) for key in ("ratio", "low", "high"))
    return f"{ratio} ({low} to {high})"


def words_of(results: Results) -> list[tuple[str, str]]:
    """What the values that the grid has mean, each once, in the order of the axes; then other words."""
    glossary = results.glossary
    found: dict[str, str] = {}
    for axis in results.order:
        values = dict.fromkeys(row.get(axis, "") for row in results.grid)
        found |= {value: said for value in values if (said := glossary.of(axis, value))}
    # The name of an axis is explained where a study has it.
    missing = set(with_files()) - set(results.order)
    others = {w: said for w, said in glossary.others.items() if w not in found.keys() | missing}
    return [*found.items(), *others.items()]


def meanings_of(results: Results) -> dict[str, str]:
    """What the words mean that the sentences of a study have: values of the grid, as they are told (those
    of an axis that does not speak with its name in front), and others."""
    glossary = results.glossary
    found = dict(glossary.others)
    for axis in results.order:
        before = "" if axis_of(axis).speaks else f"{axis} "
        for value in dict.fromkeys(row.get(axis, "") for row in results.grid):
            if said := glossary.of(axis, value):
                found[f"{before}{value}"] = said
    return found


def explain(meanings: Mapping[str, str]) -> Callable[[str], Any]:
    """Makes HTML of a text: the first time that a word is met, it carries its meaning, and what stands
    between backquotes is code. The function remembers what it has met."""
    from markupsafe import Markup

    met: set[str] = set()
    known = sorted(meanings, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, known)) or '(?!)'})(?![\w-])")

    def first(found: re.Match[str]) -> str:
        word = found.group()
        if word in met:
            return word
        met.add(word)
        return f'<abbr title="{escape(meanings[word])}">{word}</abbr>'

    def marked(text: str) -> Any:
        parts = [escape(part, quote=False) for part in text.split("`")]
        return Markup(
            "".join(
                f"<code>{part}</code>" if at % 2 else pattern.sub(first, part)
                for at, part in enumerate(parts)
            )
        )

    return marked


def quality_line(results: Results, facts: Mapping[str, Any], flagged: Sequence[Any]) -> str:
    """The quality of the data in a line: what was measured, failed and skipped, how many runs were left out,
    and the flags that most runs carry."""
    said = f"{facts['measured']} of {words.count_of(facts['cells'], 'cell')} measured"
    failed = words.count_of(facts["failures"], "cell-round")
    parts = [said, f"{failed} failed" if facts["failures"] else "none failed"]
    if facts["skipped"]:
        parts.append(f"{facts['skipped']} cannot be measured here")
    false = sum(has_false_label(row.get("flags") or "") for row in results.measurements)
    share = f"{words.grouped(false)} of {words.count_of(len(results.measurements), 'run')}"
    parts.append(f"{share} left out, not being what the label says" if false else "no run left out")
    named = [f"{one.word} on {words.count_of(one.runs, 'run')}" for one in flagged[:FLAGS_NAMED]]
    more = [f"{len(flagged) - FLAGS_NAMED} more"] if len(flagged) > FLAGS_NAMED else []
    parts.append(f"flags: {words.enumeration([*named, *more])}" if named else "no flags")
    return "; ".join(parts)
