// A reader of the playground, for tests of the page: runs everything, goes through the cycles, and notes in the
// page what the page says.
(async () => {
  const told = {errors: [], runs: {}};
  window.addEventListener("error", event => told.errors.push(event.message));
  const root = document.getElementById("pico"), part = name => root.querySelector(`[data-part="${name}"]`);
  const ready = () => root.dataset.ready || !part("missing").hidden;
  for (let turn = 0; turn < 100 && !ready(); turn++) await null;
  while (!ready()) await new Promise(resolve => setTimeout(resolve, 20));
  const choose = name => {
    const button = root.querySelector(`input[value="${name}"]`);
    button.checked = true;
    button.dispatchEvent(new Event("change", {bubbles: true}));
  };
  const submit = () => part("form").dispatchEvent(new Event("submit", {bubbles: true, cancelable: true}));
  told.missing = part("missing").textContent;
  for (const name of told.missing ? [] : ["forward", "dx", "dw", "backward", "train"]) {
    choose(name);
    submit();
    const range = part("cycle");
    const to = value => { range.value = value; range.dispatchEvent(new Event("input", {bubbles: true})); };
    to(0);
    const first = part("now").textContent, empty = [...part("results").querySelectorAll("td")].filter(cell => cell.textContent === "·").length;
    part("on").click();
    const second = part("now").textContent;
    to(range.max);
    const cells = [...part("results").querySelectorAll("td")];
    told.runs[name] = {error: part("error").textContent, verdict: part("verdict").textContent, good: part("verdict").className, summary: part("summary").textContent,
      read: name === "train" ? "losses" : "W", first, second, last: part("now").textContent, empty, hidden: cells.filter(cell => cell.textContent === "·").length,
      right: cells.filter(cell => cell.className === "good").length, wrong: cells.filter(cell => cell.className === "bad").length,
      rects: part("overview").querySelectorAll("rect").length};
  }
  const area = root.querySelector("[data-operand=X] textarea");
  if (!told.missing) choose("forward");
  told.refused = told.missing ? [] : ["1 2\n3", "1 x", "1 2\n3 4", Array(17).fill("1").join(" ")].map(text => {
    area.value = text;
    submit();
    return [part("error").textContent, part("run").hidden];
  });
  const result = document.createElement("pre"); result.id = "told"; result.textContent = JSON.stringify(told);
  document.body.replaceChildren(result);
})();
