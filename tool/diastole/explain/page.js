"use strict";
// Draws one cycle of one product, and steps. All that it knows is in the element "data", whose
// fields are those of diastole.explain.page.
const data = JSON.parse(document.getElementById("data").textContent);
const {rows: R, cols: C, block: B, stages} = data.machine;
const EAST = 0, NORTH = 1;
const COLOUR = {stream: "#0072b2", held: "#e69f00", sums: "#009e73", there: "#9ec9e2", none: "#f1f1f1",
  written: "#555", ink: "#222", faint: "#999"};
const SIDE = 136, GAP = 26;                         // of the pictures of tensors
const LEFT = 3 * SIDE + 3 * GAP + 30;               // where the array begins
const NUMBER = Math.max(28, Math.min(56, Math.floor(560 / (C * B)))), FONT = NUMBER < 34 ? 9 : NUMBER < 50 ? 11 : 14;
const LINE = FONT + 8;
const SUMS = 60, VECTOR = 52, DOWN = 44;            // room beside and below a cell
let run = data.runs[0], cycle = 0, playing = null;

const $ = id => document.getElementById(id);
const short = value => value === undefined ? "" : String(+value.toPrecision(3));
const full = value => value === undefined ? "padding" : String(+value.toPrecision(9));

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
const heldPlace = (pass, r, c) => ({[run.ways[0].rows]: pass.row + r, [run.ways[0].cols]: pass.col + c});

// --- What numbers are, in words -------------------------------------------------------------------

