/* Forms and answers of signatures by the shape of the task, and what they share. */

/* A shape has `called` (a short name), `about` (a sentence), `fields`, and `show`, which returns the
short answer and the elements below it. `inputs` (from values of fields) and `missing` (a message if
a field is empty) are optional. */
const SHAPES = {};

const BEST = 10; // rows shown at first

/* For shapes that have no script: a field for each input, and all outputs as JSON. */
const ANY_SHAPE = {
  called: ({ shape }) => shape,
  about: (form) => cut(form),
  fields: ({ inputs, sample }) => inputs.map((name) =>
    ({ name, label: name, rows: 3, field: Array.isArray(sample[name]) ? LinesField : TextField })),
  show({ outputs }) {
    const rows = Object.entries(outputs).map(([name, [value]]) => [name, typeof value === "string" ? value : indented(value, true)]);
    const [[, first]] = rows;
    return { said: sentence(first, ""), shown: rows.flatMap(([name, value]) => [make("h3", {}, name), make("pre", {}, value)]) };
  },
};

const cut = ({ longest }) => `Text beyond ${whole(longest)} tokens is cut.`;

/* An answer in large letters, followed by a note. */
function headline(text, note = "") {
  return make("p.headline", { dir: "auto" }, text, " ", make("span.note", {}, note));
}

/* A sentence as an answer. */
function sentence(text, note) {
  return make("p.sentence", { dir: "auto" }, text, " ", make("span.note", {}, note));
}

/* Rows of names and probabilities, the best first. */
function ranked(names, shares) {
  const rows = names.map((name, number) => ({ name, share: shares[number] }));
  rows.sort((a, b) => b.share - a.share);
  rows[0].strong = true;
  return rows;
}

/* Rows with bars, with a button for those after the best. */
function barsWithMore(rows) {
  const place = make("div", {}, bars(rows.slice(0, BEST)));
  const rest = rows.length - BEST;
  if (rest <= 0) return place;
  const more = make("button.plain.more", { type: "button" }, `${whole(rest)} more`);
  more.addEventListener("click", () => {
    place.replaceChildren(bars(rows));
    place.querySelectorAll("li")[BEST].tabIndex = -1; // focus moves to the first new row
    place.querySelectorAll("li")[BEST].focus();
  });
  place.append(more);
  return place;
}

/* Rows with long names, and bars below them. */
function tall(list) {
  list.classList.add("tall");
  list.querySelectorAll("bdi").forEach((name) => { name.dir = "auto"; });
  return list;
}
