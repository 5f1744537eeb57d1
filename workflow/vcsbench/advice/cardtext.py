"""Cards as Markdown, for a pull request or a mail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def markdown_of(title: str, cards: Sequence[Mapping[str, Any]]) -> str:
    """The cards (cards.Card as data) under a study's title: each its question, its answer, by how much, where
    that is not so, and what to type."""
    parts = [f"## {_plain(title)}"]
    for card in cards:
        lines = [f"**{_plain(card['ask'])}** {_plain(card['answer'])}", ""]
        lines += [_plain(one) for one in (card["said"], card["gain"]) if one]
        lists = [*card["parts"], *card["costs"]]
        lines += ["", *(f"- {_plain(one)}" for one in lists)] if lists else []
        for one in card["do"]:
            typed = f" `{one['command']}`" if one["command"] else ""
            lines += ["", f"{_plain(one['value'])}:{typed} {_code(one['note'])}".rstrip()]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Text in which nothing is markup."""
    return "".join(f"\\{c}" if c in "\\`*_<>|[]#" else c for c in text)


def _code(text: str) -> str:
    """Text in which backquotes are what they are: they stand in a study's file."""
    return "`".join(part if at % 2 else _plain(part) for at, part in enumerate(text.split("`")))
