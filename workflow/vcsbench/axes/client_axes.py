"""Define the axes of clients: their number and options, compression and delay on the network, reflinks."""

import hashlib
import re
from pathlib import Path

from vcsbench.axes.axis import Axis, Environment, choice_axis
from vcsbench.axes.build_axis import program_version, why_not_preloaded
from vcsbench.axis_names import (
    ACCESS_AXIS,
    ARRIVAL_AXIS,
    CLIENTS_AXIS,
    CLOSED_LOOP,
    COMMITTERS_AXIS,
    COMPRESSION_AXIS,
    DELAY_AXIS,
    FILESYSTEM_AXIS,
    LOCKING_AXIS,
    PRISTINES_AXIS,
    READERS_AXIS,
    REFLINK_AXIS,
)
from vcsbench.programs import Programs
from vcsbench.records import Recipe
from vcsbench.storages import guest
from vcsbench.storages.cell_filesystem import REFLINK_KINDS
from vcsbench.words import version_numbers

MOST_CLIENTS = 256
# Of svnserve's option `--compression`.
HIGHEST_LEVEL = 9
LZ4 = """Wire compression: since Subversion 1.10 svnserve sends LZ4 at every level but 0 to new clients, so
`on` (level 1) and all levels above it are equal. The published `on` was zlib."""
# The keys of the recipe by value: {"4": {"clients": 4}}.
NUMBERS_OF_CLIENTS: dict[str, Recipe] = {
    str(number): {"clients": number} for number in range(1, MOST_CLIENTS + 1)
}
READERS: dict[str, Recipe] = {
    str(number): {"readers": number} for number in range(MOST_CLIENTS + 1)
}
COMMITTERS: dict[str, Recipe] = {
    str(number): {"committers": number} for number in range(MOST_CLIENTS + 1)
}
# A value of the axis `arrival` in place of CLOSED_LOOP: the number of requests per second.
RATE = re.compile(r"[1-9][0-9]{0,3}|0\.[0-9]{0,2}[1-9]")
ONE_MACHINE = """Many clients: clients and server share this machine, so the server has fewer processors than
alone. Compare such figures with each other only."""
# svnserve's level by value. The study of 2010 measured `off` and `on`.
LEVELS = {str(level): str(level) for level in range(HIGHEST_LEVEL + 1)}
LEVELS |= {"off": "0", "on": "1"}
COMPRESSION: dict[str, Recipe] = {
    value: {"server_options": ["--compression", level]} for value, level in LEVELS.items()
}
PRISTINES: dict[str, Recipe] = {
    "stored": {"pristine_options": []},
    "none": {"pristine_options": ["--store-pristine=no"]},
}
LOCKING: dict[str, Recipe] = {
    "default": {"client_options": [], "locking": "default"},
    "exclusive": {
        "client_options": ["--config-option", "config:working-copy:exclusive-locking=yes"],
        "locking": "exclusive",
    },
}
# The version of svn that knows --store-pristine.
NO_PRISTINES_SINCE = (1, 15)
DELAY = re.compile(r"0|[1-9][0-9]*(us|ms)")
REFLINK_SOURCE = Path("workflow", "native", "svn_reflink.c")
REFLINK_LIBRARY = Path(".tools", "lib", "svn_reflink.so")
REFLINK_STATISTICS = "SVN_REFLINK_STATS"
NO_CLONES = """Subversion's client does not clone files by itself: with `reflink: on` a preloaded
library has it clone each working file that equals its pristine. It shows what such a client would gain."""


def _why_no_delay(delay: str, recipe: Recipe, env: Environment) -> str:
    """Return why no delay can be added to the network of a cell, in a clause; "" if it can, or need not.

    `delay` is not used: it is the cell's own value, and the recipe may have its delay from a default.
    """
    # The delays "" and "0" set no key of the recipe.
    if "delay" not in recipe:
        return ""
    if "guest" not in recipe.get("filesystem", {}):
        return "a delay is added in a guest only, not before a server of yours"
    return guest.why_no_delay(env.root)


def _why_no_pristines(pristines: str, recipe: Recipe, env: Environment) -> str:
    """Return why svn cannot make a working copy without pristines, in a clause; "" if it can or need not.

    Pristines are the unchanged copies of all files in the folder .svn.
    """
    if pristines != "none":
        return ""
    client = Programs(**recipe["build"]["client"])
    version = program_version(client, "svn")
    since = ".".join(map(str, NO_PRISTINES_SINCE))
    if not version:
        return f"svn is not there, and can do without pristines since {since}"
    major_and_minor = version_numbers(version)
    if major_and_minor is not None and major_and_minor >= NO_PRISTINES_SINCE:
        return ""
    return f"svn is {version}, and can do without pristines since {since}"


