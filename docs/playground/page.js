// The page: reads matrices, runs the machine, shows its cycles, and compares results with the golden model.
"use strict";

(() => {
  const root = document.getElementById("pico");
  const part = name => root.querySelector(`[data-part="${name}"]`);
  const form = part("form");
  const MOST_SIDE = 16, MOST = 1e9, DETAIL = 48, LEFT = 62, HIGH = 12, LINE = 16;
  /** The colours of the parts of memory. */
  const CLASS = {X: "x", "stored X": "x", W: "w", "stored W": "w", "the second W": "w", dY: "d", "stored dY": "d",
    Y: "r", dX: "r", dW: "r", losses: "r", commands: "c", tables: "c", targets: "c"};
  const LEGEND = [["x", "X"], ["w", "W"], ["d", "dY"], ["r", "results and the array"], ["c", "commands, tables, targets"]];
  /** Rows of the picture: the class of a cycle, "" for none. */
  const ROWS = [
    ["read", (run, at) => run.reads[at] && CLASS[run.reads[at]]],
    ["converter", (run, at) => on(run, at, "converting") && "c"],
    ["product", (run, at) => on(run, at, "multiplying") && "c"],
    ["array", (run, at) => on(run, at, "busy_slot") && "r"],
    ["write", (run, at) => run.writes[at] && CLASS[run.writes[at]]],
  ];

  /** What the array waits for, by the register that counts the cycles. */
  const WAITS = {wait_vector: "the vector unit, which takes results", wait_store: "memory, which takes results",
    wait_load: "operands", wait_update: "an update in the vector unit", wait_chain: "the vector unit", wait_convert: "a conversion"};

  let pico = null, run = null, at = 0, playing = null;
  let WIDE = 600; // of a picture without its labels; less on a narrow screen, where letters keep their size

  const on = (which, when, name) => which.events[when] >>> PICO.facts.events[name] & 1;
  const shown = number => String(Number(number.toPrecision(6)));
  const element = (name, attributes = {}, text = null) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== null) made.textContent = text;
    return made;
  };
  const draw = (parent, name, attributes, text = null) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== null) made.textContent = text;
    return parent.appendChild(made);
  };
  const picture = (high, label) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${LEFT + WIDE} ${high}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    return svg;
  };

  // Input.

  const chosen = () => form.querySelector("input[name=operation]:checked").value;
  const operandsOf = operation => golden.OPERATIONS[operation]?.operands ?? [];

  function show_operands() {
    const names = operandsOf(chosen());
    for (const label of root.querySelectorAll("[data-operand]")) label.hidden = !names.includes(label.dataset.operand);
    part("seeded").hidden = !names.includes("dY");
    part("trained").hidden = chosen() !== "train";
  }

  function matrix(name, text) {
    const rows = text.trim().split(/\n+/).map(line => line.trim().split(/[\s,;]+/).map(word => {
      const number = Math.fround(Number(word));
      if (word === "" || !Number.isFinite(number) || Math.abs(number) > MOST)
        throw new Error(`${name} has "${word}"; a number from -1e9 to 1e9 is needed, such as -0.5`);
      return number;
    }));
    const uneven = rows.findIndex(row => row.length !== rows[0].length);
    if (uneven > 0) throw new Error(`row ${uneven + 1} of ${name} has the length ${rows[uneven].length}, and row 1 the length ${rows[0].length}; all lengths must be equal`);
    if (rows.length > MOST_SIDE || rows[0].length > MOST_SIDE)
      throw new Error(`${name} has ${rows.length} rows and ${rows[0].length} columns; at most 16 are possible here`);
    return rows;
  }

  function read(operation) {
    const floats = {}, sizes = {};
    for (const name of operandsOf(operation)) {
      floats[name] = matrix(name, root.querySelector(`[data-operand="${name}"] textarea`).value);
      golden.OPERANDS[name].forEach((axis, which) => {
        const count = which ? floats[name][0].length : floats[name].length, kind = which ? "columns" : "rows";
        sizes[axis] ??= [count, kind, name];
        const [first, firstKind, other] = sizes[axis];
        if (first !== count) throw new Error(`${name} has ${count} ${kind}; ${other} has ${first} ${firstKind}, and both must be equal`);
      });
    }
    const seed = Number(form.elements.seed.value);
    if (!Number.isInteger(seed) || seed < 0 || seed >= 2 ** 32) throw new Error("the seed must be an integer from 0 to 4294967295");
    return {floats, key: {seed, step: 0}};
  }

  // A run.

  /** The names of the parts of memory that a column of addresses lies in, by cycle. */
  function named(addresses, regions) {
    return Array.from(addresses, address => address === 0xffffffff ? "" :
      regions.find(each => each.first <= address && address < each.end)?.name ?? "commands");
  }

  function start() {
    const operation = chosen();
    WIDE = Math.max(220, Math.min(600, (root.clientWidth || 662) - LEFT));
    const found = operation === "train" ? train() : product(operation);
    run = {...found, reads: named(found.read, found.regions), writes: named(found.written, found.regions)};
    part("run").hidden = false;
    part("cycle").max = run.cycles - 1;
    const busy = run.events.reduce((sum, each) => sum + (each >>> PICO.facts.events.busy_slot & 1), 0);
    part("summary").textContent = `${run.cycles} cycles, ${busy} of them with work for the array` +
      (run.seconds ? `; simulated here at ${Math.round(run.simulated / run.seconds)} cycles a second.` : ".");
    part("verdict").textContent = run.verdict;
    part("verdict").className = run.equal ? "good" : "bad";
    draw_overview();
    draw_detail();
    part("results").replaceChildren(...run.tables);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    go(still ? run.cycles - 1 : 0);
    play(!still);
  }

  function product(operation) {
    const {floats, key} = read(operation);
    const made = pico.product(operation, floats, key), wanted = golden.run(operation, floats, key);
    const ideal = golden.exact(operation, floats), stored = golden.convert(operation, floats, key);
    let wrong = 0, count = 0, off = 0;
    const cells = [], tables = [];
    for (const [name, rows] of Object.entries(made.results)) {
      const region = made.regions.find(each => each.name === name);
      const leaves = {};
      made.written.forEach((address, cycle) => {
        if (region.first <= address && address < region.end) leaves[(address - region.first) / 4] = cycle;
      });
      rows.forEach((row, r) => row.forEach((number, c) => {
        const same = golden.bitsOf(number) === golden.bitsOf(wanted[name][r][c]);
        wrong += !same;
        count++;
        off = Math.max(off, Math.abs(number - ideal[name][r][c]));
      }));
      tables.push(table(`${name}, as the machine has written it`, rows, (cell, r, c) => {
        const same = golden.bitsOf(rows[r][c]) === golden.bitsOf(wanted[name][r][c]);
        const title = `golden model ${wanted[name][r][c]}, product of floats ${shown(ideal[name][r][c])}`;
        cells.push({cell, from: leaves[r * rows[0].length + c], text: shown(rows[r][c]), name: same ? "good" : "bad", title});
      }));
    }
    const details = element("details");
    details.append(element("summary", {}, "the operands as the machine has stored them: 4 bits and a sign, an exponent for 4 x 4 numbers"));
    for (const [name, tensor] of Object.entries(stored))
      details.append(table(name, tensor.values, (cell, r, c) => { cell.textContent = shown(tensor.values[r][c]); }));
    const words = wrong ? `${wrong} of ${count} numbers differ from the golden model.` :
      `All ${count} numbers equal the golden model, bit for bit.`;
    return {...made, tables: [...tables, details], cells, equal: !wrong,
      verdict: `${words} The largest distance from a product without rounding is ${shown(off)}.`};
  }

  function table(caption, rows, fill) {
    const box = element("div", {class: "scroll"}), made = element("table");
    made.append(element("caption", {}, caption));
    rows.forEach((row, r) => {
      const line = element("tr");
      row.forEach((_, c) => {
        const cell = element("td");
        fill(cell, r, c);
        line.append(cell);
      });
      made.append(line);
    });
    box.append(made);
    return box;
  }

  function train() {
    const made = pico.train(), wanted = PICO.facts.losses, cells = [], points = [];
    const wrong = made.steps.filter((each, step) => golden.bitsOf(each.loss) !== golden.bitsOf(wanted[step])).length;
    const high = 150, low = high - 24, logs = wanted.map(Math.log10), most = Math.max(...logs), least = Math.min(...logs);
    const x = step => LEFT + step * (WIDE - 20) / (wanted.length - 1), y = loss => 12 + (low - 12) * (most - Math.log10(loss)) / (most - least);
    const svg = picture(high, `the loss of ${wanted.length} steps, from ${shown(wanted[0])} to ${shown(wanted.at(-1))}`);
    wanted.forEach((loss, step) => {
      draw(svg, "circle", {cx: x(step), cy: y(loss), r: 5, class: "golden"});
      draw(svg, "text", {x: x(step), y: high - 4, "text-anchor": "middle"}, step);
    });
    [Math.max(...wanted), Math.min(...wanted)].forEach(loss => draw(svg, "text", {x: LEFT - 10, y: y(loss) + 4, "text-anchor": "end"}, shown(loss)));
    const line = draw(svg, "polyline", {class: "loss", points: ""});
    made.steps.forEach((each, step) => points.push({from: each.end - 1, at: `${x(step)},${y(each.loss)}`}));
    const rows = [wanted.map((_, step) => step), made.steps.map(each => each.loss), wanted];
    const losses = table("step, machine, golden model (circles)", rows[0].map((_, step) => rows.map(row => row[step])), (cell, step, c) => {
      if (c !== 1) cell.textContent = c ? shown(wanted[step]) : step;
      else cells.push({cell, from: made.steps[step].end - 1, text: shown(rows[1][step]),
        name: golden.bitsOf(rows[1][step]) === golden.bitsOf(wanted[step]) ? "good" : "bad", title: String(rows[1][step])});
    });
    return {...made, tables: [svg, losses], cells, points, line, equal: !wrong,
      verdict: wrong ? `${wrong} of ${wanted.length} losses differ from the golden model.` :
        `All ${wanted.length} losses equal the golden model, bit for bit.`};
  }

  // Cycles.

  const labels = svg => ROWS.forEach(([name], row) => {
    draw(svg, "text", {x: LEFT - 6, y: row * LINE + HIGH - 2, "text-anchor": "end"}, name);
    draw(svg, "rect", {x: LEFT, y: row * LINE, width: WIDE, height: HIGH, class: "row"});
  });

  /** The class that most cycles of a stretch have, "" if all are idle. */
  function most(row, first, end) {
    const counts = {};
    for (let cycle = first; cycle < end; cycle++) {
      const found = ROWS[row][1](run, cycle);
      if (found) counts[found] = (counts[found] ?? 0) + 1;
    }
    return Object.keys(counts).sort((a, b) => counts[b] - counts[a])[0] ?? "";
  }

  function draw_overview() {
    const svg = picture(ROWS.length * LINE, "the whole run: which units work, and what moves, over the cycles");
    labels(svg);
    const width = Math.min(WIDE, run.cycles), edge = bucket => Math.floor(bucket * run.cycles / width);
    ROWS.forEach((_, row) => {
      let from = 0, before = "";
      for (let bucket = 0; bucket <= width; bucket++) {
        const now = bucket < width ? most(row, edge(bucket), edge(bucket + 1)) : null;
        if (now === before) continue;
        if (before) draw(svg, "rect", {x: LEFT + from * WIDE / width, y: row * LINE, width: (bucket - from) * WIDE / width, height: HIGH, class: before});
        [from, before] = [bucket, now];
      }
    });
    run.head = draw(svg, "rect", {x: LEFT, y: 0, width: 2, height: ROWS.length * LINE, class: "head"});
    svg.addEventListener("click", event => {
      const box = svg.getBoundingClientRect(), place = (event.clientX - box.left) / box.width * (LEFT + WIDE) - LEFT;
      play(false);
      go(Math.floor(place / WIDE * run.cycles));
    });
    part("overview").replaceChildren(svg);
  }

  function draw_detail() {
    const svg = picture(ROWS.length * LINE + 14, "the cycles around the chosen cycle");
    labels(svg);
    const wide = WIDE / DETAIL;
    run.squares = ROWS.map((_, row) => Array.from({length: DETAIL}, (_, place) =>
      draw(svg, "rect", {x: LEFT + place * wide + .5, y: row * LINE, width: wide - 1, height: HIGH, class: "off"})));
    draw(svg, "rect", {x: LEFT + DETAIL / 2 * wide + wide / 2 - 1, y: ROWS.length * LINE - 2, width: 2, height: 14, class: "head"});
    part("detail").replaceChildren(svg);
  }

  /** What happens in a cycle, in words. */
  function words(cycle) {
    const bus = run.bus[cycle], said = [];
    if (run.reads[cycle]) said.push(`a word of ${run.reads[cycle]} is read`);
    if (on(run, cycle, "converting")) said.push("a tensor is converted");
    if (on(run, cycle, "busy_slot")) said.push("the array multiplies");
    else if (on(run, cycle, "multiplying")) {
      const cause = Object.keys(WAITS).find(name => on(run, cycle, name));
      said.push(`the array waits for ${WAITS[cause] ?? "a command"}`);
    }
    if (run.writes[cycle]) said.push(`a word of ${run.writes[cycle]} is written`);
    if (bus >>> 5 & 3) said.push("the host accesses a register");
    if (bus >>> 7 & 1) said.push("the machine interrupts the host");
    return said.join(", ") || "no word moves";
  }

  function go(cycle) {
    at = Math.max(0, Math.min(run.cycles - 1, cycle));
    part("cycle").value = at;
    part("now").textContent = `Cycle ${at + 1} of ${run.cycles}: ${words(at)}.`;
    part("cycle").setAttribute("aria-valuetext", part("now").textContent);
    run.head.setAttribute("x", LEFT + (at + .5) * WIDE / run.cycles - 1);
    run.squares.forEach((row, which) => row.forEach((square, place) => {
      const when = at + place - DETAIL / 2;
      square.setAttribute("class", when >= 0 && when < run.cycles && ROWS[which][1](run, when) || "off");
    }));
    for (const {cell, from, text, name, title} of run.cells) {
      const there = from <= at;
      cell.textContent = there ? text : "\u00b7";
      cell.className = there ? name : "";
      cell.title = there ? title : "not written yet";
    }
    run.line?.setAttribute("points", run.points.filter(each => each.from <= at).map(each => each.at).join(" "));
  }

  function play(wanted) {
    if (playing) cancelAnimationFrame(playing);
    playing = null;
    part("play").textContent = wanted ? "pause" : "play";
    if (!wanted) return;
    const from = at >= run.cycles - 1 ? 0 : at;
    let began = null;
    const frame = time => {
      began ??= time;
      const speed = Number(part("speed").value) || run.cycles / 5;
      go(Math.floor(from + (time - began) / 1000 * speed));
      if (at >= run.cycles - 1) play(false);
      else playing = requestAnimationFrame(frame);
    };
    playing = requestAnimationFrame(frame);
  }

  // The beginning.

  function say_missing(text) {
    part("missing").textContent = text;
    part("missing").hidden = false;
  }

  function listen() {
    form.addEventListener("change", show_operands);
    form.addEventListener("submit", event => {
      event.preventDefault();
      part("error").textContent = "";
      try {
        start();
      } catch (error) {
        part("error").textContent = error.message;
        part("run").hidden = true;
        play(false);
      }
    });
    part("back").addEventListener("click", () => (play(false), go(at - 1)));
    part("on").addEventListener("click", () => (play(false), go(at + 1)));
    part("play").addEventListener("click", () => play(!playing));
    part("speed").addEventListener("change", () => playing && play(true));
    part("cycle").addEventListener("input", event => (play(false), go(Number(event.target.value))));
  }

  async function begin() {
    if (typeof PICO === "undefined") return say_missing("The machine is not here: pico.js was not made. make docs makes it.");
    if (PICO.missing) return say_missing(`The machine is not here: this site was built without ${PICO.missing}, the compiler ` +
      "for WebAssembly. make docs builds the page where pip can install the compiler.");
    part("legend").replaceChildren(...LEGEND.map(([name, text]) => {
      const item = element("span");
      item.append(element("i", {style: `background: var(--${name})`}), text);
      return item;
    }));
    listen();
    show_operands();
    pico = await machine.start(PICO);
    form.hidden = false;
    root.dataset.ready = "true";
  }

  begin().catch(error => say_missing(`The machine did not start: ${error.message}`));
})();
