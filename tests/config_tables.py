"""Write the keys of the configuration into its pages.

usage: PYTHONPATH=workflow envs/run.sh python tests/config_tables.py

The lists are made from the models of the configuration. Each is between `<!-- keys of MODEL -->` and
`<!-- end -->`; the text around them is written by hand. `<!-- keys of MODEL: a b -->` has these keys only,
and `<!-- keys of MODEL without: a b -->` all others.
"""

import json
import re
from pathlib import Path

from vcsbench.config.definitions import FindingDefinition
from vcsbench.config.models import Settings
from vcsbench.config.study import StudyFile
from vcsbench.config.validation import item_schemas, members_of, schema_of

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "config" / "README.md",
    ROOT / "docs" / "study-keys.md",
    ROOT / "docs" / "study-report-keys.md",
    ROOT / "docs" / "expectations.md",
]
LIST = re.compile(
    r"(<!-- keys of (?P<model>\w+)(?P<without> without)?(?:: (?P<names>[\w ]+))? -->\n\n).*?(\n<!-- end -->)",
    re.DOTALL,
)
MODELS = {"Settings": Settings, "StudyFile": StudyFile, "Finding": FindingDefinition}


def with_keys(text):
    """Return the text of a page with its lists of keys made again."""
    return LIST.sub(lambda match: match[1] + list_of(match) + match[5], text)


def list_of(match):
    """Return the list of a marker: a line for each key, with its type, default and meaning."""
    whole = schema_of(MODELS[match["model"]])
    names = (match["names"] or "").split()
    meanings, lines = {}, []
    for key, field, default in keys_of(whole, whole, ""):
        meaning = " ".join(field.get("description", "").split())
        meanings[key] = meaning
        top = re.split(r"[.\[]", key)[0]
        if names and (top in names) == bool(match["without"]):
            continue
        # The client and the server of a build have the keys of the build.
        parent, _, name = key.rpartition(".")
        outer = parent.rpartition(".")[0]
        if outer and meanings.get(f"{outer}.{name}") == meaning:
            continue
        types = filter(None, dict.fromkeys(map(type_of, members_of(field, whole))))
        notes = ", ".join(filter(None, [" or ".join(types), default]))
        lines.append(f"- `{key}` ({notes}): {meaning}\n")
    return "".join(lines)


def keys_of(schema, whole, key):
    """Yield the keys below a key. In a mapping, `<name>` stands for each name."""
    for member in members_of(schema, whole):
        for value in item_schemas(member):
            yield from keys_of(value, whole, key + ("[]" if "items" in member else ".<name>"))
        for name, field in member.get("properties", {}).items():
            below = f"{key}.{name}" if key else name
            # The default of a mapping or "not set" tells nothing.
            is_set = field.get("default") not in (None, "", [], {}) and "$ref" not in field
            default = f"default `{json.dumps(field['default'])}`" if is_set else ""
            yield below, field, "needed" if name in member.get("required", []) else default
            yield from keys_of(field, whole, below)


def type_of(schema):
    if "enum" in schema or "const" in schema:
        values = schema.get("enum") or [schema["const"]]
        return "one of " + ", ".join(f"`{value}`" for value in values if value)
    names = {"string": "text", "array": "list", "object": "mapping", "null": ""}
    return names.get(schema["type"], schema["type"])


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_keys(page.read_text(encoding="utf-8")), encoding="utf-8")
