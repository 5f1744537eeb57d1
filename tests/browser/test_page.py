"""The page in a real browser: picks, details, filters, keyboard, small windows, accessibility, print."""

import base64
import importlib.util
import re
from pathlib import Path

import pytest

from browser.driver import browse, drive, needs_chromium
from unit.report_files import write_page

pytestmark = needs_chromium

PACKING = "table-nopack-vs-pack"


@pytest.fixture(scope="module")
def page(whole_study, tmp_path_factory):
    """The report of a completely measured study with duplicates."""
    load = {"seconds": 22.0, "seconds_by_state": {"pack": 0.4}}
    load |= {"revisions": 5500, "format": "f7", "loaded_in": "/dev/shm/x", "path": "/var/tmp/x"}
    return write_page(whole_study, tmp_path_factory.mktemp("page"), loads={"ruby": load})


def test_page_fits_a_desktop_and_findings_lead_to_their_rows(page, tmp_path):
    steps = """
    all("details").forEach((details) => { details.open = true; });
    root.classList.add("marks");
    all(".values td i:not(.deviation)").forEach((mark) => { mark.textContent = "≈="; });
    const isBox = (element) => /auto|scroll|hidden/.test(getComputedStyle(element).overflow);
    const boxes = all("main *").filter((element) => !element.closest("svg, input, select") && isBox(element));
    document.querySelector("#finding-cold-packed-f7-log a").click();
    await until(() => document.querySelector(":target"));
    return { error: root.dataset.error, wide: root.scrollWidth > innerWidth,
             boxes: boxes.map((box) => box.className || box.tagName),
             target: document.querySelector(":target").tagName };
    """
    # All rows are shown: nothing scrolls inside of the page.
    assert drive(page, tmp_path, steps) == {"wide": False, "boxes": [], "target": "TR"}


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 800, 1000])
def test_page_fits_a_small_window(page, tmp_path, width):
    # The smallest window of Chromium has 500 pixels, so a zoom makes the rest.
    steps = f"""
    document.querySelectorAll("details").forEach((details) => {{ details.open = true; }});
    root.style.zoom = Math.max(1, innerWidth / {width});
    const ends = all("#first .steps tbody tr:first-child div")
      .map((head) => head.getBoundingClientRect().right);
    return [Math.round(innerWidth / root.style.zoom), root.scrollWidth - root.clientWidth,
            Math.max(...ends) <= innerWidth];
    """
    window = f"--window-size={width},900"
    assert drive(page, tmp_path, steps, options=[window]) == [width, 0, True]


BAD = ["%", "%&access=svn", "%E0%A4%A&access=svn", "access=%", "&&=&number=%", "revisions=1e999"]


@pytest.mark.parametrize("anchor", BAD)
def test_page_with_a_damaged_address_works(page, tmp_path, anchor):
    steps = """
    document.querySelector('nav a[href="#tables"]').click();
    return { error: root.dataset.error, cards: all("#cards .card").filter(seen).length > 0 };
    """
    assert drive(page, tmp_path, steps, anchor=f"#{anchor}") == {"cards": True}


def test_injected_script_handler_and_style_do_nothing(page, tmp_path):
    evil = """<script>document.documentElement.dataset.evil = "script";</script>
    <img src="data:," onerror="document.documentElement.dataset.evil = 'handler'">
    <base href="https://example.org/"><p id="evil" style="color: red">x</p>
    <style>#evil { color: red }</style>"""
    made = tmp_path / "evil.html"
    made.write_text(page.read_text().replace("</header>", f"{evil}</header>", 1))
    steps = """
    return [root.dataset.evil ?? "", getComputedStyle(document.getElementById("evil")).color,
            document.baseURI === location.href];
    """
    ran, colour, is_same_base = drive(made, tmp_path, steps, is_quiet=False)
    assert (ran, is_same_base) == ("", True) and colour != "rgb(255, 0, 0)"


