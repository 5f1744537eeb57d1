"""Labels of axes, values, cells, factors and questions, and the commands that apply an answer."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vcsbench.advice.decision import Row, Where
from vcsbench.axes.cache_states import CACHE_AXIS, cache_state
from vcsbench.axes.client_server import cache_bytes
from vcsbench.words import count_of, significant

AXES = {
    "ra": "access",
    "repo": "repository",
    "config": "settings",
    "filesystem": "file system",
    "strategy": "method",
    "sqlite_locking": "SQLite locking",
    "wire_compression": "compression",
    "network_delay": "network delay",
}
VALUES = {
    "format": {"f6-today": "f6 with today's settings"},
    "packing": {"pack": "packed", "nopack": "not packed"},
    "config": {
        "slow": "default settings",
        "default": "default settings",
        "medium": "256 MB cache",
        "fast": "tuned settings",
        "tuned": "tuned settings",
        "cache-256": "256 MB cache",
        "cache-1024": "1024 MB cache",
        "revprops": "revision property cache",
        "block-read": "block read",
        "no-compression": "no compression",
        "forking": "forking server",
        "threaded": "1024 MB cache",
    },
    "sqlite_locking": {"default": "default locking", "exclusive": "exclusive locking"},
    "reflink": {"on": "reflinks on", "off": "reflinks off"},
    "pristines": {"stored": "pristines stored", "none": "no pristines"},
    "wire_compression": {
        **{"on": "compression on", "off": "compression off"},
        "5": "svnserve's default compression",
    },
    "network_delay": {"0": "no delay"},
}
# A difference that is called, and smaller than the smallest effect worth noting.
SLIGHT = "sure but small"
_PERCENT_BELOW = 1.0995
# In a range that ends with a factor: `1.08x to 1.6x`, `3.0 % to 1.6x`.
_TIMES_FROM = 1.05
# The interval of two rounds can end beyond.
_LARGEST = 9999.0
_TWO_DECIMALS_BELOW = 1.195


def axis_label(axis: str) -> str:
    return AXES.get(axis, axis.replace("_", " "))


def value_label(axis: str, value: str) -> str:
    if axis == CACHE_AXIS:
        return cache_state(value).label or value
    if axis == "format" and "-to-" in value:
        return value.replace("-to-", " upgraded to ")
    if value in ("on", "off") and value not in VALUES.get(axis, {}):
        return f"{axis_label(axis)} {value}"
    if axis == "clients" and value.isdigit():
        return count_of(int(value), "client")
    return VALUES.get(axis, {}).get(value, value)


def case_label(where: Where, shown: Sequence[str]) -> str:
    """Return, for example, `export over svn, OS cache warm (f7, packed)`, with the values of `shown` axes."""
    command, cache, ra = (where.get(axis, "") for axis in ("command", "cache", "ra"))
    is_cold = cache_state(cache).is_cold
    head = [f"{'cold ' if is_cold else ''}{command}".strip()]
    if ra and "ra" in shown:
        head[0] = f"{head[0]} over {ra}".strip()
    if cache and not is_cold:
        # Over file there is no server whose cache is warm.
        is_without_server = ra == "file" and cache_state(cache).keeps_server
        head.append("caches warm" if is_without_server else value_label(CACHE_AXIS, cache))
    rest = [a for a in shown if a not in ("command", "cache", "ra") and where.get(a)]
    others = ", ".join(value_label(axis, where[axis]) for axis in rest)
    text = ", ".join(filter(None, head))
    return f"{text} ({others})" if text and others else text or others or "all cases"


def group_label(where: Where) -> str:
    """Return the name that cells with the same command and temperature share: `cold log`."""
    cache, command = where.get(CACHE_AXIS, ""), where.get("command", "")
    if not cache:
        return command
    return f"{'cold' if cache_state(cache).is_cold else 'warm'} {command}".strip()


def factor(ratio: float) -> str:
    """Return a factor of at least 1 as `5.7 %`, `1.12x`, `2.9x`, `12x`, at most `9999x`."""
    if ratio < _PERCENT_BELOW:
        return f"{100 * (ratio - 1):.1f} %"
    return times(min(ratio, _LARGEST), _TWO_DECIMALS_BELOW)


def times(ratio: float, two_decimals_below: float = 1.995) -> str:
    """Return any ratio as `0.074x`, `0.74x`, `1.12x`, `1.64x`, `2.1x`, `11x`."""
    if ratio < 0.0995:
        return f"{significant(ratio, 2)}x"
    return f"{ratio:.{2 if ratio < two_decimals_below else 1 if ratio < 9.95 else 0}f}x"


def times_between(low: float, high: float) -> str:
    """Return `1.2x to 1.9x`, with a further digit if both ends are equal without it."""
    texts = [times(end) for end in (low, high)]
    if texts[0] == texts[1] and low != high:
        texts = [f"{significant(end)}x" for end in (low, high)]
    return " to ".join(dict.fromkeys(texts))


def factors(ratios: Sequence[float]) -> str:
    low, high = factor(min(ratios)), factor(max(ratios))
    if high.endswith("%"):
        low = low.removesuffix(" %") if low != high else low
    else:
        low = times(min(ratios)) if low.endswith("%") and min(ratios) >= _TIMES_FROM else low
        # Both ends have the same decimals.
        is_close = min(ratios) < _TWO_DECIMALS_BELOW <= max(ratios) < 1.995 and low.endswith("x")
        high = times(max(ratios)) if is_close else high
    return high if low == high else f"{low} to {high}"


def at_least_1(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def slight(ratios: Sequence[float], min_effect_pct: float) -> str:
    """Return ` (sure but small)` if all ratios of called differences are below the smallest effect."""
    is_slight = all(at_least_1(ratio) < 1 + min_effect_pct / 100 for ratio in ratios)
    return f" ({SLIGHT})" if is_slight else ""


def change(ratio: float, words: tuple[str, str] = ("faster", "slower")) -> str:
    """Return a ratio baseline / candidate as the candidate's change: `5.7 % slower`, `2.4x faster`."""
    if ratio <= 0:
        return f"infinitely {words[1]}"
    return f"{factor(at_least_1(ratio))} {words[ratio < 1]}"


def change_between(low: float, high: float, words: tuple[str, str] = ("faster", "slower")) -> str:
    """Return an interval of ratios: `3.0 to 8.3 % slower`, `2.0 % slower to 4.0 % faster`."""
    if (low < 1) == (high < 1):
        return f"{factors([at_least_1(low), at_least_1(high)])} {words[low < 1]}"
    return f"{change(low, words)} to {change(high, words)}"


def seconds(value: float, more_digits: int = 0) -> str:
    return f"{value:.{more_digits + (3 if value < 0.0995 else 2 if value < 9.95 else 1)}f} s"


def seconds_of_both(times: Sequence[float]) -> list[str]:
    """Return two times with a digit more if they are close, so that their quotient agrees with the factor."""
    is_close = len(times) == 2 and 0 < min(times) < max(times) < 1 and max(times) < 1.2 * min(times)
    return [seconds(time, is_close) for time in times]


def detectable_text(ratio: float) -> str:
    """Return the smallest detectable difference, below a factor of 2 in per cent."""
    return f"{100 * (ratio - 1):.2g} %" if ratio < 1.995 else factor(ratio)


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
