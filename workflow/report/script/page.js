// What is left: errors, the note at the foot, print; and the start.

window.addEventListener("error", (event) => {
  document.documentElement.dataset.error = event.message;
});

const note = document.getElementById("note");

function showNote(text) {
  note.hidden = !text;
  note.textContent = text;
}

// What a mouse finds by pointing, a finger finds by tapping.
document.addEventListener("click", (event) => {
  const cell = event.target.closest("td[title], abbr[title]");
  if (cell?.classList.contains("behind")) select({ number: cell.dataset.name });
  else if (!event.target.closest(".copy")) showNote(cell ? cell.title : "");
});

// On paper nothing can be unfolded; whole published tables, and numbers shown twice, would fill most of it.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open], .whole, .reduced, .vega-embed details, #filter details)")];
  folded.forEach((details) => { details.open = true; });
});
window.addEventListener("afterprint", () => {
  folded.forEach((details) => { details.open = false; });
});

async function start() {
  for (const grid of grids) {
    makeReachable(grid);
    makeCopyable(grid);
    if (grid.measured || !grid.pair?.querySelector(".measured")) makeSortable(grid);
  }
  await readDetails();
  makeFilter();
  followAddress();
  goToAnchor();
  document.documentElement.dataset.ready = "yes";
  await drawAll();
}

start();
