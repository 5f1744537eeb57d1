"""The questions of a study's file as Question objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcsbench.advice.cards import Question


def questions_of(
    questions: Mapping[str, Mapping[str, Any]], typed: Mapping[str, Mapping[str, str]]
) -> list[Question]:
    """Return the questions of a study by axis; `typed` has commands for values without one."""
    found = []
    for axis, question in questions.items():
        actions = {value: _action(action) for value, action in question.get("actions", {}).items()}
        for value, command in typed.get(axis, {}).items():
            actions.setdefault(value, {"command": command, "note": ""})
        found.append(
            Question(
                axis=axis,
                text=question["question"],
                values=list(question.get("values", ())),
                yes_value=question.get("yes_value", ""),
                actions=actions,
                measure=_action(question.get("how_to_measure", {})),
                aggregate=bool(question.get("aggregate")),
                vs_baseline=bool(question.get("vs_baseline")),
            )
        )
    return found


def _action(action: Mapping[str, str]) -> dict[str, str]:
    return {"command": action.get("command", ""), "note": action.get("note", "")}
