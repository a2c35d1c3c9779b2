// What tests of the playground do in Node: functions of what a test gives, to JSON. `golden` and `machine` are global.
const floats_of = rows => rows.map(row => row.map(golden.floatOf));
const bits_of = rows => rows.map(row => row.map(golden.bitsOf));
const each = (made, change) => Object.fromEntries(Object.entries(made).map(([name, one]) => [name, change(one, name)]));

const threefry = words => words.map(([a, b, c, d]) => golden.threefry([a, b], [c, d]));

const arithmetic = cases => cases.map(({operation, operands, key}) => {
  const floats = each(operands, floats_of);
  return {results: each(golden.run(operation, floats, key), bits_of),
    stored: each(golden.convert(operation, floats, key), one => bits_of(one.values))};
});

async function products({pico, cases}) {
  const its = await machine.start(pico);
  return cases.map(({operation, operands, key}) => {
    const made = its.product(operation, each(operands, floats_of), key);
    const registers = ["cycles_total", "busy_slots"].map(its.counter);
    const count = bit => made.events.reduce((sum, events) => sum + (events >>> bit & 1), 0);
    const inside = (at, {first, end}) => first <= at && at < end;
    const moved = way => Object.fromEntries(made.regions.map(region =>
      [region.name, made[way].filter(at => inside(at, region)).length]));
    const strays = way => made[way].filter(at => at !== 0xffffffff && !made.regions.some(region => inside(at, region))).length;
    return {results: each(made.results, bits_of), registers, busy: count(pico.facts.events.busy_slot), running: count(0),
      cycles: made.cycles, read: moved("read"), written: moved("written"), strays: ["read", "written"].map(strays)};
  });
}

async function training(pico) {
  const its = await machine.start(pico), {steps, cycles} = its.train(), again = its.train();
  return {steps, cycles, again: again.steps, host: its.host()};
}

module.exports = {threefry, arithmetic, products, training};
