"""List the keys that were renamed: an old key is an error that names the new one."""

from __future__ import annotations

# By the name of a model: old keys with their new names.
RENAMED: dict[str, dict[str, str]] = {
    "Settings": {
        "twins": "duplicates",
        "notable_pct": "min_effect_pct",
        "notable_noisy_pct": "min_effect_pct_if_noisy",
        "spacer_kib": "fragmentation_kib",
        "cold_client": "skip_client_warmup",
        "targets": "output_location",
        "mix": "workload",
    },
    "StudySets": {"otherwise": "default"},
    "Thresholds": {
        "enough_rounds": "min_rounds",
        "clock_floor_s": "min_clock_gap_s",
        "clock_share": "max_clock_gap_share",
        "cold_resident_share": "max_resident_share_cold",
        "cold_reads_share": "min_read_share_cold",
        "cold_foreign_share": "max_foreign_share_cold",
        "hot_read_share": "max_read_share_hot",
        "hot_svn_reads_share": "max_read_share_hot_svn",
        "read_floor_mib": "ignore_below_mib",
        "memory_available_mib": "min_memory_available_mib",
        "memory_pressure_pct": "max_memory_pressure_pct",
        "io_pressure_pct": "max_io_pressure_pct",
        "others_read_mib": "max_others_read_mib",
        "others_cpu_pct": "max_others_cpu_pct",
        "steal_pct": "max_steal_pct",
        "cpu_floor_s": "ignore_below_cpu_s",
        "saturated_share": "max_cpu_share",
        "short_s": "min_run_s",
    },
    "StudyFile": {
        "held": "defaults",
        "noise_class": "variance_group",
        "given": "scenario_axes",
        "count_calls": "trace_syscalls",
        "lead": "featured_tables",
    },
    "Command": {
        "reads": "input",
        "writes": "output",
        "targets": "output_location",
        "behind": "revisions_behind",
        "choice": "reference_only",
        "until_written": "measure_sync",
        "without": "inapplicable_axes",
        "only": "restrict_to",
        "held": "defaults",
    },
    "Question": {
        "ask": "question",
        "yes": "yes_value",
        "between": "values",
        "against_baseline": "vs_baseline",
        "apart": "per_axis",
        "overall": "aggregate",
        "measure": "how_to_measure",
        "do": "actions",
    },
    "Measure": {"type": "command", "says": "note"},
    "Action": {"type": "command", "says": "note"},
}
# Old values of `work`, and of `format` and `packing` in parts of a grid.
WORK = {
    "apart": "unchecked",
    "built": "built_tree",
    "loaded": "repository",
    "text": "stdout",
    "none": "opaque",
    "counts": "printed_counts",
}
GRID = {"own": "current", "where full": "if_packable"}
