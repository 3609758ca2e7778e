/* The best of several choices. */

SHAPES.choice = {
  called: () => "multiple choice",
  about: (form) => `Which choice goes best with the context. ${cut(form)}`,
  fields: () => [
    { name: "context", label: "Context", rows: 3, field: TextField },
    { name: "choices", label: "Choices", one: "Choice", field: ListField },
  ],
  missing: ({ choices }) => (choices.length ? "" : "Write a choice."),
  show({ outputs, values }) {
    const rows = ranked(values.choices, outputs.probabilities[0]);
    return { said: sentence(rows[0].name, percent(rows[0].share)), shown: [tall(bars(rows))] };
  },
};
