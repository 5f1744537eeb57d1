"""How much of the elapsed time the client computed: it passes 100 % where it does so in several threads."""

from vcsbench.metrics.metric import Metric

METRIC = Metric(
    name="client_cpu_pct",
    title="Client CPU",
    unit="%",
    reading="The client's CPU time, user and system, in per cent of the elapsed time; from the medians of "
    "the rounds.",
    quantity="client CPU",
    needs=("elapsed_s", "user_s", "system_s"),
    parts={
        "cpu_s": lambda run: run["user_s"] + run["system_s"],
        "elapsed_s": lambda run: run["elapsed_s"],
    },
    value=lambda part: 100 * part["cpu_s"] / part["elapsed_s"],
)
