"use strict";
/* Functions of all pages. Texts are inserted as text nodes only, never as markup. */

const VALUES = JSON.parse(document.getElementById("values").textContent);

const find = (id) => document.getElementById(id);

/* Creates an element "tag.class" with attributes and children (elements or texts). */
function make(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  return filled(element, attributes, children);
}

/* Adds attributes and children; style attributes are not allowed by the page's policy. */
function filled(element, { style = "", ...attributes }, children) {
  if (style) element.style.cssText = style;
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/* A fraction as a percentage, with enough digits to differ from 0 % and 100 %. */
function percent(share) {
  if (share === 0 || share >= 0.9995) return `${Math.round(share * 100)} %`;
  if (share < 0.0001) return "< 0.01 %";
  const text = (share * 100).toFixed(share < 0.01 || share > 0.995 ? 2 : 1);
  return `${text.replace(/\.0+$/, "")} %`;
}

const whole = (value) => Math.round(value).toLocaleString("en-US");

/* A number with three or four significant digits. */
function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return whole(value);
  const text = size !== 0 && size < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
  return text.replace(/^-/, "−");
}

/* Rows with bars: {name, share, value, strong}; a share of 1 fills its bar. `tone` names a colour
of the style. With `choose`, which is called with the index of a row, names are buttons. */
function bars(rows, tone = "look", choose = null) {
  return make("ol.bars", { style: `--tone: var(--${tone})` }, ...rows.map((row, number) => {
    const fill = make("span.fill", {});
    fill.style.width = `${100 * Math.min(Math.max(row.share, 0), 1)}%`;
    const text = make("bdi", {}, row.name);
    const shown = choose ? make("button.plain", { type: "button" }, text) : text;
    if (choose) shown.addEventListener("click", () => choose(number));
    const name = make("span.name", { title: row.name }, shown);
    name.classList.toggle("strong", Boolean(row.strong));
    return make("li", {}, name, make("span.track", {}, fill),
      make("span.value", {}, row.value ?? percent(row.share)));
  }));
}

/* Arrow keys, Home and End move among the elements of a place, one of which the Tab key reaches;
`go` is called with the index of the next one. `forward` returns the key of the text direction. */
function arrows(place, elements, go, forward = () => "ArrowRight") {
  place.addEventListener("keydown", (event) => {
    const at = elements.indexOf(document.activeElement);
    const next = at < 0 ? at : numberAfter(event.key, at, elements.length, forward());
    if (next < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    elements[next].focus();
    go(next);
  });
}

function numberAfter(key, at, count, forward) {
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  if (key === "ArrowDown" || key === forward) return (at + 1) % count;
  if (key.startsWith("Arrow")) return (at - 1 + count) % count;
  return -1;
}

/* Marks one of the elements with an attribute; the Tab key reaches this one. */
function markOne(elements, chosen, attribute) {
  elements.forEach((element, number) => {
    element.setAttribute(attribute, String(number === chosen));
    element.tabIndex = number === chosen ? 0 : -1;
  });
}

/* Radio buttons; `choose` is called with the index of the chosen one. */
function choices(place, names, choose) {
  const buttons = names.map((name, number) => {
    const button = make("button", { type: "button", role: "radio" }, make("bdi", {}, name));
    button.addEventListener("click", () => pick(number));
    return button;
  });
  function pick(number) {
    markOne(buttons, number, "aria-checked");
    choose(number);
  }
  arrows(place, buttons, pick);
  place.replaceChildren(...buttons);
  return pick;
}

/* Shows an error on the page. */
function fail(error) {
  const place = find("failure");
  place.textContent = `This page is incomplete: ${error.message}`;
  place.hidden = false;
  throw error;
}
