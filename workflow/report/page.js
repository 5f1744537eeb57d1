// Draws the charts one after another, so that the page can be read meanwhile.
"use strict";

const CHART_CONFIG = {
  background: null,
  font: "system-ui, sans-serif",
  view: { stroke: null },
  axis: { labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal", domain: false, ticks: false,
          gridColor: "#8b8f94", gridOpacity: 0.25, labelLimit: 240, labelPadding: 6 },
  axisY: { grid: false },
  header: { labelFontSize: 12, labelFontWeight: "bold", labelAnchor: "start", labelPadding: 6 },
  legend: { labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", offset: 6 },
  facet: { spacing: { row: 26, column: 30 } },
};

// As many panels beside each other as fit, at most three, and as wide as that leaves room for.
function fitted(spec, width) {
  const gutter = 24 + 6.2 * Math.max(4, ...spec.data.values.map((d) => (d.line ?? "").length));
  const gap = CHART_CONFIG.facet.spacing.column;
  const columns = Math.max(1, Math.min(3, Math.floor((width - gutter) / (210 + gap))));
  const panel = Math.max(180, Math.min(340, (width - gutter - 40) / columns - gap));
  return { ...spec, columns, spec: { ...spec.spec, width: Math.round(panel) } };
}

async function draw(figure) {
  const drawing = figure.querySelector(".drawing");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  try {
    await vegaEmbed(drawing, fitted(spec, figure.clientWidth), {
      mode: "vega-lite", renderer: "svg", ast: true, config: CHART_CONFIG,
      actions: { export: true, source: false, compiled: false, editor: false },
      tooltip: { theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" },
    });
  } catch (error) {
    drawing.textContent = `This chart could not be drawn: ${error.message}`;
    document.documentElement.dataset.error = error.message;
  }
}

async function drawAll() {
  for (const figure of document.querySelectorAll("figure.chart")) {
    if (figure.dataset.width !== String(figure.clientWidth)) {
      figure.dataset.width = figure.clientWidth;
      await draw(figure);
    }
  }
  document.documentElement.dataset.charts = "drawn";
}

window.addEventListener("error", (event) => {
  document.documentElement.dataset.error = event.message;
});

let waiting;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(drawAll, 200);
});

// What a mouse finds by pointing, a finger finds by tapping.
const note = document.getElementById("note");
document.addEventListener("click", (event) => {
  const cell = event.target.closest("td[title]");
  note.hidden = !cell;
  note.textContent = cell ? cell.title : "";
});

// On paper nothing can be unfolded; whole published tables, and numbers shown twice, would fill most of it.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open], .whole, .reduced, .vega-embed details)")];
  folded.forEach((details) => { details.open = true; });
});
window.addEventListener("afterprint", () => {
  folded.forEach((details) => { details.open = false; });
});

drawAll();
