"""Define the types of JSON records: recipe, evidence and context of a cell-round, records of preparation.

A recipe has everything that a measurement depends on. A key is optional if some axes or commands lack it.
Measuring modules import this for type checkers only.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, cast


class Promises(TypedDict, total=False):
    """The promises of a cache state about a timed run."""

    os: str  # cold or hot
    server: str  # new or kept


class State(TypedDict, total=False):
    """The steps and runs of a cache state (axes.STATES)."""

    setup: list[str]  # the steps before all runs
    first: list[str]  # the steps before the first timed run, if they differ from `prepare`
    prepare: list[str]  # the steps before each run
    warmup: int  # the number of runs that are not timed
    warmup_of_server: int  # further ones of a cell with a server
    discard: bool  # one more run is not timed, if no cold run has read the copy lately
    runs: int  # the number of timed runs, if the configuration has `auto`
    promises: Promises
    later_promises: Promises  # of the runs after the first one, if they differ


class Access(TypedDict):
    """The access to a repository: scheme of its URL, files of a server configuration, kind of server."""

    scheme: str
    files: list[str]
    server: str


class RecipeBuild(TypedDict):
    """The build of a cell."""

    name: str
    client: dict[str, str]  # the fields of programs.Programs
    server: dict[str, str]


class RecipeStorage(TypedDict):
    """The storage under test. `shelf` is the first storage with the same folder: its copies are used."""

    name: str
    path: str
    shelf: str


class RecipeFilesystem(TypedDict, total=False):
    """The file system of a working copy or tree."""

    make: str
    root: str
    mounted: list[str]  # kind and mount point of the user's folder
    guest: str
    scratch: str


class Head(TypedDict, total=False):
    """The place of the youngest tree of a source without its history (Source.head)."""

    kind: str
    path: str
    commit: str
    url: str
    revision: int
    tree: str | None


class RecipeRepository(TypedDict, total=False):
    """The repository of a cell: its source, format and packing."""

    name: str
    system: str  # missing: subversion
    identity: str
    source: str
    scale: float | None
    description: str
    head: Head
    format: str
    fsfs_settings: dict[str, str]
    packing: str
    packed: bool
    upkeep: str  # from here on: of a git repository (systems.git_store)
    refs: str
    ref_storage: str


class RecipeRules(TypedDict):
    """The access rules of a server: the number of paths that they name."""

    count: int


class RecipeLink(TypedDict):
    """The line between client and server: round trip, rate (0: no limit) and lost packets.

    `shaper` is the means that shapes it (deployment.link.Shaper), `relay` the digest of its source.
    """

    delay_ms: float
    rate_mbit: float
    loss_pct: float
    shaper: str
    relay: str


class Recipe(TypedDict, total=False):
    """A recipe, or its draft without digests (plan.recipe)."""

    study: str
    cell: str
    axes: dict[str, str]
    argv: str
    stdin: str
    environment: dict[str, str]
    work_kind: str
    input: str
    output: str
    runs: int
    revisions: int
    output_location: str
    revisions_behind: int
    scale_revisions: bool
    store: str
    program: str
    needs: list[str]
    fixed_cost: bool
    clones: bool
    measure_sync: bool
    change: str
    state: State
    build: RecipeBuild
    environments: list[str]
    server_folder: str
    access: Access
    remote: dict[str, str]  # host and url of a server on another machine
    clients: int
    traffic: dict[str, Any]  # the fields of config.study.TrafficDefinition
    readers: int
    committers: int
    arrival: str
    server_options: list[str]
    delay: str
    pristine_options: list[str]
    client_options: list[str]
    locking: str
    authentication: str  # from here on: a server as it is deployed (axes.deployment_axes)
    access_rules: RecipeRules
    path_authz: str
    keep_alive: str
    bulk_updates: str
    http_options: list[str]
    link: RecipeLink
    hooks: str
    hook_program: str
    reflink: str
    repository: RecipeRepository
    storage: RecipeStorage
    filesystem: RecipeFilesystem
    network: str
    time_limit_s: float
    clearing: str
    code: str
    server_files_digest: str
    binaries: dict[str, str]
    linked: dict[str, str]  # digests of the libraries of client and server
    fragmentation_kib: float
    disks: dict[str, list[str]]  # by folder (storages.disks.storage_identity); missing on a cluster
    targets: str
    digest: str
    is_in_guest: bool


class WarmUpReads(TypedDict, total=False):
    """The reads of a run that was not timed."""

    client_read_bytes: int | None
    server_pid: int
    server_read_bytes: int | None
    server_rchar: int | None
    server_wchar: int | None


class Evidence(TypedDict, total=False):
    """The evidence of a timed run (docs/evidence.md). Each key is a column, None if not counted here."""

    started_at: str
    cache_cleared_by: str
    subject_bytes: int | None
    resident_before: float | None
    resident_after: float | None
    resident_after_bytes: int | None
    resident_of: str
    written_resident_before: float | None
    pristines_resident: float | None
    database_resident: float | None
    working_resident: float | None
    client_read_bytes: int | None
    client_write_bytes: int | None
    client_rchar: int | None
    client_wchar: int | None
    client_syscr: int | None
    server_kind: str
    server_pid: int
    server_same: bool
    server_processes_changed: bool
    server_age_s: float
    server_argv: list[str]
    server_build: str
    server_cpu_s: float | None
    server_peak_memory_bytes: int | None
    server_read_bytes: int | None
    server_write_bytes: int | None
    server_rchar: int | None
    server_wchar: int | None
    server_syscr: int | None
    window_s: float
    device_read_bytes: int | None
    device_write_bytes: int | None
    device_reads: int | None
    device_flushes: int | None
    rpcs: int | None
    delayed_acks: int | None
    wire_bytes: int | None
    busy_s: float
    steal_s: float
    steal_pct: float
    swapped_in_pages: int | None
    swapped_out_pages: int | None
    cpu_pressure_pct: float
    memory_pressure_pct: float
    io_pressure_pct: float
    throttled: int | None
    quota_throttled_us: int | None
    network_filesystem: str
    network_input: bool
    network_read_bytes: int | None
    network_storage_read_bytes: int | None
    has_own_cache: bool  # of input or output on ZFS; otherwise missing
    client_instructions: int | None
    server_instructions: int | None
    instructions_why_not: str
    others_cpu_s: float | None
    others_cpu_pct: float | None
    memory_available_bytes: int | None
    other_servers: list[str]
    sync_s: float
    warming: list[WarmUpReads]
    server_runs_before: int
    server_first_rchar: int | None
    client_peak_memory_bytes: int | None
    discarded_read_bytes: int
    input_grew_bytes: int  # of a commit: the files of its revision
    input_loaded_bytes: int  # pages of the input that got into memory in a hot run
    line_delay_ms: float  # from here on: set, and measured, of the line between client and server
    line_rate_mbit: float
    line_round_trip_ms: float
    line_to_server_mbit: float
    line_to_client_mbit: float
    line_round_trip_after_ms: float  # the same after the runs
    line_to_server_after_mbit: float
    line_to_client_after_mbit: float


class Launched(TypedDict):
    """The report of the launcher of several clients (measure.launcher), in seconds."""

    forking_s: float
    all_s: float
    clients: list[dict[str, float]]  # went_s and ended_s (since the common start), user_s, system_s


class SentRequests(TypedDict):
    """The requests of readers, or of committers, in the order of their ends, in seconds since the start.

    `planned_s` are the times from which latencies count. `unstarted_s` are the planned times of requests that
    still waited when the time was over. `failed` has the number of requests by exit code.
    """

    planned_s: list[float]
    started_s: list[float]
    ended_s: list[float]
    unstarted_s: list[float]
    failed: dict[str, int]


class Traffic(TypedDict, total=False):
    """The report of the traffic of many clients (measure.traffic).

    `late` are the requests that started later than planned, because all clients were busy. CPU seconds are of
    the requests, and of the program that starts them. `errors` are the last lines that the requests printed.
    """

    seconds: float
    readers: int
    committers: int
    arrival: str
    read: SentRequests
    commit: SentRequests
    late: int
    requests_cpu_s: float
    generator_cpu_s: float
    errors: list[str]
    revisions_added: int


class RunRecord(TypedDict, total=False):
    """A timed run in a context: its number from 1, evidence, the promises about it, fingerprint and flags."""

    run: int
    evidence: Evidence
    promises: Promises
    work: Mapping[str, int | str]
    compressed_bytes: (
        int  # an estimate of the written files' (measure.work), with a server of Subversion
    )
    launched: Launched
    traffic: Traffic
    flags: Sequence[str]


class SetAside(TypedDict):
    """An attempt that was measured again, with its results in hyperfine's export."""

    runs: list[RunRecord]
    results: list[object]


