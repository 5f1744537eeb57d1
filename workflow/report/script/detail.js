// The details behind a measured number, in a dialog with its own address.

const detail = document.getElementById("detail");
// What cell_details.collect_details returns, null until it is unpacked.
let pageData = null;

// Quotes an argument for a shell.
function quoted(text) {
  return /^[\w@%+=:,.\/-][\w@%+=:,.\/~-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// The variables of make for this study. make expands dollar signs in ARGS, and its shell splits the words.
function withArgs(args) {
  const { own, tree, log, study } = pageData.of;
  const given = Object.entries({ REPO: own, TREE: tree, LOG: log, STUDY: study })
    .filter(([, value]) => value).map(([name, value]) => `${name}=${quoted(value)}`).join(" ");
  return `${given}${args && ` ARGS=${quoted(args.trim().replaceAll("$", "$$$$"))}`}`;
}

// The commands that show, repeat and measure cells, each with its purpose.
function commandsOf(cells) {
  const { study, args } = pageData.of;
  const commands = [];
  const exports = [];
  for (const cell of cells) {
    const variables = `CELL=${quoted(cell)} ${withArgs(args)}`;
    commands.push(["Show the recipe:", `make show ${variables}`], ["Run it once:", `make measure ${variables}`]);
    const rounds = new Set(runsOf(cell, "round").map(({ round }) => round));
    for (const round of rounds) exports.push(quoted(`results/cells/${study}/${cell}/round${round}.json`));
  }
  commands.push(["Measure again:", `make report ${withArgs(`${args} --forcerun ${exports.join(" ")}`)}`]);
  return commands;
}

// A table: the first text of each row is its heading, the others are aligned as numbers.
function tableOf(headings, rows, caption) {
  const heads = headings.map((text) => Object.assign(made("th", text), { scope: "col" }));
  const lines = rows.map(([first, ...rest]) => made("tr", "", Object.assign(made("th", first), { scope: "row" }),
    ...rest.map((text) => Object.assign(made("td", text), { className: "number" }))));
  const table = made("table", "", made("caption", caption), made("thead", "", made("tr", "", ...heads)), made("tbody", "", ...lines));
  table.className = "plain";
  return table;
}

// The runs of a cell: [{ round: 1, value: 1.24, flags: "" }, ...]. They are next to each other in the columns of all runs.
function runsOf(cell, metric) {
  const [start, count] = pageData.cells[cell].runs;
  return Array.from({ length: count }, (_, n) => ({
    round: pageData.runs.round[start + n], value: pageData.runs[metric][start + n], flags: pageData.runs.flags[start + n],
  }));
}

// Three significant digits.
function written(value, unit) {
  if (value === null || value === undefined) return "unknown";
  const text = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en")
    : String(Number(value.toPrecision(3)));
  // 1 cell, 2 cells.
  return `${text} ${value === 1 ? unit.replace(/(?<=\w{3})s$/, "") : unit}`.trim();
}

// The runs of both sides as a chart and as a table. `sides` are [{ cell: "log/...", name: "f7" }, ...].
function runsShown(sides, table) {
  const withRuns = sides.map((side) => ({ ...side, runs: runsOf(side.cell, table.metric).filter(({ value }) => value !== null) }));
  if (!withRuns.some(({ runs }) => runs.length)) return [made("p", "No run has this value.")];
  const place = Object.assign(made("div"), { className: "chart runs" });
  if (window.vegaEmbed) drawChart(place, runsSpecification(withRuns, table.title, table.unit));
  const rows = withRuns.flatMap(({ name, runs }) => runs.map((run) => [name, run.round, written(run.value, table.unit), run.flags]));
  return [place,
          made("details", "", made("summary", "The runs as a table"), tableOf(["Side", "Round", table.title, "Flags"], rows, "Runs"))];
}

function timeAndCounts(sides) {
  const cells = sides.map(({ cell }) => pageData.cells[cell]);
  const rows = ["Elapsed", "Client CPU", "Server CPU", "Waiting"]
    .map((part, n) => [part, ...cells.map((cell) => written(cell.spent[n], "s"))]);
  Object.entries(pageData.counted).forEach(([title, unit], n) => {
    if (cells.some((cell) => cell.counted[n] !== null)) rows.push([title, ...cells.map((cell) => written(cell.counted[n], unit))]);
  });
  return tableOf(["", ...sides.map(({ name }) => name)], rows,
                 "Elapsed: geometric mean of the rounds; the others: medians. Waiting: neither client nor server used a CPU; below 0 if both did at once.");
}

function evidenceOf({ name, cell }) {
  const { evidence, rounds, runs, words } = pageData.cells[cell];
  return [made("h3", `${name}: evidence`), made("p", `${words}: ${written(rounds, "rounds")}, ${written(runs[1], "runs")}. In commands: `, made("code", cell)),
          made("ul", "", ...evidence.map((sentence) => made("li", sentence)))];
}

// "Packing: log, not packed, cold".
function titleOf(table, keys) {
  const labelled = [];
  for (const [axis, value] of Object.entries(keys)) {
    if (value) labelled.push(labelOf(axis === "candidate" ? table.compared : axis, value));
  }
  return `${table.name}: ${labelled.join(", ")}`;
}

// The published number in the same place of the table, as a paragraph. Without one, no paragraph.
function publishedShown(number, table) {
  const published = number.querySelector(".then");
  return published ? [made("p", `Published: ${published.textContent} ${table.printed}, on another machine.`)] : [];
}

// Fills the dialog with the runs, evidence and commands behind a number. Returns false for a number without cells.
function fillDetail({ cell: number, keys, name }) {
  const table = pageData.tables[name.slice(0, name.indexOf("/"))];
  const cells = number.dataset.cells?.split("|");
  if (!cells) return false;
  // A comparison has the cells of both sides, the baseline's first.
  const names = cells.length > 1
    ? [labelOf(table.compared, table.baseline), labelOf(table.compared, keys.candidate)]
    : [table.name];
  const sides = cells.map((cell, n) => ({ cell, name: names[n] })).filter(({ cell }) => pageData.cells[cell]);
  const commands = commandsOf([...new Set(sides.map(({ cell }) => cell))]);
  const close = Object.assign(made("button", "Close"), { type: "button" });
  close.addEventListener("click", () => detail.close());
  detail.replaceChildren(
    close,
    Object.assign(made("h2", titleOf(table, keys)), { id: "detail-title" }),
    made("p", `Measured: ${number.title}`),
    ...publishedShown(number, table),
    ...runsShown(sides, table),
    timeAndCounts(sides),
    ...sides.flatMap(evidenceOf),
    made("h3", "Commands"),
    ...commands.map(([purpose, command]) => made("div", purpose, commandOf(command))),
  );
  makeCommandsCopyable(detail);
  return true;
}

listeners.push((given) => {
  const name = given.get("number");
  const cells = grids.filter(({ measured }) => measured).flatMap(({ rows }) => rows).flatMap((row) => row.cells);
  const place = name && cells.find((cell) => cell.name === name);
  if (pageData && place && fillDetail(place)) {
    if (!detail.open) detail.showModal();
    detail.scrollTop = 0;
  } else if (detail.open) {
    detail.close();
  }
});

detail.addEventListener("close", () => {
  const name = state().given.get("number");
  if (!name) return;
  select({ number: "" });
  const cell = document.querySelector(`figure.measured td[data-name="${CSS.escape(name)}"]`);
  if (cell) focusOn(grids.find((grid) => grid.table.contains(cell)), cell);
});
detail.addEventListener("click", (event) => { if (event.target === detail) detail.close(); });

async function readDetails() {
  pageData = await unpacked("details");
  if (pageData) document.querySelectorAll("figure.measured td[data-cells]").forEach((cell) => { cell.classList.add("behind"); });
}
