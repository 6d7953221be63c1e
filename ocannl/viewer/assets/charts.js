// Pictures of a scheduled routine: tiles over arrays, memory over time, and where the time goes.

const si = (number, unit) => {
  const steps = ["", "k", "M", "G", "T"];
  let k = 0;
  while (Math.abs(number) >= 1000 && k < 4) { number /= 1000; k++; }
  return `${+number.toPrecision(3)} ${steps[k]}${unit}`;
};
const time = (seconds) => seconds >= 1e-3 ? `${+(seconds * 1e3).toPrecision(3)} ms` : `${+(seconds * 1e6).toPrecision(3)} us`;
// A text of at most so many characters.
const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.max(1, Math.floor(most) - 1))}…`);
// Colours of many things: hues with a lightness on which text can be read, dark or light.
const hue = (k) => `--hue:${(k * 137.5) % 360}`;

// The schedule: the arrays of a nest with the register tile over them, which follows the pointer.
function scheduleView(program) {
  const list = make("div", { class: "list", role: "group", "aria-label": "nests" }), stage = make("div", { class: "stage" });
  const weigh = weightOf(program), all = program.steps.reduce((sum, step) => sum + weigh(step), 0) || 1;
  const nests = program.steps.flatMap((step) => step.nests.map((nest) => ({ ...nest, group: step.nests.length > 1 ? step.label : "", share: weigh(step) / all })));
  const buttons = nests.map((nest) => {
    const button = make("button", { type: "button", onclick: () => show(nest, button) }, make("span", {}, (nest.group ? "  " : "") + ends(program.titled(nest.label, nest.origins))),
      ...(nest.share >= 0.01 ? [make("small", { class: "quiet" }, `${Math.round(100 * nest.share)}%`)] : []));
    button.title = `${nest.label}: ${program.titled(nest.label, nest.origins)} at ${program.lineOf(nest.origins)}`;
    return pointing(button, program.sets[nest.origins]);
  });
  list.append(...buttons);
  roving(buttons);
  const show = (nest, button) => {
    for (const other of buttons) other.setAttribute("aria-current", other === button);
    stage.replaceChildren(...schedulePicture(nest, program));
  };
  const element = make("div", { class: "view" }, make("div", { class: "split" }, list, stage));
  // The nest that most of the time goes to is shown first.
  const heaviest = nests.reduce((best, nest, k) => (nest.share > nests[best].share ? k : best), 0);
  element.shown = () => {
    if (!nests.length || stage.childElementCount) return;
    show(nests[heaviest], buttons[heaviest]);
    buttons[heaviest].scrollIntoView({ block: "center" });
  };
  if (!nests.length) stage.append("Kernels of a GPU have their schedule in the text of the level `kernels`.");
  return element;
}

function schedulePicture(nest, program) {
  const all = { ...nest.space, ...nest.reduced }, order = nest.order.length ? nest.order : Object.keys(nest.space);
  const loops = order.flatMap((loop) => loop.split("*")).map((name) => {
    const parts = [`${name} = ${all[name]}`];
    if (nest.parallel[name]) parts.push(`tasks of ${nest.parallel[name]}`);
    if (nest.tile[name]) parts.push(`${nest.tile[name]} in registers`);
    return parts.join(", ");
  });
  const reduced = Object.entries(nest.reduced).map(([name, size]) => `reduce ${name} = ${size}`);
  const start = Object.fromEntries(Object.keys(all).map((name) => [name, 0]));
  const drawings = nest.arrays.map((array) => arrayPicture(array, nest, program.titled(array.name, array.origins)));
  const title = program.titled(nest.label, nest.origins);
  const move = (at) => drawings.forEach((drawing) => drawing.move({ ...start, ...at }));
  drawings.forEach((drawing) => { drawing.onpoint = move; });
  move({});
  return [
    make("h2", {}, title), make("p", { class: "quiet" }, `${title === nest.label ? "" : `${nest.label}, `}${program.lineOf(nest.origins)}`), make("code", {}, nest.schedule || "no schedule: loops as written"),
    make("p", {}, `loops, outermost first: ${[...loops, ...reduced].join("; ") || "none"}`),
    make("p", { class: "quiet" }, "Coloured: what one register tile touches; point at an array, or use the arrow keys in it, to move the tile. Lines: tiles; shades: tasks of threads."),
    make("div", { style: "display:flex;flex-wrap:wrap;gap:24px" }, ...drawings.map((drawing) => drawing.element)),
    ...tileTable(nest.tiles),
  ];
}

// Why a nest has its tile: what the cost model expects of the cheapest candidates, and what was measured.
function tileTable(tiles) {
  if (!tiles.length) return [];
  const least = Math.max(1, Math.min(...tiles.map(([, cycles]) => cycles)));
  const rows = tiles.map(([name, cycles, times, own]) => make("tr", own ? { class: "own" } : {}, make("th", { scope: "row" }, own ? `${name}, its own` : name),
    make("td", {}, cycles.toLocaleString("en")), make("td", {}, `${(cycles / least).toFixed(2)} times the cheapest`), make("td", {}, times === null ? "" : `${times.toFixed(2)} times the fastest`)));
  return [make("h2", {}, "Tiles that it could have"), make("table", {}, make("thead", {}, headings("tile", "cycles expected", "", "measured")), make("tbody", {}, ...rows))];
}

// An array's last two axes to scale. Axes before them are fixed at what the tile's point says.
function arrayPicture(array, nest, title) {
  const axes = array.axes.slice(-2);
  while (axes.length < 2) axes.unshift([1, {}]);
  const [[rows], [columns]] = axes;
  const scale = Math.min(300 / columns, 300 / rows, 18), width = Math.max(columns * scale, 4), height = Math.max(rows * scale, 4);
  const all = { ...nest.space, ...nest.reduced };
  const extent = (coefficients) => Object.entries(coefficients).reduce((sum, [name, c]) => sum + Math.abs(c) * ((nest.tile[name] || (name in nest.reduced ? all[name] : 1)) - 1), 1);
  const svg = draw("svg", { width: width + 2, height: height + 2, role: "img", tabindex: 0, class: "array", "aria-label": `${array.name}: ${array.axes.map(([size]) => size).join(" x ")}` },
    draw("rect", { class: "box", x: 1, y: 1, width, height }));
  const variable = (coefficients) => Object.keys(coefficients).find((name) => name in nest.space && Math.abs(coefficients[name]) === 1);
  const names = axes.map(([, coefficients]) => variable(coefficients));
  names.forEach((name, axis) => {
    if (!name) return;
    const size = axes[axis][0], along = axis ? width : height;
    const task = nest.parallel[name];
    for (let at = 0, k = 0; task && at < size; at += task, k++) {
      const [from, long] = [(at / size) * along, (Math.min(task, size - at) / size) * along];
      if (k % 2) svg.append(draw("rect", { fill: "var(--weak)", ...(axis ? { x: 1 + from, y: 1, width: long, height } : { x: 1, y: 1 + from, width, height: long }) }));
    }
    const tile = nest.tile[name];
    if (tile > 1 && size / tile <= 150) for (let at = tile; at < size; at += tile) {
      const p = 1 + (at / size) * along;
      svg.append(draw("path", { class: "axis", d: axis ? `M${p},1 V${height + 1}` : `M1,${p} H${width + 1}` }));
    }
  });
  const mark = draw("rect", { fill: array.is_written ? "var(--accent)" : "var(--string)", "fill-opacity": 0.65 });
  svg.append(mark);
  let now = {};
  const picture = {
    element: make("figure", { style: "margin:0" }, svg, make("figcaption", {}, `${array.is_written ? "writes" : "reads"} ${title} [${array.axes.map(([size]) => size).join(", ")}]`)),
    move(at) {
      now = at;
      const places = axes.map(([size, coefficients]) => {
        const start = Object.entries(coefficients).reduce((sum, [name, c]) => sum + c * (at[name] || 0), 0);
        return [Math.max(0, Math.min(start, size - 1)), Math.min(extent(coefficients), size)];
      });
      const [[y, tall], [x, wide]] = places;
      filled(mark, { x: 1 + x * scale, y: 1 + y * scale, width: Math.max(Math.min(wide, columns - x) * scale, 2), height: Math.max(Math.min(tall, rows - y) * scale, 2) }, []);
    },
  };
  svg.addEventListener("keydown", (event) => {
    const [axis, step] = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [1, -1], ArrowRight: [1, 1] }[event.key] || [];
    const name = names[axis], tile = nest.tile[name] || 1;
    if (axis === undefined || !name) return;
    event.preventDefault();
    picture.onpoint({ ...now, [name]: Math.max(0, Math.min((now[name] || 0) + step * tile, Math.floor((all[name] - 1) / tile) * tile)) });
  });
  svg.addEventListener("pointermove", (event) => {
    const { left, top } = svg.getBoundingClientRect(), at = {};
    [(event.clientY - top) / scale, (event.clientX - left) / scale].forEach((place, axis) => {
      const name = names[axis];
      if (name) at[name] = Math.floor(place / (nest.tile[name] || 1)) * (nest.tile[name] || 1);
    });
    picture.onpoint(at);
  });
  return picture;
}

// Memory: the arena as a picture, place against time, and a table of the nodes outside of it.
function memoryView(program) {
  const stage = make("div", { class: "stage" }), element = make("div", { class: "view" }, stage);
  const inside = program.memory.filter((node) => node.offset !== null && node.first !== null);
  const outside = program.memory.filter((node) => node.offset === null).sort((a, b) => b.bytes - a.bytes);
  const bytes = Math.max(1, ...inside.map((node) => node.offset + node.bytes)), steps = Math.max(1, program.steps.length);
  const marks = [];
  const light = () => lighten(marks);
  element.shown = () => {
    if (stage.childElementCount) return;
    const width = Math.max(600, stage.clientWidth - 120), height = 420;
    const svg = draw("svg", { width: width + 80, height: height + 40, role: "group", "aria-label": "the arena over time" });
    inside.forEach((node, k) => {
      const x = 70 + (node.first / steps) * width, wide = Math.max(1.5, ((node.last - node.first + 1) / steps) * width);
      const tall = Math.max(1, (node.bytes / bytes) * height), y = height - (node.offset / bytes) * height - tall;
      const rect = draw("rect", { class: "hued", x, y, width: wide, height: tall, style: hue(k) });
      const first = program.steps[node.first], last = program.steps[node.last];
      const title = program.titled(node.label, node.origins), where = program.lineOf(node.origins);
      const name = title === node.label ? node.label : `${title} (${node.label})`;
      const words = `${name}${where && ` at ${where}`}: ${si(node.bytes, "B")} at ${node.offset}, from ${first ? first.label : node.first} to ${last ? last.label : node.last}`;
      const mark = pointing(draw("g", { class: "mark" }, rect, draw("title", {}, words)), program.sets[node.origins], words);
      marks.push([rect, program.sets[node.origins], mark]);
      svg.append(mark);
      if (wide > 60 && tall > 13) mark.append(draw("text", { x: x + 4, y: y + 12, "pointer-events": "none" }, cut(ends(title), wide / 7)));
    });
    roving(marks.map(([, , mark]) => mark));
    for (let k = 0; k <= 4; k++) svg.append(draw("text", { class: "quiet", x: 0, y: height - (k / 4) * height + (k === 4 ? 10 : 0) }, si((bytes * k) / 4, "B")));
    const apart = Math.ceil(steps / 8);
    for (let k = 0; k < steps; k += apart) svg.append(draw("text", { class: "quiet", x: 70 + (k / steps) * width, y: height + 18 }, `${k + 1}`));
    svg.append(draw("text", { class: "quiet", x: 70 + width / 2, y: height + 36 }, "kernels, in the order in which they run"));
    const own = outside.reduce((sum, node) => sum + node.bytes, 0);
    const rows = outside.map((node) => pointingRow(program.titled(node.label, node.origins), program.sets[node.origins], si(node.bytes, "B"), node.mode, node.why));
    roving(rows.map((row) => row.querySelector("button")));
    stage.append(make("h2", {}, `Arena: ${si(inside.length ? bytes : 0, "B")}, shared by ${inside.length} nodes`), svg,
      make("h2", {}, `Memory of their own: ${si(own, "B")}`), make("table", { class: "nodes" }, make("thead", {}, headings("node", "bytes", "mode", "why")), make("tbody", {}, ...rows)));
    light();
  };
  selection.watchers.push(light);
  return element;
}

const headings = (...names) => make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)));

// What a kernel counts: its time, or its operations and bytes where none was measured.
function weightOf(program) {
  const measured = program.steps.some((step) => step.seconds !== null);
  return (step) => (measured ? step.seconds : step.flops + step.bytes);
}

// Time: the kernels as they run, a roofline, and what compiling took.
function timeView(program) {
  const stage = make("div", { class: "stage" }), element = make("div", { class: "view" }, stage);
  element.shown = () => {
    if (stage.childElementCount) return;
    const measured = program.steps.some((step) => step.seconds !== null);
    const weight = weightOf(program), name = (step) => program.titled(step.label, step.origins);
    const width = Math.max(600, stage.clientWidth - 40);
    stage.append(make("h2", {}, measured ? `Kernels, in order: ${time(program.steps.reduce((sum, step) => sum + step.seconds, 0))}` : "Kernels, in order, by operations and bytes: no times, since profile() has not run"),
      flame(program, weight, width, (step) => measured ? time(step.seconds) : `${si(step.flops, "flop")}, ${si(step.bytes, "B")}`));
    if (measured) stage.append(make("h2", {}, "Roofline: GFLOP/s against operations a byte"), roofline(program, width));
    const sorted = [...program.steps].sort((a, b) => weight(b) - weight(a));
    const rows = sorted.slice(0, 200).map((step) => pointingRow(name(step), program.sets[step.origins], program.lineOf(step.origins), step.seconds === null ? "" : time(step.seconds), si(step.flops, ""), si(step.bytes, "B"),
      step.seconds ? (step.flops / step.seconds / 1e9).toPrecision(3) : "", step.seconds ? (step.bytes / step.seconds / 1e9).toPrecision(3) : ""));
    roving(rows.map((row) => row.querySelector("button")));
    stage.append(make("table", { class: "kernels" }, make("thead", {}, headings("kernel", "line", "time", "operations", "bytes", "GFLOP/s", "GB/s")), make("tbody", {}, ...rows)));
    const passes = program.stages.filter((one) => one.seconds > 0), all = passes.reduce((sum, one) => sum + one.seconds, 0), most = Math.max(...passes.map((one) => one.seconds));
    stage.append(make("h2", {}, `Passes: ${time(all)}`), make("table", {}, make("thead", {}, headings("pass", "time", "of the longest")), make("tbody", {}, ...passes.map((one) => make("tr", {}, make("th", { scope: "row" }, one.name), make("td", {}, time(one.seconds)),
      make("td", { style: "text-align:left" }, make("div", { style: `height:10px;background:var(--accent);width:${(one.seconds / most) * 300}px` })))))));
  };
  return element;
}

function flame(program, weight, width, words) {
  const all = program.steps.reduce((sum, step) => sum + weight(step), 0) || 1;
  const name = (step) => program.titled(step.label, step.origins);
  const svg = draw("svg", { width, height: 64, role: "group", "aria-label": "kernels by time" });
  const marks = [];
  let x = 0;
  program.steps.forEach((step, k) => {
    const wide = (weight(step) / all) * width;
    const mark = pointing(draw("g", { class: "mark" }, draw("rect", { class: "hued", x, y: 4, width: Math.max(wide - 0.5, 0.5), height: 54, style: hue(k) }), draw("title", {}, `${name(step)} at ${program.lineOf(step.origins)}: ${words(step)}`)), program.sets[step.origins], `${name(step)}: ${words(step)}`);
    if (wide > 46) mark.append(draw("text", { x: x + 4, y: 28, "pointer-events": "none" }, cut(ends(name(step)), wide / 7)), draw("text", { x: x + 4, y: 46, "pointer-events": "none" }, cut(words(step), wide / 7)));
    svg.append(mark);
    marks.push(mark);
    x += wide;
  });
  roving(marks);
  return svg;
}

function roofline(program, width) {
  const points = program.steps.filter((step) => step.seconds > 0 && step.flops > 0 && step.bytes > 0).map((step) => ({ step, x: step.flops / step.bytes, y: step.flops / step.seconds / 1e9, rate: step.bytes / step.seconds / 1e9 }));
  if (!points.length) return make("p", {}, "no kernel computes");
  const height = 300, wide = Math.min(width, 800), log = Math.log10;
  const peak = Math.max(...points.map((p) => p.y)), rate = Math.max(...points.map((p) => p.rate));
  const [x0, x1] = [Math.min(...points.map((p) => p.x)) / 2, Math.max(...points.map((p) => p.x), peak / rate) * 2];
  const [y0, y1] = [Math.min(...points.map((p) => p.y)) / 2, peak * 2];
  const X = (x) => 50 + ((log(x) - log(x0)) / (log(x1) - log(x0))) * (wide - 60), Y = (y) => height - 24 - ((log(y) - log(y0)) / (log(y1) - log(y0))) * (height - 34);
  const svg = draw("svg", { width: wide, height, role: "group", "aria-label": "roofline" });
  const ridge = peak / rate;
  svg.append(draw("path", { class: "edge", d: `M${X(x0)},${Y(Math.max(y0, x0 * rate))} L${X(ridge)},${Y(peak)} L${X(x1)},${Y(peak)}` }),
    draw("text", { class: "quiet", x: wide, y: Y(peak) - 4, "text-anchor": "end" }, `best kernels here: ${peak.toPrecision(3)} GFLOP/s, ${rate.toPrecision(3)} GB/s`));
  for (let k = Math.ceil(log(x0)); k <= log(x1); k++) svg.append(draw("path", { class: "axis", d: `M${X(10 ** k)},10 V${height - 24}` }), draw("text", { class: "quiet", x: X(10 ** k) + 3, y: height - 8 }, `${10 ** k}`));
  for (let k = Math.ceil(log(y0)); k <= log(y1); k++) svg.append(draw("path", { class: "axis", d: `M50,${Y(10 ** k)} H${wide}` }), draw("text", { class: "quiet", x: 4, y: Y(10 ** k) + 4 }, `${10 ** k}`));
  const marks = points.map(({ step, x, y }) => {
    const words = `${program.titled(step.label, step.origins)}: ${time(step.seconds)}, ${y.toPrecision(3)} GFLOP/s, ${x.toPrecision(3)} operations a byte`;
    return pointing(draw("g", { class: "mark" }, draw("circle", { class: "box", cx: X(x), cy: Y(y), r: 3 + 4 * Math.sqrt(step.seconds / Math.max(...points.map((p) => p.step.seconds))), style: "fill:var(--accent);fill-opacity:.6" }), draw("title", {}, words)), program.sets[step.origins], words);
  });
  svg.append(...marks);
  roving(marks);
  return svg;
}
