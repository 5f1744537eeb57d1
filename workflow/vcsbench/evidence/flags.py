"""List the flags of runs and of table rows, each with a message and a remedy."""

import enum
from collections.abc import Iterable, Mapping
from typing import Self

INVALID_RUN = True
# Shares of fixed cost: above the first a cell is flagged, above the second it decides nothing.
FLAGGED_SHARE, DECIDING_SHARE = 0.25, 0.5


class Flag(enum.StrEnum):
    """A flag: its word in tables, a message, and a remedy. A row lists its flags in this order.

    A flag with INVALID_RUN means that a run contradicts the label of its cell, as a cold run with warm
    caches. The run then does not count in tables, and stays in the measurements.
    """

    message: str
    advice: str
    is_invalid: bool

    def __new__(cls, word: str, message: str, advice: str, is_invalid: bool = False) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.message = message
        member.advice = advice
        member.is_invalid = is_invalid
        return member

    @property
    def sentence(self) -> str:
        return f"{self.message} {self.advice}"

    # fmt: off
    CACHE_NOT_COLD = ("cache-not-cold",
        "A cold run began with the repository's pages in memory.",
        "Check how the caches were cleared, and which other programs read the repository.", INVALID_RUN)
    NO_DISK_READS = ("no-disk-reads",
        "A cold run read nothing from the device.",
        "Clear the caches as root, or choose a storage that is not in memory.", INVALID_RUN)
    TOO_FEW_DISK_READS = ("too-few-disk-reads",
        "A cold run read far less from the device than the discarded cold run.",
        "Find the program that read the repository after the caches were cleared.", INVALID_RUN)
    FEWER_DISK_READS = ("fewer-disk-reads",
        "A cold run read less from the device than the first run, whose time does not count.",
        "Some of its pages may have been in memory. Find the program that read the repository.")
    FOREIGN_READS = ("foreign-reads",
        "After a cold run, more of the repository was in memory than was read.",
        "Stop other readers of the repository: a backup, an indexer, a virus scanner.", INVALID_RUN)
    CACHE_NOT_WARM = ("cache-not-warm",
        "A hot run read from the device.",
        "Give the machine enough memory for the repository, or use a smaller scale.", INVALID_RUN)
    SERVER_DISK_UNKNOWN = ("server-disk-unknown",
        "The server of the network file system is another machine.",
        "Its disk reads are unknown: watch its disk, and compare only runs on the same server.")
    RESTARTED = ("restarted",
        "The server was not running before the run, or was another process after it.",
        "See the server's last messages in the cell's log.", INVALID_RUN)
    SERVER_REUSED = ("server-reused",
        "The server had served a run before, and its label promises a new one.",
        "Its caches were not empty. Find out why it did not end.", INVALID_RUN)
    SERVER_NOT_WARM = ("server-not-warm",
        "The server had not served a run yet, and its label promises a warm server cache.",
        "Find the cause of its restart between the warm-up and the timed run.", INVALID_RUN)
    SERVER_REFORKED = ("server-reforked",
        "Processes of the server began or ended during the run: its caches were lost.",
        "Run svnserve with `--threads`, and httpd without a limit of connections per child.", INVALID_RUN)
    SERVER_IDLE = ("server-idle",
        "The server sent far less than in the checked run, or than its client printed, wrote or read.",
        "The client reads the repository's files itself. Correct the command's `argv`, or the client.",
        INVALID_RUN)
    NETWORK_NOT_AS_SET = ("network-not-as-set",
        "Round trip or rate of the line between client and server differed from its label.",
        "Close other programs, and measure again. The columns line_* have what was measured.", INVALID_RUN)
    NETWORK_DRIFTED = ("network-drifted",
        "After the runs, round trip or rate of the line differed from its label by 5 to 20 %.",
        "Read small differences with care. The columns line_*_after_* have what was measured.")
    CLOCK = ("clock",
        "hyperfine reported another time than its hooks before and after the run.",
        "Compare elapsed_s and window_s. Use another hyperfine, or find what paused it.", INVALID_RUN)
    CONDITIONS_DIFFER = ("conditions-differ",
        "Processors, priorities, limits, the kernel or settings of a disk differ from those of most rounds.",
        "Measure all rounds in the same way: the contexts have `conditions`, `host` and `storage`."
        " `--forcerun cell` measures again.")
    UNCERTIFIED = ("uncertified",
        "The run has no evidence, or incomplete evidence.",
        "Measure the cell again.", INVALID_RUN)
    OTHER_OUTPUT = ("other-output",
        "The timed run wrote another number of bytes than the checked run of its round, or read far fewer.",
        "Find out why it ended early or printed something different, and measure again.", INVALID_RUN)
    REQUESTS_FAILED = ("requests-failed",
        "Some requests of the traffic failed.",
        "See `failed` and `errors` of the traffic in the context of the run.", INVALID_RUN)
    OTHER_REVISIONS = ("other-revisions",
        "The repository got another number of revisions than commits succeeded.",
        "Find out who else commits, or which commits were lost.", INVALID_RUN)
    NOTHING_PACKED = ("nothing-packed",
        "The packed repository has no packed shard: only full shards get packed.",
        "Use a repository with more revisions than a shard (1,000 by default).", INVALID_RUN)
    APART = ("apart",
        "The files of this copy lie apart from those of other copies on the disk. This can change the times.",
        "Use `make clean` and a new run to make all copies again.")
    HOST_CACHED = ("host-cached",
        "The file system is an image in the page cache of this system.",
        "Use a storage whose file system supports direct I/O. Otherwise you measure memory.")
    NO_EMPTY_FOLDERS = ("no-empty-folders",
        "The strategy does not keep empty folders: its tree lacks them.",
        "Its time is the time of a tree without them.")
    NO_MODES = ("no-modes",
        "The strategy does not keep the permissions of some files.",
        "Its time is the time of a tree without them.")
    NO_HARD_LINKS = ("no-hard-links",
        "The strategy does not keep hard links: each name became a separate file.",
        "Its time is the time of a tree with more files.")
    IO_UNKNOWN = ("io-unknown",
        "The kernel did not report the bytes that a process read or wrote.",
        "Allow tracing, and in a container CAP_SYS_PTRACE. Reads and output were not checked.")
    CACHED_BELOW = ("cached-below",
        "A cold run read from a loop device or RAM disk, whose blocks are in memory.",
        "Use a storage on a disk, or measure it without the cache state `cold`.", INVALID_RUN)
    RESIDENCY_UNKNOWN = ("residency-unknown",
        "The kernel did not report how much of the repository was in memory, or nothing of it after a run.",
        "Run as the user who owns the copies, on a kernel that allows cachestat or mincore.")
    OTHER_LIBRARIES = ("other-libraries",
        "Client or server loaded Subversion's libraries from outside of its build.",
        "Install the build with a run path (rpath), or set its `library_path` in `builds`.", INVALID_RUN)
    LIBRARIES_DIFFER = ("libraries-differ",
        "Client or server had another program or library in memory than in most rounds of the cell.",
        "Compare `mapped` in the contexts of its rounds, and measure the cell again.", INVALID_RUN)
    TOO_FEW_FLUSHES = ("too-few-flushes",
        "The load or the commits flushed the disk less often than their revisions need.",
        "Remove a preloaded library such as eatmydata, and mount the storage with barriers.", INVALID_RUN)
    FLUSHES_UNKNOWN = ("flushes-unknown",
        "The kernel counts no flushes of this disk, so the command may have skipped its own.",
        "Make sure that nothing such as eatmydata is preloaded (`mapped` in the context).")
    LIBRARIES_UNKNOWN = ("libraries-unknown",
        "The client's libraries are unknown: it is static, or nothing can trace it.",
        "Make sure that the build is the one that its name says.")
    SAME_BINARIES = ("same-binaries",
        "Both builds have the same binaries: this is an A/A comparison.",
        "Read its differences as noise. To compare two builds, correct `builds`.")
    CACHE_INEFFECTIVE = ("cache-ineffective",
        "The warm server cache did not help: the server read as much as with an empty one.",
        "Raise the memory cache of the server, or take the time as that of a small cache.")
    OTHER_SERVER = ("other-server",
        "Another server of vcsbench was running.",
        "End it: the column other_servers has its command line.")
    SWAPPED = ("swapped",
        "The machine swapped during the run.",
        "Close other programs, or use smaller server caches.")
    LOW_MEMORY = ("low-memory",
        "Little memory was available before the run.",
        "Close other programs: the kernel drops caches when memory runs out.")
    MEMORY_PRESSURE = ("memory-pressure",
        "Processes waited for memory during the run.",
        "Close other programs, or use smaller server caches.")
    IO_BUSY = ("io-busy",
        "Other programs kept the storage busy.",
        "Find the programs that use the storage, and measure again.")
    CPU_BUSY = ("cpu-busy",
        "Other programs took processor time during the run.",
        "Close other programs. The column others_cpu_pct has their share.")
    CPU_STEAL = ("cpu-steal",
        "The hypervisor gave the processor's time to others (steal).",
        "Measure at a quieter time, or on a machine of your own.")
    THROTTLED = ("throttled",
        "The processor was throttled because of its heat, or a quota limited the run.",
        "Cool the machine, use another frequency governor, or raise the container's quota.")
    SATURATED = ("saturated",
        "Client and server kept more than 90 % of all cores busy.",
        "The time is limited by this machine, not by the server alone.")
    OVERLOADED = ("overloaded",
        "Requests still waited for a client when the time was over.",
        "Their latencies are lower bounds. Use a lower arrival rate, or more readers.")
    MEAN_CPU = ("mean-cpu",
        "User and system time are means over the runs of a cell-round.",
        "For the times of each run, use hyperfine 2 or later, or set `runs: 1`.")
    TOO_SHORT = ("too-short",
        "Answered, but a small difference can be start-up: the median is below 0.2 s.",
        "Use a larger scale to be sure of differences below 10 %.")
    MOSTLY_FIXED_COST = ("mostly-fixed-cost",
        "More than a quarter of the time is fixed cost: starting the client and connecting.",
        "Up to a half it is answered. Above, a difference counts if it is larger than the start-up.")
    OUTLIER_10 = ("outlier-10",
        "A run is more than 10 % from its cell's median.",
        "Look at the single rounds before you trust a small difference.")
    OUTLIER_20 = ("outlier-20",
        "A run is more than 20 % from its cell's median.",
        "Find the disturbance, and measure more rounds.")
    OTHER_WORK = ("other-work",
        "It did other work than the cells that it would be compared with.",
        "See the column `work`. Look for a damaged copy, an incomplete export, or another limit.")
    WORK_UNKNOWN = ("work-unknown",
        "The work of the command is unknown.",
        "Set the key `work` of the command in the study's file.")
    HOSTS_DIFFER = ("hosts-differ",
        "Measured on different machines, whose numbers are never compared.",
        "Measure both sides on one machine: `--forcerun cell`.")
    NOT_IN_TURNS = ("not-in-turns",
        "The two sides were measured one after the other, not in turns.",
        "Its interval is wider. Measure both again: `--forcerun cell`.")
    AT_LEAST = ("at-least",
        "More than half of the faster side's time is start-up, which is part of both sides.",
        "Read the near end of the interval as the least factor. A larger scale shows the true one.")
    DISTURBED = ("disturbed",
        "Without the disturbed runs, the other side is faster.",
        "It is undecided. Measure again on a quiet machine.")
    NOT_SAVED = ("not-saved",
        "The saved baseline has no valid run of this cell.",
        "Save a baseline that has it.")
    SAME_RUNS = ("same-runs",
        "Nothing has been measured since the baseline was saved.",
        "Measure again, with `--forcerun cell` for Snakemake.")
    OTHER_COMMAND = ("other-command",
        "The saved baseline timed another command line under this name.",
        "Save a new baseline with the current command line.")
    OTHER_REPOSITORY = ("other-repository",
        "The saved baseline read another repository, scale or revisions.",
        "Measure the same source again, such as a dump file, or save a new baseline.")
    OTHER_METHOD = ("other-method",
        "The saved baseline has other hooks, warm-ups, cache clearing or output folder.",
        "Measure in the same way, or save a new baseline.")
    NO_DUPLICATES = ("no-duplicates",
        "No cell was measured twice, so the systematic noise is unknown.",
        "Set `duplicates` to 1 or more. Only the duplicates are measured.")
    LOW_N = ("low-n",
        "Fewer rounds than the threshold `min_rounds`: the interval is wide.",
        "Raise `rounds`. Only the new ones are measured.")
    # fmt: on


