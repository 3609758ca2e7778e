/* The demo page of a server. */

function main() {
  const { model, models, about, signatures } = VALUES;
  const server = new Server(model);
  if (models.length > 1) showModels(models, model);
  find("model").textContent = model;
  find("about").textContent = `${whole(about.parameters)} parameters in ${about.precision}, ` +
    `${about.encoders === 1 ? "one encoder" : `${whole(about.encoders)} encoders`}, exported on ${about.date}`;
  watchTokenDialog();
  showState(server);
  if (!signatures.length) throw new Error("the export has no signature that takes text");
  showSignatures(signatures.map((form, number) => new Panel(form, `panel-${number}`, server)));
}

/* Links to the pages of all models of the server. */
function showModels(models, shown) {
  const links = models.map((name) => make("a", {
    href: `?model=${encodeURIComponent(name)}`, ...(name === shown ? { "aria-current": "page" } : {}),
  }, make("bdi", {}, name)));
  find("models").append(...links);
  find("models").hidden = false;
}

/* Shows the versions of the server. Missing tokens and servers are reported with the first request. */
async function showState(server) {
  try {
    const [place, state] = [find("state"), await server.state()];
    place.textContent = state;
    place.hidden = !state;
    place.classList.toggle("ready", /, available/.test(state));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
  }
}

/* A tab for each signature. The fragment of the address names the one shown. */
function showSignatures(panels) {
  const tabs = panels.map((panel, number) => tabOf(panel, () => pick(number)));
  const addresses = panels.map(({ form }) => `#${encodeURIComponent(form.name)}`);
  function pick(number) {
    markOne(tabs, number, "aria-selected");
    panels.forEach((panel, other) => { panel.element.hidden = other !== number; });
    showTab(tabs[number]);
    history.replaceState(null, "", addresses[number]);
  }
  const pickAddressed = () => pick(Math.max(0, addresses.indexOf(location.hash)));
  find("tabs").append(...tabs);
  find("panels").append(...panels.map((panel) => panel.element));
  arrows(find("tabs"), tabs, pick);
  addEventListener("hashchange", pickAddressed);
  pickAddressed();
}

/* Scrolls a tab to the middle of its row. scrollIntoView would move the start of sequential focus. */
function showTab(tab) {
  const row = find("tabs");
  row.scrollLeft = tab.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
}

function tabOf({ form, shape, element }, pick) {
  const tab = make("button.tab", { type: "button", role: "tab", id: `${element.id}-tab`, "aria-controls": element.id },
    make("bdi.name", {}, form.name), make("span.quiet.small", {}, ` ${shape.called(form)}`));
  element.setAttribute("aria-labelledby", tab.id);
  tab.addEventListener("click", pick);
  return tab;
}

try {
  main();
} catch (error) {
  fail(error);
}