function elementWords(name, at) {
  const number = value(name, at);
  return number === undefined ? "padding: beyond the tensor's edge" : `${named(name, at)} = ${full(number)}`;
}
/** What cell r, c adds up to in a lane: where in the result, over what, and the number itself; null beyond the edge. */
function partialSum(slot, r, c, lane) {
  const {way, pass, t} = slot, east = way.direction === EAST;
  const contraction = east ? way.cols : way.rows, along = east ? way.rows : way.cols;
  const position = (east ? pass.row + r : pass.col + c) * B + lane;
  if (position >= data.sizes[along]) return null;
  const from = (east ? pass.col : pass.row) * B, count = ((east ? c : r) + 1) * B;
  const at = {[way.t]: t, [along]: position};
  let sum = 0;
  for (let step = from; step < Math.min(from + count, data.sizes[contraction]); step++) {
    const both = {...at, [contraction]: step};
    sum += value(way.streamed, both) * value(way.held, both);
  }
  return {at, sum, contraction, range: spanOf(contraction, from, count)};
}
function sumWords(slot, {at, sum, contraction, range}, got) {
  const {way} = slot, over = {...at, [contraction]: range};
  return `partial sum of ${named(way.result, at)} over ${contraction} = ${range}: `
    + `${named(way.streamed, over)} · ${named(way.held, over)} = ${full(sum)}, the integer ${got} in the array`;
}

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
    const node = draw(svg, "rect", {x: x + c * B * scale, y: y + r * B * scale, fill: COLOUR.none, stroke: "#fff",
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

function cellPicture(svg, r, c) {
  const wide = B * NUMBER, high = B * LINE;
  const x = LEFT + VECTOR + c * (wide + SUMS + VECTOR), y = 58 + (R - 1 - r) * (high + 2 * DOWN);
  const cell = {r, c, held: [], south: [], west: [], east: [], north: []};
  cell.box = draw(svg, "rect", {x, y, width: wide, height: high, rx: 3, fill: "#fff7e6", stroke: COLOUR.held, "stroke-width": 1.5});
  cell.bar = draw(svg, "rect", {x, y: y + high + 2, height: 4, width: 0, fill: COLOUR.held});
  cell.label = write(svg, x, y - 20, "", {"font-size": 10, fill: COLOUR.faint});
  const number = (list, at, top, colour, anchor) => list.push(
    write(svg, at, top, "", {"font-size": FONT, fill: colour, "text-anchor": anchor, "font-family": "monospace", class: "number"}));
  for (let b = 0; b < B; b++) for (let a = 0; a < B; a++)
    number(cell.held, x + (a + .5) * NUMBER, y + (b + .75) * LINE, COLOUR.ink, "middle");
  for (let k = 0; k < B; k++) {
    number(cell.south, x + (k + .5) * NUMBER, y + high + 8 + FONT, COLOUR.stream, "middle");
    number(cell.north, x + (k + .5) * NUMBER, y - 6, COLOUR.sums, "middle");
    number(cell.west, x - 5, y + (k + .75) * LINE, COLOUR.stream, "end");
    number(cell.east, x + wide + 6, y + (k + .75) * LINE, COLOUR.sums, "start");
  }
  return cell;
}

function build() {
  $("stage").replaceChildren();
  const arrayWide = VECTOR + C * (B * NUMBER + SUMS + VECTOR), arrayHigh = 56 + R * (B * LINE + 2 * DOWN) - DOWN;
  const width = LEFT + arrayWide, top = Math.max(2 * (SIDE + GAP) + 40, arrayHigh + 16), height = top + 70;
  const svg = draw($("stage"), "svg", {viewBox: `0 0 ${width} ${height}`, xmlns: "http://www.w3.org/2000/svg", id: "picture"});
  draw(svg, "rect", {width, height, fill: "#fff"});
  shapes.operands = ["X", "W", "dY"].map((name, n) => tensorPicture(svg, pictured(name), 10 + n * (SIDE + GAP), 40));
  shapes.results = ["dX", "dW", "Y"].map((name, n) => tensorPicture(svg, name, 10 + n * (SIDE + GAP), 66 + SIDE));
  shapes.cells = [];
  for (let r = 0; r < R; r++) for (let c = 0; c < C; c++) shapes.cells.push(cellPicture(svg, r, c));
  for (const way of run.ways) sides(svg, way, arrayWide, arrayHigh);
  timeline(svg, 10, top, width - 20);
  svg.addEventListener("mouseover", event => { if (event.target.say) $("pointed").textContent = event.target.say(); });
}

/** What enters and what leaves at the edges of the array. */
function sides(svg, way, wide, high) {
  const enters = data.tensors[way.streamed].of, leaves = way.result, bold = {"font-weight": "bold", "font-size": 13};
  const middle = LEFT + wide / 2 - SUMS / 2;
  if (way.direction === EAST) {
    write(svg, middle, high, `↑ ${enters}`, {...bold, fill: COLOUR.stream});
    write(svg, LEFT + wide - VECTOR - 4, 30, `${leaves} →`, {...bold, fill: COLOUR.sums});
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

function timeline(svg, x, y, width) {
  const step = width / run.cycles;
  const names = {X: "#0072b2", W: "#56b4e9", d: "#cc79a7", c: "#999"};
  const rows = [["read", when => names[run.reads[when]]], ["array", when => (slot => slot && (slot.way.direction === EAST ? "#009e73" : "#66c2a5"))(slotAt(when))],
    ["write", when => run.written.has(when) && COLOUR.written]];
  rows.forEach(([name, colour], line) => {
    let from = 0;
    for (let when = 1; when <= run.cycles; when++) {
      if (when < run.cycles && colour(when) === colour(from)) continue;
      if (colour(from)) draw(svg, "rect", {x: x + from * step, y: y + 4 + line * 14, width: (when - from) * step, height: 11, fill: colour(from)});
      from = when;
    }
    write(svg, x, y + 13 + line * 14, name, {"font-size": 9, fill: COLOUR.ink, "pointer-events": "none"});
  });
  const area = draw(svg, "rect", {x, y, width, height: 48, fill: "transparent", class: "timeline"});
  area.say = () => "read: beats that memory brings, by tensor; array: slots, by direction; write: beats of results";
  area.addEventListener("click", event => {
    const box = area.getBoundingClientRect();
    go(Math.floor((event.clientX - box.left) / box.width * run.cycles));
  });
  shapes.marker = draw(svg, "rect", {y: y - 2, width: Math.max(1.5, step), height: 52, fill: "#d55e00"});
  shapes.time = {x, step};
}

// --- One cycle --------------------------------------------------------------------------------------

function put(node, text, say, faint) {
  node.textContent = text;
  node.say = say;
  node.setAttribute("opacity", faint ? .35 : 1);
}

function showCell(cell) {
  const {r, c} = cell, pass = run.passes[heldIn(r, c, cycle)], way = run.ways[0];
  const next = run.passes[heldIn(r, c, cycle) + 1], loaded = loadedIn(r, c, cycle);
  cell.bar.setAttribute("width", next ? loaded * NUMBER : 0);
  cell.label.textContent = pass && inside(pass, r, c) ? blockName(way.held, heldPlace(pass, r, c)) : "";
  cell.held.forEach((node, index) => {
    const b = Math.floor(index / B), a = index % B;
    if (!pass || !inside(pass, r, c)) return put(node, "", null);
    const at = {[way.cols]: (pass.col + c) * B + a, [way.rows]: (pass.row + r) * B + b};
    put(node, short(value(way.held, at)), () => `held in cell ${r}, ${c}: ${elementWords(way.held, at)}`);
  });
  const arrived = slotAt(cycle - 1 - r - c), done = slotAt(cycle - 2 - r - c - stages);
  for (let k = 0; k < B; k++) {
    for (const [side, direction] of [["south", EAST], ["west", NORTH]]) {
      if (!arrived || arrived.way.direction !== direction || !inside(arrived.pass, r, c)) { put(cell[side][k], "", null); continue; }
      const axis = direction === EAST ? arrived.way.cols : arrived.way.rows;
      const place = direction === EAST ? arrived.pass.col + c : arrived.pass.row + r;
      const at = {[arrived.way.t]: arrived.t, [axis]: place * B + k}, name = arrived.way.streamed;
      put(cell[side][k], short(value(name, at)), () => `arrives at cell ${r}, ${c} from the ${side}: ${elementWords(name, at)}`);
    }
    for (const [side, direction] of [["east", EAST], ["north", NORTH]]) {
      if (!done || done.way.direction !== direction || !inside(done.pass, r, c)) { put(cell[side][k], "", null); continue; }
      const got = run.sums[(done.index * R * C + r * C + c) * B + k], sum = partialSum(done, r, c, k);
      put(cell[side][k], sum ? short(sum.sum) : "", sum && (() => `leaves cell ${r}, ${c} to the ${side}: ${sumWords(done, sum, got)}`));
    }
  }
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
      const done = slotAt(cycle - 2 - r - c - stages);
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
    const last = pass.first + turn * pass.count + to - pass.t0 - 1 + 2 + lane + width - 1 + stages;
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

function go(to) {
  cycle = Math.max(0, Math.min(run.cycles - 1, to));
  show();
}

/** Another product; where it holds the same tensor, at the cycle in which it holds the same block. */
function choose(number) {
  const before = run, pass = run.passes[heldIn(0, 0, cycle)], old = pass && heldPlace(pass, 0, 0);
  run = data.runs[number];
  let at = 0;
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
  const step = event.shiftKey ? B : 1;
  const keys = {ArrowRight: () => go(cycle + step), ArrowLeft: () => go(cycle - step), Home: () => go(0),
    End: () => go(run.cycles - 1), " ": play};
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
const wanted = new URLSearchParams(location.hash.slice(1));
choose(Number(wanted.get("run") ?? data.first));
if (wanted.has("cycle")) go(Number(wanted.get("cycle")));
