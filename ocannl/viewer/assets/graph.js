// The graph of expressions, folded by blocks.

const WIDE = 230, HIGH = 46, GAP = 26, BETWEEN = 54;

const LEAVES = ["param", "data", "constant", "embed", "size", "range", "node", "grad"];
const partsOf = (block) => block.split(".").filter(Boolean);

// Whether a group depends on another one, directly or through others.
function dependsOn(group, other, seen = new Set()) {
  if (group === other) return true;
  if (seen.has(group)) return false;
  seen.add(group);
  return [...group.inputs.keys()].some((from) => dependsOn(from, other, seen));
}

// The groups of nodes at a depth of the paths of blocks: the expressions of a block are one group, but for
// blocks that are open, and for what it computes again from those after it, as of tied weights.
function groupsAt(program, depth, open) {
  const nodes = program.graph;
  const groups = [], groupOf = [], last = new Map();
  nodes.forEach((node, k) => {
    if (LEAVES.includes(node.op)) return;
    let parts = partsOf(node.block), path = parts.slice(0, depth).join(".");
    while (open.has(path) && path !== node.block) path = parts.slice(0, partsOf(path).length + 1).join(".");
    const deep = !path || open.has(path);
    let group = deep ? undefined : last.get(path);
    const given = node.operands.map((operand) => groupOf[operand]);
    if (!group || given.some((from) => from && from !== group && dependsOn(from, group))) {
      group = { title: deep ? program.titled(node.name) : path, path, kind: deep ? node.does : "block", nodes: [], inputs: new Map(), leaves: [] };
      groups.push(group);
      if (!deep) last.set(path, group);
    }
    group.nodes.push(k);
    group.shape = node.shape;
    groupOf[k] = group;
    given.forEach((from, n) => {
      if (!from) group.leaves.push(node.operands[n]);
      else if (from !== group && !group.inputs.has(from)) group.inputs.set(from, node.given[n]);
    });
  });
  return groups;
}

function placed(groups) {
  const ranks = [];
  for (const group of groups) group.rank = undefined;
  const rankOf = (group, seen) => {
    if (group.rank === undefined) {
      group.rank = -1;
      let rank = 0;
      for (const input of group.inputs.keys()) if (!seen.has(input)) rank = Math.max(rank, rankOf(input, seen.add(group)) + 1);
      group.rank = rank;
    }
    return group.rank;
  };
  for (const group of groups) rankOf(group, new Set());
  for (const group of groups) (ranks[group.rank] ||= []).push(group);
  for (const rank of ranks) {
    rank.forEach((group) => {
      const columns = [...group.inputs.keys()].map((input) => input.column || 0);
      group.wish = columns.length ? columns.reduce((a, b) => a + b) / columns.length : 0;
    });
    rank.sort((a, b) => a.wish - b.wish).forEach((group, k) => { group.column = k; });
  }
  for (const group of groups) {
    group.x = 20 + group.column * (WIDE + GAP);
    group.y = 20 + group.rank * (HIGH + BETWEEN);
  }
  return ranks;
}

