// Draws the charts one after another, so that the page can be read meanwhile.

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

// The chart of what is selected; null where nothing of it is. `usermeta` has the axis values that the texts of
// a panel, a line and a hue stand for; a chart without shows all.
function selectedOf(spec, wanted, only) {
  const { all = {}, compares, baseline, ...fields } = spec.usermeta ?? {};
  const section = { dataset: { compares, baseline } };
  const values = spec.data.values.filter((point) => {
    const keys = { ...all };
    for (const [field, known] of Object.entries(fields)) Object.assign(keys, known[point[field] ?? ""]);
    return isWanted(keys, wanted, section) && !(only && compares && point.call === "neither");
  });
  if (!values.length) return null;
  const lines = (points) => new Set(points.map((point) => point.line)).size;
  const height = Math.max(40, Math.round(spec.spec.height * lines(values) / Math.max(1, lines(spec.data.values))));
  return { ...spec, data: { values }, spec: { ...spec.spec, height: "line" in fields ? height : spec.spec.height } };
}

// Vega is a megabyte of script, which waits until the page can be used.
function loadVega() {
  const text = document.getElementById("vega");
  if (!text || window.vegaEmbed) return;
  document.head.append(Object.assign(document.createElement("script"), { textContent: text.textContent }));
}

// What a reader does meanwhile comes first.
function breath() {
  return new Promise((done) => setTimeout(done, 0));
}

async function draw(figure, width) {
  const drawing = figure.querySelector(".drawing");
  const whole = JSON.parse(figure.querySelector("script").textContent);
  const { wanted, only, hides } = asked();
  const spec = selectedOf(whole, wanted, only);
  figure.hidden = !spec;
  figure.dataset.all = whole.usermeta || !hides ? "" : "This chart shows all, whatever is selected.";
  if (!spec) return;
  try {
    await vegaEmbed(drawing, fitted(spec, width), {
      mode: "vega-lite", renderer: "svg", ast: true, config: CHART_CONFIG,
      actions: { export: true, source: false, compiled: false, editor: false },
      tooltip: { theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" },
    });
  } catch (error) {
    drawing.textContent = `This chart could not be drawn: ${error.message}`;
    document.documentElement.dataset.error = error.message;
  }
}

// Only what changed since it was drawn: the width, or what is selected.
async function drawChanged() {
  const figures = document.querySelectorAll("figure.chart");
  if (!figures.length) return;
  await breath();
  loadVega();
  // Of all of them at once: each drawing changes the layout, and to ask for it makes all of it anew.
  const width = figures[0].closest("section").clientWidth;
  const drawnFor = `${width} ${JSON.stringify(asked())}`;
  for (const figure of figures) {
    if (figure.dataset.drawn !== drawnFor) {
      figure.dataset.drawn = drawnFor;
      await breath();
      await draw(figure, width);
    }
  }
}

// One after another, whatever is selected meanwhile.
let underWay = Promise.resolve();
function drawAll() {
  const mine = underWay.then(drawChanged).then(() => {
    if (underWay === mine) document.documentElement.dataset.charts = "drawn";
  });
  underWay = mine;
  delete document.documentElement.dataset.charts;
  return mine;
}

let waiting;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(drawAll, 200);
});
