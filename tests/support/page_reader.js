// A reader of a page of `diastole explain`, for tests/product/test_explain.py: presses keys, points at
// everything in every cycle of every product, chooses every number, and notes what the page says.
const told = {steps: [], sums: {}, elements: {}, blocks: 0, errors: [], beside: {}, derived: {}, draws: []};
window.addEventListener("error", event => told.errors.push(event.message));
const press = (key, more) =>
  document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, ...more}));
const point = node => {
  node.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
  return document.getElementById("pointed").textContent;
};
/** A number chosen: the lines of the table. */
const choose_ = node => {
  node.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  return [...document.querySelectorAll("#chosen tr")].map(row => [...row.children].map(cell => cell.textContent));
};
const line = (rows, term) => rows.find(row => row[0] === term)?.[1] ?? "";
const count = () => document.getElementById("count").textContent;
told.first = {count: count(), vector: shapes.cells[0].arrives.textContent, chosen: document.getElementById("chosen").textContent};
told.steps.push(count());
press("ArrowRight"); press("ArrowRight"); told.steps.push(count());
press("ArrowRight", {shiftKey: true}); told.steps.push(count());
press("ArrowLeft"); told.steps.push(count());
press("End"); told.steps.push(count());
press("ArrowRight"); told.steps.push(count());
press("1"); press("Home"); told.steps.push(count());
document.getElementById("on").click(); told.steps.push(count());
told.pressed = [...document.querySelectorAll("#runs button")]
  .map(each => each.getAttribute("aria-pressed"));

/** Points at every number of a cycle, and chooses it. */
function readNumbers(known) {
  for (const node of document.querySelectorAll("text.number")) {
    if (!node.say) continue;
    const text = point(node);
    const sum = text.match(/partial sum of (\w+\[\d+, \d+\]) over (\w) = (\S+): .* = (\S+), the integer (-?\d+) /);
    if (sum) (told.sums[sum[1]] ??= {})[sum[3]] = Number(sum[4]);
    const element = text.match(/((?:X|W|dY)\[\d+, \d+\]) = (\S+)$/);
    if (element) told.elements[element[1]] = Number(element[2]);
    if (!node.tell || known.has(text)) continue;
    known.add(text);
    const rows = choose_(node);
    if (sum) told.derived[`${run.title}: ${sum[1]} ${sum[3]}`] = [line(rows, "sum"), sum[5], line(rows, "rounding")];
    if (element) told.draws.push([element[1], line(rows, "rounding"), line(rows, "mantissa"), line(rows, "stored")]);
  }
}
/** What stands beside each other in a cell: what the sums are said to be of, and the numbers. */
function readCell(cell) {
  if (!cell.sumsOf[0].textContent) return [];
  const numbers = nodes => nodes.map(node => node.say ? Number((node.say().match(/ = (\S+), the integer/) ?? node.say().match(/ = (\S+)$/))?.[1]) : null);
  const east = cell.sumsOf[0].textContent.startsWith("→");
  return [[cycle, ...cell.sumsOf.map(node => node.textContent), cell.arrives.textContent, cell.label.textContent,
    numbers(east ? cell.southSummed : cell.westSummed), numbers(east ? cell.east : cell.north)]];
}
// Keys that are the browser's: with Ctrl, and the space bar on a button.
told.kept = [count()];
press("End", {ctrlKey: true}); press("2", {metaKey: true});
document.getElementById("on").dispatchEvent(new KeyboardEvent("keydown", {key: " ", bubbles: true, cancelable: true}));
told.kept.push(count(), document.getElementById("play").textContent);
/** The theme as the document has it, as the button names it, and as it is kept. */
const themeNow = () => [document.documentElement.dataset.theme ?? null, document.getElementById("theme").textContent, keptTheme()];
told.themes = [themeNow()];
for (let n = 0; n < 3; n++) { document.getElementById("theme").click(); told.themes.push(themeNow()); }
setTheme("<none>"); told.themes.push(themeNow());
Object.defineProperty(window, "localStorage", {configurable: true, get() { throw new Error("no storage for a file"); }});
document.getElementById("theme").click(); told.themes.push(themeNow()); setTheme("system");

const colours = new Set();
/** Every colour in the picture, but those of the page and of ink. */
function readColours() {
  for (const node of document.querySelectorAll("#picture *")) for (const name of ["fill", "stroke"]) {
    const colour = node.getAttribute(name);
    if (!colour || ["none", "transparent", COLOUR.page, COLOUR.ink, COLOUR.faint].includes(colour) || node.getAttribute("class") === "key") continue;
    if (node.tagName === "text" && node.textContent === "") continue;
    colours.add(colour);
  }
}
for (let number = 0; number < data.runs.length; number++) {
  choose(number);
  const known = new Set(), beside = [];
  for (let when = 0; when < run.cycles; when++) {
    go(when);
    readNumbers(known);
    for (const cell of shapes.cells) beside.push(...readCell(cell));
    if (when % 5 === 0) readColours();
  }
  told.beside[run.title] = beside;
  told.blocks = [...(told.blocks || []), ...[...document.querySelectorAll(".block")].map(point)];
}
told.colours = [...colours];
told.legend = [...document.querySelectorAll("#picture .key")].map(node =>
  [node.getAttribute("fill"), node.getAttribute("stroke"), node.nextSibling.textContent]);
press("1"); press("m");
go(run.passes[0].first + 1);
told.mantissas = {held: shapes.cells[0].held.map(node => node.textContent), label: shapes.cells[0].label.textContent,
  arrives: shapes.cells[0].arrives.textContent, south: shapes.cells[0].south.map(node => node.textContent)};
press("m"); press("2"); press("3"); press("4"); told.last = document.getElementById("what").textContent;
const result = document.createElement("pre");
result.id = "told";
result.textContent = JSON.stringify(told);
document.body.replaceChildren(result);