class Host(TypedDict, total=False):
    """A machine (machine.host)."""

    name: str
    id: str
    kernel: str
    os: str
    cpu: str
    cores: int
    memory_bytes: int | None
    memory_limit_bytes: int | None
    quota_cores: float | None
    virtualized: str
    clock_source: str
    governor: str
    load: float


class RoundConditions(TypedDict):
    """The conditions of a cell-round that its user or a cluster sets (measure.round_context).

    `client` and `server` have a line for each way in which their processes are scheduled before a timed run
    (process_facts.read_scheduling): "nice 0, scheduler 0, processors 0 1". A local command has no server.
    """

    cpus: list[int]
    nice: int
    scheduler: int
    io_priority: int | None
    quota_cores: float | None
    io_limits: list[str]
    memory_limit_bytes: int | None
    weights: list[str]
    governor: str
    turbo: str  # on or off; "" if the kernel does not show it
    client: NotRequired[list[str]]
    server: NotRequired[list[str]]


class StorageFacts(TypedDict, total=False):
    """A storage or file system (storages.disks.describe_storage)."""

    name: str
    path: str
    real_path: str
    filesystem: str
    filesystem_id: str
    device: str
    disks: list[dict[str, object]]  # the fields of storages.disks.Disk
    cached_below: bool
    rotational: bool | None
    write_cache: str
    mount_options: str
    scheduler: str
    read_ahead_kb: str
    free_bytes: int
    made: bool  # from here on: of a working copy's or tree's file system
    bytes: int
    direct_io: bool | None


