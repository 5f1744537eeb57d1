"""The study of deployed servers, from its grid to its page, with four short cells."""

import json

import pytest

from project import invalid_flags, needs

STUDY = "deployed-server"
BASE = {
    **{"command": "log", "network": "loopback", "authentication": "none", "access_rules": "0"},
    **{"repo": "ruby", "format": "f8", "packing": "nopack", "path_authz": "on"},
    **{"keep_alive": "on", "http_connections": "4", "bulk_updates": "off"},
    **{"config": "default", "hooks": "none", "cache": "hot-os"},
    **{"readers": "1", "committers": "0", "arrival": "closed"},
}


@pytest.mark.slow
@needs("svn", "svnadmin", "apache2", "htpasswd", "openssl", "hyperfine")
def test_four_cells_make_tables_cards_findings_and_a_page(project):
    project.configure(
        {**BASE, "access": ["http", "https", "svn"]},
        {**BASE, "access": "http", "authentication": "basic-md5"},
        study=STUDY,
        rounds=2,
    )
    project.succeed()
    runs = project.rows(f"measurements/{STUDY}.csv")
    assert len(runs) == 8 and invalid_flags(runs) == []
    assert len({run["work"] for run in runs}) == 1
    table = project.rows(f"tables/{STUDY}/http-vs-access.csv")
    assert {row["candidate"] for row in table if row["ratio"]} == {"https", "svn"}
    cards = project.json(f"advice/{STUDY}.json")["cards"]
    names = [card["question"]["name"] for card in cards]
    assert {"https", "authentication"} <= {*names}
    (https,) = [card for card in cards if card["question"]["name"] == "https"]
    (pair,) = https["cases"][0]["pairs"]
    assert (pair["baseline"], pair["candidate"]) == ("http", "https")
    assert https["answer"]["value"] in ("", "http")
    findings = project.rows(f"findings/{STUDY}.csv")
    assert {row["published"] for row in findings} == {""}
    page = project.page(STUDY)
    assert "What does https cost, against http?" in page and "Source: https://" in page
    # No secret of a cell-round is left.
    contexts = json.dumps(project.contexts())
    assert "PRIVATE KEY" not in contexts and "$apr1$" not in contexts
