"""What stands behind a number, what is shown, in which order, and what is copied: in a real browser."""

from __future__ import annotations

import shlex
from pathlib import Path

from browser.driver import drive, needs_chromium

pytestmark = needs_chromium

LOG_PACK = "table-nopack-vs-pack"


def test_a_number_opens_what_stands_behind_it(page: Path, tmp_path: Path) -> None:
    seen = drive(
        page,
        tmp_path,
        f"""
        const cell = document.querySelector("#{LOG_PACK} .measured td.behind");
        cell.click();
        const opened = {{ open: detail.open, text: detail.innerText, hash: location.hash,
                          name: cell.dataset.name,
                          dots: detail.querySelectorAll("svg.runs circle.side0").length,
                          squares: detail.querySelectorAll("svg.runs rect.side1").length,
                          focus: detail.contains(document.activeElement) }};
        detail.close();
        await until(() => !detail.open && !location.hash.includes("number"));
        const closed = {{ focus: document.activeElement === cell, hash: location.hash }};
        history.back();
        await until(() => detail.open);
        return {{ opened, closed }};
        """,
    )
    opened = seen["opened"]
    assert opened["open"]
    assert opened["focus"]
    assert f"number={opened['name']}" in opened["hash"]
    assert (opened["dots"], opened["squares"]) == (5 + 1, 5 + 1)  # five rounds, and one in the key
    for said in (
        "elapsed nopack ÷ elapsed pack = 1.2",
        "95 % interval",
        "pack is faster",
        "Client CPU",
        "Waiting",
        "make show CELL=log/http/ruby/f6/nopack/slow/cold STUDY=fsfs-san-2014",
        "make run-cell CELL=log/http/ruby/f6/pack/slow/cold",
        "make report STUDY=fsfs-san-2014 ARGS='--forcerun "
        "results/cells/fsfs-san-2014/log/http/ruby/f6/nopack/slow/cold/round1.json ",
        "results/cells/fsfs-san-2014/log/http/ruby/f6/pack/slow/cold/round5.json'",
        "The caches were cleared before a run, by drop_caches.",
        "Measured: +26 %. Published: +306 %, on another machine.",
    ):
        assert said in opened["text"], said
    assert seen["closed"] == {"focus": True, "hash": ""}


def test_what_is_to_be_typed_names_the_repository_as_a_shell_takes_it(
    page: Path, tmp_path: Path
) -> None:
    wanted = "return [given({own: '', study: 's'}), given({own: `/srv/it's mine`, study: 's'})];"
    said = drive(page, tmp_path, wanted)
    assert said[0] == "STUDY=s"
    assert shlex.split(said[1]) == ["REPO=/srv/it's mine", "STUDY=s"]


def test_the_address_of_a_number_opens_it(page: Path, tmp_path: Path) -> None:
    steps = """
    return [detail.open, detail.querySelector("h2")?.textContent ?? "", all("td.behind")[0].dataset.name];
    """
    first = drive(page, tmp_path, steps)
    assert first[0] is False
    opened = drive(page, tmp_path, steps, anchor=f"#&number={first[2]}")
    assert opened[0] is True
    assert opened[1].endswith(" ".join(first[2].split("/")[1:]))


def test_keys_go_through_a_grid_and_open_a_number(page: Path, tmp_path: Path) -> None:
    seen = drive(
        page,
        tmp_path,
        f"""
        const table = document.querySelector("#{LOG_PACK} .measured table");
        const stop = table.querySelectorAll('[tabindex="0"]');
        const grid = grids.find((one) => one.table === table);
        stop[0].focus();
        press("ArrowDown");
        const below = document.activeElement === grid.rows[1].cells[0].cell;
        press("End");
        const end = document.activeElement === grid.rows[1].cells.at(-1).cell;
        press("Home"); press("Enter");
        return {{ stops: stop.length, role: table.getAttribute("role"), below, end, open: detail.open }};
        """,
    )
    assert seen == {"stops": 1, "role": "grid", "below": True, "end": True, "open": True}


FILTERED = """
const shown = all("#tables .measured td").filter(seen);
return {
  ra: [...new Set(shown.map((cell) => cell.dataset.name))].length,
  elapsed: grids.filter((g) => g.measured && g.section.id === "table-elapsed")
    .flatMap((g) => g.rows.flatMap((r) => r.cells)).filter((c) => seen(c.cell)).map((c) => c.keys.ra),
  pack: grids.filter((g) => g.measured && g.section.id === "table-http-vs-ra")
    .flatMap((g) => g.rows.flatMap((r) => r.cells)).filter((c) => seen(c.cell)).map((c) => c.keys.candidate),
  same: shown.filter((cell) => cell.classList.contains("same")).length,
  chosen: all("#filter [name=ra]:checked").map((box) => box.value),
  only: filter.elements.only.checked, said: selected.textContent,
  hash: location.hash,
};
"""


