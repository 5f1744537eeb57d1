"""Write the tables of keys in config/README.md: PYTHONPATH=workflow envs/run.sh python tests/config_tables.py

The tables are made from the models of the configuration. Each is between `<!-- keys of MODEL -->` and
`<!-- end -->`; the text around them is written by hand.
"""

import json
import re
from pathlib import Path

from vcsbench.config.definitions import FindingDefinition
from vcsbench.config.models import Settings
from vcsbench.config.study import StudyFile
from vcsbench.config.validation import item_schemas, members_of, schema_of

README = Path(__file__).parents[1] / "config" / "README.md"
TABLE = re.compile(r"(<!-- keys of (\w+) -->\n\n).*?(\n<!-- end -->)", re.DOTALL)
MODELS = {"Settings": Settings, "StudyFile": StudyFile, "Finding": FindingDefinition}


def with_tables(text):
    """Return a text with its tables of keys made again."""
    return TABLE.sub(lambda match: match[1] + rows_of(MODELS[match[2]]) + match[3], text)


def rows_of(model):
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    whole = schema_of(model)
    for key, field, default in keys_of(whole, whole, ""):
        meaning = " ".join(field.get("description", "").split()).replace("|", "\\|")
        types = filter(None, dict.fromkeys(map(type_of, members_of(field, whole))))
        lines.append(f"| `{key}` | {' or '.join(types)} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def keys_of(schema, whole, key):
    """Yield the keys below a key. In a mapping, `<name>` stands for each name."""
    for member in members_of(schema, whole):
        for value in item_schemas(member):
            yield from keys_of(value, whole, key + ("[]" if "items" in member else ".<name>"))
        for name, field in member.get("properties", {}).items():
            below = f"{key}.{name}" if key else name
            # The default of a mapping or "not set" tells nothing.
            is_set = field.get("default") is not None and "$ref" not in field
            default = f"`{json.dumps(field['default'])}`" if is_set else ""
            yield below, field, "needed" if name in member.get("required", []) else default
            yield from keys_of(field, whole, below)


def type_of(schema):
    if "enum" in schema or "const" in schema:
        values = schema.get("enum") or [schema["const"]]
        return "one of " + ", ".join(f"`{value}`" for value in values)
    names = {"string": "text", "array": "list", "object": "mapping", "null": ""}
    return names.get(schema["type"], schema["type"])


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
