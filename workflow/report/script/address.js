// Draws the charts, and shows, sorts, copies and explains the numbers. What is selected is kept in the
// address: `#anchor&command=log&only=differs&number=table-elapsed/log/http`, so that a link restores it.
"use strict";

const OURS = ["only", "number"];

function selection() {
  const [anchor, ...rest] = location.hash.slice(1).split("&");
  const said = new URLSearchParams(rest.join("&"));
  return { anchor: decodeURIComponent(anchor), said };
}

// The axis values that are asked for.
function wantedValues() {
  return Object.fromEntries([...selection().said].filter(([name]) => !OURS.includes(name)));
}

const listeners = [];

function followAddress() {
  const { said } = selection();
  listeners.forEach((listener) => listener(said));
}

// Another entry of the browser's history; a value that is empty is left out of it.
function select(changes, anchor = selection().anchor) {
  const { said } = selection();
  for (const [name, value] of Object.entries(changes)) {
    if (value) said.set(name, value);
    else said.delete(name);
  }
  const rest = said.toString().replaceAll("%2F", "/");
  const hash = `#${encodeURIComponent(anchor)}${rest && `&${rest}`}`;
  if (hash !== (location.hash || "#")) history.pushState(null, "", hash);
  followAddress();
}

// A browser finds an anchor by itself only where nothing is selected.
function goToAnchor() {
  const { anchor, said } = selection();
  document.querySelector(".aimed")?.classList.remove("aimed");
  const aim = said.size && anchor ? document.getElementById(anchor) : null;
  aim?.classList.add("aimed");
  aim?.scrollIntoView();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link || !selection().said.size) return;
  event.preventDefault();
  select({}, decodeURIComponent(link.getAttribute("href").slice(1)));
  goToAnchor();
});

window.addEventListener("popstate", followAddress);
window.addEventListener("hashchange", goToAnchor);
