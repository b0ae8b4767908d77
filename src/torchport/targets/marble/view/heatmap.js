// The heatmap of an array's weights on a canvas. A cell stands for one weight or for a block, of which the largest is drawn.

function makeHeatmap() {
  const canvas = byId("heat");
  const sliders = makeSliders(() => { cursor = null; draw(); });
  let grid = null;
  let cursor = null;

  /** The numbers to draw: all weights, or the blocks of a small picture if the weights are not in the page. */
  function sourceOf(array) {
    const { rows, columns } = sizesOf(array);
    const values = valuesOf(array);
    if (values !== null) return { rows, columns, values, down: 1, across: 1, width: columns };
    if (array.picture === undefined) return null;
    array.blocks ??= new Float32Array(bytesOf(array.picture));
    const [down, across] = array.pictureShape;
    return { rows, columns, values: array.blocks, down: Math.ceil(rows / down), across: Math.ceil(columns / across), width: across };
  }

  /** Cells for the rows and columns that are chosen: of each block the value of the largest magnitude. */
  function gridOf(source, [top, bottom], [left, right], most) {
    const { down, across, width, values } = source;
    const [firstRow, firstColumn] = [Math.floor(top / down), Math.floor(left / across)];
    const [high, wide] = [Math.floor(bottom / down) - firstRow + 1, Math.floor(right / across) - firstColumn + 1];
    const [perRow, perColumn] = [Math.ceil(high / most[0]), Math.ceil(wide / most[1])];
    const made = { down, across, firstRow, firstColumn, high, wide, perRow, perColumn, rows: Math.ceil(high / perRow), columns: Math.ceil(wide / perColumn) };
    made.cells = new Float64Array(made.rows * made.columns);
    for (let row = 0; row < high; row += 1) {
      const from = (firstRow + row) * width + firstColumn;
      const to = Math.floor(row / perRow) * made.columns;
      for (let column = 0; column < wide; column += 1) {
        const value = values[from + column];
        const at = to + Math.floor(column / perColumn);
        if (Math.abs(value) > Math.abs(made.cells[at]) || Number.isNaN(value)) made.cells[at] = value;
      }
    }
    return made;
  }

  function colour(name) {
    const probe = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return [1, 3, 5].map((at) => parseInt(probe.slice(at, at + 2), 16));
  }

  function draw() {
    const { number, least, rows, columns } = sliders.read();
    const array = arrays[number];
    byId("heat-note").textContent = noteOf(array);
    const source = sourceOf(array);
    canvas.hidden = source === null;
    if (source === null) return;
    const width = Math.max(200, Math.min(1000, canvas.parentElement.clientWidth));
    grid = gridOf(source, rows, columns, [400, Math.floor(width)]);
    const cell = Math.max(1, Math.min(26, width / grid.columns));
    const height = Math.max(24, Math.min(420, grid.rows * Math.max(cell, grid.rows < 30 ? 10 : 1)));
    const sharp = window.devicePixelRatio || 1;
    grid.size = [Math.round(Math.max(cell * grid.columns, Math.min(width, 240))), Math.round(height)];
    [canvas.width, canvas.height] = grid.size.map((one) => Math.round(one * sharp));
    [canvas.style.width, canvas.style.height] = grid.size.map((one) => `${one}px`);
    paint(array, least);
    [byId("scale-low").textContent, byId("scale-high").textContent] = [format(-array.largest, 3), format(array.largest, 3)];
    say();
  }

  function paint(array, least) {
    const image = new ImageData(grid.columns, grid.rows);
    const [zero, positive, negative, ink] = ["--heat-zero", "--positive", "--negative", "--ink"].map(colour);
    const bound = least * array.largest;
    grid.cells.forEach((value, at) => {
      const share = Math.abs(value) < bound || !array.largest ? 0 : Math.min(1, Math.abs(value) / array.largest);
      const end = Number.isFinite(value) ? (value < 0 ? negative : positive) : ink;
      const mixed = Number.isFinite(value) ? zero.map((from, part) => from + (end[part] - from) * share) : ink;
      image.data.set([...mixed, 255], at * 4);
    });
    const small = new OffscreenCanvas(grid.columns, grid.rows);
    small.getContext("2d").putImageData(image, 0, 0);
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    if (cursor === null) return;
    const [wide, high] = [canvas.width / grid.columns, canvas.height / grid.rows];
    context.lineWidth = 2 * (window.devicePixelRatio || 1);
    context.strokeStyle = `rgb(${ink.join(" ")})`;
    context.strokeRect(cursor.column * wide, cursor.row * high, Math.max(3, wide), Math.max(3, high));
  }

  function noteOf(array) {
    if (array.form === "none") return `${array.name} is not in the page. core.version.arrays["${array.name}"] has it.`;
    if (array.form === "picture") return `${array.name} is in the page as a small picture: each cell is the largest of a block. core.version.arrays["${array.name}"] has all weights.`;
    return `${array.name}, ${array.dtype} [${array.shape.join(", ")}]${array.error ? `, rounded: off by at most ${format(array.error, 2)}` : ""}`;
  }

  /** The words for the cell at the cursor: the true value and index if the cell is one weight. */
  function say() {
    const words = byId("heat-value");
    const array = arrays[sliders.read().number];
    if (cursor === null || grid === null) {
      words.textContent = "Point at a cell, or move with the arrow keys, to read its value.";
      return;
    }
    const { down, across, perRow, perColumn } = grid;
    const value = grid.cells[cursor.row * grid.columns + cursor.column];
    const [top, left] = [(grid.firstRow + cursor.row * perRow) * down, (grid.firstColumn + cursor.column * perColumn) * across];
    const { columns } = sizesOf(array);
    if (perRow * perColumn * down * across === 1) words.textContent = `${indexWords(array, top * columns + left)}: ${format(value, 7)}`;
    else words.textContent = `rows ${top} to ${Math.min(top + perRow * down, sizesOf(array).rows) - 1}, columns ${left} to ${Math.min(left + perColumn * across, columns) - 1}: largest is ${format(value, 7)}`;
  }

  const indexWords = (array, place) => (array.shape.length ? `[${coordinates(place, array.shape).join(", ")}]` : "value");

  function point(row, column) {
    cursor = { row: Math.min(grid.rows - 1, Math.max(0, row)), column: Math.min(grid.columns - 1, Math.max(0, column)) };
    paint(arrays[sliders.read().number], sliders.read().least);
    say();
  }

  canvas.addEventListener("mousemove", (event) => {
    point(Math.floor((event.offsetY / canvas.clientHeight) * grid.rows), Math.floor((event.offsetX / canvas.clientWidth) * grid.columns));
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by || grid === null) return;
    event.preventDefault();
    if (cursor === null) point(0, 0);
    else point(cursor.row + by[0], cursor.column + by[1]);
  });

  byId("heatmap").hidden = sliders.users.size === 0;
  if (sliders.users.size) {
    sliders.start();
    new ResizeObserver(draw).observe(canvas.parentElement);
  }
  return { draw: () => sliders.users.size && draw(), pick: sliders.pick };
}
