// The state of the page is its address: `#anchor&access=http&only=differs&number=table-elapsed/log/http`.
// A link restores it.
"use strict";

// The keys of the address that are no axes.
const OTHER_KEYS = ["only", "marks", "number", "revisions"];
// Each function applies the address to a part of the page.
const listeners = [];

// Returns a text of an address that any reader can have written. One that is no valid encoding stays as it is.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function state() {
  const parts = location.hash.slice(1).split("&");
  // An address without an anchor may begin with a pick.
  const [anchor, ...rest] = parts[0].includes("=") ? ["", ...parts] : parts;
  return { anchor: decoded(anchor), given: new URLSearchParams(rest.join("&")) };
}

// The picked axis values: one per axis. A value that "What I have" does not offer is none.
function picked() {
  const controls = document.getElementById("case")?.elements ?? {};
  const isOffered = (name, value) => !controls[name]?.options || [...controls[name].options].some((option) => option.value === value);
  return Object.fromEntries([...state().given].filter(([name, value]) => !OTHER_KEYS.includes(name) && isOffered(name, value)));
}

function update() {
  listeners.forEach((listener) => listener(state().given));
}

// Adds an entry to the browser's history. An empty value is left out of the address.
function select(changes, anchor = state().anchor) {
  const { given } = state();
  for (const [name, value] of Object.entries(changes)) {
    given.delete(name);
    if (value) given.set(name, value);
  }
  const rest = given.toString().replaceAll("%2F", "/");
  const hash = `#${[encodeURIComponent(anchor), rest].filter(Boolean).join("&")}`;
  if (hash !== (location.hash || "#")) history.pushState(null, "", hash);
  update();
}

// A browser finds an anchor itself only in a plain address.
function goToAnchor() {
  const { anchor, given } = state();
  document.querySelector(".aimed")?.classList.remove("aimed");
  const target = anchor ? document.getElementById(anchor) : null;
  target?.closest("details")?.setAttribute("open", "");
  // The body of a card is folded.
  target?.querySelector(":scope > .body")?.setAttribute("open", "");
  const aim = given.size ? target : null;
  aim?.classList.add("aimed");
  aim?.scrollIntoView();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link || !state().given.size) return;
  event.preventDefault();
  select({}, decoded(link.getAttribute("href").slice(1)));
  goToAnchor();
});
window.addEventListener("popstate", update);
window.addEventListener("hashchange", goToAnchor);

// Returns a new element with a text and children.
function made(tag, text = "", ...children) {
  const element = document.createElement(tag);
  element.textContent = text;
  element.append(...children);
  return element;
}

function commandOf(text) {
  return Object.assign(made("pre", text), { className: "command" });
}

// The axis values in the attribute data-of: { access: "http", format: "f7" }.
function keysOf(element) {
  return Object.fromEntries(new URLSearchParams(element?.dataset.of ?? ""));
}

// The content of an element with gzipped JSON in base64, null without the element.
async function unpacked(id) {
  const packed = document.getElementById(id);
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed.textContent.trim()), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

// An axis that a case lacks fits any value; of the compared axis, either side fits.
function isPicked(keys, values, { compares, baseline } = {}) {
  return Object.entries(values).every(([axis, value]) => {
    if (axis === compares) return !baseline || [baseline, keys.candidate].includes(value);
    return !keys[axis] || keys[axis] === value;
  });
}
