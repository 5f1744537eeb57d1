// Rows in the order of a column; the published grid beside it follows, row by row. Groups stay together.

const ORDERS = ["none", "descending", "ascending"];

function numberOf(cell) {
  const text = (cell.firstChild?.textContent ?? "").replace("\u2212", "-").replace(/[\u202f,]/g, "");
  return text.trim() && Number.isFinite(Number(text)) ? Number(text) : null;
}

function sortBy(grid, column, order) {
  const sign = order === "ascending" ? 1 : -1;
  const keyed = grid.rows.map((one, place) => ({ ...one, place, value: numberOf(one.cells[column].cell) }));
  keyed.sort((a, b) => {
    if (order === "none" || a.value === b.value) return a.place - b.place;
    if (a.value === null || b.value === null) return a.value === null ? 1 : -1;
    return sign * (a.value - b.value);
  });
  arrange(grid, keyed.map((one) => one.name), order);
  for (const other of grids) {
    if (other !== grid && grid.pair && other.pair === grid.pair) arrange(other, keyed.map((one) => one.name), order);
  }
}

function arrange(grid, names, order) {
  const rank = new Map(names.map((name, place) => [name, place]));
  const rows = [...grid.rows].sort((a, b) => (rank.get(a.name) ?? Infinity) - (rank.get(b.name) ?? Infinity));
  rows.forEach(({ row }) => row.parentNode.append(row));
  grid.table.classList.toggle("sorted", order !== "none");
}

function makeSortable(grid) {
  const heads = grid.levels.at(-1);
  heads.forEach(({ head, first }) => {
    head.tabIndex = -1;
    head.setAttribute("aria-sort", "none");
    head.addEventListener("click", () => {
      const order = ORDERS[(ORDERS.indexOf(head.getAttribute("aria-sort")) + 1) % ORDERS.length];
      heads.forEach((other) => other.head.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", order);
      sortBy(grid, first, order);
    });
  });
}
