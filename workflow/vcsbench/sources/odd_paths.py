"""Count the paths of a tree that no disk, or no working copy, can hold, and find its largest folder."""

from __future__ import annotations

import html
import os
import re
import urllib.parse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import file_url
from vcsbench.files import OddPaths
from vcsbench.sources import dump_format
from vcsbench.sources.base import Program

HEAD = "HEAD"
_TARGET = re.compile(rb'\s*path="([^"]*)">?$')
# Only a tree that was copied into itself many times has more.
MAX_ENTRIES = 10_000_000
# Links that are read by one process.
LINK_BATCH = 100


def summarize_tree(
    repository: Path, tree: str, reads_links: bool = True, revision: str = HEAD
) -> tuple[str, OddPaths]:
    """Return the folder for `log`, and the numbers of odd paths below `tree` at a revision.

    The folder is the one right below `tree` with the most entries, the first one by name; `tree` without any.
    Without `reads_links`, all links of the tree are possible.
    """
    above = f"{tree}/".lstrip("/").encode(errors="surrogateescape")
    entries: Counter[bytes] = Counter()
    impossible = reserved = 0
    argv = _svnlook("tree", repository, revision, "--full-paths")
    with Program([*argv, tree], f"{repository}: svnlook tree failed") as program:
        for number, line in enumerate(program.stdout):
            if number == MAX_ENTRIES:
                raise UserError(
                    f"{repository}: /{tree} has more than {MAX_ENTRIES:,} files and folders. Name a smaller "
                    "folder in `tree` or by TREE=."
                )
            path = line.rstrip(b"\n").lstrip(b"/").removeprefix(above).rstrip(b"/")
            top, slash, _ = path.partition(b"/")
            entries[top] += bool(slash)
            impossible += dump_format.is_impossible(path)
            reserved += dump_format.is_reserved(path)
        program.finish()
    if reads_links:
        impossible += _count_impossible_links(repository, tree, revision)
    odd_paths = OddPaths(impossible, reserved)
    if not (+entries):
        return tree, odd_paths
    largest = min(entries, key=lambda name: (-entries[name], name))
    return (above + largest).decode(errors="surrogateescape"), odd_paths


def _svnlook(command: str, repository: Path, revision: str, *options: str) -> list[str]:
    at = [] if revision == HEAD else ["-r", revision]
    return ["svnlook", command, *options, *at, "--", os.path.abspath(repository)]


def _count_impossible_links(repository: Path, tree: str, revision: str) -> int:
    url = file_url(repository, urllib.parse.quote(tree))
    above = urllib.parse.unquote_to_bytes(f"{url}/")
    argv = ["svn", "propget", "--recursive", "--xml", "svn:special", f"{url}@{revision}"]
    number, links = 0, list[str]()
    with Program(argv, f"{repository}: svn propget failed") as program:
        for line in program.stdout:
            if match := _TARGET.match(line):
                path = urllib.parse.unquote_to_bytes(html.unescape(match[1].decode()))
                path = path.removeprefix(above)
                if dump_format.is_impossible(path):
                    continue  # counted
                if dump_format.is_impossible(path, is_link=True):
                    number += 1
                else:
                    links.append(f"{tree}/{os.fsdecode(path)}".lstrip("/"))
        program.finish()
    batches = (links[at : at + LINK_BATCH] for at in range(0, len(links), LINK_BATCH))
    return number + sum(_count_impossible_targets(repository, batch, revision) for batch in batches)


def _count_impossible_targets(repository: Path, links: Sequence[str], revision: str) -> int:
    """Read many links with one process. Only if one of them is odd, each has a process of its own."""
    urls = [
        f"{file_url(repository, urllib.parse.quote(os.fsencode(link)))}@{revision}"
        for link in links
    ]
    first, *targets = _read_start(["svn", "cat", *urls], repository, len(links)).split(b"link ")
    is_split = not first and len(targets) == len(links)
    if is_split and not any(dump_format.is_impossible_link(b"link " + text) for text in targets):
        return 0
    look = _svnlook("cat", repository, revision)
    return sum(
        dump_format.is_impossible_link(_read_start([*look, link], repository)) for link in links
    )


def _read_start(argv: Sequence[str], repository: Path, links: int = 1) -> bytes:
    with Program(argv, f"{repository}: {argv[0]} cat failed") as program:
        text = program.stdout.read(links * (dump_format.LONGEST_TARGET + 10))
        program.process.kill()
    return text
