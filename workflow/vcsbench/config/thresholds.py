"""Define the thresholds of flags (evidence.judgement) and calls (compare.decisions).

The measuring process imports this module, so it must not import pydantic.
"""

from __future__ import annotations

LARGEST = 1e9
THRESHOLDS: dict[str, float] = {}
# By threshold: its documentation, its least and its largest value.
BOUNDS: dict[str, tuple[str, float, float]] = {}


def _define(
    name: str, default: float, meaning: str, most: float = LARGEST, least: float = 0
) -> None:
    THRESHOLDS[name] = default
    BOUNDS[name] = meaning, least, most


_define(
    "min_clock_gap_s",
    0.03,
    "`clock`: a gap of at most this many seconds between a run's own time and that of its hooks is "
    "ignored.",
)
_define(
    "max_clock_gap_share",
    0.25,
    "`clock`: hyperfine reported less time than passed between the hooks, by more than this share of that "
    "time.",
    most=1,
)
_define(
    "max_resident_share_cold",
    0.05,
    "`cache-not-cold`: more than this share of the repository was in memory before a cold run.",
    most=1,
)
_define(
    "min_read_share_cold",
    0.5,
    "`too-few-disk-reads`: a cold run read less than this share of the bytes that the discarded cold run of "
    "its copy read.",
    most=1,
)
_define(
    "max_foreign_share_cold",
    0.1,
    "`foreign-reads`: after a cold run, more than this share of the repository was in memory and had "
    "been read by neither client nor server.",
    most=1,
)
_define(
    "max_read_share_hot",
    0.02,
    "`cache-not-warm`: a hot run read more than this share of the repository from the device.",
    most=1,
)
_define(
    "max_read_share_hot_svn",
    0.9,
    "`cache-ineffective`: a server with hot caches read more than this share of the bytes that it read in "
    "its first run (from files, in memory or not).",
)
_define(
    "ignore_below_mib",
    1,
    "`cache-not-warm`, `too-few-disk-reads`, `foreign-reads`, `cache-ineffective`: at most this many MiB are "
    "ignored.",
)
_define(
    "min_memory_available_mib", 512, "`low-memory`: less than this was available before the run."
)
_define(
    "max_memory_pressure_pct",
    1,
    "`memory-pressure`: something waited for memory in more than this share of the run.",
)
_define(
    "max_io_pressure_pct",
    10,
    "`io-busy`: something waited for a device in more than this share of a hot run that itself neither "
    "read from one nor wrote.",
)
_define(
    "max_others_read_mib",
    4,
    "`io-busy`: other processes read more than this from the storage's device during the run.",
)
_define(
    "max_others_cpu_pct",
    10,
    "`cpu-busy`: other processes took more than this share of all cores during the run.",
)
_define(
    "max_steal_pct",
    2,
    "`cpu-steal`: the hypervisor gave more than this share of the processors' time to others.",
)
_define(
    "ignore_below_cpu_s",
    0.05,
    "`cpu-busy`, `cpu-steal`: at most this many CPU seconds are ignored; the kernel counts in ticks.",
)
_define(
    "max_cpu_share",
    0.9,
    "`saturated`: client and server together took more than this share of all cores' time.",
)
_define(
    "min_run_s", 0.2, "`too-short`: the median of the cell's valid runs is below this many seconds."
)
_define(
    "min_rounds",
    5,
    "`low-n`: with fewer rounds nothing is called, concluded or recommended.",
    most=10_000,
    least=2,
)
