"""Record where measurements come from: the version, the commit, the command and the configuration."""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vcsbench import __version__, processes
from vcsbench.environment import program_environment
from vcsbench.errors import UserError, without_password
from vcsbench.external import hide_password, read_bytes
from vcsbench.files import write_bytes
from vcsbench.programs import joined_digest
from vcsbench.records import Context

COMMAND, TYPED = ".vcsbench/command", "VCSBENCH_COMMAND"
# Linux limits an argument to 128 KiB, and all of them to a quarter of the stack.
COMMAND_BYTES = 8 << 20
PARTS = ("Snakefile", "workflow", "config", "profiles", "envs")
# Facts on a build: in the output of `svn --version --verbose` or `httpd -v`, and in its binaries.
PRINTED = {
    "compiled": r"^ *compiled (.+)",
    "linked": r"^  - (?:using )?(.+ [\d.]+)(?: \(compiled with .*\))?$",
    "httpd": r"^Server version: (.+)",
}
CONTAINED = {
    "compiler": rb"(GCC: \([^)\0]*\) [\d.]+|clang version [\w.~+-]+)",
    "flags": rb"GNU C\d* [\d.]+ (-[^\0]*)",
}


def store_command(root: Path, arguments: Sequence[str]) -> None:
    command = os.environ.get(TYPED) or shlex.join(["snakemake", *arguments])
    command = without_password(command)
    with suppress(OSError):
        (root / COMMAND).parent.mkdir(exist_ok=True)
        write_bytes(root / COMMAND, command.encode(errors="replace"))


def provenance(
    root: Path, config: Mapping[str, object], contexts: Iterable[Context] = ()
) -> dict[str, object]:
    """Return the provenance of measurements; `commit` and `command` are "" if unknown.

    `changed` are the files that differ from the commit. `config` is merged, without credentials in URLs.
    `contexts` have all builds and servers.
    """
    head = _git(root, "rev-parse", "--show-toplevel", "HEAD").splitlines()
    is_tree = len(head) == 2 and Path(head[0]).resolve() == root.resolve()
    status = ("status", "--porcelain", "-z", "--no-renames", "-uall", "--", *PARTS)
    listed = _git(root, *status) if is_tree else ""
    command = ""
    with suppress(OSError, UserError):
        command = read_bytes(root / COMMAND, COMMAND_BYTES).decode(errors="replace")
    public = _without_passwords(config)
    ordered = json.dumps(public, sort_keys=True, ensure_ascii=False)
    return {
        "vcsbench": __version__,
        "commit": head[1] if is_tree else "",
        "changed": sorted(entry[3:] for entry in listed.split("\0") if entry),
        "command": without_password(command),
        "config_digest": hashlib.sha256(ordered.encode()).hexdigest(),
        "config": public,
        "builds": how_built(contexts),
    }


def how_built(contexts: Iterable[Context]) -> dict[str, dict[str, str]]:
    """Return by build what its programs print and its libraries contain about their making.

    The compiler and its flags are in libraries that are not stripped. Builds that changed after they were
    measured are left out.
    """
    made: dict[str, dict[str, str]] = {}
    for build in filter(None, (context.get("build") for context in contexts)):
        sides = [side for side in (build.get("client"), build.get("server")) if side]
        files = [f for side in sides for f in (side["program"], *(side["libraries"] or []))]
        if not build.get("name") or joined_digest(files) != build["digest"]:
            continue
        facts = made.setdefault(build["name"], {})
        for side in sides:
            name = os.path.basename(side["program"])
            options = ["--version"] if name.startswith("svn") else ["-v"]
            options += ["--verbose"] * (name == "svn")
            # The prefix is first, then the folders of the library path.
            libraries = ":".join(side["places"][1:])
            path = {"LD_LIBRARY_PATH": libraries} if libraries else {}
            environment = program_environment(path)
            text = _run([side["program"], *options], environment)
            for fact, pattern in PRINTED.items():
                value = ", ".join(re.findall(pattern, text, re.MULTILINE))
                if value and value not in facts.setdefault(fact, value):
                    facts[fact] += f"; {side['program']}: {value}"
        for file in files:
            unknown = [name for name in CONTAINED if name not in facts]
            content = Path(file).read_bytes() if unknown else b""
            for name in unknown:
                if part := re.search(CONTAINED[name], content):
                    facts[name] = part[1].decode(errors="replace")
    return made


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
    return _run(command)


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    done = processes.run_program(command, env=environment, limit_s=60, may_fail=True)
    return done.output if done.code == 0 else ""
