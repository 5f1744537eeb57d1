"""Labels of axes, values, cases and factors, as the page and the terminal print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Where = Mapping[str, str]

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
    "cache": {
        "cold": "cold",
        "hot": "caches warm",
        "hot-os": "OS cache warm",
        "hot-svn": "server cache warm",
    },
    "reflink": {"on": "reflinks on", "off": "reflinks off"},
    "pristines": {"stored": "pristines stored", "none": "no pristines"},
    "wire_compression": {"on": "compression on", "off": "compression off"},
}
# A circle is a cache: empty, half full (the OS cache), full (the server's cache, too).
PICTOGRAMS = {"cold": "○", "hot": "●", "hot-os": "◐", "hot-svn": "●"}
# Below this factor a percentage reads better.
_PERCENT_BELOW = 1.195


def axis_label(axis: str) -> str:
    """Return the name of an axis: `access` for `ra`."""
    return AXES.get(axis, axis.replace("_", " "))


def value_label(axis: str, value: str) -> str:
    """Return the name of an axis value: `not packed` for `nopack`, `f6 upgraded to f8` for `f6-to-f8`."""
    if axis == "format" and "-to-" in value:
        return value.replace("-to-", " upgraded to ")
    if value in ("on", "off") and value not in VALUES.get(axis, {}):
        return f"{axis_label(axis)} {value}"
    return VALUES.get(axis, {}).get(value, value)


def case_label(where: Where, told: Sequence[str]) -> str:
    """Return the name of a case: `cold log over http`, `export over svn, OS cache warm (f7, packed)`.

    `told` are the axes that distinguish the cases of a question, in the study's order.
    """
    command, cache, ra = (where.get(axis, "") for axis in ("command", "cache", "ra"))
    head = [f"{'cold ' if cache == 'cold' else ''}{command}".strip()]
    if ra and "ra" in told:
        head[0] = f"{head[0]} over {ra}".strip()
    if cache and cache != "cold":
        head.append(value_label("cache", cache))
    rest = [a for a in told if a not in ("command", "cache", "ra") and where.get(a)]
    others = [value_label(a, where[a]) for a in rest]
    text = ", ".join(filter(None, head))
    if not text:
        return ", ".join(others) or "all cases"
    return f"{text} ({', '.join(others)})" if others else text


def group_label(where: Where) -> str:
    """Return the short name of cases with the same command and temperature: `cold log`, `hot export`."""
    cache = where.get("cache", "")
    temperature = "" if not cache else "cold " if cache == "cold" else "hot "
    return f"{temperature}{where.get('command', '')}".strip()


def factor(ratio: float) -> str:
    """Return a factor of at least 1 as text: `8 %`, `2.9x`, `12x`."""
    if ratio < _PERCENT_BELOW:
        return f"{100 * (ratio - 1):.0f} %"
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:.0f}x"


def factors(ratios: Sequence[float]) -> str:
    """Return the smallest and the largest factor: `2.4x to 6.9x`, or one of them if both read the same."""
    ends = [factor(min(ratios)), factor(max(ratios))]
    if ends[0] == ends[1]:
        return ends[0]
    return f"{ends[0].removesuffix(' %') if ends[1].endswith('%') else ends[0]} to {ends[1]}"


def seconds(value: float) -> str:
    """Return a time: `0.47 s`, `12.3 s`, `0.031 s`."""
    return (
        f"{value:.3f} s"
        if value < 0.0995
        else f"{value:.2f} s"
        if value < 9.95
        else f"{value:.1f} s"
    )
