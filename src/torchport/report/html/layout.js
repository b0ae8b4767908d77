// Where the boxes of a graph go. Python gave each box a row and an x; here rows get heights, so that a called module can
// unfold in its box, and the boxes beside and below it make room.

const BOX = { high: 42, pill: 30, gap: 34, header: 26, padding: 14 };

/** Sizes and places of all boxes of a layer's drawing, unfolded ones with their own drawing inside. */
function arrange(layer, unfolded) {
  const drawing = drawingOf(layer);
  const calls = children[layer].values();
  const boxes = drawing.kind.map((kind, place) => makeBox(drawing, kind, place, kind === "call" ? calls.next().value : null, unfolded));
  const shift = roomFor(boxes);
  const rows = rowsOf(drawing, boxes);
  for (const box of boxes) {
    box.x = shift(box.x);
    box.y = rows.top[box.row] + rows.height[box.row] / 2;
  }
  const edges = drawing.edges.map(([start, end, ...bends]) => ({ start: boxes[start], end: boxes[end], bends: pairs(bends).map(([row, x]) => ({ row, x: shift(x) })) }));
  const xs = [...boxes.flatMap((box) => [box.x - box.width / 2, box.x + box.width / 2]), ...edges.flatMap((edge) => edge.bends.map((bend) => bend.x))];
  const left = Math.min(...xs);
  for (const box of boxes) box.x -= left;
  for (const edge of edges) for (const bend of edge.bends) bend.x -= left;
  return { layer, boxes, edges, rows, width: Math.max(...xs) - left, height: rows.all };
}

function makeBox(drawing, kind, place, call, unfolded) {
  const box = { place, kind, call, name: drawing.name[place], label: drawing.label[place], shape: drawing.shape[place], row: drawing.row[place], x: drawing.x[place], width: drawing.width[place] };
  box.extra = 0;
  box.height = kind === "input" || kind === "output" ? BOX.pill : BOX.high;
  box.canUnfold = call !== null && canDraw(call);
  if (box.canUnfold && unfolded.has(call)) {
    box.inner = arrange(call, unfolded);
    const width = Math.max(box.width, box.inner.width + 2 * BOX.padding);
    box.extra = width - box.width;
    box.width = width;
    box.height = box.inner.height + BOX.header + BOX.padding + 6;
  }
  return box;
}

const canDraw = (layer) => Boolean(drawingOf(layer)?.row);

/** Moves the boxes left and right of an unfolded box by half of what it grew; boxes in one column share the room. */
function roomFor(boxes) {
  const columnsGrown = new Map();
  for (const box of boxes) {
    if (box.extra) columnsGrown.set(box.x, Math.max(box.extra, columnsGrown.get(box.x) ?? 0));
  }
  return (x) => [...columnsGrown].reduce((moved, [column, extra]) => moved + (Math.sign(x - column) * extra) / 2, x);
}

function rowsOf(drawing, boxes) {
  const height = new Array(Math.max(...drawing.row) + 1).fill(BOX.pill);
  for (const box of boxes) height[box.row] = Math.max(height[box.row], box.height);
  const top = [];
  let all = 0;
  for (const one of height) {
    top.push(all);
    all += one + BOX.gap;
  }
  return { height, top, all: all - BOX.gap };
}

const pairs = (numbers) => Array.from({ length: numbers.length / 2 }, (_, place) => [numbers[2 * place], numbers[2 * place + 1]]);

/** Puts the ends of edges at a box beside each other, in the order of the boxes that they come from. */
function spreadEnds(edges, end, towards) {
  for (const [box, group] of groupBy(edges, (edge) => edge[end])) {
    group.sort((one, other) => towards(one) - towards(other));
    const step = Math.min(16, (box.width - 24) / Math.max(1, group.length));
    group.forEach((edge, place) => { edge[`${end}X`] = box.x + (place - (group.length - 1) / 2) * step; });
  }
}

function groupBy(items, key) {
  const groups = new Map();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
}

/** The path of an edge: straight down past the boxes of a row, in curves between rows. */
function edgePath(edge, rows) {
  const points = [[edge.startX, edge.start.y + edge.start.height / 2]];
  for (const { row, x } of edge.bends) points.push([x, rows.top[row]], [x, rows.top[row] + rows.height[row]]);
  points.push([edge.endX, edge.end.y - edge.end.height / 2 - 5]);
  return points.reduce((path, [x, y], place) => {
    if (place === 0) return `M${x} ${y}`;
    const [before, above] = points[place - 1];
    const middle = (above + y) / 2;
    return x === before ? `${path}V${y}` : `${path}C${before} ${middle} ${x} ${middle} ${x} ${y}`;
  }, "");
}
