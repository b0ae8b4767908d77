// The synapses of a neuron, computed from the pattern of its group, and those that are listed one by one.

const MOST_SHOWN = 200_000;

const rowOf = ({ along }, table, place) => table[along === null ? 0 : place[along]];

/** The positions along one axis of an input that the synapses of a neuron come from; -1 is beyond a margin. */
function positions(axis, place) {
  if (axis.whole !== undefined) return Array.from({ length: axis.whole }, (_, position) => position);
  return axis.same !== undefined ? [place[axis.same]] : rowOf(axis, axis.table, place);
}

const widthOf = (axis, place) => axis.whole ?? (axis.same !== undefined ? 1 : rowOf(axis, axis.table, place).length);

/** A number of an array for a neuron and one of its synapses; undefined if the array is not in the page. */
function looked(lookup, place, nth = 0) {
  const values = valuesOf(arrays[lookup.array]);
  return values === null ? undefined : values[lookup.steps.reduce((at, step, axis) => at + step * place[axis], lookup.each * nth)];
}

const isThere = (reach, place, nth) => reach.present === null || looked(reach.present, place, nth) !== 0;

function weightOf(reach, place, nth) {
  const value = reach.weight === null ? 1 : looked(reach.weight, place, nth);
  return value === undefined ? undefined : value * reach.factor * factorOf(reach, place, nth);
}

/** The product of the factors that a synapse has along the axes. */
function factorOf(reach, place, nth) {
  return reach.axes.reduceRight((all, axis) => {
    const width = widthOf(axis, place);
    const at = nth % width;
    nth = Math.floor(nth / width);
    return axis.factors ? all * rowOf(axis, axis.factors, place)[at] : all;
  }, 1);
}

const reachesOf = ({ group, result }) => group.pattern?.results[result] ?? [];

/** The bias of a neuron: null if it has none, undefined if the array is not in the page. */
function biasOf(neuron) {
  const { bias } = neuron.group;
  return bias === null || typeof bias === "number" ? bias : looked(bias, neuron.position);
}

/** Whether the page has what the synapses into a group are computed from; weights may be missing, but not which are there. */
function isKnown({ pattern, listed }) {
  if (pattern === null) return listed !== null;
  return pattern.results.flat().every((reach) => reach.present === null || valuesOf(arrays[reach.present.array]) !== null);
}

/** The synapses into a neuron, or null if the page cannot show them; a weight that is not in the page is undefined. */
function incoming(neuron) {
  const { group, position } = neuron;
  if (!isKnown(group)) return null;
  const reaches = reachesOf(neuron);
  if (reaches.reduce((all, reach) => all + product(reach.axes.map((axis) => widthOf(axis, position))), 0) > MOST_SHOWN) return null;
  const found = [];
  let before = 0;
  for (const reach of reaches) before = addReach(found, reach, neuron, before);
  addListed(found, neuron);
  return found;
}

/** How many synapses arrive at a neuron; null if that is not in the page. They are listed only if they must be. */
function numberInto(neuron) {
  const { group, position, id } = neuron;
  const reaches = reachesOf(neuron);
  const isPlain = group.pattern !== null && reaches.every((reach) => reach.present === null && group.inputs[reach.input].ids.steps);
  if (!isPlain) return incoming(neuron)?.length ?? null;
  const rows = listedOf(group);
  const listed = rows === null ? 0 : rows.row[id - group.first + 1] - rows.row[id - group.first];
  const inRow = (axis) => axis.whole ?? positions(axis, position).filter((one) => one >= 0).length;
  return reaches.reduce((all, reach) => all + product(reach.axes.map(inRow)), listed);
}

function addReach(found, reach, { id, group, position }, before) {
  const input = inputOf(group, reach.input);
  let places = [0];
  reach.axes.forEach((axis, number) => {
    const along = positions(axis, position);
    places = places.flatMap((place) => along.map((one) => (place < 0 || one < 0 ? NOBODY : place + one * input.strides[number])));
  });
  places.forEach((place, nth) => {
    if (place < 0 || !isThere(reach, position, nth)) return;
    const source = input.at(place);
    if (source !== NOBODY) found.push({ source, target: id, number: before + nth, weight: weightOf(reach, position, nth) });
  });
  return before + places.length;
}

