// "What I have", notes, print, and the start.

const mine = document.getElementById("case");
const note = document.getElementById("note");
const allCards = [...document.querySelectorAll("#cards .card")];
let answers = null;
// Each commit of a load waits for the disk. Measured once: 143 s on ext4, 17 s in memory.
const LONGER_ON_DISK = 8;

window.addEventListener("error", (event) => { document.documentElement.dataset.error = event.message; });

function showNote(text) {
  note.hidden = !text;
  note.textContent = text;
}

document.addEventListener("click", ({ target }) => {
  const details = document.querySelector("#situations details");
  if (details && target.closest('a[href="#situations"]')) details.open = true;
});

// A tap on a phone shows the title that a mouse finds by pointing.
document.addEventListener("click", (event) => {
  const cell = event.target.closest("td[title]");
  if (cell?.classList.contains("behind")) select({ number: cell.dataset.name });
  else if (!event.target.closest(".copy")) showNote(cell ? cell.title : "");
});

// The label of a value: "not packed".
function labelOf(axis, value) {
  return answers?.labels?.[axis]?.[value] ?? value;
}

// A factor of at least 1 in the words of the cards. In a range with "2.4x", 8.0 % is 1.08x, and 3.0 % stays.
function factorOf(gain, isPercent = gain < 1.0995) {
  return isPercent ? `${(100 * (gain - 1)).toFixed(1)} %` : `${gain.toFixed(gain < 1.195 ? 2 : gain < 9.95 ? 1 : 0)}x`;
}

function factorsOf(gains) {
  const [low, high] = [Math.min(...gains), Math.max(...gains)];
  const most = factorOf(high);
  const isPercent = most.endsWith("%");
  const least = factorOf(low, isPercent || low < 1.05);
  // Both ends have the same decimals.
  if (low < 1.195 && least.endsWith("x") && high >= 1.195 && high < 1.995) return `${least} to ${high.toFixed(2)}x`;
  return least === most ? most : `${isPercent ? least.replace(" %", "") : least} to ${most}`;
}

// The comparisons of a card that fit some axis values. One with the reader's own value, if it is picked.
function comparisonsOf(card, values) {
  const table = card.querySelector(".forest");
  const current = values[table?.dataset.compares];
  return [...table?.tBodies[0].rows ?? []].filter((row) => isPicked(keysOf(row), values, table.dataset)
    && (!current || row.dataset.sides.split("|").includes(current)));
}

const OUTCOMES = { equal: "equal", undecided: "undecided", small: "too small" };

// Other programs took time of the machine during runs of the comparison.
const isDisturbed = ({ dataset }) => dataset.disturbed === "yes";

// The results of some comparisons: a chip for each faster value, then for equal and undecided ones.
function chipsOf(rows, axis, current) {
  const groups = groupedBy(rows, ({ className, dataset }) => dataset.winner || OUTCOMES[className]);
  return [...groups].map(([name, members]) => {
    const [{ className, dataset: { winner, times, range } }] = members;
    const isKept = current && winner === labelOf(axis, current);
    const gains = members.map(({ dataset }) => Number(dataset.gain));
    const gain = winner && ` ${factorsOf(gains)} faster`;
    const style = winner && current ? (isKept ? "reference" : "candidate") : className;
    const disturbed = members.filter(isDisturbed).length;
    const mark = disturbed && (disturbed < members.length ? `! ${disturbed}` : "!");
    const [slower, faster] = className === "reference" ? times.split("|").reverse() : times.split("|");
    const change = isKept ? `${faster} against ${slower}` : `${slower} → ${faster}`;
    const more = { candidate: faster && change, reference: faster && change, undecided: range }[className];
    const text = `${isKept ? "keep " : ""}${name}${gain}${rows.length > 1 ? ` in ${members.length}` : ""}`;
    return chipOf(text, style, winner ? gains : [], mark, rows.length === 1 && more);
  });
}

// A coloured result: its text, the factors of a difference, a mark if it is disturbed, and times or an interval.
function chipOf(text, style, gains, mark, detail) {
  const isSlight = gains.length && !gains.some(isNotable);
  const chip = made("span", `${text}${isSlight ? `, ${answers.slight}` : ""}`);
  chip.className = `chip ${style}${isSlight ? " slight" : ""}`;
  if (mark) chip.append(" ", made("i", mark));
  if (detail) chip.append(made("small", ` ${detail}`));
  return chip;
}

