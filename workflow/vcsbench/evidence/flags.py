"""List the flags of runs and of table rows, each with a message and a remedy."""

from collections.abc import Iterable
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


# Something else took time of the machine.
BUSY = {"cpu-busy", "io-busy", "cpu-steal", "throttled"}
# A row lists its flags in this order.
# fmt: off
FLAGS: dict[str, Flag] = {
    "cache-not-cold": Flag("A cold run began with the repository's pages in memory.",
        "Check how the caches were cleared, and which other programs read the repository.", INVALID_RUN),
    "no-disk-reads": Flag("A cold run read nothing from the device.",
        "Clear the caches as root, or choose a storage that is not in memory.", INVALID_RUN),
    "too-few-disk-reads": Flag("A cold run read far less from the device than the discarded cold run.",
        "Find the program that read the repository after the caches were cleared.", INVALID_RUN),
    "foreign-reads": Flag("After a cold run, more of the repository was in memory than was read.",
        "Stop other readers of the repository: a backup, an indexer, a virus scanner.", INVALID_RUN),
    "cache-not-warm": Flag("A hot run read from the device.",
        "Give the machine enough memory for the repository, or use a smaller scale.", INVALID_RUN),
    "server-disk-unknown": Flag("The server of the network file system is another machine.",
        "Its disk reads are unknown: watch its disk, and compare only runs on the same server."),
    "restarted": Flag("The server was not running before the run, or was another process after it.",
        "See the server's last messages in the cell's log.", INVALID_RUN),
    "server-reused": Flag("The server had served a run before, and its label promises a new one.",
        "Its caches were not empty. Find out why it did not end.", INVALID_RUN),
    "server-not-warm": Flag("The server had not served a run yet, and its label promises hot caches.",
        "Find the cause of its restart between the warm-up and the timed run.", INVALID_RUN),
    "server-reforked": Flag("Processes of the server began or ended during the run: its caches were lost.",
        "Run svnserve with `--threads`, and httpd without a limit of connections per child.", INVALID_RUN),
    "clock": Flag("hyperfine reported another time than its hooks before and after the run.",
        "Compare elapsed_s and window_s. Use another hyperfine, or find what paused it.", INVALID_RUN),
    "environment": Flag("Environment variables that change programs reached client and server.",
        "Unset them, or expect other times. The context lists them under `environment`."),
    "uncertified": Flag("The run has no evidence, or incomplete evidence.",
        "Measure the cell again.", INVALID_RUN),
    "other-output": Flag("The timed run wrote another number of bytes than the checked run of its round.",
        "Find out why it ended early or printed something different, and measure again.", INVALID_RUN),
    "nothing-packed": Flag("The packed repository has no packed shard: only full shards get packed.",
        "Use a repository with more revisions than a shard (1,000 by default).", INVALID_RUN),
    "apart": Flag("The copy is not interleaved with the others: its position can affect the times.",
        "Use `make clean` and a new run to make all copies again."),
    "host-cached": Flag("The file system is an image in the page cache of this system.",
        "Use a storage whose file system supports direct I/O. Otherwise you measure memory."),
    "no-empty-folders": Flag("The strategy does not keep empty folders: its tree lacks them.",
        "Its time is the time of a tree without them."),
    "no-modes": Flag("The strategy does not keep the permissions of some files.",
        "Its time is the time of a tree without them."),
    "no-hard-links": Flag("The strategy does not keep hard links: each name became a separate file.",
        "Its time is the time of a tree with more files."),
    "residency-unknown": Flag("The kernel did not report how much of the repository was in memory.",
        "Run as the user who owns the copies, on a kernel that allows cachestat or mincore."),
    "other-libraries": Flag("Client or server loaded Subversion's libraries from outside of its build.",
        "Install the build with a run path (rpath), or set its `library_path` in `builds`.", INVALID_RUN),
    "libraries-unknown": Flag("The client's libraries are unknown: it is static, or nothing can trace it.",
        "Make sure that the build is the one that its name says."),
    "same-binaries": Flag("Both builds have the same binaries: this is an A/A comparison.",
        "Read its differences as noise. To compare two builds, correct `builds`."),
    "cache-ineffective": Flag("The server's hot caches did not help: it read as much as with empty ones.",
        "Raise the memory cache of the server, or take the time as that of a small cache."),
    "other-server": Flag("Another server of vcsbench was running.",
        "End it: the column other_servers has its command line."),
    "swapped": Flag("The machine swapped during the run.",
        "Close other programs, or use smaller server caches."),
    "low-memory": Flag("Little memory was available before the run.",
        "Close other programs: the kernel drops caches when memory runs out."),
    "memory-pressure": Flag("Processes waited for memory during the run.",
        "Close other programs, or use smaller server caches."),
    "io-busy": Flag("Other programs kept the storage busy.",
        "Find the programs that use the storage, and measure again."),
    "cpu-busy": Flag("Other programs took processor time during the run.",
        "Close other programs. The column others_cpu_pct has their share."),
    "cpu-steal": Flag("The hypervisor gave the processor's time to others (steal).",
        "Measure at a quieter time, or on a machine of your own."),
    "throttled": Flag("The processor was throttled because of its heat, or a quota limited the run.",
        "Cool the machine, use another frequency governor, or raise the container's quota."),
    "saturated": Flag("Client and server kept nearly all cores busy (threshold `max_cpu_share`).",
        "The time is limited by this machine, not by the server alone."),
    "mean-cpu": Flag("User and system time are means over the runs of a cell-round.",
        "For the times of each run, use hyperfine 2 or later, or set `runs: 1`."),
    "too-short": Flag(
        "Answered, but a small difference can be start-up: the median is below 0.2 s, or your `min_run_s`.",
        "Use a larger scale to be sure of differences below 10 %."),
    "mostly-fixed-cost": Flag(
        "More than a quarter of the time is fixed cost: starting the client and connecting.",
        "Up to a half it is answered, but use a larger scale to be sure. Above, it decides nothing."),
    "outlier-10": Flag("A run is more than 10 % from its cell's median.",
        "Look at the single rounds before you trust a small difference."),
    "outlier-20": Flag("A run is more than 20 % from its cell's median.",
        "Find the disturbance, and measure more rounds."),
    "other-work": Flag("It did other work than the cells that it would be compared with.",
        "See the column `work`. Look for a damaged copy, an incomplete export, or another limit."),
    "work-unknown": Flag("The work of the command is unknown.",
        "Set the key `work` of the command in the study's file."),
    "hosts-differ": Flag("Measured on different machines, whose numbers are never compared.",
        "Measure both sides on one machine: `--forcerun cell`."),
    "not-in-turns": Flag("The two sides were measured one after the other, not in turns.",
        "Its interval is wider. Measure both again: `--forcerun cell`."),
    "not-saved": Flag("The saved baseline has no valid run of this cell.",
        "Save a baseline that has it."),
    "same-runs": Flag("Nothing has been measured since the baseline was saved.",
        "Measure again, with `--forcerun cell` for Snakemake."),
    "other-command": Flag("The saved baseline timed another command line under this name.",
        "Save a new baseline with the current command line."),
    "other-repository": Flag("The saved baseline read another repository, scale or revisions.",
        "Measure the same source again, such as a dump file, or save a new baseline."),
    "other-method": Flag("The saved baseline has other hooks, warm-ups, cache clearing or output folder.",
        "Measure in the same way, or save a new baseline."),
    "no-duplicates": Flag("No cell was measured twice, so the systematic noise is unknown.",
        "Set `duplicates` to 1 or more. Only the duplicates are measured."),
    "low-n": Flag("Fewer rounds than the threshold `min_rounds`.",
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
