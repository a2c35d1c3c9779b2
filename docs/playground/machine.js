// The WebAssembly module of the machine and its host, in a browser or in Node: what the module imports, and calls
// with numbers and matrices. `PICO` is made by scripts/playground.py.
"use strict";

const machine = (() => {
  const REGIONS = ["commands", "X", "W", "dY", "stored X", "stored W", "stored dY", "Y", "dX", "dW", "targets", "losses",
    "tables", "the second W"];
  const RESULT_NUMBER = {Y: 0, dX: 1, dW: 2};
  const OPERATION_NUMBER = {forward: 0, dx: 1, dw: 2, backward: 3};
  const OPERAND_NUMBER = {X: 0, W: 1, dY: 2};
  const NOT_SUPPORTED = 58, BAD_FILE = 8;

  async function unpacked(text) {
    const packed = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** The functions of WASI that the module imports: an output, a clock, nothing else. */
  function system(wanted, memory, write) {
    const own = {
      fd_write(file, pieces, count, written) {
        const view = new DataView(memory().buffer);
        let total = 0;
        for (let each = 0; each < count; each++) {
          const [at, length] = [0, 4].map(offset => view.getUint32(pieces + 8 * each + offset, true));
          write(new TextDecoder().decode(new Uint8Array(memory().buffer, at, length)));
          total += length;
        }
        view.setUint32(written, total, true);
        return 0;
      },
      clock_time_get(clock, precision, at) {
        new DataView(memory().buffer).setBigUint64(at, BigInt(Date.now()) * 1000000n, true);
        return 0;
      },
      proc_exit(code) { throw new Error(`the module has ended with ${code}`); },
      fd_prestat_get: () => BAD_FILE,
      ...Object.fromEntries(["args", "environ"].flatMap(name => [
        [`${name}_get`, () => 0],
        [`${name}_sizes_get`, (count, bytes) => {
          const view = new DataView(memory().buffer);
          view.setUint32(count, 0, true);
          view.setUint32(bytes, 0, true);
          return 0;
        }],
      ])),
    };
    return Object.fromEntries(wanted.map(name => [name, own[name] ?? (() => NOT_SUPPORTED)]));
  }

  /** A machine after its reset, from the packed module and its facts. */
  async function start({wasm, facts}) {
    const {module, instance, said} = await instantiate(await unpacked(wasm));
    const calls = instance.exports, bytes = () => calls.memory.buffer;
    calls._initialize?.();

    function check(code) {
      if (!code) return;
      const at = calls.page_error(code), letters = new Uint8Array(bytes(), at);
      throw new Error(new TextDecoder().decode(letters.slice(0, letters.indexOf(0))));
    }
    const put = (name, rows) =>
      new Float32Array(bytes(), calls.page_operand(OPERAND_NUMBER[name])).set(rows.flat());
    const get = (name, rows, columns) => {
      const all = new Float32Array(bytes(), calls.page_result(RESULT_NUMBER[name]), rows * columns);
      return Array.from({length: rows}, (_, row) => [...all.slice(row * columns, (row + 1) * columns)]);
    };

    /** What was recorded: `events`, `bus`, `read` and `written` of every cycle, and the parts of memory. */
    function recorded() {
      const count = calls.page_sample_count();
      const words = new Uint32Array(bytes(), calls.page_samples(), 4 * count);
      const regions = new Uint32Array(bytes(), calls.page_regions(), 3 * calls.page_region_count());
      const column = which => Uint32Array.from({length: count}, (_, cycle) => words[4 * cycle + which]);
      return {
        cycles: count, events: column(0), bus: column(1), read: column(2), written: column(3),
        regions: Array.from({length: regions.length / 3}, (_, each) =>
          ({name: REGIONS[regions[3 * each]], first: regions[3 * each + 1], end: regions[3 * each + 2]})),
      };
    }

    return {
      facts,
      /** Converts operands and multiplies; `floats` are matrices by name. */
      product(operation, floats, {seed, step}) {
        const sizes = {};
        for (const [name, rows] of Object.entries(floats)) {
          golden.OPERANDS[name].forEach((axis, which) => sizes[axis] = which ? rows[0].length : rows.length);
          put(name, rows);
        }
        const began = calls.page_cycle(), time = performance.now();
        check(calls.page_product(OPERATION_NUMBER[operation], sizes.m, sizes.n, sizes.k, seed, step));
        const seconds = (performance.now() - time) / 1000, simulated = calls.page_cycle() - began, run = recorded();
        const results = Object.fromEntries(golden.OPERATIONS[operation].results.map(name =>
          [name, get(name, ...golden.RESULTS[name].map(axis => sizes[axis]))]));
        return {results, seconds, simulated, ...run};
      },
      /** Trains the layer of host.c; the cycle in which each step has ended, and its loss. */
      train() {
        const began = calls.page_cycle(), time = performance.now(), steps = [];
        check(calls.page_begin_training());
        for (let step = 0; step < facts.losses.length; step++) {
          check(calls.page_train(step));
          steps.push({end: calls.page_sample_count(), loss: get("Y", 1, 1)[0][0]});
        }
        const seconds = (performance.now() - time) / 1000;
        return {steps, seconds, simulated: calls.page_cycle() - began, ...recorded()};
      },
      /** The host of the product, unchanged: its exit status and its words. */
      host() {
        said.length = 0;
        const status = calls.page_host();
        return {status, words: said.join("")};
      },
      counter: name => calls.page_counter(facts.registers[name]),
    };
  }

  async function instantiate(code) {
    const module = await WebAssembly.compile(code), said = [];
    let instance = null;
    const wanted = WebAssembly.Module.imports(module);
    const foreign = wanted.find(each => each.module !== "wasi_snapshot_preview1");
    if (foreign) throw new Error(`the module imports ${foreign.module}.${foreign.name}`);
    const imports = system(wanted.map(each => each.name), () => instance.exports.memory, text => said.push(text));
    instance = await WebAssembly.instantiate(module, {wasi_snapshot_preview1: imports});
    return {module, instance, said};
  }

  return {REGIONS, start};
})();

if (typeof module !== "undefined") module.exports = machine;
