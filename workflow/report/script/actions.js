// The head of the answers: what to change, in order of worth, with evidence, cost and the way back.

// The results of a value against the present one. Each command has the last of the states with a decided result:
// the picks, then these after some steps, then after all. A result has its factor, times, and the steps before it.
function resultsOf(card, axis, value, states) {
  const found = new Map();
  states.forEach(({ picks: state, steps: taken }) => {
    const rows = state[axis] === value ? [] : comparisonsOf(card, state).filter(({ dataset }) => dataset.sides.split("|").includes(value));
    const results = rows.map((row) => {
      const { sides, winner, gain, times } = row.dataset;
      const isLast = sides.endsWith(`|${value}`);
      const kind = !winner ? row.className : winner === labelOf(axis, value) ? "faster" : "slower";
      const both = times ? times.split("|") : [];
      return { name: operationOf(row), keys: keysOf(row), kind, gain: Number(gain), isDisturbed: isDisturbed(row), taken, times: isLast ? both : both.reverse() };
    });
    for (const [name, list] of groupedBy(results, (one) => one.name)) {
      if (!found.has(name) || list.some(({ kind }) => !["undecided", "small"].includes(kind))) found.set(name, list);
    }
  });
  // Commands of svnbench decide only where the question has no others.
  const hasWork = states.some(({ picks }) => comparisonsOf(card, picks).some((row) => isForWork(keysOf(row))));
  return [...found.values()].flat().filter(({ keys }) => !hasWork || isForWork(keys));
}

// A change to a value and its verdict, by regret: "do" if it loses nowhere more than the smallest effect worth noting.
// Its worth is the sum over commands of ln(factor), weighted by a workload.
function changeTo(card, axis, value, states) {
  const results = resultsOf(card, axis, value, states);
  const [gain, loss] = ["faster", "slower"].map((word) => Math.max(1, ...results.filter(({ kind }) => kind === word).map((one) => one.gain)));
  const number = (name) => results.filter((one) => one.name === name).length;
  const worth = results.reduce((sum, { name, keys, kind, gain: factor }) => sum
    + weightOf(keys) / number(name) * Math.log(factor) * (kind === "slower" ? -1 : 1), 0);
  const isGood = answers.workload.length ? worth > 0 : !isNotable(loss);
  const open = results.every(({ kind }) => kind === "small") ? "too small" : "undecided";
  const kind = !results.length ? "not measured"
    : gain === 1 && loss === 1 ? (results.some((one) => one.kind === "equal") ? "equal" : open)
      : isNotable(gain) ? (isGood ? "do" : "depends") : isNotable(loss) ? "keep" : "slight";
  return { card, axis, value, results, kind, worth, ...answers.actions[axis]?.[value] };
}

function weightOf(keys) {
  const parts = answers.workload.filter(({ where }) => isPicked(keys, where));
  return answers.workload.length ? parts.reduce((sum, { weight }) => sum + weight, 0) : 1;
}

const VERDICTS = ["do", "depends", "slight", "equal", "undecided", "too small", "keep", "not measured"];

// The changes of a card, the best first. Without a pick, they are changes to the recommended value from the others.
function changesOf(card, states) {
  const { tBodies: [{ rows }], dataset: { compares: axis } } = card.querySelector(".forest");
  const sides = [...new Set([...rows].flatMap(({ dataset }) => dataset.sides.split("|")))];
  const present = states[0].picks[axis] ?? "";
  const advised = present ? [] : states.map(({ picks }) => answerOf(card.id, picks)).filter(([kind]) => ["value", "depends"].includes(kind));
  const values = advised.length ? [advised.at(-1)[3]] : sides.filter((value) => value !== present);
  const changes = values.map((value) => ({ ...changeTo(card, axis, value, states), present }));
  const rank = ({ kind, worth }) => 1000 * VERDICTS.indexOf(kind) - worth;
  return changes.sort((one, other) => rank(one) - rank(other));
}

