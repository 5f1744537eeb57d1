"""The report of `vcsbench doctor`: possible measurements, and missing things with remedies."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from vcsbench import kernel, words
from vcsbench.axes.cache_states import CacheState
from vcsbench.errors import UserError
from vcsbench.evidence.run_columns import storage_label
from vcsbench.forecast import plan_report, side_effects, trials
from vcsbench.machine import host
from vcsbench.measure.prepared_cell import read_versions
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
    """Check this machine, pass each line of the report to `write`, and return True if nothing is missing.

    The checks are grouped by their result: available, missing and limited things, and warnings. The side
    effects of a run follow. Only missing things make the result False.
    """
    # All checks run before the first line is printed, because they are grouped by their results.
    checks = [*run_checks(plan), *_check_space(plan, repositories)]
    for result in CheckResult:
        group = [check for check in checks if check.result is result]
        if not group:
            continue
        write(result.value)
        for check in group:
            write(check.line())
        write("")
    write("Side effects of a session")
    for sentence in side_effects.side_effects(plan, repositories):
        write(f"  {sentence}")
    write("")
    if any(check.result is CheckResult.MISSING for check in checks):
        write("Some cells cannot be measured here.")
        return False
    write("All can be measured.")
    return True


def run_checks(plan: Plan) -> list[Check]:
    """Return the facts about this machine that matter for the cells of a plan, in the order of the report."""
    checks = [*_check_cells(plan), *_check_packages(plan), *_check_versions()]
    checks += [*_check_cache_clearing(plan), *_check_storages(plan)]
    # A trial tries one thing on this machine, such as a program, and returns what is lacking. Some lacks keep
    # cells from being measured. Others (EVIDENCE) leave less evidence about the measured runs.
    for lack in trials.find_lacks(plan, (*trials.BEFORE_SESSION, *trials.OF_SOME_CELLS)):
        checks.append(Check(CheckResult.MISSING, lack.what, lack.remedy))
    for lack in trials.find_lacks(plan, trials.EVIDENCE):
        checks.append(Check(CheckResult.LIMITED, lack.what, lack.remedy))
    checks += _check_hardware()
    checks += _check_load()
    checks += _check_scatter(plan)
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
    # A version that cannot be read is empty.
    if major.isdigit() and int(major) < FIRST_WITH_CPU_TIMES:
        yield Check(
            CheckResult.LIMITED,
            f"hyperfine {hyperfine} reports CPU times as means over a cell-round",
            remedy=f"hyperfine {FIRST_WITH_CPU_TIMES} reports them for each run",
        )


def _check_cache_clearing(plan: Plan) -> Iterator[Check]:
    """Yield a check with the way in which caches are cleared here for cold runs, or why they cannot be.

    A reason is left out if no cell of the grids, skipped or not, needs cold caches or clears them.
    """
    # Skipped cells count, too, because they may be skipped just for this reason.
    cells = itertools.chain.from_iterable(plan.grids.values())
    states = [CacheState(plan.draft(cell)["state"]) for cell in cells]
    clears_caches = any(state.clears_caches for state in states)
    settings = plan.config.settings
    # The user's choice of a way: auto, drop-caches or evict.
    setting = settings.clear_caches
    machine = plan.env.machine
    # The folder of the default storage of cells. `storage` is the name of this storage, such as "disk".
    folder = resolve(settings.storages[settings.storage], plan.root)
    # `drop-caches` (as root), `evict` (with vmtouch), or "" if neither is possible.
    method = machine.clearing(setting)
    if mount_of(folder).filesystem in IN_MEMORY:
        # Files in memory are never cold, whatever the setting is.
        if any(state.is_cold for state in states):
            text = filesystems.why_never_cold(machine, str(folder), setting)
            yield Check(CheckResult.MISSING, text, "name a folder on a disk in `storages`")
    elif method == "drop-caches":
        # This way empties the caches of all programs, so a server becomes slow for its users. The other way,
        # `evict`, spares them. The text EVICT names its setting.
        yield Check(
            CheckResult.AVAILABLE,
            "cold caches, by emptying the kernel's",
            remedy=f"on a server, {side_effects.EVICT}",
        )
    elif method:
        yield Check(
            CheckResult.LIMITED,
            "cold caches file by file (vmtouch): inodes and folders stay cached",
            remedy="run as root, on a machine without production servers",
        )
    elif clears_caches:
        text = filesystems.why_not_cleared(machine, setting)
        yield Check(CheckResult.MISSING, text, "run as root, or apt-get install vmtouch")


def _check_space(plan: Plan, repositories: PreparedRepositories) -> Iterator[Check]:
    """Yield a check for each storage with too little space for the repositories of a run and their copies.

    If a run replaces an older repository, only the difference of both sizes needs space. The folder `scratch`
    has no check, because a repository that is too large for it is loaded on a storage.
    """
    for storage in repositories.storages:
        folder = resolve(plan.config.settings.storages[storage], plan.root)
        # Another check (trials.try_folders) has the reason and the remedy for a folder that cannot be used.
        why_unusable, _ = filesystems.why_unusable(folder)
        if why_unusable:
            continue
        try:
            needed = side_effects.storage_bytes(plan, repositories, storage)
        except UserError:
            # The copies of the storage were on a file system that is not mounted now. The report on the side
            # effects, which follows all checks, raises the same error. It ends the program, so the checks of
            # further storages are left out.
            return
        free = filesystems.free_bytes(folder)
        if needed > free:
            yield Check(
                CheckResult.MISSING,
                f"repositories and their copies need about {words.size(needed)}, and {folder} has "
                f"{words.size(free)} free",
                remedy="lower `copies` or the scale, or name another folder in `storages`",
            )


def _check_storages(plan: Plan) -> Iterator[Check]:
    """Yield the checks of each storage that a cell uses, and a check of `scratch` if it is not in memory.

    `scratch` is the folder in which repositories are loaded. A folder that vcsbench cannot use has no check
    here: trials.try_folders() names it with its remedy.
    """
    # A draft is the recipe of a cell (all that its measurement depends on) without digests. Two storages may
    # be one folder. Their "shelf" is the name of the first of them, and only this one is checked.
    used_storages = {plan.draft(cell)["storage"]["shelf"] for cell in plan.cells}
    # If all cells are skipped, the default storage is checked all the same.
    used_storages.add(plan.config.settings.storage)
    for keys, configured in plan.config.folders.items():
        folder = resolve(configured, plan.root)
        why_unusable, _ = filesystems.why_unusable(folder)
        if why_unusable:
            continue
        # The keys are ("scratch",), or ("storages", NAME).
        is_storage = len(keys) > 1
        if is_storage:
            if keys[1] in used_storages:
                yield from _check_storage(keys[1], folder, plan)
        elif mount_of(folder).filesystem not in IN_MEMORY:
            text = f"`scratch` ({folder}) is not in RAM: loading takes several times as long"
            yield Check(CheckResult.LIMITED, text, "name a folder in a tmpfs, such as /dev/shm")


def _check_storage(name: str, folder: Path, plan: Plan) -> Iterator[Check]:
    """Yield a check with the facts about a storage, and another one if exports are not written to it.

    Example of facts: "storage disk: /var/tmp, ext4, on vda1, SSD, mq-deadline, rw,noatime; 30 GiB free".
    """
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
    text = f"storage {name}: {folder}, {known_facts}; {free} free"
    yield Check(CheckResult.AVAILABLE, text)
    # On ext4 without a journal, a tree is written slowly for minutes after an earlier tree was removed. With
    # the setting `auto`, the trees of commands such as `svn export` are then written to another folder.
    if filesystems.lacks_journal(str(folder)) and plan.config.settings.output_location == "auto":
        text = f"{name} is ext4 without a journal: exports are written to `scratch`"
        yield Check(CheckResult.LIMITED, text, "use a storage with a journal")


def _check_hardware() -> Iterator[Check]:
    """Yield a check with the facts about the machine, and warnings about what makes times uncertain."""
    machine = host()
    memory = words.size(machine["memory_bytes"] or 0)
    cores = words.count_of(machine["cores"], "core")
    text = f"{machine['cpu']}, {cores}, {memory}, {machine['os']}, {machine['kernel']}"
    # "yes" is a guest of an unknown hypervisor, "" a physical machine.
    hypervisor = machine["virtualized"]
    if hypervisor == "yes":
        text += ", a virtual machine"
    elif hypervisor:
        text += f", a virtual machine ({hypervisor})"
    yield Check(CheckResult.AVAILABLE, text)
    yield from _check_limits()
    # MIN_CORES is 2, so a machine with fewer has one core.
    if machine["cores"] < MIN_CORES:
        text = "client and server share one core"
        yield Check(CheckResult.WARNING, text, "use a machine with two or more")
    clock = machine["clock_source"]
    # A kernel that does not show its clock is not suspected.
    if clock and clock not in STEADY_CLOCKS:
        text = f"reading the clock is slow ({clock})"
        yield Check(CheckResult.WARNING, text, "boot with clocksource=tsc")
    governor = machine["governor"]
    if governor in SAVING_GOVERNORS:
        text = f"the governor {governor} changes the processor's speed with its load"
        yield Check(CheckResult.WARNING, text, "cpupower frequency-set -g performance")


def _check_limits() -> Iterator[Check]:
    """Yield a check for each limit of the control group, such as a container's: memory, processor time."""
    memory = kernel.memory()
    if memory.limit is not None:
        limit = words.size(memory.limit)
        available = words.size(memory.available or 0)
        text = f"a control group limits memory to {limit}; {available} of it are available"
        # MIN_MEMORY is 1 GiB.
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


def _check_load() -> Iterator[Check]:
    machine = host()
    if machine["load"] > machine["cores"] * MAX_LOAD_PER_CORE:
        text = f"other programs are at work: the load average is {machine['load']:.1f}"
        yield Check(CheckResult.WARNING, text, "wait until the machine is idle")


def _check_scatter(plan: Plan) -> Iterator[Check]:
    for study, scatter_pct in plan_report.scatter_pct_by_study(plan).items():
        text = f"runs of a typical cell of {study} scattered by {scatter_pct:.2g} % here"
        yield Check(CheckResult.AVAILABLE, text)