// The reader's own choice: its values, time, and ratio over the best time, as called and as measured.
function choiceIn(choices, values) {
  const fitting = choices.filter(([of]) => isPicked(of, values));
  return Object.keys(values).length && fitting.length === 1 ? fitting[0] : null;
}

function isNotable(gain) {
  return Math.abs(Math.log(gain)) >= Math.log(answers.notable);
}

// The name of a row of the overview, and of the one with a comparison: "export (OS cache warm)".
function nameOf(row) {
  return row.cells[0].textContent.replace(/^[□◧■] /, "").replace(/, (.*)/, " ($1)");
}

// True if both sides of such a comparison, one of them `side`, were measured and cannot be compared.
function isWithheld(card, values, side) {
  return answers.cards[card.id].withheld.some((one) => isPicked(one.keys, values, one) && (!side || [one.baseline, one.keys.candidate].includes(side)));
}

// The text of a place without a result.
function absent(card, values, side) {
  return isWithheld(card, values, side) ? "not compared" : "–";
}

// The answer of a card: its kind, short text, sentence, value and effect.
function answerOf(id, values) {
  const { by, answers: list } = answers.cards[id];
  return list[by[answers.picks.map((axis) => values[axis] ?? "").join("|")] ?? 0];
}

// Nobody runs the commands of svnbench at work.
function isForWork({ command }) {
  return !command?.startsWith("null-");
}

function durationOf(seconds) {
  if (seconds < 1) return "less than 1 s";
  const minutes = Math.round(seconds / 60);
  return seconds < 90 ? `${Number(seconds.toPrecision(2))} s` : minutes < 90 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}

// A size in a binary unit with two digits.
function sizeOf(bytes) {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return `${written(Number((bytes / 1024 ** power).toPrecision(2)), ["bytes", "KiB", "MiB", "GiB", "TiB"][power])}`;
}

// The times of a load and of packing for a number of revisions.
function workOf(count) {
  const { revisions, seconds, pack_seconds: packing, in_memory: isInMemory } = answers.estimate;
  const scale = count / revisions;
  return { load: `${durationOf(seconds * scale)}${isInMemory ? ` in memory, up to ${durationOf(LONGER_ON_DISK * seconds * scale)} on a disk` : ""}`,
           pack: packing && `${durationOf(packing * scale)}${isInMemory ? " in memory, not measured on a disk" : ""}` };
}

// The reader's number of revisions, 0 if the address has none.
function revisionsOf(given) {
  const count = Math.round(Number(given.get("revisions")));
  return count > 0 && count < 1e9 ? count : 0;
}

// The times of a load and of packing, and the length of all files, for the reader's number of revisions.
function applyEstimate(given) {
  const input = document.getElementById("revisions");
  if (!input) return;
  const count = revisionsOf(given);
  input.value = count || "";
  const { revisions, bytes } = answers.estimate;
  const scale = count / revisions;
  const { load, pack } = workOf(count);
  const names = { nopack: "loaded", pack: "packed" };
  const sizes = Object.entries(bytes).filter(([format]) => [undefined, format].includes(picked().format) || !bytes[picked().format])
    .map(([format, of]) => `${labelOf("format", format)} ${Object.entries(of).sort().map(([name, size]) => `${sizeOf(size * scale)} ${names[name] ?? name}`).join(" or ")}`);
  const length = sizes.length && `length of all files (on disk more, if not packed) ${sizes.join(", ")}`;
  const parts = [`load ${load}`, pack && `pack ${pack}`, length].filter(Boolean);
  const basis = `scaled from the ${written(revisions, "revisions")} of this run, all formats loaded at the same time; larger revisions need more`;
  input.closest("p").querySelector("output").textContent = count
    ? `Estimate for ${written(count, "revisions")}: ${parts.join("; ")} (${basis}).`
    : "Estimates the time of svnadmin load and pack, and the length of all files.";
}

// The number of cells in parts of a grid that have no result yet.
function countOf(cells) {
  const paths = cells.flatMap((part) => Object.entries(part).reduce(
    (all, [axis, value]) => all.flatMap((one) => [value].flat().map((each) => ({ ...one, [axis]: each }))), [{}]));
  const lacking = paths.filter((cell) => !answers.situations.some(({ choices }) => choices.some(([of]) => isPicked(of, cell))));
  return new Set(lacking.map((cell) => Object.entries(cell).sort().join())).size;
}