# Something else took time of the machine.
BUSY_FLAGS = {Flag.CPU_BUSY, Flag.IO_BUSY, Flag.CPU_STEAL, Flag.THROTTLED}
# Words of older results may be no flag any more, so keys are text.
FLAGS: Mapping[str, Flag] = {flag.value: flag for flag in Flag}
INVALID = frozenset(flag for flag in Flag if flag.is_invalid)


def flag_message(word: str) -> str:
    """Return the message of a flag without its full stop, for a longer sentence."""
    return FLAGS[word].message.rstrip(".")


def join_flags(words: Iterable[str]) -> str:
    """Return flags as text: each once, in the order of FLAGS, unknown ones last, such as `clock too-short`.

    `outlier-20` replaces `outlier-10`.
    """
    different = set(words)
    if Flag.OUTLIER_20 in different:
        different.discard(Flag.OUTLIER_10)
    ordered = [word for word in FLAGS if word in different]
    unknown = sorted(different - FLAGS.keys())
    return " ".join([*ordered, *unknown])


def add_flag(flags: str, word: str, is_set: bool) -> str:
    """Return the text of flags with another one, if it is set."""
    return join_flags([*flags.split(), word]) if is_set else flags


def is_disturbed(flags: str) -> bool:
    """Return True if the text of a run's flags says that other programs took time of the machine."""
    return not BUSY_FLAGS.isdisjoint(flags.split())


def is_invalid(flags: str) -> bool:
    """Return True if the text of a run's flags has one that makes the run invalid."""
    return not INVALID.isdisjoint(flags.split())
