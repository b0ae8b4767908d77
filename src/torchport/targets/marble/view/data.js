// The graph as it was written into the page: groups by the ids of their neurons, arrays, and the ids that arrive at inputs.

const graph = JSON.parse(byId("data").textContent);
const { groups, layers, arrays } = graph;
const NOBODY = -1;

const product = (sizes) => sizes.reduce((all, size) => all * size, 1);
const strides = (shape) => shape.map((_, axis) => product(shape.slice(axis + 1)));

groups.forEach((group, index) => {
  group.index = index;
  group.end = group.first + group.shapes.reduce((all, shape) => all + product(shape), 0);
  group.gone = new Set(group.removed);
  group.layerName = group.layer === null ? "" : layers[group.layer].name;
  group.readers = [];
});
groups.forEach((group) => group.sources.forEach((source) => groups[source].readers.push(group)));
const byFirst = [...groups].sort((one, other) => one.first - other.first);

/** The last place in a sorted list whose key is at most a value. */
function lastUpTo(list, value, key) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** A neuron by its id: its group, its place among the group's values, and its coordinates; null if there is none. */
function neuronOf(id) {
  if (!Number.isInteger(id)) return null;
  const group = byFirst[lastUpTo(byFirst, id, (one) => one.first)];
  if (!group || id >= group.end || group.gone.has(id - group.first)) return null;
  let element = id - group.first;
  let result = 0;
  while (element >= product(group.shapes[result])) {
    element -= product(group.shapes[result]);
    result += 1;
  }
  return { id, group, result, element, position: coordinates(element, group.shapes[result]) };
}

function coordinates(element, shape) {
  const found = [];
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    found[axis] = element % shape[axis];
    element = Math.floor(element / shape[axis]);
  }
  return found;
}

function bytesOf(text) {
  const letters = atob(text);
  const found = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place += 1) found[place] = letters.charCodeAt(place);
  return found.buffer;
}

const integers = (text) => new Int32Array(bytesOf(text));

/** 16-bit floats, which not every browser reads by itself. */
function fromHalves(buffer) {
  const halves = new Uint16Array(buffer);
  return Float32Array.from(halves, (bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
}

const DECODED = {
  f8: (array) => new Float64Array(bytesOf(array.values)),
  f4: (array) => new Float32Array(bytesOf(array.values)),
  f2: (array) => fromHalves(bytesOf(array.values)),
  u1: (array) => Float32Array.from(new Uint8Array(bytesOf(array.values)), (level) => array.low + level * array.step),
};

/** All values of an array, or null if they are not in the page. They are decoded when they are first asked for. */
function valuesOf(array) {
  if (array.decoded === undefined) array.decoded = DECODED[array.form]?.(array) ?? null;
  return array.decoded;
}

function inputOf(group, number) {
  const input = group.inputs[number];
  if (input.at === undefined) {
    input.size = product(input.shape);
    input.strides = strides(input.shape);
    Object.assign(input, reader(input));
  }
  return input;
}

/** How an input's ids are read: `at` gives the id at a place, `placesOf` all places of an id. */
function reader({ ids, shape, size, strides: by }) {
  if (ids.runs !== undefined) return ofRuns(integers(ids.runs));
  if (ids.list !== undefined) {
    const list = integers(ids.list);
    return { at: (place) => list[place], placesOf: (id) => placesIn(list.length, (place) => list[place], id) };
  }
  const at = (place) => ids.steps.reduce((id, step, axis) => id + step * (Math.floor(place / by[axis]) % shape[axis]), ids.first);
  return { at, placesOf: (id) => placesOfSteps(ids, shape, by, size, id) };
}

function placesIn(size, at, id) {
  const found = [];
  for (let place = 0; place < size; place += 1) if (at(place) === id) found.push(place);
  return found;
}

/** The places whose id is `first` plus a step for each coordinate: all but one coordinate are tried, and one is solved. */
function placesOfSteps(ids, shape, by, size, id) {
  const solved = ids.steps.reduce((best, step, axis) => (step !== 0 && shape[axis] > (shape[best] ?? 0) ? axis : best), -1);
  if (solved < 0) return ids.first === id ? Array.from({ length: size }, (_, place) => place) : [];
  const others = shape.map((_, axis) => axis).filter((axis) => axis !== solved);
  const found = [];
  const search = (depth, rest, place) => {
    if (depth === others.length) {
      const position = rest / ids.steps[solved];
      if (Number.isInteger(position) && position >= 0 && position < shape[solved]) found.push(place + position * by[solved]);
      return;
    }
    const axis = others[depth];
    for (let position = 0; position < shape[axis]; position += 1) search(depth + 1, rest - position * ids.steps[axis], place + position * by[axis]);
  };
  search(0, id - ids.first, 0);
  return found.sort((one, other) => one - other);
}

function ofRuns(numbers) {
  const runs = [];
  let begin = 0;
  for (let place = 0; place < numbers.length; place += 3) {
    runs.push({ begin, first: numbers[place], step: numbers[place + 1], length: numbers[place + 2] });
    begin += numbers[place + 2];
  }
  const at = (place) => {
    const run = runs[lastUpTo(runs, place, (one) => one.begin)];
    return run.first + run.step * (place - run.begin);
  };
  const placesOf = (id) => runs.flatMap((run) => {
    if (run.step === 0) return run.first === id ? Array.from({ length: run.length }, (_, nth) => run.begin + nth) : [];
    const nth = (id - run.first) / run.step;
    return Number.isInteger(nth) && nth >= 0 && nth < run.length ? [run.begin + nth] : [];
  });
  return { at, placesOf };
}

function listedOf(group) {
  if (group.listed === null) return null;
  group.rows ??= {
    row: integers(group.listed.row), source: integers(group.listed.source),
    number: integers(group.listed.number), weight: new Float64Array(bytesOf(group.listed.weight)),
  };
  return group.rows;
}

const grouped = (number) => number.toLocaleString("en-US");

function format(value, digits = 6) {
  if (value === null || value === undefined) return "";
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size >= 1e-4 && size < 1e7 ? String(Number(value.toPrecision(digits))) : value.toExponential(digits - 1).replace(/\.?0+e/, "e");
}
