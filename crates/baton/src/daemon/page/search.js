// Search over all conversations, with the filters of `baton sessions search`.

import { get } from "./api.js";
import { copy } from "./dialogs.js";
import { button, count, exact, fill, h, since } from "./dom.js";

const FIELDS = ["q", "role", "since", "until", "project", "tool", "file", "regex"];

export function search(root, { query }) {
  const field = (name, label, props = {}) => {
    const input = h("input", { id: "search-" + name, name, autocomplete: "off", ...props });
    input.value = query.get(name) ?? "";
    return h("label", { class: "field" }, h("span", null, label), input);
  };
  const role = h(
    "select",
    { name: "role", id: "search-role" },
    [["", "anybody"], ["user", "you"], ["assistant", "the agent"], ["tool", "tools"]].map(([value, words]) => h("option", { value, selected: (query.get("role") ?? "") === value }, words)),
  );
  const regex = h("input", { type: "checkbox", name: "regex", value: "true" });
  regex.checked = query.get("regex") === "true";
  const words = field("q", "Words and \"phrases\"", { type: "search", required: true, enterkeyhint: "search" });
  const found = h("div", { class: "found", "aria-live": "polite" });
  const form = h(
    "form",
    { class: "search", role: "search" },
    h("div", { class: "first" }, words, h("button", { class: "primary" }, "Search")),
    h(
      "details",
      { open: FIELDS.slice(1).some((name) => query.has(name)) },
      h("summary", null, "Filters"),
      h(
        "div",
        { class: "fields" },
        h("label", { class: "field" }, h("span", null, "Said by"), role),
        field("since", "Not before", { placeholder: "7d, 2026-11-01" }),
        field("until", "Before", { placeholder: "3h, 2026-11-17" }),
        field("project", "Project", { placeholder: "its name" }),
        field("tool", "Tool", { placeholder: "Bash" }),
        field("file", "File", { placeholder: "src/main.rs" }),
        h("label", { class: "option" }, regex, "a regular expression"),
      ),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (String(value).trim()) asked.set(name, String(value).trim());
    const to = "#/search?" + asked;
    if (location.hash === to) run();
    else location.hash = to;
  });

  let gone = false;
  async function run() {
    if (!query.get("q")) return;
    fill(found, h("p", { class: "dim" }, "Searching\u2026"));
    const asked = new URLSearchParams(query);
    asked.set("context", "2");
    let answer;
    try {
      answer = await get("/search?" + asked);
    } catch (error) {
      return fill(found, h("p", { class: "bad" }, error.message));
    }
    if (gone) return;
    const sessions = new Map();
    for (const hit of answer.hits) sessions.set(hit.session, [...(sessions.get(hit.session) ?? []), hit]);
    fill(
      found,
      h("p", { class: "dim", role: "status" }, answer.hits.length ? (answer.more ? "The best " : "") + count(answer.hits.length, "hit") + " in " + count(answer.searched, "conversation") : "Nothing in " + count(answer.searched, "conversation") + "."),
      [...sessions.values()].map(session),
    );
  }

  function session(hits) {
    const first = hits[0];
    return h(
      "article",
      { class: "panel result", data: { session: first.session } },
      h(
        "header",
        null,
        h("div", null, h("h2", null, first.title || "(no request)"), h("p", { class: "dim" }, [first.project, first.agent, first.session.slice(0, 8)].filter(Boolean).join(" \u00b7 "))),
        button("Copy resume command", () => copy(first.resume), { class: "quiet", title: first.resume, data: { resume: first.resume } }),
      ),
      hits.map((hit) => {
        const to = "#/conversation/" + encodeURIComponent(hit.session) + "?at=" + hit.offset;
        const who = (hit.tool ?? { user: "you", assistant: "agent", tool: "tool" }[hit.role]) + (hit.subagent ? " (subagent)" : "") + (hit.times > 1 ? " \u00d7" + hit.times : "");
        return h(
          "div",
          { class: "hit" },
          h("p", { class: "who" }, who, " ", hit.at ? h("time", { datetime: hit.at, title: exact(hit.at) }, since(hit.at, "", " ago")) : null, " ", hit.subagent || hit.mirror ? null : h("a", { href: to }, "open it here")),
          h("pre", null, hit.before.map((line) => h("span", { class: "dim" }, line + "\n")), hit.line.map((piece) => (piece.found ? h("mark", null, piece.text) : piece.text)), hit.after.map((line) => h("span", { class: "dim" }, "\n" + line))),
        );
      }),
    );
  }

  fill(root, h("h1", { class: "hidden" }, "Search"), form, found);
  if (query.get("q")) run();
  else words.querySelector("input").focus();
  return () => {
    gone = true;
  };
}
