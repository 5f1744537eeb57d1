"""The report of `vcsbench doctor`: possible measurements, and missing things with remedies."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from vcsbench import kernel, words
from vcsbench.axes.cache_states import CacheState
from vcsbench.errors import UserError
from vcsbench.evidence.run_columns import storage_label
from vcsbench.forecast import plan_report, side_effects, trials
from vcsbench.machine import host
from vcsbench.measure.cell_setup import read_versions
from vcsbench.plan.plan import Plan
from vcsbench.prepare.repositories import PreparedRepositories
from vcsbench.storages import disks, filesystems
from vcsbench.storages.filesystems import IN_MEMORY, mount_of
from vcsbench.storages.workdir import resolve

VERSIONS = {
    "svn": ["svn", "--version", "--quiet"],
    "svnserve": ["svnserve", "--version", "--quiet"],
    "hyperfine": ["hyperfine", "--version"],
    "git": ["git", "version"],
}
# The remedy for root in a container, such as Docker's, whose /proc/sys is read-only.
WRITABLE_PROC = "start the container with a writable /proc/sys, as with --privileged"
# The first hyperfine that reports the CPU time of each run.
FIRST_WITH_CPU_TIMES = 2
MIN_CORES = 2
MIN_MEMORY = 1 << 30
# A higher load average, as a share of the cores, disturbs runs.
MAX_LOAD_PER_CORE = 1 / 4
# Clocks that a program reads without a system call.
STEADY_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")
# Governors that slow an idle processor down, so that a run begins slowly.
SAVING_GOVERNORS = ("powersave", "ondemand", "conservative", "schedutil")


class CheckResult(Enum):
    """The result of a check. The value is the heading of all checks with this result."""

    AVAILABLE = "Available"
    MISSING = "Cannot be measured here"
    LIMITED = "Measured with less evidence, or more slowly"
    WARNING = "Warnings"


@dataclass(frozen=True)
class Check:
    """A checked fact about this machine, in a clause, and a remedy if the user can change it."""

    result: CheckResult
    text: str
    remedy: str = ""

    def line(self) -> str:
        if self.remedy:
            return f"  {self.text} [{self.remedy}]"
        return f"  {self.text}"


def examine_machine(
    plan: Plan, repositories: PreparedRepositories, write: Callable[[str], None]
) -> bool:
    """Report what this machine can measure, and return False if it lacks anything that a cell needs.

    `write` gets each line of the report: the checks by their result, and then the side effects of a session.
    Raise UserError if the file system with the copies is not mounted now.
    """
    # The last check may belong under the first heading, so all checks run before the first line is written.
    checks = [*run_checks(plan), *_check_space(plan, repositories)]
    for line in _lines_by_result(checks):
        write(line)
    write("Side effects of a session")
    for sentence in side_effects.side_effects(plan, repositories):
        write(f"  {sentence}")
    write("")
    # A warning, or less evidence, keeps no cell from being measured.
    if any(check.result is CheckResult.MISSING for check in checks):
        write("Some cells cannot be measured here.")
        return False
    write("All can be measured.")
    return True


def _lines_by_result(checks: Sequence[Check]) -> Iterator[str]:
    """Yield a heading, the lines of the checks, and an empty line for each result that some check has."""
    for result in CheckResult:
        group = [check for check in checks if check.result is result]
        if group:
            yield result.value
            for check in group:
                yield check.line()
            yield ""


def run_checks(plan: Plan) -> list[Check]:
    """Return what this machine has and lacks for the cells of a plan, in the order of the report.

    Most checks only read a fact. The functions of the module `trials` try a thing, such as a program.
    """
    checks = [*_check_cells(plan), *_check_packages(plan), *_check_versions()]
    checks += [*_check_cache_clearing(plan), *_check_storages(plan)]
    # If a trial of BEFORE_SESSION fails, no session begins. If one of OF_SOME_CELLS fails, some cells fail.
    for lack in trials.find_lacks(plan, (*trials.BEFORE_SESSION, *trials.OF_SOME_CELLS)):
        checks.append(Check(CheckResult.MISSING, lack.what, lack.remedy))
    # Runs with less evidence are measured all the same.
    for lack in trials.find_lacks(plan, trials.EVIDENCE):
        checks.append(Check(CheckResult.LIMITED, lack.what, lack.remedy))
    checks += [_describe_hardware(), *_check_limits(), *_check_hardware()]
    checks += [*_check_load(), *_check_scatter(plan)]
    return checks


def _check_cells(plan: Plan) -> Iterator[Check]:
    for study, grid in plan.grids.items():
        number = sum(not cell.skip for cell in grid)
        text = f"{number} of {words.count_of(len(grid), 'cell')} of {study} can be measured"
        yield Check(CheckResult.AVAILABLE if number else CheckResult.MISSING, text)
        for reason, skipped in plan_report.skip_reasons(grid):
            text = f"{words.count_of(skipped, 'cell')} of {study}: {reason}"
            yield Check(CheckResult.MISSING, text)


def _check_packages(plan: Plan) -> Iterator[Check]:
    for package in side_effects.missing_packages(plan.root):
        yield Check(
            CheckResult.MISSING if package.is_required else CheckResult.LIMITED,
            f"{package.name} is not installed. It is for {package.purpose}",
            remedy=f"apt-get install {package.name}",
        )


def _check_versions() -> Iterator[Check]:
    """Yield a check with the versions of the installed programs, and another one for an old hyperfine."""
    installed = {name: argv for name, argv in VERSIONS.items() if shutil.which(name)}
    versions = read_versions(installed)
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    yield Check(CheckResult.AVAILABLE, text)
    hyperfine = versions.get("hyperfine", "")
    major = hyperfine.partition(".")[0]
    # A version that cannot be read is "".
    if major.isdigit() and int(major) < FIRST_WITH_CPU_TIMES:
        yield Check(
            CheckResult.LIMITED,
            f"hyperfine {hyperfine} reports CPU times as means over a cell-round",
            remedy=f"hyperfine {FIRST_WITH_CPU_TIMES} reports them for each run",
        )


def _check_cache_clearing(plan: Plan) -> Iterator[Check]:
    """Yield a check with the way in which caches are emptied here, or with the reason why they cannot be.

    The way is `drop-caches` (by the kernel, as root), or `evict` (by vmtouch, only files of the repository).
    Nothing is yielded if neither is possible and no cell needs it, or for a storage in memory without cold
    cells.
    """
    settings = plan.config.settings
    machine = plan.env.machine
    # Skipped cells count, too: a missing way may be the reason why they are skipped.
    cells = itertools.chain.from_iterable(plan.grids.values())
    states = [CacheState(plan.draft(cell)["state"]) for cell in cells]
    has_cold_cell = any(state.is_cold for state in states)
    # Hot cells may clear caches, too: the state `hot` fills them from a known, empty state.
    has_clearing_cell = any(state.clears_caches for state in states)
    folder = resolve(settings.storages[settings.storage], plan.root)
    way = machine.clearing(settings.clear_caches)
    if mount_of(folder).filesystem in IN_MEMORY:
        # A file on a tmpfs exists only in memory, so nothing can drop it. Only a cold cell suffers from that.
        if has_cold_cell:
            text = filesystems.why_never_cold(machine, str(folder), settings.clear_caches)
            yield Check(CheckResult.MISSING, text, "name a folder on a disk in `storages`")
    elif way == "drop-caches":
        # This way slows down all programs, such as a server in use. So the remedy is the other way.
        yield Check(
            CheckResult.AVAILABLE,
            "cold caches, by emptying the kernel's",
            remedy=f"on a server, {side_effects.EVICT}",
        )
    elif way == "evict":
        yield Check(
            CheckResult.LIMITED,
            "cold caches file by file (vmtouch): inodes and folders stay cached",
            remedy=_remedy_of_eviction(settings.clear_caches),
        )
    elif has_clearing_cell:
        text = filesystems.why_not_cleared(machine, settings.clear_caches)
        yield Check(CheckResult.MISSING, text, _remedy_without_clearing(settings.clear_caches))


def _remedy_of_eviction(configured: str) -> str:
    """Return what the user can do to empty all caches of the kernel; "" if he has chosen not to.

    `configured` is the setting `clear_caches`.
    """
    if configured == "evict":
        return ""
    return f"{_remedy_of_rights()}, on a machine without production servers"


def _remedy_without_clearing(configured: str) -> str:
    """Return what the user can do if no way to clear caches is possible. `configured` is `clear_caches`."""
    install = "apt-get install vmtouch"
    if configured == "evict":
        return install
    if configured == "drop-caches":
        return f"{_remedy_of_rights()}, or set `clear_caches: evict` and {install}"
    return f"{_remedy_of_rights()}, or {install}"


def _remedy_of_rights() -> str:
    """Return how the user gets the right to empty all caches. Root lacks it in a container of Docker."""
    return WRITABLE_PROC if os.geteuid() == 0 else "run as root"


def _check_space(plan: Plan, repositories: PreparedRepositories) -> Iterator[Check]:
    """Yield a check for each storage that is too full for the repositories of a session, and their copies.

    The folder `scratch` has no check: what does not fit there is loaded on a storage.
    """
    for storage in repositories.storages:
        folder = resolve(plan.config.settings.storages[storage], plan.root)
        why_unusable, _ = filesystems.why_unusable(folder)
        if why_unusable:
            # trials.try_folders() reports this folder, with the remedy.
            continue
        try:
            needed_bytes = side_effects.storage_bytes(plan, repositories, storage)
        except UserError:
            # The file system with the copies is not mounted now. examine_machine() needs the same number for
            # the side effects, and raises this error after the checks.
            return
        free_bytes = filesystems.free_bytes(folder)
        if needed_bytes > free_bytes:
            yield Check(
                CheckResult.MISSING,
                f"repositories and their copies need about {words.size(needed_bytes)}, and "
                f"{folder} has {words.size(free_bytes)} free",
                remedy="lower `copies` or the scale, or name another folder in `storages`",
            )


def _check_storages(plan: Plan) -> Iterator[Check]:
    """Yield a check of `scratch` if it is not in memory, and the checks of each storage that a cell uses.

    A folder that vcsbench cannot write to has no check here: trials.try_folders() reports it.
    """
    settings = plan.config.settings
    scratch = resolve(settings.scratch, plan.root)
    if _is_usable(scratch) and mount_of(scratch).filesystem not in IN_MEMORY:
        text = f"`scratch` ({scratch}) is not in RAM: loading takes several times as long"
        yield Check(CheckResult.LIMITED, text, "name a folder in a tmpfs, such as /dev/shm")
    # If several storages are names for one folder, their cells all have the first name as `shelf`. So the
    # folder has its checks once.
    used_names = {plan.draft(cell)["storage"]["shelf"] for cell in plan.cells}
    # If all cells are skipped, the user still learns about the storage that cells use by default.
    used_names.add(settings.storage)
    for name, configured in settings.storages.items():
        folder = resolve(configured, plan.root)
        if _is_usable(folder) and name in used_names:
            yield _describe_storage(name, folder)
            yield from _check_journal(name, folder, plan)


def _is_usable(folder: Path) -> bool:
    why_unusable, _ = filesystems.why_unusable(folder)
    return not why_unusable


def _describe_storage(name: str, folder: Path) -> Check:
    """Return a check with a text such as "storage disk: /var/tmp, ext4, on vda1, SSD; 30 GiB free"."""
    storage = disks.describe_storage(name, folder)
    facts = [
        storage["filesystem"],
        f"on {storage['device']}",
        storage_label(storage, host()),
        storage["scheduler"],
        storage["mount_options"],
    ]
    # A fact that the kernel does not show is empty.
    known_facts = ", ".join(fact for fact in facts if fact)
    free = words.size(storage["free_bytes"])
    return Check(CheckResult.AVAILABLE, f"storage {name}: {folder}, {known_facts}; {free} free")


def _check_journal(name: str, folder: Path, plan: Plan) -> Iterator[Check]:
    """Yield a check of a storage on an ext4 without a journal, because exports are not written to it.

    Such an ext4 creates files slowly for minutes after others were removed.
    """
    if filesystems.lacks_journal(str(folder)) and plan.config.settings.output_location == "auto":
        text = f"{name} is ext4 without a journal: exports are written to `scratch`"
        yield Check(CheckResult.LIMITED, text, "use a storage with a journal")


def _describe_hardware() -> Check:
    """Return a check with the processor, memory, system and kernel of this machine, and its hypervisor."""
    machine = host()
    memory = words.size(machine["memory_bytes"] or 0)
    cores = words.count_of(machine["cores"], "core")
    text = f"{machine['cpu']}, {cores}, {memory}, {machine['os']}, {machine['kernel']}"
    # "yes" is a virtual machine of an unknown hypervisor, and "" a physical machine.
    hypervisor = machine["virtualized"]
    if hypervisor == "yes":
        text += ", a virtual machine"
    elif hypervisor:
        text += f", a virtual machine ({hypervisor})"
    return Check(CheckResult.AVAILABLE, text)


def _check_limits() -> Iterator[Check]:
    """Yield a check for each limit of the control group, such as a container's: memory, processor time."""
    memory = kernel.memory()
    if memory.limit is not None:
        limit = words.size(memory.limit)
        available = words.size(memory.available or 0)
        text = f"a control group limits memory to {limit}; {available} of it are available"
        if memory.limit < MIN_MEMORY:
            yield Check(CheckResult.WARNING, text, "raise the limit to 1 GiB or more")
        else:
            yield Check(CheckResult.AVAILABLE, text)
    quota = host()["quota_cores"]
    if quota is not None:
        yield Check(
            CheckResult.WARNING,
            f"a control group limits processor time to {quota:.2g} cores; affected runs are flagged",
            "remove the quota",
        )


