/* Labels and scores of a text or a pair. */

const TEXTS = { text: "Text", text_a: "First text", text_b: "Second text" };

const textFields = ({ inputs }) =>
  inputs.map((name) => ({ name, label: TEXTS[name], rows: 3, field: TextField }));
const ofPairs = ({ inputs }) => (inputs.length > 1 ? " of pairs" : "");

SHAPES.classification = {
  called: (form) => `classification${ofPairs(form)}`,
  about: (form) => `One of ${whole(form.labels.length)} labels. ${cut(form)}`,
  fields: textFields,
  show({ outputs, form }) {
    const names = form.labels.map((label, number) =>
      (number in form.meanings ? `${label}: ${form.meanings[number]}` : label));
    const rows = ranked(names, outputs.probabilities[0]);
    return { said: headline(rows[0].name, percent(rows[0].share)), shown: [barsWithMore(rows)] };
  },
};

SHAPES.multilabel = {
  called: (form) => `labels${ofPairs(form)}`,
  about: (form) => `Any of ${whole(form.labels.length)} labels. ${cut(form)}`,
  fields: textFields,
  show({ outputs, form }) {
    const chosen = outputs.labels[0].filter(Boolean).join(", ") || "no label";
    const rows = ranked(form.labels, outputs.probabilities[0]);
    return { said: headline(chosen), shown: [barsWithMore(rows)] };
  },
};

SHAPES.regression = {
  called: (form) => `regression${ofPairs(form)}`,
  about: (form) => `A score${form.bounds ? ` from ${form.bounds.join(" to ")}` : ""}. ${cut(form)}`,
  fields: textFields,
  show({ outputs, form, panel }) {
    if (form.labels.length) {
      const each = form.labels.map((name, number) => `${name} ${short(outputs.scores[0][number])}`);
      return { said: headline(each.join(", ")), shown: [] };
    }
    const score = outputs.score[0];
    const scores = (panel.scores ??= []); // earlier ones too
    scores.push(score);
    return { said: headline(short(score)), shown: gauge(score, scores, form.bounds) };
  },
};

/* A score on a scale, and earlier ones as thin lines. */
function gauge(score, scores, bounds) {
  const [low, high] = bounds ?? roundBounds(scores);
  const place = (value) => 100 * Math.min(1, Math.max(0, (value - low) / (high - low)));
  const [left, right] = [0, score].sort((a, b) => a - b).map(place);
  const fill = make("span.fill", { style: `left: ${left}%; width: ${right - left}%` });
  const earlier = scores.slice(0, -1).map((value) =>
    make("span.tick", { style: `left: ${place(value)}%`, title: short(value) }));
  const meter = {
    role: "meter", "aria-label": "Score", "aria-valuenow": score, "aria-valuemin": low, "aria-valuemax": high,
  };
  const notes = [
    ...(bounds ? [] : ["The range of scores is unknown; the ends are round numbers."]),
    ...(earlier.length ? ["Thin lines are earlier scores."] : []),
  ];
  return [
    make("div.gauge", meter, make("span.track", {}, fill), ...earlier),
    make("p.ends", {}, make("span", {}, short(low)), make("span", {}, short(high))),
    ...(notes.length ? [make("p.quiet.small", {}, notes.join(" "))] : []),
  ];
}

/* The nearest round numbers that enclose all scores and zero. */
function roundBounds(scores) {
  const beyond = (size) => {
    const power = 10 ** Math.floor(Math.log10(Math.max(size, 1e-9)));
    return [1, 2, 5, 10].map((step) => step * power).find((value) => value >= size);
  };
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  return [low < 0 ? -beyond(-low) : 0, high > 0 ? beyond(high) : 0];
}
