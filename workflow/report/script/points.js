// A number's runs, drawn: a point for each by round, the baseline's round and the candidate's square.

const SVG = "http://www.w3.org/2000/svg";

function drawn(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Three ticks or so that are round numbers, from 0.
function ticksTo(most) {
  const rough = most / 3;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((one) => one >= rough);
  return Array.from({ length: Math.floor(most / step * 1.0001) + 1 }, (_, n) => n * step);
}

function digits(value) {
  return String(Number(value.toPrecision(4)));
}

// `sides` have a name and runs: round and value each.
function pointsOf(sides, title, unit) {
  const runs = sides.flatMap((side) => side.runs);
  const [width, height, left, bottom] = [420, 190, 62, 34];
  const most = Math.max(...runs.map((run) => run.value)) * 1.05 || 1;
  const rounds = [...new Set(runs.map((run) => run.round))].sort((a, b) => a - b);
  const x = (round) => left + (width - left - 12) * (rounds.indexOf(round) + 0.5) / rounds.length;
  const y = (value) => 10 + (height - bottom - 10) * (1 - value / most);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, class: "runs", role: "img",
                             "aria-label": `${title} of each run by round; the same as a table below` });
  for (const tick of ticksTo(most)) {
    svg.append(drawn("line", { x1: left, x2: width - 12, y1: y(tick), y2: y(tick), class: "tick" }));
    svg.append(drawn("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, digits(tick)));
  }
  for (const round of rounds.filter((_, n) => n % Math.ceil(rounds.length / 12) === 0)) {
    svg.append(drawn("text", { x: x(round), y: height - bottom + 16, "text-anchor": "middle" }, round));
  }
  svg.append(drawn("text", { x: (left + width) / 2, y: height - 3, "text-anchor": "middle" }, "round"));
  svg.append(drawn("text", { x: 4, y: 10 }, unit));
  sides.forEach((side, number) => {
    const shift = (number - (sides.length - 1) / 2) * 10;
    for (const { round, value } of side.runs) svg.append(pointOf(number, x(round) + shift, y(value)));
  });
  return svg;
}

function pointOf(number, x, y) {
  if (number) return drawn("rect", { x: x - 3.5, y: y - 3.5, width: 7, height: 7, class: "side1" });
  return drawn("circle", { cx: x, cy: y, r: 4, class: "side0" });
}
