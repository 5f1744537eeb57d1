"""Define the metrics: where a value comes from, its unit, and which of two values is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vcsbench.codes import Call, WithheldCode

if TYPE_CHECKING:
    from pandas import Series

Column: TypeAlias = "Series[float] | float"
MetricColumns = Mapping[str, Column]

LOW, HIGH = "low", "high"
DEFAULT_METRIC = "elapsed_s"
# COUNT names the count in the tables of the metric COUNTS, as an axis does.
COUNT, COUNTS = "count", "counts"
MIB = 2**20
# By column of the measurements: the code why the kernel may not have counted it. Times are never missing, so
# their columns are not here.
_KERNEL_COLUMNS = (
    "call_bytes", "device_bytes", "call_written_bytes", "dirtied_bytes", "written_bytes",
    "read_calls", "flushes", "wire_bytes", "server_cpu_s", "git_objects",
)  # fmt: skip
WHY_UNCOUNTED = {
    "instructions": WithheldCode.NO_COUNTER,
    **dict.fromkeys(_KERNEL_COLUMNS, WithheldCode.HIDDEN_COUNT),
}


class MetricWords(NamedTuple):
    """Words for a better and a worse value: `faster`, or `less` behind the verb `reads`.

    A factor has them without a verb: `2.0x faster`, `2.0x less`. If `own_verb` is "", the verb is `is`.
    """

    better: str
    worse: str
    own_verb: str = ""

    @property
    def verb(self) -> str:
        return self.own_verb or "is"

    @property
    def is_better(self) -> str:
        """Return the end of a sentence: `is faster`, `reads less`."""
        return f"{self.verb} {self.better}"

    @property
    def better_in_short(self) -> str:
        """Return the end of a heading, which has no `is`: `faster`, `reads less`."""
        return f"{self.own_verb} {self.better}".lstrip()


LESS = MetricWords("lower", "higher")
MORE = MetricWords("higher", "lower")
FASTER = MetricWords("faster", "slower")


def _less(verb: str) -> MetricWords:
    return MetricWords("less", "more", verb)


def _less_often(verb: str) -> MetricWords:
    return MetricWords("less often", "more often", verb)


def _only_part(parts: MetricColumns) -> Column:
    """Return the value of a metric that has one part: the part itself."""
    return next(iter(parts.values()))


@dataclass(frozen=True)
class Metric:
    """One metric, such as the elapsed time. Its name is its column in aggregated frames.

    A value is computed in three steps: `parts` computes values of each run from the columns `needs`, they are
    aggregated over runs and rounds, and `value` computes the metric from these aggregates. So the client's
    CPU share is a quotient of medians, as published.
    """

    name: str
    title: str
    unit: str
    # The compared values in a sentence, such as `bytes read`; a plural if they are counts.
    quantity: str
    # The explanation of a table of the metric.
    reading: str
    words: MetricWords = LESS
    # Columns of the measurements (default: the column with the metric's name).
    needs: tuple[str, ...] = ()
    # Values of a run, which are aggregated over runs and rounds (default: the columns themselves).
    parts: Mapping[str, Callable[[MetricColumns], Column]] = field(default_factory=dict)
    # The metric by its aggregated parts (default: the only part).
    value: Callable[[MetricColumns], Column] = _only_part
    # LOW or HIGH.
    better: str = LOW
    # A count, which has no noise.
    exact: bool = False
    # Counted in one separate run for all rounds of a cell.
    once: bool = False

    def __post_init__(self) -> None:
        # A frozen dataclass sets fields that depend on other fields in this way.
        if not self.needs:
            object.__setattr__(self, "needs", (self.name,))
        if not self.parts:
            object.__setattr__(self, "parts", {name: itemgetter(name) for name in self.needs})

    @property
    def why_missing(self) -> WithheldCode | None:
        """Return the code why a measured cell may have no value; None if every cell has one."""
        if self.once:
            return WithheldCode.UNTRACED
        for name in self.needs:
            if name in WHY_UNCOUNTED:
                return WHY_UNCOUNTED[name]
        return None

    @property
    def gain(self) -> int:
        """Return 1 if a ratio baseline / candidate above 1 means a better candidate, otherwise -1."""
        return 1 if self.better == LOW else -1

    @property
    def is_duration(self) -> bool:
        """Return True for the time from one moment to another, which is never 0. A CPU time may be 0."""
        # Only the metrics of durations have these words.
        return self.words is FASTER

    @property
    def takes_mean(self) -> bool:
        """Return True if tables have the geometric mean of the rounds, as comparisons do: for all times."""
        return self.is_duration or self.unit == "s"

    @property
    def calls(self) -> tuple[Call, Call]:
        """Return the outcomes for a candidate whose ratio baseline / candidate is above 1, and below 1."""
        # `faster` does not fit other metrics, such as bytes.
        if self.is_duration:
            return Call.FASTER, Call.SLOWER
        return Call.LESS, Call.MORE

    @property
    def change_words(self) -> tuple[str, str]:
        """Return the words for a candidate whose ratio baseline / candidate is above 1, and below 1.

        They are ("faster", "slower") for a duration, and ("lower", "higher") for a throughput.
        """
        # With a ratio above 1, the candidate has the smaller value.
        if self.better == LOW:
            return self.words.better, self.words.worse
        return self.words.worse, self.words.better


def _in_mib(
    column: str, name: str, title: str, quantity: str, words: MetricWords, reading: str
) -> Metric:
    """Return a metric that shows a column of bytes in MiB: the column `device_bytes`, the name `device_mib`.

    The other arguments are fields of Metric. A lower value is better, unless `words` is MORE.
    """
    return Metric(
        name,
        title,
        "MiB",
        quantity,
        reading,
        words,
        needs=(column,),
        value=lambda parts: parts[column] / MIB,
        better=HIGH if words is MORE else LOW,
        exact=True,
    )


def _traced(
    name: str, title: str, unit: str, quantity: str, words: MetricWords, reading: str
) -> Metric:
    """Return a metric that is counted in the separate, untimed run of a cell under strace."""
    method = "Counted once per cell in a separate run under strace, client and server together."
    reading = f"{reading} {method}"
    return Metric(name, title, unit, quantity, reading, words, exact=True, once=True)


# fmt: off
_TIMES = (
    Metric("elapsed_s", "Elapsed time", "s", "time of",
           "Elapsed seconds, geometric mean of the rounds.", FASTER),
    Metric("fastest_client_s", "Fastest client", "s", "time of the fastest client",
           "Seconds from the start of the fastest client to its end, geometric mean of the rounds.",
           FASTER),
    Metric("slowest_client_s", "Slowest client", "s", "time of the slowest client",
           "Seconds from the start of the slowest client to its end, geometric mean of the rounds.",
           FASTER),
    Metric("on_device_s", "Time until it is on the device", "s", "time until on the device",
           "Seconds from the start of a run until its data is on the device: elapsed time plus a sync.",
           FASTER, ("elapsed_s", "sync_s"), value=lambda part: part["elapsed_s"] + part["sync_s"]),
    Metric("user_s", "User time", "s", "user time",
           "Processor seconds in the command's own code, geometric mean of the rounds.", _less("takes")),
    Metric("system_s", "System time", "s", "system time",
           "Processor seconds in the kernel for the command, geometric mean of the rounds.", _less("takes")),
    Metric("server_cpu_s", "Server CPU time", "s", "server CPU time",
           "Processor seconds of the server while the command ran, geometric mean of the rounds.",
           _less("takes")),
)
_LOADS = (
    Metric("client_cpu_pct", "Client CPU", "%", "client CPU",
           "The client's CPU time in percent of the elapsed time, from the medians of the rounds.",
           needs=("elapsed_s", "user_s", "system_s"),
           parts={"cpu_s": lambda run: run["user_s"] + run["system_s"],
                  "elapsed_s": itemgetter("elapsed_s")},
           value=lambda part: 100 * part["cpu_s"] / part["elapsed_s"]),
    Metric("client_load_pct", "Client CPU of the machine", "%", "client CPU",
           "The CPU time of all clients in percent of the time of all cores, from the medians of the rounds.",
           needs=("clients_cpu_s", "carried_s", "cores"),
           value=lambda part: 100 * part["clients_cpu_s"] / part["carried_s"] / part["cores"]),
    Metric("server_load_pct", "Server CPU of the machine", "%", "server CPU",
           "The server's CPU time in percent of the time of all cores, from the medians of the rounds. "
           "Its clients run on the same cores.",
           needs=("server_cpu_s", "carried_s", "cores"),
           value=lambda part: 100 * part["server_cpu_s"] / part["carried_s"] / part["cores"]),
    Metric("throughput_mb_s", "Throughput", "MiB/s", "throughput",
           "MiB of exported files per second, all clients together, median of the rounds.",
           MORE, needs=("tree_bytes", "carried_s"), better=HIGH,
           value=lambda part: part["tree_bytes"] / MIB / part["carried_s"]),
)
# Of cells with traffic: many clients send requests for some time.
_TRAFFIC = (
    Metric("throughput_per_s", "Requests per second", "requests/s", "requests per second",
           "Reads and commits that ended within the time, per second, median of the rounds.",
           MORE, better=HIGH),
    *(
        Metric(f"latency_p{share}_ms", f"Latency, p{share}", "ms", f"p{share} latency",
               f"{share} % of the requests of all readers took at most this time, geometric mean of the "
               "rounds. In an open loop it counts from the arrival. The start of the client is part of it.",
               FASTER)
        for share in (50, 95, 99)
    ),
    Metric("commit_p95_ms", "Latency of commits, p95", "ms", "p95 latency of commits",
           "95 % of the commits of all committers took at most this time, geometric mean of the rounds.",
           FASTER),
    Metric("server_cpu_ms_per_request", "Server CPU per request", "ms", "server CPU per request",
           "The server's CPU time divided by the number of requests, from the medians of the rounds.",
           _less("takes"), needs=("server_cpu_s", "requests"),
           value=lambda part: 1000 * part["server_cpu_s"] / part["requests"]),
    _in_mib("server_peak_memory_bytes", "server_peak_mib", "Server memory", "server memory",
            _less("takes"),
            "MiB of the largest memory of all processes of the server, median of the rounds. Where a "
            "process ends with each request, it is that of one untimed run, read a hundred times a second. "
            "Memory that processes share counts in each."),
    Metric("server_peak_mib_per_client", "Server memory per client", "MiB", "server memory per client",
           "The largest memory of all processes of the server, read five times a second, divided by the "
           "number of clients. Memory that processes share counts in each.",
           _less("takes"), needs=("server_peak_memory_bytes", "senders"),
           value=lambda part: part["server_peak_memory_bytes"] / MIB / part["senders"]),
)
_SIZES = (
    _in_mib("call_bytes", "call_mib", "Read by system calls", "bytes read by system calls", _less("reads"),
            "MiB that client and server read by system calls, from cache or device, median of the rounds. "
            "Repeated reads count again; reads from sockets are included."),
    _in_mib("device_bytes", "device_mib", "Read from the device", "bytes from the device", _less("reads"),
            "MiB that client and server read from devices, in 4 KiB pages with read-ahead, median of "
            "the rounds."),
    _in_mib("wire_bytes", "wire_mib", "Bytes on the network", "bytes on the network", _less("sends"),
            "MiB between client and server in both directions, with the heads of packets, median of the "
            "rounds. Empty if other programs use the same network."),
    _in_mib("kept_bytes", "client_disk_mib", "Disk of the client", "disk of the client", _less("takes"),
            "MiB of disk blocks of all that the command wrote: working files, and the client's own files."),
    _in_mib("repository_bytes", "server_disk_mib", "Size of the repository", "size of the repository",
            LESS, "MiB of the files of the repository on the server, without unused ends of disk blocks."),
    _in_mib("used_bytes", "disk_usage_mib", "Disk usage", "bytes on its file system", _less("takes"),
            "MiB by which the file system's usage (df) grew with the working copy, its metadata included. "
            "Shared blocks count once."),
    _in_mib("exclusive_bytes", "exclusive_mib", "Exclusive blocks", "exclusive blocks",
            MetricWords("less for itself", "more for itself", "has"),
            "MiB of blocks that belong to one file of the working copy only, by the extents of its files. "
            "Empty if the file system reports no extents or compresses files."),
    _in_mib("shared_bytes", "shared_mib", "Shared blocks", "shared blocks", MORE,
            "MiB of blocks that several files of the working copy share, each counted once, by extents. "
            "Empty if the file system reports no extents or compresses files."),
    _in_mib("written_bytes", "written_mib", "Written to the device", "bytes written to the device",
            _less("writes"),
            "MiB written to the storage's device while the command ran, by all processes, median of the "
            "rounds. Later writes are not included."),
    _in_mib("call_written_bytes", "call_written_mib", "Written by system calls",
            "bytes written by system calls", _less("writes"),
            "MiB that client and server wrote by system calls, median of the rounds. Writes to sockets and "
            "files that are removed later are included."),
    _in_mib("dirtied_bytes", "dirtied_mib", "Written to files", "bytes written to files", _less("writes"),
            "MiB of pages of files that client and server changed, and that the kernel has to write to "
            "devices, median of the rounds. Files that are removed before that are included."),
)
_KERNEL_COUNTS = (
    Metric("read_calls", "Calls for a read", "calls", "calls for a read",
           "System calls for a read by client and server together (read, pread, ...), median of the rounds, "
           "as the kernel counts them per process.", _less_often("reads"), exact=True),
    Metric("flushes", "Flushes of the device", "flushes", "flushes",
           "Flushes of the storage device's cache while the command ran, by all processes, median of the "
           "rounds. A commit waits for its flushes.", _less_often("flushes"), exact=True),
    Metric("git_objects", "Objects sent", "objects", "objects sent",
           "Objects in the packs between client and server, counted in one untimed run of each round.",
           _less("sends"), exact=True),
    Metric("rpcs", "RPCs", "RPCs", "RPCs",
           "Calls of this machine's NFS client while the command ran, median of the rounds. Each call costs "
           "the latency of the network.", _less_often("calls the server"), exact=True),
    Metric("instructions_m", "Instructions in user mode", "million", "instructions",
           "Million instructions that client and server executed in user mode, as the processor counts them, "
           "median of the rounds.", _less("executes"), ("instructions",), exact=True,
           value=lambda part: part["instructions"] / 1e6),
)
_STRACE_COUNTS = (
    _traced("all_calls", "All system calls", "calls", "system calls", _less_often("calls the system"),
            "System calls of every kind."),
    _traced("reads", "Reads", "reads", "reads", _less_often("reads"),
            "Calls of read, pread, readv and similar, from files, pipes and sockets."),
    _traced("writes", "Writes", "writes", "writes", _less_often("writes"),
            "Calls of write, pwrite, writev and similar."),
    _traced("bytes_read", "Bytes read", "bytes", "bytes read", _less("reads"),
            "Bytes returned by read, pread, readv and similar."),
    _traced("bytes_written", "Bytes written", "bytes", "bytes written", _less("writes"),
            "Bytes written by write, pwrite, writev and similar."),
    _traced("opens_read_only", "Opens for reading", "opens", "opens for reading", _less_often("opens"),
            "Successful opens of a file for reading only."),
    _traced("opens_read_write", "Opens for writing", "opens", "opens for writing", _less_often("opens"),
            "Successful opens of a file for writing, or for reading and writing."),
    _traced("renames", "Renames", "renames", "renames", _less_often("renames"),
            "Renames of a file or folder."),
    _traced("flush_calls", "Flush calls", "calls", "flush calls", _less_often("flushes"),
            "Calls of fsync, fdatasync, sync_file_range and similar. Each waits for the device."),
    _traced("seeks", "Seeks", "seeks", "seeks", _less_often("seeks"), "Calls of lseek."),
    _traced("stats", "File status calls", "stats", "file status calls", _less_often("asks for states"),
            "Calls of stat, fstat and statx."),
    _traced(COUNTS, "System calls", "calls or bytes", "system calls", LESS,
            "System calls and their bytes, one column each."),
)
# fmt: on
_METRICS = (*_TIMES, *_LOADS, *_TRAFFIC, *_SIZES, *_KERNEL_COUNTS, *_STRACE_COUNTS)
METRICS = {metric.name: metric for metric in sorted(_METRICS, key=attrgetter("name"))}
# The columns of the measurements that metrics are computed from: numbers, or empty.
NEEDED_COLUMNS = tuple(
    dict.fromkeys(column for metric in METRICS.values() for column in metric.needs)
)


def metric_in(definition: Mapping[str, object]) -> Metric:
    """Return the metric of a table, a finding or an expectation."""
    return METRICS[name_in(definition)]


def name_in(definition: Mapping[str, object]) -> str:
    """Return the name of the metric of a table, a finding or an expectation.

    A comparison has the name in `compare.metric`: {"compare": {"axis": "format", "metric": "reads"}} gives
    "reads". Another table has the name in `metric`, and another finding in `level`.
    """
    compare = definition.get("compare")
    if isinstance(compare, Mapping):
        return str(compare.get("metric", DEFAULT_METRIC))
    return str(definition.get("metric") or definition.get("level") or DEFAULT_METRIC)
