// Elements made of text alone: whatever is shown was written by somebody else.

const SVG = "http://www.w3.org/2000/svg";

// Control, bidirectional and other invisible characters that change what a person reads. Line feed and tab are fine.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Text as nodes, with invisible characters written out. */
export function visible(text) {
  text = String(text ?? "");
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(UNSEEN)) {
    if (match.index > end) nodes.push(document.createTextNode(text.slice(end, match.index)));
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    const mark = document.createElement("span");
    mark.className = "unseen";
    mark.title = "a character that is not seen, U+" + code;
    mark.textContent = "\u27e8" + code + "\u27e9";
    nodes.push(mark);
    end = match.index + match[0].length;
  }
  if (end < text.length || nodes.length === 0) nodes.push(document.createTextNode(text.slice(end)));
  return nodes;
}

function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) node.append(child);
    else node.append(...visible(child));
  }
}

function dress(node, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "style") for (const [key, is] of Object.entries(value)) node.style.setProperty(key, is);
    else node.setAttribute(name, value === true ? "" : value);
  }
}

/** An element. Strings among its children are text, never markup. */
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  dress(node, props);
  put(node, children);
  return node;
}

export function svg(tag, props, ...children) {
  const node = document.createElementNS(SVG, tag);
  dress(node, props);
  put(node, children);
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren();
  put(node, children);
  return node;
}

export function button(label, act, props) {
  return h("button", { type: "button", ...props, on: { click: act } }, label);
}

/** An age, as people say it. */
export function age(from, to = Date.now()) {
  const seconds = Math.max(0, Math.floor((to - Date.parse(from)) / 1000));
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 60) return seconds + "s";
  if (seconds < 3600) return Math.floor(seconds / 60) + "m";
  if (seconds < 86400) return Math.floor(seconds / 3600) + "h";
  return Math.floor(seconds / 86400) + "d";
}

/** An age that keeps counting. */
export function since(at, before = "", after = "") {
  if (!at) return null;
  return h("time", { datetime: at, title: exact(at), data: { age: at, before, after } }, before + age(at) + after);
}

/** Updates the ages below a node. */
export function tick(root) {
  for (const node of root.querySelectorAll("time[data-age]")) {
    const text = node.dataset.before + age(node.dataset.age) + node.dataset.after;
    if (node.textContent !== text) node.textContent = text;
  }
}

export function exact(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleString([], { hourCycle: "h23" });
}

/** A time of day in the format of agent states and of the terminal. */
export function clock(at) {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

/** Tokens in thousands, rounded down. */
export function tokens(n) {
  if (n === null || n === undefined) return "?";
  return n < 1000 ? String(n) : Math.floor(n / 1000) + "k";
}

export function size(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit += 1;
  }
  return (unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[unit];
}

export function count(n, one, many = one + "s") {
  return n + " " + (n === 1 ? one : many);
}

/** A long text, cut. */
export function clip(text, most) {
  text = String(text ?? "");
  return text.length > most ? text.slice(0, most) + "\u2026" : text;
}
