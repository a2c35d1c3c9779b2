"use strict";
// Draws one cycle of one product, and steps. All that it knows is in the element "data", whose
// fields are those of diastole.explain.page; what a number is, numbers.js says.
const data = JSON.parse(document.getElementById("data").textContent);
const {rows: R, cols: C, block: B, latency} = data.machine;
const EAST = 0, NORTH = 1;
/** Colours by meaning: variables of the style, which the theme chooses. */
const COLOUR = Object.fromEntries(["page", "ink", "faint", "line", "stream", "held", "cell", "sums", "there", "none", "written", "now",
  "X", "W", "dY", "command", "east", "north"].map(name => [name, `var(--${name})`]));
/** Where a bar of the timeline lies in its row, from above, and how high it is: colour alone does not tell bars apart. */
const BARS = {X: [0, 4], W: [4, 4], dY: [8, 4], command: [5, 2], east: [6, 6], north: [0, 6], written: [0, 12]};
const PALE = .35;
/** What each colour means, and how its sample looks: filled, a frame, a bar, filled but pale, a part of a row of the timeline, or a line. */
const LEGEND = {
  array: [["stream", "fill", "arriving vector"], ["cell", "fill", "cell"], ["held", "frame", "block in the cell"],
    ["held", "bar", "loaded words of the next block"], ["sums", "fill", "sums leaving the cell, and their vector"]],
  tensors: [["none", "fill", "block in memory only, or without sums so far"], ["there", "fill", "block in a scratchpad"],
    ["sums", "pale", "part of the block's sums is added up"], ["written", "fill", "written to memory"]],
  time: [["X", "part", "reads of X"], ["W", "part", "of W"], ["dY", "part", "of dY"], ["command", "part", "of a command"],
    ["east", "part", "slots to the east"], ["north", "part", "to the north"], ["written", "part", "writes of results"],
    ["now", "line", "this cycle"]],
};
const SIDE = 136, GAP = 26;                         // of the pictures of tensors
const LEFT = 3 * SIDE + 3 * GAP + 30;               // where the array begins
const NUMBER = Math.max(28, Math.min(56, Math.floor(560 / (C * B)))), FONT = NUMBER < 34 ? 9 : NUMBER < 50 ? 11 : 14;
const LINE = FONT + 8, SMALL = 10;
const SUMS = 60, VECTOR = 52;                       // room beside a cell: for sums, and for one vector
const TOP = 58, UP = 44, DOWN = 2 * FONT + 3 * (SMALL + 2) + 26; // above the array, above a cell, and below
const HIGH = B * LINE;                              // of a cell
const READABLE = .95;                               // the least scale, by which the smallest text keeps 9 pixels
const ARRAY_HIGH = TOP + R * (HIGH + UP + DOWN) - UP + 16;
let run = data.runs[0], cycle = 0, playing = null, mantissas = false;

const $ = id => document.getElementById(id);

