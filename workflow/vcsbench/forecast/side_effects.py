"""Describe what a session does to the machine besides measuring: `plan` and `doctor` print it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vcsbench import kernel, processes, words
from vcsbench.axes.server_axes import COMMITTED_INPUT, cache_bytes, server_settings
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
from vcsbench.records import Recipe
from vcsbench.storages.cell_filesystem import SMALLEST
from vcsbench.storages.filesystems import IN_MEMORY, free_bytes, mount_of
from vcsbench.storages.workdir import resolve

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
    """Return the Debian packages that set-up would install, as a script of the checkout `root` lists them."""
    # The script is run by bash, because some programs unpack an archive without its execute bits.
    argv = ["bash", str(root / "envs" / "list-missing.sh"), "--table"]
    listed = processes.run_program(argv).output
    packages = []
    # A line is, for example, "must<TAB>subversion<TAB>all cells".
    for line in listed.splitlines():
        need, name, purpose = line.split("\t")
        packages.append(MissingPackage(name, need == "must", purpose))
    return packages


def side_effects(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    """Yield a sentence for each effect of a session on this machine, such as `Opens no port.`"""
    missing = [package.name for package in missing_packages(plan.root)]
    if missing:
        names = words.enumeration(missing)
        yield f"Set-up installs {names} if it may (apt-get, as root). Starts no system service."
    else:
        yield "Installs nothing: all packages and tools are installed. Starts no system service."
    yield _describe_clearing(plan)
    yield from _describe_loading(plan, repositories)
    yield from _describe_dumps(plan, repositories)
    for storage in repositories.storages:
        yield _describe_use(plan, repositories, storage)
    yield from _made_filesystems(plan)
    yield from _memory_use(plan)
    yield _describe_ports(plan)
    yield from _privacy(plan)


def _describe_clearing(plan: Plan) -> str:
    """Return a sentence on how often, and in which way, a session empties the caches of the system.

    For example: "Drops the repositories' files from the page cache, about 24 times, and up to 8 times in
    each further round."
    """
    rounds_by_cell = unmeasured_rounds(plan)
    # The clearings in all rounds that are left to measure, and those in one round of all cells.
    planned = 0
    per_round = 0
    for key, cell in plan.cell_by_key.items():
        clearings = _count_clearings(plan.draft(cell))
        planned += clearings * rounds_by_cell[key]
        per_round += clearings
    frequencies = []
    if planned:
        frequencies.append(f"about {words.count_of(planned, 'time')}")
    # With a time limit, `batches` is not empty, and further rounds may follow.
    if plan.batches and per_round:
        rounds = "each further round" if planned else "each round"
        frequencies.append(f"up to {words.count_of(per_round, 'time')} in {rounds}")
    if not frequencies:
        return "Clears no caches."
    how_often = ", and ".join(frequencies)
    way_to_clear = plan.env.machine.clearing(plan.config.settings.clear_caches)
    if way_to_clear == "evict":
        return f"Drops the repositories' files from the page cache, {how_often}."
    return (
        f"Empties the kernel's caches for all programs on this machine, {how_often}. "
        f"They read from the disk again. On a production server, {EVICT}."
    )


def _count_clearings(draft: Recipe) -> int:
    """Return how often one round of a cell empties the caches of the system.

    The `state` of the draft has the names of the steps that lead to a cache state, by their moment.
    """
    state = draft["state"]
    # These steps come once in a round: before all runs, and before the first timed run.
    steps_once = [*state["setup"], *state.get("first", [])]
    # The steps of `prepare` come before each run, also before the `warmup` runs, which are not timed.
    runs = state["warmup"] + int(draft["runs"])
    return steps_once.count(CLEAR) + state["prepare"].count(CLEAR) * runs


def loaded_bytes(plan: Plan, repo: str) -> int:
    """Return the estimated size of a repository when it is loaded."""
    return repository_bytes(plan.env.sources[repo].estimate())


def storage_bytes(plan: Plan, repositories: PreparedRepositories, storage: str) -> int:
    """Return about how many more bytes a session takes on a storage, less the bytes that it replaces."""
    needed_bytes = _bytes_of_loads(plan, repositories, storage)
    needed_bytes += _bytes_of_made_states(plan, repositories, storage)
    needed_bytes += _bytes_of_copies(plan, repositories, storage)
    # The sum is negative if a load removes states of an earlier load that are not needed any more.
    return max(0, needed_bytes) + _bytes_of_private_copies(plan, storage)


def _bytes_of_loads(plan: Plan, repositories: PreparedRepositories, storage: str) -> int:
    """Return about how many bytes the repositories take that are loaded and then kept on a storage.

    A repository is loaded in the folder `scratch`, and then moved to a storage, its `home`. The number is
    negative if an earlier load, which is removed, takes more than the new one.
    """
    total = 0
    for repo, fmt in missing_loads(repositories):
        home = repositories.load_request(repo, fmt)["home"]
        if _storage_of(repositories, home) == storage:
            size = loaded_bytes(plan, repo)
            # Of each removed repository, at most `size` counts: others may be made before the rest is free.
            old_sizes = repositories.sizes_of_loaded(repo, fmt, home)
            total += size - sum(min(size, old_size) for old_size in old_sizes)
    return total


def _bytes_of_made_states(plan: Plan, repositories: PreparedRepositories, storage: str) -> int:
    """Return about how many bytes repositories take that are made from loaded ones, such as packed ones."""
    loads = missing_loads(repositories)
    # A variant has several copies, but is made only once.
    variants = {variant for variant, _ in repositories.missing(storage)}
    total = 0
    for variant in variants:
        load = repositories.read_load(variant.repo, variant.format)
        # A made repository of an earlier session is removed by a new load.
        is_there = load is not None and staged_path(load, variant) is not None
        is_removed = (variant.repo, variant.format) in loads
        if variant.is_made and (is_removed or not is_there):
            total += round(variant.size_factor * loaded_bytes(plan, variant.repo))
    return total


def _bytes_of_copies(plan: Plan, repositories: PreparedRepositories, storage: str) -> int:
    """Return about how many bytes the missing copies on a storage take, with their spacers."""
    spacer_kib = plan.config.settings.fragmentation_kib
    total = 0
    for variant, number in repositories.missing(storage):
        size = round(variant.size_factor * loaded_bytes(plan, variant.repo))
        # A changed copy is removed before the new one is made.
        old_size = repositories.size_of_copy(storage, variant, number)
        total += size - min(size, old_size)
        revisions = plan.env.revisions(variant.repo)
        total += estimate_spacer_bytes(variant.format, variant.state, revisions, spacer_kib)
    return total


def _bytes_of_private_copies(plan: Plan, storage: str) -> int:
    """Return about how many bytes the private copy of a cell that commits takes on a storage, 0 without one.

    One cell runs at a time, and its copy is removed after it. So only the largest copy counts.
    """
    rounds_by_cell = unmeasured_rounds(plan)
    largest = 0
    for key, cell in plan.cell_by_key.items():
        draft = plan.draft(cell)
        # With a time limit, `batches` is not empty, and further rounds may follow.
        is_left = rounds_by_cell[key] or plan.batches
        commits = draft["input"] == COMMITTED_INPUT
        if is_left and commits and draft["storage"]["shelf"] == storage:
            largest = max(largest, loaded_bytes(plan, draft["repository"]["name"]))
    return largest


def _storage_of(repositories: PreparedRepositories, folder: str) -> str:
    """Return the first storage with copies whose folder this is; "" without one. Two may have one folder."""
    for storage in repositories.storages:
        if repositories.folders[storage] == folder:
            return storage
    return ""


def _describe_loading(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    """Yield a sentence on the space that loads take in the folder `scratch`, if anything is to be loaded."""
    loads = missing_loads(repositories)
    if loads:
        scratch = resolve(plan.config.settings.scratch, plan.root)
        kind = "RAM" if mount_of(scratch).filesystem in IN_MEMORY else "disk"
        # All loads may run at the same time.
        needed_bytes = sum(loaded_bytes(plan, repo) for repo, _ in loads)
        space = _describe_space(needed_bytes, scratch)
        yield f"Takes {space} ({kind}) while repositories are loaded."


def _describe_dumps(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    """Yield a sentence on each dump file that a command reads."""
    scratch = resolve(plan.config.settings.scratch, plan.root)
    for repo, last_revision in repositories.dumps.items():
        # Revisions are numbered from 0.
        number = min(last_revision, plan.env.revisions(repo)) + 1
        revisions = words.count_of(number, "revision")
        yield f"Keeps a dump file of {revisions} of {repo} in {scratch} until `make clean`."


def _describe_use(plan: Plan, repositories: PreparedRepositories, storage: str) -> str:
    """Return sentences on the space that a session takes on a storage.

    For example: "Takes 1.2 GiB of the 30 GiB free in /var/tmp for repositories and their copies. ..."
    """
    needed_bytes = storage_bytes(plan, repositories, storage)
    where = f"All of it is in {repositories.workdir(storage).path} until `make clean`."
    if _bytes_of_private_copies(plan, storage):
        where += " The copy to which a cell commits is removed after each of its rounds."
    if needed_bytes:
        folder = resolve(plan.config.settings.storages[storage], plan.root)
        space = _describe_space(needed_bytes, folder)
        return f"Takes {space} for repositories and their copies. {where}"
    if repositories.missing(storage):
        return f"Makes copies on {storage} again, in the space of older ones. {where}"
    return f"All copies on {storage} exist. {where}"


def _describe_space(needed_bytes: int, folder: Path) -> str:
    """Return, for example, "1.2 GiB of the 30 GiB free in /var/tmp"."""
    if not folder.is_dir():
        return f"{words.size(needed_bytes)} in {folder} (which does not exist)"
    free = free_bytes(folder)
    text = f"{words.size(needed_bytes)} of the {words.size(free)} free in {folder}"
    return f"{text} (too little)" if needed_bytes > free else text


def _made_filesystems(plan: Plan) -> Iterator[str]:
    """Yield a sentence on file systems that vcsbench makes in images, and one on those in RAM."""
    # `make` is the kind of file system to make, such as "xfs", and "" for a folder on an existing one.
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
    # The configurations of servers, such as config/servers/tuned; "" without a server.
    folders = {plan.draft(cell)["server_folder"] for cell in plan.cells}
    folders.discard("")
    caches = []
    for folder in sorted(folders):
        # A configuration mostly gives svnserve and httpd the same cache, so one of them is enough.
        options = server_settings(plan.root, Path(folder).name)["svnserve"]
        # The server's default cache is small, and not reported.
        for size in cache_bytes("svnserve", options):
            caches.append(f"{words.size(size)} ({folder})")
    if caches:
        yield f"The cache of a server takes up to this much RAM: {', '.join(caches)}."


def _describe_ports(plan: Plan) -> str:
    """Return sentences on the ports and networks of the servers that cells need.

    For example: "svnserve listens on a free port of 127.0.0.1 while a cell runs. ...", or "Opens no port."
    """
    # The kinds of servers, such as "svnserve"; "" for a command that reads files itself.
    servers = {plan.draft(cell)["access"]["server"] for cell in plan.cells}
    servers.discard("")
    if not servers:
        return "Opens no port."
    verb = "listen" if len(servers) > 1 else "listens"
    sentence = (
        f"{words.enumeration(sorted(servers))} {verb} on a free port of {HOST} while a cell runs. One "
        f"measurement at a time runs on this machine."
    )
    # The kernel delays packets only between two networks. So client and server have one each.
    if any("link" in plan.draft(cell) for cell in plan.cells):
        sentence += (
            " A cell with a line between client and server has two network namespaces of its own, which end "
            "with it."
        )
    return sentence


def _privacy(plan: Plan) -> Iterator[str]:
    """Yield a sentence on who can read private repositories during a session, if there are any.

    A repository is private if not all users of this machine may read it. For example: "mine is private: only
    you and the servers' user can read the copies; its servers answer only in a network of the session."
    """
    drafts = [plan.draft(cell) for cell in plan.cells]
    private = [draft for draft in drafts if is_private_cell(draft, plan.env)]
    if not private:
        return
    # The sentence is about the least private network.
    networks = {draft["network"] for draft in private}
    if Network.SHARED in networks:
        servers = "its servers answer every user of this machine"
    elif networks & {Network.OWN, Network.USER}:
        servers = "its servers answer only in a network of the session"
    else:
        # Network.NONE: these cells have no server, or one in a virtual machine.
        servers = "no server of vcsbench has it"
    names = {draft["repository"]["name"] for draft in private}
    verb = words.is_or_are(len(names))
    yield (
        f"{words.enumeration(sorted(names))} {verb} private: only you and the servers' user can read the "
        f"copies; {servers}."
    )
