// Health: the findings of the doctor, the backups, and the effective settings.

import { get } from "./api.js";
import { copy } from "./dialogs.js";
import { button, count, fill, h, since, size, tokens } from "./dom.js";
import { inline } from "./markdown.js";
import { ordered, store, subscribe } from "./store.js";

const SIGNS = { ok: ["\u2713", "fine"], note: ["\u00b7", "good to know"], warn: ["!", "could be better"], fail: ["\u2717", "does not work"] };

export function health(root) {
  const parts = { daemon: h("section", { class: "panel" }), doctor: h("section", { class: "panel" }), backups: h("section", { class: "panel" }), levels: h("section", { class: "panel" }), config: h("section", { class: "panel" }) };
  // Load failed parts again once the daemon is back.
  const failed = new Map();
  let gone = false;

  async function show(name, title, path, draw) {
    fill(parts[name], h("h2", null, title), h("p", { class: "dim" }, "Looking\u2026"));
    let content;
    try {
      content = draw(await get(path));
      failed.delete(name);
    } catch (error) {
      content = h("p", { class: "bad" }, error.message);
      failed.set(name, () => show(name, title, path, draw));
    }
    if (!gone) fill(parts[name], h("h2", null, title), content);
  }

  const table = (heads, rows, label) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", null, h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", null, rows)));

  fill(root, h("h1", { class: "hidden" }, "Health"), Object.values(parts));
  show("daemon", "The daemon", "/health", (is) =>
    h("p", null, "baton " + is.version + ", process " + is.pid + ", running ", since(is.since), ", " + is.agents + " agents on record, at " + (is.http ?? "its socket") + "."),
  );
  show("doctor", "What the doctor finds", "/doctor", ({ findings }) => {
    const row = (finding) => {
      const [sign, words] = SIGNS[finding.level];
      return h("li", { class: finding.level }, h("span", { class: "sign", "aria-hidden": "true" }, sign), h("span", { class: "hidden" }, words + ": "), h("span", null, inline(finding.what), finding.do ? h("span", { class: "todo" }, "\u2192 ", inline(finding.do)) : null));
    };
    const order = ["fail", "warn", "note", "ok"];
    const sorted = findings.toSorted((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
    const bad = sorted.filter((one) => one.level === "fail" || one.level === "warn");
    const rest = sorted.filter((one) => !bad.includes(one));
    return [
      bad.length ? h("ul", { class: "findings" }, bad.map(row)) : h("p", null, "Everything works."),
      h("details", null, h("summary", null, rest.length + " more that are fine"), h("ul", { class: "findings" }, rest.map(row))),
    ];
  });
  show("backups", "Backups", "/backups", (is) => [
    is.sessions === 0 ? h("p", null, "No conversation has been copied yet.") : h("p", null, count(is.sessions, "conversation") + ", " + size(is.stored) + " on disk. ", is.verified ? ["All of them were verified ", since(is.verified.at, "", " ago"), is.verified.damaged ? h("strong", { class: "bad" }, ", " + is.verified.damaged + " damaged") : ", none damaged", "."] : ["Nobody has verified them yet: ", h("code", null, "baton backup verify"), "."]),
    is.rows.length
      ? h("details", null, h("summary", null, "The newest " + is.rows.length), table(["session", "changed", "size", "on disk", "project", ""], is.rows.map((row) => h("tr", null, h("td", { class: "number" }, row.session.slice(0, 8)), h("td", { class: "number" }, since(row.modified)), h("td", { class: "number" }, size(row.bytes)), h("td", { class: "number" }, size(row.stored)), h("td", null, row.project + (row.gone ? " (the client's own is gone)" : "") + (row.pinned ? " (pinned)" : "")), h("td", null, button("Copy restore command", () => copy(row.restore), { class: "quiet", title: row.restore })))), "Backups"))
      : null,
  ]);
  const level = (view) => h("tr", null, h("td", null, h("a", { href: "#/agent/" + encodeURIComponent(view.id) }, view.id)), [view.tokens, view.warn_at, view.ask_at, view.compacts_at, view.window].map((n) => h("td", { class: "number" }, n === null ? "\u2013" : tokens(n))));
  const measured = ordered().filter((view) => view.tokens !== null).slice(0, 200);
  fill(parts.levels, h("h2", null, "Thresholds that each agent really has"), measured.length ? table(["agent", "now", "warns at", "asks at", "compacts at", "window"], measured.map(level), "Thresholds") : h("p", { class: "dim" }, "No agent has a reading yet."));
  show("config", "Settings and where they come from", "/config", (is) => {
    const own = is.settings.filter((one) => one.from !== "default");
    const row = (one) => h("tr", null, h("td", null, h("code", null, one.key)), h("td", null, one.value), h("td", { class: "dim" }, one.from), h("td", { class: "dim" }, inline(one.help)));
    const heads = ["setting", "value", "from", "what it does"];
    return [
      own.length ? table(heads, own.map(row), "Settings of your own") : h("p", null, "All settings have their defaults."),
      h("details", null, h("summary", null, "All " + is.settings.length), table(heads, is.settings.map(row), "All settings")),
    ];
  });
  const stop = subscribe(({ kinds }) => {
    if (kinds.has("link") && store.link === "live") for (const again of [...failed.values()]) again();
  });
  return () => {
    gone = true;
    stop();
  };
}
