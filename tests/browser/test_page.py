"""The page in a real browser: picks, details, filters, keyboard, small windows, accessibility, print."""

import importlib.util
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from browser.driver import browse, drive, needs_chromium
from unit.report_files import CONFIG, write_page
from unit.study_grid import study_grid
from vcsbench.config.validation import read_yaml

pytestmark = needs_chromium

PACKING = "table-nopack-vs-pack"


@pytest.fixture(scope="module")
def page(whole_study, tmp_path_factory):
    """The report of a completely measured study with duplicates."""
    load = {"seconds": 22.0, "pack_seconds": 0.4, "revisions": 5500, "path": "/dev/shm/x"}
    return write_page(whole_study, tmp_path_factory.mktemp("page"), loads={"ruby": load})


def test_page_fits_a_desktop_and_findings_lead_to_their_rows(page, tmp_path):
    steps = """
    all("details").forEach((details) => { details.open = true; });
    root.classList.add("marks");
    all(".values td i:not(.deviation)").forEach((mark) => { mark.textContent = "≈="; });
    const more = all(".scroll").map((box) => box.scrollWidth - box.clientWidth);
    document.querySelector("#finding-cold-packed-f7-log a").click();
    await until(() => document.querySelector(":target"));
    return { error: root.dataset.error, wide: root.scrollWidth > innerWidth,
             scrolls: more.filter((width) => width > 0 && width < 20),
             target: document.querySelector(":target").tagName };
    """
    # No table scrolls by the width of a mark.
    assert drive(page, tmp_path, steps) == {"wide": False, "scrolls": [], "target": "TR"}


@pytest.mark.parametrize("width", [400, 800])
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
    assert drive(page, tmp_path, steps, "", "", window) == [width, 0, True]


@pytest.mark.parametrize(
    "anchor", ["#%", "#%&ra=svn", "#%E0%A4%A&ra=svn", "#ra=%", "#&&=&number=%", "#revisions=1e999"]
)
def test_page_with_a_damaged_address_works(page, tmp_path, anchor):
    steps = """
    const link = document.querySelector('nav a[href="#tables"]');
    link.click();
    return { error: root.dataset.error, cards: all("#cards .card").filter(seen).length > 0 };
    """
    assert drive(page, tmp_path, steps, anchor=anchor) == {"cards": True}


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
    ended, colour, is_same_base = drive(made, tmp_path, steps, is_quiet=False)
    assert ended == ""
    assert colour != "rgb(255, 0, 0)"
    assert is_same_base


CARD = """
const card = document.getElementById("card-packing");
return {
  short: card.querySelector(".answer").textContent, sentence: card.querySelector(".sentence").textContent,
  rows: [...card.querySelectorAll(".forest tbody tr")].filter(seen).map((row) => keysOf(row).ra),
  cells: grids.filter((g) => g.measured && g.section.id === "table-elapsed")
    .flatMap((g) => g.rows.flatMap((r) => r.cells)).filter((c) => seen(c.cell)).map((c) => c.keys.ra),
  candidates: grids.filter((g) => g.measured && g.section.id === "table-http-vs-ra")
    .flatMap((g) => g.rows.flatMap((r) => r.cells)).filter((c) => seen(c.cell)).map((c) => c.keys.candidate),
  summary: card.querySelector(".cases > summary").textContent,
  situations: document.getElementById("situation-count").textContent, hash: location.hash,
};
"""


def pick(axis, value):
    return f"""
    mine.elements["{axis}"].value = "{value}";
    mine.elements["{axis}"].dispatchEvent(new Event("change", {{ bubbles: true }}));
    """


