// Says what a number is: in one line, and as rows of a table that derive it, from the float32 that was given
// to the mantissa, and from mantissas to a partial sum. Integers are BigInt where they may exceed 2^53.
const short = value => value === undefined ? "" : String(+value.toPrecision(3));
const full = value => value === undefined ? "padding" : String(+value.toPrecision(9));
const long = value => String(+value.toPrecision(8));
const binades = count => `${count} ${count === 1 ? "binade" : "binades"}`;
const power = exponent => `2^${exponent}`;

function value(name, at) {
  const tensor = data.tensors[name];
  return tensor.values[at[tensor.axes[0]]]?.[at[tensor.axes[1]]];
}
function named(name, at) {
  const tensor = data.tensors[name];
  return `${tensor.of}[${tensor.axes.map(axis => at[axis]).join(", ")}]`;
}
const span = (first, count, limit) => {
  const last = Math.min(first + count, limit) - 1;
  return last === first ? `${first}` : `${first}…${last}`;
};
const spanOf = (axis, first, count) => span(first, count, data.sizes[axis]);
function blockName(name, places) {                  // places: blocks by axis
  const tensor = data.tensors[name];
  return `${tensor.of}[${tensor.axes.map(axis => spanOf(axis, places[axis] * B, B)).join(", ")}]`;
}

// --- Elements ---------------------------------------------------------------------------------------

/** How an element was made: the fields of the conversion, at its place; undefined beyond the edge. */
function made(name, at) {
  const {axes, made: arrays} = data.tensors[name], [row, column] = axes.map(axis => at[axis]);
  if (arrays.significand[row]?.[column] === undefined) return undefined;
  return Object.fromEntries(Object.entries(arrays).map(([field, values]) => [field, values && values[row][column]]));
}
/** The elements that share an exponent with this one. */
function groupName(name, at) {
  const {of, axes, copy} = data.tensors[name], sides = data.formats[of].group;
  const shape = copy === 1 ? [...sides].reverse() : sides;
  const place = axes.map((axis, n) => shape[n] === 0 ? spanOf(axis, 0, data.sizes[axis])
    : spanOf(axis, Math.floor(at[axis] / shape[n]) * shape[n], shape[n]));
  return `${of}[${place.join(", ")}]`;
}
/** The exponent of a mantissa of 1 in an element; in NVFP4 the scale's significand comes to it. */
const unitOf = (kind, each) => each.exponent - each.depth - kind.precision + 1;
const timesScale = (kind, each) => kind.scales ? ` · ${each.scale}/8` : "";
const binary = (number, bits) => number.toString(2).padStart(bits, "0");

function elementWords(name, at) {
  const number = value(name, at);
  return number === undefined ? "padding: beyond the tensor's edge" : `${named(name, at)} = ${full(number)}`;
}
/** A mantissa as the cells show it; "↓d" where the element lies d binades below its group's exponent. */
function mantissa(name, at) {
  const each = made(name, at);
  return each === undefined ? "" : each.significand + (each.depth ? `↓${each.depth}` : "");
}

/** A float32 as an integer of 24 bits and its exponent; null for what the converter takes as 0. */
function fields(number) {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, number);
  const bits = view.getUint32(0), exponent = bits >>> 23 & 255;
  return exponent === 0 ? null : {significand: bits & 0x7fffff | 0x800000, exponent: exponent - 127};
}