def _check_hardware() -> Iterator[Check]:
    """Yield a warning for each property of this machine that makes times uncertain."""
    machine = host()
    # With one core, the client waits while the server computes.
    if machine["cores"] < MIN_CORES:
        text = "client and server share one core"
        yield Check(CheckResult.WARNING, text, "use a machine with two or more")
    clock = machine["clock_source"]
    # "": the kernel does not show the clock.
    if clock and clock not in STEADY_CLOCKS:
        text = f"reading the clock is slow ({clock})"
        yield Check(CheckResult.WARNING, text, "boot with clocksource=tsc")
    # The kernel's rule for the processor's frequency. Many virtual machines have none ("").
    governor = machine["governor"]
    if governor in SAVING_GOVERNORS:
        text = f"the governor {governor} changes the processor's speed with its load"
        yield Check(CheckResult.WARNING, text, "cpupower frequency-set -g performance")


def _check_load() -> Iterator[Check]:
    machine = host()
    if machine["load"] > machine["cores"] * MAX_LOAD_PER_CORE:
        text = f"other programs are at work: the load average is {machine['load']:.1f}"
        yield Check(CheckResult.WARNING, text, "wait until the machine is idle")


def _check_scatter(plan: Plan) -> Iterator[Check]:
    for study, scatter_pct in plan_report.scatter_pct_by_study(plan).items():
        text = f"runs of a typical cell of {study} scattered by {scatter_pct:.2g} % here"
        yield Check(CheckResult.AVAILABLE, text)
