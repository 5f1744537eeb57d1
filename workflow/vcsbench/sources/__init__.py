"""Sources of dump streams: where a repository's history comes from."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from vcsbench.config.configuration import EMPTY
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.sources import dump_source, git_source, svn_source
from vcsbench.sources.base import (
    FILE_SCHEME,
    UNREACHABLE,
    Definition,
    Facts,
    SizeEstimate,
    Source,
    is_closed,
    is_server_url,
    local_path,
    unreachable,
)
from vcsbench.sources.dump_source import DumpSource
from vcsbench.sources.generated import EmptySource, GeneratedSource
from vcsbench.sources.git_repository import list_folders, list_objects, open_repository
from vcsbench.sources.git_source import GitSource, write_tree
from vcsbench.sources.svn_source import SvnSource, SvnUrlSource, export_head, summarize_tree
from vcsbench.sources.tree_source import DirectorySource, copy_directory, has_closed_entry

KINDS: dict[str, Callable[[str, Definition, str], Source]] = {
    "generated": GeneratedSource,
    "git": GitSource,
    "svn": SvnSource,
    "dump": DumpSource,
    "directory": DirectorySource,
    EMPTY: EmptySource,
}

OF_COPIES = ("packing", "studies")


__all__ = ["KINDS", "Facts", "SizeEstimate", "Source", "detect", "open_source"]


def open_source(name: str, definition: Definition, where: str = "config/config.yaml") -> Source:
    """Return the source of a repository's definition.

    Raise UserError, which names the key, for a key of another source. check() looks at the source itself.
    """
    definition = {key: value for key, value in definition.items() if key not in OF_COPIES}
    kind = definition["source"]
    if kind == SvnSource.kind and "url" in definition:
        return SvnUrlSource(name, definition, where)
    return KINDS[kind](name, definition, where)


def detect(path: str) -> dict[str, str]:
    """Return the definition of the Subversion repository, git repository or dump file at a path.

    Raise UserError for anything else.
    """
    if is_server_url(path):
        # It is not shown: it may contain a password.
        raise UserError(
            "REPO=: this is a URL. Give one of Subversion under `repositories` in the configuration, "
            "with `source: svn` and `url`. Clone a git repository, and give the clone."
        )
    if not path:
        raise UserError("REPO=: the path is empty. Give the path of a repository.")
    shown = printable(path)
    try:
        place = local_path(path)
        if not place.exists():
            raise UserError(f"{shown}: no such file or folder. Check the path.")
        absolute = str(place.resolve())
        if svn_source.is_svn_repository(place):
            return {"source": "svn", "path": absolute}
        if git_source.is_git_repository(place):
            return {"source": "git", "path": absolute, "history": "first-parent"}
        if place.is_file() and dump_source.is_dump(place):
            return {"source": "dump", "path": absolute}
        reason = _why_unknown(place)
    except UNREACHABLE as error:
        raise UserError(unreachable(path, error)) from error
    raise UserError(f"{shown}: {reason}")


def _why_unknown(place: Path) -> str:
    neither = "is neither a Subversion repository, nor a git repository, nor a dump file. Give one."
    if place.is_file():
        return dump_source.why_no_dump(place) or neither
    if not place.is_dir():
        return "is neither a file nor a folder. Give the path of a repository."
    if any((folder / ".svn").is_dir() for folder in (place, *place.resolve().parents)):
        return (
            "is a working copy of Subversion, not a repository. Give its repository: "
            "`svn info --show-item repos-root-url` in it prints the URL."
        )
    for folder in place.resolve().parents:
        if svn_source.is_svn_repository(folder):
            return f"lies in the Subversion repository {folder}. Give that."
        if os.path.lexists(folder / ".git"):
            return f"lies in the git work tree {printable(str(folder))}. Give that."
    return neither


def is_private(definition: Definition) -> bool:
    """Return True if not all users of the machine can read a source.

    A source behind a server counts as private: the server may require a password.
    """
    place = str(definition.get("url") or definition.get("path") or "")
    if definition.get("url") and not place.startswith(FILE_SCHEME):
        return True
    return bool(place) and _is_private_path(place, str(definition.get("source", SvnSource.kind)))


@cache
def _is_private_path(text: str, kind: str) -> bool:
    """Return True if others cannot read a source, or one file of its history. The first such file decides."""
    try:
        path = local_path(text)
        if kind == SvnSource.kind:
            return is_closed(path, svn_source.list_history(path))
        if kind == DirectorySource.kind:
            return is_closed(path) or has_closed_entry(path)
        folders = list_folders(path) if kind == GitSource.kind else []
        return is_closed(path) or any(is_closed(folder, list_objects(folder)) for folder in folders)
    except (UserError, *UNREACHABLE):
        return True


def own_repository(
    path: str, configured: Mapping[str, object], tree: str | None = None
) -> dict[str, dict[str, str]]:
    """Return the user's repository as the only definition, named after its folder."""
    definition = detect(path)
    if tree is not None:
        kind = definition["source"]
        if kind not in ("svn", "dump"):
            raise UserError(
                f"TREE={printable(tree)}: the source {kind} has no `tree`. Leave it out."
            )
        definition["tree"] = tree
    stem = Path(definition["path"]).name.removesuffix(".git") or Path(path).resolve().parent.name
    name = re.sub("[^A-Za-z0-9._-]", "-", stem).lstrip("._-") or "repository"
    if name in configured:
        name += "-own"
    return {name: definition}


def main(kind: str, source: str, *rest: str) -> None:
    """Write the youngest tree of a source to a new folder, and print notes on changes and omissions.

    Subjects call it in a process (subjects.run_sources). `rest` is the folder; then the commit of a git
    repository, the arguments of export_head(), or the identity of a directory, which is checked unless it
    is empty. The kind `odd paths` prints the counts of summarize_tree(); then it
    is a tree and a revision.
    """
    try:
        if kind == "odd paths":
            tree, revision = rest
            lines = [*map(str, summarize_tree(Path(source), tree, revision)[1])]
        elif kind == SvnSource.kind:
            lines = export_head(source, *rest)
        elif kind == GitSource.kind:
            with open_repository(Path(source)) as repository:
                lines = write_tree(repository, rest[1], Path(rest[0]))
        else:
            folder, identity = rest
            lines = copy_directory(Path(source), Path(folder))
            if identity:
                definition = {"source": kind, "path": source}
                open_source(Path(source).name, definition).check_unchanged(identity)
        for line in lines:
            print(line)
    except (UserError, OSError) as error:
        sys.exit(str(error))