// The overview. Returns the result of each place ("" if it was not measured), and the cells that lack one.
function applyOverview(values) {
  let isMine = false;
  const places = [];
  const lacking = [];
  const isComplete = mine && [...mine.elements].every(({ name, value }) => !name || value);
  for (const row of document.querySelectorAll(".overview tbody tr")) {
    const keys = keysOf(row);
    const now = new Set();
    const [missing, results] = [[], []];
    let [shown, isLacking] = [0, false];
    for (const square of row.querySelectorAll(".square")) {
      const card = document.getElementById(square.dataset.card);
      const { compares: axis, asked } = card.querySelector(".forest").dataset;
      // Over file, the question of http or svn does not arise.
      if (asked && values[axis] && !asked.split("|").includes(values[axis])) {
        square.replaceChildren();
        continue;
      }
      const rows = comparisonsOf(card, { ...values, ...keys });
      square.replaceChildren(...rows.length ? chipsOf(rows, axis, values[axis]) : [absent(card, { ...values, ...keys })]);
      const sides = [...card.querySelectorAll(".forest tbody tr")].flatMap((one) => one.dataset.sides.split("|"));
      const isRefused = !rows.length && isWithheld(card, { ...values, ...keys });
      if (!rows.length && isComplete && !isRefused) missing.push({ ...keys, ...values, [axis]: [...new Set([values[axis], ...sides])] });
      const kinds = rows.map(({ className }) => className);
      results.push(kinds.find((kind) => !["undecided", "small"].includes(kind)) ?? kinds[0] ?? (isRefused ? "withheld" : ""));
      shown += rows.length;
    }
    for (const { where, choices } of answers.situations) {
      if (!choices.length || !isPicked(where, { ...values, ...keys })) continue;
      const choice = choiceIn(choices, values);
      shown += 1;
      isLacking ||= isComplete && !choice;
      if (choice) now.add(choice[1]);
    }
    row.hidden = !shown;
    if (shown) lacking.push(...missing);
    if (shown) places.push(...results);
    row.querySelector(".now").textContent = [...now].join(", ") || (isLacking ? "not measured" : "");
    isMine ||= now.size > 0;
  }
  document.querySelectorAll(".overview .now").forEach((cell) => { cell.hidden = !isMine; });
  const signs = [...document.querySelectorAll(".overview tbody tr:not([hidden])")].map((row) => row.innerHTML).join("");
  for (const line of document.querySelectorAll("#overview-key [data-show]")) line.hidden = !new RegExp(line.dataset.show).test(signs);
  return { places, lacking };
}

// The disturbed comparisons that fit the picks, by question.
function applyDisturbed(values) {
  const line = document.getElementById("disturbed");
  if (!line) return;
  line.hidden = !Object.keys(values).length;
  const cards = allCards.filter((card) => card.querySelector(".forest")).map((card) => [card, comparisonsOf(card, values)]);
  const all = cards.flatMap(([, rows]) => rows);
  const number = all.filter(isDisturbed).length;
  const named = cards.map(([card, rows]) => [card, rows.filter(isDisturbed)]).filter(([, rows]) => rows.length)
    .map(([card, rows]) => `${card.querySelector("h3").textContent} ${rows.map((row) => row.cells[0].textContent).join("; ")}.`);
  const names = number && number < all.length ? ` (!): ${named.join(" ")}` : ".";
  line.textContent = `Disturbed with what you have: ${number} of ${written(all.length, "comparisons")}${names}`;
}