def test_picks_change_cards_cases_tables_and_address(page, tmp_path):
    before = drive(page, tmp_path, CARD)
    seen = drive(page, tmp_path, pick("ra", "svn") + CARD)
    assert {*before["rows"]} == {*before["cells"]} == {"http", "svn", "file"}
    assert {*seen["rows"]} == {*seen["cells"]} == {*seen["candidates"]} == {"svn"}
    assert seen["hash"] == "#ra=svn"
    assert re.findall(r"\d+", before["summary"] + seen["summary"]) == ["36", "36", "12", "36"]
    counts = [of["situations"] for of in (before, seen)]
    assert counts == ["18 of 18 situations", "6 of 18 situations"]
    assert drive(page, tmp_path, CARD, anchor="#ra=svn") == seen
    assert drive(page, tmp_path, CARD, anchor="#ra=svn") == {**seen, "hash": "#ra=svn"}
    assert drive(page, tmp_path, f"mine.reset(); {CARD}", anchor="#ra=svn") == before
    # Answers do not follow the filter of the tables, so their cases do not, either.
    filtered = drive(page, tmp_path, CARD, anchor="#command=log")
    assert filtered["summary"] == before["summary"]
    assert 0 < len(filtered["cells"]) < len(before["cells"])
    back = f"{pick('ra', 'svn')} history.back(); await until(() => !location.hash.includes('svn'));"
    assert drive(page, tmp_path, back + CARD) == {**before, "hash": ""}


def test_revisions_of_a_reader_give_the_time_of_a_load_and_the_disk_space(page, tmp_path):
    # 5,500 revisions were loaded in 22 s and packed in 0.4 s.
    steps = """
    answers.estimate.bytes = { f6: { nopack: 80 * 2 ** 20, pack: 30 * 2 ** 20 }, f7: { nopack: 2 ** 25 } };
    update();
    const { form, placeholder } = document.getElementById("revisions");
    return { line: document.querySelector("#size output").textContent, hash: location.hash,
             input: [form === mine, placeholder] };
    """
    before = drive(page, tmp_path, steps)
    assert before["input"] == [True, "e.g. 20000"] and not re.search(r"\d", before["line"])
    type_in = """
    const input = document.getElementById("revisions");
    input.value = "20000";
    input.dispatchEvent(new Event("change", { bubbles: true }));
    """
    seen = drive(page, tmp_path, type_in + steps)
    line = seen["line"].replace("\u202f", " ")
    assert "for 20 000 revisions" in line and "from the 5 500 revisions" in line
    assert re.findall(r"[\d.]+ (?:s|min)\b", line) == ["80 s", "11 min", "1.5 s"]
    sizes = ["f6 290 MiB loaded", "110 MiB packed", "f7 120 MiB loaded"]
    assert re.findall(r"(?:f\d )?\d+ MiB \w+", line) == sizes
    assert drive(page, tmp_path, steps, anchor="#revisions=20000") == seen


# The actions at the head: "Do first: packed. as you are: cold log 1.3x faster 1 s → 0.8 s; ...".
ACTIONS = """
const actionsSeen = () => all("#first .steps tbody").map((part) => {
  const names = [...part.closest("table").tHead.rows[0].cells].map((cell) => cell.textContent);
  const [head, ...rows] = [...part.rows];
  const lead = head.querySelector("b").textContent.replace(/^\\d+\\. /, "");
  const lines = rows.map(({ cells: [state, ...results] }) => {
    const textOf = (cell, n) => cell.querySelector(".chip") && `${names[n + 1]} ${cell.textContent}`;
    const texts = results.map(textOf);
    return `${state.textContent}: ${texts.filter(Boolean).join(", ")}`;
  });
  return [lead, ...lines].join(" ");
});
"""
OVERVIEW = (
    ACTIONS
    + """
const rowOf = (label) => [...document.querySelectorAll(".overview tbody tr")]
  .find((row) => row.cells[0].textContent.includes(label));
const row = rowOf("cold log");
return {
  first: [...document.querySelectorAll("#first > p:not(.key)")].map((line) => line.textContent),
  steps: actionsSeen(),
  now: row.querySelector(".now").hidden ? "" : row.querySelector(".now").textContent,
  chips: Object.fromEntries([...row.querySelectorAll(".square")].map((square) =>
    [square.dataset.card, [...square.querySelectorAll(".chip")].map((chip) => chip.firstChild.textContent)])),
  scope: document.querySelector("#card-packing .scope").textContent,
  cards: [...document.querySelectorAll("#cards .card")].map((card) => card.id),
  servers: [...document.querySelectorAll("[data-server]")].filter((step) => !step.hidden).length,
};
"""
)
MINE = "#ra=http&format=f6&packing=nopack&config=slow"


