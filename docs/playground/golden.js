// The arithmetic of `pico` in JavaScript, written from docs/formats.md and docs/how/numbers.md: conversions to
// block floating point, and products. Nothing here comes from the Verilog. A test compares every function with
// the numpy golden model.
"use strict";

const golden = (() => {
  const BLOCK = 4, PRECISION = 4, FRACTION = 18, RANDOM_BITS = 8;
  const LARGEST = 2 ** PRECISION - 1;
  const OPERANDS = {X: ["m", "k"], W: ["k", "n"], dY: ["m", "n"]};
  const RESULTS = {Y: ["m", "n"], dX: ["m", "k"], dW: ["k", "n"]};
  const OPERATIONS = {
    forward: {operands: ["X", "W"], results: ["Y"]},
    dx: {operands: ["W", "dY"], results: ["dX"]},
    dw: {operands: ["X", "dY"], results: ["dW"]},
    backward: {operands: ["X", "W", "dY"], results: ["dX", "dW"]},
  };

  const view = new DataView(new ArrayBuffer(4));
  const bitsOf = number => (view.setFloat32(0, number), view.getUint32(0));
  const floatOf = bits => (view.setUint32(0, bits), view.getFloat32(0));
  const transpose = rows => rows[0].map((_, column) => rows.map(row => row[column]));

  /** Threefry-2x32 with 20 rounds: two words of 32 bits for a key and a counter of two words each. */
  function threefry(key, counter) {
    const rotations = [13, 15, 26, 6, 17, 29, 16, 24];
    const keys = [key[0], key[1], (key[0] ^ key[1] ^ 0x1BD11BDA) >>> 0];
    let [a, b] = [(counter[0] + keys[0]) >>> 0, (counter[1] + keys[1]) >>> 0];
    for (let round = 0; round < 20; round++) {
      const by = rotations[round % 8];
      a = (a + b) >>> 0;
      b = ((b << by | b >>> (32 - by)) ^ a) >>> 0;
      const injection = (round + 1) / 4;
      if (!Number.isInteger(injection)) continue;
      a = (a + keys[injection % 3]) >>> 0;
      b = (b + keys[(injection + 1) % 3] + injection) >>> 0;
    }
    return [a, b];
  }

  /** The random bits of element number `index` of a tensor. */
  function draw(index, {seed, tag, step}) {
    const words = threefry([seed, tag], [index >>> 2, step]);
    const half = words[index >>> 1 & 1] >>> 16 * (index & 1) & 0xffff;
    return half >>> (16 - RANDOM_BITS);
  }

  /** Exponent of the top binade of a number's binary32; null for zeros and for subnormal numbers. */
  function exponentOf(number) {
    const field = bitsOf(number) >>> 23 & 0xff;
    return field ? field - 127 : null;
  }

  /** A magnitude in units, to an integer: to nearest even, or by the random bits if there are any. */
  function round(units, random) {
    const whole = Math.floor(units), rest = units - whole;
    if (random === null) return whole + (rest > .5 || rest === .5 && whole % 2 === 1);
    const kept = Math.floor(rest * 2 ** (RANDOM_BITS + 1));
    return whole + (kept + 2 * random + 1 >= 2 ** (RANDOM_BITS + 1));
  }

  /** A tensor in squares of 4 x 4 elements with one exponent each: integers, and exponents by block. `key`: seed,
      tag and step of stochastic rounding, null for rounding to nearest. The exponent of a square of zeros is null. */
  function quantise(rows, key) {
    const down = Math.ceil(rows.length / BLOCK), along = Math.ceil(rows[0].length / BLOCK), columns = rows[0].length;
    const exponents = Array.from({length: down}, () => Array(along).fill(null));
    rows.forEach((row, r) => row.forEach((number, c) => {
      const found = exponentOf(number), block = [r / BLOCK | 0, c / BLOCK | 0];
      const before = exponents[block[0]][block[1]];
      if (found !== null && (before === null || found > before)) exponents[block[0]][block[1]] = found;
    }));
    const integers = rows.map((row, r) => row.map((number, c) => {
      if (exponentOf(number) === null) return 0;
      // In doubles every step is exact: a float has 24 bits, and a unit is a power of two above 2^-130.
      const units = Math.abs(number) / 2 ** (exponents[r / BLOCK | 0][c / BLOCK | 0] - PRECISION + 1);
      const magnitude = Math.min(round(units, key && draw(r * columns + c, key)), LARGEST);
      return number < 0 && magnitude ? -magnitude : magnitude;
    }));
    return {integers, exponents, values: integers.map((row, r) => row.map((integer, c) =>
      integer && integer * 2 ** (exponents[r / BLOCK | 0][c / BLOCK | 0] - PRECISION + 1)))};
  }

  /** The tensor with rows and columns exchanged. */
  const transposed = tensor =>
    ({integers: transpose(tensor.integers), exponents: transpose(tensor.exponents), values: transpose(tensor.values)});

  const largest = exponents => exponents.reduce((most, each) => each !== null && (most === null || each > most) ? each : most, null);

  /** The product of a row of integers with another row, by blocks: each block sum is shifted to the largest
      exponents and rounded once, ties upward; the sum is rounded to binary32. */
  function dot(first, firstExponents, second, secondExponents) {
    const tops = [largest(firstExponents), largest(secondExponents)];
    let sum = 0;
    firstExponents.forEach((exponent, block) => {
      const other = secondExponents[block];
      if (exponent === null || other === null) return;
      let blockSum = 0;
      for (let at = block * BLOCK; at < Math.min((block + 1) * BLOCK, first.length); at++) blockSum += first[at] * second[at];
      sum += Math.floor(blockSum * 2 ** (FRACTION - (tops[0] - exponent) - (tops[1] - other)) + .5);
    });
    if (!sum) return 0;
    return binary32(sum * 2 ** (tops[0] - FRACTION) * 2 ** (tops[1] - 2 * PRECISION + 2));
  }

  /** A double rounded to 24 bits; a result below 2^-126 is 0. */
  function binary32(number) {
    if (Math.abs(number) >= 2 ** -125) return Math.fround(number);
    const raised = Math.fround(number * 2 ** 64);
    return Math.abs(raised) < 2 ** -62 ? 0 : raised * 2 ** -64;
  }

  /** A B of two tensors as stored. */
  function multiply(a, b) {
    const right = transposed(b);
    return a.integers.map((row, r) => right.integers.map((column, c) =>
      dot(row, a.exponents[r / BLOCK | 0], column, right.exponents[c / BLOCK | 0])));
  }

  /** The operands of an operation as stored: X and W to nearest, dY stochastically. */
  function convert(operation, floats, {seed, step}) {
    const keys = {X: null, W: null, dY: {seed, tag: 2, step}};
    return Object.fromEntries(OPERATIONS[operation].operands.map(name => [name, quantise(floats[name], keys[name])]));
  }

  /** The results of an operation on matrices of floats. */
  function run(operation, floats, key) {
    const {X, W, dY} = convert(operation, floats, key);
    const product = {Y: () => multiply(X, W), dX: () => multiply(dY, transposed(W)), dW: () => multiply(transposed(X), dY)};
    return Object.fromEntries(OPERATIONS[operation].results.map(name => [name, product[name]()]));
  }

  /** The results of an operation in doubles, without any conversion. */
  function exact(operation, {X, W, dY}) {
    const times = (a, b) => a.map(row => transpose(b).map(column => row.reduce((sum, each, at) => sum + each * column[at], 0)));
    const product = {Y: () => times(X, W), dX: () => times(dY, transpose(W)), dW: () => times(transpose(X), dY)};
    return Object.fromEntries(OPERATIONS[operation].results.map(name => [name, product[name]()]));
  }

  return {OPERANDS, RESULTS, OPERATIONS, bitsOf, floatOf, threefry, quantise, multiply, convert, run, exact};
})();

if (typeof module !== "undefined") module.exports = golden;
