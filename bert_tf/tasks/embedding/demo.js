/* Sentences by the similarity of their embeddings to that of a query. */

SHAPES.embedding = {
  ...SHAPES.embed,
  about: (form) => `Cosines between the embeddings of sentences. ${cut(form)}`,
};