class BuildSide(TypedDict):
    """The program of one side (client or server), its version, its libraries, and the folders of its build.

    `places` are the folders in which Subversion's libraries must be: [] for programs on the PATH, and for
    those of another system. `libraries` has the paths of Subversion's libraries in the memory of the program.
    `mapped` has the digests of all programs and libraries there, by their path. Both are None if the memory
    is unknown. `libraries` is also None for a client of another system.
    """

    program: str
    version: str
    places: list[str]
    libraries: list[str] | None
    mapped: dict[str, str] | None


class BuildFacts(TypedDict):
    """The binaries of client and server, and their digest."""

    name: str
    client: BuildSide
    server: BuildSide | None
    digest: str


class CopyLayout(TypedDict):
    """The layout of copies on a device (prepare.layout.prove_interleaving)."""

    verdict: str
    sentence: str
    apart: list[str]


class RepositoryFacts(RecipeRepository, total=False):
    """The repository of a cell-round: its part of the recipe, and the metadata of its copy."""

    variant: str
    repo: str
    youngest: int
    packed_shards: int
    packs: int  # of a git repository, as the next two
    refs_count: int
    head_ref: str
    files: int
    bytes: int
    fragmentation_kib: float
    tree: str
    folder: str
    notes: list[str]
    load_options: list[str]
    path: str


class WorkingCopyFacts(TypedDict):
    """A working copy, with its disk space and the number of cloned files of each run."""

    path: str
    revisions: list[int]
    filesystem: StorageFacts
    space: dict[str, int | None]
    cloned: list[int] | None


class CommitFacts(TypedDict):
    """A change that a command commits, and the number of its files."""

    change: str
    files: int


class SubjectFacts(TypedDict, total=False):
    """The facts of subjects in a context."""

    copy: int
    repository: RepositoryFacts
    layout: CopyLayout
    dump: Mapping[str, object]
    written: str
    kept_bytes: int  # on the disk, of what a command of the study `systems` wrote
    tree: Mapping[str, object]
    read: Mapping[str, object]
    built: Mapping[str, object]
    working_copy: WorkingCopyFacts
    commit: CommitFacts


class Context(SubjectFacts, total=False):
    """The content of a context file, next to the export of a cell-round."""

    study: str
    cell: str
    axes: dict[str, str]
    recipe_digest: str
    round: int
    started_at: str
    argv: list[str]
    argv_template: str
    stdin: str
    hooks: dict[str, list[str]]
    warmup: int
    network: str | None
    line: Mapping[str, object] | None
    environment: dict[str, str]
    server: Mapping[str, object] | None
    server_folder: str
    remote: dict[str, str] | None
    server_files: dict[str, str]
    host: Host
    targets: str
    storage: StorageFacts
    target_storage: StorageFacts  # where the output is written
    versions: dict[str, str]
    build: BuildFacts
    preloaded: list[str]  # the content of /etc/ld.so.preload
    work_kind: str
    captured_io: dict[str, int | None]  # of the run whose output was read, and of its server
    git_trace: Mapping[str, str | int]  # of the same run (measure.git_trace.GitTrace)
    conditions: RoundConditions
    took: dict[str, float]
    set_aside: list[SetAside]
    runs: list[RunRecord]
    flags: list[str]
    locks: int | None  # from here on: after the measurement
    order: int
    seed: int


# The parts of a context that a cell-round can lack. A local command has no server, most have no working copy.
_MAPPINGS = (
    *("axes", "server", "remote", "server_files", "host", "storage", "target_storage", "versions"),
    *("build", "captured_io", "took", "repository", "layout", "tree", "working_copy"),
)
_TEXTS = ("cell", "started_at", "argv_template", "server_folder", "targets", "work_kind")


