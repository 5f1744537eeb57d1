"""Every flag that a run or a row of a table can carry: what it says, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Flag:
    """`says` is what was seen; `advice` what to do about it.

    A run with a `false_label` was not what its cell is called: it leaves the tables and stays in
    the measurements.
    """

    says: str
    advice: str
    false_label: bool = False

    @property
    def sentence(self) -> str:
        """Both, for reports."""
        return f"{self.says} {self.advice}"


# In the order in which a row lists them.
FLAGS: dict[str, Flag] = {
    "cache-not-cold": Flag(
        "A cold run began with the repository's pages in memory.",
        "See how the caches were cleared, and what else reads the repository meanwhile.",
        false_label=True,
    ),
    "no-disk-reads": Flag(
        "A cold run read nothing from the device.",
        "Clear the caches as root, or choose a storage that is not in memory.",
        false_label=True,
    ),
    "too-few-disk-reads": Flag(
        "A cold run read far less from the device than the discarded cold run over its copy.",
        "Something read the repository between the clearing of the caches and the run: find out what.",
        false_label=True,
    ),
    "foreign-reads": Flag(
        "After a cold run more of the repository was in memory than client and server had read.",
        "Something else read the repository meanwhile: a backup, an indexer, a virus scanner.",
        false_label=True,
    ),
    "cache-not-warm": Flag(
        "A hot run read from the device.",
        "Give the machine memory enough to hold the repository, or take a smaller scale.",
        false_label=True,
    ),
    "server-disk-unknown": Flag(
        "The server of the network file system is another machine: its disk reads are unknown.",
        "Compare these runs only with runs on the same server, and look at its disk during a run.",
    ),
    "restarted": Flag(
        "The server was not up before the run, or not the same one after it.",
        "Look for the server's last words in the cell's log, and for who ended it.",
        false_label=True,
    ),
    "server-reused": Flag(
        "The server had served a run before, and its label says that it was new.",
        "Find out why it could not be ended; its caches were not empty.",
        false_label=True,
    ),
    "server-not-warm": Flag(
        "The server had not served a run yet, and its label says that its caches were hot.",
        "Something restarted it between warming and the timed run: find out what.",
        false_label=True,
    ),
    "server-reforked": Flag(
        "Processes of the server began or ended during the run: caches died with them.",
        "Run svnserve with `--threads`, and httpd's children without a limit of connections; a server "
        "that forks for each connection has no hot caches.",
        false_label=True,
    ),
    "clock": Flag(
        "hyperfine told another time than passed between the hooks before and after the run.",
        "Try another hyperfine, or see what stopped the machine: the columns elapsed_s and window_s tell.",
        false_label=True,
    ),
    "environment": Flag(
        "Variables in the environment reached client and server that change programs.",
        "Unset them (LD_PRELOAD, MALLOC_*, SVN_*, proxies and the like; the context's `environment` has "
        "them), or read the time as that of programs so changed.",
    ),
    "uncertified": Flag(
        "The run has no certificate, or an incomplete one.",
        "Measure the cell again.",
        false_label=True,
    ),
    "other-output": Flag(
        "The timed run wrote another number of bytes than the run of its round whose output was read.",
        "Look for what ended it early or made it print something else, and measure again.",
        false_label=True,
    ),
    "nothing-packed": Flag(
        "The packed repository has no packed shard: only full shards get packed.",
        "Take a repository with more revisions than a shard has (1,000 by default).",
        false_label=True,
    ),
    "apart": Flag(
        "The copy lies apart from the others on the storage, not interleaved with them.",
        "Where it lies may be a part of what was measured: `make clean` and a new run make all copies "
        "side by side.",
    ),
    "host-cached": Flag(
        "The file system lies in an image that is read and written through this system's page cache.",
        "Name a storage whose file system knows direct I/O: else memory stands in for the disk.",
    ),
    "no-empty-folders": Flag(
        "The strategy carries no empty folders: what it built lacks those of the tree.",
        "Read its time as that of a tree without them.",
    ),
    "no-modes": Flag(
        "The strategy does not carry all permissions: some files have others than in the tree.",
        "Read its time as that of a tree without them.",
    ),
    "no-hard-links": Flag(
        "The strategy carries no hard links: names of one file became files of their own.",
        "Read its time as that of a tree with more files to write.",
    ),
    "residency-unknown": Flag(
        "The kernel did not say how much of the repository was in memory.",
        "Run as the user who owns the copies, on a kernel that allows cachestat or mincore.",
    ),
    "other-libraries": Flag(
        "Client or server had loaded Subversion's libraries from outside of their build's folders.",
        "Install the build with a run path (rpath), or give it a `library_path` in `builds`.",
        false_label=True,
    ),
    "libraries-unknown": Flag(
        "What libraries the client loads could not be seen: it is static, or its C library is not glibc.",
        "Make sure by other means that the build's name is true.",
    ),
    "same-binaries": Flag(
        "The same binaries ran under the name of another build: this is A/A, a build against itself.",
        "Read its differences as noise; if they should have been two builds, see `builds`.",
    ),
    "cache-ineffective": Flag(
        "The server's hot caches did not help: it read about as much as when they were empty.",
        "Raise the server's memory cache, or read the time as that of a cache that is too small.",
    ),
    "other-server": Flag(
        "Another server of vcsbench's was alive.",
        "End it: the column other_servers has its command line.",
    ),
    "swapped": Flag(
        "The machine swapped during the run.",
        "Close what else is running, or use smaller server caches.",
    ),
    "low-memory": Flag(
        "Little memory was available before the run.",
        "Close what else is running: caches give way when memory gets short.",
    ),
    "memory-pressure": Flag(
        "Processes waited for memory during the run.",
        "Close what else is running, or use smaller server caches.",
    ),
    "io-busy": Flag(
        "Others kept the storage busy: they read from it, or waiting for it was not the run's own.",
        "Find out what else uses the storage, and measure again.",
    ),
    "cpu-busy": Flag(
        "Other programs took processor time during the run.",
        "Close what else is running; the column others_cpu_pct says how much they took.",
    ),
    "cpu-steal": Flag(
        "The hypervisor gave the processor's time to others (steal).",
        "Measure at a quieter time, or on a machine of your own.",
    ),
    "throttled": Flag(
        "The processor was slowed down for its heat, or a quota held the run back.",
        "Cool the machine, take another frequency governor, or raise the container's quota.",
    ),
    "saturated": Flag(
        "Client and server together kept nearly all cores busy (threshold `max_cpu_share`).",
        "Read the time as that of this machine, not of the server alone.",
    ),
    "mean-cpu": Flag(
        "User and system time are means over an export's runs: this hyperfine keeps no others.",
        "Medians over rounds are as good; for a run's own set `runs: 1`, or use hyperfine 2 or later.",
    ),
    "too-short": Flag(
        "The cell's median is under the threshold `min_run_s`: starting the client is a good part of it.",
        "Take a larger scale before reading much into small differences.",
    ),
    "mostly-fixed-cost": Flag(
        "More than a quarter of the time is fixed cost: starting the client and connecting.",
        "Use a larger scale. Above a half, the cell decides no finding and no recommendation.",
    ),
    "outlier-10": Flag(
        "A run is more than 10 % from its cell's median.",
        "Look at the single rounds before trusting a small difference.",
    ),
    "outlier-20": Flag(
        "A run is more than 20 % from its cell's median.",
        "Look for what disturbed it, and measure more rounds.",
    ),
    "other-work": Flag(
        "It did not do the same work as others that it would be compared with.",
        "The column `work` of the measurements says what each run did; look for a damaged copy, an "
        "incomplete export, or another limit.",
    ),
    "work-unknown": Flag(
        "Nothing tells what the command did.",
        "Say with the key `work` of the command in the study's file how it is told.",
    ),
    "hosts-differ": Flag(
        "Measured on different machines: numbers of theirs are never divided by one another.",
        "Measure all that is to be compared on one machine.",
    ),
    "not-saved": Flag(
        "The saved baseline has no run of this cell that counts.",
        "Save a baseline that has it.",
    ),
    "same-runs": Flag(
        "Nothing has been measured since the baseline was saved: these are its own runs.",
        "Measure anew, with `--forcerun cell` for Snakemake.",
    ),
    "other-command": Flag(
        "The saved baseline timed another command line under this name.",
        "Save a new baseline with the present command line.",
    ),
    "other-repository": Flag(
        "The saved baseline read another repository, or the same at another scale or with other revisions.",
        "Measure the same source as then (a dump file stays the same), or save a new baseline.",
    ),
    "other-method": Flag(
        "The saved baseline's runs were prepared in another way: hooks, warming runs, how caches were "
        "cleared, or where the command wrote to.",
        "Measure as then, or save a new baseline.",
    ),
    "no-duplicates": Flag(
        "No cell was measured twice, so what identical cells differ by is not known.",
        "Set `duplicates` to 1 or more; only the twins are measured.",
    ),
    "low-n": Flag(
        "Too few rounds (threshold `min_rounds`): an interval says little.",
        "Raise `rounds`; only the new ones are measured.",
    ),
}

# For these a table shows no number of cells that were measured.
WITHHOLDING = {
    *("hosts-differ", "other-work", "work-unknown", "not-saved", "same-runs"),
    *("other-command", "other-repository", "other-method"),
}
FALSE_LABEL = frozenset(word for word, flag in FLAGS.items() if flag.false_label)


def says(word: str) -> str:
    """What was seen, without a full stop."""
    return FLAGS[word].says.rstrip(".")


def joined(words: Iterable[str]) -> str:
    """The words once each, in the order of FLAGS and unknown ones last, separated by spaces.

    Of `outlier-10` and `outlier-20` only the stronger is kept.
    """
    found = set(words)
    if "outlier-20" in found:
        found.discard("outlier-10")
    known = [word for word in FLAGS if word in found]
    return " ".join([*known, *sorted(found - FLAGS.keys())])


def also(own: str, word: str, seen: bool) -> str:
    """Flags, separated by spaces, with one more where it was seen."""
    return joined([*own.split(), word]) if seen else own


def has_false_label(flags: str) -> bool:
    """Whether a run with these flags, separated by spaces, leaves the tables."""
    return not FALSE_LABEL.isdisjoint(flags.split())
