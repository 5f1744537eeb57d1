"""Set the default thresholds of flags (evidence.judgement) and calls (statistics).

config.models.Thresholds documents them. The measuring process must not import pydantic.
"""

THRESHOLDS: dict[str, float] = {
    "min_clock_gap_s": 0.03,
    "max_clock_gap_share": 0.25,
    "max_resident_share_cold": 0.05,
    "min_read_share_cold": 0.5,
    "max_foreign_share_cold": 0.1,
    "max_read_share_hot": 0.02,
    "max_read_share_hot_svn": 0.9,
    "ignore_below_mib": 1,
    "min_memory_available_mib": 512,
    "max_memory_pressure_pct": 1,
    "max_io_pressure_pct": 10,
    "max_others_read_mib": 4,
    "max_others_cpu_pct": 10,
    "max_steal_pct": 2,
    "ignore_below_cpu_s": 0.05,
    "max_cpu_share": 0.9,
    "min_run_s": 0.2,
    "min_rounds": 5,
}
