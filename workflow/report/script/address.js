// Draws the charts, and shows, sorts, copies and explains the numbers. What is selected is kept in the
// address: `#anchor&ra=http&ra=svn&only=differs&number=table-elapsed/log/http`, so that a link restores it.
"use strict";

const OURS = ["only", "number"];

function selection() {
  const [anchor, ...rest] = location.hash.slice(1).split("&");
  const said = new URLSearchParams(rest.join("&"));
  return { anchor: decodeURIComponent(anchor), said };
}

// The axis values that are asked for, a list for each axis.
function wantedValues() {
  const { said } = selection();
  const axes = [...new Set(said.keys())].filter((name) => !OURS.includes(name));
  return Object.fromEntries(axes.map((axis) => [axis, said.getAll(axis)]));
}

// What is asked for, in one: the axis values, whether only what differs, and whether that hides anything.
function asked() {
  const [wanted, only] = [wantedValues(), selection().said.get("only") === "differs"];
  return { wanted, only, hides: only || Object.keys(wanted).length > 0 };
}

const listeners = [];

function followAddress() {
  const { said } = selection();
  listeners.forEach((listener) => listener(said));
}

// Another entry of the browser's history; a value may be a list, and one that is empty is left out of it.
function select(changes, anchor = selection().anchor) {
  const { said } = selection();
  for (const [name, value] of Object.entries(changes)) {
    said.delete(name);
    for (const one of [value].flat()) if (one) said.append(name, one);
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
