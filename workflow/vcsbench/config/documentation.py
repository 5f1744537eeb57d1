"""config/README.md from the schemas: `python -m vcsbench.config.documentation > config/README.md`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from vcsbench.config.configuration import DEFAULTS
from vcsbench.config.validation import SCHEMAS, read_yaml

HEAD = """\
# The configuration

`config.yaml` is read first. `--configfile FILE` lays another file over it (mappings are merged key by
key, everything else is replaced), and `--config key=value` lays single keys over both. An unknown key
or a value of the wrong type is an error that names the file and the key.

Made from `workflow/schemas` by `python -m vcsbench.config.documentation`; a test holds it to them.
"""

SERVERS = """\
## Server configurations: `config/servers/<name>/`

Each folder is a value of the axis `config`. Its files are what the programs get, and an edit of one
measures anew exactly the cells that use it.

| file | what it is | used by |
| --- | --- | --- |
| `svnserve.args` | svnserve's options, as on its command line; `#` starts a comment | ra svn |
| `httpd.conf` | directives in httpd's server context, after those of vcsbench's own | ra http |
| `svnadmin.args` | svnadmin's options | dump |
| `client/` | the client's configuration folder: `config`, `servers` | ra http, svn, file |

`slow` has the defaults, `medium` 256 MB of cache, `fast` 1024 MB, revision property caching, block
read and no compression, all as published. `forking` is svnserve without `--threads`, as many run it.
"""

CHECKS = """\
## Expectations: the files that `expectations` names

By study, a list of checks like those of `config/published/findings.yaml`. For every pair of cells that
agree on all axes but the compared one, and match `where`, the value is elapsed(baseline) /
elapsed(candidate); with `level` it is a cell's own. `over` reduces them to one value in each round; the
interval over the rounds must keep the bounds, also when the noise floor of its cells is added to it.
The verdict is `holds`, `differs`, `inconclusive` (with the reason: low n, interval, noise, other work,
hosts differ) or `not measured`.

`make check` measures what is missing, writes the report and prints a line for each. It fails unless all
hold; `workflow/scripts/check.sh` says by its exit code how: 3, one does not hold; 4, none fails to hold,
but one is inconclusive or was not measured; 1, something went wrong, or there is nothing to check.
`snakemake check` does the same with Snakemake's own exit codes.
"""


MISSING = object()


def document() -> str:
    """The text of config/README.md."""
    parts = [HEAD, "## Keys of config.yaml\n", _table("config"), _example(), SERVERS]
    parts += ["## Keys of a study: `config/studies/<name>.yaml`\n", _table("study")]
    parts += [CHECKS, _rows(_finding())]
    return "\n".join(parts)


def _finding() -> Any:
    """The schema of one check, with what it says of each study's list left out."""
    return read_yaml(SCHEMAS / "findings.schema.yaml")["$defs"]["finding"]


def _table(schema: str) -> str:
    content = read_yaml(SCHEMAS / f"{schema}.schema.yaml")
    return _rows(content, DEFAULTS if schema == "config" else {})


def _rows(content: Any, defaults: Mapping[str, Any] = MappingProxyType({})) -> str:
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for key, rule, needed in _keys(content, content, ""):
        value = _default(defaults, key)
        default = "" if value is MISSING else f"`{json.dumps(value)}`"
        default = "needed" if needed else default
        lines.append(f"| `{key}` | {_type(rule)} | {default} | {_meaning(rule)} |")
    return "\n".join(lines) + "\n"


def _default(defaults: Mapping[str, Any], key: str) -> Any:
    """The default of a dotted key, or MISSING; that of a mapping is told key by key, unless it is empty."""
    value: Any = defaults
    for name in key.split("."):
        value = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
    return MISSING if isinstance(value, Mapping) and value else value


def _keys(content: Any, root: Any, prefix: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    for key, rule in content.get("properties", {}).items():
        yield f"{prefix}{key}", rule, key in content.get("required", [])
        yield from _keys(rule, root, f"{prefix}{key}.")
        below = rule.get("additionalProperties")
        if isinstance(below, Mapping) and "properties" in below:
            yield from _keys(below, root, f"{prefix}{key}.<name>.")


def _type(rule: Mapping[str, Any]) -> str:
    if "enum" in rule:
        return "one of " + ", ".join(f"`{value}`" for value in rule["enum"])
    kind = rule.get("type", "")
    names: dict[str, str] = {
        "array": "list",
        "object": "mapping",
        "string": "text",
        "null": "nothing",
    }
    kinds = kind if isinstance(kind, list) else [kind]
    return " or ".join(names.get(k, str(k)) for k in kinds)


def _meaning(rule: Mapping[str, Any]) -> str:
    return " ".join(str(rule.get("description", "")).split()).replace("|", "\\|")


def _example() -> str:
    return """\
A part of the grid names axes of the study with a value or a list of values:

```yaml
grid:
  fsfs-san-2014:
    include:
      - {command: [log, export], format: [f6, f7], config: slow, cache: [cold, hot-os]}
    exclude:
      - {ra: http, cache: cold}
```
"""


if __name__ == "__main__":
    print(document(), end="")
