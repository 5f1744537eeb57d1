"""List the flags of runs and of table rows, each with a message and a remedy."""

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

INVALID_RUN = True
# Shares of fixed cost: above the first a cell is flagged, above the second it decides nothing.
FLAGGED_SHARE, DECIDING_SHARE = 0.25, 0.5


class Flag(NamedTuple):
    """A flag. An invalid run contradicts the label of its cell: it leaves the tables and stays in the
    measurements."""

    message: str
    advice: str
    is_invalid: bool = False

    @property
    def sentence(self) -> str:
        return f"{self.message} {self.advice}"


class FlagName(enum.StrEnum):
    """The names of all flags, in the order in which a row lists them."""

    CACHE_NOT_COLD = "cache-not-cold"
    NO_DISK_READS = "no-disk-reads"
    TOO_FEW_DISK_READS = "too-few-disk-reads"
    FOREIGN_READS = "foreign-reads"
    CACHE_NOT_WARM = "cache-not-warm"
    SERVER_DISK_UNKNOWN = "server-disk-unknown"
    RESTARTED = "restarted"
    SERVER_REUSED = "server-reused"
    SERVER_NOT_WARM = "server-not-warm"
    SERVER_REFORKED = "server-reforked"
    CLOCK = "clock"
    ENVIRONMENT = "environment"
    UNCERTIFIED = "uncertified"
    OTHER_OUTPUT = "other-output"
    NOTHING_PACKED = "nothing-packed"
    APART = "apart"
    HOST_CACHED = "host-cached"
    NO_EMPTY_FOLDERS = "no-empty-folders"
    NO_MODES = "no-modes"
    NO_HARD_LINKS = "no-hard-links"
    RESIDENCY_UNKNOWN = "residency-unknown"
    OTHER_LIBRARIES = "other-libraries"
    LIBRARIES_UNKNOWN = "libraries-unknown"
    SAME_BINARIES = "same-binaries"
    CACHE_INEFFECTIVE = "cache-ineffective"
    OTHER_SERVER = "other-server"
    SWAPPED = "swapped"
    LOW_MEMORY = "low-memory"
    MEMORY_PRESSURE = "memory-pressure"
    IO_BUSY = "io-busy"
    CPU_BUSY = "cpu-busy"
    CPU_STEAL = "cpu-steal"
    THROTTLED = "throttled"
    SATURATED = "saturated"
    MEAN_CPU = "mean-cpu"
    TOO_SHORT = "too-short"
    MOSTLY_FIXED_COST = "mostly-fixed-cost"
    OUTLIER_10 = "outlier-10"
    OUTLIER_20 = "outlier-20"
    OTHER_WORK = "other-work"
    WORK_UNKNOWN = "work-unknown"
    HOSTS_DIFFER = "hosts-differ"
    NOT_IN_TURNS = "not-in-turns"
    NOT_SAVED = "not-saved"
    SAME_RUNS = "same-runs"
    OTHER_COMMAND = "other-command"
    OTHER_REPOSITORY = "other-repository"
    OTHER_METHOD = "other-method"
    NO_DUPLICATES = "no-duplicates"
    LOW_N = "low-n"


