/* The answer to a question, marked in its context, and the next best ones. */

SHAPES.span = {
  called: () => "question answering",
  about: ({ longest }) => `An answer from the context, which is read in windows of ${whole(longest)} tokens.`,
  fields: () => [
    { name: "question", label: "Question", rows: 1, field: TextField },
    { name: "context", label: "Context", rows: 6, field: TextField },
  ],
  show({ outputs, values: { context } }) {
    const spans = candidates(outputs, context);
    const best = Math.max(0, spans.findIndex((span) => span.best));
    const answer = outputs.answer[0];
    const none = make("span.quiet", {}, "no answer");
    const marked = new MarkedContext(context, spans, best);
    return {
      said: headline(answer || none, percent(outputs.score[0])),
      shown: [marked.place, ...(spans.length ? [make("h3", {}, "Candidates"), marked.list()] : [])],
    };
  },
};

/* The candidates and "no answer", most probable first. */
function candidates(outputs, context) {
  const places = new Places(context);
  const found = outputs.n_best_score[0].map((share, number) => ({
    name: outputs.n_best_answer[0][number],
    share,
    from: places.ofByte(outputs.n_best_start[0][number]),
    to: places.ofByte(outputs.n_best_end[0][number]),
  }));
  const [none] = outputs.no_answer_probability;
  const spans = [...found, { name: "no answer", share: none, from: 0, to: 0 }].filter(({ share }) => share > 0);
  spans.sort((a, b) => b.share - a.share);
  // The answer has offsets in characters, the candidates in bytes.
  const from = places.ofCharacter(outputs.start_character[0]);
  const to = places.ofCharacter(outputs.end_character[0]);
  return spans.map((span) => ({ ...span, best: span.from === from && span.to === to }));
}

class MarkedContext {
  /* `kept` is the index of the span that is marked while the pointer is elsewhere. */
  constructor(context, spans, kept) {
    Object.assign(this, { context, spans, kept });
    this.place = typed("div");
    this.mark(kept);
  }

  /* The spans with bars: pointing at one marks it, a click keeps it. */
  list() {
    const rows = this.spans.map((span) => ({ ...span, strong: span.best }));
    const list = tall(bars(rows, "look", (number) => this.keep(number)));
    this.buttons = [...list.querySelectorAll("button")];
    [...list.children].forEach((row, number) => {
      row.addEventListener("pointerenter", () => this.mark(number));
      this.buttons[number].addEventListener("focus", () => this.mark(number));
      this.buttons[number].addEventListener("blur", () => this.mark(this.kept));
    });
    list.addEventListener("pointerleave", () => this.mark(this.kept));
    this.keep(this.kept);
    return list;
  }

  keep(number) {
    this.kept = number;
    this.buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === number)));
    this.mark(number);
  }

  mark(number) {
    const { from, to, best } = this.spans[number] ?? { from: 0, to: 0 };
    const { context, place } = this;
    if (from === to) return place.replaceChildren(context);
    const mark = make("mark", {}, context.slice(from, to));
    mark.classList.toggle("other", !best);
    place.replaceChildren(context.slice(0, from), mark, context.slice(to));
    // Only its own box scrolls: the page must not move under the pointer.
    const beyond = mark.offsetTop - place.scrollTop;
    if (beyond < 0 || beyond > place.clientHeight - mark.offsetHeight) place.scrollTop += beyond - place.clientHeight / 3;
  }
}
