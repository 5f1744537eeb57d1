"""Define the metrics: where a value comes from, its unit, and which of two values is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pandas import Series

# A column of a frame, or a single number: a metric computes with both.
Column: TypeAlias = "Series[float] | float"
Columns = Mapping[str, Column]

LOW, HIGH = "low", "high"
# The metric of a comparison without a key `metric`.
DEFAULT = "elapsed_s"
# Names the count in the tables of the metric `counts`, as an axis does.
COUNT = "count"
_MIB = 2**20


class Words(NamedTuple):
    """Words for a better and a worse value, for the best and the worst, and for a factor.

    `as_good` continues a factor: `1.3 times as fast as`. `verb` is empty if the words contain a verb.
    """

    better: str
    worse: str
    best: str
    worst: str
    as_good: str
    verb: str = "is "

    @property
    def is_better(self) -> str:
        """Return the words with their verb: `is faster`, `reads less`."""
        return self.verb + self.better


LESS = Words("lower", "higher", "lowest", "highest", "as low as")
MORE = Words("higher", "lower", "highest", "lowest", "as high as")
FASTER = Words("faster", "slower", "fastest", "slowest", "as fast as")


def _less(verb: str, as_good: str) -> Words:
    better, worse, best, worst = (f"{verb} {how}" for how in ("less", "more", "least", "most"))
    return Words(better, worse, best, worst, as_good, "")


def _less_often(verb: str, as_good: str = "as few") -> Words:
    better, worse, best, worst = (
        f"{verb} {how} often" for how in ("less", "more", "least", "most")
    )
    return Words(better, worse, best, worst, as_good, "")


def _only(parts: Columns) -> Column:
    (value,) = parts.values()
    return value


def _mib(name: str) -> Callable[[Columns], Column]:
    return lambda part: part[name] / _MIB


def _client_cpu(run: Columns) -> Column:
    return run["user_s"] + run["system_s"]


@dataclass(frozen=True)
class Metric:
    """One metric. Its name is its column in aggregated frames.

    `parts` are computed from the columns `needs` of the measurements and aggregated over runs and
    rounds; `value` computes the metric from the aggregated parts. So the client's CPU share is a quotient of
    medians, as published, and not a median of quotients. By default the parts are the columns, and the
    value is the only part. `exact` metrics are counts without noise; `once` metrics are counted in one
    separate run for all rounds of a cell. `fewer` is a phrase with a place for a factor.
    `reading` describes a table of the metric, `quantity` the values that a comparison divides.
    """

    name: str
    title: str
    unit: str
    reading: str
    quantity: str
    needs: tuple[str, ...]
    parts: Mapping[str, Callable[[Columns], Column]] = field(default_factory=dict)
    value: Callable[[Columns], Column] = _only
    better: str = LOW
    exact: bool = False
    once: bool = False
    fewer: str = ""
    words: Words = LESS

    def __post_init__(self) -> None:
        if not self.parts:
            object.__setattr__(self, "parts", {name: itemgetter(name) for name in self.needs})
        if self.better == HIGH and self.words is LESS:
            object.__setattr__(self, "words", MORE)

    @property
    def gain(self) -> int:
        """Return 1 if a ratio baseline / candidate above 1 means a better candidate, otherwise -1."""
        return 1 if self.better == LOW else -1

    @property
    def calls(self) -> tuple[str, str]:
        """Return the calls of a candidate with a ratio baseline / candidate above 1 and below 1."""
        better, worse = self.words.better, self.words.worse
        return (better, worse) if self.better == LOW else (worse, better)


def _times() -> Iterator[Metric]:
    def timed(name: str, title: str, quantity: str, reading: str, words: Words = FASTER) -> Metric:
        return Metric(name, title, "s", reading, quantity, (name,), words=words)

    yield timed("elapsed_s", "Elapsed time", "elapsed", "Elapsed seconds, median of the rounds.")
    yield timed(
        "fastest_client_s",
        "Fastest client",
        "time of the fastest client",
        "Seconds from the common start of all clients to the end of the fastest, median of the rounds.",
    )
    yield timed(
        "slowest_client_s",
        "Slowest client",
        "time of the slowest client",
        "Seconds from the common start of all clients to the end of the slowest, median of the rounds.",
    )
    yield Metric(
        "on_device_s",
        "Time until it is on the device",
        "s",
        "Seconds from the start of a run until its data is on the device: elapsed time plus a sync.",
        "time until on the device",
        needs=("elapsed_s", "sync_s"),
        value=lambda part: part["elapsed_s"] + part["sync_s"],
        words=FASTER,
    )
    less = _less("takes", "as little as")
    yield timed(
        "user_s",
        "User time",
        "user time",
        "Processor seconds in the command's own code, median of the runs.",
        words=less,
    )
    yield timed(
        "system_s",
        "System time",
        "system time",
        "Processor seconds in the kernel for the command, median of the runs.",
        words=less,
    )


def _loads() -> Iterator[Metric]:
    yield Metric(
        "client_cpu_pct",
        "Client CPU",
        "%",
        "The client's CPU time in percent of the elapsed time, from the medians of the rounds.",
        "client CPU",
        needs=("elapsed_s", "user_s", "system_s"),
        parts={"cpu_s": _client_cpu, "elapsed_s": itemgetter("elapsed_s")},
        value=lambda part: 100 * part["cpu_s"] / part["elapsed_s"],
    )
    yield Metric(
        "client_load_pct",
        "Client CPU of the machine",
        "%",
        "The CPU time of all clients in percent of the time of all cores, from the medians of the rounds.",
        "client CPU",
        needs=("user_s", "system_s", "carried_s", "cores"),
        parts={
            "cpu_s": _client_cpu,
            "carried_s": itemgetter("carried_s"),
            "cores": itemgetter("cores"),
        },
        value=lambda part: 100 * part["cpu_s"] / part["carried_s"] / part["cores"],
    )
    yield Metric(
        "server_load_pct",
        "Server CPU of the machine",
        "%",
        "The server's CPU time in percent of the time of all cores, from the medians of the rounds. "
        "Its clients run on the same cores.",
        "server CPU",
        needs=("server_cpu_s", "carried_s", "cores"),
        value=lambda part: 100 * part["server_cpu_s"] / part["carried_s"] / part["cores"],
    )
    yield Metric(
        "throughput_mb_s",
        "Throughput",
        "MiB/s",
        "MiB of exported files per second, all clients together, median of the rounds.",
        "throughput",
        needs=("tree_bytes", "carried_s"),
        value=lambda part: part["tree_bytes"] / _MIB / part["carried_s"],
        better=HIGH,
    )


def _sizes() -> Iterator[Metric]:
    def sized(
        name: str,
        title: str,
        quantity: str,
        column: str,
        reading: str,
        fewer: str,
        words: Words = LESS,
        better: str = LOW,
    ) -> Metric:
        return Metric(
            name, title, "MiB", reading, quantity, needs=(column,), value=_mib(column),
            better=better, exact=True, fewer=fewer, words=words,
        )  # fmt: skip

    reads = _less("reads", "as little as")
    yield sized(
        "call_mib",
        "Read by system calls",
        "bytes read",
        "call_bytes",
        "MiB that client and server read by system calls, from cache or device, median of the rounds. "
        "Repeated reads count again; reads from sockets are included.",
        "reads {} fewer bytes by system calls",
        words=reads,
    )
    yield sized(
        "device_mib",
        "Read from the device",
        "bytes from the device",
        "device_bytes",
        "MiB that client and server read from devices, in 4 KiB pages with read-ahead, median of the rounds.",
        "reads {} fewer bytes from the device",
        words=reads,
    )
    yield sized(
        "disk_usage_mib",
        "Disk usage",
        "disk usage",
        "used_bytes",
        "MiB by which the file system's usage (df) grew with the working copy, its metadata included. "
        "Shared blocks count once.",
        "takes {} fewer bytes on its file system",
        words=_less("takes", "as little as"),
    )
    yield sized(
        "exclusive_mib",
        "Exclusive blocks",
        "exclusive blocks",
        "exclusive_bytes",
        "MiB of blocks that belong to one file of the working copy only, by the extents of its files. "
        "Empty if the file system does not report extents.",
        "has {} fewer bytes for itself",
        words=Words(
            "has less for itself", "has more for itself", "has least", "has most", "as little", ""
        ),
    )
    yield sized(
        "shared_mib",
        "Shared blocks",
        "shared blocks",
        "shared_bytes",
        "MiB of blocks that several files of the working copy share, each counted once, by extents. "
        "Empty if the file system does not report extents.",
        "shares {} fewer bytes",
        better=HIGH,
    )
    yield sized(
        "written_mib",
        "Written to the device",
        "bytes written to the device",
        "written_bytes",
        "MiB written to the storage's device while the command ran, by all processes, median of the rounds. "
        "Later writes are not included.",
        "has {} fewer bytes written to the device",
        words=_less("writes", "as little as"),
    )


def _kernel_counts() -> Iterator[Metric]:
    def counted(
        name: str, title: str, unit: str, quantity: str, reading: str, fewer: str, words: Words
    ) -> Metric:
        return Metric(
            name, title, unit, reading, quantity,
            needs=(name,), exact=True, fewer=fewer, words=words,
        )  # fmt: skip

    yield counted(
        "read_calls",
        "Calls for a read",
        "calls",
        "calls for a read",
        "System calls for a read by client and server together (read, pread, ...), median of the rounds, "
        "as the kernel counts them per process.",
        "calls {} less often for a read",
        _less_often("reads"),
    )
    yield counted(
        "flushes",
        "Flushes of the device",
        "flushes",
        "flushes",
        "Flushes of the storage device's cache while the command ran, by all processes, median of the "
        "rounds. A commit waits for its flushes.",
        "waits for {} fewer flushes",
        _less_often("flushes", "as seldom as"),
    )
    yield counted(
        "rpcs",
        "RPCs",
        "RPCs",
        "RPCs",
        "Calls of this machine's NFS client while the command ran, median of the rounds. Each call costs "
        "the latency of the network.",
        "makes {} fewer RPCs",
        _less_often("calls the server"),
    )
    yield Metric(
        "instructions_m",
        "Instructions in user mode",
        "million",
        "Million instructions that client and server executed in user mode, as the processor counts them, "
        "median of the rounds.",
        "instructions",
        needs=("instructions",),
        value=lambda part: part["instructions"] / 1e6,
        exact=True,
        fewer="executes {} fewer instructions",
        words=_less("executes", "as few"),
    )


def _strace_counts() -> Iterator[Metric]:
    def traced(
        name: str, title: str, unit: str, reading: str, fewer: str, words: Words, quantity: str = ""
    ) -> Metric:
        where = "Counted once per cell in a separate run under strace, client and server together."
        return Metric(
            name, title, unit, f"{reading} {where}", quantity or unit,
            needs=(name,), exact=True, once=True, fewer=fewer, words=words,
        )  # fmt: skip

    yield traced(
        "all_calls",
        "All system calls",
        "calls",
        "System calls of every kind.",
        "calls the system {} less often",
        _less_often("calls the system"),
        "system calls",
    )
    yield traced(
        "reads",
        "Reads",
        "reads",
        "Calls of read, pread, readv and similar, from files, pipes and sockets.",
        "reads {} less often",
        _less_often("reads"),
    )
    yield traced(
        "writes",
        "Writes",
        "writes",
        "Calls of write, pwrite, writev and similar.",
        "writes {} less often",
        _less_often("writes"),
    )
    yield traced(
        "bytes_read",
        "Bytes read",
        "bytes",
        "Bytes returned by read, pread, readv and similar.",
        "reads {} fewer bytes",
        _less("reads", "as few"),
        "bytes read",
    )
    yield traced(
        "bytes_written",
        "Bytes written",
        "bytes",
        "Bytes written by write, pwrite, writev and similar.",
        "writes {} fewer bytes",
        _less("writes", "as few"),
        "bytes written",
    )
    yield traced(
        "opens_read_only",
        "Opens for reading",
        "opens",
        "Successful opens of a file for reading only.",
        "opens {} fewer files to read them",
        _less_often("opens"),
        "opens for reading",
    )
    yield traced(
        "opens_read_write",
        "Opens for writing",
        "opens",
        "Successful opens of a file for writing, or for reading and writing.",
        "opens {} fewer files to write them",
        _less_often("opens"),
        "opens for writing",
    )
    yield traced(
        "renames",
        "Renames",
        "renames",
        "Renames of a file or folder.",
        "renames {} less often",
        _less_often("renames"),
    )
    yield traced(
        "seeks",
        "Seeks",
        "seeks",
        "Calls of lseek.",
        "seeks {} less often",
        _less_often("seeks"),
    )
    yield traced(
        "stats",
        "File status calls",
        "stats",
        "Calls of stat, fstat and statx.",
        "asks {} less often for states",
        _less_often("asks for states"),
        "file status calls",
    )
    yield Metric(
        "counts",
        "System calls",
        "calls or bytes",
        "System calls and their bytes, one column each, of client and server together. Counted once per "
        "cell in a separate run under strace.",
        "system calls",
        needs=("counts",),
        exact=True,
        once=True,
    )


METRICS: dict[str, Metric] = {
    metric.name: metric
    for group in (_times, _loads, _sizes, _kernel_counts, _strace_counts)
    for metric in group()
}


def names() -> list[str]:
    """Return the names of all metrics."""
    return sorted(METRICS)


def metric_of(name: str) -> Metric:
    """Return a metric by its name."""
    return METRICS[name]


def metric_in(definition: Mapping[str, object]) -> Metric:
    """Return the metric of a table or a finding."""
    return METRICS[name_in(definition)]


def name_in(definition: Mapping[str, object]) -> str:
    """Return the name of a table's or a finding's metric, which may not exist."""
    compare = definition.get("compare")
    compared = compare.get("metric") if isinstance(compare, Mapping) else None
    return str(compared or definition.get("metric") or definition.get("level") or DEFAULT)
