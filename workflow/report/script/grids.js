// The grids as rows of cells with their axis values, and the way through them by keyboard: each grid is one
// stop of the tabulator, and the arrow keys go on from there.

function keysOf(element) {
  return Object.fromEntries(new URLSearchParams(element?.dataset.of ?? ""));
}

function gridOf(table) {
  const columns = [...table.querySelectorAll("col")].slice(1).map(keysOf);
  const figure = table.closest("figure");
  const section = table.closest("section.table");
  const levels = [...table.tHead.rows].map((row) => headingsOf(row));
  const rows = [...table.querySelectorAll("tbody tr:not(.group)")].map((row) => {
    const keys = { ...keysOf(table), ...keysOf(row) };
    const cells = [...row.querySelectorAll("td")].map((cell, column) => (
      { cell, column, keys: { ...keys, ...columns[column] } }
    ));
    return { row, name: row.dataset.of, head: row.querySelector("th"), cells };
  });
  const grid = { table, figure, section, levels, rows, columns, pair: table.closest(".pair"),
                 measured: figure.classList.contains("measured") && !table.closest("details") };
  for (const { cells } of rows) {
    for (const one of cells) {
      one.name = `${section.id}/${Object.values(one.keys).join("/")}`;
      one.cell.dataset.name = one.name;
    }
  }
  return grid;
}

// A heading with the columns that it is over.
function headingsOf(row) {
  let first = 0;
  return [...row.querySelectorAll("th")].map((head) => {
    const heading = { head, first, span: head.colSpan };
    first += head.colSpan;
    return heading;
  });
}

const grids = [...document.querySelectorAll("table.values")].map(gridOf);

// What the arrow keys go through: the last row of headings, then the rows, each without what is hidden. By what
// was hidden, and not by what is laid out: to ask for that after each change takes seconds on a large page.
function stops(grid) {
  const heads = grid.levels.at(-1).map(({ head }) => head);
  const rows = [...grid.table.querySelectorAll("tbody tr:not(.group)")].map((row) => row.querySelectorAll("td"));
  return [heads, ...rows]
    .map((row) => [...row].filter((one) => !one.hidden && !one.parentNode.hidden && !one.classList.contains("out")))
    .filter((row) => row.length);
}

// The tabulator's one stop in a grid.
function moveStop(grid, cell) {
  grid.table.querySelectorAll('[tabindex="0"]').forEach((one) => { one.tabIndex = -1; });
  if (cell) cell.tabIndex = 0;
}

function focusOn(grid, cell) {
  moveStop(grid, cell);
  cell.focus();
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
                Home: [0, -Infinity], End: [0, Infinity] };

function moved(grid, event) {
  const rows = stops(grid);
  const row = rows.findIndex((one) => one.includes(event.target));
  if (row < 0 || !STEPS[event.key]) return;
  event.preventDefault();
  const [down, right] = STEPS[event.key];
  const within = (place, length) => Math.max(0, Math.min(length - 1, place));
  const next = rows[within(row + down, rows.length)];
  focusOn(grid, next[within(rows[row].indexOf(event.target) + right, next.length)]);
}

// Afresh after each change of what is shown: what has the stop may be hidden now.
function setStop(grid) {
  const rows = stops(grid);
  moveStop(grid, (rows[1] ?? rows[0])?.[0]);
}

function makeReachable(grid) {
  grid.table.setAttribute("role", "grid");
  for (const { cells } of grid.rows) cells.forEach(({ cell }) => { cell.tabIndex = -1; });
  grid.table.addEventListener("keydown", (event) => {
    moved(grid, event);
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.target.click();
  });
  setStop(grid);
}