function graphView(program) {
  const depths = Math.max(0, ...program.graph.map((node) => node.block.split(".").filter(Boolean).length));
  const svg = draw("svg", { role: "group", "aria-label": "the graph of expressions", preserveAspectRatio: "xMidYMin", style: "width:100%;height:100%;touch-action:none" });
  const stage = make("div", { class: "stage", style: "padding:0;overflow:hidden" }, svg);
  const depth = make("select", { "aria-label": "fold", onchange: () => { unfolded.clear(); show(+depth.value); } });
  for (let k = 1; k <= depths + 1; k++) depth.append(make("option", { value: k }, k > depths ? "all expressions" : `blocks to depth ${k}`));
  const total = make("span", { class: "quiet" });
  const element = make("div", { class: "view" }, make("div", { class: "bar" }, make("label", {}, "fold: ", depth), total,
    make("button", { type: "button", onclick: () => zoom(1 / 1.25, 0.5, 0.5) }, "zoom in"), make("button", { type: "button", onclick: () => zoom(1.25, 0.5, 0.5) }, "zoom out"),
    make("span", { class: "quiet" }, "drag or arrows to move, wheel to zoom, double-click or + to unfold a block")), stage);
  let box = [0, 0, 1000, 700];
  const look = () => svg.setAttribute("viewBox", box.join(" "));
  const zoom = (factor, fx, fy) => {
    box = [box[0] + box[2] * fx * (1 - factor), box[1] + box[3] * fy * (1 - factor), box[2] * factor, box[3] * factor];
    look();
  };
  // Brings a group that has got the focus into the picture.
  const reveal = ({ x, y }) => {
    const [left, top, width, height] = box;
    if (x >= left && x + WIDE <= left + width && y >= top && y + HIGH <= top + height) return;
    box = [x + WIDE / 2 - width / 2, y + HIGH / 2 - height / 2, width, height];
    look();
  };
  const marks = [], unfolded = new Set();
  const everything = new Set(program.graph.flatMap((node) => partsOf(node.block).map((_, n, parts) => parts.slice(0, n + 1).join("."))));
  const light = () => lighten(marks);
  const show = (k) => {
    const groups = groupsAt(program, k, k === depths + 1 ? everything : unfolded);
    const ranks = placed(groups);
    marks.length = 0;
    const edges = groups.flatMap((group) => [...group.inputs].map(([from, shape], n) => {
      const [x1, y1, x2, y2] = [from.x + WIDE / 2, from.y + HIGH, group.x + WIDE / 2, group.y];
      const bend = Math.max(20, (y2 - y1) / 2);
      return draw("g", {}, draw("path", { class: "edge", d: `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}` }),
        draw("title", {}, shape), draw("text", { class: "quiet", x: x2 + 4, y: y2 - 6 - 13 * n }, cut(shape, 30)));
    }));
    const boxes = groups.map((group) => {
      const sets = group.nodes.flatMap((n) => program.sets[program.graph[n].origins]);
      const set = [...new Set(sets)];
      const leaves = group.leaves.map((n) => `${program.titled(program.graph[n].name)} : ${program.graph[n].shape}`);
      const rect = draw("rect", { class: "box", width: WIDE, height: HIGH, rx: 6 });
      const what = group.nodes.length > 1 ? `${group.nodes.length} expressions` : `${group.kind} ${leaves.length ? "of " + leaves.map((l) => l.split(" : ")[0]).join(", ") : ""}`;
      const mark = pointing(draw("g", { class: "mark", transform: `translate(${group.x},${group.y})` }, rect,
        draw("text", { x: 8, y: 18, "font-weight": 600 }, cut(group.title, 31)), draw("text", { class: "quiet", x: 8, y: 36 }, cut(what, 33)),
        draw("title", {}, [group.title, group.shape, ...leaves.slice(0, 12)].join("\n"))), set, `${group.title}, ${group.shape}`);
      const unfold = () => { unfolded.add(group.path); show(+depth.value); };
      if (group.kind === "block") {
        mark.addEventListener("dblclick", unfold);
        mark.addEventListener("keydown", (event) => { if (event.key === "+") unfold(); });
      }
      mark.addEventListener("focus", () => { if (mark.matches(":focus-visible")) reveal(group); });
      marks.push([rect, set]);
      return mark;
    });
    svg.replaceChildren(...edges, ...boxes);
    roving(boxes);
    const width = Math.max(...ranks.map((rank) => rank.length), 1) * (WIDE + GAP) + 40;
    box = [0, 0, Math.max(stage.clientWidth || 1000, Math.min(width, 1800)), 0];
    box[0] = Math.min(0, (width - box[2]) / 2); // what is narrow stands in the middle
    box[3] = (box[2] * (stage.clientHeight || 700)) / (stage.clientWidth || 1000);
    total.textContent = `${groups.length} of ${program.graph.length}`;
    look();
    light();
  };
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const factor = Math.exp(event.deltaY / 500), { left, top, width, height } = svg.getBoundingClientRect();
    const [fx, fy] = [(event.clientX - left) / width, (event.clientY - top) / height];
    zoom(factor, fx, fy);
  }, { passive: false });
  svg.addEventListener("pointermove", (event) => {
    if (!(event.buttons & 1)) return;
    const scale = box[2] / svg.clientWidth;
    box[0] -= event.movementX * scale;
    box[1] -= event.movementY * scale;
    look();
  });
  selection.watchers.push(light);
  const first = program.graph.length > 30 && depths > 0 ? Math.min(2, depths) : depths + 1;
  depth.value = first;
  element.shown = () => show(+depth.value);
  return element;
}
