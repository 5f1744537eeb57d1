// What a grid shows, as Markdown or CSV: its rows in their order, without those that are hidden.

function shownRows(grid) {
  const order = [...grid.table.querySelectorAll("tbody tr:not(.group)")];
  return [...grid.rows].filter(({ row }) => !row.hidden)
    .sort((a, b) => order.indexOf(a.row) - order.indexOf(b.row))
    .map(({ head, row, cells }) => ({
      name: [groupOf(row), ...[...head.querySelectorAll("span")].map((span) => span.textContent)]
        .filter(Boolean).join(" "),
      cells: cells.filter(({ cell }) => !cell.hidden),
    }));
}

function groupOf(row) {
  return row.parentNode.querySelector("tr.group th")?.textContent ?? "";
}

function shownText(cell) {
  return cell.classList.contains("out") ? "" : cell.textContent.trim();
}

function asMarkdown(grid) {
  const rows = shownRows(grid);
  const headings = rows[0].cells.map(({ column }) => Object.values(grid.columns[column]).filter(Boolean).join(" "));
  const line = (texts) => `| ${texts.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(["", ...headings]), line(["---", ...headings.map(() => "---:")]),
          ...rows.map(({ name, cells }) => line([name, ...cells.map(({ cell }) => shownText(cell))]))].join("\n") + "\n";
}

// A line for each number, its axis values in columns; marks stand apart, so that numbers are numbers.
function asCsv(grid) {
  const cells = shownRows(grid).flatMap((row) => row.cells).filter(({ cell }) => shownText(cell));
  const axes = Object.keys(cells[0].keys);
  const field = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = cells.map(({ cell, keys }) => {
    const mark = cell.querySelector("i")?.textContent ?? "";
    const text = shownText(cell);
    return [...axes.map((axis) => keys[axis]), text.slice(0, text.length - mark.length).replace("\u2212", "-"), mark];
  });
  return [[...axes, "shown", "marks"], ...lines].map((line) => line.map(field).join(",")).join("\n") + "\n";
}

// Where a page from a file has no clipboard, a selected text is copied; where that fails, too, it is shown.
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

function makeCopyable(grid) {
  const buttons = document.createElement("span");
  buttons.className = "copy";
  buttons.textContent = "Copy as";
  for (const [name, written] of [["Markdown", asMarkdown], ["CSV", asCsv]]) {
    const button = made("button", name);
    button.type = "button";
    button.setAttribute("aria-label", `Copy as ${name}: ${grid.table.getAttribute("aria-label")}`);
    button.addEventListener("click", async () => {
      const text = written(grid);
      document.documentElement.dataset.copied = text;
      showNote(await copied(text) ? `Copied as ${name}.` : text);
    });
    buttons.append(button);
  }
  grid.figure.querySelector("figcaption").append(buttons);
}
