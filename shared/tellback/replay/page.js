"use strict";
const talks = [...document.querySelectorAll("details.talk")];
const home = document.getElementById("talks");
const form = document.querySelector("form");
const shown = document.getElementById("shown");
const tip = document.getElementById("tip");
const number = (talk, name) => Number(talk.dataset[name]);
const orders = {
  file: (a, b) => number(a, "line") - number(b, "line"),
  nudges: (a, b) => number(b, "nudges") - number(a, "nudges") || orders.file(a, b),
  errors: (a, b) => number(b, "errors") - number(a, "errors") || orders.file(a, b),
  calls: (a, b) => number(b, "calls") - number(a, "calls") || orders.file(a, b),
};
function filter() {
  const words = form.elements.words.value.trim().toLowerCase();
  const group = form.elements.group.value;
  let count = 0;
  for (const talk of talks) {
    const fits = (!group || talk.dataset.group === group)
      && (!form.elements.nudged.checked || number(talk, "nudges") > 0)
      && (!form.elements.failed.checked || number(talk, "errors") > 0)
      && (!words || talk.textContent.toLowerCase().includes(words));
    talk.hidden = !fits;
    count += fits;
  }
  shown.textContent = `${count} of ${talks.length} conversations`;
}
function order() {
  home.append(...talks.sort(orders[form.elements.order.value]));
}
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  const own = target.querySelector("details");
  if (own) own.open = true;
  target.scrollIntoView();
}
function point(event) {
  const mark = event.target.closest && event.target.closest("[data-tip]");
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const box = mark.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(box.left, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${box.bottom + tip.offsetHeight + 8 < innerHeight ? box.bottom + 6 : box.top - tip.offsetHeight - 6}px`;
}
let waiting = 0;
form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
form.addEventListener("submit", (event) => event.preventDefault());
form.elements.order.addEventListener("change", order);
form.addEventListener("reset", () => setTimeout(() => { filter(); order(); }));
addEventListener("hashchange", reveal);
document.addEventListener("click", (event) => { if (event.target.closest("svg a")) setTimeout(reveal); });
for (const name of ["mouseover", "focusin"]) document.addEventListener(name, point);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
form.hidden = false;
filter();
reveal();
