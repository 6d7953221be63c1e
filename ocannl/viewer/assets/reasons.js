// Reasons, in a panel below all views: why the nodes of what is held are kept and computed as they are, and from
// which lines their shapes follow.

const MOST_REASONS = 20;

class Reasons {
  constructor(program, open) {
    this.program = program;
    this.open = open;
    this.wanted = true;
    this.byOrigin = new Map();
    for (const reason of [...program.reasons, ...program.proofs.map((proof) => this.unpacked(proof))]) {
      const [first] = program.sets[reason.origins];
      if (!this.byOrigin.has(first)) this.byOrigin.set(first, []);
      this.byOrigin.get(first).push(reason);
    }
    this.list = make("div", { class: "reasons" });
    this.element = make("aside", { id: "why", "aria-label": "why", tabindex: 0, hidden: "" }, this.list);
    this.button = make("button", { type: "button", "aria-pressed": "true", title: "reasons for what is held (w)", onclick: () => this.toggle() }, "why");
    selection.watchers.push(() => this.show());
  }

  // A proof with its lines in place of their numbers.
  unpacked(proof) {
    const all = this.program.proof_lines;
    return { ...proof, get lines() { return proof.lines.flatMap((k) => all.slice(3 * k, 3 * k + 3)); } };
  }

  toggle() {
    this.wanted = !this.wanted;
    this.button.setAttribute("aria-pressed", this.wanted);
    this.show(true);
  }

  // What was chosen inside of the panel changes the other views only.
  show(again = false) {
    if (!again && selection.from instanceof Node && this.element.contains(selection.from) && selection.held) return;
    const set = selection.held ? selection.set : [];
    const found = [...new Set(set.flatMap((origin) => this.byOrigin.get(origin) || []))];
    this.element.hidden = !this.wanted || !found.length;
    const more = found.length > MOST_REASONS ? [make("p", { class: "quiet" }, `and ${found.length - MOST_REASONS} other nodes: hold one line of them`)] : [];
    this.list.replaceChildren(...found.slice(0, MOST_REASONS).map((reason) => this.reason(reason)), ...more);
    this.element.scrollTop = 0;
  }

  reason(reason) {
    const lines = [];
    for (let k = 0; k < reason.lines.length; k += 3) lines.push(this.line(...reason.lines.slice(k, k + 3)));
    return make("section", {}, make("h2", {}, this.program.texts[reason.answer]), make("ul", {}, ...lines));
  }

  line(file, at, text) {
    const item = make("li", {});
    if (file >= 0) {
      const place = `${this.program.sources[file].name}:${at}`;
      const button = make("button", { type: "button", class: "place", onclick: () => this.goTo(file, at, button) }, place);
      item.append(button, " ");
    }
    item.append(this.program.texts[text]);
    return item;
  }

  goTo(file, line, button) {
    this.open(0);
    selection.hold(this.program.originsAt(file, line), button);
  }
}
