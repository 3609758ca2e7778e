/* Words with their tags, coloured, and the entities among them. */

const OUTSIDE = "O"; // of entities
const PART = /^[BIESLUM][-_.:]|[-_.:][BIESLUM]$/; // of an entity, in a tag
/* Degrees between the hues of two tags, and the number of shades, so that no two look the same. */
const TURN = 137.5;
const DEPTHS = 3;

SHAPES.tagging = {
  called: () => "tagging",
  about: ({ labels, longest }) => `A tag for each word, one of ${whole(labels.length)}. Texts of more than ${whole(longest)} tokens are read in parts.`,
  fields: () => [{ name: "text", label: "Text", rows: 4, field: TextField }],
  show({ outputs, values: { text }, form }) {
    const places = new Places(text);
    const words = outputs.tags[0].map((tag, number) => ({
      tag,
      share: outputs.probabilities[0][number],
      from: places.ofCharacter(outputs.start_characters[0][number]),
      to: places.ofCharacter(outputs.end_characters[0][number]),
    }));
    return showTags(text, words, entitiesOf(outputs, places), form.labels);
  },
};

/* The entities of an answer; undefined if its tags are of single words. */
function entitiesOf(outputs, places) {
  return outputs.entity_types?.[0].map((type, number) => ({
    type,
    text: outputs.entity_texts[0][number],
    share: outputs.entity_probabilities[0][number],
    from: places.ofCharacter(outputs.entity_starts[0][number]),
    to: places.ofCharacter(outputs.entity_ends[0][number]),
  }));
}

SHAPES.tagging_words = {
  ...SHAPES.tagging,
  called: () => "tagging of words",
  about: () => "A tag for each word. Words are separated by white space and not split further.",
  fields: () => [{ name: "words", label: "Words", rows: 4, field: WordsField }],
  missing: ({ words }) => (words.length ? "" : "Write a word."),
  show({ outputs, values, form }) {
    let to = -1;
    const words = values.words.map((word, number) => {
      const from = to + 1;
      to = from + word.length;
      return { tag: outputs.tags[0][number], share: outputs.probabilities[0][number], from, to };
    });
    const text = values.words.join(" ");
    return showTags(text, words, entitiesOf(outputs, new Places(text)), form.labels);
  },
};

/* The tags of a model. All tags of one entity type share a fixed colour. */
class TagSet {
  constructor(labels, areParts) {
    const types = labels.map((tag) => (areParts ? tag.replace(PART, "") : tag));
    this.types = [...new Set(types)].filter((type) => type !== OUTSIDE);
  }

  style(type) {
    const number = this.types.indexOf(type);
    return `--hue: ${(TURN * number) % 360}; --deep: ${number % DEPTHS}`;
  }
}

/* Runs of words that form one entity; other words are runs of one. */
function runsOf(words, entities) {
  const runs = [];
  for (const word of words) {
    const entity = entities?.find(({ from, to }) => from <= word.from && word.to <= to);
    if (entity && runs.at(-1)?.entity === entity) runs.at(-1).words.push(word);
    else runs.push({ type: entity?.type ?? (entities ? OUTSIDE : word.tag), entity, words: [word] });
  }
  return runs;
}

function showTags(text, words, entities, labels) {
  if (!words.length) return { said: headline(make("span.quiet", {}, "no words")), shown: [] };
  const runs = runsOf(words, entities);
  const tags = new TagSet(labels, entities !== undefined);
  const shown = new TaggedText(text, runs, tags);
  const counts = new Map();
  for (const { type } of runs) if (type !== OUTSIDE) counts.set(type, (counts.get(type) ?? 0) + 1);
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const what = entities ? (total === 1 ? "entity" : "entities") : (total === 1 ? "tag" : "tags");
  const found = (entities ?? []).map((entity) => ({ name: `${entity.text} (${entity.type})`, share: entity.share }));
  return {
    said: headline(`${whole(total)} ${what}`, `in ${whole(words.length)} ${words.length === 1 ? "word" : "words"}`),
    shown: [shown.place, shown.readout, legend(counts, tags), ...(found.length ? [barsWithMore(found)] : [])],
  };
}

/* The user's text. Its words are one tab stop; arrow keys move among them. */
class TaggedText {
  constructor(text, runs, tags) {
    this.words = [];
    this.place = typed("div", { role: "listbox", "aria-label": "Words and their tags" });
    this.readout = make("p.readout.quiet", {}, "Point at a word, or use Tab and the arrow keys.");
    let at = 0;
    for (const { type, words } of runs) {
      this.place.append(text.slice(at, words[0].from), this.run(text, type, words, tags));
      at = words.at(-1).to;
    }
    this.place.append(text.slice(at));
    this.stop = this.words[0]; // of the Tab key
    this.stop.tabIndex = 0;
    arrows(this.place, this.words, () => {}, () => (getComputedStyle(this.place).direction === "rtl" ? "ArrowLeft" : "ArrowRight"));
  }

  run(text, type, words, tags) {
    const parts = words.flatMap((word, number) => [
      ...(number ? [text.slice(words[number - 1].to, word.from)] : []),
      this.word(text.slice(word.from, word.to), word),
    ]);
    if (type === OUTSIDE) return make("span", {}, ...parts);
    return make("span.run", { "data-tag": type, style: tags.style(type) }, ...parts);
  }

  word(text, { tag, share }) {
    const told = `${tag}, ${percent(share)}`;
    const word = make("span.word", { role: "option", tabindex: -1, "aria-selected": false, title: told, "aria-label": `${text}: ${told}` }, text);
    const show = () => this.show(word, text, told);
    word.addEventListener("pointerenter", show);
    word.addEventListener("focus", show);
    this.words.push(word);
    return word;
  }

  show(word, text, told) {
    this.stop.setAttribute("aria-selected", "false");
    this.stop.tabIndex = -1;
    this.stop = word;
    word.setAttribute("aria-selected", "true");
    word.tabIndex = 0;
    this.readout.replaceChildren(make("b", {}, make("bdi", {}, text)), ` ${told}`);
  }
}

function legend(counts, tags) {
  const types = tags.types.filter((type) => counts.has(type));
  return make("ul.legend", { "aria-label": "Tags" }, ...types.map((type) =>
    make("li", { style: tags.style(type) }, make("span.swatch", {}), make("bdi", {}, type), make("span.quiet", {}, ` ${whole(counts.get(type))}`))));
}
