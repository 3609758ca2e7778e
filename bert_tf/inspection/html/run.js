/* The page of a run of pre-training. */

const CHARTS = [
  { title: "loss, in nats", has: (name) => name === "loss", format: short },
  { title: "accuracy", has: (name) => name.endsWith("_accuracy"), format: percent },
  { title: "learning rate", has: (name) => name === "learning_rate", format: short },
  { title: "sequences a second", has: (name) => name === "sequences_per_second", format: short },
];
const plain = (name) => name.replaceAll("_", " ");

function main() {
  const { run, history, held_out: heldOut, course, words } = VALUES;
  find("name").textContent = run.name;
  find("about").textContent = aboutRun(run);
  showFigures(run.figures);
  showCurves(history, heldOut);
  showCourse(course);
  showWords(words);
  find("footer").textContent = "Written by bert-tf inspect.";
}

function aboutRun({ finished, steps, objective, parameters, seconds, config }) {
  const parts = [
    config.hidden_size && `${config.num_hidden_layers} layers of ${config.num_attention_heads} heads, ${whole(config.hidden_size)} wide`,
    parameters && `${whole(parameters)} parameters`,
    objective && plain(objective),
    `${whole(steps)} steps`,
    seconds && `${whole(seconds / 60)} minutes`,
    !finished && "not finished",
  ];
  return parts.filter(Boolean).join(", ");
}

function showFigures(figures) {
  const entries = Object.entries(figures);
  find("figures-section").hidden = !entries.length;
  find("figures").replaceChildren(...entries.map(([name, value]) => make("div", {},
    make("dt", {}, plain(name)),
    make("dd", {}, /_(accuracy|majority)$/.test(name) ? percent(value) : short(value)))));
}

/* A chart for each kind of curve that the run has. */
function showCurves(history, heldOut) {
  const { together } = history;
  find("curves-about").textContent = history.steps.length
    ? `Training${together > 1 ? ` (each point the mean of ${together} that were noted)` : ""}; dashed: held-out examples. Point at a curve, or use the arrow keys.`
    : "No step was noted yet.";
  const trained = (name) => !history.steps.length || name in history.values;
  const charts = CHARTS.map(({ title, has, format }) => {
    const series = [...seriesOf(history, has, false), ...seriesOf(heldOut, (name) => has(name) && trained(name), true)];
    const names = [...new Set(series.map((one) => one.name))];
    series.forEach((one) => { one.tone = names.indexOf(one.name) % TONES; });
    return series.length ? new Chart(title, series, format).figure : null;
  });
  find("charts").replaceChildren(...charts.filter(Boolean));
}

/* The curves of names that a chart has, those without a value left out. */
function seriesOf({ steps, values }, has, dashed) {
  const found = Object.entries(values).filter(([name, curve]) => has(name) && curve.some((value) => value !== null));
  return found.map(([name, curve]) => ({ name: plain(name.replace(/_accuracy$/, "")), steps, values: curve, dashed }));
}

try {
  main();
} catch (error) {
  fail(error);
}