def test_overview_counts_the_results_of_all_cases(page, tmp_path):
    seen = drive(page, tmp_path, OVERVIEW)
    (head,) = seen["first"]
    assert head.startswith("Answers over all cases measured")
    # A step without a condition comes first, then the larger gain.
    packed, f7, svn = seen["steps"]
    assert packed.startswith("Do first: packed, after step 2 if you take that. alone: ")
    assert packed.count("1.2x to 1.3x faster") == 6
    assert re.search(
        r"f7, before step 1 .* alone: .*2\.0x faster.* after: packed: .*2\.0x faster", f7
    )
    assert ": svn. alone: " in svn and " after: packed: " in svn
    assert seen["chips"]["card-format"] == ["f7 2.0x faster in 6"]
    assert seen["now"] == ""
    assert seen["scope"].startswith("Over all cases")


def test_overview_of_a_case_has_one_number_for_each_change(page, tmp_path):
    seen = drive(page, tmp_path, OVERVIEW, anchor=MINE)
    first, places = seen["first"]
    assert re.split(": |, ", first)[1:] == ["http", "f6", "not packed", "default settings."]
    packed, f7, svn = seen["steps"]
    assert re.match(
        r"Do first: packed, after step 2 if you take that\. as you are: .*cold log 1\.3x faster",
        packed,
    )
    assert f7.startswith("Only if you can stop commits for a load: f7, before step 1 ")
    assert re.search(r"after: packed: .*cold export 2\.0x faster", f7)
    together = re.search(r"steps 1 and 2 together: cold log 2\.5x faster (.*?) →", f7)
    assert svn.startswith("Only if you can move all users to another URL: svn.")
    assert re.findall(r"\d+|all answered", places) == ["12", "18", "all answered", "6"]
    assert seen["chips"]["card-format"] == ["f7 2.0x faster"]
    assert seen["now"] == together[1]
    assert seen["scope"].startswith("With what you")
    # A value to keep if nothing else changes, and another one after other steps.
    keep = """
    answers.cards["card-format"].answers.push(["value", "f6", "You have f6: keep it.", "f6"]);
    answers.cards["card-format"].by["http|f6|nopack|slow"] = answers.cards["card-format"].answers.length - 1;
    update();
    return document.querySelector("#card-format .sentence").textContent;
    """
    sentence = drive(page, tmp_path, keep, anchor=MINE)
    assert sentence.startswith(
        "You have f6: keep it. In the steps above, only if you can stop commits for a load: f7."
    )
    kept = drive(page, tmp_path, OVERVIEW, anchor=MINE.replace("=f6", "=f7"))
    assert kept["chips"]["card-format"] == ["keep f7 2.0x faster"]
    assert [re.split(r": |\.", step)[1] for step in kept["steps"]] == ["packed", "svn"]
    assert any(line.startswith("No reason to change: f7 (f6: ") for line in kept["first"])
    # The question compares http with svn.
    assert drive(page, tmp_path, OVERVIEW, anchor="#ra=file")["chips"]["card-ra"] == []


def test_question_that_does_not_arise_for_the_picks_has_no_place(page, tmp_path):
    steps = """
    const rows = all(".overview tbody tr").filter(seen);
    return { places: document.querySelector("#first > p:last-of-type").textContent,
             squares: rows.flatMap((row) => [...row.querySelectorAll(".square")]).length, rows: rows.length,
             access: all("[data-card=card-ra]").filter(seen).map((square) => square.textContent).join("") };
    """
    seen = drive(page, tmp_path, steps, anchor=MINE.replace("http", "file"))
    numbers = [int(number) for number in re.findall(r"\d+", seen["places"])]
    assert numbers[1] == seen["squares"] - seen["rows"] and seen["access"] == ""
    other = drive(page, tmp_path, steps, anchor=MINE)
    assert int(re.findall(r"\d+", other["places"])[1]) == other["squares"] and other["access"]


