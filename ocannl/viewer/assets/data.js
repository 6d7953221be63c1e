// The data of the page, and what is linked with what.

const DIALECTS = ["texpr", "assign", "loops", "kernel"];

async function readData() {
  const packed = atob(document.getElementById("data").textContent), bytes = new Uint8Array(packed.length);
  // A loop: a function for each character takes longer than all else when a page opens.
  for (let k = 0; k < bytes.length; k++) bytes[k] = packed.charCodeAt(k);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Program(JSON.parse(await new Response(stream).text()));
}

// Names in blocks by their ends, for where there is little room: `decoder.layer1.into.w.grad` is `into.w.grad`.
const PARTS = "(?:grad|sums|parts|packed|again|adam_\\w+)";
const LONG_NAMES = new RegExp(`(?:\\w+\\.)+(?=\\w+\\.(?!${PARTS}\\b)\\w+(?:\\.${PARTS})*(?![\\w.]))`, "g");
const ends = (text) => text.replace(LONG_NAMES, "");

// A text that a pane shows: lines, each with a set of origins (0 is none).
class Text {
  constructor(name, level, lines, sets, numbers) {
    Object.assign(this, { name, level, lines, sets, numbers });
  }

  // The lines that have each origin.
  get linesOf() {
    if (!this.found) {
      this.found = new Map();
      this.sets.forEach((set, line) => {
        for (const origin of set) {
          if (!this.found.has(origin)) this.found.set(origin, []);
          this.found.get(origin).push(line);
        }
      });
    }
    return this.found;
  }

  // The lines that share an origin with a set: true for those made for its first origin.
  linked(set) {
    const lines = new Map();
    for (const origin of set) {
      for (const line of this.linesOf.get(origin) || []) {
        const strong = this.sets[line][0] === set[0];
        lines.set(line, lines.get(line) || strong);
      }
    }
    return lines;
  }
}

class Program {
  constructor(data) {
    Object.assign(this, data);
    this.stageTexts = data.stages.map((stage) => this.stageText(stage));
    this.sources = data.files.map((file, number) => this.sourceText(file, number));
  }

  stageText(stage) {
    const lines = [], sets = [];
    for (let k = 0; k < stage.lines.length; k += 2) {
      lines.push(this.texts[stage.lines[k]]);
      sets.push(this.sets[stage.lines[k + 1]]);
    }
    return new Text(stage.name, stage.level, lines, sets);
  }

  sourceText(file, number) {
    const of = new Map();
    this.origins.forEach(([, at, line], origin) => {
      if (at !== number) return;
      if (!of.has(line)) of.set(line, []);
      of.get(line).push(origin);
    });
    const sets = file.lines.map(([line]) => this.ofLine(of.get(line) || []));
    const short = file.name.split(/[\\/]/).pop();
    return new Text(short, "python", file.lines.map(([, text]) => text), sets, file.lines.map(([at]) => at));
  }

  // The origins of a line of Python: its result, which is made last, stands for the line, and statements come after all.
  ofLine(set) {
    const isStatement = (origin) => /^[a-z_]+ \d+$/.test(this.origins[origin][0]);
    return [...set].reverse().sort((a, b) => isStatement(a) - isStatement(b));
  }

  // The lines of a stage whose text the stage before does not have.
  fresh(number) {
    const stage = this.stages[number];
    if (!stage.fresh) {
      const before = new Map(), compared = number > 0 && DIALECTS.includes(stage.level);
      const earlier = compared ? this.stages[number - 1].lines : [];
      for (let k = 0; k < earlier.length; k += 2) before.set(earlier[k], (before.get(earlier[k]) || 0) + 1);
      stage.fresh = new Set();
      for (let k = 0; compared && k < stage.lines.length; k += 2) {
        const left = before.get(stage.lines[k]) || 0;
        if (left) before.set(stage.lines[k], left - 1);
        else stage.fresh.add(k / 2);
      }
    }
    return stage.fresh;
  }

