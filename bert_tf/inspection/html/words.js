/* Words whose embeddings point the same way. */

const MATCHES = 14; // that are offered

function showWords(words) {
  if (!words || !words.count) {
    find("words-about").textContent = "There are none before a run is finished, or of a model that reads characters.";
    return;
  }
  find("words-about").textContent = `Cosines of the embeddings of ${whole(words.words.length)} words, those with the lowest ids, ` +
    "less the mean of all embeddings; of each the nearest ones.";
  find("words").hidden = false;
  const table = { ...words, nearest: new Uint16Array(bytesOf("nearest").buffer), cosines: new Int8Array(bytesOf("cosines").buffer) };
  const field = find("word");
  const show = (word) => showWord(table, word, (next) => { field.value = table.words[next]; offer(); show(next); });
  const offer = () => {
    const found = matching(words.words, field.value.trim().toLowerCase());
    find("matches").replaceChildren(...found.map((word) => {
      const button = make("button", { type: "button" }, make("bdi", {}, words.words[word]));
      button.addEventListener("click", () => show(word));
      return button;
    }));
    if (!found.length) find("matches").textContent = "no such word among them";
    return found;
  };
  field.addEventListener("input", () => {
    const found = offer();
    if (found.length) show(found[0]);
  });
  offer();
  show(words.words.findIndex((word) => word.length > 4) < 0 ? 0 : words.words.findIndex((word) => word.length > 4));
}

/* Numbers of words that are, begin with, or have in them what was typed, in this order. */
function matching(words, typed) {
  const rank = (word) => {
    const lower = word.toLowerCase();
    return lower === typed ? 0 : lower.startsWith(typed) ? 1 : lower.includes(typed) ? 2 : 3;
  };
  const found = words.map((word, number) => [rank(word), number]).filter(([order]) => order < 3);
  found.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return found.slice(0, MATCHES).map(([, number]) => number);
}

/* The neighbours of a word; `go` is called with the one that is clicked. */
function showWord({ words, count, nearest, cosines }, word, go) {
  find("word-name").replaceChildren(make("bdi", {}, words[word]));
  const rows = Array.from({ length: count }, (_, rank) => {
    const at = word * count + rank;
    return { word: nearest[at], name: words[nearest[at]], share: Math.max(0, cosines[at] / 100), value: (cosines[at] / 100).toFixed(2) };
  });
  find("word-rows").replaceChildren(bars(rows, "look", (rank) => go(rows[rank].word)));
}