# Sets the result of the comparisons of a card that fit some values, and the gain.
SET = (
    ACTIONS
    + """
const set = (card, values, kind, gain = 1) => {
  for (const row of all(`#card-${card} .forest tbody tr`)) {
    if (!isPicked(keysOf(row), values)) continue;
    const side = { candidate: 1, reference: 0 }[kind];
    row.className = kind;
    row.dataset.gain = gain;
    row.dataset.winner = side === undefined ? "" : labelOf(card, row.dataset.sides.split("|")[side]);
  }
};
const seenSteps = () => {
  update();
  return [...actionsSeen(), ...all("#first > p:not(.key)").map((one) => one.textContent)];
};
const cold = { command: "log", cache: "cold", packing: "nopack" };
"""
)


@pytest.mark.parametrize(
    ("kind", "order"), [("candidate", ["f7", "packed"]), ("reference", ["packed", "f7"])]
)
def test_first_step_loses_nowhere_also_after_another_one(page, tmp_path, kind, order):
    steps = f"""
    delete answers.actions.format.f7.condition;
    set("format", {{ ...cold, packing: "pack" }}, "{kind}", 1.05);
    return seenSteps();
    """
    seen = drive(page, tmp_path, SET + steps, anchor=MINE)
    assert [re.split(r": |\.|,", step)[1] for step in seen[:2]] == order
    assert [step.split(":")[0] for step in seen[:2]] == ["Do first", "Then"]
    # A step before another one that undoes it is named.
    assert ("f7, before step 1 " in seen[1]) == (order[0] == "packed")
    loss = re.search(r"cold log 5\.0 % slower, sure but small [\d.]+ s → [\d.]+ s", seen[1])
    assert bool(loss) == (kind == "reference")


@pytest.mark.parametrize(
    ("gain", "loss", "group"),
    [
        # A loss below the smallest effect worth noting is no reason against a change.
        (1.5, 1.09, "Do first"),
        (1.5, 1.3, "Only if cold export matters more to you than cold log"),
        (1.08, 1.03, "No reason to change"),
        (1.05, 1.2, "No reason to change"),
    ],
)
def test_group_of_a_change_follows_from_its_regret(page, tmp_path, gain, loss, group):
    steps = f"""
    set("packing", {{}}, "equal");
    set("packing", {{ cache: "cold" }}, "candidate", {gain});
    set("packing", cold, "reference", {loss});
    delete answers.actions.format.f7.condition;
    set("format", {{}}, "undecided");
    return seenSteps();
    """
    seen = drive(page, tmp_path, SET + steps, anchor=MINE)
    (line,) = (
        line for line in seen if "packed" in line.partition(".")[0] and "You have" not in line
    )
    assert line.startswith(f"{group}: ")
    assert line.count("sure but small") == (gain < 1.1) + (loss < 1.1)
    assert any(text.startswith("Undecided, too noisy or too few rounds: f7") for text in seen)


def test_open_question_is_named_by_its_axis_without_picks(page, tmp_path):
    steps = """
    set("format", {}, "undecided");
    answers.cards["card-format"].answers.forEach((answer) => { answer[0] = "undecided"; });
    return seenSteps().find((line) => line.startsWith("Undecided"));
    """
    for anchor, name in (("", "format"), (MINE, "f7")):
        assert drive(page, tmp_path, SET + steps, anchor=anchor).startswith(
            f"Undecided, too noisy or too few rounds: {name}."
        )


def test_workload_decides_by_the_weighted_mean(page, tmp_path):
    steps = """
    set("packing", {}, "equal");
    set("packing", { command: "export" }, "candidate", 1.5);
    set("packing", { command: "log" }, "reference", 1.3);
    answers.workload = ["log", "export"].map((command, n) => ({ weight: weights[n], where: { command } }));
    return seenSteps().map((line) => line.split(":")[0] + line.includes("export"));
    """
    for weights, group in (([10, 90], "Do first"), ([90, 10], "Depends on what you run")):
        seen = drive(page, tmp_path, f"const weights = {weights};{SET}{steps}", anchor=MINE)
        assert f"{group}true" in seen


