// The text of a stage in a pane: only the rows that are seen are in the page.

const ROW = 17, EXTRA = 12;

let panesMade = 0;

class Pane {
  constructor(choices, chosen, marksFresh) {
    this.id = `pane${panesMade++}`;
    this.choices = choices;
    this.marksFresh = marksFresh;
    this.at = -1;
    this.owed = false;
    this.height = 0;
    this.lit = new Map();
    this.freshLines = new Set();
    this.select = make("select", { "aria-label": "what this pane shows", onchange: () => this.choose(+this.select.value) });
    choices.forEach((choice, k) => this.select.append(make("option", { value: k }, choice.title)));
    this.find = make("input", { type: "search", placeholder: "find", "aria-label": "find in this text", oninput: () => this.search(0) });
    this.find.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.search(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.scroller.focus();
      event.stopPropagation();
    });
    this.rows = make("div", { class: "rows" });
    this.space = make("div", { class: "space" }, this.rows);
    this.scroller = make("div", { class: "scroll", tabindex: 0, role: "listbox", onscroll: () => this.later() }, this.space);
    this.map = make("canvas", { class: "map", width: 10, "aria-hidden": "true" });
    this.element = make("section", { class: "pane" },
      make("div", {}, this.select, this.find), make("div", { class: "text" }, this.scroller, this.map));
    this.rows.addEventListener("mousemove", (event) => this.point(event));
    this.rows.addEventListener("click", (event) => this.hold(event));
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.map.addEventListener("click", (event) => this.jump(Math.floor((event.offsetY / this.map.clientHeight) * this.text.lines.length)));
    selection.watchers.push((jump) => this.relight(jump));
    new ResizeObserver(() => { if (this.scroller.clientHeight !== this.height) this.relight(false); }).observe(this.scroller);
    this.choose(chosen);
  }

  choose(k) {
    const choice = this.choices[k];
    this.select.value = k;
    this.text = choice.text;
    this.freshLines = this.marksFresh && choice.fresh ? choice.fresh() : new Set();
    this.at = -1;
    this.scroller.setAttribute("aria-label", choice.title);
    this.space.style.height = `${this.text.lines.length * ROW}px`;
    this.scroller.scrollTop = 0;
    this.relight(selection.held);
  }

  later() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.refresh(); });
  }

  refresh() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - EXTRA);
    const count = Math.ceil(this.height / ROW) + 2 * EXTRA;
    const rows = [];
    for (let line = first; line < Math.min(first + count, this.text.lines.length); line++) rows.push(this.row(line));
    this.rows.style.top = `${first * ROW}px`;
    this.rows.replaceChildren(...rows);
    const shown = this.at >= first && this.at < first + rows.length;
    if (shown) this.scroller.setAttribute("aria-activedescendant", `${this.id}-${this.at}`);
    else this.scroller.removeAttribute("aria-activedescendant");
  }

  row(line) {
    const kind = ["row"];
    if (this.freshLines.has(line)) kind.push("fresh");
    if (this.lit.has(line)) kind.push(this.lit.get(line) ? "strong" : "weak");
    if (line === this.at) kind.push("at");
    const number = this.text.numbers ? this.text.numbers[line] : line + 1;
    const linked = this.text.numbers && this.text.sets[line].length ? " linked" : "";
    return make("div", { class: kind.join(" "), "data-line": line, id: `${this.id}-${line}`, role: "option",
      "aria-selected": line === this.at, "aria-setsize": this.text.lines.length, "aria-posinset": line + 1 },
      make("span", { class: `no${linked}` }, `${number}`), ...coloured(this.text.lines[line], this.text.level));
  }

  paintMap() {
    const height = this.map.clientHeight;
    this.map.height = height;
    const paint = this.map.getContext("2d"), style = getComputedStyle(document.documentElement);
    const mark = (lines, colour) => {
      paint.fillStyle = style.getPropertyValue(colour);
      const places = new Set(Array.from(lines, (line) => Math.floor((line / this.text.lines.length) * height)));
      for (const place of places) paint.fillRect(0, place, 10, 2);
    };
    mark(this.freshLines, "--string");
    mark(this.lit.keys(), "--accent");
  }

  // Shows what is selected, and brings it into sight if asked to; while hidden, that is owed.
  relight(jump) {
    this.owed ||= jump;
    this.height = this.scroller.clientHeight;
    if (!this.height) return;
    this.lit = this.text.linked(selection.set);
    if (this.owed && selection.from !== this && this.lit.size) {
      const strong = [...this.lit].filter(([, strong]) => strong).map(([line]) => line);
      this.scrollTo(Math.min(...(strong.length ? strong : this.lit.keys())));
    }
    this.owed = false;
    this.refresh();
    this.paintMap();
  }

  lineOf(event) {
    const row = event.target.closest(".row");
    return row ? +row.dataset.line : -1;
  }

  point(event) {
    const line = this.lineOf(event);
    if (line >= 0 && line !== this.pointed) {
      this.pointed = line;
      selection.show(this.text.sets[line], this);
    }
  }

  hold(event) {
    const line = this.lineOf(event);
    if (line >= 0) this.go(line, true);
  }

  go(line, hold = false) {
    this.at = Math.max(0, Math.min(line, this.text.lines.length - 1));
    const top = this.at * ROW, { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || top > scrollTop + clientHeight - ROW) this.scrollTo(this.at);
    const set = this.text.sets[this.at];
    if (hold) selection.hold(set, this);
    else if (selection.held) this.refresh();
    else selection.show(set, this);
  }

  jump(line) {
    this.scrollTo(line);
    this.go(line);
  }

  scrollTo(line) {
    this.scroller.scrollTop = line * ROW - this.scroller.clientHeight / 3;
  }

  key(event) {
    const page = Math.floor(this.scroller.clientHeight / ROW) - 1;
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
    if (event.key in moves) this.go(this.at + moves[event.key]);
    else if (event.key === "Enter" && this.at >= 0) this.go(this.at, true);
    else if (event.key === "/") this.find.focus();
    else if (event.key === "n") this.search(1);
    else if (event.key === "N") this.search(-1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  search(step) {
    const wanted = this.find.value.toLowerCase(), count = this.text.lines.length;
    if (!wanted) return;
    for (let k = step === 0 ? 0 : 1; k <= count; k++) {
      const line = (((this.at + (step < 0 ? -k : k)) % count) + count) % count;
      if (this.text.lines[line].toLowerCase().includes(wanted)) return this.go(line);
    }
  }
}

// The levels in the order in which they are shown where not all can be read side by side, and what a text needs.
const FIRST = ["python", "texpr", "loops", "machine code", "assign", "llvm"], READABLE = 380;

function codeView(program) {
  const sources = program.sources.map((text) => ({ title: text.name, text }));
  const stages = program.stageTexts.map((text, k) => ({
    title: text.level && text.level !== text.name ? `${text.level}: ${text.name}` : text.name, text, fresh: () => program.fresh(k),
  }));
  const choices = [...sources, ...stages], before = sources.length;
  const last = (level) => program.stages.findLastIndex((stage) => stage.level === level);
  const inferred = program.stages.findIndex((stage) => stage.name === "infer-projections");
  // The file that most of the program comes from.
  const most = sources.reduce((best, one, k) => (one.text.sets.flat().length > sources[best].text.sets.flat().length ? k : best), 0);
  const shown = [sources.length ? most : -1, before + Math.max(0, inferred), ...["assign", "loops", "llvm", "machine code"].map((level) => before + last(level))];
  const panes = shown.filter((k) => k >= 0).map((k, n) => new Pane(choices, k, n === (sources.length ? 1 : 0)));
  const box = make("div", { class: "panes" }, ...panes.map((pane) => pane.element));
  const shownLevels = shown.filter((n) => n >= 0).map((n) => choices[n].text.level || "text");
  const toggles = panes.map((pane, k) => {
    const input = make("input", { type: "checkbox", onchange: () => { pane.element.hidden = !input.checked; pane.element.style.display = input.checked ? "" : "none"; } });
    input.checked = FIRST.indexOf(shownLevels[k]) < Math.max(2, Math.floor(innerWidth / READABLE));
    pane.element.style.display = input.checked ? "" : "none";
    return make("label", {}, input, ` ${shownLevels[k]}`);
  });
  const middle = panes[sources.length ? 1 : 0];
  const label = make("output", {});
  const slider = make("input", { type: "range", min: 0, max: stages.length - 1, "aria-label": "pass", oninput: () => move(+slider.value) });
  const move = (k) => {
    const to = Math.max(0, Math.min(k, stages.length - 1)), top = middle.scroller.scrollTop;
    slider.value = to;
    middle.choose(before + to);
    if (!selection.held) middle.scroller.scrollTop = top;
    const fresh = program.fresh(to).size;
    label.textContent = `${to + 1} of ${stages.length}: ${stages[to].title}${fresh ? `, ${fresh} lines changed` : ""}`;
  };
  const bar = make("div", { class: "bar" }, make("span", {}, "pass"), slider, label, ...toggles);
  const element = make("div", { class: "view" }, bar, box);
  element.step = (by) => move(+slider.value + by);
  // At first, a source is shown from the first of its lines that the program comes from.
  element.shown = () => {
    for (const { text, scroller } of element.begun ? [] : panes) {
      if (text.numbers) scroller.scrollTop = Math.max(0, text.sets.findIndex((set) => set.length) - 3) * ROW;
    }
    element.begun = true;
  };
  move(Math.max(0, inferred));
  return element;
}