def _reflink_keys(reflink: str, env: Environment) -> Recipe:
    """Return the keys that `reflink: on` adds to a recipe; {} for `off` and without the axis.

    The variables in `environment` have svn preload the library that clones files, and have the library write
    the number of cloned files to a file. CellSetup replaces `{run}` by the folder of the run.
    """
    if reflink != "on":
        return {}
    library = env.root / REFLINK_LIBRARY
    # On a cluster, the folder .tools is a link. With the link resolved, the path is the same on all nodes.
    tools = env.root / REFLINK_LIBRARY.parts[0]
    if tools.is_symlink():
        library = library.resolve()
    # The digest covers the source, because each compiler makes other bytes of the same source.
    source = (env.root / REFLINK_SOURCE).read_bytes()
    return {
        "environment": {"LD_PRELOAD": str(library), REFLINK_STATISTICS: "{run}/reflinks"},
        "reflink": hashlib.sha256(source).hexdigest()[:16],
    }


def _why_no_reflink(reflink: str, recipe: Recipe, env: Environment) -> str:
    """Return why no file can be cloned in a cell, in a clause; "" if files can be, or need not be.

    A clone (reflink) shares the blocks of another file: here, a working file shares the blocks of its
    pristine, the unchanged copy in .svn.
    """
    if reflink != "on":
        return ""
    # The key has the options of svn that leave out the pristines.
    if recipe.get("pristine_options"):
        return "a working copy without pristines has nothing to clone"
    # The kind of a file system that vcsbench makes. Of an existing folder (""), only a run shows whether it
    # can clone.
    made_kind = recipe.get("filesystem", {}).get("make")
    if made_kind and made_kind not in REFLINK_KINDS:
        return f"{made_kind} has no reflinks"
    # The client preloads the library that clones files (_reflink_keys). It lies in the checkout, so another
    # place of the checkout changes its path.
    reason = why_not_preloaded(recipe["environment"]["LD_PRELOAD"])
    if reason:
        return f"{reason}; move the checkout"
    if not (env.root / REFLINK_LIBRARY).exists():
        return "the library that clones files was not built (set-up builds it where there is gcc)"
    return ""


def _why_no_arrival(arrival: str) -> str:
    """Return why a value of the axis `arrival` (of requests) is wrong, in a clause; "" if it is not."""
    if arrival == CLOSED_LOOP or RATE.fullmatch(arrival):
        return ""
    return f"is no arrival. Use {CLOSED_LOOP}, or requests per second, such as 20 or 0.5"


def _why_no_client(readers: str, recipe: Recipe, env: Environment) -> str:
    """Return why no client makes the traffic of a cell, in a clause; "" if one does, or without traffic.

    Traffic is the requests of many clients at once: readers and committers.
    """
    # Without the axes `readers` and `committers`, the traffic has one reader and no committer.
    number = recipe.get("readers", 1) + recipe.get("committers", 0)
    if "traffic" in recipe and number == 0:
        return "it has neither readers nor committers"
    return ""


AXES = (
    choice_axis(CLIENTS_AXIS, NUMBERS_OF_CLIENTS, f"a number from 1 to {MOST_CLIENTS}"),
    choice_axis(
        READERS_AXIS,
        READERS,
        f"a number from 0 to {MOST_CLIENTS}",
        why_not=_why_no_client,
        limits=lambda values, guests, measured: [ONE_MACHINE],
    ),
    choice_axis(COMMITTERS_AXIS, COMMITTERS, f"a number from 0 to {MOST_CLIENTS}"),
    Axis(
        ARRIVAL_AXIS,
        why_invalid=_why_no_arrival,
        recipe_keys=lambda value, env: {"arrival": value} if value else {},
    ),
    # http compresses by other means, and over file nothing is sent.
    choice_axis(
        COMPRESSION_AXIS,
        COMPRESSION,
        f"off, on or a number from 0 to {HIGHEST_LEVEL}",
        needs_server=True,
        applies=lambda axes: axes.get(ACCESS_AXIS) == "svn",
        limits=lambda values, guests, measured: [LZ4],
    ),
    Axis(
        DELAY_AXIS,
        why_invalid=lambda value: (
            "" if DELAY.fullmatch(value) else "is no delay. Use 0, 100us or 1ms"
        ),
        applies=lambda axes: axes.get(FILESYSTEM_AXIS) in guest.FOLDERS,
        recipe_keys=lambda value, env: {"delay": value} if value not in ("", "0") else {},
        why_not=_why_no_delay,
    ),
    choice_axis(PRISTINES_AXIS, PRISTINES, " or ".join(PRISTINES), why_not=_why_no_pristines),
    choice_axis(LOCKING_AXIS, LOCKING, " or ".join(LOCKING)),
    Axis(
        REFLINK_AXIS,
        why_invalid=lambda value: "" if value in ("on", "off") else "is neither on nor off",
        recipe_keys=_reflink_keys,
        why_not=_why_no_reflink,
        limits=lambda values, guests, measured: [NO_CLONES] if "on" in values else [],
    ),
)