/** [term, text] of every step from the float32 to the stored element. */
function elementRows(name, at) {
  const {of, axes} = data.tensors[name], kind = data.formats[of], each = made(name, at);
  const given = data.inputs[of][at[axes[0]]][at[axes[1]]], parts = fields(given);
  const unit = power(each.place) + timesScale(kind, each);
  const rows = [["given", parts ? `float32 ${full(given)} = ${given < 0 ? "-" : ""}${parts.significand} · ${power(parts.exponent - 23)}` : "zero, or a subnormal, which counts as zero"],
    ["shared exponent", `${groupName(name, at)} has ${each.exponent + each.folds}` + (kind.scales ? `, and the scale's significand ${each.scale}` : "")
      + (kind.depth ? `; this element lies ${binades(each.exponent + each.folds - each.place - kind.precision + 1)} below` : "") + `: the last place is ${unit}`]];
  if (parts) {
    const shift = each.place - parts.exponent + 23;
    rows.push(["shift", (kind.scales ? `${parts.significand} · 8 / ${each.scale}, ` : `${parts.significand} = ${binary(parts.significand, 24)}, `)
      + `${shift} bits to the right: ${each.units} units`]);
    rows.push(["rounding", roundingWords(kind, each)]);
  }
  if (each.folds) rows.push(["folding", `the largest element of the group lies ${binades(each.folds)} below ${each.exponent + each.folds}: the exponent becomes ${each.exponent}`]);
  rows.push(["mantissa", `${each.significand} = ${each.significand < 0 ? "-" : ""}${binary(Math.abs(each.significand), kind.precision)} in binary`
    + (kind.depth ? `, ${binades(each.depth)} below the shared exponent` : "")]);
  rows.push(["stored", `${each.significand} · ${power(unitOf(kind, each))}${timesScale(kind, each)} = ${full(value(name, at))}`]);
  return rows;
}

/** How units became an integer, and what random bits had to do with it. */
function roundingWords(kind, each) {
  const kept = Math.floor(each.units), part = each.units - kept;
  if (each.units >= 2 ** kind.precision) return "more than the largest element, which it becomes";
  let words = `${kept} exactly`;
  if (part) words = (kind.rule === "nearest" ? "to nearest, ties to even" : drawWords(kind, part, each.draws))
    + `: ${each.rounded === kept ? "down" : "up"} to ${each.rounded}`;
  const stored = Math.abs(each.significand) * 2 ** unitOf(kind, each);
  return stored < each.rounded * 2 ** each.place ? `${words}, more than the largest element, which it becomes` : words;
}
/** The comparison by which a rounding with random bits goes up: see "Dropping low bits" of spec/rounding.py. */
function drawWords(kind, part, draw) {
  const whole = 2 ** kind.bits, fraction = +part.toPrecision(6);
  const [sum, number, limit] = {
    "stochastic-a": () => [`⌊${fraction} · ${whole}⌋ + ${draw}`, Math.floor(part * whole) + draw, whole],
    "stochastic-b": () => [`⌊${fraction} · ${2 * whole}⌋ + 2 · ${draw} + 1`, Math.floor(part * 2 * whole) + 2 * draw + 1, 2 * whole],
    "stochastic-c": () => [`${fraction} · ${whole} to nearest + ${draw}`, toEven(part * whole) + draw, whole],
  }[kind.rule]();
  return `${kind.rule}, draw ${draw} of 0…${whole - 1}: ${sum} = ${number}, ${number < limit ? "less than" : "at least"} ${limit}`;
}
const toEven = number => {
  const low = Math.floor(number), part = number - low;
  return low + (part > .5 || part === .5 && low % 2 === 1);
};

// --- Sums -------------------------------------------------------------------------------------------

/** What cell r, c adds up to in a lane: where in the result, over what, and the integer of the waves, with its
    unit; null beyond the edge. */
function partialSum(slot, r, c, lane) {
  const {way, pass, t} = slot, east = way.direction === EAST;
  const contraction = east ? way.cols : way.rows, along = east ? way.rows : way.cols;
  const position = (east ? pass.row + r : pass.col + c) * B + lane;
  if (position >= data.sizes[along]) return null;
  const first = east ? pass.col : pass.row, steps = east ? c : r;
  const {streamed, held} = way.sides, unit = streamed.maximum[t] + held.maximum[position] + way.unit;
  const got = gotSum(slot, r, c, lane), before = steps ? gotSum(slot, east ? r : r - 1, east ? c - 1 : c, lane) : 0n;
  return {at: {[way.t]: t, [along]: position}, contraction, position, number: first + steps, got, before, unit,
    range: spanOf(contraction, first * B, (steps + 1) * B), sum: Number(got) * 2 ** unit};
}
const gotSum = (slot, r, c, lane) => BigInt(run.sums[(slot.index * R * C + r * C + c) * B + lane]);

