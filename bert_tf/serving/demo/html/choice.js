/* The best of several choices. */

const CHOICE = {
  called: () => "multiple choice",
  about: (form) => `Which choice goes best with the context. ${cut(form)}`,
  fields: () => [
    { name: "context", label: "Context", rows: 3, field: TextField },
    { name: "choices", label: "Choices", one: "Choice", field: ChoicesField },
  ],
  missing: ({ choices }) => (choices.length ? "" : "Write a choice."),
  show({ outputs, values }) {
    const rows = ranked(values.choices, outputs.probabilities[0]);
    return { said: sentence(rows[0].name, percent(rows[0].share)), shown: [tall(bars(rows))] };
  },
};

/* Rows whose names are texts, with the bars below them. */
function tall(list) {
  list.classList.add("tall");
  list.querySelectorAll("bdi").forEach((name) => { name.dir = "auto"; });
  return list;
}
