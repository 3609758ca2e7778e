/* The page of a model that reads a text. */

async function main() {
  const { model, texts, tokens, attention, guesses, answer } = VALUES;
  find("name").textContent = model.name;
  const looks = model.causal ? ", left to right" : "";
  find("about").textContent = `${model.family}${looks}: ${model.layers} layers of ${model.heads} heads, ` +
    `${whole(model.width)} wide, ${whole(model.vocabulary)} tokens; ${tokens.length} of them here`;
  tokenTable(find("token-rows"), tokens);
  if (answer) showAnswer(answer, tokens, texts);
  showGuesses(guesses, tokens, texts);
  const bytes = await unpacked("attention");
  new Reading(tokens, texts, new Attention(bytes, model.layers, model.heads, tokens.length), attention);
  find("footer").textContent = `Written by bert-tf inspect. The ${whole(bytes.length)} weights of attention take ` +
    `${whole(attention.packed_bytes / 1024)} KiB of this file: roots in 255 steps, so that a weight of 10 % is off by 0.12 % at the most.`;
}

main().catch(fail);
