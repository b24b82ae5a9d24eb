// The saw-tooth: how full a context was over time, and what happened to it.

import { clock, exact, h, svg, tokens } from "./dom.js";

export const MARKS = {
  warned: ["\u25b3", "was warned that its context is filling up"],
  asked: ["\u25b2", "was asked for a handoff"],
  sealed: ["\u25c6", "a handoff was sealed"],
  rotated: ["\u21bb", "a fresh context began with a handoff"],
  compacted: ["\u2702", "the client compacted by itself"],
  limit: ["\u2016", "a usage limit stopped it"],
  crash: ["\u2715", "its client died"],
};

const HEIGHT = 210;
const LEFT = 44;
const RIGHT = 10;
const TOP = 14;
const BOTTOM = 24;

/** The chart of the data from `/levels`, `width` pixels wide. Calls `opened(mark)` when a mark is chosen. */
export function chart(levels, width, opened) {
  const from = Date.parse(levels.since);
  const to = Date.now();
  const points = levels.points.map((point) => [Date.parse(point.at), point.tokens]);
  const highest = Math.max(1000, ...points.map(([, n]) => n), levels.compacts_at ?? 0, levels.ask_at ?? 0) * 1.06;
  // The chart begins with the first reading; before that nothing is known.
  const first = points.length ? Math.max(from, Math.min(points[0][0], to - 60000)) : from;
  const x = (at) => LEFT + ((at - first) / Math.max(1, to - first)) * (width - LEFT - RIGHT);
  const y = (n) => TOP + (1 - n / highest) * (HEIGHT - TOP - BOTTOM);
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "group", "aria-label": "context over time" });

  const band = (low, high, name) =>
    low && high > low ? root.append(svg("rect", { class: "band " + name, x: LEFT, width: width - LEFT - RIGHT, y: y(high), height: y(low) - y(high) })) : null;
  band(levels.warn_at, levels.ask_at ?? highest, "warn");
  band(levels.ask_at, levels.compacts_at ?? highest, "ask");
  const taken = [];
  const line = (n, name, words) => {
    if (!n || n > highest) return;
    root.append(svg("line", { class: "limit " + name, x1: LEFT, x2: width - RIGHT, y1: y(n), y2: y(n) }));
    root.append(svg("text", { class: "scale", x: LEFT - 6, y: y(n) + 4, "text-anchor": "end" }, tokens(n)));
    if (width > 520) root.append(svg("text", { class: "words", x: LEFT + 4, y: y(n) - 4 }, words));
    taken.push(y(n));
  };
  line(levels.compacts_at, "compacts", "compacts");
  line(levels.ask_at, "asks", "asks for a handoff");
  line(levels.warn_at, "warns", "warns");
  root.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(0), y2: y(0) }));
  root.append(svg("text", { class: "scale", x: LEFT - 6, y: y(0) + 4, "text-anchor": "end" }, "0"));
  for (const part of width > 520 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1]) {
    const at = first + (to - first) * part;
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    const words = to - first > 36 * 3600000 ? new Date(at).toLocaleDateString([], { weekday: "short", day: "numeric" }) : clock(at);
    root.append(svg("text", { class: "scale", x: x(at), y: HEIGHT - 6, "text-anchor": anchor }, part === 1 ? "now" : words));
  }

  if (points.length) {
    // The line rises along the readings and drops vertically.
    let path = "";
    let before = null;
    for (const [at, n] of points) {
      const [px, py] = [x(Math.max(at, first)).toFixed(1), y(n).toFixed(1)];
      if (before === null) path += `M${px} ${py}`;
      else path += n < before ? `H${px}V${py}` : `L${px} ${py}`;
      before = n;
    }
    const end = `H${x(to).toFixed(1)}`;
    root.append(svg("path", { class: "area", d: path + end + `V${y(0)}H${x(Math.max(points[0][0], first)).toFixed(1)}Z` }));
    root.append(svg("path", { class: "curve", d: path + end }));
  }

  const levelAt = (at) => {
    let level = 0;
    for (const [time, n] of points) {
      if (time > at) break;
      level = n;
    }
    return level;
  };
  // Stack overlapping marks, then move further ones to the side.
  const places = [];
  for (const mark of levels.marks) {
    const at = Date.parse(mark.at);
    if (at < first) continue;
    const [sign, words] = MARKS[mark.kind] ?? ["\u2022", mark.kind];
    const lowest = Math.max(TOP + 8, y(mark.kind === "rotated" ? 0 : levelAt(at)) - 6);
    let [px, py] = [Math.min(x(at), width - RIGHT - 8), lowest];
    while (places.some(([ox, oy]) => Math.abs(ox - px) < 16 && Math.abs(oy - py) < 17)) {
      py -= 17;
      if (py < TOP) [px, py] = [px - 17, lowest];
    }
    places.push([px, py]);
    const label = clock(mark.at) + " " + words + (mark.handoff ? ", " + mark.handoff : "");
    const act = () => opened(mark);
    const isButton = mark.handoff !== null;
    const node = svg(
      "g",
      {
        class: "mark " + mark.kind,
        transform: `translate(${px.toFixed(1)} ${py.toFixed(1)})`,
        tabindex: isButton ? "0" : null,
        role: isButton ? "button" : "img",
        "aria-label": label,
        data: { kind: mark.kind, at: mark.at, handoff: mark.handoff ?? "" },
        on: isButton ? { click: act, keydown: (event) => (event.key === "Enter" || event.key === " " ? (event.preventDefault(), act()) : null) } : {},
      },
      svg("title", null, label),
      svg("rect", { class: "hit", x: -12, y: -14, width: 24, height: 24 }),
      svg("text", { "text-anchor": "middle" }, sign),
    );
    root.append(node);
  }
  return root;
}

/** The marks as a list, for screen readers and for people who prefer text. */
export function markList(levels, opened) {
  return h(
    "ol",
    { class: "marks" },
    levels.marks
      .slice(-60)
      .reverse()
      .map((mark) => {
        const [sign, words] = MARKS[mark.kind] ?? ["\u2022", mark.kind];
        return h(
          "li",
          null,
          h("time", { datetime: mark.at, title: exact(mark.at) }, clock(mark.at)),
          h("span", { class: "mark " + mark.kind, "aria-hidden": "true" }, " " + sign + " "),
          words + " ",
          mark.handoff ? h("button", { type: "button", class: "plain", on: { click: () => opened(mark) } }, mark.handoff) : null,
        );
      }),
  );
}
