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

EXAMPLE = """\
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

SERVERS = """\
## Server configurations: `config/servers/<name>/`

Each folder is a value of the axis `config`. Its files are what the programs get, and an edit of one
measures anew exactly the cells that use it.

| file | what it is | used by |
| --- | --- | --- |
| `svnserve.args` | svnserve's options, as on its command line; `#` starts a comment | ra svn |
| `httpd.conf` | directives in httpd's server context, after those of vcsbench's own | ra http |
| `svnadmin.args`, `load.args` | options of `svnadmin dump` and `svnadmin load` | dump, load |
| `client/` | the client's configuration folder: `config`, `servers` | ra http, svn, file |

`slow` has the defaults, `medium` 256 MB of cache, `fast` 1024 MB, revision property caching, block
read, no compression and no flush of each commit of a load, all as published. `forking` is svnserve
without `--threads`, as many run it. Of `default` the others differ by what they are called, in one setting
each: `cache-256` and `cache-1024` (MB), `revprops`, `block-read`, `no-compression`; `tuned` has all of them,
and 256 MB.
"""

FORMATS = """\
## Formats and packings, and those of your own repository

`format` has f1 to f8 (no f5 was released), and `f6-to-f8` for a repository that was made in f6 and then
upgraded in place: `svnadmin upgrade` goes to the newest format that the svnadmin here makes, and a cell that
names another is skipped. In a study whose axes take `formats` and `packings` (own-repository), parts of the
grid may also name these:

| word | what it stands for |
| --- | --- |
| `format: own` | that of your repository; of a git repository or a dump, what `svnadmin create` makes |
| `format: upgraded` | that, upgraded in place; nothing where it is the newest |
| `packing: own` | `pack` where any of your repository's shards is packed, else `nopack` |
| `packing: where full` | `pack` where there are revisions enough to fill a shard, else as `own` |

In a published study, an upgraded repository is measured where its grid names it, as
`{command: log, ra: svn, format: [f6, f6-to-f8, f8], packing: pack, config: slow, cache: cold}`.
"""

CHECKS = """\
## Expectations: the files that `expectations` names

By study, a list of checks like those of `config/published/findings.yaml`. For every pair of cells that
agree on all axes but the compared one, and match `where`, the value is elapsed(baseline) /
elapsed(candidate); with `level` it is a cell's own. `over` reduces them to one value in each round; the
interval over the rounds, what twins differ by included, must keep the bounds.
The verdict is `holds`, `differs`, `inconclusive` (with the reason: low n, interval, noise, other work,
hosts differ) or `not measured`.

`make check` measures what is missing, writes the report and prints a line for each. It fails unless all
hold; `workflow/scripts/check.sh` says by its exit code how: 3, one does not hold; 4, none fails to hold,
but one is inconclusive or was not measured; 1, something went wrong, or there is nothing to check.
`snakemake check` does the same with Snakemake's own exit codes.
"""


def document() -> str:
    """The text of config/README.md."""
    config, study, findings = (
        read_yaml(SCHEMAS / f"{name}.schema.yaml") for name in ("config", "study", "findings")
    )
    parts = [HEAD, "## Keys of config.yaml\n", _rows(config, DEFAULTS), EXAMPLE, SERVERS, FORMATS]
    parts += ["## Keys of a study: `config/studies/<name>.yaml`\n", _rows(study)]
    return "\n".join([*parts, CHECKS, _rows(findings["$defs"]["finding"])])


def _rows(content: Any, defaults: Mapping[str, Any] = MappingProxyType({})) -> str:
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for key, rule, needed in _keys(content, ""):
        default = "needed" if needed else _default(defaults, key)
        lines.append(f"| `{key}` | {_type(rule)} | {default} | {_meaning(rule)} |")
    return "\n".join(lines) + "\n"


def _default(defaults: Mapping[str, Any], key: str) -> str:
    """The default of a dotted key, "" without; that of a mapping is told key by key, unless it is empty."""
    value: Any = defaults
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return ""
        value = value[name]
    return "" if isinstance(value, Mapping) and value else f"`{json.dumps(value)}`"


def _keys(content: Any, prefix: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    for key, rule in content.get("properties", {}).items():
        yield f"{prefix}{key}", rule, key in content.get("required", [])
        yield from _keys(rule, f"{prefix}{key}.")
        below = rule.get("additionalProperties")
        if isinstance(below, Mapping) and "properties" in below:
            yield from _keys(below, f"{prefix}{key}.<name>.")


def _type(rule: Mapping[str, Any]) -> str:
    if "enum" in rule:
        return "one of " + ", ".join(f"`{value}`" for value in rule["enum"])
    kind = rule.get("type", "")
    names = {"array": "list", "object": "mapping", "string": "text", "null": "nothing"}
    kinds = kind if isinstance(kind, list) else [kind]
    return " or ".join(names.get(str(k), str(k)) for k in kinds)


def _meaning(rule: Mapping[str, Any]) -> str:
    return " ".join(str(rule.get("description", "")).split()).replace("|", "\\|")


if __name__ == "__main__":
    print(document(), end="")