def test_command_for_cells_that_lack_adds_them_to_the_grid(page, tmp_path):
    (study,), config = (page.stem,), read_yaml(CONFIG / "config.yaml")
    include = config["grid"][study]["include"]
    steps = f"""
    answers.include = {json.dumps(include)};
    known.of.args = "--configfile 'a b.yaml'";
    update();
    return document.querySelector("#first pre").textContent;
    """
    command = drive(page, tmp_path, steps, anchor=MINE)
    made, _, run = command.partition(" && ")
    subprocess.run(["sh", "-c", made], cwd=tmp_path, check=True)
    arguments = "ARGS=--configfile 'a b.yaml' --configfile more.yaml"
    assert shlex.split(run) == ["make", "report", f"STUDY={study}", arguments]
    more = read_yaml(tmp_path / "more.yaml")["grid"][study]["include"]
    before, after = ({c.path for c in study_grid(study, *of)[1]} for of in (include, more))
    lacking = {path for path in after - before if path.endswith("/hot-svn")}
    assert before < after and lacking == after - before
    mine = {f"{c}/http/ruby/f6/nopack/slow/hot-svn" for c in ("log", "export")}
    assert mine - before <= lacking and len(lacking) == 7, sorted(lacking)
    command = "return document.querySelector('#first pre');"
    assert drive(page, tmp_path, command, anchor="#ra=http") is None


def test_details_of_a_number_have_its_runs_and_commands(page, tmp_path):
    steps = f"""
    const cell = document.querySelector("#{PACKING} .measured td.behind");
    cell.click();
    const opened = {{ text: detail.innerText, hash: location.hash, name: cell.dataset.name,
                      dots: detail.querySelectorAll("svg.runs circle.side0").length,
                      triangles: detail.querySelectorAll("svg.runs path.side1").length,
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
    # Five rounds, and one in the key.
    assert opened["dots"] == opened["triangles"] == 5 + 1
    for text in (
        "time of not packed ÷ time of packed = 1.2",
        "cold log over http (ruby, f6, not packed, default settings): 5 rounds, 5 runs.",
        "make show CELL=log/http/ruby/f6/nopack/slow/cold STUDY=fsfs-san-2014",
        "make measure CELL=log/http/ruby/f6/pack/slow/cold",
        "ARGS='--forcerun results/cells/fsfs-san-2014/log/http/ruby/f6/nopack/slow/cold/round1.json ",
    ):
        assert text in opened["text"], text


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
return { same: cells.filter((cell) => cell.classList.contains("same")).length, all: cells.length,
         marks: all("i.deviation").filter(seen).length, caches: filter.elements.cache.length,
         selected: selected.textContent };
"""


def test_filter_shows_differences_only_and_marks_on_request(page, tmp_path):
    plain = drive(page, tmp_path, FILTER)
    differs = drive(page, tmp_path, FILTER, anchor="#only=differs")
    assert (differs["same"], plain["marks"]) == (0, 0) and 0 < differs["all"] < plain["all"]
    assert plain["caches"] == 4  # three, and all
    assert re.fullmatch(r"\d+ of \d+ measured numbers are shown\.", differs["selected"])
    marked = drive(page, tmp_path, f"select({{marks: 'on'}}); {FILTER}")
    assert marked["all"] == plain["all"]


def test_copy_has_the_shown_numbers(page, tmp_path):
    steps = """
    const figure = all("#table-elapsed .measured").find(seen);
    figure.querySelector(".copy").click();
    await until(() => !note.hidden);
    return [root.dataset.copied, [...figure.querySelectorAll("td")].filter(seen)
      .filter((c) => hasNumber(c)).map((c) => c.firstChild.textContent)];
    """
    text, shown = drive(page, tmp_path, steps, anchor="#ra=svn&format=f7")
    rows = [line.split(",") for line in text.splitlines()]
    assert rows[0][-2:] == ["shown", "marks"] and [row[-2] for row in rows[1:]] == shown
    assert {row[rows[0].index("ra")] for row in rows[1:]} == {"svn"}


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
    assert AXE
    assert AXE.origin
    script = Path(AXE.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    return re.sub(r"<(?=/script|!--)", r"\\x3c", script)


@pytest.mark.slow
@pytest.mark.skipif(AXE is None, reason="no axe here (envs/setup.sh --test)")
@pytest.mark.parametrize(("options", "dark"), [((), False), ((DARK,), True)])
@pytest.mark.parametrize("opened", ["", OPEN])
def test_page_in_axe_has_no_serious_violation(page, tmp_path, options, dark, opened):
    found = drive(page, tmp_path, LOOK.replace("OPEN", opened), "", axe(), *options)
    assert found["passed"] > 10
    assert found["dark"] is dark
    assert found["serious"] == []


@pytest.mark.slow
def test_page_printed_has_3_to_60_sheets(page, tmp_path):
    pdf = tmp_path / "page.pdf"
    browse(page.as_uri(), tmp_path, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))
    assert 3 < pages < 60


