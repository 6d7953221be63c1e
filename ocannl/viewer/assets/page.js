// The page: its views, keys, and the line at the bottom.

const VIEWS = [["code", codeView], ["graph", graphView], ["schedule", scheduleView], ["memory", memoryView], ["time", timeView]];

// What each view shows and how it is used, at the bottom until something is selected.
const HINTS = {
  code: "One program at all levels. Point at a line: what it comes from and all that it became lights up; a click holds it, with reasons. Lines with bold numbers have become code. ? lists keys.",
  graph: "What is computed from what, with shapes. A double click unfolds a block; a click lights it up in all views.",
  schedule: "How each loop nest runs: what one register tile touches of its arrays. Percentages are shares of the time, or of the operations.",
  memory: "Intermediate values share an arena: height is bytes, from left to right the kernels run. A click says why a node has memory.",
  time: "Where the time goes: kernels in the order in which they run, and how near each is to the best rates.",
};

// What was compiled: its kernels, memory and time, and the processor.
function summary(program) {
  const { steps, memory } = program, parts = [];
  if (steps.length) parts.push(`${steps.length} kernels`);
  const arena = Math.max(0, ...memory.filter((node) => node.offset !== null).map((node) => node.offset + node.bytes));
  const own = memory.filter((node) => node.offset === null).reduce((sum, node) => sum + node.bytes, 0);
  if (arena + own) parts.push(si(arena + own, "B"));
  if (steps.some((step) => step.seconds !== null)) parts.push(time(steps.reduce((sum, step) => sum + step.seconds, 0)));
  return [...parts, program.target].join(", ");
}

function switchTheme(name) {
  document.documentElement.dataset.theme = name;
  for (const watch of selection.watchers) watch(false);
}

async function start() {
  const program = await readData();
  const main = document.querySelector("main"), tabs = document.querySelector("[role=tablist]"), status = document.getElementById("status");
  document.getElementById("target").textContent = summary(program);
  const dark = matchMedia("(prefers-color-scheme: dark)"), follow = () => switchTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", follow);
  follow();
  const views = VIEWS.map(([name], k) => {
    const tab = make("button", { type: "button", role: "tab", id: `tab-${name}`, title: `${k + 1}`, onclick: () => open(k) }, name);
    tabs.append(tab);
    return { tab, element: null };
  });
  // The element of a view, which is made when it is first wanted.
  const viewOf = (k) => {
    const [name, build] = VIEWS[k], { tab, element } = views[k];
    if (element) return element;
    tab.setAttribute("aria-controls", `view-${name}`);
    views[k].element = filled(build(program), { role: "tabpanel", id: `view-${name}`, "aria-labelledby": tab.id, hidden: "" }, []);
    reasons.element.before(views[k].element);
    return views[k].element;
  };
  let hint = "";
  const tell = () => {
    const words = selection.set.length ? program.describe(selection.set) : hint;
    status.textContent = selection.held ? `held: ${words} (Escape lets go)` : words;
  };
  roving(views.map(({ tab }) => tab));
  const open = (k) => {
    const opened = viewOf(k);
    views.forEach(({ element, tab }, n) => {
      if (element) element.hidden = n !== k;
      tab.setAttribute("aria-selected", n === k);
      tab.setAttribute("tabindex", n === k ? 0 : -1);
    });
    opened.shown();
    hint = HINTS[VIEWS[k][0]];
    tell();
    history.replaceState(null, "", `#${VIEWS[k][0]}`);
  };
  const reasons = new Reasons(program, open);
  main.append(reasons.element);
  document.getElementById("theme").before(reasons.button);
  selection.watchers.push(() => tell());
  document.getElementById("theme").addEventListener("click", () => switchTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input[type=search]")) return;
    if (event.key >= "1" && event.key <= `${VIEWS.length}`) open(+event.key - 1);
    else if (event.key === "[" || event.key === "]") viewOf(0).step(event.key === "]" ? 1 : -1);
    else if (event.key === "w") reasons.toggle();
    else if (event.key === "t") document.getElementById("theme").click();
    else if (event.key === "?") document.getElementById("help").click();
    else if (event.key === "Escape") { selection.held = false; selection.show([], null); }
  });
  const wanted = VIEWS.findIndex(([name]) => name === location.hash.slice(1));
  open(Math.max(0, wanted));
  // What is timed ends when it can be seen.
  requestAnimationFrame(() => setTimeout(() => { document.body.dataset.ready = Math.round(performance.now()); }));
}

start().catch((error) => { document.getElementById("status").textContent = `this page cannot be shown: ${error}`; throw error; });
