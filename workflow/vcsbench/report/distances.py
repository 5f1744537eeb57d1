"""How many revisions an update went over: fewer than its command says at a scale, or of a shorter history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vcsbench.config.study import Study
from vcsbench.report.records import Record
from vcsbench.words import count_of, grouped


def distances(contexts: Iterable[Record], study: Study) -> dict[str, list[str]]:
    """A sentence for each repository over whose revisions a command went, by the command's name."""
    found: dict[str, dict[str, None]] = {}
    for context in contexts:
        first, last = (context.get("working_copy") or {}).get("revisions") or (0, 0)
        command = study.command_name(context.get("axes") or {})
        if 0 < first < last:
            wanted = (
                study.commands[command].revisions_behind if command in study.commands else 0
            ) or 0
            said = _said(command, first, last, wanted, context.get("repository") or {})
            found.setdefault(command, {})[said] = None
    return {command: list(said) for command, said in found.items()}


def _said(command: str, first: int, last: int, wanted: int, repository: Mapping[str, Any]) -> str:
    of = f" of {repository['name']}" if repository.get("name") else ""
    over = count_of(last - first, "revision")
    said = f"{command}{of} goes over {over}, from {grouped(first)} to {grouped(last)}"
    if last - first >= wanted:
        return f"{said}."
    scale = repository.get("scale")
    why = f"the repository is at scale {scale:g}" if scale not in (None, 1) else "there are no more"
    return f"{said}, and not over {grouped(wanted)}: {why}."


def told_of(table: Iterable[Record], study: Study, found: Mapping[str, Sequence[str]]) -> list[str]:
    """The sentences on the commands that a table has rows of."""
    commands = {study.command_name(row) for row in table}
    return [sentence for name in found if name in commands for sentence in found[name]]
