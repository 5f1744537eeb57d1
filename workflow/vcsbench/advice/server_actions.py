"""The steps that apply a server configuration, with the place of each setting, and their cost."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from vcsbench.axes.server_axes import cache_bytes

SVNSERVE = "Start it with these options (cache in MiB), also in its service file. Connections end."
SVNSERVE_OPTION = "Add to it:"
HTTPD_SERVER = "In httpd.conf, outside of any <Location>:"
HTTPD_LOCATION = "In httpd.conf, in the <Location> of the repository:"
# httpd refuses these directives in a <Location>.
SERVER_LEVEL = re.compile(r"SVN(InMemoryCacheSize|CompressionLevel)\b", re.I)
# Settings that not everybody needs, and why.
OPTIONAL = {
    re.compile(r"(SVNBlockRead|--block-read) \S+", re.I): "Has an effect only with format 7 or 8.",
    re.compile(r"(SVNCompressionLevel|--compression) \S+", re.I): (
        "Optional, for a fast network: less CPU, more bytes. On a slow network leave it out."
    ),
}
NOTE = "Measured with all of these lines together."
UNDO = "Remove the lines and restart."
DOWNTIME = "one restart"
# The processes of httpd with the event MPM's defaults: MaxRequestWorkers / ThreadsPerChild.
HTTPD_PROCESSES = 16
PROCESSES = f"{HTTPD_PROCESSES} processes (MaxRequestWorkers 400 / ThreadsPerChild 25)"
# With one of these options, svnserve is one process with a thread for each connection.
THREAD_OPTIONS = {"-T", "--threads"}
RESTART_COST = "One restart (httpd: graceful; svnserve: connections end)."
MIB = 1 << 20
# httpd and svnserve have a cache of this size without a setting, in bytes.
DEFAULT_CACHE = 16 * MIB
# A smaller cache, whose memory stands next to the memory of a larger one.
SMALLER_CACHE = 256 * MIB


class ActionStep(NamedTuple):
    """A command that applies a value. `note` stands before it: where to enter it, or why.

    `server` is httpd or svnserve if the step concerns that server only, otherwise "".
    """

    command: str
    server: str = ""
    note: str = ""


RESTART = ActionStep(
    "apachectl configtest && apachectl graceful", "httpd", "Then check and reload:"
)


def setting_steps(server: str, settings: str) -> list[ActionStep]:
    """Return the steps that apply the settings of a server configuration to httpd or svnserve.

    `settings` is svnserve's command line, or the directives of httpd, one a line. A setting that not
    everybody needs (OPTIONAL) has a step of its own, so that a reader can leave it out. Example: `svnserve -d
    -r ROOT --threads --compression 0` gives a step with `svnserve -d -r ROOT --threads`, and a step with
    `--compression 0`. The last step of httpd is a restart.
    """
    # {"--compression 0": "Optional, for a fast ..."}. If a setting is there twice with different numbers,
    # only the first one is moved here.
    reasons = {}
    needed = settings
    for pattern, reason in OPTIONAL.items():
        match = pattern.search(settings)
        if match:
            reasons[match[0]] = reason
            needed = needed.replace(match[0], "")
    # The removed settings leave empty lines, and several spaces in a row.
    lines = [" ".join(line.split()) for line in needed.splitlines() if line.strip()]
    if server == "svnserve":
        steps = [ActionStep("\n".join(lines), server, note=SVNSERVE)]
        for setting, reason in reasons.items():
            steps.append(ActionStep(setting, server, note=f"{reason} {SVNSERVE_OPTION}"))
        return steps
    # Directives for the whole server and those for a repository are in different parts of httpd.conf.
    steps = []
    for instruction in (HTTPD_SERVER, HTTPD_LOCATION):
        directives = [line for line in lines if _where_to_enter(line) == instruction]
        if directives:
            steps.append(ActionStep("\n".join(directives), server, note=instruction))
    for setting, reason in reasons.items():
        steps.append(ActionStep(setting, server, note=f"{reason} {_where_to_enter(setting)}"))
    return [*steps, RESTART]


def _where_to_enter(directive: str) -> str:
    """Return the instruction where to enter a directive of httpd: HTTPD_SERVER or HTTPD_LOCATION."""
    return HTTPD_SERVER if SERVER_LEVEL.match(directive) else HTTPD_LOCATION


def settings_cost(settings_by_server: Mapping[str, str]) -> str:
    """Return sentences on the memory that a server configuration can take, and on its restart.

    Example: {"svnserve": "svnserve -d -T -M 1024"} gives `Memory, at most: svnserve 1 GiB. With a cache of
    256 MiB in each process: svnserve 256 MiB. One restart (httpd: graceful; ...).` The second sentence shows
    what a user saves with a smaller cache. If no server sets the size of its cache, the cost is the restart
    alone. If one does, the other counts with its default of 16 MiB.
    """
    if not any(cache_bytes(server, text) for server, text in settings_by_server.items()):
        return RESTART_COST
    sizes = []
    # The memory of each server with its own size of the cache, and with SMALLER_CACHE.
    configured_texts, smaller_texts = [], []
    # In alphabetical order, httpd comes first, which takes most memory.
    for server, text in sorted(settings_by_server.items()):
        # A text may set the size twice. The largest one is the most that the server can take.
        size = max(cache_bytes(server, text), default=DEFAULT_CACHE)
        sizes.append(size)
        if server == "httpd":
            # Each process of httpd has a cache of its own.
            total = _format_memory(HTTPD_PROCESSES * size)
            smaller_total = _format_memory(HTTPD_PROCESSES * SMALLER_CACHE)
            configured_texts.append(f"{server} {PROCESSES} x {_format_memory(size)} = {total}")
            smaller_texts.append(f"{server} {smaller_total}")
        else:
            # svnserve with threads is one process. Without threads, each connection gets a process.
            has_threads = not THREAD_OPTIONS.isdisjoint(text.split())
            unit = "" if has_threads else " for each connection"
            configured_texts.append(f"{server} {_format_memory(size)}{unit}")
            smaller_texts.append(f"{server} {_format_memory(SMALLER_CACHE)}{unit}")
    cost = f"Memory, at most: {'; '.join(configured_texts)}."
    # A server that takes no more than SMALLER_CACHE would save nothing.
    if min(sizes) > SMALLER_CACHE:
        smaller = "; ".join(smaller_texts)
        cost += f" With a cache of {_format_memory(SMALLER_CACHE)} in each process: {smaller}."
    return f"{cost} {RESTART_COST}"


def _format_memory(size: int) -> str:
    """Return a number of bytes as `256 MiB` or `16 GiB`."""
    mebibytes = size / MIB
    return f"{mebibytes / 1024:g} GiB" if mebibytes >= 1024 else f"{mebibytes:g} MiB"
