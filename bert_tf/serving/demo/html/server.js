/* The server of this page, by TensorFlow Serving's REST interface. */

/* An error with a message for users. */
class Failure extends Error {
  /* `response` is the response of the server. */
  constructor(message, response = null) {
    super(message);
    this.response = response;
  }
}

class Server {
  constructor(model) {
    this.address = new URL(`v1/models/${encodeURIComponent(model)}`, location.href).href;
    this.token = null; // kept in memory only
    this.asking = null; // the promise of a token
  }

  get predicts() {
    return `${this.address}:predict`;
  }

  fetch(address, { headers, ...options } = {}) {
    const token = this.token === null ? {} : { Authorization: `Bearer ${this.token}` };
    return reached(fetch(address, { ...options, headers: { ...headers, ...token } }));
  }

  /* Posts a request, and again when the user has given a token: {response, began}. */
  async post(address, request, signal) {
    const headers = { "Content-Type": "application/json" };
    const options = { method: "POST", headers, body: JSON.stringify(request), signal };
    for (;;) {
      const began = performance.now();
      const response = await this.fetch(address, options);
      if (response.status !== 401) return { response, began };
      await this.askToken();
    }
  }

  /* Its versions and their states, such as "version 1, available"; empty if unknown. */
  async state() {
    const known = (await json(await this.fetch(this.address)))?.model_version_status ?? [];
    return known.map(({ version, state }) => `version ${version}, ${state.toLowerCase()}`).join("; ");
  }

  /* The answer to a request: {outputs, response, milliseconds}. */
  async predict(request, signal) {
    const { response, began } = await this.post(this.predicts, request, signal);
    const said = await json(response);
    if (!response.ok || said?.outputs === undefined) throw refusal(response, said);
    return { outputs: said.outputs, response: said, milliseconds: performance.now() - began };
  }

  /* The same for a single text as output; `part` gets what there is of it so far. */
  async stream(request, signal, part) {
    const { response, began } = await this.post(`${this.address}:stream`, request, signal);
    if (!response.ok) throw refusal(response, await json(response));
    const [reader, decoder] = [response.body.getReader(), new TextDecoder()];
    let [text, unread] = ["", ""];
    for (;;) {
      const { done, value } = await reached(reader.read());
      if (done) break;
      const events = (unread + decoder.decode(value, { stream: true })).split("\n\n");
      unread = events.pop();
      for (const event of events) {
        const said = parsed(event.replace(/^data: /, ""));
        if (said?.error) throw new Failure(said.error, said);
        text += said?.text ?? "";
        part(text);
      }
    }
    const outputs = [text];
    return { outputs, response: { outputs }, milliseconds: performance.now() - began };
  }

  /* Asks the user for a token, once for all waiting requests. */
  async askToken() {
    this.asking ??= tokenOfReader(this.token !== null).finally(() => { this.asking = null; });
    this.token = await this.asking;
  }
}

/* What a promise of the network gives; an error for users if the server is away. */
async function reached(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server cannot be reached.");
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/* The JSON of a response, or null. */
const json = async (response) => parsed(await reached(response.text()));

/* Why a request failed, in one line. */
function refusal({ ok, status }, said) {
  const told = typeof said?.error === "string" ? said.error.trim().split("\n")[0] : "";
  const known = ok ? "The answer is not one of TensorFlow Serving's." : `The server refuses the request (HTTP ${status}).`;
  return new Failure(told || known, said);
}

function tokenOfReader(refused) {
  const [dialog, field] = [find("token-dialog"), find("token")];
  find("token-refused").hidden = !refused;
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve, reject) => {
    dialog.addEventListener("close", () => {
      if (dialog.returnValue) resolve(field.value.trim());
      else reject(new Failure("The server requires a token."));
      field.value = "";
    }, { once: true });
  });
}

function watchTokenDialog() {
  const dialog = find("token-dialog");
  find("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close("given");
  });
  find("token-cancel").addEventListener("click", () => dialog.close());
}
