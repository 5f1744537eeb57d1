"""Other servers that are at work on this machine: a measurement disturbs them, and they disturb it."""

from __future__ import annotations

import os
from collections import Counter

from vcsbench import processes, words
from vcsbench.measure.meters import strangers

SERVERS = {
    **dict.fromkeys(("svnserve",), "Subversion's server"),
    **dict.fromkeys(("httpd", "apache2", "nginx", "lighttpd", "caddy"), "a web server"),
    **dict.fromkeys(
        ("postgres", "postmaster", "mysqld", "mariadbd", "mongod", "redis-server", "oracle", "sqlservr"),
        "a database",
    ),
    **dict.fromkeys(("slapd", "smbd", "nfsd", "exim4", "named"), "a server"),
}  # fmt: skip


def at_work() -> list[str]:
    """What each is, by its program, with the number of its processes; vcsbench's own are none of them."""
    found: Counter[str] = Counter()
    ours = {*strangers.servers(())}
    for pid in processes.everybody():
        argv = processes.command_line(pid)
        # Some write what they are at behind their name: `postgres: checkpointer`.
        name = os.path.basename(argv[0]).partition(":")[0] if argv else ""
        if name in SERVERS and " ".join(argv) not in ours:
            found[name] += 1
    return [
        f"{name}, {SERVERS[name]}, is at work here ({words.count_of(number, 'process', 'processes')})"
        for name, number in sorted(found.items())
    ]