function draw(parent, kind, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function write(parent, x, y, text, more) {
  return draw(parent, "text", {x, y, "font-family": "sans-serif", "font-size": 12, fill: COLOUR.ink, ...more}, text);
}

// --- What a cycle holds: passes, slots, and what they are -----------------------------------------

const slotsOf = pass => pass.count * run.ways.length;
/** The slot whose sums cell r, c has whole in a cycle; or null. */
const sumsAt = (r, c, when) => slotAt(when - 1 - r - c - latency);
/** The pass whose slot is issued in a cycle, with the direction and the vector; or null. */
function slotAt(when) {
  const number = run.passes.findLastIndex(pass => pass.first <= when);
  const pass = run.passes[number];
  if (!pass || when >= pass.first + slotsOf(pass)) return null;
  const index = when - pass.first;
  return {number, pass, way: run.ways[Math.floor(index / pass.count)], t: pass.t0 + index % pass.count,
    index: pass.before + index};
}
/** The number of the pass whose block a cell multiplies by; -1 before the first. */
const heldIn = (r, c, when) => run.passes.findLastIndex(pass => pass.first + 1 + r + c <= when);
/** Rows of the next block that a cell has. */
function loadedIn(r, c, when) {
  const pass = run.passes[heldIn(r, c, when) + 1];
  return pass ? Math.max(0, Math.min(B, when - (pass.loads + r * B + 1 + c + r))) : 0;
}
const inside = (pass, r, c) => r < pass.rows && c < pass.cols;

const heldPlace = (pass, r, c) => ({[run.ways[0].rows]: pass.row + r, [run.ways[0].cols]: pass.col + c});

// --- The picture ----------------------------------------------------------------------------------

const shapes = {};                                  // of the picture at hand, by what they show

function tensorPicture(svg, name, x, y) {
  const tensor = data.tensors[name], [down, along] = tensor.axes;
  const most = Math.max(data.sizes.m, data.sizes.k, data.sizes.n), scale = SIDE / most;
  const height = data.sizes[down], width = data.sizes[along];
  write(svg, x, y - 6, `${tensor.of}`, {"font-weight": "bold"});
  write(svg, x + 26, y - 6, `${down} × ${along}`, {fill: COLOUR.faint, "font-size": 10});
  const blocks = [];
  for (let r = 0; r * B < height; r++) for (let c = 0; c * B < width; c++) {
    const node = draw(svg, "rect", {x: x + c * B * scale, y: y + r * B * scale, fill: COLOUR.none, stroke: COLOUR.page,
      width: Math.min(B, width - c * B) * scale, height: Math.min(B, height - r * B) * scale, class: "block"});
    blocks.push({node, r, c});
  }
  const marks = draw(svg, "g", {});
  return {tensor, blocks, marks, x, y, scale, down, along, name};
}

/** A frame around a part of a tensor, given as [first, count] by axis, in elements. */
function frame(picture, parts, colour, filled) {
  const [top, height] = parts[picture.down], [left, width] = parts[picture.along];
  const clip = (first, count, axis) => Math.min(first + count, data.sizes[axis]) - first;
  const wide = clip(left, width, picture.along), high = clip(top, height, picture.down);
  if (wide <= 0 || high <= 0) return;
  draw(picture.marks, "rect", {x: picture.x + left * picture.scale, y: picture.y + top * picture.scale,
    width: wide * picture.scale, height: high * picture.scale, fill: filled ? colour : "none", stroke: filled ? "none" : colour,
    "stroke-width": 2, "pointer-events": "none"});
}

/** Room to the left of a cell: where vectors come from the west, for the one that arrives and for that of the sums. */
const west = () => run.ways.some(way => way.direction === NORTH) ? 2 * VECTOR : VECTOR;

function cellPicture(svg, r, c) {
  const wide = B * NUMBER, x = LEFT + west() + c * (wide + SUMS + west()), y = TOP + (R - 1 - r) * (HIGH + UP + DOWN);
  const cell = {r, c, held: [], south: [], west: [], east: [], north: [], southSummed: [], westSummed: []};
  cell.box = draw(svg, "rect", {x, y, width: wide, height: HIGH, rx: 3, fill: COLOUR.cell, stroke: COLOUR.held, "stroke-width": 1.5});
  cell.bar = draw(svg, "rect", {x, y: y + HIGH + 2, height: 4, width: 0, fill: COLOUR.held});
  const label = (top, fill) => write(svg, x, top, "", {"font-size": SMALL, fill});
  cell.label = label(y - 20, COLOUR.ink);
  const arrives = y + HIGH + 8 + FONT, summed = arrives + SMALL + 4 + FONT;
  cell.arrives = label(arrives + SMALL + 1, COLOUR.stream);
  cell.sumsOf = [1, 2].map(line => label(summed + line * (SMALL + 2), COLOUR.sums));
  const number = (list, at, top, colour, anchor) => list.push(
    write(svg, at, top, "", {"font-size": FONT, fill: colour, "text-anchor": anchor, "font-family": "monospace", class: "number"}));
  for (let b = 0; b < B; b++) for (let a = 0; a < B; a++)
    number(cell.held, x + (a + .5) * NUMBER, y + (b + .75) * LINE, COLOUR.ink, "middle");
  for (let k = 0; k < B; k++) {
    number(cell.south, x + (k + .5) * NUMBER, arrives, COLOUR.stream, "middle");
    number(cell.southSummed, x + (k + .5) * NUMBER, summed, COLOUR.sums, "middle");
    number(cell.north, x + (k + .5) * NUMBER, y - 6, COLOUR.sums, "middle");
    number(cell.west, x - 5, y + (k + .75) * LINE, COLOUR.stream, "end");
    number(cell.westSummed, x - 5 - VECTOR, y + (k + .75) * LINE, COLOUR.sums, "end");
    number(cell.east, x + wide + 6, y + (k + .75) * LINE, COLOUR.sums, "start");
  }
  return cell;
}

function build() {
  $("stage").replaceChildren();
  const arrayWide = C * (west() + B * NUMBER + SUMS) + SUMS, width = LEFT + arrayWide;
  const time = Math.max(2 * (SIDE + GAP) + 40, ARRAY_HIGH + 10), top = time + 56;
  const svg = draw($("stage"), "svg", {xmlns: "http://www.w3.org/2000/svg", id: "picture"});
  const page = draw(svg, "rect", {width, fill: COLOUR.page});
  shapes.operands = ["X", "W", "dY"].map((name, n) => tensorPicture(svg, pictured(name), 10 + n * (SIDE + GAP), 40));
  shapes.results = ["dX", "dW", "Y"].map((name, n) => tensorPicture(svg, name, 10 + n * (SIDE + GAP), 66 + SIDE));
  shapes.cells = [];
  for (let r = 0; r < R; r++) for (let c = 0; c < C; c++) shapes.cells.push(cellPicture(svg, r, c));
  for (const way of run.ways) sides(svg, way, arrayWide);
  timeline(svg, 10, time, width - 20);
  const height = legend(svg, Object.values(LEGEND), 10, top, width - 20) + 2;
  page.setAttribute("height", height);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.minWidth = `${Math.ceil(READABLE * width)}px`; // in a narrow window the stage scrolls, the page does not
  svg.addEventListener("mouseover", event => { if (event.target.say) $("pointed").textContent = event.target.say(); });
  svg.addEventListener("click", event => { // a finger points at nothing before
    if (event.target.say) $("pointed").textContent = event.target.say();
    if (event.target.tell) tell(event.target.tell());
  });
}

/** Top and height of a sample: a bar of the timeline lies as in its row. */
const sample = (name, kind) => kind === "part" ? [BARS[name][0] - 1, BARS[name][1]] : kind === "bar" ? [3, 4] : [0, 10];

/** Samples of colours with what they mean, each group of them from a line of its own; where the last line ends. */
function legend(svg, groups, x, y, width) {
  let line = y;
  for (const entries of groups) {
    let left = x;
    for (const [name, kind, words] of entries) {
      const wide = 28 + words.length * 5.7, fill = COLOUR[name], [top, high] = sample(name, kind);
      if (left > x && left + wide > x + width) { left = x; line += 16; }
      const look = kind === "frame" ? {fill: "none", stroke: fill, "stroke-width": 2} : {fill, "fill-opacity": kind === "pale" ? PALE : 1};
      draw(svg, "rect", {x: left, y: line + top, width: kind === "line" ? 3 : 12, height: high, class: "key", ...look});
      write(svg, left + 16, line + 9, words, {"font-size": SMALL});
      left += wide;
    }
    line += 16;
  }
  return line;
}

/** What enters and what leaves at the edges of the array. */
function sides(svg, way, wide) {
  const enters = data.tensors[way.streamed].of, leaves = way.result, bold = {"font-weight": "bold", "font-size": 13};
  const middle = LEFT + wide / 2 - SUMS / 2;
  if (way.direction === EAST) {
    write(svg, middle, ARRAY_HIGH, `↑ ${enters}`, {...bold, fill: COLOUR.stream});
    write(svg, LEFT + wide - SUMS, 30, `${leaves} →`, {...bold, fill: COLOUR.sums});
  } else {
    write(svg, LEFT - 8, 30, `${enters} →`, {...bold, fill: COLOUR.stream});
    write(svg, middle, 14, `↑ ${leaves}`, {...bold, fill: COLOUR.sums});
  }
}

/** The copy of an operand that this product reads, or the first one. */
function pictured(name) {
  for (const way of run.ways) for (const copy of [way.streamed, way.held]) if (data.tensors[copy].of === name) return copy;
  return Object.keys(data.tensors).find(copy => data.tensors[copy].of === name);
}

function timeline(svg, left, y, whole) {
  const x = left + 34, width = whole - 34, step = width / run.cycles, high = 16; // names stand before the rows
  const names = {X: "X", W: "W", d: "dY", c: "command"};
  const rows = [["read", when => names[run.reads[when]]], ["array", when => (slot => slot && (slot.way.direction === EAST ? "east" : "north"))(slotAt(when))],
    ["write", when => run.written.has(when) && "written"]];
  rows.forEach(([title, kind], line) => {
    let from = 0;
    for (let when = 1; when <= run.cycles; when++) {
      if (when < run.cycles && kind(when) === kind(from)) continue;
      const bar = kind(from);
      if (bar) draw(svg, "rect", {x: x + from * step, y: y + 2 + line * high + BARS[bar][0], width: (when - from) * step, height: BARS[bar][1], fill: COLOUR[bar]});
      from = when;
    }
    write(svg, left, y + 12 + line * high, title, {"font-size": SMALL, "pointer-events": "none"});
  });
  const area = draw(svg, "rect", {x, y, width, height: 3 * high, fill: "transparent", class: "timeline"});
  area.say = () => "read: beats that memory brings, by tensor; array: slots, by direction; write: beats of results";
  area.addEventListener("click", event => {
    const box = area.getBoundingClientRect();
    go(Math.floor((event.clientX - box.left) / box.width * run.cycles));
  });
  shapes.marker = draw(svg, "rect", {y: y - 2, width: Math.max(1.5, step), height: 3 * high + 4, fill: COLOUR.now});
  shapes.time = {x, step};
}

// --- One cycle --------------------------------------------------------------------------------------

function put(node, text, say, rows) {
  node.textContent = text;
  node.say = say;
  node.tell = rows && (() => ({title: `${say()}, in cycle ${cycle}`, rows: rows()}));
}
const empty = node => put(node, "", null, null);
/** An element of an operand, as it stands in the picture. */
function putElement(node, name, at, where) {
  const there = value(name, at) !== undefined;
  put(node, mantissas ? mantissa(name, at) : short(value(name, at)), () => `${where}: ${elementWords(name, at)}`,
    there && (() => elementRows(name, at)));
}

function showCell(cell) {
  const {r, c} = cell, pass = run.passes[heldIn(r, c, cycle)], way = run.ways[0];
  const next = run.passes[heldIn(r, c, cycle) + 1], loaded = loadedIn(r, c, cycle);
  cell.bar.setAttribute("width", next ? loaded * NUMBER : 0);
  const holds = pass && inside(pass, r, c);
  cell.label.textContent = holds ? blockName(way.held, heldPlace(pass, r, c)) + scaleWords(way.held, blockAt(way, pass, r, c)) : "";
  cell.held.forEach((node, index) => {
    const b = Math.floor(index / B), a = index % B;
    if (!holds) return empty(node);
    const at = {[way.cols]: (pass.col + c) * B + a, [way.rows]: (pass.row + r) * B + b};
    putElement(node, way.held, at, `held in cell ${r}, ${c}`);
  });
  showVectors(cell);
  showSums(cell);
}
const blockAt = (way, pass, r, c) => ({[way.cols]: [(pass.col + c) * B, B], [way.rows]: [(pass.row + r) * B, B]});

/** Where the vector of a slot lies in the operand, for cell r, c: [first, count] by axis. */
function vectorAt({way, pass, t}, r, c) {
  const east = way.direction === EAST;
  return {[way.t]: [t, 1], [east ? way.cols : way.rows]: [(east ? pass.col + c : pass.row + r) * B, B]};
}
const partName = (name, part) => named(name, Object.fromEntries(Object.entries(part).map(([axis, [first, count]]) => [axis, spanOf(axis, first, count)])));
/** While mantissas are shown: the exponent of 1, of all elements of a part, or that they have several. */
function scaleWords(name, part) {
  if (!mantissas) return "";
  const {axes, of} = data.tensors[name], kind = data.formats[of], found = new Set();
  const [rows, columns] = axes.map(axis => part[axis]);
  for (let row = rows[0]; row < Math.min(rows[0] + rows[1], data.sizes[axes[0]]); row++)
    for (let column = columns[0]; column < Math.min(columns[0] + columns[1], data.sizes[axes[1]]); column++) {
      const each = made(name, {[axes[0]]: row, [axes[1]]: column});
      found.add(power(each.exponent - kind.precision + 1) + timesScale(kind, each));
    }
  return found.size === 1 ? ` · ${[...found][0]}` : found.size ? " · an exponent for each vector" : "";
}

/** Numbers of the vector of a slot, at a side of a cell. */
function putVector(nodes, slot, {r, c}, where) {
  const part = vectorAt(slot, r, c), {way, t} = slot, axis = way.direction === EAST ? way.cols : way.rows;
  nodes.forEach((node, k) => putElement(node, way.streamed, {[way.t]: t, [axis]: part[axis][0] + k}, where));
}

function showVectors(cell) {
  const {r, c} = cell, slot = slotAt(cycle - 1 - r - c);
  const arrives = slot && inside(slot.pass, r, c) ? slot : null;
  for (const [side, direction] of [["south", EAST], ["west", NORTH]])
    if (arrives && arrives.way.direction === direction) putVector(cell[side], arrives, cell, `arrives at cell ${r}, ${c} from the ${side}`);
    else cell[side].forEach(empty);
  if (!arrives) { cell.arrives.textContent = ""; return; }
  const part = vectorAt(arrives, r, c), name = arrives.way.streamed;
  cell.arrives.textContent = `${arrives.way.direction === EAST ? "↑" : "→"} ${partName(name, part)} arrives${scaleWords(name, part)}`;
}

/** The sums that leave a cell, with the vector and the block that they are of, which may both be earlier ones. */
function showSums(cell) {
  const {r, c} = cell, slot = sumsAt(r, c, cycle), done = slot && inside(slot.pass, r, c) ? slot : null;
  for (const [side, from, direction] of [["east", "southSummed", EAST], ["north", "westSummed", NORTH]]) {
    if (!done || done.way.direction !== direction) { cell[side].forEach(empty); cell[from].forEach(empty); continue; }
    putVector(cell[from], done, cell, `the sums of cell ${r}, ${c} are of this vector`);
    cell[side].forEach((node, k) => {
      const found = partialSum(done, r, c, k);
      if (!found) return empty(node);
      put(node, mantissas ? long(Number(found.got) * 2 ** -done.way.fraction) : short(found.sum),
        () => `leaves cell ${r}, ${c} to the ${side}: ${sumWords(done, found)}`, () => sumRows(done, found, `cell ${r}, ${c}`));
    });
  }
  const words = done ? sumsWords(done, r, c) : ["", ""];
  cell.sumsOf.forEach((node, line) => { node.textContent = words[line]; });
}
/** What the sums of a slot are, in two lines. */
function sumsWords(slot, r, c) {
  const {way, pass, t} = slot, found = partialSum(slot, r, c, 0), east = way.direction === EAST;
  const along = east ? way.rows : way.cols, lanes = spanOf(along, (east ? pass.row + r : pass.col + c) * B, B);
  const before = run.passes[heldIn(r, c, cycle)] === pass ? "" : ", the block before", more = (east ? c : r) ? " + the cell before" : "";
  return [`${east ? "→" : "↑"} ${named(way.result, {[way.t]: t, [along]: lanes})} over ${found.contraction} = ${found.range}${shiftWords(slot, r, c)}`,
    `of ${partName(way.streamed, vectorAt(slot, r, c))} and ${blockName(way.held, heldPlace(pass, r, c))}${before}${more}`];
}
/** While mantissas are shown: the exponent of 1 in the sums that leave a cell, and by how much it shifts products. */
function shiftWords(slot, r, c) {
  if (!mantissas) return "";
  const lanes = Array.from({length: B}, (_, lane) => partialSum(slot, r, c, lane)).filter(found => found);
  const units = new Set(lanes.map(found => found.unit + slot.way.fraction)), shifts = new Set(lanes.map(found => addend(slot, found).shift));
  return (units.size === 1 ? ` · ${power([...units][0])}` : "") + ` (products >> ${[...shifts].join(", ")})`;
}

function showOperands() {
  const first = slotAt(cycle - 1);                  // what enters the array
  for (const picture of shapes.operands) {
    picture.marks.replaceChildren();
    const name = picture.tensor.of;
    for (const {node, r, c} of picture.blocks) {
      const there = (run.there[name]?.[`${r},${c}`] ?? []).find(([came, last]) => came < cycle && cycle <= last);
      node.setAttribute("fill", there ? COLOUR.there : COLOUR.none);
      const place = {[picture.down]: r, [picture.along]: c};
      node.say = () => `block ${blockName(picture.name, place)}: ` + (there ? `in a scratchpad from cycle ${there[0] + 1} to ${there[1]}` : "in memory only");
    }
    if (run.ways[0].held === picture.name) for (const {r, c} of shapes.cells) {
      const pass = run.passes[heldIn(r, c, cycle)];
      if (!pass || !inside(pass, r, c)) continue;
      const at = heldPlace(pass, r, c);
      frame(picture, {[picture.down]: [at[picture.down] * B, B], [picture.along]: [at[picture.along] * B, B]}, COLOUR.held);
    }
    if (first && first.way.streamed === picture.name) {
      const {pass, way, t} = first, east = way.direction === EAST, axis = east ? way.cols : way.rows;
      frame(picture, {[way.t]: [t, 1], [axis]: [(east ? pass.col : pass.row) * B, (east ? pass.cols : pass.rows) * B]}, COLOUR.stream, true);
    }
  }
}

function showResults() {
  for (const picture of shapes.results) {
    picture.marks.replaceChildren();
    const way = run.ways.find(each => each.result === picture.name);
    const written = run.written.size ? run.writes.filter(each => each[1] === picture.name && each[0] < cycle) : [];
    for (const {node, r, c} of picture.blocks) {
      const done = way ? summed(way, {[picture.down]: r, [picture.along]: c}) : 0;
      node.setAttribute("fill", done ? COLOUR.sums : COLOUR.none);
      node.setAttribute("fill-opacity", done ? .15 + .45 * done : 1);
      const place = {[picture.down]: r, [picture.along]: c};
      node.say = () => !way ? `${picture.name} is of another product` : `block ${blockName(picture.name, place)}: ${Math.round(100 * done)} % of its sums are added up`;
    }
    for (const [, , row, col, count] of written)
      frame(picture, {[picture.down]: [row, 1], [picture.along]: [col, count]}, COLOUR.written, true);
    for (const {r, c} of shapes.cells) {
      const done = sumsAt(r, c, cycle);
      if (!done || !way || done.way !== way || !inside(done.pass, r, c)) continue;
      const east = way.direction === EAST, edge = east ? c === C - 1 : r === R - 1;
      if (!edge && (east ? c !== done.pass.cols - 1 : r !== done.pass.rows - 1)) continue;
      const axis = east ? way.rows : way.cols, place = east ? done.pass.row + r : done.pass.col + c;
      frame(picture, {[way.t]: [done.t, 1], [axis]: [place * B, B]}, COLOUR.sums, true);
    }
  }
}

/** How much of the sums of a block of a result has been added up, from 0 to 1. */
function summed(way, place) {
  const east = way.direction === EAST, lanes = east ? way.rows : way.cols, contraction = east ? way.cols : way.rows;
  const turn = run.ways.indexOf(way);
  let done = 0;
  for (const pass of run.passes) {
    const lane = place[lanes] - (east ? pass.row : pass.col), width = east ? pass.cols : pass.rows;
    if (lane < 0 || lane >= (east ? pass.rows : pass.cols)) continue;
    const from = Math.max(place[way.t] * B, pass.t0), to = Math.min(place[way.t] * B + B, pass.t0 + pass.count);
    const last = pass.first + turn * pass.count + to - pass.t0 - 1 + 1 + lane + width - 1 + latency;
    const part = Math.max(0, Math.min(to - from, cycle - last + (to - from)));
    done += part * width;
  }
  const vectors = Math.min(B, data.sizes[way.t] - place[way.t] * B), blocks = Math.ceil(data.sizes[contraction] / B);
  return done / (vectors * blocks);
}

function sentences() {
  const lines = [], slot = slotAt(cycle - 1), pass = run.passes[heldIn(0, 0, cycle)];
  if (slot) {
    const {way, t} = slot, east = way.direction === EAST, axis = east ? way.cols : way.rows;
    const at = {[way.t]: t, [axis]: spanOf(axis, (east ? slot.pass.col : slot.pass.row) * B, (east ? slot.pass.cols : slot.pass.rows) * B)};
    lines.push(`${named(way.streamed, at)} enters from the ${east ? "south" : "west"}, for ${way.result}.`);
  } else if (run.waits[cycle] === "l") lines.push("The array waits for what is being loaded.");
  else if (run.waits[cycle] === "a") lines.push("The array waits for room for sums.");
  else lines.push(cycle < run.passes[0].first ? "Nothing streams yet." : "Nothing streams: sums leave, and results are written.");
  const done = sumsAt(0, 0, cycle);
  if (done) lines.push(`Sums of ${partName(done.way.streamed, vectorAt(done, 0, 0))} leave cell 0, 0 to the ${done.way.direction === EAST ? "east" : "north"}.`);
  if (pass) lines.push(`Cell 0, 0 holds ${blockName(run.ways[0].held, heldPlace(pass, 0, 0))}.`);
  const next = run.passes[heldIn(0, 0, cycle) + 1], rows = loadedIn(0, 0, cycle);
  if (next && rows) lines.push(`Behind it ${rows} of ${B} words of ${blockName(run.ways[0].held, heldPlace(next, 0, 0))} are loaded.`);
  const bus = [], tensor = {X: "X", W: "W", d: "dY"}[run.reads[cycle]];
  if (tensor) bus.push(`brings a beat of ${tensor}`);
  const written = run.writes.filter(each => each[0] === cycle);
  for (const [, name, row, col, count] of written) bus.push(`takes ${name}[${row}, ${span(col, count, data.sizes[data.tensors[name].axes[1]])}]`);
  if (bus.length) lines.push(`Memory ${bus.join(", and ")}.`);
  return lines.join(" ");
}

function show() {
  shapes.cells.forEach(showCell);
  showOperands();
  showResults();
  shapes.marker.setAttribute("x", shapes.time.x + cycle * shapes.time.step);
  $("cycle").value = cycle;
  $("count").textContent = `cycle ${cycle} of ${run.cycles - 1}`;
  $("now").textContent = sentences();
}

/** A chosen number: what it is, and how it came about. */
function tell({title, rows}) {
  $("chosen").replaceChildren(...[["", title], ...rows].map(([term, text], line) => {
    const row = document.createElement("tr"), cells = line ? [document.createElement("th"), document.createElement("td")] : [document.createElement("th")];
    cells[0].textContent = line ? term : text;
    if (line) cells[1].textContent = text; else cells[0].colSpan = 2;
    row.append(...cells);
    return row;
  }));
}

/** Values, or mantissas and shared exponents. */
function view(chosen) {
  mantissas = chosen;
  $("view").setAttribute("aria-pressed", mantissas);
  show();
}

function go(to) {
  cycle = Math.max(0, Math.min(run.cycles - 1, to));
  show();
}

/** Another product; where it holds the same tensor, at the cycle in which it holds the same block. */
function choose(number) {
  const before = run, pass = run.passes[heldIn(0, 0, cycle)], old = pass && heldPlace(pass, 0, 0);
  run = data.runs[number];
  let at = run.passes[0].first + 1;                 // the first vector enters the array
  if (old && before.ways[0].held === run.ways[0].held) outer: for (const each of run.passes) for (let r = 0; r < each.rows; r++) for (let c = 0; c < each.cols; c++) {
    const place = heldPlace(each, r, c);
    if (Object.keys(old).every(axis => place[axis] === old[axis])) { at = each.first + 1 + r + c; break outer; }
  }
  document.querySelectorAll("#runs button").forEach((button, n) => button.setAttribute("aria-pressed", n === number));
  $("what").textContent = run.what;
  $("cycle").max = run.cycles - 1;
  build();
  go(at);
}

function nameTheme() { $("theme").textContent = `colours: ${theme()}`; }

function play() {
  if (playing) { clearInterval(playing); playing = null; }
  else playing = setInterval(() => cycle + 1 < run.cycles ? go(cycle + 1) : play(), 120);
  $("play").textContent = playing ? "stop" : "run";
}

for (const each of data.runs) {
  let before = 0;
  each.passes = each.passes.map(([first, loads, t0, count, row, col, rows, cols]) => {
    const pass = {first, loads, t0, count, row, col, rows, cols, before};
    before += count * each.ways.length;
    return pass;
  });
  each.written = new Set(each.writes.map(([when]) => when));
  each.there = {};
  for (const [name, r, c, came, last] of each.arrivals) ((each.there[name] ??= {})[`${r},${c}`] ??= []).push([came, last]);
}
data.runs.forEach((each, number) => {
  const button = document.createElement("button");
  button.textContent = each.title;
  button.addEventListener("click", () => choose(number));
  $("runs").append(button, " ");
});
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey) return; // the browser's own
  if (event.key === " " && event.target.tagName === "BUTTON") return; // presses the button
  const step = event.shiftKey ? B : 1;
  const keys = {ArrowRight: () => go(cycle + step), ArrowLeft: () => go(cycle - step), Home: () => go(0),
    End: () => go(run.cycles - 1), " ": play, m: () => view(!mantissas)};
  const digit = Number(event.key);
  if (keys[event.key]) keys[event.key]();
  else if (digit >= 1 && digit <= data.runs.length) choose(digit - 1);
  else return;
  event.preventDefault();
});
$("cycle").addEventListener("input", event => go(Number(event.target.value)));
$("back").addEventListener("click", () => go(cycle - 1));
$("on").addEventListener("click", () => go(cycle + 1));
$("play").addEventListener("click", play);
$("view").addEventListener("click", () => view(!mantissas));
$("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  setTheme(next);
  keepTheme(next);
  nameTheme();
});
nameTheme();
const wanted = new URLSearchParams(location.hash.slice(1));
const asked = (name, otherwise) => wanted.has(name) && Number.isInteger(Number(wanted.get(name))) ? Number(wanted.get(name)) : otherwise;
choose(data.runs[asked("run", data.first)] ? asked("run", data.first) : data.first);
go(asked("cycle", cycle));
shapes.cells[0].held[0].tell && tell(shapes.cells[0].held[0].tell());
$("stage").scrollLeft = (LEFT - 20) * READABLE;      // a narrow window begins at the array
