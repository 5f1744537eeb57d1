"""Read YAML files with limits, and check their content against models with an error in one sentence."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import yaml

from vcsbench.errors import UserError, sentence_of
from vcsbench.external import one_line, printable, read_bytes

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

Checked = TypeVar("Checked")
Keys = Sequence[str | int]
UNKNOWN_KEY = "extra_forbidden"
# A JSON schema, as pydantic makes it from a model.
Schema = dict[str, Any]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Limits of a YAML file, far above all shipped files.
YAML_BYTES = 256 << 10
YAML_DEPTH = 40
YAML_VALUES = 100_000  # where an alias counts as all that it repeats
SHOWN = 80  # of a refused value
# PyYAML and Snakemake read YAML 1.1, where `1:30` is 90, `010` is 8, `on` is true and `2010-01-01` is a date,
# and where `1e3` and `0o17` are text. In YAML 1.2, each of these is something else. A value without quotation
# marks must be the same in both. These are the numbers and words that are.
SAME_IN_BOTH = {
    "int": re.compile(r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+"),
    "float": re.compile(
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    ),
    "bool": re.compile("true|True|TRUE|false|False|FALSE"),
    "null": re.compile("~|null|Null|NULL|"),
    "merge": re.compile("<<"),
}
# A number of YAML 1.2.
YAML_1_2_NUMBER = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+"
)
# Longer numbers are nobody's, and Python refuses to print one of more than 4,300 digits.
NUMBER_LENGTH = 40


def read_yaml(path: Path) -> object:
    """Return the content of a YAML or JSON file. Raise UserError if it is missing, too large or damaged."""
    try:
        text = read_bytes(path, YAML_BYTES).decode()
    except FileNotFoundError:
        # The remedy names the files of this kind in the same folder, such as the studies.
        names = sorted(each.stem for each in path.parent.glob(f"*{path.suffix}"))
        remedy = f"{path.parent} has {', '.join(names)}." if names else "Check the name."
        raise UserError(f"{path}: no such file. {remedy}") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: byte {error.start} is not UTF-8. Save the file as UTF-8."
        ) from None
    except OSError as error:
        raise UserError(sentence_of(error, path)) from None
    if path.suffix == ".json":
        # Programs write JSON with numbers such as 5e-06, which YAML 1.1 reads as text. For damaged JSON,
        # parse_yaml() raises the error, unless the text is YAML.
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return parse_yaml(text, path)


def read_mapping(path: Path) -> dict[str, object]:
    """Return the keys and values of a YAML or JSON file, {} for an empty one. Raise UserError for a list."""
    content = read_yaml(path)
    if not isinstance(content, dict | None):
        raise UserError(f"{path}: the file must be a mapping. Write keys with values.")
    for key in content or {}:
        if not isinstance(key, str):
            raise UserError(f"{path}: the key {key!r} is no text. Put it into quotation marks.")
    return content or {}


def parse_yaml(text: str, path: str | Path) -> object:
    """Return the content of a YAML text, None for an empty one. `path` is its place, for errors.

    Raise UserError if the text is not YAML, or if _check_events() or _check_node() refuses it: it may be too
    deep, repeat a key, or have a value that versions of YAML read differently.
    """
    try:
        # The levels are counted before the loader is used, which would crash at too many levels.
        _check_events(text, path)
        loader = LOADER(text)
        # The tree of all values, still as texts.
        node = loader.get_single_node()
        if node is None:
            return None
        # To convert a text such as 1:1:1:... to a number would take minutes, so texts are checked before.
        _check_node(node, path)
        content: object = loader.construct_document(node)
        return content
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML names a place as `in "<unicode string>", line 1, column 3`.
        reason = printable(" ".join(str(error).split())).replace('in "<unicode string>",', "at")
        # YAML forbids tabs as indentation.
        mark = getattr(error, "problem_mark", None)
        is_tab = mark is not None and text[mark.index : mark.index + 1] == "\t"
        remedy = "Use spaces, not tabs" if is_tab else "Correct it"
        raise UserError(f"{path}: is not valid YAML: {reason}. {remedy}.") from None


@dataclass
class _OpenCollection:
    """A list or mapping of a YAML text whose end is not read yet: its anchor, and its values so far."""

    anchor: str | None
    size: int


def _check_events(text: str, path: str | Path) -> None:
    """Raise UserError for a YAML text with tags, too many levels or values, or an alias of nothing or itself.

    The loader recurses at each level, and would crash at 100,000 levels. An alias repeats a value: ten levels
    of lists that repeat the next level ten times become billions of values. So an alias counts as all values
    that it repeats, before anything is loaded. A tag could give a value another type, such as a set.
    """
    # The sizes of finished values by anchor. The alias `*name` repeats the anchor `&name [1, 2]`. A
    # collection counts itself and its values, so the size of this one is 3.
    size_by_anchor: dict[str | None, int] = {}
    # The lists and mappings around the next value, from the outermost one. The first stands for the document.
    open_collections = [_OpenCollection(anchor=None, size=0)]
    for event in yaml.parse(text, Loader=LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.CollectionStartEvent | yaml.ScalarEvent) and event.tag:
            tag = one_line(event.tag, SHOWN)
            raise UserError(f"{path}: has the tag {tag!r} (line {line}). Remove it.")
        if isinstance(event, yaml.CollectionStartEvent):
            open_collections.append(_OpenCollection(event.anchor, size=1))
            # The anchor now names an unfinished collection, so no alias may use the anchor yet.
            size_by_anchor.pop(event.anchor, None)
            if len(open_collections) > YAML_DEPTH:
                raise UserError(
                    f"{path}: has more than {YAML_DEPTH} levels (line {line}). Shorten it."
                )
            continue
        # The next three kinds of events end a value. Each sets `size`, the number of values in it.
        if isinstance(event, yaml.ScalarEvent):
            size = 1
            size_by_anchor[event.anchor] = size
        elif isinstance(event, yaml.CollectionEndEvent):
            finished = open_collections.pop()
            size = finished.size
            size_by_anchor[finished.anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in size_by_anchor:
                why = f"`*{one_line(event.anchor, SHOWN)}` repeats nothing, or itself (line {line})"
                raise UserError(f"{path}: {why}. Write the value in full.")
            size = size_by_anchor[event.anchor]
        else:
            # The begin or the end of a document.
            continue
        # The ended value is a part of the collection around it.
        outer = open_collections[-1]
        outer.size += size
        if outer.size > YAML_VALUES:
            raise UserError(
                f"{path}: has more than {YAML_VALUES:,} values (line {line}). Shorten it."
            )


def _check_node(node: yaml.Node, path: str | Path) -> None:
    """Raise UserError for a key that is there twice, or for a value that _check_scalar() refuses."""
    if isinstance(node, yaml.ScalarNode):
        _check_scalar(node, path)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_node(item, path)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            _check_node(key, path)
            _check_node(value, path)
            # YAML allows lists and mappings as keys. PyYAML refuses them later (construct_document).
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in keys:
                line = key.start_mark.line + 1
                why = f"the key {key.value!r} is there twice (line {line})"
                raise UserError(f"{path}: {why}. Remove one of the two.")
            keys.add(key.value)


def _check_scalar(node: yaml.ScalarNode, path: str | Path) -> None:
    """Raise UserError for a value that YAML 1.1 and 1.2 read differently, and for a very long number."""
    # A value with a style is in quotation marks or a block of text. All versions of YAML read it as text.
    if node.style:
        return
    # The tag is, for example, "tag:yaml.org,2002:int".
    kind = node.tag.rpartition(":")[2]
    if kind == "str":
        # Text of YAML 1.1, such as 1e3, can be a number of YAML 1.2.
        is_same_in_both = not YAML_1_2_NUMBER.fullmatch(node.value)
    elif kind in SAME_IN_BOTH:
        is_same_in_both = bool(SAME_IN_BOTH[kind].fullmatch(node.value))
    else:
        is_same_in_both = False
    place = f"`{one_line(node.value, NUMBER_LENGTH)}` (line {node.start_mark.line + 1})"
    if not is_same_in_both:
        raise UserError(
            f"{path}: {place} is read differently by versions of YAML. Write a decimal number, true or "
            "false, or put text into quotation marks."
        )
    if kind in ("int", "float") and len(node.value) > NUMBER_LENGTH:
        why = f"{place} is a number of more than {NUMBER_LENGTH} characters"
        raise UserError(f"{path}: {why}. Shorten it.")


def value_at(content: object, key: str | int) -> object:
    """Return the value of a mapping or a list at a key. Raise LookupError if it is missing."""
    if isinstance(content, Mapping):
        return content[key]
    if isinstance(content, list) and isinstance(key, int):
        return content[key]
    raise LookupError(key)


def validate(content: object, model: type[Checked], where: Callable[[Keys], str]) -> Checked:
    """Return the content as an instance of a model, such as Settings.

    Raise UserError for a key that the model refuses. `where` returns the file that has a path of keys, such
    as ["storages", "disk"], for the error. Validators get the whole content as their context.
    """
    # The import takes long, and not all processes need pydantic.
    import pydantic

    try:
        checked: Checked = _adapter_of(cast("Hashable", model)).validate_python(
            content, context=content
        )
        return checked
    except pydantic.ValidationError as error:
        raise UserError(_sentence(error.errors(include_url=False), content, model, where)) from None


class _PlacedError(NamedTuple):
    """One of pydantic's errors, and the path of keys to its value in the user's file (_keys_in)."""

    keys: list[str | int]
    error: ErrorDetails


def _sentence(
    errors: Sequence[ErrorDetails], content: object, model: type, file_of: Callable[[Keys], str]
) -> str:
    """Return a sentence for the most helpful one of pydantic's errors, with a remedy.

    Example with the documentation of the key: "config/config.yaml: `rounds`: '-1' should be at least 1. How
    often the whole grid is measured, however long it takes. ...".
    """
    placed_errors = [_PlacedError(_keys_in(content, error), error) for error in errors]
    best = min(placed_errors, key=_rank)
    keys = best.keys
    kind = best.error["type"]
    if kind == UNKNOWN_KEY:
        return f"{file_of(keys)}: `{dotted(keys)}` is not a key here. {_similar(keys, model)}"
    if kind == "missing":
        return f"{file_of(keys[:-1])}: `{dotted(keys)}` is missing. {_advice(keys, model)}"
    # A value of several possible types has an error for each type. These errors become one: "should be a
    # number or text". Errors about a type are not mixed with other errors about the same value.
    faults: list[str] = []
    for placed in placed_errors:
        if placed.keys == keys and _is_type(placed.error) == _is_type(best.error):
            faults.append(_fault(placed.error))
    fault = " or ".join(dict.fromkeys(faults)).replace(" or should be", " or")
    name = f"`{dotted(keys)}`" if keys else "the file"
    # Some of vcsbench's own validators raise a sentence with the remedy, which ends with a full stop.
    if fault.endswith("."):
        return f"{file_of(keys)}: {name}: {fault}"
    value = _shown_value(keys, best.error)
    return f"{file_of(keys)}: {name}: {value} {fault}. {_advice(keys, model)}"


def _rank(placed: _PlacedError) -> tuple[int, bool, bool]:
    """Return the sort key of an error; the most helpful error has the smallest key."""
    is_unknown_key = placed.error["type"] == UNKNOWN_KEY
    # The deepest error is the most exact. A wrong type may only mean another type of a union. A misspelt key
    # explains a missing one.
    return (-len(placed.keys), _is_type(placed.error), not is_unknown_key)


def _is_type(error: ErrorDetails) -> bool:
    """Return True if a value has a wrong type (`int_type`), or is none of a fixed set of values."""
    return error["type"].endswith(("_type", "literal_error"))


def _shown_value(keys: Keys, error: ErrorDetails) -> str:
    """Return the refused value in quotation marks, such as "'-1'"; "this value" for a URL."""
    # A URL may contain a password.
    if keys and keys[-1] == "url":
        return "this value"
    value = error["input"]
    # As in YAML: true and null, not True and None.
    if value is None or isinstance(value, bool):
        value = json.dumps(value)
    return f"'{one_line(value, SHOWN)}'"


# Terms of pydantic, and the terms of config/README.md.
TERMS = {
    "^(Value error, |(Input|String|List|Dictionary) (?=should))": "",
    "^Keys should be strings": "is a key, and should be text (in quotation marks)",
    "a valid dictionary( or instance of .*)?": "a mapping",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid (?=integer)": "an ",
    "a valid ": "a ",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    " after validation.*": "",
}


def _fault(error: ErrorDetails) -> str:
    """Return what is wrong with a value, for example "should be at least 1", with a hint."""
    # pydantic's "Input should be greater than or equal to 1" becomes "should be at least 1".
    text = error["msg"]
    for term, plain in TERMS.items():
        text = re.sub(term, plain, text)
    value = error["input"]
    if error["type"] == "string_type":
        text += " (numbers and words like `on` need quotation marks)"
    is_number = error["type"] in ("int_type", "float_type")
    if is_number and isinstance(value, str) and value[:1].isdigit():
        text += " (without quotation marks, unit or exponent)"
    return text


def _keys_in(content: object, error: ErrorDetails) -> list[str | int]:
    """Return the path of keys to an error, as the user's file has it.

    For a value that may have several types, pydantic adds the name of a type to the path: ("minutes", "int").
    The file does not have this key, so the name is left out. The name of a missing key is kept.
    """
    keys: list[str | int] = []
    last = len(error["loc"])
    for number, part in enumerate(error["loc"], 1):
        try:
            content = value_at(content, part)
        except LookupError:
            is_missing_key = number == last and error["type"] == "missing"
            if not is_missing_key:
                continue
        keys.append(part)
    return keys


@cache
def _adapter_of(model: Any) -> TypeAdapter[Any]:
    """Return the validator of a model. To make one takes longer than to check a file."""
    import pydantic

    return pydantic.TypeAdapter(model)


@cache
def schema_of(model: type) -> Schema:
    return _adapter_of(model).json_schema()


def members_of(schema: Schema, whole: Schema) -> list[Schema]:
    """Return the schemas of the types that a value may have, without references.

    A schema may be a union of types (`anyOf`), or refer to a part of the `whole` schema of a model (`$ref`).
    """
    if "$ref" in schema:
        return members_of(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if "anyOf" not in schema:
        return [schema]
    members: list[Schema] = []
    for member in schema["anyOf"]:
        members += members_of(member, whole)
    return members


def item_schemas(schema: Schema) -> list[Schema]:
    """Return the schemas of the values of a mapping, or of the items of a list."""
    schemas = list(schema.get("patternProperties", {}).values())
    for name in ("additionalProperties", "items"):
        # False if no other keys are allowed.
        if schema.get(name):
            schemas.append(schema[name])
    return schemas


def _levels(keys: Keys, model: type) -> list[dict[str, Schema]]:
    """Return the fields of the model at each level of a path of keys: the schema of a field by its name.

    For ["cluster", "nodes"], the first level has all keys of the configuration, and the second one all keys
    of `cluster`. A level of a list or of a mapping with any keys is {}.
    """
    whole = schema_of(model)
    # The schemas of the content that has the next key: first the whole configuration, then `cluster`.
    outer_schemas = [whole]
    levels = []
    for key in keys:
        # Of several possible types, the one that the user meant is unknown. So the fields of all count.
        schemas_of_types: list[Schema] = []
        for schema in outer_schemas:
            schemas_of_types += members_of(schema, whole)
        fields: dict[str, Schema] = {}
        # The schemas of the value at the key.
        inner_schemas: list[Schema] = []
        for schema in schemas_of_types:
            properties = schema.get("properties", {})
            fields |= properties
            schemas_of_items = item_schemas(schema)
            if schemas_of_items:
                # In a list or a mapping with any keys, all values have the same schemas.
                inner_schemas += schemas_of_items
            elif key in properties:
                inner_schemas.append(properties[key])
        levels.append(fields)
        outer_schemas = inner_schemas
    return levels


# Keys that went, and what to do.
REMOVED = {
    "min_effect_pct_if_noisy": "The margin is `min_effect_pct` on every machine: remove the key.",
}


def _similar(keys: Keys, model: type) -> str:
    """Return the remedy for an unknown key: its new name, a similar one, or all names."""
    unknown = str(keys[-1])
    if unknown in REMOVED:
        return REMOVED[unknown]
    fields = _levels(keys, model)[-1]
    for name, field in fields.items():
        if unknown and unknown == field.get("was"):
            return f"It is now `{name}`: rename it."
    # The mapping `thresholds` had 18 more keys, which have become constants.
    if list(keys[:-1]) == ["thresholds"]:
        return "The limits of flags are fixed now: remove the key. Only `min_rounds` can be set."
    names = sorted(fields)
    similar = difflib.get_close_matches(unknown, names, 1)
    return f"Did you mean `{similar[0]}`?" if similar else f"The keys are {', '.join(names)}."


def _advice(keys: Keys, model: type) -> str:
    """Return the description of the last key that has one: the deepest keys may be names of the user's."""
    advice = "See config/README.md."
    for key, fields in zip(keys, _levels(keys, model), strict=True):
        field = fields.get(str(key), {})
        if "description" in field:
            advice = " ".join(field["description"].split())
    return advice


def dotted(keys: Keys) -> str:
    """Return a path of keys as people write it: `grid.fsfs-san-2014.include[0].cache`."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        elif text:
            text += f".{key}"
        else:
            text = key
    return text