// The steps without a condition, then all other changes. Of the next steps these come first that lose nowhere, also
// after one of the others; of these the largest worth.
function actionsOf(values) {
  const cards = allCards.filter((card) => answers.cards[card.id] && card.querySelector(".forest"));
  const steps = [];
  let states = [{ picks: values, steps: [] }];
  for (;;) {
    const open = cards.filter((card) => !steps.some((step) => step.card === card)).map((card) => changesOf(card, states));
    const free = open.map((changes) => changes.find(({ kind, condition }) => kind === "do" && !condition)).filter(Boolean)
      .sort((one, other) => other.worth - one.worth);
    const loses = (change) => change.results.some(({ kind }) => kind === "slower") || free.some(({ axis, value }) => axis !== change.axis
      && resultsOf(change.card, change.axis, change.value, [after(states.at(-1), { axis, value })]).some(({ kind }) => kind === "slower"));
    const next = free.find((change) => !loses(change)) ?? free[0];
    if (!next) {
      // A better value of the same card that has a condition.
      const instead = steps.map(({ card, worth }, n) => changesOf(card, states.slice(0, 1))
        .filter((change) => change.kind === "do" && change.condition && change.worth > worth).slice(0, 1).map((change) => ({ ...change, instead: n + 1 })));
      const others = [...open.map(([best]) => best), ...instead.flat()].filter(Boolean);
      return { steps, states, others: others.sort((one, other) => other.worth - one.worth) };
    }
    steps.push(next);
    states = [...states, ...states.map((state) => after(state, next, steps.length))].sort((one, other) => one.steps.length - other.steps.length);
  }
}

function after({ picks, steps }, { axis, value }, number) {
  return { picks: { ...picks, [axis]: value }, steps: [...steps, number] };
}

// "cold log 1.7x faster (0.81 s → 0.49 s; disturbed), cold export 5.9 % faster (sure but small)". After two commands:
// others. The first has its times, or all.
function phraseOf(results, word, of = results, isTimed = false) {
  const names = [...groupedBy(results, (one) => one.name)].map(([name, list]) => {
    const all = of.filter((one) => one.name === name);
    const won = list.filter(({ kind }) => kind === word);
    return { name, won, gains: won.map(({ gain }) => gain), number: won.length < all.length ? ` in ${won.length} of ${all.length}` : "" };
  }).filter(({ won }) => won.length).sort((one, other) => Math.max(...other.gains) - Math.max(...one.gains));
  const most = names.length > 3 ? 2 : 3;
  const others = names.slice(most).flatMap(({ won }) => won);
  const texts = names.slice(0, most).map(({ name, won, gains, number }, n) => {
    const [{ times: [before, after] }] = won;
    const times = (isTimed || !n) && gains.length === 1 && !number && after;
    return `${name} ${factorsOf(gains)} ${word}${number}${notesOf(times && `${before} → ${after}`, won)}`;
  });
  return [...texts, ...others.length ? [`others ${factorsOf(others.map(({ gain }) => gain))} ${word}${notesOf("", others)}`] : []].join(", ");
}

function notesOf(times, results) {
  const isSlight = !results.some(({ gain }) => isNotable(gain));
  const notes = [times, isSlight && answers.slight, results.some((one) => one.isDisturbed) && "disturbed"].filter(Boolean);
  return notes.length ? ` (${notes.join("; ")})` : "";
}

function stepsText(numbers) {
  const isRange = numbers.length > 2 && numbers.at(-1) - numbers[0] === numbers.length - 1;
  if (numbers.length === 1) return `step ${numbers[0]}`;
  return `steps ${isRange ? `${numbers[0]} to` : `${numbers.slice(0, -1).join(", ")} and`} ${numbers.at(-1)}`;
}

// The evidence for a change, a line for each state it was measured in: what one has now, or after other steps.
function proofOf({ card, axis, value, results: judged }, states, steps) {
  const [first] = states;
  // A command without a result so far can have one after a later step.
  const number = steps.length + 1;
  const more = resultsOf(card, axis, value, states.filter(({ steps: taken }) => !taken.includes(number)));
  const results = [...judged, ...more.filter(({ name }) => !namesOf(judged).includes(name))];
  // A loss now of a command that has its last result after other steps.
  const before = resultsOf(card, axis, value, [first]);
  const later = results.filter(({ kind, taken }) => kind === "faster" && taken.length).map(({ name }) => name);
  const early = before.filter(({ name, kind, gain }) => kind === "slower" && isNotable(gain) && later.includes(name));
  const groups = groupedBy([...early, ...results].sort((one, other) => one.taken.length - other.taken.length), (one) => one.taken.join());
  const lines = [...groups.values()].map((list) => {
    const [{ taken }] = list;
    const phrases = ["faster", "slower"].map((word) => phraseOf(list, word));
    const decided = list.filter(({ kind }) => ["faster", "slower"].includes(kind)).map(({ name }) => name);
    for (const [kind, word] of Object.entries(OUTCOMES)) {
      const names = namesOf(list, [kind]).filter((name) => !decided.includes(name));
      if (names.length) phrases.push(`${word}: ${names.join(", ")}`);
    }
    const skipped = steps.map((_, n) => n + 1).filter((number) => !taken.includes(number));
    const state = taken.length ? `After ${stepsText(taken)}${skipped.length ? ` without ${stepsText(skipped)}` : ""}` : "Alone";
    return [state, phrases.filter(Boolean).join("; ")];
  });
  if (namesOf(results, ["faster"]).length && !namesOf([...early, ...results], ["slower"]).length) lines.push(["Slower", "in no case measured"]);
  const known = namesOf(results);
  const lacking = operationsOf(first.picks).filter((name) => !known.includes(name));
  if (results.length && lacking.length) lines.push(["Not measured", lacking.join(", ")]);
  return lines;
}

