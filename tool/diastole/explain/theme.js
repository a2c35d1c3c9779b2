"use strict";
// Light or dark: the system's choice, unless the reader has chosen. Runs before the page is drawn.
const THEMES = ["system", "light", "dark"], THEME_KEY = "diastole-theme";

const theme = () => document.documentElement.dataset.theme ?? "system";

function setTheme(name) {
  if (name === "light" || name === "dark") document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}
/** The kept choice; a browser may forbid storage to a file. */
function keptTheme() {
  try { return localStorage.getItem(THEME_KEY); } catch { return null; }
}
function keepTheme(name) {
  try { localStorage.setItem(THEME_KEY, name); } catch { /* the choice holds until the page is closed */ }
}
setTheme(keptTheme());
