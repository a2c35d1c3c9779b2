// Stands in for the module of the playground where no compiler is: the golden results, and a record of a hundred
// cycles: cycle 2 reads, cycle 4 multiplies, results are written from cycle 21 on. `WRONG` in the page changes the first number of every result.
var machine = {
  start: async ({facts}) => {
    const record = regions => {
      const words = () => new Uint32Array(100).fill(0xffffffff);
      const made = {cycles: 100, events: new Uint32Array(100), bus: new Uint32Array(100), read: words(), written: words(),
        regions, seconds: 0, simulated: 100};
      made.events[3] = 1 << facts.events.busy_slot | 1 << facts.events.multiplying;
      made.bus[99] = 1 << 7;
      made.read[1] = regions[0].first;
      return made;
    };
    const wrong = number => typeof WRONG === "undefined" ? number : number + 1;
    return {
      product(operation, floats, key) {
        const results = golden.run(operation, floats, key), regions = [{name: "W", first: 0, end: 64}];
        for (const [name, rows] of Object.entries(results)) {
          const first = regions.at(-1).end;
          rows[0][0] = wrong(rows[0][0]);
          regions.push({name, first, end: first + 4 * rows.length * rows[0].length});
        }
        const made = record(regions);
        for (let at = regions[1].first, cycle = 20; at < regions.at(-1).end; at += 4) made.written[cycle++] = at;
        return {results, ...made};
      },
      train: () => ({steps: facts.losses.map((loss, step) => ({end: step + 1, loss: wrong(loss)})),
        ...record([{name: "losses", first: 0, end: 4}])}),
    };
  },
};