function sumWords(slot, {at, sum, contraction, range, got}) {
  const {way} = slot, over = {...at, [contraction]: range};
  return `partial sum of ${named(way.result, at)} over ${contraction} = ${range}: `
    + `${named(way.streamed, over)} · ${named(way.held, over)} = ${full(sum)}, the integer ${got} in the array`;
}

/** n / 2^by to the nearest integer: of ties the upper one, or the one away from zero. */
function rounded(n, by, away) {
  if (by <= 0) return n << BigInt(-by);
  if (away && n < 0n) return -rounded(-n, by, away);
  return n + (1n << BigInt(by - 1)) >> BigInt(by);
}

/** What a cell adds to a sum: products of mantissas, their sum, the shift, and the integer. */
function addend(slot, {at, contraction, position, number}) {
  const {way, t} = slot, kinds = [way.streamed, way.held].map(name => data.formats[data.tensors[name].of]);
  const down = kinds[0].precision + kinds[1].precision - way.window, products = [];
  let total = 0n, scales = 1n, words = "";
  for (let step = number * B; step < Math.min(number * B + B, data.sizes[contraction]); step++) {
    const [a, b] = [way.streamed, way.held].map(name => made(name, {...at, [contraction]: step}));
    const exact = BigInt(a.significand) * BigInt(b.significand);
    total += rounded(exact, down + a.depth + b.depth, true);
    products.push(`${a.significand}·${b.significand}` + (a.depth + b.depth ? `↓${a.depth + b.depth}` : ""));
    if (kinds[0].scales) [scales, words] = [BigInt(a.scale * b.scale), `${a.scale} · ${b.scale}`];
  }
  const deficits = [way.sides.streamed.deficit[t][number], way.sides.held.deficit[position][number]];
  const shift = deficits[0] + deficits[1], aligned = total * scales << BigInt(way.fraction);
  return {products, total, down, words, deficits, shift, aligned, added: rounded(aligned, shift)};
}

/** [term, text] of every step from the mantissas to the integer in the array. */
function sumRows(slot, found, cell) {
  const {way} = slot, {at, contraction, number, got, before, unit} = found, sum = addend(slot, found);
  const block = {...at, [contraction]: spanOf(contraction, number * B, B)};
  const lost = sum.shift > 0 && rounded(sum.added, -sum.shift) !== sum.aligned;
  const rows = [["vector", `${named(way.streamed, block)} meets ${named(way.held, block)} in ${cell}`],
    ["mantissas", `${sum.products.join(" + ")} = ${sum.total}` + (sum.down ? ` in units of ${power(sum.down)}` : "")]];
  if (sum.words) rows.push(["scales", `significands of both groups: · ${sum.words}`]);
  rows.push(["shift", `${way.fraction} bits to the left; to the right by ${sum.deficits[0]} and ${sum.deficits[1]}, since the groups lie so far below the largest of their rows`]);
  rows.push(["rounding", `${sum.aligned} / ${power(sum.shift)} = ${sum.added}, ` + (lost ? "to nearest, ties upward" : "exactly")]);
  rows.push(["sum", `${before} from the cell before + ${sum.added} = ${before + sum.added}; the waves have ${got}`]);
  rows.push(["value", `${got} · ${power(unit)} = ${full(found.sum)}`]);
  rows.push(["result", `${named(way.result, at)} = ${full(value(way.result, at))}, all ${contraction} added and rounded to float32`]);
  return rows;
}