function namesOf(results, kinds) {
  return [...new Set(results.filter(({ kind }) => !kinds || kinds.includes(kind)).map(({ name }) => name))];
}

// The commands of daily work, with their caches, that the grid has for some picks.
function operationsOf(values) {
  return [...document.querySelectorAll(".overview tbody tr")].filter((row) => isForWork(keysOf(row)) && answers.situations.some(
    ({ where, choices }) => choices.length && isPicked(where, { ...values, ...keysOf(row) }))).map(nameOf);
}

// The measured effect of several steps together on the reader's own combination, if it differs.
function togetherText(values, target, numbers) {
  const [found, lacking, equal] = [[], [], []];
  for (const { where, name, choices } of answers.situations) {
    if (!choices.length || !isPicked(where, values) || !isForWork(where)) continue;
    const [now, next] = [choiceIn(choices, values), choiceIn(choices, target)];
    const gain = now && next && now[3] / next[3];
    if (!gain || !isNotable(gain)) {
      (gain ? equal : lacking).push(name);
      continue;
    }
    // Calls are against the best choice. One that is not called, and slower by more than the smallest effect, is open.
    const isOpen = ![now[2], next[2]].includes("slower") || [now, next].some(([, , call, ratio]) => call === "undecided" && isNotable(ratio));
    const kind = `${gain > 1 ? "faster" : "slower"}${isOpen ? " but undecided" : ""}`;
    found.push({ name, kind, gain: Math.max(gain, 1 / gain), times: [now[1], next[1]] });
  }
  const texts = [...new Set(found.map(({ kind }) => kind))].sort().map((kind) => phraseOf(found.filter((one) => one.kind === kind), kind, undefined, true));
  for (const [word, names] of Object.entries({ "not notably different": equal, "not measured": lacking })) if (names.length) texts.push(`${word}: ${names.join(", ")}`);
  const steps = stepsText(numbers);
  return [`${steps[0].toUpperCase()}${steps.slice(1)} together, against now`, texts.join("; ")];
}

// The time and the disk space of a change for the reader's number of revisions.
function effortOf({ axis, value }, values) {
  const count = Number(state().given.get("revisions")) || 0;
  const { revisions, bytes } = answers.estimate;
  if (!count || !revisions) return "";
  const size = (format, number) => bytes[format]?.nopack && sizeOf(bytes[format].nopack / revisions * number);
  const { load, pack } = workOf(count);
  const [time, disk] = axis === "format" ? [load, size(value, count)]
    : axis === "packing" && value === "pack" ? [pack, size(values.format, Math.min(count, answers.shard))] : [];
  return time ? ` For ${written(count, "revisions")}: ${time}${disk ? `, ${disk} of free disk` : ""}.` : "";
}

function stepOf(change, before, lead, states, together) {
  const { axis, value, card, cost, undo } = change;
  const packs = before.findIndex((step) => step.axis === "packing") + 1;
  const order = axis === "format" && packs ? `, before step ${packs} (the new repository is not packed)` : "";
  const texts = { Cost: `${cost ?? ""}${effortOf(change, states[0].picks)}`, Undo: undo };
  const price = Object.entries(texts).filter(([, text]) => text).flatMap(([name, text]) => [made("b", `${name}:`), ` ${text} `]);
  const lines = [...proofOf(change, states, before), ...together ? [together] : []];
  return made("li", "", made("b", `${lead}: ${labelOf(axis, value)}${order}.`), " ",
    made("ul", "", ...lines.map(([state, text]) => made("li", "", made("b", `${state}: `), `${text}. `))),
    made("small", "", ...price, linkTo(card.id, "Commands")));
}

// The condition of a change that makes some commands faster and others slower.
function leadOf({ results, kind, condition, instead }) {
  const [won, lost] = ["faster", "slower"].map((word) => namesOf(results, [word]));
  const isSplit = kind === "depends" && !answers.workload.length && !won.some((name) => lost.includes(name));
  if (kind === "depends" && !isSplit) return `Depends on what you run${condition ? `, only if ${condition}` : ""}`;
  const parts = [isSplit && `${won.join(", ")} ${won.length > 1 ? "matter" : "matters"} more to you than ${lost.join(", ")}`, condition];
  return `Only if ${parts.filter(Boolean).join(", and ")}${instead ? `, instead of step ${instead}` : ""}`;
}

function linkTo(id, text) {
  return Object.assign(made("a", text), { href: `#${id}` });
}

