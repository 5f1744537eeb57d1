// The head of the answers: a table of what to change, in order of worth, with evidence, cost and the way back.

// The results of a value against the present one. Each command has the last of the states with a decided result:
// the picks, then these after some steps, then after all. A result has its factor and times.
function resultsOf(card, axis, value, states) {
  const found = new Map();
  const operations = [...document.querySelectorAll(".overview tbody tr")];
  states.forEach(({ picks: state }) => {
    const rows = state[axis] === value ? [] : comparisonsOf(card, state).filter(({ dataset }) => dataset.sides.split("|").includes(value));
    const results = rows.map((row) => {
      const { sides, winner, gain, times } = row.dataset;
      const isLast = sides.endsWith(`|${value}`);
      const kind = !winner ? row.className : winner === labelOf(axis, value) ? "faster" : "slower";
      const both = times ? times.split("|") : [];
      return { name: nameOf(operations.find((one) => isPicked(keysOf(row), keysOf(one))) ?? row), keys: keysOf(row), kind, gain: Number(gain), isDisturbed: isDisturbed(row), times: isLast ? both : both.reverse() };
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

// The results of one command as chips, one for each kind: "1.7x faster in 2 of 3 !" with the times of a single one.
function resultChips(list) {
  return [...groupedBy(list, ({ kind }) => kind)].map(([kind, of]) => {
    const gains = of.map(({ gain }) => gain);
    const [word, doubt = ""] = kind.split("|");
    const isDecided = ["faster", "slower"].includes(word);
    const style = doubt ? "undecided" : { faster: "candidate", slower: "reference" }[word] ?? word;
    const text = isDecided ? `${factorsOf(gains)} ${word}${doubt}` : OUTCOMES[word] ?? word;
    const number = of.length < list.length ? ` in ${of.length} of ${list.length}` : "";
    const mark = of.some((one) => one.isDisturbed) && "!";
    const [before, after] = of.length === 1 ? of[0].times : [];
    return chipOf(`${text}${number}`, style, isDecided ? gains : [], mark, after && `${before} → ${after}`);
  });
}

// A row of the head's table: a state of the repository, and for each command the results there.
function resultRow(label, results, names, absentIn = () => "–") {
  const cells = names.map((name) => {
    const list = results.filter((one) => one.name === name);
    return made("td", "", ...list.length ? resultChips(list) : [absentIn(name)]);
  });
  return made("tr", "", Object.assign(made("th", label), { scope: "row" }), ...cells);
}

// A row for each state in which a change was measured: what one has ("as you are"), and after other steps
// ("after: packed, tuned settings").
function proofRows({ card, axis, value }, states, names) {
  const [{ picks: present }] = states;
  const operations = [...document.querySelectorAll(".overview tbody tr")];
  return states.filter(({ picks }) => picks[axis] === present[axis]).flatMap(({ picks }) => {
    const results = resultsOf(card, axis, value, [{ picks }]);
    const changed = Object.entries(picks).filter(([name, of]) => present[name] !== of).map(([name, of]) => labelOf(name, of));
    const state = changed.length ? `after: ${changed.join(", ")}` : Object.keys(present).length ? "as you are" : "alone";
    const absentIn = (name) => absent(card, { ...picks, ...keysOf(operations.find((row) => nameOf(row) === name)) }, value);
    return results.some(({ name }) => names.includes(name)) ? [resultRow(state, results, names, absentIn)] : [];
  });
}

function namesOf(results, kinds) {
  return [...new Set(results.filter(({ kind }) => !kinds || kinds.includes(kind)).map(({ name }) => name))];
}

// The commands of the table: the daily ones that the grid has for some picks, and any with a result.
function namesFor(values, changes) {
  const known = changes.flatMap(({ results }) => namesOf(results));
  return [...document.querySelectorAll(".overview tbody tr")].filter((row) => known.includes(nameOf(row)) || (isForWork(keysOf(row))
    && answers.situations.some(({ where, choices }) => choices.length && isPicked(where, { ...values, ...keysOf(row) })))).map(nameOf);
}

// The measured effect of several steps together on the reader's own combination.
function togetherRow(values, target, numbers, names) {
  const found = [];
  for (const { where, name, choices } of answers.situations) {
    if (!choices.length || !isPicked(where, values) || !isForWork(where)) continue;
    const [now, next] = [choiceIn(choices, values), choiceIn(choices, target)];
    const gain = now && next && now[3] / next[3];
    if (!gain) continue;
    // Calls are against the best choice. One that is not called, and slower by more than the smallest effect, is open.
    const isOpen = ![now[2], next[2]].includes("slower") || [now, next].some(([, , call, ratio]) => call === "undecided" && isNotable(ratio));
    const kind = isNotable(gain) ? `${gain > 1 ? "faster" : "slower"}${isOpen ? "| but undecided" : ""}` : `below ${Math.round(100 * (answers.notable - 1))} %`;
    found.push({ name, kind, gain: Math.max(gain, 1 / gain), times: [now[1], next[1]] });
  }
  const [first, last] = [numbers[0], numbers.at(-1)];
  const isRange = numbers.length > 2 && last - first === numbers.length - 1;
  const before = isRange ? `${first} to` : `${numbers.slice(0, -1).join(", ")} and`;
  return resultRow(`steps ${before} ${last} together`, found, names);
}

// The time and the disk space of a change for the reader's number of revisions.
function effortOf({ axis, value }, values) {
  const count = revisionsOf(state().given);
  const { revisions, bytes } = answers.estimate;
  if (!count || !revisions) return "";
  const size = (format, number) => bytes[format]?.nopack && sizeOf(bytes[format].nopack / revisions * number);
  const { load, pack } = workOf(count);
  const [time, disk] = axis === "format" ? [load, size(value, count)]
    : axis === "packing" && value === "pack" ? [pack, size(values.format, Math.min(count, answers.shard))] : [];
  return time ? ` For ${written(count, "revisions")}: ${time}${disk ? `, at least ${disk} of free disk` : ""}.` : "";
}

// The part of the table for a change: its name, cost and way back, then its evidence.
function stepOf(change, number, changes, lead, rows, values) {
  const { axis, value, card, cost, undo } = change;
  const [loads, packs] = ["format", "packing"].map((name) => changes.findLastIndex((step) => step.axis === name) + 1);
  const order = axis === "format" && packs && packs < number ? `, before step ${packs} (the new repository is not packed)`
    : axis === "packing" && number < loads ? `, after step ${loads} if you take that` : "";
  const texts = { Cost: `${cost ?? ""}${effortOf(change, values)}`, Undo: undo };
  const price = Object.entries(texts).filter(([, text]) => text).flatMap(([name, text]) => [made("b", `${name}:`), ` ${text} `]);
  const head = made("th", "", made("div", "", made("b", `${number}. ${lead}: ${labelOf(axis, value)}${order}.`), " ", made("small", "", ...price, linkTo(card.id, "Commands"))));
  head.colSpan = 99;
  return made("tbody", "", made("tr", "", head), ...rows);
}

// The condition of a change that makes some commands faster and others slower.
function leadOf({ results, kind, condition, instead }) {
  const [won, lost] = ["faster", "slower"].map((word) => namesOf(results, [word]));
  const isSplit = kind === "depends" && !answers.workload.length && !won.some((name) => lost.includes(name));
  if (kind === "depends" && !isSplit) return `Depends on what you run${condition ? `, only if ${condition}` : ""}`;
  const parts = [isSplit && `${won.join(" and ")} ${won.length > 1 ? "matter" : "matters"} more to you than ${lost.join(" and ")}`, condition];
  return `Only if ${parts.filter(Boolean).join(", and ")}${instead ? `, instead of step ${instead}` : ""}`;
}

function linkTo(id, text) {
  return Object.assign(made("a", text), { href: `#${id}` });
}

// The table of actions, then what to keep and what is open.
function actionLines({ steps, states, others }, values, isComplete) {
  const { picks: target, steps: numbers } = states.at(-1);
  const changes = [...steps, ...["do", "depends"].flatMap((kind) => others.filter((change) => change.kind === kind))];
  const names = namesFor(values, changes);
  const parts = changes.map((change, n) => {
    const isStep = n < steps.length;
    const rows = proofRows(change, states, names);
    // Combinations are compared within an access.
    const isWithin = !answers.situations.some(({ where }) => where[change.axis]);
    if (isComplete && isStep && n && n === steps.length - 1) rows.push(togetherRow(values, target, numbers, names));
    if (isComplete && !isStep && steps.length && isWithin && !change.instead) {
      rows.push(togetherRow(values, { ...target, [change.axis]: change.value }, [...numbers, n + 1], names));
    }
    return stepOf(change, n + 1, changes, isStep ? (n ? "Then" : "Do first") : leadOf(change), rows, values);
  });
  const heads = ["Measured", ...names].map((name) => Object.assign(made("th", name), { scope: "col" }));
  const table = made("table", "", made("thead", "", made("tr", "", ...heads)), ...parts);
  const key = "after: with that change made already; together: against what you have; –: no result";
  const lines = parts.length ? [scrolling(table, "What to do"), Object.assign(made("p", key), { className: "key" })] : [made("p", "", made("b", "Nothing to change: no change is shown to be worth it."))];
  table.className = "steps";
  const titles = (cards) => cards.map((card) => card.querySelector("h3").textContent);
  const of = (kinds) => others.filter(({ kind }) => kinds.includes(kind));
  // Without a pick, the changes from and to each value are open.
  const nameOfChange = ({ axis, value, present }) => labelOf(axis, present && value);
  const textOf = (change, value) => {
    const texts = [...groupedBy(change.results, ({ name }) => name)].map(([name, list]) =>
      `${name} ${resultChips(list).map((chip) => chip.firstChild.textContent).join(", ")}`);
    return `${value} (${value === labelOf(change.axis, change.value) ? "" : `${labelOf(change.axis, change.value)}: `}${texts.join("; ")})`;
  };
  const unknown = allCards.filter((card) => answers.cards[card.id] && (!card.querySelector(".forest") || of(["not measured"]).some((change) => change.card === card)));
  const groups = {
    "No reason to change": of(["keep", "equal", "slight"]).map((change) => textOf(change, labelOf(change.axis, change.present))),
    "Undecided, too noisy or too few rounds": of(["undecided"]).map(nameOfChange),
    "Too small to compare": of(["too small"]).map(nameOfChange),
    "Measured, but not compared (the card has the reason)": titles(unknown.filter((card) => isWithheld(card, values))),
    // Over file, settings of servers are no choice.
    "Not measured for what you have": titles(unknown.filter((card) => !isWithheld(card, values) && comparisonsOf(card, values.ra ? { ra: values.ra } : {}).length)),
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
  const measured = places.length - count("") - count("withheld");
  const open = Object.entries({ undecided: "undecided", small: "too small to compare" }).filter(([kind]) => count(kind))
    .map(([kind, word]) => `${count(kind)} ${word}`);
  const answered = !open.length ? ", all answered" : `: ${[`${measured - count("undecided") - count("small")} answered`, ...open].join(", ")}`;
  const text = `${measured} of ${written(places.length, "places")} of the table below have a result${measured ? answered : ""}`;
  const others = [[count(""), "were not measured"], [count("withheld"), "cannot be compared"]].filter(([number]) => number)
    .map(([number, why]) => `; ${number} ${why}`);
  const lines = hasPicks ? [made("p", `${text}${others.join("")}.`)] : [];
  if (lacking.length && answers.include.length) {
    const number = countOf(lacking);
    const time = answers.cell_s ? `, about ${durationOf(number * answers.cell_s)}` : "";
    const { study, args } = known.of;
    const text = JSON.stringify({ grid: { [study]: { include: [...answers.include, ...lacking] } } });
    const command = `printf '%s\\n' ${quoted(text)} >more.yaml && make report ${withArgs(`${args} --configfile more.yaml`)}`;
    const summary = `Measure the places marked –, too (they compare ${written(number, "cells")} that have no result yet${time}; results are kept)`;
    lines.push(made("details", "", made("summary", summary), commandOf(command)));
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
  const head = made("p", "", made("b", has.length ? `You have: ${has.join(", ")}.` : "Answers over all cases measured."), mine ? text : "");
  first.replaceChildren(head, ...actionLines(actions, values, has.length && !open.length), ...coverageLines(overview, has.length));
  makeCommandsCopyable(first);
  const uncertain = document.getElementById("uncertain");
  if (uncertain) uncertain.hidden = Boolean(has.length);
}
