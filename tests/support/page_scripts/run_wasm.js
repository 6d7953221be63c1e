// Runs a module of WebAssembly once, and gives the bytes of its nodes, of which there are so many each. Its indices
// are 0: they begin at place 8, in memory that linkers leave free for null pointers.
(async (packed, sizes) => {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const { instance } = await WebAssembly.instantiate(bytes, {});
  const { memory, step_default, step_run } = instance.exports, at = step_default();
  step_run(at, 8);
  const places = new Uint32Array(memory.buffer, at, sizes.length);
  return sizes.map((size, k) => {
    const own = new Uint8Array(memory.buffer, places[k], size);
    let text = "";
    for (let n = 0; n < size; n += 4096)
      text += String.fromCharCode(...own.subarray(n, Math.min(size, n + 4096)));
    return btoa(text);
  });
})
