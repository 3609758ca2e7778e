/* Guesses for masks, which can be inserted into the text. */

const PIECE = /^##(.+)$/s; // a piece that continues the word before it

SHAPES.fill_mask = {
  called: () => "masked words",
  about: ({ mask }) => `Guesses for each ${mask}.`,
  fields: () => [{ name: "text", label: "Text", rows: 3, field: MaskedField }],
  missing: ({ text }, { mask }) => (text.includes(mask) ? "" : `There is no ${mask} in the text.`),
  show({ outputs, values: { text }, form, panel }) {
    const guesses = new Guesses(text.split(form.mask), outputs.tokens[0], outputs.probabilities[0], form.mask, panel);
    return { said: guesses.sentence, shown: guesses.lists() };
  },
};

class Guesses {
  /* `parts` are the texts between masks; each mask has tokens and their probabilities. */
  constructor(parts, tokens, shares, mask, panel) {
    Object.assign(this, { parts, tokens, shares, mask, panel });
    this.chosen = tokens.map(() => null);
    this.sentence = typed("p.sentence");
    this.draw();
  }

  /* The bars of each mask. */
  lists() {
    this.buttons = [];
    const lists = this.tokens.map((tokens, place) => {
      const rows = tokens.map((name, number) => ({ name, share: this.shares[place][number] }));
      const list = bars(rows, "look", (number) => this.choose(place, number));
      this.buttons.push([...list.querySelectorAll("button")]);
      const title = this.tokens.length > 1 ? `Mask ${place + 1}` : "Guesses";
      return make("div", {}, make("h3", {}, title), list);
    });
    const unread = this.parts.length - 1 - this.tokens.length;
    const note = unread > 0 ? [make("p.quiet.small", {}, `${whole(unread)} more are beyond the length that the model reads.`)] : [];
    return [make("div.guesses", {}, ...lists), make("p.quiet.small", {}, "Click a guess to insert it into the text, and again to remove it."), ...note];
  }

  /* Inserts a guess into the text, or removes it again. */
  choose(place, number) {
    if (this.panel.changed) return;
    const again = this.chosen[place] === number;
    this.chosen[place] = again ? null : number;
    this.buttons[place].forEach((button, other) => button.setAttribute("aria-pressed", String(!again && other === number)));
    this.draw();
    this.panel.put("text", this.text());
  }

  /* The text shown for a mask. */
  guess(place) {
    const number = this.chosen[place] ?? null;
    return number === null ? this.mask : this.tokens[place][number];
  }

  text() {
    return this.parts.reduce((text, part, place) => {
      const guess = this.guess(place - 1);
      const [, rest] = PIECE.exec(guess) ?? [];
      return `${rest ? text.trimEnd() + rest : text + guess}${part}`;
    });
  }

  draw() {
    this.sentence.replaceChildren(...this.parts.flatMap((part, place) => {
      if (!place) return [part];
      const slot = make("span.slot", {}, make("bdi", {}, this.guess(place - 1)));
      slot.classList.toggle("filled", (this.chosen[place - 1] ?? null) !== null);
      return [slot, part];
    }));
  }
}
