"""Values and files of a configuration that are refused for their size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vcsbench.config import validation
from vcsbench.config.models import Settings
from vcsbench.config.validation import parse_yaml, read_yaml, validate
from vcsbench.errors import UserError

ROOT = Path(__file__).parents[2]


def refusal(**changes: Any) -> str:
    content = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    with pytest.raises(UserError) as caught:
        validate({**content, **changes}, Settings, lambda keys: "my.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("time_limit_s", ".nan"),
        ("time_limit_s", ".inf"),
        ("minutes", ".inf"),
        ("minutes", "{fsfs-san-2014: .nan, default: 1}"),
        ("minutes", "1.0e+9"),
        ("rounds", "1000000000"),
        ("runs", "1000000000"),
        ("copies", "1000000000"),
        ("duplicates", "1000000000"),
        ("fragmentation_kib", ".inf"),
        ("min_effect_pct", ".nan"),
        ("thresholds", "{max_steal_pct: -.inf}"),
        ("thresholds", "{max_steal_pct: .nan}"),
        ("thresholds", "{min_rounds: 1000000000}"),
        ("workload", "{log: .inf}"),
    ],
)
def test_validate_of_a_number_without_bound_names_key_and_value(key: str, value: str) -> None:
    sentence = refusal(**{key: yaml.safe_load(value)})
    assert sentence.startswith(f"my.yaml: `{key}")
    assert "\n" not in sentence


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for n in range(1, levels):
        lines.append(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 1000 + "]" * 1000,
        bomb(9),
        "- x\n" * 200_000,
        "a: &a [*a]",
        "a: !!python/object/apply:os.system [true]",
        "a: \x00",
        "? {a: b}\n: c\n? [",
    ],
)
def test_parse_yaml_of_a_hostile_text_raises_user_error(text: str) -> None:
    with pytest.raises(UserError, match=r"^my\.yaml: "):
        parse_yaml(text, "my.yaml")


def test_read_yaml_of_a_large_file_raises_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "YAML_BYTES", 100)
    path = tmp_path / "large.yaml"
    path.write_text("#" * 101)
    with pytest.raises(UserError, match="larger than 100 bytes"):
        read_yaml(path)


def test_user_error_of_a_strangers_text_is_escaped_and_limited() -> None:
    assert str(UserError("k\x1b[2J\u202e\x9b")) == r"k\x1b[2J\u202e\x9b"
    assert len(str(UserError("x" * 70_000))) < 5000


def test_validate_unknown_key_with_control_characters_is_escaped() -> None:
    assert "\x1b" not in refusal(**{"\x1b[2J": 1})
