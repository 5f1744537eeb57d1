"""config/README.md says what the schemas say."""

from pathlib import Path

from vcsbench.config import documentation as configdocs

ROOT = Path(__file__).parent.parent.parent


def test_config_readme_is_up_to_date() -> None:
    committed = (ROOT / "config" / "README.md").read_text()
    assert committed == configdocs.document(), (
        "run python -m vcsbench.config.documentation > config/README.md"
    )


def test_every_key_of_the_default_configuration_is_documented() -> None:
    document = configdocs.document()
    for line in (ROOT / "config" / "config.yaml").read_text().splitlines():
        if line and line[0].isalpha():
            assert f"| `{line.split(':')[0]}` |" in document
