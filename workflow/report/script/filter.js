// Which numbers are shown: those with the axis values that are chosen, and on demand only differences.

const filter = document.getElementById("filter");
const selected = document.getElementById("selected");

function axesShown() {
  const found = new Map();
  for (const { section, rows } of grids.filter((grid) => grid.measured)) {
    for (const { keys } of rows.flatMap((row) => row.cells)) {
      for (const [axis, value] of Object.entries(keys)) {
        const name = axis === "candidate" ? section.dataset.compares : axis;
        if (name && value) found.set(name, (found.get(name) ?? new Set()).add(value));
      }
    }
    const { compares, baseline } = section.dataset;
    if (compares) found.set(compares, (found.get(compares) ?? new Set()).add(baseline));
  }
  return [...found].filter(([, values]) => values.size > 1);
}

// An axis that a table does not have restricts nothing in it; of one that it compares, either side counts.
function isWanted(keys, wanted, section) {
  return Object.entries(wanted).every(([axis, values]) => {
    const { compares, baseline } = section.dataset;
    if (axis === compares) return values.includes(baseline) || values.includes(keys.candidate);
    return !(axis in keys) || values.includes(keys[axis]);
  });
}

function isDifference({ cell }, section) {
  return Boolean(section.dataset.compares) && numberOf(cell) !== null && !cell.classList.contains("same");
}

function showOnly(grid, isShown) {
  const used = new Set();
  for (const { row, cells } of grid.rows) {
    const shown = cells.filter(isShown);
    row.hidden = !shown.length;
    cells.forEach((one) => one.cell.classList.toggle("out", !shown.includes(one)));
    shown.forEach(({ column }) => used.add(column));
  }
  for (const { cells } of grid.rows) cells.forEach(({ cell, column }) => { cell.hidden = !used.has(column); });
  [...grid.table.querySelectorAll("col")].slice(1).forEach((col, n) => { col.hidden = !used.has(n); });
  for (const { head, first, span } of grid.levels.flat()) {
    const left = [...used].filter((column) => column >= first && column < first + span).length;
    head.hidden = !left;
    if (left) head.colSpan = left;
  }
  for (const body of grid.table.tBodies) {
    body.hidden = [...body.rows].every((row) => row.hidden || row.classList.contains("group"));
    const group = body.querySelector(".group th");
    if (group) group.colSpan = used.size + 1;
  }
  grid.figure.hidden = !used.size;
  if (used.size) setStop(grid);
}

function applyFilter() {
  const { wanted, only, hides } = asked();
  const differing = new Set();
  let [all, shown] = [0, 0];
  for (const grid of [...grids].sort((a, b) => b.measured - a.measured)) {
    showOnly(grid, (one) => {
      const fits = isWanted(one.keys, wanted, grid.section)
        && (!only || (grid.measured ? isDifference(one, grid.section) : differing.has(one.name)));
      if (grid.measured && fits) differing.add(one.name);
      if (grid.measured && numberOf(one.cell) !== null) [all, shown] = [all + 1, shown + fits];
      return fits;
    });
  }
  document.querySelectorAll(".pair").forEach((pair) => {
    pair.hidden = hides && [...pair.querySelectorAll("figure")].every((figure) => figure.hidden);
  });
  document.querySelectorAll("section.table").forEach((section) => {
    section.hidden = hides && [...section.querySelectorAll("figure")].every((figure) => figure.hidden);
  });
  selected.textContent = hides ? `${shown} of ${all} measured numbers are shown.` : "";
  for (const control of filter.elements) {
    if (control.type === "reset") control.disabled = !hides;
    else if (control.name === "only") control.checked = only;
    else if (control.type === "checkbox") control.checked = Boolean(wanted[control.name]?.includes(control.value));
  }
  filter.querySelectorAll("details").forEach((choice) => {
    choice.querySelector("b").textContent = wanted[choice.dataset.axis]?.join(", ") ?? "all";
  });
}

// The values of an axis, of which any may be chosen; none chosen shows all.
function choiceOf(axis, values) {
  const name = axis.replaceAll("_", " ");
  const boxes = values.map((value) => Object.assign(document.createElement("input"),
                                                    { type: "checkbox", name: axis, value }));
  const list = made("fieldset", "", ...boxes.map((box) => made("label", "", box, ` ${box.value}`)));
  list.setAttribute("aria-label", name);
  list.addEventListener("change", () => {
    select({ [axis]: boxes.filter((box) => box.checked).map((box) => box.value) });
  });
  const choice = made("details", "", made("summary", `${name}: `, made("b", "all")), list);
  choice.dataset.axis = axis;
  return choice;
}

// One list is open at a time; Escape closes it and goes back to its name, and so does a click elsewhere.
function closeChoices(except = null) {
  filter.querySelectorAll("details[open]").forEach((one) => { if (one !== except) one.open = false; });
}

function followChoices() {
  filter.addEventListener("toggle", (event) => { if (event.target.open) closeChoices(event.target); }, true);
  filter.addEventListener("keydown", (event) => {
    const choice = event.target.closest("details[open]");
    if (event.key !== "Escape" || !choice) return;
    choice.open = false;
    choice.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => closeChoices(event.target.closest("#filter details")));
}

function makeFilter() {
  if (!filter) return;
  for (const [axis, values] of axesShown()) filter.append(choiceOf(axis, [...values]));
  followChoices();
  const only = Object.assign(document.createElement("input"), { type: "checkbox", name: "only" });
  only.addEventListener("change", () => select({ only: only.checked ? "differs" : "" }));
  const label = made("label", "", only, " only what differs");
  const all = Object.assign(made("button", "Show all"), { type: "reset" });
  filter.append(label, all);
  filter.addEventListener("reset", (event) => {
    event.preventDefault();
    select(Object.fromEntries([...selection().said.keys()].map((name) => [name, ""])));
  });
  filter.hidden = false;
  listeners.push(applyFilter, () => drawAll());
}
