"""Questions of a study, and the commands that apply an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vcsbench.advice.decision import Row
from vcsbench.advice.labels import axis_label
from vcsbench.axes.client_server import cache_bytes

QUESTIONS = {
    "packing": "Pack?",
    "config": "Settings?",
    "format": "Format?",
    "build": "Build?",
    "sqlite_locking": "Exclusive?",
    "filesystem": "Files on?",
    "wire_compression": "Compress?",
}
SVNSERVE = "Start it with these options (cache in MB), also in its service file. Connections end."
HTTPD_SERVER = "In httpd.conf, outside of any <Location>:"
HTTPD_LOCATION = "In httpd.conf, in the <Location> of the repository:"
# httpd refuses these directives in a <Location>.
SERVER_LEVEL = re.compile(r"SVN(InMemoryCacheSize|CompressionLevel)\b", re.I)
# Settings that not everybody needs, and why.
OPTIONAL = {
    re.compile(r"(SVNBlockRead|--block-read) \S+", re.I): "Has an effect only with format 7 or 8.",
    re.compile(r"(SVNCompressionLevel|--compression) \S+", re.I): (
        "Optional, for a fast network: less CPU, more bytes. On a slow network leave it out."
    ),
}
NOTE = "Measured with all of these lines, over loopback."
UNDO = "Remove the lines and restart."
PROCESSES = "their number: MaxRequestWorkers / ThreadsPerChild, such as 400 / 25 = 16"
DEFAULT_CACHE = 16 << 20


class ActionStep(NamedTuple):
    """A command that applies a value; `server` if it concerns one server only."""

    command: str
    server: str = ""
    note: str = ""


RESTART = ActionStep(
    "apachectl configtest && apachectl graceful", "httpd", "Then check and reload:"
)


@dataclass(frozen=True)
class CardAction:
    """The commands that apply a value, their side effects (`note`), price, and the way back (`undo`).

    `condition` completes "if": it interrupts the service.
    """

    steps: Sequence[ActionStep] = ()
    note: str = ""
    cost: str = ""
    undo: str = ""
    condition: str = ""


@dataclass(frozen=True)
class CardQuestion:
    """A question of a study.

    `yes_value` makes the answer yes or no, `actions` are by value ("" for a question that this run
    cannot answer), `aggregate` requests one answer over all cells.
    """

    axis: str
    text: str
    values: Sequence[str] = ()
    yes_value: str = ""
    actions: Mapping[str, CardAction] = field(default_factory=dict)
    aggregate: bool = False

    @property
    def short(self) -> str:
        if self.values:
            return f"{'/'.join(self.values)}?"
        return QUESTIONS.get(self.axis, f"{axis_label(self.axis).capitalize()}?")


def questions_of(questions: Mapping[str, Row], settings: Mapping[str, Row]) -> list[CardQuestion]:
    """Return the questions by axis. `settings` has the settings of each server by axis and value."""
    made = []
    for axis, question in questions.items():
        actions = {}
        for value, servers in settings.get(axis, {}).items():
            changed = {name: text for name, text in servers.items() if text}
            steps = [step for name, text in changed.items() for step in _setting_steps(name, text)]
            if steps:
                actions[value] = CardAction(steps, NOTE, _cost_of_settings(changed), UNDO)
        asked = {"": question.get("how_to_measure", {}), **question.get("actions", {})}
        for value, action in asked.items():
            texts = [action.get(key) or "" for key in ("note", "cost", "undo", "condition")]
            steps = [ActionStep(action["command"])] if action.get("command") else []
            if steps or any(texts):
                actions[value] = CardAction(steps, *texts)
        values, yes = list(question.get("values", ())), question.get("yes_value", "")
        aggregate = bool(question.get("aggregate"))
        made.append(CardQuestion(axis, question["question"], values, yes, actions, aggregate))
    return made


def _setting_steps(server: str, settings: str) -> list[ActionStep]:
    """Return the settings of a server: one step per place, then each optional setting alone."""
    optional = {
        match[0]: reason
        for setting, reason in OPTIONAL.items()
        if (match := setting.search(settings))
    }
    for setting in optional:
        settings = settings.replace(setting, "")
    steps, lines = [], [" ".join(line.split()) for line in settings.splitlines() if line.strip()]
    if server == "httpd":
        for is_server, place in ((True, HTTPD_SERVER), (False, HTTPD_LOCATION)):
            of = [line for line in lines if bool(SERVER_LEVEL.match(line)) == is_server]
            steps += [ActionStep("\n".join(of), server, place)] * bool(of)
    else:
        steps.append(ActionStep("\n".join(lines), server, SVNSERVE))
    for setting, reason in optional.items():
        place = HTTPD_SERVER if SERVER_LEVEL.match(setting) else HTTPD_LOCATION
        place = place if server == "httpd" else "Add to it:"
        steps.append(ActionStep(setting, server, f"{reason} {place}"))
    return [*steps, RESTART] if server == "httpd" else steps


def _cost_of_settings(servers: Mapping[str, str]) -> str:
    sizes = [n for server, text in servers.items() for n in cache_bytes(server, text)]
    mib = max(sizes, default=DEFAULT_CACHE) / (1 << 20)
    memory = f"{mib / 1024:g} GiB" if mib >= 1024 else f"{mib:g} MiB"
    each = {"httpd": f"for each httpd process ({PROCESSES})", "svnserve": "for svnserve"}
    places = " or ".join(text for name, text in each.items() if name in servers)
    return f"Up to {memory} of memory {places}. One restart (httpd: graceful; svnserve: connections end)."