// Overview, cards, their cases and the situations that fit the picks.
function applyCase() {
  // The filter of the tables has other axes, which answers do not follow.
  const values = Object.fromEntries(Object.entries(picked()).filter(([axis]) => mine?.elements[axis]));
  for (const control of mine?.elements ?? []) if (control.name) control.value = values[control.name] ?? "";
  const actions = answers ? actionsOf(values) : { steps: [], others: [] };
  const changes = [...actions.steps, ...actions.others.filter(({ kind }) => ["do", "depends"].includes(kind))];
  for (const [anchor, { answers: [all] }] of Object.entries(answers?.cards ?? {})) {
    const card = document.getElementById(anchor);
    const answer = answerOf(anchor, values);
    const [kind, short, sentence, value] = answer;
    card.className = `card ${kind.replaceAll(" ", "-")}`;
    card.querySelector(".answer").textContent = short;
    const [, overall, , , effect] = all;
    const isOther = answer !== all && overall !== short;
    const axis = card.querySelector(".forest")?.dataset.compares;
    // A value to keep if nothing else changes can be worth it after other changes.
    const later = changes.find((change) => change.axis === axis && value && value === values[axis]);
    const lead = later && !actions.steps.includes(later) ? leadOf(later).toLowerCase() : "with the other steps";
    const other = later ? ` In the steps above, ${lead}: ${labelOf(axis, later.value)}.` : "";
    card.querySelector(".sentence").textContent = `${sentence}${other}${isOther ? ` Over all cases: ${overall}: ${effect}.` : ""}`;
    const scope = Object.keys(values).length ? "With what you have" : "Over all cases measured";
    card.querySelector(".scope").textContent = `${scope}, if you change only this:`;
    // A reader who has the value has nothing to apply.
    for (const action of card.querySelectorAll(".do")) {
      action.hidden = Boolean(action.dataset.value) && action.dataset.value === values[axis];
      action.open = action.dataset.value === value;
    }
    const otherServer = { http: "svnserve", svn: "httpd" }[values.ra];
    for (const step of card.querySelectorAll("[data-server]")) {
      step.hidden = step.dataset.server === otherServer;
    }
  }
  const situations = [...document.querySelectorAll(".situations tbody tr")];
  for (const row of situations) row.hidden = !isPicked(keysOf(row), values);
  const fitting = situations.filter((row) => !row.hidden).length;
  if (situations.length) document.getElementById("situation-count").textContent = `${fitting} of ${written(situations.length, "situations")}`;
  for (const details of document.querySelectorAll(".card .cases")) {
    const rows = [...details.querySelectorAll("tbody tr")];
    const shown = new Set(comparisonsOf(details.closest(".card"), values));
    rows.forEach((row) => { row.hidden = !shown.has(row); });
    const text = [...shown].map((row) => row.textContent).join();
    for (const line of details.querySelectorAll("[data-mark]")) line.hidden = !text.includes(line.dataset.mark);
    // Answers count cases. One with three values has two comparisons.
    const number = new Set([...shown].map(({ dataset }) => dataset.of)).size;
    details.querySelector("summary").textContent = `${shown.size} of ${rows.length} comparisons${number < shown.size ? ` (${written(number, "cases")})` : ""}`;
  }
  applyFirst(values, applyOverview(values), actions);
  applyDisturbed(values);
}

function makeCase() {
  document.getElementById("revisions")?.addEventListener("change", ({ target }) => select({ revisions: target.value }));
  if (!mine) return;
  mine.addEventListener("submit", (event) => event.preventDefault());
  mine.addEventListener("change", ({ target }) => select({ [target.name]: target.value }));
  mine.addEventListener("reset", (event) => {
    event.preventDefault();
    select(Object.fromEntries([...mine.elements].map(({ name, id }) => [name || id, ""])));
  });
  const presets = [...mine.elements].filter(({ dataset }) => dataset.preset);
  if (!state().given.size && presets.length) {
    const given = new URLSearchParams(presets.map(({ name, dataset }) => [name, dataset.preset]));
    history.replaceState(null, "", `#${[encodeURIComponent(state().anchor), given].filter(String).join("&")}`);
  }
}

// Paper cannot unfold. Published tables would fill most of it; only the advised commands stay.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open], .whole, .do)")];
  folded.forEach((details) => { details.open = true; });
});
window.addEventListener("afterprint", () => { folded.forEach((details) => { details.open = false; }); });

async function start() {
  for (const grid of grids) {
    makeReachable(grid);
    makeCopyable(grid);
  }
  makeCommandsCopyable(document);
  await readDetails();
  answers = await unpacked("answers");
  makeCase();
  makeFilter(answers?.labels ?? {});
  listeners.unshift(applyCase, applyEstimate, applyFilter);
  update();
  goToAnchor();
  document.documentElement.dataset.ready = "yes";
}

start();