def test_a_choice_shows_its_numbers_and_stands_in_the_address(page: Path, tmp_path: Path) -> None:
    choose = """
    document.querySelector('#filter [name="ra"][value="svn"]').click();
    """
    seen = drive(page, tmp_path, choose + FILTERED)
    assert {*seen["elapsed"]} == {"svn"}
    assert {*seen["pack"]} == {"svn"}
    assert seen["hash"] == "#&ra=svn"
    assert drive(page, tmp_path, FILTERED, anchor="#&ra=svn") == seen
    undone = drive(
        page,
        tmp_path,
        f"{choose} history.back(); await until(() => !filter.querySelector('[name=ra]:checked')); {FILTERED}",
    )
    assert {*undone["elapsed"]} == {"http", "svn", "file"}
    shown_all = drive(page, tmp_path, f"filter.reset(); {FILTERED}", anchor="#&ra=svn&only=differs")
    assert {**shown_all, "hash": ""} == undone


def test_several_values_of_an_axis_are_chosen_by_keys(page: Path, tmp_path: Path) -> None:
    choose = """
    const choice = filter.querySelector('[data-axis="ra"]');
    choice.open = true;
    for (const ra of ["svn", "file"]) choice.querySelector(`[value="${ra}"]`).click();
    const named = choice.querySelector("summary").textContent;
    press("Escape", choice.querySelector("input"));
    const closed = !choice.open && document.activeElement === choice.querySelector("summary");
    """
    seen = drive(page, tmp_path, choose + FILTERED.replace("return {", "return { named, closed,"))
    assert (seen.pop("named"), seen.pop("closed")) == ("ra: svn, file", True)
    assert {*seen["elapsed"]} == {"svn", "file"}
    assert (seen["chosen"], seen["hash"]) == (["svn", "file"], "#&ra=svn&ra=file")
    assert drive(page, tmp_path, FILTERED, anchor="#&ra=svn&ra=file") == seen


def test_only_differences(page: Path, tmp_path: Path) -> None:
    seen = drive(page, tmp_path, FILTERED, anchor="#&only=differs")
    assert (seen["same"], seen["elapsed"], seen["only"]) == (0, [], True)
    assert seen["pack"]


def test_charts_follow_what_is_chosen(page: Path, tmp_path: Path) -> None:
    steps = """
    await until(() => root.dataset.charts === "drawn");
    return [all("#chart-elapsed-log .mark-symbol.role-mark path").length,
            seen(document.getElementById("chart-elapsed-export"))];
    """
    assert drive(page, tmp_path, steps) == [36 * 5, True]
    assert drive(page, tmp_path, steps, anchor="#&command=log&ra=svn") == [12 * 5, False]


def test_rows_are_sorted_and_the_published_ones_with_them(page: Path, tmp_path: Path) -> None:
    seen = drive(
        page,
        tmp_path,
        f"""
        const pair = all("#{LOG_PACK} .pair").find((one) => one.querySelectorAll("table").length === 2);
        const head = [...pair.querySelector("thead").rows].at(-1).querySelector("th");
        const tables = [...pair.querySelectorAll("table")];
        const read = () => tables.map((table) => [...table.querySelectorAll("tr:not(.group)[data-of]")]
          .map((row) => row.dataset.of));
        const values = () => [...tables[0].tBodies].map((body) => [...body.querySelectorAll("tr:not(.group)")]
          .map((row) => numberOf(row.querySelector("td"))));
        const before = read();
        head.focus(); press("Enter");
        const down = {{ rows: read(), values: values(), sort: head.getAttribute("aria-sort") }};
        head.click(); head.click();
        return {{ before, down, after: read() }};
        """,
    )
    assert seen["after"] == seen["before"]
    assert seen["down"]["sort"] == "descending"
    assert seen["down"]["rows"][0] == seen["down"]["rows"][1]
    for group in seen["down"]["values"]:
        assert group == sorted(group, reverse=True)


def test_what_is_shown_is_what_is_copied(page: Path, tmp_path: Path) -> None:
    steps = """
    const figure = all("#table-elapsed .measured").find(seen);
    const texts = [];
    for (const button of figure.querySelectorAll(".copy button")) {
      delete root.dataset.copied;
      button.click();
      texts.push(root.dataset.copied);
    }
    await until(() => !note.hidden);
    return [texts, [...figure.querySelectorAll("td")].filter(seen).filter((c) => numberOf(c) !== null)
      .map((c) => c.textContent), note.textContent];
    """
    (markdown, csv), shown, note = drive(page, tmp_path, steps, anchor="#&ra=svn&format=f7")
    lines = markdown.splitlines()
    assert lines[1].startswith("| --- | ---:")
    assert [cell.strip() for line in lines[2:] for cell in line.split("|")[2:-1]] == shown
    rows = [line.split(",") for line in csv.splitlines()]
    assert rows[0][-2:] == ["shown", "marks"]
    assert ["".join(row[-2:]) for row in rows[1:]] == shown
    assert {row[rows[0].index("ra")] for row in rows[1:]} == {"svn"}
    assert note.startswith("Copied as") or note in (markdown, csv)
