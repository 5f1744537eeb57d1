// The charts: Vega draws them from their specifications, and shows numbers under the pointer. Those with parameters
// follow the picks: the charts of cards and of the noise. Without Vega, or without scripts, the page has the image of
// each chart.

const views = [];
// `ast`: expressions are interpreted, because the policy of the page forbids eval. Styles are in style.css.
const EMBED = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } };

async function drawChart(place, specification) {
  const { view } = await window.vegaEmbed(place, specification, EMBED);
  return view;
}

// Draws each chart next to its image, which the style sheet then hides.
async function drawCharts() {
  const specifications = document.getElementById("charts");
  if (!window.vegaEmbed || !specifications) return;
  const specificationByName = JSON.parse(specifications.textContent);
  for (const box of document.querySelectorAll("[data-chart]")) {
    const place = Object.assign(made("div"), { className: "live" });
    box.append(place);
    const specification = specificationByName[box.dataset.chart];
    const parameters = (specification.params ?? []).map(({ name }) => name);
    views.push({ view: await drawChart(place, specification), parameters });
    box.classList.add("drawn");
  }
  filterCharts(picked());
  document.documentElement.dataset.charts = "drawn";
}

// Sets the parameters of all charts, such as pick_access, to the picks. "any" is chart_specs.ANY.
function filterCharts(values) {
  document.documentElement.classList.toggle("picked", Object.keys(values).length > 0);
  for (const { view, parameters } of views) {
    for (const name of parameters) view.signal(name, values[name.replace("pick_", "")] ?? "any");
    view.runAsync();
  }
}

// The runs behind a number: each run as a point by its round. The axis starts at 0.
function runsSpecification(sides, title, unit) {
  const values = sides.flatMap(({ name, runs }) => runs.map((run) => ({ ...run, side: name })));
  const names = sides.map(({ name }) => name);
  const legend = { orient: "bottom" };
  return {
    data: { values },
    width: 380,
    height: 150,
    background: "white",
    mark: { type: "point", filled: true, size: 55 },
    encoding: {
      x: { field: "round", type: "ordinal", axis: { labelAngle: 0 } },
      xOffset: { field: "side" },
      y: { field: "value", type: "quantitative", title: unit, scale: { zero: true } },
      color: { field: "side", type: "nominal", title: null, scale: { domain: names, range: ["#b85c00", "#1f6fb2"] }, legend },
      shape: { field: "side", type: "nominal", title: null, scale: { domain: names, range: ["circle", "triangle-up"] }, legend },
      tooltip: [
        { field: "side", title: "Side" },
        { field: "round", title: "Round" },
        { field: "value", title },
        { field: "flags", title: "Flags" },
      ],
    },
  };
}
