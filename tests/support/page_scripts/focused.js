(() => {
  const element = document.activeElement, { left, top, width, height } = element.getBoundingClientRect();
  const style = getComputedStyle(element), mark = element.closest("svg .mark");
  const seen = mark ? parseFloat(getComputedStyle(mark.firstElementChild).strokeWidth) >= 2
    : style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const inside = left < innerWidth && top < innerHeight && left + width > 0 && top + height > 0;
  return { tag: element.tagName, role: element.getAttribute("role") || "", id: element.id, seen, inside, left, top,
    words: element.getAttribute("aria-label") || element.textContent.slice(0, 30),
    place: [...document.querySelectorAll("*")].indexOf(element) };
})()
