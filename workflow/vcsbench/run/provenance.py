"""The provenance of a study's measurements: version, commit, configuration and command.

It is written with the measurements. Only citations depend on it, so a commit alone makes no result stale.
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
from typing import TypedDict

from vcsbench import __version__
from vcsbench.external import without_password

# The command of the present or last run.
COMMAND = ".vcsbench/command"
# The environment variable with the command that the user typed.
VARIABLE = "VCSBENCH_COMMAND"
# The files and folders whose changes against the commit are listed.
PARTS = ("Snakefile", "workflow", "config", "profiles", "envs")


class Provenance(TypedDict):
    """The provenance of measurements; `commit` and `command` are "" if they are unknown.

    `changed` are the files that differ from the commit. `config` is merged, without credentials in URLs.
    """

    vcsbench: str
    commit: str
    changed: list[str]
    command: str
    config_digest: str
    config: dict[str, object]


def store_command(root: Path, arguments: Sequence[str]) -> None:
    """Store the command of the run: the typed one, or Snakemake with these arguments."""
    command = os.environ.get(VARIABLE) or shlex.join(["snakemake", *arguments])
    command = without_password(command)
    with suppress(OSError):  # The provenance then has no command.
        (root / COMMAND).parent.mkdir(exist_ok=True)
        (root / COMMAND).write_text(command, encoding="utf-8")


def provenance(root: Path, config: Mapping[str, object]) -> Provenance:
    """Return the provenance of measurements in a checkout."""
    commit, changed = _commit(root)
    command = ""
    with suppress(OSError):
        command = (root / COMMAND).read_text(encoding="utf-8")
    public = _without_secrets(config)
    return {
        "vcsbench": __version__,
        "commit": commit,
        "changed": changed,
        "command": without_password(command),
        "config_digest": digest_of(public),
        "config": public,
    }


def digest_of(config: Mapping[str, object]) -> str:
    """Return a digest of a merged configuration. The order of keys does not matter."""
    text = json.dumps(config, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _without_secrets(config: Mapping[str, object]) -> dict[str, object]:
    text = json.dumps(config, ensure_ascii=False, default=str)
    public: dict[str, object] = json.loads(without_password(text))
    return public


def _commit(root: Path) -> tuple[str, list[str]]:
    """Return the commit of a work tree and the changed files; "" without git or a work tree here.

    A folder somewhere below another work tree is none.
    """
    lines = _git(root, "rev-parse", "--show-toplevel", "HEAD").splitlines()
    if len(lines) != 2 or Path(lines[0]).resolve() != root.resolve():
        return "", []
    listed = _git(root, "status", "--porcelain", "-z", "--no-renames", "-uall", "--", *PARTS)
    return lines[1], sorted(entry[3:] for entry in listed.split("\0") if entry)


def _git(root: Path, *arguments: str) -> str:
    # The checkout may belong to another user than the one who measures, as root does.
    command = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