# Something else took time of the machine.
BUSY = {FlagName.CPU_BUSY, FlagName.IO_BUSY, FlagName.CPU_STEAL, FlagName.THROTTLED}
# fmt: off
# Words of older results may be no flag any more, so keys are text.
FLAGS: Mapping[str, Flag] = {
    FlagName.CACHE_NOT_COLD: Flag("A cold run began with the repository's pages in memory.",
        "Check how the caches were cleared, and which other programs read the repository.", INVALID_RUN),
    FlagName.NO_DISK_READS: Flag("A cold run read nothing from the device.",
        "Clear the caches as root, or choose a storage that is not in memory.", INVALID_RUN),
    FlagName.TOO_FEW_DISK_READS: Flag("A cold run read far less from the device than the discarded cold run.",
        "Find the program that read the repository after the caches were cleared.", INVALID_RUN),
    FlagName.FOREIGN_READS: Flag("After a cold run, more of the repository was in memory than was read.",
        "Stop other readers of the repository: a backup, an indexer, a virus scanner.", INVALID_RUN),
    FlagName.CACHE_NOT_WARM: Flag("A hot run read from the device.",
        "Give the machine enough memory for the repository, or use a smaller scale.", INVALID_RUN),
    FlagName.SERVER_DISK_UNKNOWN: Flag("The server of the network file system is another machine.",
        "Its disk reads are unknown: watch its disk, and compare only runs on the same server."),
    FlagName.RESTARTED: Flag("The server was not running before the run, or was another process after it.",
        "See the server's last messages in the cell's log.", INVALID_RUN),
    FlagName.SERVER_REUSED: Flag("The server had served a run before, and its label promises a new one.",
        "Its caches were not empty. Find out why it did not end.", INVALID_RUN),
    FlagName.SERVER_NOT_WARM: Flag("The server had not served a run yet, and its label promises hot caches.",
        "Find the cause of its restart between the warm-up and the timed run.", INVALID_RUN),
    FlagName.SERVER_REFORKED: Flag("Processes of the server began or ended during the run: its caches were lost.",
        "Run svnserve with `--threads`, and httpd without a limit of connections per child.", INVALID_RUN),
    FlagName.CLOCK: Flag("hyperfine reported another time than its hooks before and after the run.",
        "Compare elapsed_s and window_s. Use another hyperfine, or find what paused it.", INVALID_RUN),
    FlagName.ENVIRONMENT: Flag("Environment variables that change programs reached client and server.",
        "Unset them, or expect other times. The context lists them under `environment`."),
    FlagName.UNCERTIFIED: Flag("The run has no evidence, or incomplete evidence.",
        "Measure the cell again.", INVALID_RUN),
    FlagName.OTHER_OUTPUT: Flag("The timed run wrote another number of bytes than the checked run of its round.",
        "Find out why it ended early or printed something different, and measure again.", INVALID_RUN),
    FlagName.NOTHING_PACKED: Flag("The packed repository has no packed shard: only full shards get packed.",
        "Use a repository with more revisions than a shard (1,000 by default).", INVALID_RUN),
    FlagName.APART: Flag("The copy is not interleaved with the others: its position can affect the times.",
        "Use `make clean` and a new run to make all copies again."),
    FlagName.HOST_CACHED: Flag("The file system is an image in the page cache of this system.",
        "Use a storage whose file system supports direct I/O. Otherwise you measure memory."),
    FlagName.NO_EMPTY_FOLDERS: Flag("The strategy does not keep empty folders: its tree lacks them.",
        "Its time is the time of a tree without them."),
    FlagName.NO_MODES: Flag("The strategy does not keep the permissions of some files.",
        "Its time is the time of a tree without them."),
    FlagName.NO_HARD_LINKS: Flag("The strategy does not keep hard links: each name became a separate file.",
        "Its time is the time of a tree with more files."),
    FlagName.RESIDENCY_UNKNOWN: Flag("The kernel did not report how much of the repository was in memory.",
        "Run as the user who owns the copies, on a kernel that allows cachestat or mincore."),
    FlagName.OTHER_LIBRARIES: Flag("Client or server loaded Subversion's libraries from outside of its build.",
        "Install the build with a run path (rpath), or set its `library_path` in `builds`.", INVALID_RUN),
    FlagName.LIBRARIES_UNKNOWN: Flag("The client's libraries are unknown: it is static, or nothing can trace it.",
        "Make sure that the build is the one that its name says."),
    FlagName.SAME_BINARIES: Flag("Both builds have the same binaries: this is an A/A comparison.",
        "Read its differences as noise. To compare two builds, correct `builds`."),
    FlagName.CACHE_INEFFECTIVE: Flag("The server's hot caches did not help: it read as much as with empty ones.",
        "Raise the memory cache of the server, or take the time as that of a small cache."),
    FlagName.OTHER_SERVER: Flag("Another server of vcsbench was running.",
        "End it: the column other_servers has its command line."),
    FlagName.SWAPPED: Flag("The machine swapped during the run.",
        "Close other programs, or use smaller server caches."),
    FlagName.LOW_MEMORY: Flag("Little memory was available before the run.",
        "Close other programs: the kernel drops caches when memory runs out."),
    FlagName.MEMORY_PRESSURE: Flag("Processes waited for memory during the run.",
        "Close other programs, or use smaller server caches."),
    FlagName.IO_BUSY: Flag("Other programs kept the storage busy.",
        "Find the programs that use the storage, and measure again."),
    FlagName.CPU_BUSY: Flag("Other programs took processor time during the run.",
        "Close other programs. The column others_cpu_pct has their share."),
    FlagName.CPU_STEAL: Flag("The hypervisor gave the processor's time to others (steal).",
        "Measure at a quieter time, or on a machine of your own."),
    FlagName.THROTTLED: Flag("The processor was throttled because of its heat, or a quota limited the run.",
        "Cool the machine, use another frequency governor, or raise the container's quota."),
    FlagName.SATURATED: Flag("Client and server kept nearly all cores busy (threshold `max_cpu_share`).",
        "The time is limited by this machine, not by the server alone."),
    FlagName.MEAN_CPU: Flag("User and system time are means over the runs of a cell-round.",
        "For the times of each run, use hyperfine 2 or later, or set `runs: 1`."),
    FlagName.TOO_SHORT: Flag(
        "Answered, but a small difference can be start-up: the median is below 0.2 s, or your `min_run_s`.",
        "Use a larger scale to be sure of differences below 10 %."),
    FlagName.MOSTLY_FIXED_COST: Flag(
        "More than a quarter of the time is fixed cost: starting the client and connecting.",
        "Up to a half it is answered, but use a larger scale to be sure. Above, it decides nothing."),
    FlagName.OUTLIER_10: Flag("A run is more than 10 % from its cell's median.",
        "Look at the single rounds before you trust a small difference."),
    FlagName.OUTLIER_20: Flag("A run is more than 20 % from its cell's median.",
        "Find the disturbance, and measure more rounds."),
    FlagName.OTHER_WORK: Flag("It did other work than the cells that it would be compared with.",
        "See the column `work`. Look for a damaged copy, an incomplete export, or another limit."),
    FlagName.WORK_UNKNOWN: Flag("The work of the command is unknown.",
        "Set the key `work` of the command in the study's file."),
    FlagName.HOSTS_DIFFER: Flag("Measured on different machines, whose numbers are never compared.",
        "Measure both sides on one machine: `--forcerun cell`."),
    FlagName.NOT_IN_TURNS: Flag("The two sides were measured one after the other, not in turns.",
        "Its interval is wider. Measure both again: `--forcerun cell`."),
    FlagName.NOT_SAVED: Flag("The saved baseline has no valid run of this cell.",
        "Save a baseline that has it."),
    FlagName.SAME_RUNS: Flag("Nothing has been measured since the baseline was saved.",
        "Measure again, with `--forcerun cell` for Snakemake."),
    FlagName.OTHER_COMMAND: Flag("The saved baseline timed another command line under this name.",
        "Save a new baseline with the current command line."),
    FlagName.OTHER_REPOSITORY: Flag("The saved baseline read another repository, scale or revisions.",
        "Measure the same source again, such as a dump file, or save a new baseline."),
    FlagName.OTHER_METHOD: Flag("The saved baseline has other hooks, warm-ups, cache clearing or output folder.",
        "Measure in the same way, or save a new baseline."),
    FlagName.NO_DUPLICATES: Flag("No cell was measured twice, so the systematic noise is unknown.",
        "Set `duplicates` to 1 or more. Only the duplicates are measured."),
    FlagName.LOW_N: Flag("Fewer rounds than the threshold `min_rounds`.",
        "Raise `rounds`. Only the new ones are measured."),
}
# fmt: on
INVALID = frozenset(word for word, flag in FLAGS.items() if flag.is_invalid)


def flag_message(word: str) -> str:
    return FLAGS[word].message.rstrip(".")


def joined(words: Iterable[str]) -> str:
    """Return different words in the order of FLAGS, unknown ones last. `outlier-20` replaces `outlier-10`."""
    words = set(words)
    if "outlier-20" in words:
        words.discard("outlier-10")
    known = [word for word in FLAGS if word in words]
    return " ".join([*known, *sorted(words - FLAGS.keys())])


def add_flag(flags: str, word: str, is_set: bool) -> str:
    return joined([*flags.split(), word]) if is_set else flags


def is_invalid(flags: str) -> bool:
    return not INVALID.isdisjoint(flags.split())
