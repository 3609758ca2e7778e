"use strict";
/* What all pages share. Texts get into the page as text nodes only, never as markup. */

const VALUES = JSON.parse(document.getElementById("values").textContent);

const find = (id) => document.getElementById(id);

/* An element: "tag.class", its attributes, and its children, elements or texts. */
function make(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/* An element of a drawing. */
function draw(svg, tag, attributes, ...children) {
  const element = document.createElementNS(svg.namespaceURI, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  svg.append(element);
  return element;
}

/* A share of one as a percentage, with as many digits as it takes to be told from 0 and 1. */
function percent(share) {
  if (share === 0 || share >= 0.9995) return `${Math.round(share * 100)} %`;
  if (share < 0.0001) return "< 0.01 %";
  const text = (share * 100).toFixed(share < 0.01 || share > 0.995 ? 2 : 1);
  return `${text.replace(/\.0+$/, "")} %`;
}

const whole = (value) => Math.round(value).toLocaleString("en-US");

/* A number with three or four digits, whatever its size. */
function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return whole(value);
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

const signed = (value, digits = 2) => {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
};

/* Rows with bars: {name, share, value, strong}; `tone` names a colour of the style. */
function bars(rows, tone = "look") {
  const most = Math.max(1e-9, ...rows.map((row) => row.share));
  const scale = most > 0.3 ? 1 : most;
  return make("ol.bars", { style: `--tone: var(--${tone})` }, ...rows.map((row) => {
    const fill = make("span.fill", {});
    fill.style.width = `${(100 * Math.max(row.share, 0)) / scale}%`;
    const name = make("span.name", { title: row.name }, make("bdi", {}, row.name));
    name.classList.toggle("strong", Boolean(row.strong));
    return make("li", {}, name, make("span.track", {}, fill),
      make("span.value", {}, row.value ?? percent(row.share)));
  }));
}

/* Buttons of which one is chosen; `choose` gets its number. */
function choices(place, names, choose) {
  const buttons = names.map((name, number) => {
    const button = make("button", { type: "button", role: "radio" }, make("bdi", {}, name));
    button.addEventListener("click", () => pick(number));
    return button;
  });
  function pick(number) {
    buttons.forEach((button, other) => {
      button.setAttribute("aria-checked", String(other === number));
      button.tabIndex = other === number ? 0 : -1;
    });
    choose(number);
  }
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = buttons.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = (at + step + buttons.length) % buttons.length;
    buttons[next].focus();
    pick(next);
  });
  place.replaceChildren(...buttons);
  return pick;
}

/* The bytes of a part of the page. */
function bytesOf(id) {
  const text = atob(find(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/* The bytes of a gzipped part. */
async function unpacked(id) {
  const packed = new Blob([bytesOf(id)]).stream();
  const stream = packed.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* A colour of the style, as "red, green, blue". */
const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/* Says that something went wrong, where the reader sees it. */
function fail(error) {
  const place = find("failure");
  place.textContent = `This page could not be drawn in full: ${error.message}`;
  place.hidden = false;
  throw error;
}
