"""Record where measurements come from: the version, the commit, the command and the configuration."""

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
from vcsbench.errors import without_password
from vcsbench.external import hide_password

COMMAND, TYPED = ".vcsbench/command", "VCSBENCH_COMMAND"
PARTS = ("Snakefile", "workflow", "config", "profiles", "envs")


class Provenance(TypedDict):
    """The provenance of measurements; `commit` and `command` are "" if unknown.

    `changed` are the files that differ from the commit. `config` is merged, without credentials in URLs.
    """

    vcsbench: str
    commit: str
    changed: list[str]
    command: str
    config_digest: str
    config: dict[str, object]


def store_command(root: Path, arguments: Sequence[str]) -> None:
    command = os.environ.get(TYPED) or shlex.join(["snakemake", *arguments])
    command = without_password(command)
    with suppress(OSError):
        (root / COMMAND).parent.mkdir(exist_ok=True)
        (root / COMMAND).write_text(command, encoding="utf-8")


def provenance(root: Path, config: Mapping[str, object]) -> Provenance:
    head = _git(root, "rev-parse", "--show-toplevel", "HEAD").splitlines()
    is_tree = len(head) == 2 and Path(head[0]).resolve() == root.resolve()
    status = ("status", "--porcelain", "-z", "--no-renames", "-uall", "--", *PARTS)
    listed = _git(root, *status) if is_tree else ""
    command = ""
    with suppress(OSError):
        command = (root / COMMAND).read_text(encoding="utf-8")
    public = _without_passwords(config)
    ordered = json.dumps(public, sort_keys=True, ensure_ascii=False)
    return {
        "vcsbench": __version__,
        "commit": head[1] if is_tree else "",
        "changed": sorted(entry[3:] for entry in listed.split("\0") if entry),
        "command": without_password(command),
        "config_digest": hashlib.sha256(ordered.encode()).hexdigest(),
        "config": public,
    }


def _without_passwords(config: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration as plain data, without credentials in URLs."""

    def clean(value: object) -> object:
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [clean(inner) for inner in value]
        if isinstance(value, str):
            return without_password(hide_password(value) if "://" in value else value)
        return value

    plain = json.loads(json.dumps(config, ensure_ascii=False, default=str))
    return {key: clean(value) for key, value in plain.items()}


def _git(root: Path, *arguments: str) -> str:
    # Root may measure in the checkout of another user.
    command = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