  // A label for reading: numbers of expressions without a name are said as expressions.
  titled(label, set = 0) {
    const [origin] = this.sets[set];
    const said = (name) => {
      const own = this.expressions[name] || this.expressions[name.replace(/_\d+$/, "")];
      const made = !own && /^n_\d+$/.test(name) && origin !== undefined ? this.origins[origin][0] : "";
      return own ? ends(own) : made ? `for ${ends(this.expressions[made] || made)}` : name;
    };
    return label.replace(/\bn_?\d+(?:_grad\d*)?(?:_\d+)?\b/g, said);
  }

  // The line of a set's first origin: `model.py:7`.
  lineOf(set) {
    const [origin] = this.sets[set];
    if (origin === undefined) return "";
    const [, file, line] = this.origins[origin];
    return `${this.sources[file].name}:${line}`;
  }

  // The origins at a line of a file.
  originsAt(file, line) {
    return this.ofLine(this.origins.flatMap(([, at, where], origin) => (at === file && where === line ? [origin] : [])));
  }

  describe(set) {
    const places = new Map();
    for (const origin of set.slice(0, 6)) {
      const [name, file, line] = this.origins[origin], place = `${this.sources[file].name}:${line}`;
      if (!places.has(place)) places.set(place, []);
      places.get(place).push(ends(this.expressions[name] || name || "code"));
    }
    const words = [...places].map(([place, names]) => `${names.join(", ")} at ${place}`);
    return words.join("; ") + (set.length > 6 ? `; and ${set.length - 6} more` : "");
  }
}

// What is selected: the origins that all views light up. A held one stays until it is let go.
const selection = {
  set: [], held: false, from: null, watchers: [],
  show(set, from) {
    if (this.held) return;
    this.set = set;
    this.from = from;
    this.changed();
  },
  hold(set, from) {
    this.held = set.length > 0;
    this.set = set;
    this.from = from;
    this.changed(true);
  },
  changed(jump = false) {
    for (const watch of this.watchers) watch(jump);
  },
};

// Lights up those of the shapes, each with its set of origins, that what is selected has an origin of.
function lighten(marks) {
  const wanted = new Set(selection.set);
  for (const [shape, set] of marks) shape.classList.toggle("lit", set.some((origin) => wanted.has(origin)));
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  return filled(element, attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Makes an element a button that mouse and keyboard point at: what it stands for lights up.
function pointing(element, set, label) {
  if (element.tagName !== "BUTTON") {
    element.setAttribute("tabindex", "0");
    element.setAttribute("role", "button");
  }
  if (label) element.setAttribute("aria-label", label);
  element.addEventListener("mouseenter", () => selection.show(set, element));
  element.addEventListener("focus", () => selection.show(set, element));
  element.addEventListener("click", () => selection.hold(set, element));
  if (element.tagName !== "BUTTON") element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    selection.hold(set, element);
  });
  return element;
}

// A row of a table whose first cell is a button for what the row is about.
function pointingRow(name, set, ...cells) {
  const button = pointing(make("button", { type: "button", class: "plain" }, name), set);
  const row = make("tr", {}, make("th", { scope: "row" }, button), ...cells.map((cell) => make("td", {}, cell)));
  row.addEventListener("mouseenter", () => selection.show(set, button));
  row.addEventListener("click", () => selection.hold(set, button));
  return row;
}

// One stop of the Tab key for many elements: arrows, Home and End move between them.
function roving(elements) {
  const reach = (k) => elements.forEach((element, n) => element.setAttribute("tabindex", n === k ? 0 : -1));
  elements.forEach((element, k) => {
    element.addEventListener("focus", () => reach(k));
    element.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: k + 1, ArrowDown: k + 1, ArrowLeft: k - 1, ArrowUp: k - 1, Home: 0, End: elements.length - 1 };
      const to = elements[steps[event.key]];
      if (!to) return;
      event.preventDefault();
      to.focus();
    });
  });
  reach(0);
}
