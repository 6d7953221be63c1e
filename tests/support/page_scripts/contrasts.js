(() => {
  const parse = (text) => { const n = text.match(/[\d.]+/g).map(Number); return [n[0], n[1], n[2], n[3] ?? 1]; };
  const over = (a, b) => [0, 1, 2].map((k) => a[k] * a[3] + b[k] * (1 - a[3])).concat(1);
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => p - q); return (y + 0.05) / (x + 0.05); };
  const behind = (element) => {
    const mark = element.tagName === "text" && element.closest(".mark");
    const own = mark ? getComputedStyle(mark.firstElementChild).fill : getComputedStyle(element).backgroundColor;
    const colour = own === "none" ? [0, 0, 0, 0] : parse(own), parent = (mark || element).parentElement;
    return colour[3] === 1 || !parent ? colour : over(colour, behind(parent));
  };
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, words = walk.currentNode.textContent.trim();
    if (!words || !element.checkVisibility() || ["SCRIPT", "STYLE", "OPTION", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element), colour = parse(element.tagName === "text" ? style.fill : style.color);
    found.push([words, ratio(over(colour, behind(element)), behind(element))]);
  }
  return found;
})()
