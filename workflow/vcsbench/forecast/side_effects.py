"""Side effects of a run on the machine: packages, caches, memory, disk, ports and readers of copies."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from vcsbench import kernel, processes, words
from vcsbench.config.configuration import EMPTY
from vcsbench.files import read_json, server_file
from vcsbench.measure.server import HOST, other_servers, read_arguments
from vcsbench.plan.plan import Plan
from vcsbench.plan.recipe import OWN, SHARED, USER, is_private_cell
from vcsbench.prepare.loader import repository_bytes
from vcsbench.prepare.repositories import PreparedRepositories
from vcsbench.storages.filesystems import IN_MEMORY, free_bytes, mount_of
from vcsbench.storages.workdir import SMALLEST, resolve

SERVERS = {
    "svnserve", "httpd", "apache2", "nginx", "lighttpd", "caddy", "postgres", "postmaster", "mysqld",
    "mariadbd", "mongod", "redis-server", "oracle", "sqlservr", "slapd", "smbd", "nfsd", "exim4", "named",
}  # fmt: skip
CLEAR = "clear-caches"
# svnserve's options for the size of its cache, in MiB.
CACHE_OPTIONS = ("-M", "--memory-cache-size")
EVICT = "`clear_caches: evict` in the configuration drops only the files of the repositories"


@cache
def missing_packages(root: Path) -> list[tuple[str, bool, str]]:
    """Return the Debian packages that set-up would install: name, whether it is required, and purpose."""
    done = subprocess.run(
        [root / "envs" / "list-missing.sh", "--table"], capture_output=True, text=True, check=True
    )
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return [(package, need == "must", purpose) for need, package, purpose in rows]


def running_services() -> list[str]:
    """Describe the servers of others that run on this machine, a line per program."""
    found: Counter[str] = Counter()
    ours = {*other_servers(())}
    for pid in processes.all_pids():
        argv = processes.command_line(pid)
        # Some programs append their state to their name: `postgres: checkpointer`.
        name = os.path.basename(argv[0]).partition(":")[0] if argv else ""
        if name in SERVERS and " ".join(argv) not in ours:
            found[name] += 1
    return [
        f"{name} runs here, in {words.count_of(number, 'process', 'processes')}"
        for name, number in sorted(found.items())
    ]


def unloaded_repositories(repositories: PreparedRepositories) -> list[str]:
    """Return the repositories that a run will load."""
    return [
        repo
        for repo in repositories.all_repositories()
        if repo != EMPTY
        and repositories.load_token(repo) != read_json(repositories.load_record(repo)).get("made")
    ]


def unmeasured_rounds(plan: Plan) -> dict[tuple[str, str], int]:
    """Return by study and cell the number of rounds that a run has to measure at least."""
    return {
        (cell.study, cell.path): sum(not plan.is_fresh(e) for e in plan.exports_of(cell))
        for cell in plan.cells
    }


def side_effects(
    plan: Plan, repositories: PreparedRepositories, services: Sequence[str]
) -> Iterator[str]:
    """Yield sentences about the side effects of a run. `services` are other servers that run here."""
    if missing := [package for package, _, _ in missing_packages(plan.root)]:
        names = words.enumeration(missing)
        yield f"Set-up installs {names} if it may (apt-get, as root). Starts no system service."
    else:
        yield "Installs nothing: all packages and tools are installed. Starts no system service."
    yield _caches(plan, services)
    yield from _disk(plan, repositories)
    yield from _file_systems(plan)
    yield from _memory(plan)
    if servers := sorted({plan.parts(cell)["server"] for cell in plan.cells} - {""}):
        verb = "listen" if len(servers) > 1 else "listens"
        yield (
            f"{words.enumeration(servers)} {verb} on a free port of {HOST} while a cell runs. One "
            f"measurement at a time runs on this machine."
        )
    else:
        yield "Opens no port."
    yield from _privacy(plan)


def _caches(plan: Plan, services: Sequence[str]) -> str:
    number = sum(n * _clearings(plan, *cell) for cell, n in unmeasured_rounds(plan).items())
    per_round = sum(_clearings(plan, cell.study, cell.path) for cell in plan.cells)
    times = [f"about {number} times"] * bool(number)
    if plan.passes and per_round:  # the run decides on more rounds later
        times.append(f"up to {per_round} times in each {'further ' * bool(number)}round")
    if not times:
        return "Clears no caches."
    if plan.env.machine.clearing(plan.config.settings.clear_caches) == "evict":
        return f"Drops the repositories' files from the page cache, {', and '.join(times)}."
    hint = f"{'; '.join(services)}: {EVICT}" if services else f"On a production server, {EVICT}"
    return (
        f"Empties the kernel's caches for all programs on this machine, {', and '.join(times)}. "
        f"They read from the disk again. {hint}."
    )


def _clearings(plan: Plan, study: str, path: str) -> int:
    """Return how often a round of a cell clears caches."""
    recipe = plan.parts(plan.cell(study, path))
    state = recipe["state"]
    per_run, once = state["prepare"].count(CLEAR), [*state["setup"], *state.get("first", [])]
    return int(once.count(CLEAR) + per_run * (state["warmup"] + recipe["runs"]))


def _disk(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    scratch = resolve(plan.config.settings.scratch, plan.root)

    def bytes_of(repo: str) -> int:
        return repository_bytes(plan.env.sources[repo].estimate())

    if loading := unloaded_repositories(repositories):
        need = sum(bytes_of(repo) * len(repositories.formats(repo)) for repo in loading)
        kind = "RAM" if mount_of(scratch).filesystem in IN_MEMORY else "disk"
        yield f"Takes {_space(need, scratch)} ({kind}) while repositories are loaded."
    for repo, last in repositories.dumps.items():
        revisions = words.count_of(min(last, plan.env.revisions(repo)) + 1, "revision")
        yield f"Keeps a dump file of {revisions} of {repo} in {scratch} until `make clean`."
    for storage in repositories.storages:
        folder = resolve(plan.config.settings.storages[storage], plan.root)
        need = sum(bytes_of(variant.repo) for variant, _ in repositories.missing(storage))
        place = f"All of it is in {repositories.workdir(storage).path} until `make clean`."
        if need:
            yield f"Takes {_space(need, folder)} for copies. {place}"
        else:
            yield f"All copies on {storage} exist. {place}"


def _space(need: float, folder: Path) -> str:
    if not folder.is_dir():
        return f"{words.size(need)} in {folder} (which does not exist)"
    free = free_bytes(folder)
    return f"{words.size(need)} of the {words.size(free)} free in {folder}{' (too little)' * (need > free)}"


def _file_systems(plan: Plan) -> Iterator[str]:
    parts = [plan.parts(cell) for cell in plan.cells]
    made = [part["filesystem"] for part in parts if part.get("filesystem", {}).get("make")]
    if made:
        kinds = words.enumeration(sorted({one["make"] for one in made}))
        folders = words.enumeration(sorted({one["root"] for one in made}))
        yield (
            f"Makes file systems ({kinds}) in images of at least {words.size(SMALLEST)} in {folders}, one "
            f"at a time. Only the measured command sees them, and they are removed."
        )


def _memory(plan: Plan) -> Iterator[str]:
    now = kernel.memory()
    if now.limit is not None:
        yield (
            f"A control group limits memory to {words.size(now.limit)}, of which "
            f"{words.size(now.available or 0)} are available."
        )
    caches = []
    for folder in sorted({plan.parts(cell)["servers"] for cell in plan.cells} - {""}):
        arguments = read_arguments(server_file(plan.root / folder, "svnserve.args"))
        for option, value in pairwise(arguments):
            if option in CACHE_OPTIONS and value.isdigit():
                caches.append(f"{words.size(int(value) << 20)} ({folder})")
    if caches:
        yield f"The cache of a server takes up to this much RAM: {', '.join(caches)}."


def _privacy(plan: Plan) -> Iterator[str]:
    """Describe who can read copies of repositories that not all users of this machine can read."""
    parts = [part for part in map(plan.parts, plan.cells) if is_private_cell(part, plan.env)]
    if not (names := sorted({part["repository"]["name"] for part in parts})):
        return
    networks = {part["network"] for part in parts}
    if SHARED in networks:
        servers = "its servers answer every user of this machine"
    elif networks & {OWN, USER}:
        servers = "its servers answer only in a network of the run"
    else:
        servers = "no server of vcsbench has it"
    verb = "is" if len(names) == 1 else "are"
    yield (
        f"{words.enumeration(names)} {verb} private: only you and the servers' user can read the copies; "
        f"{servers}."
    )
