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

// A comparison with runs during which other programs took time of the machine.
function isDisturbed({ dataset }) {
  return dataset.disturbed === "yes";
}

// The results of some comparisons: a chip for each faster value, then for equal and undecided ones.
function chipsOf(rows, axis, current) {
  const groups = new Map();
  for (const row of rows) {
    const name = row.dataset.winner || OUTCOMES[row.className];
    groups.set(name, [...groups.get(name) ?? [], row]);
  }
  return [...groups].map(([name, members]) => {
    const [{ className, dataset: { winner, times, range } }] = members;
    const isKept = current && winner === labelOf(axis, current);
    const gain = winner && ` ${factorsOf(members.map(({ dataset }) => Number(dataset.gain)))} faster`;
    const chip = made("span", `${isKept ? "keep " : ""}${name}${gain}${rows.length > 1 ? ` in ${members.length}` : ""}`);
    chip.className = `chip ${className}`;
    const disturbed = members.filter(isDisturbed).length;
    if (disturbed) chip.append(" ", made("i", `!${rows.length > 1 ? ` ${disturbed}` : ""}`));
    if (rows.length > 1) return chip;
    const [slower, faster] = className === "reference" ? times.split("|").reverse() : times.split("|");
    const change = isKept ? `${faster} against ${slower}` : `${slower} → ${faster}`;
    const more = { candidate: faster && change, reference: faster && change, undecided: range }[className];
    if (more) chip.append(made("small", more));
    return chip;
  });
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

function operationOf(row) {
  return nameOf([...document.querySelectorAll(".overview tbody tr")].find((one) => isPicked(keysOf(row), keysOf(one))));
}

// Nobody runs the commands of svnbench at work.
function isForWork({ command }) {
  return !command?.startsWith("null-");
}

// The result of one change over the cases that fit, and its text, with or without the names of commands.
function effectOf(axis, value, values, isNamed = false) {
  const card = allCards.find((one) => one.querySelector(".forest")?.dataset.compares === axis);
  const rows = (card ? comparisonsOf(card, values) : []).filter((row) => isForWork(keysOf(row)) && row.dataset.sides.split("|").includes(value));
  const [kinds, texts] = [[], []];
  for (const word of ["faster", "slower"]) {
    const won = rows.filter(({ dataset: { winner } }) => winner && (winner === labelOf(axis, value)) === (word === "faster"));
    if (!won.length) continue;
    const gains = won.map(({ dataset }) => Number(dataset.gain));
    kinds.push(word);
    texts.push(`${isNamed ? won.map((row, n) => `${operationOf(row)} ${factorOf(gains[n])}`).join(", ") : factorsOf(gains)} ${word}`
      + (isNamed || rows.length === 1 ? "" : ` in ${won.length} of ${rows.length}`));
  }
  for (const [kind, word] of isNamed || !texts.length ? [] : Object.entries(OUTCOMES)) {
    const number = rows.filter(({ className }) => className === kind).length;
    if (number) texts.push(`${word} in ${number}`);
  }
  const others = [...new Set(rows.map(({ className }) => OUTCOMES[className]))];
  const other = others.length > 1 ? "undecided" : others[0] ?? "not measured";
  return { kind: kinds.length > 1 ? "mixed" : kinds[0] ?? other, text: texts.join(", ") || other };
}

// The changes of a recommended combination by certainty: "Certain for you: packed. Perhaps: f7." And the result of each.
function certaintyOf(apart, advised, values, isComplete) {
  const groups = { faster: [], mixed: [], slower: [], equal: [], undecided: [] };
  const texts = new Map();
  for (const axis of apart) {
    const alone = effectOf(axis, advised[axis], values, isComplete);
    // Over file, settings of servers are no choice.
    if (alone.kind === "not measured" && !values[axis]) continue;
    const together = effectOf(axis, advised[axis], { ...values, ...advised, [axis]: values[axis] ?? "" }, isComplete);
    const more = alone.kind !== "faster" && together.kind === "faster" ? `; with the others ${together.text}` : "";
    texts.set(axis, `${alone.text} alone${more}`);
    const text = isComplete ? alone.kind === "faster" ? "" : ` (${alone.kind === "mixed" ? alone.text : `${alone.kind} alone`})` : ` (${alone.text})`;
    (groups[alone.kind] ?? groups.undecided).push(`${labelOf(axis, advised[axis])}${text}`);
  }
  const names = { faster: isComplete ? "Certain for you" : "Certain", mixed: "Faster and slower", slower: "Slower", equal: "Equal", undecided: "Perhaps" };
  const parts = Object.entries(groups).filter(([, list]) => list.length).map(([kind, list]) => `${names[kind]}: ${list.join(", ")}.`);
  return [parts.join(" "), texts];
}

// The single changes from the reader's choice to another, in the order of applying them, with their calls.
function stepsOf(choices, now, last) {
  const steps = new Map();
  for (const axis of answers.changes.filter((name) => axesApart(now, last).includes(name))) {
    const next = choices.find((choice) => axesApart(choice, now).join() === axis && choice[0][axis] === last[0][axis]);
    if (!next) return new Map();
    steps.set(axis, `${now[1]} → ${next[1]} (${effectOf(axis, next[0][axis], now[0]).text})`);
    now = next;
  }
  return steps;
}

function axesApart([one], [other]) {
  return Object.keys(one).filter((axis) => one[axis] !== other[axis]);
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

// The times of a load and of packing, and the disk space, for the reader's number of revisions.
function applyEstimate(given) {
  const input = document.getElementById("revisions");
  if (!input) return;
  const count = Number(given.get("revisions")) || 0;
  input.value = count || "";
  const { revisions, seconds, pack_seconds: packing, in_memory: isInMemory, bytes } = answers.estimate;
  const scale = count / revisions;
  const load = `${durationOf(seconds * scale)}${isInMemory ? ` in memory, up to ${durationOf(LONGER_ON_DISK * seconds * scale)} on a disk` : ""}`;
  const names = { nopack: "loaded", pack: "packed" };
  const sizes = Object.entries(bytes).filter(([format]) => [undefined, format].includes(picked().format) || !bytes[picked().format])
    .map(([format, of]) => `${labelOf("format", format)} ${Object.entries(of).sort().map(([name, size]) => `${sizeOf(size * scale)} ${names[name] ?? name}`).join(" and ")}`);
  const parts = [`load ${load}`, packing && `pack ${durationOf(packing * scale)}${isInMemory ? " in memory, longer on a disk" : ""}`,
                 sizes.length && `disk space ${sizes.join(", ")}`].filter(Boolean);
  const basis = `scaled from the ${written(revisions, "revisions")} of this run, all formats loaded at the same time; larger revisions need more`;
  input.closest("p").querySelector("output").textContent = count
    ? `Estimate for ${written(count, "revisions")}: ${parts.join("; ")} (${basis}).`
    : "Type it for an estimate of the time of svnadmin load and pack, and of the disk space.";
}

// The command that adds cells to the grid of this run.
function commandToAdd(cells) {
  const { study, args } = known.of;
  const text = JSON.stringify({ grid: { [study]: { include: [...answers.include, ...cells] } } });
  return `printf '%s\\n' ${quoted(text)} >more.yaml && make report ${withArgs(`${args} --configfile more.yaml`)}`;
}

// The number of cells in parts of a grid that have no result yet.
function countOf(cells) {
  const paths = cells.flatMap((part) => Object.entries(part).reduce(
    (all, [axis, value]) => all.flatMap((one) => [value].flat().map((each) => ({ ...one, [axis]: each }))), [{}]));
  const lacking = paths.filter((cell) => !answers.situations.some(({ choices }) => choices.some(([of]) => isPicked(of, cell))));
  return new Set(lacking.map((cell) => Object.entries(cell).sort().join())).size;
}

// The overview. Returns the largest gain of each card that has any, and the cells that lack a result.
function applyOverview(values) {
  let isMine = false;
  const gains = new Map();
  const lacking = [];
  const isComplete = mine && [...mine.elements].every(({ name, value }) => !name || value);
  for (const row of document.querySelectorAll(".overview tbody tr")) {
    const keys = keysOf(row);
    const now = new Set();
    const missing = [];
    let [shown, isLacking] = [0, false];
    for (const square of row.querySelectorAll(".square")) {
      const card = document.getElementById(square.dataset.card);
      const axis = card.querySelector(".forest").dataset.compares;
      const rows = comparisonsOf(card, { ...values, ...keys });
      square.replaceChildren(...rows.length ? chipsOf(rows, axis, values[axis]) : ["–"]);
      const sides = [...card.querySelectorAll(".forest tbody tr")].flatMap((one) => one.dataset.sides.split("|"));
      if (!rows.length && isComplete) missing.push({ ...keys, ...values, [axis]: [...new Set([values[axis], ...sides])] });
      for (const { dataset: { winner, gain } } of rows) {
        const isChange = winner && winner !== labelOf(axis, values[axis]) && isForWork(keys);
        if (isChange && gain > (gains.get(card)?.gain ?? 1)) gains.set(card, { gain: Number(gain), winner, operation: nameOf(row), axis });
      }
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
    row.querySelector(".now").textContent = [...now].join(", ") || (isLacking ? "not measured" : "");
    isMine ||= now.size > 0;
  }
  document.querySelectorAll(".overview .now").forEach((cell) => { cell.hidden = !isMine; });
  const signs = [...document.querySelectorAll(".overview tbody tr:not([hidden])")].map((row) => row.innerHTML).join("");
  for (const line of document.querySelectorAll("#overview-key [data-show]")) line.hidden = !new RegExp(line.dataset.show).test(signs);
  return { gains: [...gains.values()], lacking };
}

// The recommended combination against the reader's own: what is certain, the effect by command, and the steps in order.
function recommendationOf({ where, label, values: advised, name, text }, values, isComplete) {
  const results = { faster: [], slower: [], equal: [], undecided: [], "not measured": [] };
  let [most, best, steps] = [1, "", new Map()];
  for (const { where: of, name: command, choices } of answers.situations) {
    if (!choices.length || !isPicked(of, { ...values, ...where })) continue;
    const now = choiceIn(choices, values);
    const next = choices.find(([axes]) => isPicked(axes, advised));
    const gain = now && next && now[3] / next[3];
    const [before, after] = [now?.[2], next?.[2]];
    // A choice that is measured slower than the best by more than the smallest effect, and not called.
    const isOpen = [now, next].some((choice) => choice?.[2] === "undecided" && choice[3] > answers.notable);
    const isCalled = !isOpen && gain && isNotable(gain) && [before, after].includes("slower");
    const kind = !gain ? "not measured" : isCalled ? (gain > 1 ? "faster" : "slower")
      : now === next || (before === "equal" && after === "equal") ? "equal" : "undecided";
    results[kind].push(isCalled ? `${command} ${factorOf(Math.max(gain, 1 / gain))}` : command);
    if (isCalled && gain > most && isForWork(of)) [most, best, steps] = [gain, command, stepsOf(choices, now, next)];
  }
  const phrases = { faster: (list) => `${list} faster than what you have`, slower: (list) => `${list} slower`,
                    equal: (list) => `equal for ${list}`, undecided: (list) => `undecided for ${list}`,
                    "not measured": (list) => `not measured for ${list}` };
  const parts = Object.entries(results).filter(([, list]) => list.length).map(([kind, list]) => phrases[kind](list.join(", ")));
  const apart = answers.changes.filter((axis) => advised[axis] && advised[axis] !== values[axis]);
  const effect = !isComplete ? `, ${text}` : apart.length ? `: ${parts.join("; ")}` : ": you have it";
  const [certainty, texts] = certaintyOf(apart, advised, { ...values, ...where }, isComplete);
  const line = made("p", isComplete && apart.length ? "All together" : "Recommended", ` ${label && `for ${label}`}`.trimEnd(), ": ", made("b", name), `${effect}.`);
  if (!isComplete) line.append(` ${certainty}`);
  if (!isComplete || !apart.length) return [line];
  const why = apart.includes("format") && apart.includes("packing") ? ", because a load undoes a pack" : "";
  const order = `${apart.length > 1 ? `In this order${why}` : "The change"}${steps.size ? `, with the times of ${best}` : ""}:`;
  const items = apart.map((axis) => made("li", `${labelOf(axis, advised[axis])}: ${texts.get(axis)}${steps.has(axis) ? `. ${steps.get(axis)}` : ""}`));
  return [made("p", "", made("b", certainty)), line, made("p", order), made("ol", "", ...items)];
}

// What the reader has, and the recommended combinations.
function applyFirst(values, { gains, lacking }) {
  const has = Object.entries(values).map(([axis, value]) => labelOf(axis, value));
  const first = document.getElementById("first");
  if (!first) return;
  const open = [...mine?.elements ?? []].filter(({ name, value }) => name && !value).map(({ name }) => labelOf(name, ""));
  const text = !has.length ? " For your own numbers, pick what you have above." : open.length ? ` Pick ${open.join(", ")} as well for your times.` : "";
  const lines = [made("p", "", made("b", has.length ? `You have: ${has.join(", ")}.` : "All cases measured."), mine ? text : "")];
  const fitting = answers.combinations.filter(({ where }) => isPicked(where, values));
  for (const one of fitting) lines.push(...recommendationOf(one, values, has.length && !open.length));
  const changes = gains.filter(({ axis, winner }) => values[axis] && !fitting.some(({ values: of }) => labelOf(axis, of[axis]) === winner))
    .map(({ winner, gain, operation }) => `${winner}, ${operation} ${factorOf(gain)} faster`);
  if (changes.length) lines.push(made("p", `Another change alone: ${changes.join("; ")}.`));
  if (lacking.length && answers.include.length) {
    const number = countOf(lacking);
    const time = answers.cell_s ? ` (${number} cells, about ${durationOf(number * answers.cell_s)})` : "";
    lines.push(made("details", "", made("summary", `Measure the cells marked –, too${time}`), commandOf(commandToAdd(lacking))));
  }
  first.replaceChildren(...lines);
  makeCommandsCopyable(first);
}

// The number of comparisons that fit the picks, by result.
function applyCounts(values) {
  const line = document.getElementById("counts");
  if (!line) return;
  const rows = allCards.filter((card) => card.querySelector(".forest")).flatMap((card) => comparisonsOf(card, values));
  const [small, open] = ["small", "undecided"].map((kind) => rows.filter(({ className }) => className === kind).length);
  const others = [[small, "too small to compare"], [open, "undecided"]].filter(([n]) => n).map(([n, kind]) => `, ${n} ${kind}`);
  line.textContent = Object.keys(values).length ? `With what you have, answered: ${rows.length - small - open} of ${written(rows.length, "comparisons")}${others.join("")}. ` : "";
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
  const key = (answers?.picks ?? []).map((axis) => values[axis] ?? "").join("|");
  for (const [anchor, { by, answers: list }] of Object.entries(answers?.cards ?? {})) {
    const card = document.getElementById(anchor);
    const [kind, short, sentence, value] = list[by[key] ?? 0];
    card.className = `card ${kind.replaceAll(" ", "-")}`;
    card.querySelector(".answer").textContent = short;
    const [, overall, , , effect] = list[0];
    const isOther = key in by && by[key] && overall !== short;
    const axis = card.querySelector(".forest")?.dataset.compares;
    // A value to keep if nothing else changes can differ from that of the recommended combination.
    const together = answers.combinations.filter(({ where, values: advised }) => value && value === values[axis]
      && isPicked(where, values) && (advised[axis] ?? value) !== value).map(({ label, name }) => `${name}${label && ` (${label})`}`);
    const other = together.length ? ` Recommended together: ${together.join("; ")}.` : "";
    card.querySelector(".sentence").textContent = `${sentence}${other}${isOther ? ` Over all cases: ${overall}: ${effect}.` : ""}`;
    const scope = Object.keys(values).length ? "With what you have" : "Over all cases measured";
    card.querySelector(".scope").textContent = `${scope}, if you change only this:`;
    // A reader who has the value has nothing to apply.
    for (const action of card.querySelectorAll(".do")) {
      action.hidden = Boolean(action.dataset.value) && action.dataset.value === values[axis];
      action.open = action.dataset.value === value;
    }
    const other = { http: "svnserve", svn: "httpd" }[values.ra];
    for (const step of card.querySelectorAll("[data-server]")) {
      step.hidden = step.dataset.server === other || step.dataset.useless.split(" ").includes(values.format);
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
  applyFirst(values, applyOverview(values));
  applyCounts(values);
  applyDisturbed(values);
}

function makeCase() {
  document.getElementById("revisions")?.addEventListener("change", ({ target }) => select({ revisions: target.value }));
  if (!mine) return;
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
