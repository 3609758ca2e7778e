/* What a model guessed for held-out sentences as its training went on. */

const ASKED = "[?]";
const PAUSE = 600; // milliseconds between two milestones that are played

function showCourse(course) {
  if (!course) {
    find("course-about").textContent = "This run has noted no guesses: it is of before they were noted, has no held-out examples, or guesses no masked tokens.";
    return;
  }
  const { sentences, steps } = course;
  find("course-about").textContent = `Held-out sentences with a token masked, and what was guessed there at ${steps.length} milestones of the training.`;
  find("course").hidden = false;
  const cards = sentences.map((sentence, number) => new Sentence(sentence, course.guesses.map((all) => all[number])));
  find("sentences").replaceChildren(...cards.map((card) => card.element));
  const slider = find("step");
  slider.max = steps.length - 1;
  const show = () => {
    const at = Number(slider.value);
    find("step-name").textContent = `${whole(steps[at])}`;
    slider.setAttribute("aria-valuetext", `step ${whole(steps[at])}`);
    cards.forEach((card) => card.show(at));
  };
  slider.addEventListener("input", show);
  slider.value = slider.max;
  show();
  watchPlay(slider, show);
}

/* The button that goes through the milestones. */
function watchPlay(slider, show) {
  const button = find("play");
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "play";
  };
  slider.addEventListener("input", stop);
  button.addEventListener("click", () => {
    if (timer) return stop();
    if (slider.value === slider.max) slider.value = 0;
    button.textContent = "stop";
    show();
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      show();
      if (slider.value === slider.max) stop();
    }, PAUSE);
    return undefined;
  });
}

class Sentence {
  constructor(sentence, guesses) {
    Object.assign(this, { sentence, guesses });
    const [before, ...after] = sentence.text.split(ASKED);
    this.rows = make("div");
    this.told = make("p.quiet.small.told");
    this.curve = find("chart").content.querySelector("svg").cloneNode(false);
    this.curve.setAttribute("tabindex", "-1");
    this.curve.setAttribute("aria-label", "probability of the original token over the milestones");
    this.element = make("article", {},
      make("p", { dir: "auto" }, before, make("span.asked", { title: "what was masked" }, sentence.original), after.join(ASKED)),
      this.rows, this.told, this.curve);
    new ResizeObserver(() => this.paint()).observe(this.curve);
    this.at = 0;
  }

  show(at) {
    this.at = at;
    const { tokens, right } = this.guesses[at];
    this.rows.replaceChildren(bars(tokens.map(([name, share]) => ({ name, share, strong: name === this.sentence.original })), "surprise"));
    this.told.replaceChildren(make("bdi", {}, `“${this.sentence.original}”`), ` has ${percent(right)}; over the course:`);
    this.paint();
  }

  /* How probable the right token became. */
  paint() {
    const { curve, guesses } = this;
    const [width, height] = [curve.clientWidth, curve.clientHeight];
    if (!width) return;
    const most = Math.max(0.01, ...guesses.map((guess) => guess.right));
    const x = (at) => 4 + (at / Math.max(1, guesses.length - 1)) * (width - 8);
    const y = (share) => height - 3 - (share / most) * (height - 6);
    curve.replaceChildren();
    curve.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const points = guesses.map((guess, at) => `${x(at).toFixed(1)} ${y(guess.right).toFixed(1)}`);
    draw(curve, "path", { d: `M${points.join("L")}` });
    draw(curve, "circle", { cx: x(this.at), cy: y(guesses[this.at].right), r: 3.5 });
  }
}
