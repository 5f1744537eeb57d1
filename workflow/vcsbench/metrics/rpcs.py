"""How often this machine's NFS client called a server."""

from vcsbench.metrics.metric import Metric, less_often

METRIC = Metric(
    name="rpcs",
    title="RPCs",
    unit="RPCs",
    reading="How many calls this machine's NFS client made while the command ran, the median of the rounds: "
    "what the network's latency is multiplied by.",
    quantity="RPCs",
    needs=("rpcs",),
    exact=True,
    fewer="makes {} fewer RPCs",
    words=less_often("calls the server"),
)