CARD = """
const card = document.getElementById("card-packing");
return {
  short: card.querySelector(".answer").textContent, sentence: card.querySelector(".sentence").textContent,
  rows: [...card.querySelectorAll(".comparisons tbody tr")].filter((row) => !row.hidden)
    .map((row) => keysOf(row).access),
  marks: [...card.querySelectorAll(".live .mark-symbol path")].length,
  cells: grids.filter((g) => g.measured && g.section.id === "table-elapsed")
    .flatMap((g) => g.rows.flatMap((r) => r.cells)).filter((c) => seen(c.cell)).map((c) => c.keys.access),
  candidates: grids.filter((g) => g.measured && g.section.id === "table-http-vs-ra")
    .flatMap((g) => g.rows.flatMap((r) => r.cells)).filter((c) => seen(c.cell)).map((c) => c.keys.candidate),
  summary: card.querySelector(".cases summary").textContent,
  situations: document.getElementById("situation-count").textContent, hash: location.hash,
  first: document.querySelector("#first p").textContent,
  leads: all("#first .steps div > b").map((lead) => lead.textContent),
  results: all("#first .steps .chip").map((chip) => chip.firstChild.textContent.trim()),
  fault: root.dataset.error ?? "",
};
"""
DRAWN = "await until(() => root.dataset.charts);"


def pick(axis, value):
    return f"""
    pickForm.elements["{axis}"].value = "{value}";
    pickForm.elements["{axis}"].dispatchEvent(new Event("change", {{ bubbles: true }}));
    """


# The charts follow in a task of their own.
SETTLED = "await new Promise((done) => setTimeout(done, 300));"


def test_picks_change_answers_charts_tables_and_address(page, tmp_path):
    before = drive(page, tmp_path, DRAWN + SETTLED + CARD)
    seen = drive(page, tmp_path, DRAWN + pick("access", "svn") + SETTLED + CARD)
    assert before["fault"] == seen["fault"] == ""
    assert {*before["rows"]} == {*before["cells"]} == {"http", "svn", "file"}
    assert {*seen["rows"]} == {*seen["cells"]} == {*seen["candidates"]} == {"svn"}
    # A dot in the chart for each comparison.
    assert (before["marks"], seen["marks"]) == (36, 12)
    assert seen["hash"] == "#access=svn"
    assert re.findall(r"\d+", before["summary"] + seen["summary"]) == ["36", "36", "12", "36"]
    counts = [of["situations"] for of in (before, seen)]
    assert counts == ["18 of 18 situations", "6 of 18 situations"]
    assert drive(page, tmp_path, DRAWN + SETTLED + CARD, anchor="#access=svn") == seen
    picked = pick("access", "svn")
    back = f"{DRAWN} {picked} history.back(); await until(() => !location.hash.includes('svn'));"
    assert drive(page, tmp_path, back + SETTLED + CARD) == {**before, "hash": ""}


@pytest.mark.slow
def test_all_picks_have_the_steps_of_that_combination(page, tmp_path):
    mine = "#access=http&format=f6&packing=nopack&config=slow"
    seen = drive(page, tmp_path, CARD, anchor=mine)
    assert seen["first"].startswith("You have: http, f6, not packed, default settings.")
    leads = [lead.partition(":")[0] for lead in seen["leads"]]
    assert leads == ["Step 1 (optional)", "Step 2", "Step 3 (optional)"]
    # Packing and format 7 were measured together, too.
    assert {*seen["results"]} == {"1.2x faster", "1.3x faster", "2.0x faster", "2.5x faster"}


@pytest.mark.slow
def test_picks_without_an_answer_say_so_and_have_the_answers_over_all_cases(page, tmp_path):
    steps = """
    return [document.getElementById("no-answer").hidden, document.querySelector("#first p").textContent];
    """
    hidden, over_all = drive(page, tmp_path, steps)
    assert hidden is True
    # The address may have keys that are no picks.
    hidden, first = drive(page, tmp_path, steps, anchor="#access=http&format=f6&item=x")
    assert hidden is True and first.startswith("You have: http, f6.")
    leave = """
    document.querySelector('template[data-picks="access=svn"]').remove();
    select({ access: "http" });
    select({ access: "svn" });
    """
    assert drive(page, tmp_path, leave + steps) == [False, over_all]


