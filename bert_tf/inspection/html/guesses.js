/* What a model guesses for masked tokens. */

const CERTAIN = 12; // bits of surprise that are shaded darkest

function showGuesses(guesses, tokens, texts) {
  if (!guesses) {
    find("guesses-about").textContent = "This model has no head that guesses masked tokens, or none that goes with its task.";
    return;
  }
  if (!guesses.tokens.length) {
    find("guesses-about").textContent = "There is no token to guess.";
    return;
  }
  const of = new Map(guesses.tokens.map((guess) => [guess.position, guess]));
  find("guesses-about").textContent = guesses.masked ? "The masks of the text, and what may stand there."
    : "Each token was masked alone: what would be guessed in its place, and how surprising it is, in bits. " +
      `${short(guesses.mean_bits)} bits a token on average, a pseudo-perplexity of ${short(guesses.pseudo_perplexity)}.`;
  const show = (number) => of.has(number) && showGuess(of.get(number), tokens[number]);
  const flow = new TokenFlow(find("guesses-tokens"), tokens, texts, guesses.masked ? () => {} : show);
  flow.paint((number) => noteOf(of.get(number)));
  if (guesses.masked) {
    flow.rest();
    find("guesses-rows").replaceChildren(...guesses.tokens.map((guess, number) =>
      make("div", {}, make("h3", {}, `mask ${number + 1}`), guessRows(guess))));
  } else {
    flow.keep(guesses.tokens[0].position);
  }
}

/* The shade of a token, and what stands under it. */
function noteOf(guess) {
  if (!guess) return {};
  if (guess.bits === null) return { tone: "surprise", strength: 0.6, note: guess.guesses[0][0], marked: true };
  return { tone: "surprise", strength: Math.min(1, guess.bits / CERTAIN), note: guess.bits.toFixed(1) };
}

function guessRows(guess) {
  return bars(guess.guesses.map(([name, share]) => ({ name, share, strong: name === guess.original })), "surprise");
}

/* The guesses for one token, and what it was. */
function showGuess(guess, token) {
  const title = make("h3", {}, "in the place of ", named(token));
  const told = make("p.quiet", {}, named(token), ` has ${percent(guess.probability)}: ${short(guess.bits)} bits of surprise.`);
  find("guesses-rows").replaceChildren(make("div", {}, title, guessRows(guess), told));
}
