"""Name the columns of measurements. Each axis of a study is a column next to them.

This module imports neither numpy nor pandas, because rules import it first.
"""

from vcsbench.evidence import run_columns
from vcsbench.metrics import COUNT, METRICS, NEEDED_COLUMNS
from vcsbench.records import Evidence

TIMES = ("elapsed_s", "user_s", "system_s", "server_cpu_s")
# The first and the last columns of measurements. Between them are the evidence and run_columns.
FIRST_COLUMNS = ("round", "run", *TIMES, "client_peak_memory_bytes")
LAST_COLUMNS = (
    # JSON, equal text for equal work; "" if unknown.
    "work",
    # The columns of run_columns.build_columns().
    "client", "client_version", "server", "server_version", "binaries",
    "client_mapped", "server_mapped",
    # The flags of invalid attempts before this run, a comma between attempts.
    "set_aside",
    "copy",
    # The position among all cell-rounds, and the seed of their order.
    "order", "seed",
    "scale", "storage_kind", "host",
    # The starts of the run and of its cell-round.
    "started_at", "cell_round_started_at",
    # Seconds: waiting for other measurements on the machine, and the whole cell-round.
    "waited_s", "cell_round_s",
    "flags",
)  # fmt: skip
# The promises about a run as JSON, only while measurements are collected. In a series of runs, the first one
# may be cold and the others hot.
STATE_COLUMN = "state"
# The conditions of a cell-round as JSON, also only while measurements are collected.
CONDITIONS = "conditions"
# All columns of grids and measurements without the axes, and the metrics that are computed from them.
MEASUREMENT_COLUMNS = {
    *("cell", "skip"),
    *FIRST_COLUMNS,
    *LAST_COLUMNS,
    *(STATE_COLUMN, CONDITIONS),
    *Evidence.__annotations__,
    "client_peak_memory_run",
    *("fixed_cost_s", "fixed_share"),
    *run_columns.COUNT_COLUMNS,
    *run_columns.CLIENT_COLUMNS,
    *run_columns.TRAFFIC_COLUMNS,
    *run_columns.SPACE_COLUMNS,
    *run_columns.TRACE_COLUMNS,
    *NEEDED_COLUMNS,
    *METRICS,
    COUNT,
}
# The columns without which nobody can use measurements, and those of them that have a number in each row.
RUN_COLUMNS_NEEDED = ("cell", "host", "round", "run", "elapsed_s", "started_at", "flags")
RUN_NUMBERS = ("round", "run")
# The columns of all CSV files of results that are numbers. All others are texts, also those of axes: a
# repository may have the name 007.
NUMBER_COLUMNS = frozenset(
    {
        # Of measurements.
        *("round", "run", *TIMES, "fixed_cost_s", "fixed_share", "sync_s", "scale"),
        *("waited_s", "cell_round_s", "others_cpu_pct"),
        *("resident_before", "resident_after", "server_age_s", "delayed_acks", "busy_s"),
        *run_columns.COUNT_COLUMNS,
        *run_columns.CLIENT_COLUMNS,
        *run_columns.TRAFFIC_COLUMNS,
        *run_columns.TRACE_COLUMNS,
        *run_columns.SPACE_COLUMNS,
        # The columns of a new metric are numbers without an entry here.
        *NEEDED_COLUMNS,
        # Of tables (statistics.comparisons.COLUMNS).
        *("value", "ratio", "low", "high", "n", "baseline_mean", "candidate_mean"),
        *("error", "degrees", "duplicate_sd", "detectable", "within"),
        # Of verdicts on findings and expectations (statistics.verdicts.FINDING_COLUMNS).
        *("published", "published_low", "published_high", "measured"),
    }
)