def test_disturbed_comparisons_are_marked_and_named_for_the_picks(page, tmp_path):
    steps = """
    const rows = all("#card-format .forest tbody tr").filter((row) => keysOf(row).packing === "nopack");
    rows.filter((row) => DISTURBED).forEach((row) => { row.dataset.disturbed = "yes"; });
    update();
    const marks = () => all("#first .steps i").length;
    const seen = { line: document.getElementById("disturbed")?.textContent, listed: [marks()],
                   marks: all(".overview [data-card=card-format] .chip i").map((mark) => mark.textContent) };
    all(".forest tbody tr").forEach((row) => { row.dataset.disturbed = "yes"; });
    update();
    return { ...seen, listed: [...seen.listed, marks()] };
    """
    # The page has the paragraph only if a run was disturbed.
    made, place = tmp_path / "disturbed.html", '<div id="cards">'
    made.write_text(page.read_text().replace(place, f'<p id="disturbed" hidden></p>{place}'))
    of = ('keysOf(row).command === "log" && keysOf(row).cache === "cold"', "true")
    some, every = (drive(made, tmp_path, steps.replace("DISTURBED", s), anchor=MINE) for s in of)
    assert some["marks"] == ["!"] and len(every["marks"]) == 4
    assert 0 < some["listed"][0] < every["listed"][0] < every["listed"][1]
    assert re.findall(r"(\d+) of (\d+)", some["line"]) == [("1", "12")]
    assert some["line"].count(" over http") == 1 and "cold log over http" in some["line"]
    assert re.findall(r"(\d+) of (\d+)", every["line"]) == [("4", "12")]
    everywhere = drive(made, tmp_path, steps.replace("DISTURBED", of[0]))
    assert everywhere["marks"] == ["! 3"]


def test_value_that_wins_only_after_another_step_is_after_it_with_its_loss_alone(page, tmp_path):
    steps = """
    set("format", { packing: "nopack" }, "equal");
    set("format", cold, "reference", 1.3);
    return seenSteps();
    """
    packed, f7, *_ = drive(page, tmp_path, SET + steps, anchor=MINE)
    assert packed.startswith("Do first: packed, after step 2 ") and "; before step 1" not in packed
    assert re.search(
        r"f7, before step 1 .* as you are: cold log 1\.3x slower.* after: packed: .*2\.0x faster",
        f7,
    )


def test_step_names_what_was_measured_only_after_another_one_and_what_was_not(page, tmp_path):
    steps = """
    delete answers.actions.format.f7.condition;
    for (const row of all("#card-format .forest tbody tr")) {
      const { command, cache, packing } = keysOf(row);
      if (command === "export" && (packing === "nopack" || cache !== "cold")) row.remove();
    }
    return seenSteps()[0];
    """
    f7 = drive(page, tmp_path, SET + steps, anchor=MINE)
    assert re.match(r"Do first: f7. as you are: cold log 2\.0x faster [^,]*,", f7)
    now, packed = f7.split(" after: packed: ")
    assert "export" not in now and "cold export 2.0x faster" in packed
    assert "export (OS" not in packed


@pytest.mark.parametrize(("call", "ratio", "note"), [("undecided", 1.2, True), ("equal", 1, False)])
def test_steps_together_have_the_call_of_each_command(page, tmp_path, call, ratio, note):
    steps = f"""
    const of = answers.situations.find(({{ name, where }}) => name === "cold log" && where.ra === "http");
    const target = {{ format: "f7", packing: "pack", config: "slow" }};
    const choice = of.choices.find(([axes]) => isPicked(axes, target));
    [choice[2], choice[3]] = ["{call}", {ratio}];
    return seenSteps()[1];
    """
    text = drive(page, tmp_path, SET + steps, anchor=MINE)
    together = re.search(r" together: .*cold log [\d.]+x faster( but undecided)?", text)
    assert bool(together[1]) == note


