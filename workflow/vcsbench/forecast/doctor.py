"""The report of `vcsbench doctor`: what this machine can measure, and what it lacks, with remedies."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from vcsbench import kernel, processes, words
from vcsbench.evidence.run_columns import storage_label
from vcsbench.forecast import plan_report, trials
from vcsbench.machine import host
from vcsbench.measure.prepared_cell import read_versions
from vcsbench.measure.server import find_other_servers
from vcsbench.plan.plan import Plan
from vcsbench.prepare.repositories import PreparedRepositories
from vcsbench.storages import disks, filesystems
from vcsbench.storages.filesystems import IN_MEMORY, mount_of
from vcsbench.storages.workdir import resolve

AVAILABLE, MISSING, LIMITED, WARNING = "available", "missing", "limited", "warning"
HEADINGS = {
    AVAILABLE: "Available",
    MISSING: "Cannot be measured here",
    LIMITED: "Measured with less evidence, or more slowly",
    WARNING: "Warnings",
}
VERSIONS = {
    "svn": ["svn", "--version", "--quiet"],
    "svnserve": ["svnserve", "--version", "--quiet"],
    "hyperfine": ["hyperfine", "--version"],
    "git": ["git", "version"],
}
# The first hyperfine that reports the CPU time of each run.
HYPERFINE = 2
MIN_CORES = 2
MIN_MEMORY = 1 << 30
STEADY_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")
SAVING_GOVERNORS = ("powersave", "ondemand", "conservative", "schedutil")

SERVICES = {
    *("svnserve", "httpd", "apache2", "nginx", "lighttpd", "caddy"),
    *("postgres", "postmaster", "mysqld", "mariadbd", "mongod", "redis-server"),
    *("oracle", "sqlservr", "slapd", "smbd", "nfsd", "exim4", "named"),
}


class Check(NamedTuple):
    """The result of a check: its state (a key of HEADINGS), a sentence, and a remedy."""

    state: str
    text: str
    remedy: str = ""


def examine_machine(
    plan: Plan, repositories: PreparedRepositories, write: Callable[[str], None]
) -> bool:
    """Write the lines of the report. Return True if all cells can be measured."""
    found = checks(plan)
    for state, heading in HEADINGS.items():
        if group := [check for check in found if check.state == state]:
            write(heading)
            for check in group:
                write(f"  {check.text}" + (f" [{check.remedy}]" if check.remedy else ""))
            write("")
    write("Side effects of a session")
    for sentence in plan_report.side_effects(plan, repositories):
        write(f"  {sentence}")
    is_able = all(check.state != MISSING for check in found)
    write("\nAll can be measured." if is_able else "\nSome cells cannot be measured here.")
    return is_able


def checks(plan: Plan) -> list[Check]:
    missing, limited = (trials.lacks(plan, part) for part in (trials.REQUIRED, trials.EVIDENCE))
    return [
        *_cells(plan),
        *_programs(plan),
        _caches(plan),
        *_storages(plan),
        *[Check(MISSING, lack.what, lack.remedy) for lack in missing],
        *[Check(LIMITED, lack.what, lack.remedy) for lack in limited],
        *_machine(),
        *_scatter(plan),
        *_services(),
    ]


def _scatter(plan: Plan) -> Iterator[Check]:
    for study, scatter_pct in plan_report.scatter_pct_by_study(plan).items():
        yield Check(
            AVAILABLE, f"runs of a typical cell of {study} scattered by {scatter_pct:.2g} % here"
        )


def _services() -> Iterator[Check]:
    """Yield a check for each other server program that runs here: measuring disturbs it, and it the runs."""
    ours, commands = find_other_servers(()), map(processes.command_line, processes.all_pids())
    others = [command[0] for command in commands if command and " ".join(command) not in ours]
    # Some programs append their state to their name: `postgres: checkpointer`.
    names = Counter(os.path.basename(name).partition(":")[0] for name in others)
    for name in sorted(names.keys() & SERVICES):
        number = words.count_of(names[name], "process", "processes")
        yield Check(WARNING, f"{name} runs here, in {number}", "measure while it is idle")


def _cells(plan: Plan) -> Iterator[Check]:
    for study, grid in plan.grids.items():
        number = sum(not cell.skip for cell in grid)
        text = f"{number} of {words.count_of(len(grid), 'cell')} of {study} can be measured"
        yield Check(AVAILABLE if number else MISSING, text)
        for reason, skipped in plan_report.skip_reasons(grid):
            yield Check(MISSING, f"{words.count_of(skipped, 'cell')} of {study}: {reason}")


def _programs(plan: Plan) -> Iterator[Check]:
    for package, is_required, purpose in plan_report.missing_packages(plan.root):
        text = f"{package} is not installed. It is for {purpose}"
        yield Check(MISSING if is_required else LIMITED, text, f"apt-get install {package}")
    found = read_versions({name: argv for name, argv in VERSIONS.items() if shutil.which(name)})
    yield Check(AVAILABLE, ", ".join(f"{name} {version}" for name, version in found.items()))
    major = found.get("hyperfine", "").partition(".")[0]
    if major.isdigit() and int(major) < HYPERFINE:
        text = f"hyperfine {found['hyperfine']} reports CPU times as means over a cell-round"
        yield Check(LIMITED, text, f"hyperfine {HYPERFINE} reports them for each run")


def _caches(plan: Plan) -> Check:
    setting, machine = plan.config.settings.clear_caches, plan.env.machine
    how = machine.clearing(setting)
    if how == "drop-caches":
        text = "cold caches, by emptying the kernel's"
        return Check(AVAILABLE, text, f"on a server, {plan_report.EVICT}")
    if how:
        text = "cold caches file by file (vmtouch): inodes and folders stay cached"
        return Check(LIMITED, text, "run as root, on a machine without production servers")
    folder = plan.config.settings.storages[plan.config.settings.storage]
    text = filesystems.why_never_cold(machine, folder, setting)
    return Check(MISSING, text, "run as root, or apt-get install vmtouch")


def _storages(plan: Plan) -> Iterator[Check]:
    used = {plan.draft(cell)["storage"]["shelf"] for cell in plan.cells}
    used.add(plan.config.settings.storage)
    for keys, configured in plan.config.folders.items():
        folder, is_scratch = resolve(configured, plan.root), keys == ("scratch",)
        if not is_scratch and keys[-1] not in used:
            continue
        if filesystems.why_unusable(folder)[0]:
            continue
        if not is_scratch:
            yield from _storage(keys[-1], folder, plan)
        elif mount_of(folder).filesystem not in IN_MEMORY:
            text = f"`scratch` ({folder}) is not in RAM: loading takes several times as long"
            yield Check(LIMITED, text, "name a folder in a tmpfs, such as /dev/shm")


def _storage(name: str, folder: Path, plan: Plan) -> Iterator[Check]:
    facts = disks.describe_storage(name, folder)
    kind = storage_label(facts, host())
    parts = [facts["filesystem"], f"on {facts['device']}", kind, facts["scheduler"]]
    text = ", ".join(filter(None, [*parts, facts["mount_options"]]))
    free = words.size(facts["free_bytes"])
    yield Check(AVAILABLE, f"storage {name}: {folder}, {text}; {free} free")
    if filesystems.lacks_journal(str(folder)) and plan.config.settings.output_location == "auto":
        text = f"{name} is ext4 without a journal: exports are written to `scratch`"
        yield Check(LIMITED, text, "use a storage with a journal")


def _machine() -> Iterator[Check]:
    facts = host()
    memory, cores = words.size(facts["memory_bytes"] or 0), words.count_of(facts["cores"], "core")
    # "yes" is a guest of an unknown hypervisor.
    name = facts["virtualized"].removeprefix("yes")
    text = f"{facts['cpu']}, {cores}, {memory}, {facts['os']}, {facts['kernel']}"
    if facts["virtualized"]:
        text += f", a virtual machine ({name})" if name else ", a virtual machine"
    yield Check(AVAILABLE, text)
    limit, quota = facts["memory_limit_bytes"], facts["quota_cores"]
    if limit is not None:
        free = words.size(kernel.memory().available or 0)
        text = f"a control group limits memory to {words.size(limit)}; {free} of it are available"
        if limit < MIN_MEMORY:
            yield Check(WARNING, text, "raise the limit to 1 GiB or more")
        else:
            yield Check(AVAILABLE, text)
    if quota is not None:
        text = (
            f"a control group limits processor time to {quota:.2g} cores; affected runs are flagged"
        )
        yield Check(WARNING, text, "remove the quota")
    if facts["cores"] < MIN_CORES:
        yield Check(WARNING, "client and server share one core", "use a machine with two or more")
    if (clock := facts["clock_source"]) not in ("", *STEADY_CLOCKS):
        yield Check(WARNING, f"reading the clock is slow ({clock})", "boot with clocksource=tsc")
    if (governor := facts["governor"]) in SAVING_GOVERNORS:
        text = f"the governor {governor} changes the processor's speed with its load"
        yield Check(WARNING, text, "cpupower frequency-set -g performance")
    if facts["load"] > facts["cores"] / 4:
        text = f"other programs are at work: the load average is {facts['load']:.1f}"
        yield Check(WARNING, text, "wait until the machine is idle")
