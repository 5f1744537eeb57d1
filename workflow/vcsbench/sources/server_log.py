"""Count the commands in the log of a Subversion server: the user's own mix of commands.

Two formats are known, plain or compressed:

- httpd with mod_dav_svn, for example `CustomLog logs/svn.log "%t %u %{SVN-ACTION}e" env=SVN-ACTION`, with
  lines such as `[28/Nov/2026:22:30:10 +0000] jane log (/trunk) r9:1`. An access log works, too, if the
  variable SVN-ACTION is one of its fields.
- svnserve with `--log-file`: `4711 2026-11-28T22:30:10.000000Z 10.0.0.1 jane repo log (/trunk) r9:1`.

Only the numbers of known actions are kept, and the number of lines with another one: its word may be the name
of a user. subversion/libsvn_subr/log.c in Subversion's sources has all actions.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vcsbench.config.configuration import WorkloadShare
from vcsbench.config.study import Study
from vcsbench.errors import UserError
from vcsbench.external import one_line
from vcsbench.sources.compressed import DAMAGED, open_decompressed
from vcsbench.words import count_of, enumeration

# The command that an action stands for (the key `logged_as` of a study's command).
LOGGED_COMMANDS = {
    # Clients send the same request for both.
    "checkout-or-export": "checkout-or-export",
    "update": "update",
    # The server does the same work for it.
    "switch": "update",
    "status": "status",
    "log": "log",
    # Since 1.10 one request; older clients send get-dir for each folder.
    "list": "list",
    "get-dir": "list",
    "commit": "commit",
    "get-file": "cat",
    "get-file-revs": "blame",
    "diff": "diff",
    "lock": "lock",
    "unlock": "unlock",
    # Of svnsync and svnrdump.
    "replay": "replay",
}
# Actions that are steps of other commands: most commands ask for the youngest revision, for locations or for
# inherited properties first.
LOGGED_STEPS = (
    *(
        "get-mergeinfo",
        "get-inherited-props",
        "get-location-segments",
        "get-locations",
        "get-locks",
    ),
    *("get-lock", "check-path", "stat", "reparent", "rev-prop", "rev-proplist", "change-rev-prop"),
)
# mod_dav_svn logs an update as `status` unless the client asks for all files in one answer, which no client
# since 1.8 does by default.
LOGGED_OVER_HTTP = {**LOGGED_COMMANDS, "status": "update"}
NAMES = {"checkout-or-export": "checkout or export"}
# The start of the arguments of an action: a path, a list of paths, or a revision.
_ARGUMENTS = rb" (?=[/(]|r-?\d)"
_WORDS = "|".join(sorted([*LOGGED_COMMANDS, *LOGGED_STEPS], key=len, reverse=True)).encode()
_ACTION = re.compile(rb"(?<![^ ])(" + _WORDS + rb")" + _ARGUMENTS)
# An action that this table lacks, behind one to three fields such as host, user and repository.
_UNKNOWN = re.compile(rb" ?(?:[^ ]+ ){1,3}[a-z][a-z-]{1,40}" + _ARGUMENTS)
_SVNSERVE_LINE = re.compile(rb"\d+ \d{4}-\d\d-\d\dT[\d:.]+Z ")
_HTTPD_TIME = re.compile(rb"\[\d\d/[A-Z][a-z]{2}/\d{4}:[\d:]+ [+-]\d{4}\]")
# The longest part of a line that is read at once. A line has paths, which may be long.
LINE_BYTES = 1 << 16


@dataclass(frozen=True)
class ServerLog:
    """The number of each command in a server's log, such as {"log": 750}, and of lines with unknown actions.

    A command of a study has one of these names in its key `logged_as`, such as "cat" for the action get-file
    (LOGGED_COMMANDS). Several commands may have the same one: checkout and export have "checkout-or-export".
    """

    name: str
    commands: Mapping[str, int]
    unknown: int

    def shares(self, study: Study, measured: Collection[str]) -> list[WorkloadShare]:
        """Return a weight in per cent for each measured command of a study whose `logged_as` is in the log.

        Such as [{"name": "log", "weight": 75.0, "where": {"command": "log"}}]. The weights add up to 100.
        Several measured commands with the same `logged_as` have equal weights: 750 of 1,000 commands are
        75 %, or 37.5 % for each of two.
        """
        commands_by_name = _commands_by_name(study, measured)
        counts = {name: self.commands[name] for name in commands_by_name if self.commands.get(name)}
        total = sum(counts.values())
        shares: list[WorkloadShare] = []
        for name, count in counts.items():
            commands = commands_by_name[name]
            weight = 100 * count / total / len(commands)
            for command in commands:
                where = {study.command_axis: command}
                shares.append({"name": command, "weight": weight, "where": where})
        return shares

    def sentences(self, study: Study, measured: Collection[str]) -> list[str]:
        """Return sentences on the commands of the log, and on those that the grid does not measure.

        Example of the first sentence: "svn.log has 1,000 commands: log 75 %, update 25 %." The last sentences
        are on commands with equal weights (shares), and on unknown actions in the log.
        """
        # read_server_log() refuses a log without commands, so the total is above 0.
        total = sum(self.commands.values())
        names = sorted(self.commands, key=lambda name: (-self.commands[name], name))
        percentages = []
        for name in names:
            percentages.append(f"{_label(name)} {100 * self.commands[name] / total:.3g} %")
        sentences = [f"{self.name} has {total:,} commands: {', '.join(percentages)}."]
        commands_by_name = _commands_by_name(study, measured)
        left_out = [_label(name) for name in names if name not in commands_by_name]
        if len(left_out) == len(names):
            sentences.append("The grid of this study measures none of them, so it has no weights.")
        elif left_out:
            sentences.append(f"The grid of this study does not measure {enumeration(left_out)}.")
        for name, commands in commands_by_name.items():
            if len(commands) > 1 and self.commands.get(name):
                sentences.append(
                    f"{enumeration(commands).capitalize()} have equal weights: the log does not tell them "
                    "apart."
                )
        if self.unknown:
            # The words are not kept: in a format of the user's own, one may be a name.
            lines = count_of(self.unknown, "line has", "lines have")
            sentences.append(f"{lines} an action that vcsbench does not know.")
        return sentences


def _commands_by_name(study: Study, measured: Collection[str]) -> dict[str, list[str]]:
    """Return measured commands of a study by their `logged_as`: {"log": ["log-root", "log-file"]}."""
    commands: defaultdict[str, list[str]] = defaultdict(list)
    for command, definition in study.commands.items():
        if definition.logged_as is not None and command in measured:
            commands[definition.logged_as].append(command)
    return dict(commands)


def _label(name: str) -> str:
    return NAMES.get(name, name)


@cache
def read_server_log(path: Path) -> ServerLog:
    """Count the commands in a server's log, plain or compressed.

    Raise UserError if the file cannot be read, is no server's log, or has no command of a client.
    """
    counter = _ActionCounter()
    try:
        with open_decompressed(path) as file:
            is_start_of_line = True
            chunk = file.readline(LINE_BYTES)
            while chunk:
                # The action of a line stands in front of the paths, so the rest of a longer line is skipped.
                if is_start_of_line:
                    counter.add(chunk)
                is_start_of_line = chunk.endswith(b"\n")
                chunk = file.readline(LINE_BYTES)
    except FileNotFoundError:
        raise UserError(f"{one_line(path)}: no such file. Check the path.") from None
    except DAMAGED as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{one_line(path)}: cannot be read: {reason}. Check the file and its permissions."
        ) from None
    if not counter.commands:
        # The file may be the log of a server that does not log the commands of clients.
        if counter.lines_of_log:
            fault = (
                'has no command of a Subversion client. Log them in httpd by `CustomLog FILE "%t %u '
                '%{SVN-ACTION}e" env=SVN-ACTION`.'
            )
        else:
            fault = (
                "is no log of httpd with mod_dav_svn or of svnserve (--log-file). Give one, plain or as .gz, "
                ".xz or .zst."
            )
        raise UserError(f"{one_line(path)}: {fault}")
    return ServerLog(path.name, dict(counter.commands), counter.unknown)


class _ActionCounter:
    """Counts the lines of a log that have a time, their commands, and the lines with an unknown action."""

    def __init__(self) -> None:
        self.lines_of_log = 0
        self.commands: Counter[str] = Counter()
        self.unknown = 0

    def add(self, line: bytes) -> None:
        """Count a line of the log as a command, as a line with an unknown action, or not at all.

        `line` may be the beginning of a long line, because the action stands near the beginning.
        """
        # In a line of httpd, the time may stand anywhere.
        svnserve_begin = _SVNSERVE_LINE.match(line)
        begin = svnserve_begin or _HTTPD_TIME.search(line)
        # A line without a time is no line of such a log.
        if begin is None:
            return
        self.lines_of_log += 1
        # The text after the time, such as `10.0.0.1 jane repo log (/trunk) r9:1`.
        text = line[begin.end() :]
        action = _find_action(text)
        if action is None and svnserve_begin is None:
            # The format of httpd's log may have the action in front of the time.
            action = _find_action(line[: begin.start()])
        if action is None:
            # In an access log, fields in quotation marks may have any words, such as the name of a browser.
            # So only a line without such fields can show an action that vcsbench does not know.
            has_quoted_field = b'"' in text
            if not has_quoted_field and _UNKNOWN.match(text):
                self.unknown += 1
            return
        # A step of a command, such as get-locations, is not counted: the command has a line of its own.
        if action in LOGGED_STEPS:
            return
        commands = LOGGED_COMMANDS if svnserve_begin else LOGGED_OVER_HTTP
        self.commands[commands[action]] += 1


def _find_action(text: bytes) -> str | None:
    """Return the first known action in the part of a line behind or before its time; None without one.

    Such as "log" for b"10.0.0.1 jane repo log (/trunk) r9:1". A quoted field of an access log must begin with
    the action, because another quoted field, such as the name of a browser, may contain the same words.
    """
    # The parts with odd numbers stand between two quotes.
    for number, part in enumerate(text.split(b'"')):
        is_quoted = number % 2 == 1
        match = _ACTION.match(part) if is_quoted else _ACTION.search(part)
        if match is not None:
            return match[1].decode()
    return None


def check_measured(log: ServerLog, studies: Sequence[tuple[Study, Collection[str]]]) -> None:
    """Raise UserError if no study measures a command of the log. `studies` have their measured commands."""
    if any(log.shares(study, measured) for study, measured in studies):
        return
    names = enumeration([_label(name) for name in sorted(log.commands)])
    raise UserError(
        f"{log.name}: it has {names}, and no grid of this session has a command with this `logged_as`. Add "
        "the key to a command, add its cells to the grid, or choose another study."
    )
