/* Sentences by similarity to a query. */

SHAPES.embed = {
  called: () => "nearest sentences",
  about: () => "Cosines between the embeddings of sentences: the mean of the last layer over the tokens.",
  fields: () => [
    { name: "query", label: "Query", rows: 1, field: TextField },
    { name: "sentences", label: "Sentences, one per line", rows: 6, field: LinesField },
  ],
  inputs: ({ query, sentences }) => ({ text: [query, ...sentences] }),
  missing: ({ sentences }) => (sentences.length ? "" : "Write a sentence to compare with."),
  show({ outputs, values: { sentences } }) {
    const rows = nearest(outputs.embedding ?? outputs.mean_output, sentences);
    return { said: sentence(rows[0].name, rows[0].value), shown: [tall(bars(rows))] };
  },
};

SHAPES.embed_layers = {
  ...SHAPES.embed,
  called: () => "nearest, by layer",
  about: () => "Cosines between the means of a layer over the tokens, for the layer that is chosen.",
  show({ outputs: { layers }, values: { sentences } }) {
    const said = make("div", {});
    const list = make("div", {});
    const names = layers[0].map((_, layer) => `layer ${layer + 1}`);
    const place = make("div.choices", { role: "radiogroup", "aria-label": "Layer" });
    const pick = choices(place, names, (layer) => {
      const rows = nearest(layers.map((vectors) => vectors[layer]), sentences);
      said.replaceChildren(sentence(rows[0].name, rows[0].value));
      list.replaceChildren(tall(bars(rows)));
    });
    pick(names.length - 1);
    return { said, shown: [place, list] };
  },
};

/* The sentences, most similar first; the first vector is that of the query. */
function nearest([query, ...vectors], sentences) {
  const rows = ranked(sentences, vectors.map((vector) => cosine(query, vector)));
  return rows.map((row) => ({ ...row, value: row.share.toFixed(3) }));
}

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, number) => sum + value * y[number], 0);
  return dot(a, b) / (Math.sqrt(dot(a, a) * dot(b, b)) || 1);
}