def complete_context(record: Mapping[str, Any]) -> Context:
    """Return a context with an empty value for each part that it lacks, so that readers need no checks.

    {"server": None, "copy": 2} becomes {"server": {}, "copy": 2, "axes": {}, "runs": [], ...}. A missing
    number stays missing: 0 would be a measured value.
    """
    context = dict(record)
    for name in _MAPPINGS:
        context[name] = record.get(name) or {}
    for name in _TEXTS:
        context[name] = record.get(name) or ""
    context["flags"] = record.get("flags") or []
    context["set_aside"] = record.get("set_aside") or []
    context["runs"] = [complete_run(run) for run in record.get("runs") or []]
    return cast("Context", context)


def complete_run(record: Mapping[str, Any]) -> RunRecord:
    """Return a run with an empty value for each of evidence, promises, work and flags that it lacks."""
    run = dict(record)
    for name in ("evidence", "promises", "work"):
        run[name] = record.get(name) or {}
    run["flags"] = record.get("flags") or []
    return cast("RunRecord", run)


class DumpRecord(TypedDict, total=False):
    """A dump file, results/dumps/<repository>.json: path, state (subjects.repository.file_state), bytes,
    last revision, the youngest of the repository, and the options that `svnadmin load` needs for it."""

    repo: str
    identity: str
    made: str
    path: str
    state: list[int]
    bytes: int
    last: int
    youngest: int
    load_options: list[str]
    began: float  # of the whole job, in seconds since 1970 (time_spans.TimeSpan)
    seconds: float


class LoadRequest(TypedDict):
    """The space that a load needs: the folder of the storage that keeps the loaded repository, and by folder
    of a storage the number of repositories of the same size for which there must be space.

    If some of these replace older ones, also the bytes of each older one, by folder. With spacers, also their
    mean size, and by folder the number of copies in each state.
    """

    home: str
    repositories: dict[str, int]
    replaced: NotRequired[dict[str, list[int]]]
    fragmentation_kib: NotRequired[float]
    copies: NotRequired[dict[str, dict[str, int]]]


class OtherLoad(TypedDict):
    """Another load of a session: the key `made` of its record when it has ended, and the space that it needs.

    `bytes` is the size of the loaded repository, `storages` the bytes that are made of it later, by folder.
    With `is_earlier`, it comes before this load in the order of loads, and has precedence in `scratch`.
    """

    repo: str
    format: str
    made: str
    is_earlier: bool
    bytes: int
    storages: dict[str, int]


class LoadRecord(TypedDict, total=False):
    """The record of a load, results/loaded/<repository>/<format>.json.

    `path` is the folder of the loaded repository <format>.<packing>, and of the packed one.
    """

    repo: str
    format: str
    packing: str
    identity: str
    path: str
    loaded_in: str  # the work folder, mostly in RAM, from which it was moved
    made: str
    request: LoadRequest
    private: bool
    revisions: int
    notes: list[str]
    load_options: list[str]
    tree: str
    folder: str
    busy_file: str
    long_names: int
    reserved_names: int
    began: float  # time_spans.TimeSpan
    seconds: float


class PackRecord(TypedDict, total=False):
    """The record of a packed repository, results/packed/<repository>/<format>.json."""

    repo: str
    format: str
    made: str
    seconds_by_state: dict[str, float]  # Preparation.make_states
    began: float  # of the whole job (time_spans.TimeSpan)
    seconds: float


class CopyMetadata(RepositoryFacts, total=False):
    """The metadata of a copy: the facts in results, long names, and state and digest of files."""

    copy: int
    busy_file: str
    long_names: int
    reserved_names: int
    state: dict[str, str]
    digest: str


class CopiesRecord(TypedDict):
    """The record of the copies on a storage, results/repositories/<storage>.json."""

    storage: str
    place: str
    mounted: list[str]
    copies: int
    made: str
    layout: CopyLayout
    repositories: dict[str, RepositoryFacts]
    began: float  # time_spans.TimeSpan
    seconds: float


class TreeRecord(TypedDict, total=False):
    """A template on a storage. `bytes` has overhead."""

    path: str
    entries: int
    bytes: int
    content_bytes: int
    state: str  # of its files (subjects.templates)
    notes: list[str]
    left_out: int
    url: str  # of the repository in keywords


class CellTrace(TypedDict, total=False):
    """The system calls of client and server (measure.syscalls.count_lines), None if not counted.

    results/calls/<study>/<cell>.json
    """

    study: str
    cell: str
    axes: dict[str, str]
    digest: str
    client: Mapping[str, int] | None
    server: Mapping[str, int] | None
    why_not: str
    began: float  # of the whole trace (time_spans.TimeSpan)
    seconds: float
