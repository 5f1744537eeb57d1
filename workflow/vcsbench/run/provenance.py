"""Which vcsbench put a study's measurements together, from which configuration, and by which command.

It is written with the measurements, and nothing depends on it but what cites it: a commit that changes no
code of a rule makes nothing stale.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vcsbench import __version__
from vcsbench.urls import without_password

# The command of the run that is at work, or was last.
COMMAND = ".vcsbench/command"
# In the environment of Snakemake: the command that the user typed.
VARIABLE = "VCSBENCH_COMMAND"
# What makes another vcsbench of a work tree where it differs from the commit.
PARTS = ("Snakefile", "workflow", "config", "profiles", "envs")


def note_command(root: Path, arguments: Sequence[str]) -> None:
    """Keep the command of the run for its provenance: the user's, or Snakemake with these arguments."""
    command = os.environ.get(VARIABLE) or shlex.join(["snakemake", *arguments])
    command = without_password(command)
    with suppress(OSError):  # The provenance then has no command.
        (root / COMMAND).parent.mkdir(exist_ok=True)
        (root / COMMAND).write_text(command, encoding="utf-8")


def provenance(root: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """What made the measurements in a checkout: `vcsbench` (its version), `commit` ("" where git does not
    know it), `changed` (the files that differ from it), `command` ("" if unknown), `config` (merged; what
    stands before a host in an address is left out) and the `config_digest` of that."""
    commit, changed = _commit(root)
    command = ""
    with suppress(OSError):
        command = (root / COMMAND).read_text(encoding="utf-8")
    config = _without_secrets(config)
    return {
        "vcsbench": __version__,
        "commit": commit,
        "changed": changed,
        "command": without_password(command),
        "config_digest": digest_of(config),
        "config": config,
    }


def digest_of(config: Mapping[str, Any]) -> str:
    """A digest of a merged configuration: comments and the order of its keys have no part in it."""
    text = json.dumps(config, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _without_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(config, ensure_ascii=False, default=str)
    found: dict[str, Any] = json.loads(without_password(text))
    return found


def _commit(root: Path) -> tuple[str, list[str]]:
    """The commit of a work tree, and the files of vcsbench that differ from it; "" where the folder is no
    work tree of its own (an archive unpacked somewhere below another's), or there is no git."""
    said = _git(root, "rev-parse", "--show-toplevel", "HEAD").splitlines()
    if len(said) != 2 or Path(said[0]).resolve() != root.resolve():
        return "", []
    listed = _git(root, "status", "--porcelain", "-z", "--no-renames", "-uall", "--", *PARTS)
    return said[1], sorted(entry[3:] for entry in listed.split("\0") if entry)


def _git(root: Path, *arguments: str) -> str:
    # The checkout may belong to another user than the one who measures, as root does.
    command = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
