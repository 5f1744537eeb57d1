"""config/README.md has a table of all keys."""

from pathlib import Path

from vcsbench.config.documentation import README, with_tables

ROOT = Path(__file__).parents[2]


def test_config_readme_has_the_tables_of_the_models() -> None:
    text = (ROOT / README).read_text()
    assert text.count("<!-- keys of ") == 3
    assert with_tables(text) == text, "run `python -m vcsbench.config.documentation`"


def test_config_readme_documents_each_default_key() -> None:
    text = (ROOT / README).read_text()
    for line in (ROOT / "config" / "config.yaml").read_text().splitlines():
        if line and line[0].isalpha():
            assert f"| `{line.split(':')[0]}` |" in text
