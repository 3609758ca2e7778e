/* A request as JSON and as a command line, and the response to it. */

/* How much of a long list is shown: of many numbers a few; of all else, this much. */
const MANY = 16;
const FEW = 6;
const MOST = 200;

class Exchange {
  constructor(place, server) {
    Object.assign(this, { place, server, copied: {} });
    for (const name of ["curl", "request", "response"]) {
      const block = place.querySelector(`.${name}`);
      this[name] = block.querySelector("pre");
      this[name].setAttribute("aria-label", block.querySelector("h3").textContent);
      block.querySelector(".copy").addEventListener("click", (event) => copy(this[name], this.copied[name](), event.target));
    }
    this.answer(null);
  }

  ask(request) {
    const parts = commandLine(this.server, request);
    this.curl.replaceChildren(...parts.flatMap((part) => [make("span.part", {}, ...breakable(part)), " "]).slice(0, -1));
    this.request.replaceChildren(...isolated(indented(request)));
    Object.assign(this.copied, { curl: () => parts.join(" "), request: () => indented(request) });
  }

  answer(response) {
    this.place.querySelector(".response").hidden = response === null;
    this.response.replaceChildren(...isolated(indented(response, true)));
    this.copied.response = () => indented(response); // all of it, which takes long
  }
}

/* JSON with lists of plain values on one line each; `cut`: long ones are not shown to the end. */
function indented(value, cut = false, margin = "") {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value) && value.every((item) => typeof item !== "object")) {
    const most = typeof value[0] === "number" && value.length > MANY ? FEW : MOST;
    const shown = cut ? value.slice(0, most) : value;
    const rest = value.length - shown.length;
    const items = shown.map((item) => JSON.stringify(item));
    return `[${[...items, ...(rest ? [`… ${whole(rest)} more`] : [])].join(", ")}]`;
  }
  const inner = `${margin}  `;
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const parts = Object.entries(value).map(([key, item]) => {
    const name = Array.isArray(value) ? "" : `${JSON.stringify(key)}: `;
    return `${inner}${name}${indented(item, cut, inner)}`;
  });
  return `${open}\n${parts.join(",\n")}\n${margin}${close}`;
}

/* JSON whose strings do not turn the order of what is between them, where they run from right to left. */
function isolated(json) {
  return json.split(/("(?:[^"\\]|\\.)*")/).map((part, number) => (number % 2 ? make("bdi", {}, part) : part));
}

/* What a POSIX shell asks the same with, in parts that belong together. The token stays where it is. */
function commandLine(server, request) {
  return [
    `curl ${shellQuoted(server.predicts)}`,
    "-H 'Content-Type: application/json'",
    ...(server.token === null ? [] : ['-H "Authorization: Bearer $TOKEN"']),
    `-d ${shellQuoted(JSON.stringify(request))}`,
  ];
}

/* A text whose lines may end behind a slash, as in an address. */
const breakable = (text) => text.split(/(?<=\/)/).flatMap((part) => [part, make("wbr")]);

const shellQuoted = (text) =>
  (/^[\w:/.@%-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/* Copies a text; where a page may not, as over plain HTTP, what is shown of it is selected. */
async function copy(place, text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(place);
    button.textContent = "selected";
  }
  setTimeout(() => { button.textContent = "copy"; }, 2000);
}
