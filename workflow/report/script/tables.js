// The tables of numbers: filter, keyboard and copy.

const filter = document.getElementById("filter");
const selected = document.getElementById("selected");

// A table with its headings (each with its first column and its span) and its rows of places. A place is a cell with
// its column, its axis values and a name, which the script writes into data-name.
function gridOf(table) {
  const columns = [...table.querySelectorAll("col")].slice(1).map(keysOf);
  const section = table.closest("section.table");
  const figure = table.closest("figure");
  const heads = [...table.tHead.rows].flatMap((row) => {
    let first = 0;
    return [...row.querySelectorAll("th")].map((head) => {
      first += head.colSpan;
      return { head, first: first - head.colSpan, span: head.colSpan };
    });
  });
  const rows = [...table.querySelectorAll("tbody tr:not(.group)")].map((row) => {
    const keys = { ...keysOf(table), ...keysOf(row) };
    const cells = [...row.querySelectorAll("td")].map((cell, column) => {
      const all = { ...keys, ...columns[column] };
      cell.dataset.name = `${section.id}/${Object.values(all).join("/")}`;
      return { cell, column, keys: all, name: cell.dataset.name };
    });
    return { row, cells };
  });
  return { table, section, figure, heads, rows,
           measured: figure.classList.contains("measured") && !table.closest("details.whole") };
}

const grids = [...document.querySelectorAll("table.values")].map(gridOf);

function hasNumber(cell) {
  return /\d/.test(cell.firstChild?.textContent ?? "");
}

// Filter

// Shows the cells of a grid for which `isShown` is true, without rows, columns, headings and groups that have none.
function showOnly(grid, isShown) {
  const usedColumns = new Set();
  for (const { row, cells } of grid.rows) {
    const shown = new Set(cells.filter(isShown));
    row.hidden = !shown.size;
    for (const place of cells) {
      place.cell.classList.toggle("out", !shown.has(place));
      if (shown.has(place) && place.cell.textContent !== "·") usedColumns.add(place.column);
    }
  }
  for (const { cell, column } of grid.rows.flatMap((row) => row.cells)) cell.hidden = !usedColumns.has(column);
  // The first column has the labels of the rows.
  const columns = [...grid.table.querySelectorAll("col")].slice(1);
  columns.forEach((element, column) => { element.hidden = !usedColumns.has(column); });
  for (const { head, first, span } of grid.heads) {
    const number = [...usedColumns].filter((column) => column >= first && column < first + span).length;
    head.hidden = !number;
    if (number) head.colSpan = number;
  }
  for (const body of grid.table.tBodies) {
    body.hidden = [...body.rows].every((row) => row.hidden || row.classList.contains("group"));
    const group = body.querySelector(".group th");
    if (group) group.colSpan = usedColumns.size + 1;
  }
  grid.figure.hidden = !usedColumns.size;
  setStop(grid);
}

// Shows the numbers that fit the picks.
function applyFilter(given) {
  if (!filter) return;
  const values = picked();
  const onlyDifferences = given.get("only") === "differs";
  const hides = onlyDifferences || Object.keys(values).length > 0;
  let all = 0;
  let shown = 0;
  for (const grid of grids) {
    showOnly(grid, ({ cell, keys }) => {
      let fits = isPicked(keys, values, grid.section.dataset);
      // Nothing shows whether a published number alone is a difference.
      if (onlyDifferences) {
        fits &&= grid.measured && Boolean(grid.section.dataset.compares) && hasNumber(cell) && !cell.classList.contains("same");
      }
      if (grid.measured && hasNumber(cell)) {
        all += 1;
        if (fits) shown += 1;
      }
      return fits;
    });
  }
  for (const box of document.querySelectorAll(".one-grid, .whole, section.table, .more")) {
    box.hidden = hides && [...box.querySelectorAll("figure")].every((figure) => figure.hidden);
  }
  selected.textContent = hides ? `${shown} of ${all} measured numbers are shown.` : "";
  document.documentElement.classList.toggle("marks", given.get("marks") === "on");
  for (const control of filter.elements) {
    if (control.type === "checkbox") control.checked = given.get(control.name) === control.value;
    else if (control.type === "reset") control.disabled = !hides;
    else if (control.name) control.value = given.get(control.name) ?? "";
  }
}