// The list of actions, then what to keep, what depends, and what is open.
function actionLines({ steps, states, others }, values, isComplete) {
  const { picks: target, steps: numbers } = states.at(-1);
  const items = steps.map((step, n) => stepOf(step, steps.slice(0, n), n ? "Then" : "Do first", states,
    isComplete && n && n === steps.length - 1 && togetherText(values, target, numbers)));
  for (const change of [...others.filter(({ kind }) => kind === "do"), ...others.filter(({ kind }) => kind === "depends")]) {
    const number = items.length + 1;
    // Combinations are compared within an access.
    const isWithin = !answers.situations.some(({ where }) => where[change.axis]);
    const isJoined = isComplete && steps.length && isWithin && !change.instead;
    const together = isJoined && togetherText(values, { ...target, [change.axis]: change.value }, [...numbers, number]);
    items.push(stepOf(change, steps, leadOf(change), states, together));
  }
  const lines = items.length ? [made("ol", "", ...items)] : [made("p", "", made("b", "Nothing to change: no change is shown to be worth it."))];
  lines[0].className = "actions";
  const of = (kinds) => others.filter(({ kind }) => kinds.includes(kind));
  const textOf = (change, value) => {
    const evidence = proofOf(change, states, steps).filter(([state]) => !["Slower", "Not measured"].includes(state))
      .map(([state, text]) => `${state[0].toLowerCase()}${state.slice(1)}: ${text}`).join("; ");
    return `${value} (${value === labelOf(change.axis, change.value) ? "" : `${labelOf(change.axis, change.value)} `}${evidence})`;
  };
  const groups = {
    "No reason to change": of(["keep", "equal", "slight"]).map((change) => textOf(change, labelOf(change.axis, change.present))),
    "Undecided, too noisy or too few rounds": of(["undecided"]).map(({ axis, value }) => labelOf(axis, value)),
    "Too small to compare": of(["too small"]).map(({ axis, value }) => labelOf(axis, value)),
    // Over file, settings of servers are no choice.
    "Not measured for what you have": of(["not measured"]).filter(({ card }) => comparisonsOf(card, values.ra ? { ra: values.ra } : {}).length)
      .map(({ card }) => card.querySelector("h3").textContent),
  };
  for (const [title, texts] of Object.entries(groups)) {
    if (texts.length) lines.push(made("p", "", made("b", `${title}: `), `${texts.join("; ").replace(/\?$/, "")}.`));
    if (texts.length && title.startsWith("Undecided") && document.getElementById("next")) lines.at(-1).append(" ", linkTo("next", "Next steps"));
  }
  return lines;
}

// How many places of the overview have a result, and the command that measures the others.
function coverageLines({ places, lacking }, hasPicks) {
  const count = (kind) => places.filter((one) => one === kind).length;
  const measured = places.length - count("");
  const open = Object.entries({ undecided: "undecided", small: "too small to compare" }).filter(([kind]) => count(kind))
    .map(([kind, word]) => `${count(kind)} ${word}`);
  const answered = !open.length ? ", all answered" : `: ${[`${measured - count("undecided") - count("small")} answered`, ...open].join(", ")}`;
  const text = `${measured} of ${written(places.length, "places")} of this table were measured${measured ? answered : ""}`;
  const lines = hasPicks ? [made("p", `${text}${count("") ? `; ${count("")} (–) were not` : ""}.`)] : [];
  if (lacking.length && answers.include.length) {
    const number = countOf(lacking);
    const time = answers.cell_s ? `, about ${durationOf(number * answers.cell_s)}` : "";
    lines.push(made("details", "", made("summary", `Measure the places marked –, too (they compare ${written(number, "cells")} that have no result yet${time})`), commandOf(commandToAdd(lacking))));
  }
  return lines;
}

// What the reader has, and what to do.
function applyFirst(values, overview, actions) {
  const first = document.getElementById("first");
  if (!first) return;
  const has = Object.entries(values).map(([axis, value]) => labelOf(axis, value));
  const open = [...mine?.elements ?? []].filter(({ name, value }) => name && !value).map(({ name }) => labelOf(name, ""));
  const text = !has.length ? " For your own numbers, pick what you have above." : open.length ? ` Pick ${open.join(", ")} as well for your times.` : "";
  const head = made("p", "", made("b", has.length ? `You have: ${has.join(", ")}.` : "All cases measured."), mine ? text : "");
  first.replaceChildren(head, ...actionLines(actions, values, has.length && !open.length), ...coverageLines(overview, has.length));
  makeCommandsCopyable(first);
  const uncertain = document.getElementById("uncertain");
  if (uncertain) uncertain.hidden = Boolean(has.length);
}
