// "What I have", notes, print, and the start.

const pickForm = document.getElementById("case");
const note = document.getElementById("note");
const labels = JSON.parse(document.getElementById("labels").textContent);

window.addEventListener("error", (event) => { document.documentElement.dataset.error = event.message; });
window.addEventListener("unhandledrejection", (event) => { document.documentElement.dataset.error = String(event.reason); });

function showNote(text) {
  note.hidden = !text;
  note.textContent = text;
}

document.addEventListener("click", ({ target }) => {
  const details = document.querySelector("#situations details");
  if (details && target.closest('a[href="#situations"]')) details.open = true;
});

// A tap on a phone shows the title that a mouse finds by pointing.
document.addEventListener("click", (event) => {
  const cell = event.target.closest("td[title]");
  if (cell?.classList.contains("behind")) select({ number: cell.dataset.name });
  else if (!event.target.closest(".copy")) showNote(cell ? cell.title : "");
});

// The label of a value: "not packed".
function labelOf(axis, value) {
  return labels[axis]?.[value] ?? value;
}

// Answers, comparisons and charts for the picks

// The picks of "What I have". The filter of the tables has other axes, which answers do not follow.
function picksOfForm() {
  return Object.fromEntries(Object.entries(picked()).filter(([axis]) => pickForm?.querySelector(`select[name="${CSS.escape(axis)}"]`)));
}

// Puts the parts of the answer for the picks in their places. The page has an answer for each combination of its grid.
function showAnswer(values) {
  const sorted = (keys) => JSON.stringify(Object.entries(keys).sort());
  const answers = [...document.querySelectorAll("template[data-picks]")];
  const answerFor = (picks) => answers
    .find((template) => sorted(Object.fromEntries(new URLSearchParams(template.dataset.picks))) === sorted(picks));
  const answer = answerFor(values);
  // A page without picks has no answers.
  document.getElementById("no-answer").hidden = Boolean(answer) || !answers.length;
  // Picks without an answer get that of no picks, which is over all cases.
  for (const part of (answer ?? answerFor({}))?.content.children ?? []) {
    const place = document.getElementById(part.dataset.place);
    place.replaceChildren(...part.cloneNode(true).childNodes);
    makeCommandsCopyable(place);
    const card = place.closest(".card");
    if (card) showCard(card, values, part.dataset.kind, part.dataset.value);
  }
}

// Opens the commands of the advised value, and hides those that a reader with these picks does not need.
function showCard(card, values, kind, value) {
  card.className = `card ${kind.replaceAll(" ", "-")}`;
  const axis = card.dataset.axis;
  // A reader who has the value has nothing to apply.
  for (const action of card.querySelectorAll(".do")) {
    action.hidden = Boolean(action.dataset.value) && action.dataset.value === values[axis];
    action.open = action.dataset.value === value;
  }
  const otherServer = { http: "svnserve", https: "svnserve", svn: "httpd", "svn+ssh": "httpd" }[values.access];
  for (const step of card.querySelectorAll("[data-server]")) step.hidden = step.dataset.server === otherServer;
}

function hasSide(row, value) {
  return !value || [row.dataset.baseline, row.dataset.candidate].includes(value);
}

// Shows the comparisons of each card, and the situations, that fit the picks.
function showRows(values) {
  for (const table of document.querySelectorAll("table.comparisons")) {
    const axis = table.dataset.compares;
    const others = Object.fromEntries(Object.entries(values).filter(([name]) => name !== axis));
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) row.hidden = !isPicked(keysOf(row), others) || !hasSide(row, values[axis]);
    const shown = rows.filter((row) => !row.hidden).length;
    // Without a fitting comparison, the chart would be empty.
    table.closest(".cases").hidden = shown === 0;
    table.closest("details").querySelector("summary").textContent = `${shown} of ${written(rows.length, "comparisons")}, as a table`;
  }
  const situations = [...document.querySelectorAll(".situations tbody tr")];
  for (const row of situations) row.hidden = !isPicked(keysOf(row), values);
  const fitting = situations.filter((row) => !row.hidden).length;
  if (situations.length) document.getElementById("situation-count").textContent = `${fitting} of ${written(situations.length, "situations")}`;
}

