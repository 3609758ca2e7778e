/* A text that is made of another. */

SHAPES.generation = {
  called: () => "text from a text",
  about: (form) => `What the model writes for a text. ${cut(form)}`,
  fields: () => [{ name: "text", label: "Source", rows: 8, field: TextField }],
  part: (values, more) => typed("p.sentence", {}, make("bdi.filled", {}, more)),
  show: ({ outputs, values }) => ({ said: SHAPES.generation.part(values, outputs.text[0]), shown: [] }),
};
