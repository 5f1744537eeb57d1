"""How much of the machine the clients kept busy."""

from vcsbench.metrics.metric import Metric

METRIC = Metric(
    name="client_load_pct",
    title="Client CPU of the machine",
    unit="%",
    reading="The CPU time of all clients together in per cent of what all cores of the machine have in that "
    "time; from the medians of the rounds.",
    quantity="client CPU",
    needs=("user_s", "system_s", "carried_s", "cores"),
    parts={
        "cpu_s": lambda run: run["user_s"] + run["system_s"],
        "carried_s": lambda run: run["carried_s"],
        "cores": lambda run: run["cores"],
    },
    value=lambda part: 100 * part["cpu_s"] / part["carried_s"] / part["cores"],
)