// The axes of the tables that "What I have" does not have.
function makeFilter(labels) {
  if (!filter) return;
  const valuesOfAxis = {};
  const places = grids.filter(({ measured }) => measured).flatMap(({ rows }) => rows).flatMap(({ cells }) => cells);
  for (const { keys } of places) {
    for (const [axis, value] of Object.entries(keys)) {
      if (value && axis !== "candidate") (valuesOfAxis[axis] ??= new Set()).add(value);
    }
  }
  // Each list is put before the earlier ones, so the last axis comes first.
  for (const [axis, values] of Object.entries(valuesOfAxis).reverse()) {
    if (values.size < 2 || document.querySelector(`#case [name="${axis}"]`)) continue;
    const options = [...values].map((value) => new Option(labels[axis]?.[value] ?? value, value));
    const list = Object.assign(made("select", "", new Option("all", ""), ...options), { name: axis });
    filter.prepend(made("label", `${labels[axis]?.[""] ?? axis} `, list));
  }
  filter.addEventListener("submit", (event) => event.preventDefault());
  filter.addEventListener("change", ({ target }) => {
    select({ [target.name]: target.type === "checkbox" ? target.checked && target.value : target.value });
  });
  filter.addEventListener("reset", (event) => {
    event.preventDefault();
    select(Object.fromEntries([...state().given.keys()].map((name) => [name, ""])));
  });
  filter.hidden = false;
}

// Keyboard: each grid is one stop of the Tab key, arrow keys move inside.

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
                Home: [0, -Infinity], End: [0, Infinity] };

function stops(grid) {
  return grid.rows.filter(({ row }) => !row.hidden)
    .map(({ cells }) => cells.map(({ cell }) => cell).filter((cell) => !cell.hidden && !cell.classList.contains("out")));
}

function moveStop(grid, cell) {
  grid.table.querySelectorAll('[tabindex="0"]').forEach((stop) => { stop.tabIndex = -1; });
  if (cell) cell.tabIndex = 0;
}

function focusOn(grid, cell) {
  moveStop(grid, cell);
  cell.focus();
}

// After each change: the cell with the stop can be hidden.
function setStop(grid) {
  moveStop(grid, stops(grid)[0]?.[0]);
}

function onKey(grid, event) {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    event.target.click();
    return;
  }
  const rows = stops(grid);
  const row = rows.findIndex((cells) => cells.includes(event.target));
  if (row < 0 || !STEPS[event.key]) return;
  event.preventDefault();
  const [down, right] = STEPS[event.key];
  const within = (place, length) => Math.max(0, Math.min(length - 1, place));
  const next = rows[within(row + down, rows.length)];
  focusOn(grid, next[within(rows[row].indexOf(event.target) + right, next.length)]);
}

function makeReachable(grid) {
  grid.table.setAttribute("role", "grid");
  for (const { cells } of grid.rows) cells.forEach(({ cell }) => { cell.tabIndex = -1; });
  grid.table.addEventListener("keydown", (event) => onKey(grid, event));
  setStop(grid);
}

// Copy: the shown cells, one line each with its axis values.

function asCsv(grid) {
  const cells = grid.rows.filter(({ row }) => !row.hidden).flatMap((row) => row.cells)
    .filter(({ cell }) => !cell.hidden && !cell.classList.contains("out") && cell.textContent.trim());
  const axes = Object.keys(cells[0].keys);
  const field = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = cells.map(({ cell, keys }) => {
    const marks = [...cell.querySelectorAll("i")].map((mark) => mark.textContent).join("");
    const numbers = [cell.firstChild.textContent, cell.querySelector(".then")?.textContent ?? ""];
    return [...axes.map((axis) => keys[axis]), ...numbers.map((text) => text.replace("\u2212", "-")), marks];
  });
  return [[...axes, "shown", "published", "marks"], ...lines].map((line) => line.map(field).join(",")).join("\n") + "\n";
}

// A page from a file has no clipboard in some browsers: then a selected text is copied, or shown.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function copyButton(label, textOf, name) {
  const button = Object.assign(made("button", "Copy"), { type: "button", className: "copy" });
  button.setAttribute("aria-label", label);
  button.addEventListener("click", async () => {
    const text = textOf();
    document.documentElement.dataset.copied = text;
    showNote(await copied(text) ? `${name} copied.` : text);
  });
  return button;
}

function makeCopyable(grid) {
  const label = `Copy as CSV: ${grid.table.getAttribute("aria-label")}`;
  grid.figure.querySelector("figcaption").append(copyButton(label, () => asCsv(grid), "CSV"));
}

// Each command below an element gets a button.
function makeCommandsCopyable(element) {
  for (const block of element.querySelectorAll("pre")) {
    const text = block.textContent;
    block.before(copyButton(`Copy: ${text.slice(0, 60)}`, () => text, "Command"));
  }
}
