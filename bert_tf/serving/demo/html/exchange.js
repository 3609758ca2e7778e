/* A request, as JSON and as a command line, and its response. */

/* How many items of a long list are shown: few of many numbers, more of other values. */
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
    this.copied.response = () => indented(response); // all of it: slow, so only when copied
  }
}

/* Indented JSON with each list of plain values on one line; `cut` shortens long lists. */
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

/* JSON in which right-to-left strings do not reorder the text between them. */
function isolated(json) {
  return json.split(/("(?:[^"\\]|\\.)*")/).map((part, number) => (number % 2 ? make("bdi", {}, part) : part));
}

/* The same request for a POSIX shell, in parts that stay together. The token is not shown. */
function commandLine(server, request) {
  return [
    `curl ${shellQuoted(server.predicts)}`,
    "-H 'Content-Type: application/json'",
    ...(server.token === null ? [] : ['-H "Authorization: Bearer $TOKEN"']),
    `-d ${shellQuoted(JSON.stringify(request))}`,
  ];
}

/* A text that may wrap after a slash, such as an address. */
const breakable = (text) => text.split(/(?<=\/)/).flatMap((part) => [part, make("wbr")]);

const shellQuoted = (text) =>
  (/^[\w:/.@%-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/* Copies a text. Where a page must not (over plain HTTP), the text shown is selected instead. */
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