function applyCase() {
  const values = picksOfForm();
  for (const control of pickForm?.querySelectorAll("select") ?? []) control.value = values[control.name] ?? "";
  showAnswer(values);
  showRows(values);
  filterCharts(values);
}

// The estimate for the reader's number of revisions

function durationOf(seconds) {
  if (seconds < 1) return "less than 1 s";
  if (seconds < 90) return `${Number(seconds.toPrecision(2))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}

// A size in a binary unit with two digits.
function sizeOf(bytes) {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return written(Number((bytes / 1024 ** power).toPrecision(2)), ["bytes", "KiB", "MiB", "GiB", "TiB"][power]);
}

// The size of all files: ["f6 not packed 290 MiB", ...]. Only of the picked format, if its size is known.
function sizesAt(scale, bytes) {
  const format = picked().format;
  const formats = bytes[format] ? [format] : Object.keys(bytes);
  return formats.flatMap((name) => Object.entries(bytes[name]).sort().map(([packing, size]) =>
    `${labelOf("format", name)} ${labelOf("packing", packing)} ${sizeOf(size * scale)}`));
}

// `basis` is change_costs.LoadEstimate.
function estimateFor(count, basis) {
  const scale = count / basis.revisions;
  const part = (name, seconds, inMemory) => `${name} ${durationOf(seconds * scale)}${inMemory ? " in memory" : ""}`;
  const parts = [part("load", basis.seconds, basis.in_memory)];
  if (basis.pack_seconds) parts.push(part("pack", basis.pack_seconds, basis.pack_in_memory));
  const times = parts.join(", ") + (parts.some((text) => text.endsWith("memory")) ? "; a disk takes longer" : "");
  const sizes = sizesAt(scale, basis.bytes);
  const files = sizes.length ? ` Size of the files: ${sizes.join(", ")}. On disk, part-filled blocks add to it if not packed.` : "";
  return `Estimate for ${written(count, "revisions")}: ${times}.${files} Scaled from ${written(basis.revisions, "revisions")}; larger revisions need more.`;
}

function applyEstimate(given) {
  const input = document.getElementById("revisions");
  if (!input) return;
  const number = Math.round(Number(given.get("revisions")));
  const count = number > 0 && number < 1e9 ? number : 0;
  input.value = count || "";
  const line = input.closest("p");
  line.querySelector("output").textContent = count ? estimateFor(count, JSON.parse(line.dataset.estimate)) : "";
}

function makeCase() {
  document.getElementById("revisions")?.addEventListener("change", ({ target }) => select({ revisions: target.value }));
  if (!pickForm) return;
  pickForm.addEventListener("submit", (event) => event.preventDefault());
  pickForm.addEventListener("change", ({ target }) => select({ [target.name]: target.value }));
  pickForm.addEventListener("reset", (event) => {
    event.preventDefault();
    select(Object.fromEntries([...pickForm.elements].map(({ name }) => [name, ""])));
  });
  const presets = [...pickForm.elements].filter(({ dataset }) => dataset.preset);
  if (!state().given.size && presets.length) {
    const given = new URLSearchParams(presets.map(({ name, dataset }) => [name, dataset.preset]));
    history.replaceState(null, "", `#${[encodeURIComponent(state().anchor), given].filter(String).join("&")}`);
  }
}

// Paper cannot unfold. Published tables would fill most of it; only the advised commands stay.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open], .whole, .do)")];
  folded.forEach((details) => { details.open = true; });
});
window.addEventListener("afterprint", () => { folded.forEach((details) => { details.open = false; }); });

async function start() {
  for (const grid of grids) {
    makeReachable(grid);
    makeCopyable(grid);
  }
  makeCommandsCopyable(document);
  await readDetails();
  makeCase();
  makeFilter(labels);
  listeners.unshift(applyCase, applyEstimate, applyFilter);
  update();
  goToAnchor();
  document.documentElement.dataset.ready = "yes";
  await drawCharts();
}

start();
