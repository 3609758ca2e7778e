/* Tokens as a line of text, each with a note under it.

They are one stop of the Tab key; arrows move among them, in the direction of the text. What is
pointed at, or has the focus, is shown; a click or Enter keeps it. */

class TokenFlow {
  /* `show` gets the number of the token to show. */
  constructor(place, tokens, texts, show) {
    this.show = show;
    this.kept = 0;
    this.chips = tokens.map((token, number) => this.chip(token, number));
    const segments = texts.map(({ rtl }, segment) => {
      const chips = this.chips.filter((_, number) => tokens[number].segment === segment);
      return make("div.segment", { dir: rtl ? "rtl" : "ltr" }, ...chips);
    });
    place.replaceChildren(...segments);
    place.addEventListener("keydown", (event) => this.move(event));
    place.addEventListener("pointerleave", () => this.turn(this.kept));
  }

  chip(token, number) {
    const chip = make("button.token", { type: "button", tabindex: "-1", title: about(token) },
      make("bdi.label", {}, token.label), make("span.note", {}));
    chip.classList.toggle("special", token.special);
    chip.classList.toggle("begins", token.begins);
    chip.classList.toggle("unknown", token.unknown);
    chip.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse") this.turn(number);
    });
    chip.addEventListener("focus", () => this.turn(number));
    chip.addEventListener("click", () => this.keep(number));
    return chip;
  }

  /* Shows none until one is pointed at. */
  rest() {
    this.kept = -1;
    this.turn(-1);
  }

  /* Shows a token until another is pointed at. */
  keep(number) {
    this.kept = number;
    this.turn(number);
  }

  turn(number) {
    this.chips.forEach((chip, other) => {
      chip.classList.toggle("current", other === number);
      chip.tabIndex = other === Math.max(this.kept, 0) ? 0 : -1;
    });
    if (number >= 0) this.show(number);
  }

  move(event) {
    const at = this.chips.indexOf(document.activeElement);
    if (at < 0) return;
    const forward = this.chips[at].parentElement.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
    const last = this.chips.length - 1;
    const next = event.key === "Home" ? 0 : event.key === "End" ? last
      : event.key === forward ? Math.min(at + 1, last)
        : ["ArrowLeft", "ArrowRight"].includes(event.key) ? Math.max(at - 1, 0) : at;
    if (next === at) return;
    event.preventDefault();
    this.chips[next].focus();
  }

  /* Shades: `of` gives {tone, strength, note, marked} for the number of a token. */
  paint(of) {
    this.chips.forEach((chip, number) => {
      const { tone, strength = 0, note = "", marked = false } = of(number);
      const visible = strength > 0.02;
      chip.style.background = visible ? `rgba(var(--${tone}), ${(0.62 * strength).toFixed(3)})` : "";
      chip.lastChild.textContent = note;
      chip.classList.toggle("marked", marked);
    });
  }
}

/* What a token is, in a line. */
function about(token) {
  const place = token.characters ? `, characters ${token.characters.join("–")}` : "";
  return `${token.token}, id ${token.id}${place}`;
}

/* The name of a token in a sentence of ours. */
const named = (token) => make("bdi", {}, token.special ? token.label : `“${token.label}”`);

/* The table of all tokens. */
function tokenTable(place, tokens) {
  place.replaceChildren(...tokens.map((token, number) => {
    const cells = [number, token.special ? "" : token.label, token.token, token.id,
      token.segment + 1, (token.characters ?? []).join("–"), (token.bytes ?? []).join("–")];
    const row = make("tr", {}, ...cells.map((cell) => make("td", {}, make("bdi", {}, String(cell)))));
    row.classList.toggle("special", token.special);
    return row;
  }));
}
