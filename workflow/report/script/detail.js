// What stands behind a measured number, in a dialog with an address of its own.

const detail = document.getElementById("detail");
const packedDetails = document.getElementById("details");
const COMMANDS = [
  ["Shows what it does", (cell, known) => `make show CELL=${quoted(cell)} ${given(known)}`],
  ["Runs it once by hand", (cell, known) => `make measure CELL=${quoted(cell)} ${given(known)}`],
];

// What a run of this study is given.
function given({ own, study }) {
  return `${own && `REPO=${quoted(own)} `}STUDY=${quoted(study)}`;
}

// The rounds of a number's cells, and no others: Snakemake takes the files that are to be made again.
function anew(known, cells) {
  const files = cells.flatMap((cell) => {
    const rounds = new Set(runsOf(known, cell, "round").map(({ round }) => round));
    return [...rounds].map((round) => quoted(`results/cells/${known.study}/${cell}/round${round}.json`));
  });
  // make expands dollar signs in ARGS, and its own shell splits the words.
  return `make report ${given(known)} ARGS=${quoted(`--forcerun ${files.join(" ")}`.replaceAll("$", "$$$$"))}`;
}

// As a shell takes it.
function quoted(text) {
  return /^[\w@%+=:,.\/~-]+$/.test(text) && !text.startsWith("~") ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

async function unpacked() {
  if (!packedDetails) return null;
  const bytes = Uint8Array.from(atob(packedDetails.textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function made(tag, text = "", ...children) {
  const element = document.createElement(tag);
  element.textContent = text;
  element.append(...children);
  return element;
}

function listOf(sentences) {
  return made("ul", "", ...sentences.map((sentence) => made("li", sentence)));
}

function tableOf(headings, rows, caption) {
  const table = made("table", "", made("caption", caption));
  table.className = "plain";
  const head = made("tr", "", ...headings.map((text) => Object.assign(made("th", text), { scope: "col" })));
  table.append(made("thead", "", head), made("tbody", "", ...rows.map(([first, ...rest]) => {
    const name = Object.assign(made("th", first), { scope: "row" });
    return made("tr", "", name, ...rest.map((text) => Object.assign(made("td", text), { className: "number" })));
  })));
  const scroll = made("div", "", table);
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", caption);
  return scroll;
}

function runsOf(known, cell, metric) {
  const [start, count] = known.cells[cell].runs;
  return Array.from({ length: count }, (_, n) => ({
    round: known.runs.round[start + n],
    value: known.runs[metric][start + n],
    flags: known.runs.flags[start + n],
  }));
}

function said(value, unit) {
  return value === null || value === undefined ? "not known" : `${written(value)} ${unit}`.trim();
}

// Three digits that count, whole numbers in full, thousands apart.
function written(value) {
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
  return String(Number(value.toPrecision(3)));
}

// The sides of a number, the baseline first: a name that tells them apart, and the cell.
function sidesOf(number, table, keys) {
  const { cells } = number;
  const names = table.compares ? [table.baseline, keys.candidate] : [table.name];
  return cells.map((cell, n) => ({ cell, name: cells.length > 1 ? names[n] : names.at(-1) }));
}

function drawnRuns(known, sides, table) {
  const drawnSides = sides.map((side, n) => (
    { ...side, n, runs: runsOf(known, side.cell, table.metric).filter((run) => run.value !== null) }
  ));
  const parts = [made("h3", "Its runs")];
  if (!drawnSides.some((side) => side.runs.length)) return [...parts, made("p", "No run has this value.")];
  parts.push(pointsOf(drawnSides, table.title, table.unit));
  if (sides.length > 1) {
    const key = made("p", "", ...drawnSides.map((side) => {
      const sample = drawn("svg", { viewBox: "0 0 12 12", class: "runs key", "aria-hidden": "true" });
      sample.append(pointOf(side.n, 6, 6));
      return made("span", "", sample, `${side.name} `);
    }));
    parts.push(key);
  }
  const rows = drawnSides.flatMap((side) => side.runs.map((run) => (
    [side.name, run.round, said(run.value, table.unit), run.flags]
  )));
  const folded = made("details", "", made("summary", "The runs as a table"));
  folded.append(tableOf(["Side", "Round", table.title, "Flags"], rows, "Each run"));
  return [...parts, folded];
}

function spentAndCounted(known, sides) {
  const of = sides.map((side) => known.cells[side.cell]);
  const parts = ["Elapsed", "Client CPU", "Server CPU", "Waiting"];
  const spent = parts.map((part, n) => [part, ...of.map((cell) => said(cell.spent[n], "s"))]);
  const counted = known.counted
    .map(([title, unit], n) => [title, ...of.map((cell) => said(cell.counted[n], unit))])
    .filter(([, ...values]) => values.some((value) => value !== "not known"));
  const headings = ["", ...sides.map((side) => side.name)];
  const shown = [
    made("h3", "Where the time went"),
    tableOf(headings, spent, "Medians over the rounds. Waiting is what neither client nor server computed: "
            + "below 0 where both did at once."),
  ];
  if (counted.length) {
    shown.push(made("h3", "What was counted"), tableOf(headings, counted, "Medians over the runs"));
  }
  return shown;
}

function certificates(known, sides) {
  return sides.flatMap(({ name, cell }) => {
    const { says, rounds, runs } = known.cells[cell];
    const often = `${rounds} ${rounds === 1 ? "round" : "rounds"}, ${runs[1]} ${runs[1] === 1 ? "run" : "runs"}`;
    const commands = COMMANDS.map(([what, command]) => (
      made("li", `${what}: `, made("code", command(cell, known)))
    ));
    return [made("h3", `${sides.length > 1 ? `${name}: ` : ""}what certifies it`),
            made("p", "", made("code", cell), ` in ${often}.`), listOf(says), made("ul", "", ...commands)];
  });
}

function again(known, sides) {
  const cells = [...new Set(sides.map(({ cell }) => cell))];
  return [made("h3", "Measured anew"),
          made("p", `Measures the rounds of ${cells.length > 1 ? "these cells" : "this cell"} anew, where nothing `
               + "made them stale:"),
          made("p", "", made("code", anew(known, cells)))];
}

function fillDetail(known, name, keys) {
  const anchor = name.slice(0, name.indexOf("/"));
  const table = known.tables[anchor];
  const number = table?.numbers[name.slice(anchor.length + 1)];
  if (!number) return false;
  const sides = sidesOf(number, table, keys).filter(({ cell }) => known.cells[cell]);
  const title = made("h2", `${table.name}: ${Object.values(keys).filter(Boolean).join(" ")}`);
  title.id = "detail-title";
  const close = made("button", "Close");
  close.type = "button";
  close.addEventListener("click", () => detail.close());
  const beside = made("p", `Measured: ${number.text}${table.compares ? " %" : ` ${table.unit}`}. ${
    number.published ? `Published: ${number.published}${table.compares ? " %" : ` ${table.unit}`}, on another machine.`
                     : "Nothing was published beside it."}`);
  detail.replaceChildren(close, title, beside, listOf(number.says), ...drawnRuns(known, sides, table),
                         ...spentAndCounted(known, sides), ...certificates(known, sides), ...again(known, sides));
  return true;
}

let known = null;
listeners.push((said) => {
  const name = said.get("number");
  const grid = grids.find((one) => one.measured && one.rows.some((row) => row.cells.some((c) => c.name === name)));
  const keys = grid?.rows.flatMap((row) => row.cells).find((c) => c.name === name).keys;
  if (!known || !keys || !fillDetail(known, name, keys)) {
    if (detail.open) detail.close();
    return;
  }
  if (!detail.open) detail.showModal();
  detail.scrollTop = 0;
});

detail.addEventListener("close", () => {
  const name = selection().said.get("number");
  if (!name) return;
  select({ number: "" });
  const cell = document.querySelector(`figure.measured td[data-name="${CSS.escape(name)}"]`);
  if (cell) focusOn(grids.find((grid) => grid.table.contains(cell)), cell);
});
detail.addEventListener("click", (event) => { if (event.target === detail) detail.close(); });

// Which numbers have something behind them is known only now.
async function readDetails() {
  known = await unpacked();
  for (const { measured, rows, section } of grids) {
    for (const one of measured && known ? rows.flatMap((row) => row.cells) : []) {
      const numbers = known.tables[section.id]?.numbers ?? {};
      if (numbers[one.name.slice(section.id.length + 1)]) one.cell.classList.add("behind");
    }
  }
}
