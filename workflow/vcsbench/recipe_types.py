"""Define the types of a recipe, which has everything that a measurement depends on, and of its parts.

A key is optional if some axes or commands lack it. Measuring modules import this for type checkers only.
"""

from __future__ import annotations

from typing import TypedDict


class Promises(TypedDict, total=False):
    """The promises of a cache state about a timed run; `then` are those about later runs, if they differ."""

    os: str  # cold or hot
    server: str  # new or kept
    then: Promises


class State(TypedDict, total=False):
    """The steps and runs of a cache state (axes.STATES)."""

    setup: list[str]
    first: list[str]
    prepare: list[str]
    warmup: int
    warmup_of_server: int
    discard: bool
    runs: int
    promises: Promises


class Access(TypedDict):
    """The access to a repository: scheme of its URL, files of a server configuration, kind of server."""

    scheme: str
    files: list[str]
    server: str


class BuildPart(TypedDict):
    """The build of a cell."""

    name: str
    client: dict[str, str]  # the fields of programs.Programs
    server: dict[str, str]


class StoragePart(TypedDict):
    """The storage under test. `shelf` is the first storage with the same folder: its copies are used."""

    name: str
    path: str
    shelf: str


class FilesystemPart(TypedDict, total=False):
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


class RepositoryPart(TypedDict, total=False):
    """The repository of a cell: its source, format and packing."""

    name: str
    identity: str
    source: str
    scale: float | None
    description: str
    head: Head
    format: str
    fsfs_settings: dict[str, str]
    packing: str
    packed: bool


class Recipe(TypedDict, total=False):
    """A recipe, or the parts of one that are known so far (plan.recipe)."""

    study: str
    cell: str
    axes: dict[str, str]
    argv: str
    stdin: str
    environment: dict[str, str]
    work: str
    input: str
    output: str
    runs: int
    revisions: int
    output_location: str
    revisions_behind: int
    store: str
    program: str
    needs: list[str]
    fixed_cost: bool
    clones: bool
    measure_sync: bool
    state: State
    build: BuildPart
    environments: list[str]
    servers: str
    access: Access
    remote: dict[str, str]  # host and url of a server on another machine
    clients: int
    server_options: list[str]
    delay: str
    pristine_options: list[str]
    client_options: list[str]
    locking: str
    reflink: str
    repository: RepositoryPart
    storage: StoragePart
    filesystem: FilesystemPart
    server: str
    network: str
    time_limit_s: float
    clearing: str
    code: str
    server_files: str
    binaries: dict[str, str]
    targets: str
    digest: str
    is_in_guest: bool