def test_page_without_scripts_has_the_images_of_its_charts(page):
    text = page.read_text()
    images = re.findall(r'<img class="still" src="data:image/svg\+xml;base64,([^"]+)"', text)
    charts = re.findall(r'data-chart="([^"]+)"', text)
    assert len(images) == len(charts) > 4
    assert all(base64.b64decode(image).startswith(b"<svg") for image in images)
    assert len(text) < 4_000_000


@pytest.mark.slow
def test_number_under_the_pointer_is_shown(page, tmp_path):
    steps = """
    const dot = document.querySelector("#card-format .live .mark-symbol path");
    const { left, top } = dot.getBoundingClientRect();
    const at = { bubbles: true, clientX: left + 2, clientY: top + 2 };
    for (const type of ["pointermove", "mousemove", "mouseover"])
      dot.dispatchEvent(new MouseEvent(type, at));
    await until(() => document.querySelector("#vg-tooltip-element.visible"));
    return document.querySelector("#vg-tooltip-element").textContent;
    """
    assert re.search(r"Result.*f7 2\.0x faster", drive(page, tmp_path, DRAWN + steps))


@pytest.mark.slow
def test_revisions_of_a_reader_give_the_time_of_a_load_and_the_disk_space(page, tmp_path):
    # 5,500 revisions were loaded in 22 s and packed in 0.4 s.
    steps = """
    const line = document.getElementById("size");
    const bytes = { f6: { nopack: 80 * 2 ** 20, pack: 30 * 2 ** 20 }, f7: { nopack: 2 ** 25 } };
    line.dataset.estimate = JSON.stringify({ ...JSON.parse(line.dataset.estimate), bytes });
    update();
    return { line: document.querySelector("#size output").textContent, hash: location.hash };
    """
    type_in = """
    const input = document.getElementById("revisions");
    input.value = "20000";
    input.dispatchEvent(new Event("change", { bubbles: true }));
    """
    seen = drive(page, tmp_path, type_in + steps)
    line = seen["line"]
    assert "for 20,000 revisions: load 80 s in memory, pack 1.5 s; a disk" in line
    assert "f6 not packed 290 MiB, f6 packed 110 MiB, f7 not packed 120 MiB" in line
    assert "from 5,500 revisions" in line
    assert drive(page, tmp_path, steps, anchor="#revisions=20000") == seen


def test_details_of_a_number_have_its_runs_and_commands(page, tmp_path):
    steps = f"""
    {DRAWN}
    const cell = document.querySelector("#{PACKING} .measured td.behind");
    cell.click();
    await until(() => detail.querySelector(".runs svg"));
    const opened = {{ text: detail.innerText, hash: location.hash, name: cell.dataset.name,
                      dots: detail.querySelectorAll(".runs .mark-symbol.role-mark path").length,
                      focus: detail.contains(document.activeElement) }};
    detail.close();
    await until(() => !detail.open && !location.hash.includes("number"));
    const closed = document.activeElement === cell;
    history.back();
    await until(() => detail.open);
    return {{ opened, closed }};
    """
    seen = drive(page, tmp_path, steps)
    opened = seen["opened"]
    assert opened["focus"] and f"number={opened['name']}" in opened["hash"] and seen["closed"]
    assert drive(page, tmp_path, "return detail.open;", anchor=f"#number={opened['name']}")
    # Five rounds of both sides.
    assert opened["dots"] == 2 * 5
    for text in (
        "time of not packed ÷ time of packed = 1.2",
        "cold log over http (ruby, f6, not packed, default settings): 5 rounds, 5 runs.",
        "make show CELL=log/http/ruby/f6/nopack/slow/cold STUDY=fsfs-san-2014",
        "make measure CELL=log/http/ruby/f6/pack/slow/cold",
        "ARGS='--forcerun results/cells/fsfs-san-2014/log/http/ruby/f6/nopack/slow/cold/round1.json ",
    ):
        assert text in opened["text"], text


