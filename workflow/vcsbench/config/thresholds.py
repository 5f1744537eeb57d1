"""From when on a run's evidence earns a flag (evidence.judgement), and from how many rounds on something is
concluded (compare.decisions), where the configuration does not say."""

from __future__ import annotations

# Documented in the schema of the configuration, key `thresholds`.
THRESHOLDS: dict[str, float] = {
    "clock_floor_s": 0.03,
    "clock_share": 0.25,
    "cold_resident_share": 0.05,
    "cold_reads_share": 0.5,
    "cold_foreign_share": 0.1,
    "hot_read_share": 0.02,
    "hot_svn_reads_share": 0.9,
    "read_floor_mib": 1,
    "memory_available_mib": 512,
    "memory_pressure_pct": 1,
    "io_pressure_pct": 10,
    "others_read_mib": 4,
    "others_cpu_pct": 10,
    "steal_pct": 2,
    "cpu_floor_s": 0.05,
    "saturated_share": 0.9,
    "short_s": 0.2,
    "enough_rounds": 5,
}
