"""What client and server execute in user mode: where the machine counts it, and lets us read that."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="instructions_m",
    title="Instructions in user mode",
    unit="million",
    reading="Instructions, in millions, that client and server together executed in user mode, as the "
    "processor counts them; the median of the rounds.",
    quantity="instructions",
    needs=("instructions",),
    value=lambda part: part["instructions"] / 1e6,
    exact=True,
    fewer="executes {} fewer instructions",
    words=Words("executes less", "executes more", "executes least", "executes most", "as few", ""),
)
