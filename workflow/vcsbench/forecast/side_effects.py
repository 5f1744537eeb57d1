"""Describe what a session does to the machine besides measuring: `plan` and `doctor` print it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vcsbench import kernel, processes, words
from vcsbench.axes.server_axes import cache_bytes, server_settings
from vcsbench.forecast.durations import missing_loads, unmeasured_rounds
from vcsbench.measure.server import HOST
from vcsbench.plan.plan import Plan
from vcsbench.plan.recipe import Network, is_private_cell
from vcsbench.prepare.loader import repository_bytes
from vcsbench.prepare.repositories import (
    PreparedRepositories,
    estimate_spacer_bytes,
    staged_path,
)
from vcsbench.storages.cell_filesystem import SMALLEST
from vcsbench.storages.filesystems import IN_MEMORY, free_bytes, mount_of
from vcsbench.storages.workdir import resolve
from vcsbench.subjects.repository import Variant

# The step that empties the caches, in the steps of a cache state.
CLEAR = "clear-caches"
EVICT = "`clear_caches: evict` in the configuration drops only the files of the repositories"


class MissingPackage(NamedTuple):
    """A Debian package that set-up would install, and its purpose."""

    name: str
    is_required: bool
    purpose: str


@cache
def missing_packages(root: Path) -> list[MissingPackage]:
    """Return the packages that set-up would install."""
    # By bash, because some programs unpack an archive without its execute bits.
    argv = ["bash", str(root / "envs" / "list-missing.sh"), "--table"]
    listed = processes.run_program(argv).output
    packages = []
    # A line is, for example, "must<TAB>subversion<TAB>all cells".
    for line in listed.splitlines():
        need, name, purpose = line.split("\t")
        packages.append(MissingPackage(name, need == "must", purpose))
    return packages


def side_effects(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    """Yield a sentence for each effect of a run on this machine, such as `Opens no port.`"""
    missing = [package.name for package in missing_packages(plan.root)]
    if missing:
        names = words.enumeration(missing)
        yield f"Set-up installs {names} if it may (apt-get, as root). Starts no system service."
    else:
        yield "Installs nothing: all packages and tools are installed. Starts no system service."
    yield _describe_clearing(plan)
    yield from _disk_use(plan, repositories)
    yield from _made_filesystems(plan)
    yield from _memory_use(plan)
    yield _describe_ports(plan)
    yield from _privacy(plan)


def _describe_clearing(plan: Plan) -> str:
    """Return a sentence on the clearing of caches.

    For example: "Drops the repositories' files from the page cache, about 24 times, and up to 8 times in
    each further round."
    """
    rounds_by_cell = unmeasured_rounds(plan)
    # The numbers of clearings in all rounds that are left to measure, and in one round of all cells.
    planned = 0
    per_round = 0
    for key, cell in plan.cell_by_key.items():
        recipe = plan.draft(cell)
        # The steps of the cache state, such as cold, by phase: {"prepare": ["clear-caches", ...], ...}.
        state = recipe["state"]
        steps_once = [*state["setup"], *state.get("first", [])]
        # The steps `prepare` come before each run, also before warm-up runs.
        runs = state["warmup"] + int(recipe["runs"])
        clearings = steps_once.count(CLEAR) + state["prepare"].count(CLEAR) * runs
        per_round += clearings
        planned += clearings * rounds_by_cell[key]
    frequencies = []
    if planned:
        frequencies.append(f"about {words.count_of(planned, 'time')}")
    # A run with a time limit decides again and again whether further rounds follow. `batches` has the rounds
    # that are decided so far, and is empty without a time limit.
    if plan.batches and per_round:
        rounds = "each further round" if planned else "each round"
        frequencies.append(f"up to {words.count_of(per_round, 'time')} in {rounds}")
    if not frequencies:
        return "Clears no caches."
    how_often = ", and ".join(frequencies)
    way_to_clear = plan.env.machine.clearing(plan.config.settings.clear_caches)
    if way_to_clear == "evict":
        return f"Drops the repositories' files from the page cache, {how_often}."
    # The other way is drop-caches. The text EVICT names the setting for `evict`, which spares other programs.
    return (
        f"Empties the kernel's caches for all programs on this machine, {how_often}. "
        f"They read from the disk again. On a production server, {EVICT}."
    )


def loaded_bytes(plan: Plan, repo: str) -> int:
    """Return the estimated size of a repository when it is loaded."""
    return repository_bytes(plan.env.sources[repo].estimate())


def _bytes_to_load(plan: Plan, repositories: PreparedRepositories) -> int:
    """Return the size of all loads of a run: of each repository in each format."""
    return sum(loaded_bytes(plan, repo) for repo, _ in missing_loads(repositories))


def storage_bytes(plan: Plan, repositories: PreparedRepositories, storage: str) -> int:
    """Return about how many more bytes a run takes on a storage, for repositories, their copies and spacers.

    Spacers are files of `fragmentation_kib` KiB on average. They are made between the revisions of copies,
    and scatter these on the device. If a run replaces an older repository by a new one, only the difference
    of both sizes counts.
    """
    spacer_kib = plan.config.settings.fragmentation_kib
    loads = missing_loads(repositories)
    needed_bytes = 0

    # Each missing copy needs space. A variant is a repository in a format and state, such as packed. There
    # are several copies of each variant.
    copied_variants: set[Variant] = set()
    for variant, number in repositories.missing(storage):
        size = loaded_bytes(plan, variant.repo)
        # The size of a changed copy, which the run removes; 0 if there is none.
        old_size = repositories.size_of_copy(storage, variant, number)
        needed_bytes += size - min(size, old_size)
        revisions = plan.env.revisions(variant.repo)
        needed_bytes += estimate_spacer_bytes(variant.format, variant.state, revisions, spacer_kib)
        copied_variants.add(variant)

    # The copies of a packed repository are made from one that was packed after its load (`is_made`). It may
    # exist from an earlier run, but a new load removes it. If it is missing, it needs space, too.
    for variant in copied_variants:
        load = repositories.read_load(variant.repo, variant.format)
        is_intact = load is not None and staged_path(load, variant) is not None
        is_removed = (variant.repo, variant.format) in loads
        if variant.is_made and (is_removed or not is_intact):
            needed_bytes += loaded_bytes(plan, variant.repo)

    # A repository is loaded in the folder `scratch`, and then moved to a storage, its home. It stays there,
    # so that another packing needs no load. So its bytes count in both folders.
    for repo, fmt in loads:
        home = repositories.load_request(repo, fmt)["home"]
        if _storage_of(repositories, home) == storage:
            size = loaded_bytes(plan, repo)
            # The sizes of the repository of an earlier load, and of those that were made from it.
            old_sizes = repositories.sizes_of_loaded(repo, fmt, home)
            needed_bytes += size - sum(min(size, old_size) for old_size in old_sizes)
    # The sum can be negative if an earlier load had a packed repository that is not needed now.
    return max(0, needed_bytes)


def _storage_of(repositories: PreparedRepositories, folder: str) -> str:
    """Return the first storage with copies whose folder this is; "" without one. Two may have one folder."""
    for storage in repositories.storages:
        if repositories.folders[storage] == folder:
            return storage
    return ""


def _disk_use(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    """Yield a sentence on loads in the folder `scratch`, on each dump file, and on copies on each storage.

    For example: "Takes 1.2 GiB of the 30 GiB free in /var/tmp for repositories and their copies. ..."
    """
    scratch = resolve(plan.config.settings.scratch, plan.root)
    if missing_loads(repositories):
        kind = "RAM" if mount_of(scratch).filesystem in IN_MEMORY else "disk"
        space = _describe_space(_bytes_to_load(plan, repositories), scratch)
        yield f"Takes {space} ({kind}) while repositories are loaded."
    for repo, last_revision in repositories.dumps.items():
        # The revisions of a dump are numbered from 0, so there is one more than the last number.
        number = min(last_revision, plan.env.revisions(repo)) + 1
        revisions = words.count_of(number, "revision")
        yield f"Keeps a dump file of {revisions} of {repo} in {scratch} until `make clean`."
    for storage in repositories.storages:
        folder = resolve(plan.config.settings.storages[storage], plan.root)
        needed_bytes = storage_bytes(plan, repositories, storage)
        where = f"All of it is in {repositories.workdir(storage).path} until `make clean`."
        if needed_bytes:
            space = _describe_space(needed_bytes, folder)
            yield f"Takes {space} for repositories and their copies. {where}"
        elif repositories.missing(storage):
            yield f"Makes copies on {storage} again, in the space of older ones. {where}"
        else:
            yield f"All copies on {storage} exist. {where}"


def _describe_space(needed_bytes: int, folder: Path) -> str:
    """Return, for example, "1.2 GiB of the 30 GiB free in /var/tmp"."""
    if not folder.is_dir():
        return f"{words.size(needed_bytes)} in {folder} (which does not exist)"
    free = free_bytes(folder)
    text = f"{words.size(needed_bytes)} of the {words.size(free)} free in {folder}"
    return f"{text} (too little)" if needed_bytes > free else text


def _made_filesystems(plan: Plan) -> Iterator[str]:
    """Yield a sentence on file systems that vcsbench makes in images, and one on those that it makes in RAM.

    A cell measures a new working copy or tree on such a file system. Yield nothing if no cell has one.
    """
    # A cell without a file system of its own has {}. The kind to make, such as "xfs", is in `make`. It is ""
    # for a folder on an existing file system.
    filesystems = [plan.draft(cell).get("filesystem", {}) for cell in plan.cells]
    to_make = [filesystem for filesystem in filesystems if filesystem.get("make")]
    in_images = [filesystem for filesystem in to_make if filesystem["make"] not in IN_MEMORY]
    if in_images:
        kinds = sorted({filesystem["make"] for filesystem in in_images})
        folders = sorted({filesystem["root"] for filesystem in in_images})
        yield (
            f"Makes file systems ({words.enumeration(kinds)}) in images of at least "
            f"{words.size(SMALLEST)} in {words.enumeration(folders)}, one at a time. Only the measured "
            f"command sees them, and they are removed."
        )
    if len(in_images) < len(to_make):
        yield (
            f"Makes a tmpfs of at least {words.size(SMALLEST)}, one at a time. Its files take RAM. "
            f"Only the measured command sees it, and it is removed."
        )


def _memory_use(plan: Plan) -> Iterator[str]:
    """Yield a sentence on a limit of memory, and one on the caches of servers, if there are any.

    For example: "The cache of a server takes up to this much RAM: 256 MiB (config/servers/tuned)."
    """
    memory = kernel.memory()
    if memory.limit is not None:
        yield (
            f"A control group limits memory to {words.size(memory.limit)}, of which "
            f"{words.size(memory.available or 0)} are available."
        )
    folders = {plan.draft(cell)["server_folder"] for cell in plan.cells}
    # Cells without a server have no folder of a server configuration.
    folders.discard("")
    caches = []
    for folder in sorted(folders):
        # The option of svnserve stands for both servers, svnserve and httpd: a configuration usually sets
        # the same size for both. A server with the default size is not listed.
        options = server_settings(plan.root, Path(folder).name)["svnserve"]
        # A size for each option that sets one: mostly one size, or none.
        for size in cache_bytes("svnserve", options):
            caches.append(f"{words.size(size)} ({folder})")
    if caches:
        yield f"The cache of a server takes up to this much RAM: {', '.join(caches)}."


def _describe_ports(plan: Plan) -> str:
    """Return sentences on the ports and networks of servers.

    Examples: `svnserve listens on a free port of 127.0.0.1 while a cell runs. ...`, or `Opens no port.`
    """
    # The kinds of servers, such as "svnserve".
    servers = {plan.draft(cell)["access"]["server"] for cell in plan.cells}
    # Cells over file:// have no server.
    servers.discard("")
    if not servers:
        return "Opens no port."
    verb = "listen" if len(servers) > 1 else "listens"
    # One measurement runs at a time, so only one server's ports are open.
    sentence = (
        f"{words.enumeration(sorted(servers))} {verb} on a free port of {HOST} while a cell runs. One "
        f"measurement at a time runs on this machine."
    )
    # `link` is a simulated line between client and server, with a delay or a limited rate. The kernel delays
    # packets between two networks only, so client and server each get a network.
    if any("link" in plan.draft(cell) for cell in plan.cells):
        sentence += (
            " A cell with a line between client and server has two network namespaces of its own, which end "
            "with it."
        )
    return sentence


def _privacy(plan: Plan) -> Iterator[str]:
    """Yield a sentence on who can read private repositories during a run. Yield nothing if none is private.

    For example: "mine is private: only you and the servers' user can read the copies; ..."
    """
    # A draft has everything that the measurement of a cell depends on, without digests.
    drafts = [plan.draft(cell) for cell in plan.cells]
    private = [draft for draft in drafts if is_private_cell(draft, plan.env)]
    if not private:
        return
    names = {draft["repository"]["name"] for draft in private}
    # The kinds of networks in which the servers of these cells listen.
    networks = {draft["network"] for draft in private}
    if Network.SHARED in networks:
        servers = "its servers answer every user of this machine"
    elif networks & {Network.OWN, Network.USER}:
        # A network namespace of the cell, made by root (OWN) or by another user (USER).
        servers = "its servers answer only in a network of the session"
    else:
        # Network.NONE: these cells have no server, or one in a guest (a virtual machine).
        servers = "no server of vcsbench has it"
    verb = "is" if len(names) == 1 else "are"
    yield (
        f"{words.enumeration(sorted(names))} {verb} private: only you and the servers' user can read the "
        f"copies; {servers}."
    )
