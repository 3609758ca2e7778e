/* A text that continues another, shown as it arrives. */

SHAPES.generate = {
  called: () => "continuation",
  about: () => "The text that follows, as the export's settings choose it.",
  fields: () => [{ name: "text", label: "Text", rows: 4, field: TextField }],
  part: ({ text }, more) => typed("p.sentence", {}, text, make("bdi.filled", {}, more)),
  show: ({ outputs, values }) => ({ said: SHAPES.generate.part(values, outputs.text[0]), shown: [] }),
};
