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

  /* The response of the server: {status, ok, said}; `said` is its JSON, or null. */
  async send(address, options) {
    const headers = this.token === null ? {} : { Authorization: `Bearer ${this.token}` };
    const response = await reached(fetch(address, { ...options, headers: { ...options.headers, ...headers } }));
    const { status, ok } = response;
    return { status, ok, said: parsed(await reached(response.text())) };
  }

  /* Its versions and their states, such as "version 1, available"; empty if unknown. */
  async state() {
    const { said } = await this.send(this.address, {});
    const known = said?.model_version_status ?? [];
    return known.map(({ version, state }) => `version ${version}, ${state.toLowerCase()}`).join("; ");
  }

  /* The answer to a request: {outputs, response, milliseconds}. */
  async predict(request, signal) {
    const options = {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(request),
      signal,
    };
    for (;;) {
      const began = performance.now();
      const answer = await this.send(this.predicts, options);
      if (answer.status === 401) {
        await this.askToken();
        continue;
      }
      const { ok, said } = answer;
      if (!ok || said?.outputs === undefined) throw new Failure(reason(answer), said);
      return { outputs: said.outputs, response: said, milliseconds: performance.now() - began };
    }
  }

  /* The same for a single text as output; `part` gets what there is of it so far. */
  async stream(request, signal, part) {
    const began = performance.now();
    const headers = { "Content-Type": "application/json" };
    if (this.token !== null) headers.Authorization = `Bearer ${this.token}`;
    const options = { method: "POST", headers, body: JSON.stringify(request), signal };
    const response = await reached(fetch(`${this.address}:stream`, options));
    if (response.status === 401) {
      await this.askToken();
      return this.stream(request, signal, part);
    }
    const { status, ok, body } = response;
    if (!ok) {
      const said = parsed(await reached(response.text()));
      throw new Failure(reason({ ok, status, said }), said);
    }
    const [reader, decoder] = [body.getReader(), new TextDecoder()];
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

/* Why a request failed, in one line. */
function reason({ ok, status, said }) {
  const told = typeof said?.error === "string" ? said.error.trim().split("\n")[0] : "";
  if (told) return told;
  return ok ? "The answer is not one of TensorFlow Serving's." : `The server refuses the request (HTTP ${status}).`;
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