@pytest.mark.parametrize(
    ("withheld", "group", "numbers"),
    [
        ("[one]", "Measured, but not compared", ["9 were not measured", "1 cannot be compared"]),
        ("[]", "Not measured for what you have", ["10 were not measured"]),
    ],
)
def test_comparison_without_a_result_is_not_compared_if_measured(
    page, tmp_path, withheld, group, numbers
):
    steps = f"""
    const rows = all("#card-packing .forest tbody tr");
    const mine = {{ ra: "http", format: "f6" }};
    rows.filter((row) => isPicked(keysOf(row), mine)).forEach((row) => row.remove());
    const keys = {{ command: "log", ra: "http", repo: "ruby", format: "f6", config: "slow" }};
    const one = {{ keys: {{ ...keys, cache: "cold", candidate: "pack" }}, compares: "packing" }};
    answers.cards["card-packing"].withheld = {withheld};
    update();
    const lines = all("#first > p:not(.key)").map((line) => line.textContent);
    const key = all("#overview-key b").filter(seen).map((mark) => mark.textContent);
    const squares = all(".overview [data-card=card-packing]").filter(seen);
    return {{ lines, key, squares: squares.map((square) => square.textContent) }};
    """
    answer = drive(page, tmp_path, steps, anchor=MINE)
    is_withheld, lines = withheld == "[one]", answer["lines"]
    (of,) = (line for line in lines if "Pack the repository" in line)
    (places,) = (line for line in lines if "have a result" in line)
    assert of.startswith(group)
    assert places.rstrip(".").split("; ")[1:] == numbers
    # Only the comparison of cold logs is withheld.
    assert answer["squares"].count("not compared") == is_withheld
    assert answer["squares"].count("\N{EN DASH}") == 6 - is_withheld
    assert ("not compared" in answer["key"]) == is_withheld and "\N{EN DASH}" in answer["key"]


def test_actions_have_the_time_and_disk_of_the_readers_revisions(page, tmp_path):
    steps = """
    answers.estimate.bytes = { f6: { nopack: 55e6 }, f7: { nopack: 22e6 } };
    update();
    return all("#first .steps small:not(.chip small)").map((one) => one.textContent);
    """
    packed, f7, _ = drive(page, tmp_path, steps, anchor=f"{MINE}&revisions=55000")
    assert " 4 s in memory" in packed and " 9.5 MiB of free disk" in packed
    assert " in memory, up to 29 min on a disk, at least 210 MiB of free disk" in f7


def test_actions_name_no_command_that_only_benchmarks_run(page, tmp_path):
    steps = """
    for (const row of document.querySelectorAll("[data-of*='command=log']")) {
      row.dataset.of = row.dataset.of.replace("command=log", "command=null-log");
    }
    for (const { where } of answers.situations) where.command = where.command.replace("log", "null-log");
    update();
    return actionsSeen();
    """
    packed, f7, svn = drive(page, tmp_path, ACTIONS + steps, anchor=MINE)
    assert packed.startswith(
        "Do first: packed, after step 2 if you take that. as you are: cold export 1.2x faster "
    )
    assert "log" not in packed + f7 + svn


def test_better_value_with_a_condition_is_named_instead_of_the_step(page, tmp_path):
    steps = """
    delete answers.actions.format.f7.condition;
    for (const row of all("#card-format .forest tbody tr")) {
      const other = row.cloneNode(true);
      Object.assign(other.dataset, { sides: "f6|f8", winner: "f8", gain: 3 });
      row.after(other);
    }
    return seenSteps();
    """
    f7, packed, f8, svn, *_ = drive(page, tmp_path, SET + steps, anchor=MINE)
    assert f7.startswith("Do first: f7. ") and packed.startswith("Then: packed, after step 3 ")
    assert f8.startswith(
        "Only if you can stop commits for a load, instead of step 1: f8, before step 2 "
    )
    assert ": svn." in svn
