// "My case", notes, print, and the start.

const mine = document.getElementById("case");
const note = document.getElementById("note");
let answers = null;

window.addEventListener("error", (event) => { document.documentElement.dataset.error = event.message; });

function showNote(text) {
  note.hidden = !text;
  note.textContent = text;
}

// A tap on a phone shows the title that a mouse finds by pointing.
document.addEventListener("click", (event) => {
  const cell = event.target.closest("td[title]");
  if (cell?.classList.contains("behind")) select({ number: cell.dataset.name });
  else if (!event.target.closest(".copy")) showNote(cell ? cell.title : "");
});

// The cards, their cases and the situations that fit the picks.
function applyCase() {
  const values = picked();
  for (const control of mine?.elements ?? []) if (control.name) control.value = values[control.name] ?? "";
  const key = (answers?.picks ?? []).map((axis) => values[axis] ?? "").join("|");
  for (const [anchor, { by, answers: list }] of Object.entries(answers?.cards ?? {})) {
    const card = document.getElementById(anchor);
    const [kind, short, sentence, value] = list[by[key] ?? 0];
    card.className = `card ${kind.replaceAll(" ", "-")}`;
    card.querySelector(".answer").textContent = short;
    card.querySelector(".sentence").textContent = sentence;
    const axis = card.querySelector(".forest")?.dataset.compares;
    // A reader who has the value has nothing to apply.
    for (const action of card.querySelectorAll(".do")) {
      action.hidden = action.dataset.value !== value || (Boolean(value) && values[axis] === value);
    }
  }
  for (const row of document.querySelectorAll(".forest tbody tr, .situations tbody tr")) {
    row.hidden = !isPicked(keysOf(row), values, row.closest("table").dataset);
  }
  for (const details of document.querySelectorAll(".card details")) {
    const rows = [...details.querySelectorAll("tbody tr")];
    const shown = rows.filter((row) => !row.hidden).length;
    details.querySelector("summary").textContent = `${shown} of ${rows.length} comparisons`;
  }
}

function makeCase() {
  if (!mine) return;
  mine.addEventListener("change", ({ target }) => select({ [target.name]: target.value }));
  mine.addEventListener("reset", (event) => {
    event.preventDefault();
    select(Object.fromEntries([...mine.elements].filter(({ name }) => name).map(({ name }) => [name, ""])));
  });
  const presets = [...mine.elements].filter(({ dataset }) => dataset.preset);
  if (!state().given.size && presets.length) {
    const given = new URLSearchParams(presets.map(({ name, dataset }) => [name, dataset.preset]));
    history.replaceState(null, "", `#${encodeURIComponent(state().anchor)}&${given}`);
  }
}

// Paper cannot unfold. Published tables would fill most of it.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open], .whole)")];
  folded.forEach((details) => { details.open = true; });
});
window.addEventListener("afterprint", () => { folded.forEach((details) => { details.open = false; }); });

async function start() {
  for (const grid of grids) {
    makeReachable(grid);
    makeCopyable(grid);
    if (grid.measured || !grid.pair?.querySelector(".measured")) makeSortable(grid);
  }
  await readDetails();
  answers = await unpacked("answers");
  makeCase();
  makeFilter(answers?.labels ?? {});
  listeners.unshift(applyCase, applyFilter);
  update();
  goToAnchor();
  document.documentElement.dataset.ready = "yes";
}

start();
