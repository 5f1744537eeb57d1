// The details behind a measured number, in a dialog with its own address.

const detail = document.getElementById("detail");
const SVG = "http://www.w3.org/2000/svg";
let known = null;

// Quotes an argument for a shell.
function quoted(text) {
  return /^[\w@%+=:,.\/-][\w@%+=:,.\/~-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// The variables of make for this study. make expands dollar signs in ARGS, and its shell splits the words.
function withArgs(args) {
  const { own, tree, study } = known.of;
  const given = `${own && `REPO=${quoted(own)} `}${tree && `TREE=${quoted(tree)} `}STUDY=${quoted(study)}`;
  return `${given}${args && ` ARGS=${quoted(args.trim().replaceAll("$", "$$$$"))}`}`;
}

function commandsOf(cells) {
  const { study, args, files: configuration } = known.of;
  const files = cells.flatMap((cell) => [...new Set(runsOf(cell, "round").map(({ round }) => round))]
    .map((round) => `results/cells/${study}/${cell}/round${round}.json`));
  const targets = { show: "Show the recipe:", measure: "Run it once:" };
  const lines = cells.flatMap((cell) => Object.entries(targets)
    .map(([target, what]) => [what, `make ${target} CELL=${quoted(cell)} ${withArgs(configuration)}`]));
  return [...lines, ["Measure again:", `make report ${withArgs(`${args} --forcerun ${files.map(quoted).join(" ")}`)}`]];
}

function drawn(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

function tableOf(headings, rows, caption) {
  const heads = headings.map((text) => Object.assign(made("th", text), { scope: "col" }));
  const lines = rows.map(([first, ...rest]) => made("tr", "", Object.assign(made("th", first), { scope: "row" }),
    ...rest.map((text) => Object.assign(made("td", text), { className: "number" }))));
  const table = made("table", "", made("caption", caption), made("thead", "", made("tr", "", ...heads)), made("tbody", "", ...lines));
  table.className = "plain";
  return scrolling(table, caption);
}

function runsOf(cell, metric) {
  const [start, count] = known.cells[cell].runs;
  return Array.from({ length: count }, (_, n) => ({
    round: known.runs.round[start + n], value: known.runs[metric][start + n], flags: known.runs.flags[start + n],
  }));
}

// Three significant digits.
function written(value, unit) {
  if (value === null || value === undefined) return "unknown";
  const text = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en").replaceAll(",", "\u202f")
    : String(Number(value.toPrecision(3)));
  // 1 cell, 2 cells.
  return `${text} ${value === 1 ? unit.replace(/(?<=\w{3})s$/, "") : unit}`.trim();
}

function pointOf(side, x, y) {
  if (side) return drawn("path", { d: `M${x - 4} ${y + 4}h8l-4 -8z`, class: "side1" });
  return drawn("circle", { cx: x, cy: y, r: 4, class: "side0" });
}

// Each run as a point by its round; the axis starts at 0.
function plotOf(sides, title, unit) {
  const runs = sides.flatMap((side) => side.runs);
  const [width, height, left, bottom] = [420, 180, 74, 34];
  const most = Math.max(...runs.map((run) => run.value)) * 1.05 || 1;
  const rounds = [...new Set(runs.map((run) => run.round))].sort((a, b) => a - b);
  const x = (round) => left + (width - left - 12) * (rounds.indexOf(round) + 0.5) / rounds.length;
  const y = (value) => 10 + (height - bottom - 10) * (1 - value / most);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, class: "runs", role: "img",
                             "aria-label": `${title} of each run by round; the same as a table below` });
  for (const tick of [0, most / 2, most]) {
    svg.append(drawn("path", { d: `M${left} ${y(tick)}H${width - 12}`, class: "tick" }),
               drawn("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, written(tick, "")));
  }
  for (const round of rounds.filter((_, n) => n % Math.ceil(rounds.length / 12) === 0)) {
    svg.append(drawn("text", { x: x(round), y: height - bottom + 16, "text-anchor": "middle" }, round));
  }
  svg.append(drawn("text", { x: (left + width) / 2, y: height - 3, "text-anchor": "middle" }, "round"),
             drawn("text", { transform: `translate(12 ${(height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, unit));
  sides.forEach((side, n) => side.runs.forEach(({ round, value }) => {
    svg.append(pointOf(n, x(round) + (n - (sides.length - 1) / 2) * 10, y(value)));
  }));
  return svg;
}

function runsShown(sides, table) {
  const withRuns = sides.map((side) => ({ ...side, runs: runsOf(side.cell, table.metric).filter(({ value }) => value !== null) }));
  if (!withRuns.some(({ runs }) => runs.length)) return [made("p", "No run has this value.")];
  const key = made("p", "", ...withRuns.map(({ name }, n) => {
    const sample = drawn("svg", { viewBox: "0 0 12 12", class: "runs key", "aria-hidden": "true" });
    sample.append(pointOf(n, 6, 6));
    return made("span", "", sample, `${name} `);
  }));
  const rows = withRuns.flatMap(({ name, runs }) => runs.map((run) => [name, run.round, written(run.value, table.unit), run.flags]));
  return [plotOf(withRuns, table.title, table.unit), key,
          made("details", "", made("summary", "The runs as a table"), tableOf(["Side", "Round", table.title, "Flags"], rows, "Runs"))];
}

function timeAndCounts(sides) {
  const cells = sides.map(({ cell }) => known.cells[cell]);
  const rows = ["Elapsed", "Elapsed, geometric mean as in cards", "Client CPU", "Server CPU", "Waiting"]
    .map((part, n) => [part, ...cells.map((cell) => written(cell.spent[n], "s"))]);
  Object.entries(known.counted).forEach(([title, unit], n) => {
    if (cells.some((cell) => cell.counted[n] !== null)) rows.push([title, ...cells.map((cell) => written(cell.counted[n], unit))]);
  });
  return tableOf(["", ...sides.map(({ name }) => name)], rows,
                 "Medians, except for the geometric mean. Waiting: neither client nor server used a CPU; below 0 if both did at once.");
}

function evidenceOf({ name, cell }) {
  const { evidence, rounds, runs, words } = known.cells[cell];
  return [made("h3", `${name}: evidence`), made("p", `${words}: ${written(rounds, "rounds")}, ${written(runs[1], "runs")}. In commands: `, made("code", cell)),
          made("ul", "", ...evidence.map((sentence) => made("li", sentence)))];
}

function fillDetail({ cell: number, keys, name }) {
  const table = known.tables[name.slice(0, name.indexOf("/"))];
  const cells = number.dataset.cells?.split("|");
  if (!cells) return false;
  const names = cells.length > 1 ? [table.baseline, keys.candidate].map((value) => labelOf(table.compared, value)) : [table.name];
  const sides = cells.map((cell, n) => ({ cell, name: names[n] })).filter(({ cell }) => known.cells[cell]);
  const published = [...document.querySelectorAll(`td[data-name="${CSS.escape(name)}"]`)].find((one) => one !== number && hasNumber(one));
  const commands = commandsOf([...new Set(sides.map(({ cell }) => cell))]);
  const close = Object.assign(made("button", "Close"), { type: "button" });
  close.addEventListener("click", () => detail.close());
  detail.replaceChildren(
    close,
    Object.assign(made("h2", `${table.name}: ${Object.entries(keys).filter(([, value]) => value).map(([axis, value]) => labelOf(axis === "candidate" ? table.compared : axis, value)).join(", ")}`), { id: "detail-title" }),
    made("p", `Measured: ${number.title}`),
    ...published ? [made("p", `Published: ${published.firstChild.textContent} ${table.printed}, on another machine.`)] : [],
    ...runsShown(sides, table), timeAndCounts(sides), ...sides.flatMap(evidenceOf), made("h3", "Commands"),
    ...commands.map(([what, command]) => made("div", what, commandOf(command))));
  makeCommandsCopyable(detail);
  return true;
}

listeners.push((given) => {
  const name = given.get("number");
  const cells = grids.filter(({ measured }) => measured).flatMap(({ rows }) => rows).flatMap((row) => row.cells);
  const one = name && cells.find((cell) => cell.name === name);
  if (known && one && fillDetail(one)) {
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
  known = await unpacked("details");
  if (known) document.querySelectorAll("figure.measured td[data-cells]").forEach((cell) => { cell.classList.add("behind"); });
}