function addListed(found, { id, group }) {
  const rows = listedOf(group);
  if (rows === null) return;
  for (let at = rows.row[id - group.first]; at < rows.row[id - group.first + 1]; at += 1) {
    if (rows.source[at] !== NOBODY) found.push({ source: rows.source[at], target: id, number: rows.number[at], weight: rows.weight[at] });
  }
}

/** The synapses that leave a neuron, and the groups that it reaches by synapses which are not in the page. */
function outgoing(neuron) {
  const found = [];
  const unknown = [];
  let isCut = false;
  for (const group of neuron.group.readers) {
    if (!isKnown(group)) {
      unknown.push(group);
      continue;
    }
    for (const result of group.shapes.keys()) {
      let before = 0;
      for (const reach of reachesOf({ group, result })) {
        isCut ||= !addTargets(found, reach, { group, result }, neuron.id, before);
        before += product(reach.axes.map((axis) => widthOf(axis, group.shapes[result].map(() => 0))));
      }
    }
    addFromListed(found, group, neuron.id);
  }
  return { synapses: found, unknown, isCut };
}

/** Follows a reach from its input to the neurons. False if it stopped because there are too many. */
function addTargets(found, reach, { group, result }, id, before) {
  const input = inputOf(group, reach.input);
  const shape = group.shapes[result];
  const steps = strides(shape);
  const first = group.first + group.shapes.slice(0, result).reduce((all, one) => all + product(one), 0);
  for (const place of input.placesOf(id)) {
    const at = coordinates(place, input.shape);
    const allowed = allowedCoordinates(reach, shape, at);
    if (found.length + product(allowed.map((some) => some.length)) > MOST_SHOWN) return false;
    for (const position of crossed(allowed)) {
      const target = steps.reduce((all, step, axis) => all + step * position[axis], first);
      if (group.gone.has(target - group.first)) continue;
      for (const nth of numbersFrom(reach, position, at)) {
        if (isThere(reach, position, nth)) found.push({ source: id, target, number: before + nth, weight: weightOf(reach, position, nth) });
      }
    }
  }
  return true;
}

/** Which of a neuron's synapses come from a place of an input; along an axis there may be several. */
function numbersFrom(reach, position, at) {
  return reach.axes.reduce((numbers, axis, number) => {
    const row = positions(axis, position);
    const places = placesIn(row.length, (place) => row[place], at[number]);
    return numbers.flatMap((nth) => places.map((place) => nth * row.length + place));
  }, [0]);
}

/** For each axis of the result, the coordinates of neurons that have a synapse from a place of an input. */
function allowedCoordinates(reach, shape, at) {
  const allowed = shape.map((size) => Array.from({ length: size }, (_, position) => position));
  reach.axes.forEach((axis, number) => {
    const along = axis.same ?? axis.along ?? null;
    if (along === null) return;
    const has = axis.same !== undefined ? (position) => position === at[number] : (position) => axis.table[position].includes(at[number]);
    allowed[along] = allowed[along].filter(has);
  });
  return allowed;
}

function crossed(lists) {
  return lists.reduce((before, list) => before.flatMap((start) => list.map((one) => [...start, one])), [[]]);
}

function addFromListed(found, group, id) {
  const rows = listedOf(group);
  if (rows === null) return;
  for (const at of placesIn(rows.source.length, (place) => rows.source[place], id)) {
    const target = group.first + lastUpTo(rows.row, at, (begin) => begin);
    found.push({ source: id, target, number: rows.number[at], weight: rows.weight[at] });
  }
}

const strongest = (synapses) => [...synapses].sort((one, other) => Math.abs(other.weight ?? 0) - Math.abs(one.weight ?? 0));
