"""Define the types of a recipe, which has everything that a measurement depends on.

A key is optional if some axes or commands lack it. Measuring modules import this for type checkers only.
"""

from __future__ import annotations

from typing import TypedDict


class Promises(TypedDict, total=False):
    """The promises of a cache state about a timed run."""

    os: str  # cold or hot
    server: str  # new or kept


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
    later_promises: Promises


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
    store: str
    program: str
    needs: list[str]
    fixed_cost: bool
    clones: bool
    measure_sync: bool
    state: State
    build: RecipeBuild
    environments: list[str]
    server_folder: str
    access: Access
    remote: dict[str, str]  # host and url of a server on another machine
    clients: int
    server_options: list[str]
    delay: str
    pristine_options: list[str]
    client_options: list[str]
    locking: str
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
    targets: str
    digest: str
    is_in_guest: bool
