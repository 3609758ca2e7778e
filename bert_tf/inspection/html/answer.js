/* The answer of a task, and which tokens it comes from. */

function showAnswer(answer, tokens, texts) {
  find("answer").hidden = false;
  find("answer-task").textContent = answer.kind === answer.task ? `task ${answer.task}` : `task ${answer.task} (${answer.kind})`;
  find("answer-text").textContent = answer.text;
  find("answer-notes").replaceChildren(...answer.notes.map((note) => make("p.quiet.small", {}, note)));
  const rows = answer.rows.map((row, number) => ({ ...row, strong: number === 0 }));
  if (rows.length) find("answer-rows").replaceChildren(bars(rows, "for"));
  const explained = new Explained(answer, tokens, texts);
  const names = answer.targets.map((target) => target.name);
  const pick = choices(names.length > 1 ? find("targets") : make("div"), names, (number) => explained.take(number));
  pick(0);
}

class Explained {
  constructor(answer, tokens, texts) {
    Object.assign(this, { answer, tokens });
    this.tagOf = new Map(answer.tags.map((tag) => [tag.position, tag]));
    this.flow = new TokenFlow(find("answer-tokens"), tokens, texts, () => {});
    this.flow.rest();
  }

  /* Shows what one score comes from. */
  take(number) {
    const { answer } = this;
    const target = answer.targets[number];
    const most = Math.max(1e-9, ...target.tokens.map(Math.abs));
    const digits = Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(most))));
    this.flow.paint((at) => {
      const value = target.tokens[at];
      return {
        tone: value < 0 ? "against" : "for",
        strength: Math.abs(value) / most,
        note: this.note(at, value, digits),
        marked: this.inAnswer(at),
      };
    });
    find("target-name").textContent = target.name;
    find("completeness").textContent = this.completeness(target);
  }

  note(at, value, digits) {
    const tag = this.tagOf.get(at);
    const attributed = this.tokens[at].special ? "" : signed(value, digits);
    return this.tagOf.size ? `${tag ? tag.tag : ""}\n${attributed}` : attributed;
  }

  inAnswer(at) {
    const { span } = this.answer;
    return Boolean(span) && span[0] <= at && at <= span[1];
  }

  /* How well the attributions add up, and what they are. */
  completeness({ sum, output, baseline, error }) {
    const { measure, steps } = this.answer;
    return `Numbers are shares of ${measure}: ${short(output)} for this text, ${short(baseline)} for the baseline. ` +
      `Their difference is ${short(output - baseline)}; the numbers add up to ${short(sum)}, off by ${percent(error)}. ` +
      `They are integrated gradients (Sundararajan et al. 2017, arXiv 1703.01365) of the embeddings, at ${steps} points ` +
      "from a baseline that has the padding token for each token of the text, in its place; special tokens stay, and count for nothing.";
  }
}
