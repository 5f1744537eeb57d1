// "What I have", notes, print, and the start.

const mine = document.getElementById("case");
const note = document.getElementById("note");
const labels = JSON.parse(document.getElementById("labels").textContent);
// Each commit of a load waits for the disk. Measured once: 143 s on ext4, 17 s in memory.
const LONGER_ON_DISK = 8;

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
function picksOf() {
  return Object.fromEntries(Object.entries(picked()).filter(([axis]) => mine?.querySelector(`select[name="${CSS.escape(axis)}"]`)));
}

// Puts the parts of the answer for the picks in their places. The page has an answer for each combination of its grid.
function showAnswer(values) {
  const sorted = (keys) => JSON.stringify(Object.entries(keys).sort());
  const answer = [...document.querySelectorAll("template[data-picks]")]
    .find((template) => sorted(Object.fromEntries(new URLSearchParams(template.dataset.picks))) === sorted(values));
  document.getElementById("no-answer").hidden = Boolean(answer);
  for (const part of answer?.content.children ?? []) {
    const place = document.getElementById(part.dataset.place);
    place.replaceChildren(...part.cloneNode(true).childNodes);
    makeCommandsCopyable(place);
    const card = place.closest(".card");
    if (card) showCard(card, values, part.dataset.kind, part.dataset.value);
  }
}

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
    table.closest("details").querySelector("summary").textContent = `${shown} of ${written(rows.length, "comparisons")}, as a table`;
  }
  const situations = [...document.querySelectorAll(".situations tbody tr")];
  for (const row of situations) row.hidden = !isPicked(keysOf(row), values);
  const fitting = situations.filter((row) => !row.hidden).length;
  if (situations.length) document.getElementById("situation-count").textContent = `${fitting} of ${written(situations.length, "situations")}`;
}

function applyCase() {
  const values = picksOf();
  for (const control of mine?.querySelectorAll("select") ?? []) control.value = values[control.name] ?? "";
  showAnswer(values);
  showRows(values);
  filterCharts(values);
}

function makeCase() {
  document.getElementById("revisions")?.addEventListener("change", ({ target }) => select({ revisions: target.value }));
  if (!mine) return;
  mine.addEventListener("submit", (event) => event.preventDefault());
  mine.addEventListener("change", ({ target }) => { if (target.name) select({ [target.name]: target.value }); });
  mine.addEventListener("reset", (event) => {
    event.preventDefault();
    select(Object.fromEntries([...mine.elements].map(({ name, id }) => [name || id, ""])));
  });
  const presets = [...mine.elements].filter(({ dataset }) => dataset.preset);
  if (!state().given.size && presets.length) {
    const given = new URLSearchParams(presets.map(({ name, dataset }) => [name, dataset.preset]));
    history.replaceState(null, "", `#${[encodeURIComponent(state().anchor), given].filter(String).join("&")}`);
  }
}

// The estimate for the reader's number of revisions

function durationOf(seconds) {
  if (seconds < 1) return "less than 1 s";
  const minutes = Math.round(seconds / 60);
  return seconds < 90 ? `${Number(seconds.toPrecision(2))} s` : minutes < 90 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}

// A size in a binary unit with two digits.
function sizeOf(bytes) {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return `${written(Number((bytes / 1024 ** power).toPrecision(2)), ["bytes", "KiB", "MiB", "GiB", "TiB"][power])}`;
}

// The reader's number of revisions, 0 if the address has none.
function revisionsOf(given) {
  const count = Math.round(Number(given.get("revisions")));
  return count > 0 && count < 1e9 ? count : 0;
}

// The length of all files by format: ["f6 290 MiB loaded or 110 MiB packed", ...]. Only of the picked format, if it is known.
function sizesAt(scale, bytes) {
  const states = { nopack: "loaded", pack: "packed" };
  const pickedFormat = picked().format;
  const sizes = [];
  for (const [format, bytesOfStates] of Object.entries(bytes)) {
    if (bytes[pickedFormat] && format !== pickedFormat) continue;
    const parts = Object.entries(bytesOfStates).sort().map(([state, size]) => `${sizeOf(size * scale)} ${states[state] ?? state}`);
    sizes.push(`${labelOf("format", format)} ${parts.join(" or ")}`);
  }
  return sizes;
}

// The times of a load and of packing, and the length of all files, for the reader's number of revisions.
function estimateFor(count, { revisions, seconds, pack_seconds: packSeconds, in_memory: isInMemory, bytes }) {
  const scale = count / revisions;
  let load = `load ${durationOf(seconds * scale)}`;
  if (isInMemory) load += ` in memory, up to ${durationOf(LONGER_ON_DISK * seconds * scale)} on a disk`;
  const parts = [load];
  if (packSeconds) {
    let pack = `pack ${durationOf(packSeconds * scale)}`;
    if (isInMemory) pack += " in memory, not measured on a disk";
    parts.push(pack);
  }
  const sizes = sizesAt(scale, bytes);
  if (sizes.length) parts.push(`size of the files (not packed, they take more on disk) ${sizes.join(", ")}`);
  const basis = `scaled from the ${written(revisions, "revisions")} of this run, all formats loaded at the same time; larger revisions need more`;
  return `Estimate for ${written(count, "revisions")}: ${parts.join("; ")} (${basis}).`;
}

function applyEstimate(given) {
  const input = document.getElementById("revisions");
  if (!input) return;
  const count = revisionsOf(given);
  input.value = count || "";
  const line = input.closest("p");
  line.querySelector("output").textContent = count
    ? estimateFor(count, JSON.parse(line.dataset.estimate))
    : "Estimates the time of svnadmin load and pack, and the size of the files.";
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
