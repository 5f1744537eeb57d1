"""How much of the machine the server kept busy."""

from vcsbench.metrics.metric import Metric

METRIC = Metric(
    name="server_load_pct",
    title="Server CPU of the machine",
    unit="%",
    reading="The server's CPU time in per cent of what all cores of the machine have in that time (its "
    "clients run on them as well); from the medians of the rounds.",
    quantity="server CPU",
    needs=("server_cpu_s", "carried_s", "cores"),
    value=lambda part: 100 * part["server_cpu_s"] / part["carried_s"] / part["cores"],
)
