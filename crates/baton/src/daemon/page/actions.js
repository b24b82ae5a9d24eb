// Actions on agents: each asks for confirmation and shows the equivalent command.

import { get, post } from "./api.js";
import { button, exact, fill, h } from "./dom.js";
import { attempt, confirm, draft, open, toast } from "./dialogs.js";
import { markdown } from "./markdown.js";
import { agents } from "./store.js";

const path = (view, verb) => "/sessions/" + encodeURIComponent(view.id) + "/" + verb;

/** A form for a message. `sent(id)` is called with its id. */
export function sendForm(view, sent) {
  const field = h("textarea", { id: "message", rows: "3", required: true, placeholder: "Message to " + view.id, "aria-label": "Message to " + view.id });
  const taken = draft("send." + view.id, field);
  const urgency = h(
    "select",
    { "aria-label": "When it is read" },
    h("option", { value: "sequential" }, "at the end of its turn"),
    h("option", { value: "important" }, "at its next tool call"),
    h("option", { value: "urgent" }, "at once"),
  );
  const form = h("form", { class: "send" }, field, h("div", { class: "answers" }, urgency, h("button", { class: "primary" }, "Send")));
  let key = crypto.randomUUID();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = field.value;
    if (text.trim() === "") return;
    // The key makes a retry safe: the message is sent once.
    const answer = await attempt(() => post(path(view, "messages"), { text, urgency: urgency.value, key }));
    if (!answer) return;
    key = crypto.randomUUID();
    taken();
    toast("On its way to " + view.id + ".");
    sent?.(answer.id);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return form;
}

async function order(view, verb, title, words, yes, options) {
  if (!(await confirm(title, words, yes, options))) return;
  const answer = await attempt(() => post(path(view, verb)));
  if (answer) toast(answer.said);
}

/** The equivalent command. */
function same(verb, view) {
  return ["In a terminal: ", h("code", null, "baton " + verb + " " + view.id)];
}

export function rotate(view) {
  return order(view, "rotate", "Give " + view.id + " a fresh context?", ["A handoff is sealed from its conversation, and it continues from that. ", same("rotate", view)], "Rotate");
}

export function undo(view) {
  return order(view, "undo", "Take back the last rotation of " + view.id + "?", ["The conversation before it is resumed. ", same("undo", view)], "Undo");
}

export function cancel(view) {
  return order(view, "cancel", "Take back the handoff of " + view.id + "?", ["It stays in its current context. ", same("handoff --cancel --of", view)], "Take back");
}

export function retire(view) {
  return order(view, "retire", "Stop " + view.id + " for good?", ["Its client is ended and it is not brought back. Its conversations and handoffs stay. ", same("retire", view)], "Retire", { danger: true });
}

/** Starts an agent in a pane. */
export function spawn() {
  const folders = [...new Set([...agents.values()].map((view) => view.cwd))].sort();
  return open("Start an agent", (close) => {
    const field = (name, props) => {
      const input = h(props.rows ? "textarea" : "input", { id: "spawn-" + name, ...props });
      draft("spawn." + name, input);
      return input;
    };
    const name = field("name", { required: true, pattern: "[A-Za-z0-9._\\-]+", autocomplete: "off" });
    const cwd = field("cwd", { required: true, list: "folders", placeholder: "/home/\u2026", autocomplete: "off" });
    const prompt = field("prompt", { rows: "4" });
    const why = h("p", { class: "bad", role: "alert" });
    const submit = async (event) => {
      event.preventDefault();
      const body = { name: name.value.trim(), cwd: cwd.value.trim() };
      if (prompt.value.trim()) body.prompt = prompt.value;
      try {
        const view = await post("/spawn", body);
        for (const one of ["name", "cwd", "prompt"]) sessionStorage.removeItem("baton.draft.spawn." + one);
        toast(view.id + " starts in a pane of its own.");
        close(true);
        location.hash = "#/agent/" + encodeURIComponent(view.id);
      } catch (error) {
        fill(why, error.message);
      }
    };
    return h(
      "form",
      { on: { submit } },
      h("label", { for: "spawn-name" }, "Name"),
      name,
      h("label", { for: "spawn-cwd" }, "Folder"),
      cwd,
      h("datalist", { id: "folders" }, folders.map((folder) => h("option", { value: folder }))),
      h("label", { for: "spawn-prompt" }, "What it should do"),
      prompt,
      why,
      h("footer", null, button("Cancel", () => close(false)), h("button", { class: "primary" }, "Start")),
    );
  });
}

/** The document of a handoff, and who claimed and consumed it. */
export async function showHandoff(id) {
  const handoff = await attempt(() => get("/handoffs/" + encodeURIComponent(id)));
  if (!handoff) return null;
  const entry = handoff.entry ?? {};
  const fact = (name, value) => (value ? [h("dt", null, name), h("dd", null, value)] : null);
  return open(
    "Handoff " + handoff.id,
    () => [
      h(
        "dl",
        { class: "facts" },
        fact("state", entry.status),
        fact("for", entry.for_agent),
        fact("channel", entry.channel),
        fact("file", handoff.path),
      ),
      h(
        "ol",
        { class: "marks" },
        handoff.history.map(({ at, what, entry: is }) => {
          const who = { sealed: is.session_id, claimed: is.claim?.session, consumed: is.consumed_by_session }[what];
          return h("li", null, h("time", { datetime: at, title: exact(at), class: "dim" }, exact(at)), " " + what, who ? [" by session ", h("a", { href: "#/conversation/" + encodeURIComponent(who) }, who.slice(0, 8))] : null, is.superseded_by ? ", replaced by " + is.superseded_by : null);
        }),
      ),
      h("div", { class: "prose document" }, markdown(handoff.document)),
    ],
    { wide: true },
  );
}

/** What one handoff took over from the one before it. */
export async function showHop(id) {
  const hop = await attempt(() => get("/handoffs/" + encodeURIComponent(id) + "/hop"));
  if (!hop) return null;
  const part = (title, items, mark, open = false) =>
    items.length
      ? h(
          "details",
          { open },
          h("summary", null, title + " \u00b7 " + items.length),
          h("ul", { class: "items" }, items.map((item) => h("li", null, h("span", { class: "dim" }, mark + " " + item.kind + " "), item.text))),
        )
      : h("p", { class: "dim" }, title + ": nothing");
  return open(
    "What " + hop.id + " carries",
    (close) => [
      h("p", { class: "dim" }, hop.before ? "Compared with " + hop.before + ", the handoff before it." : "It is the first of its task."),
      part("Left out", hop.left, "\u2212", true),
      part("New", hop.added, "+", hop.added.length < 12),
      part("Carried", hop.carried, "=", hop.carried.length < 12),
      h(
        "footer",
        null,
        button("Show the document", () => {
          close();
          showHandoff(id);
        }),
      ),
    ],
    { wide: true },
  );
}