@pytest.mark.slow
def test_keys_move_in_a_grid_and_open_a_number(page, tmp_path):
    steps = f"""
    const table = document.querySelector("#{PACKING} .measured table");
    const stop = table.querySelectorAll('[tabindex="0"]');
    const grid = grids.find((one) => one.table === table);
    stop[0].focus();
    press("ArrowDown");
    const below = document.activeElement === grid.rows[1].cells[0].cell;
    press("End");
    const end = document.activeElement === grid.rows[1].cells.at(-1).cell;
    press("Home"); press("Enter");
    return {{ stops: stop.length, role: table.getAttribute("role"), below, end, open: detail.open }};
    """
    expected = {"stops": 1, "role": "grid", "below": True, "end": True, "open": True}
    assert drive(page, tmp_path, steps) == expected


FILTER = """
const cells = all("#tables .measured td").filter(seen);
const sections = all("section.table").filter((section) => !section.hidden);
return { same: cells.filter((cell) => cell.classList.contains("same")).length, all: cells.length,
         single: sections.filter((section) => !section.dataset.compares).length,
         marks: all("i.deviation").filter(seen).length, caches: filter.elements.cache.length,
         selected: selected.textContent };
"""


@pytest.mark.slow
def test_filter_shows_differences_only_and_marks_on_request(page, tmp_path):
    plain = drive(page, tmp_path, FILTER)
    differs = drive(page, tmp_path, FILTER, anchor="#only=differs")
    assert (differs["same"], plain["marks"]) == (0, 0) and 0 < differs["all"] < plain["all"]
    # A table without comparisons has no differences, and neither have its published numbers.
    assert differs["single"] == 0 < plain["single"]
    assert plain["caches"] == 4  # three, and all
    assert re.fullmatch(r"\d+ of \d+ measured numbers are shown\.", differs["selected"])
    marked = drive(page, tmp_path, f"select({{marks: 'on'}}); {FILTER}")
    assert marked["all"] == plain["all"] and marked["marks"] > 0


@pytest.mark.slow
def test_copy_has_the_shown_numbers(page, tmp_path):
    steps = """
    const figure = all("#table-elapsed .measured").find(seen);
    figure.querySelector(".copy").click();
    await until(() => !note.hidden);
    return [root.dataset.copied, [...figure.querySelectorAll("td")].filter(seen)
      .filter((c) => hasNumber(c)).map((c) => c.firstChild.textContent)];
    """
    text, shown = drive(page, tmp_path, steps, anchor="#access=svn&format=f7")
    rows = [line.split(",") for line in text.splitlines()]
    assert rows[0][-3:] == ["shown", "published", "marks"]
    assert [row[-3] for row in rows[1:]] == shown
    assert {row[rows[0].index("access")] for row in rows[1:]} == {"svn"}


AXE = importlib.util.find_spec("axe_core_python")
DARK = "--blink-settings=preferredColorScheme=0"

# With all details open: axe reports folded text as text on text.
LOOK = """
document.querySelectorAll("details").forEach((details) => { details.open = true; });
OPEN
const found = await axe.run(document, { resultTypes: ["violations"], iframes: false });
return {
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  passed: found.passes.length,
  serious: found.violations.filter((rule) => ["serious", "critical"].includes(rule.impact))
    .map((rule) => [rule.id, rule.nodes.slice(0, 3).map((n) => n.html.slice(0, 300) + n.failureSummary)]),
};
"""
OPEN = 'document.querySelector("td.behind").click();'


def axe():
    assert AXE and AXE.origin
    script = Path(AXE.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    return re.sub(r"<(?=/script|!--)", r"\\x3c", script)


@pytest.mark.slow
@pytest.mark.skipif(AXE is None, reason="no axe here (envs/setup.sh --test)")
@pytest.mark.parametrize(("options", "dark"), [((), False), ((DARK,), True)])
@pytest.mark.parametrize("opened", ["", OPEN])
def test_page_in_axe_has_no_serious_violation(page, tmp_path, options, dark, opened):
    steps = LOOK.replace("OPEN", opened)
    found = drive(page, tmp_path, steps, libraries=axe(), options=options)
    assert found["passed"] > 10
    assert (found["dark"], found["serious"]) == (dark, [])


@pytest.mark.slow
def test_page_printed_has_3_to_60_sheets(page, tmp_path):
    pdf = tmp_path / "page.pdf"
    browse(page.as_uri(), tmp_path, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    assert 3 < len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes())) < 60
