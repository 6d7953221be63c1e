// The page: its views, keys, and the line at the bottom.

const VIEWS = [["code", codeView], ["graph", graphView], ["schedule", scheduleView], ["memory", memoryView], ["time", timeView]];

function switchTheme(name) {
  document.documentElement.dataset.theme = name;
  for (const watch of selection.watchers) watch(false);
}

async function start() {
  const program = await readData();
  const main = document.querySelector("main"), tabs = document.querySelector("[role=tablist]"), status = document.getElementById("status");
  document.getElementById("target").textContent = program.target;
  switchTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const views = VIEWS.map(([name, build], k) => {
    const element = build(program);
    const tab = make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `view-${name}`, title: `${k + 1}`, onclick: () => open(k) }, name);
    for (const [attribute, value] of Object.entries({ role: "tabpanel", id: `view-${name}`, "aria-labelledby": tab.id })) element.setAttribute(attribute, value);
    tabs.append(tab);
    main.append(element);
    return { element, tab };
  });
  roving(views.map(({ tab }) => tab));
  const open = (k) => {
    views.forEach(({ element, tab }, n) => {
      element.hidden = n !== k;
      tab.setAttribute("aria-selected", n === k);
      tab.setAttribute("tabindex", n === k ? 0 : -1);
    });
    if (views[k].element.shown) views[k].element.shown();
    history.replaceState(null, "", `#${VIEWS[k][0]}`);
  };
  const reasons = new Reasons(program, open);
  main.append(reasons.element);
  document.getElementById("theme").before(reasons.button);
  selection.watchers.push(() => {
    const words = selection.set.length ? program.describe(selection.set) : "";
    status.textContent = selection.held ? `held: ${words} (Escape lets go)` : words;
  });
  document.getElementById("theme").addEventListener("click", () => switchTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input[type=search]")) return;
    if (event.key >= "1" && event.key <= `${VIEWS.length}`) open(+event.key - 1);
    else if (event.key === "[" || event.key === "]") views[0].element.step(event.key === "]" ? 1 : -1);
    else if (event.key === "w") reasons.toggle();
    else if (event.key === "t") document.getElementById("theme").click();
    else if (event.key === "?") document.getElementById("help").click();
    else if (event.key === "Escape") { selection.held = false; selection.show([], null); }
  });
  const wanted = VIEWS.findIndex(([name]) => name === location.hash.slice(1));
  open(Math.max(0, wanted));
  document.body.dataset.ready = Math.round(performance.now());
}

start().catch((error) => { document.getElementById("status").textContent = `this page cannot be shown: ${error}`; throw error; });
