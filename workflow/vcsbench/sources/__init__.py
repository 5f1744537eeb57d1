"""Sources of dump streams: where a repository's history comes from."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from vcsbench.config.configuration import EMPTY
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.sources import dump_source, git_source, svn_files
from vcsbench.sources.base import (
    UNREACHABLE,
    Definition,
    Facts,
    SizeEstimate,
    Source,
    is_server_url,
    local_path,
    unreachable,
)
from vcsbench.sources.dump_source import DumpSource
from vcsbench.sources.generated import EmptySource, GeneratedSource
from vcsbench.sources.git_repository import open_repository
from vcsbench.sources.git_source import GitSource
from vcsbench.sources.git_tree import write_tree
from vcsbench.sources.privacy import is_private
from vcsbench.sources.svn_source import SvnSource
from vcsbench.sources.svn_tree import summarize_tree
from vcsbench.sources.svn_url_source import SvnUrlSource, export_head
from vcsbench.sources.tree_source import DirectorySource, copy_directory

KINDS: dict[str, Callable[[str, Definition, str], Source]] = {
    "generated": GeneratedSource,
    "git": GitSource,
    "svn": SvnSource,
    "dump": DumpSource,
    "directory": DirectorySource,
    EMPTY: EmptySource,
}
# Keys of a definition that are for its copies, and not for its source.
COPY_KEYS = ("packing", "studies")
# The kinds of sources whose exported folder can be chosen.
KINDS_WITH_TREE = (SvnSource.kind, DumpSource.kind)

__all__ = ["KINDS", "Facts", "SizeEstimate", "Source", "detect", "is_private", "open_source"]


def open_source(name: str, definition: Definition, where: str = "config/config.yaml") -> Source:
    """Return the source of a repository's definition. `where` is its file, for errors.

    Raise UserError, which names the key, for a key of another source. check() looks at the source itself.
    """
    definition = {key: value for key, value in definition.items() if key not in COPY_KEYS}
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
        # The place without links: the definition is the same for both.
        absolute = str(place.resolve())
        if svn_files.is_svn_repository(place):
            return {"source": SvnSource.kind, "path": absolute}
        if git_source.is_git_repository(place):
            history = git_source.FIRST_PARENT
            return {"source": GitSource.kind, "path": absolute, "history": history}
        if place.is_file() and dump_source.is_dump(place):
            return {"source": DumpSource.kind, "path": absolute}
        reason = _why_unknown(place)
    except UNREACHABLE as error:
        raise UserError(unreachable(path, error)) from error
    raise UserError(f"{shown}: {reason}")


def _why_unknown(place: Path) -> str:
    """Return why a path is no repository, as a clause with a remedy: `is empty. Make it again.`"""
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
        if svn_files.is_svn_repository(folder):
            return f"lies in the Subversion repository {folder}. Give that."
        if os.path.lexists(folder / ".git"):
            return f"lies in the git work tree {printable(str(folder))}. Give that."
    return neither


def own_repository(
    path: str, configured: Mapping[str, object], tree: str | None = None
) -> dict[str, dict[str, str]]:
    """Return the user's repository as the only definition, named after its folder.

    Such as {"project": {"source": "svn", "path": "/srv/project"}}. `configured` are the names of
    `repositories`, and `tree` is the exported folder, if the user chose one.
    """
    definition = detect(path)
    if tree is not None:
        if definition["source"] not in KINDS_WITH_TREE:
            raise UserError(
                f"TREE={printable(tree)}: the source {definition['source']} has no `tree`. Leave it out."
            )
        definition["tree"] = tree
    # Without a name of its own, as in /srv/project/.git, it is that of the folder above.
    stem = Path(definition["path"]).name.removesuffix(".git") or Path(path).resolve().parent.name
    # It becomes a part of names of files and cells.
    name = re.sub("[^A-Za-z0-9._-]", "-", stem).lstrip("._-") or "repository"
    # Results of a repository in the configuration stay.
    if name in configured:
        name += "-own"
    return {name: definition}


def main(kind: str, source: str, *arguments: str) -> None:
    """Write the youngest tree of a source to a new folder, and print notes on changes and omissions.

    Subjects call it in a process (subjects.run_sources). `source` is a path or a URL, and `kind` decides on
    the other arguments:

    - `odd paths`: a tree and a revision. The counts of summarize_tree() are printed instead.
    - `svn`: the arguments of export_head().
    - `git`: the folder and a commit.
    - `directory`: the folder and the identity of the source, which is checked unless it is empty.
    """
    try:
        if kind == "odd paths":
            tree, revision = arguments
            _, odd_paths = summarize_tree(Path(source), tree, revision)
            lines = [str(odd_paths.impossible), str(odd_paths.reserved)]
        elif kind == SvnSource.kind:
            lines = export_head(source, *arguments)
        elif kind == GitSource.kind:
            folder, commit = arguments
            with open_repository(Path(source)) as repository:
                lines = write_tree(repository, commit, Path(folder))
        else:
            folder, identity = arguments
            lines = copy_directory(Path(source), Path(folder))
            if identity:
                definition = {"source": kind, "path": source}
                open_source(Path(source).name, definition).check_unchanged(identity)
        for line in lines:
            print(line)
    except (UserError, OSError) as error:
        sys.exit(str(error))
