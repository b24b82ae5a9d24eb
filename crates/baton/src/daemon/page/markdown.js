// Markdown as elements: makes the text of agents readable. Every piece of text becomes a text node. Addresses are
// buttons that ask before they open a page, and only web addresses are.

import { h, visible } from "./dom.js";
import { leave } from "./dialogs.js";

const WEB = /^https?:\/\/[^\s"'<>]+$/i;

/** The blocks of a text. */
export function markdown(text) {
  const lines = String(text ?? "").split("\n");
  const out = document.createDocumentFragment();
  let at = 0;
  while (at < lines.length) at = block(lines, at, out);
  return out;
}

function block(lines, at, out) {
  const line = lines[at];
  const fence = /^\s{0,3}(```+|~~~+)\s*([\w+-]*)/.exec(line);
  if (fence) {
    let end = at + 1;
    while (end < lines.length && !lines[end].trimStart().startsWith(fence[1])) end += 1;
    const body = lines.slice(at + 1, end).join("\n");
    out.append(fence[2] === "diff" ? diff(body) : code(body, fence[2]));
    return end + 1;
  }
  const heading = /^(#{1,6})\s+(.*)/.exec(line);
  if (heading) {
    // The page has its own headings; those of a conversation come below them.
    out.append(h("p", { class: "heading" }, inline(heading[2])));
    return at + 1;
  }
  if (/^\s*(?:[-*_]\s*){3,}$/.test(line)) {
    out.append(h("hr"));
    return at + 1;
  }
  if (/^\s*([-*+]|\d{1,9}[.)])\s+/.test(line)) return list(lines, at, out);
  if (/^\s*>/.test(line)) {
    let end = at;
    while (end < lines.length && /^\s*>/.test(lines[end])) end += 1;
    const inner = lines.slice(at, end).map((one) => one.replace(/^\s*>\s?/, ""));
    out.append(h("blockquote", null, paragraphs(inner)));
    return end;
  }
  if (line.includes("|") && at + 1 < lines.length && /^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[at + 1])) return table(lines, at, out);
  if (line.trim() === "") return at + 1;
  let end = at;
  while (end < lines.length && lines[end].trim() !== "" && (end === at || !starts(lines[end]))) end += 1;
  out.append(h("p", null, paragraphs(lines.slice(at, end))));
  return end;
}

function starts(line) {
  return /^\s{0,3}(```|~~~|#{1,6}\s|>)/.test(line) || /^\s*([-*+]|\d{1,9}[.)])\s+/.test(line);
}

function paragraphs(lines) {
  return lines.flatMap((line, n) => (n ? [h("br"), inline(line)] : [inline(line)]));
}

function list(lines, at, out) {
  const isOrdered = /^\s*\d/.test(lines[at]);
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)/.exec(lines[end]);
    if (item) items.push({ depth: Math.min(4, Math.floor(item[1].length / 2)), lines: [item[3]] });
    else if (lines[end].trim() !== "" && /^\s+/.test(lines[end]) && items.length) items.at(-1).lines.push(lines[end].trim());
    else break;
  }
  out.append(h(isOrdered ? "ol" : "ul", null, items.map((item) => h("li", { class: "depth" + item.depth }, paragraphs(item.lines)))));
  return end;
}

function table(lines, at, out) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const head = h("tr", null, cells(lines[at]).map((cell) => h("th", { scope: "col" }, inline(cell))));
  const body = lines.slice(at + 2, end).map((line) => h("tr", null, cells(line).map((cell) => h("td", null, inline(cell)))));
  out.append(h("div", { class: "scroll" }, h("table", null, h("thead", null, head), h("tbody", null, body))));
  return end;
}

export function code(text, language) {
  return h("pre", { class: "code", tabindex: "0", "aria-label": language ? language + " code" : "code" }, text);
}

/** A diff, each line by its mark. */
export function diff(text) {
  const kind = (line) =>
    line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@@") ? "place" : null;
  const lines = text.replace(/\n$/, "").split("\n");
  return h("pre", { class: "code diff", tabindex: "0", "aria-label": "diff" }, lines.map((line) => h("span", { class: kind(line) }, line + "\n")));
}

// Code, bold, italics, links and bare addresses; everything else is text.
const INLINE =
  /(`+)([^`]+)\1|\*\*([^*\n]+)\*\*|__([^_\n]+)__|\*([^*\s][^*\n]*)\*|\[([^\]\n]*)\]\(([^()\s]+)\)|(https?:\/\/[^\s<>"'`)\]]+)/g;

/** One line of text with its code, emphasis and addresses. */
export function inline(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) nodes.push(...visible(text.slice(end, match.index)));
    if (match[2] !== undefined) nodes.push(h("code", null, match[2]));
    else if (match[3] !== undefined || match[4] !== undefined) nodes.push(h("strong", null, match[3] ?? match[4]));
    else if (match[5] !== undefined) nodes.push(h("em", null, match[5]));
    else if (match[7] !== undefined) nodes.push(...address(match[6], match[7]));
    else nodes.push(...address(match[8], match[8]));
    end = match.index + match[0].length;
  }
  if (end < text.length) nodes.push(...visible(text.slice(end)));
  return nodes;
}

function address(label, target) {
  if (!WEB.test(target)) return [...visible(label), " (", ...visible(target), ")"];
  return [h("button", { type: "button", class: "out", title: target, on: { click: () => leave(target) } }, label || target)];
}
