// A reader of a page of `diastole explain`, for tests/product/test_explain.py: presses keys, points at
// everything in every cycle of the forward product, and notes what it is told.
const told = {steps: [], sums: {}, elements: {}, blocks: 0, errors: []};
window.addEventListener("error", event => told.errors.push(event.message));
const press = (key, more) =>
  document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, ...more}));
const point = node => {
  node.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
  return document.getElementById("pointed").textContent;
};
const count = () => document.getElementById("count").textContent;
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
for (let when = 0; when < run.cycles; when++) {
  for (const node of document.querySelectorAll("text.number")) {
    if (!node.say) continue;
    const text = point(node);
    const sum = text.match(/partial sum of (Y\[\d+, \d+\]) over k = (\S+): .* = (\S+), the integer/);
    if (sum) (told.sums[sum[1]] ??= {})[sum[2]] = Number(sum[3]);
    const element = text.match(/([XW]\[\d+, \d+\]) = (\S+)$/);
    if (element) told.elements[element[1]] = Number(element[2]);
  }
  press("ArrowRight");
}
told.blocks = [...document.querySelectorAll(".block")].map(point);
press("2"); press("3"); press("4"); told.last = document.getElementById("what").textContent;
const result = document.createElement("pre");
result.id = "told";
result.textContent = JSON.stringify(told);
document.body.replaceChildren(result);
