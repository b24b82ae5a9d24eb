// What waits for a person: requests, dialogs in terminals, and messages.

import { post } from "./api.js";
import { attempt, draft, toast } from "./dialogs.js";
import { button, fill, h, since } from "./dom.js";
import { markdown } from "./markdown.js";
import { requestCard } from "./requests.js";
import { readInbox, store, subscribe } from "./store.js";

export function inbox(root) {
  const requests = h("div", { class: "stack" });
  const terminals = h("div", { class: "stack" });
  const letters = h("div", { class: "stack" });
  const notices = h("div", { class: "stack" });
  const cards = new Map();

  function drawRequests() {
    const ids = new Set(store.approvals.map((request) => request.id));
    for (const [id, node] of cards) {
      if (!ids.has(id)) {
        node.remove();
        cards.delete(id);
      }
    }
    for (const request of store.approvals) {
      if (cards.has(request.id)) continue;
      const node = requestCard(request);
      node.classList.add("panel");
      cards.set(request.id, node);
      requests.append(node);
    }
    requests.querySelector(".empty")?.remove();
    if (!store.approvals.length) requests.append(h("p", { class: "empty" }, "Nobody asks for anything."));
    fill(
      terminals,
      store.terminals.map((one) =>
        h("p", { class: "panel" }, h("a", { href: "#/agent/" + encodeURIComponent(one.agent) }, one.agent), " waits in its terminal", since(one.at, " for "), one.about ? h("span", { class: "dim" }, ": " + one.about) : null, h("br"), h("code", null, "baton attach " + one.agent)),
      ),
    );
  }

  // Build each message once, so that text typed below it stays.
  const known = new Map();
  function drawLetters() {
    drawNotices();
    const list = store.inbox.filter((message) => message.from !== "baton").toReversed();
    for (const message of list) {
      const is = message.state;
      if (known.get(message.id)?.is === is) continue;
      const node = letter(message);
      known.get(message.id)?.node.replaceWith(node);
      known.set(message.id, { is, node });
    }
    letters.querySelector(".empty")?.remove();
    let after = null;
    for (const message of list) {
      const { node } = known.get(message.id);
      const place = after ? after.nextSibling : letters.firstChild;
      if (node !== place) letters.insertBefore(node, place);
      after = node;
    }
    if (!list.length) letters.append(h("p", { class: "empty" }, "No messages for you."));
  }

  /** Notices by baton itself, one line each. */
  function drawNotices() {
    const list = store.inbox.filter((message) => message.from === "baton").toReversed();
    const fresh = list.filter((message) => message.state === "queued");
    const read = async () => {
      for (const message of fresh) if (!(await attempt(() => post("/inbox/" + encodeURIComponent(message.id) + "/read")))) break;
      readInbox();
    };
    fill(
      notices,
      list.length
        ? h(
            "section",
            { class: "panel" },
            h("div", { class: "bar-line" }, h("h3", null, "Notices"), h("span", { class: "spacer" }), fresh.length ? button("Mark " + fresh.length + " as read", read, { class: "quiet" }) : null),
            h("ul", { class: "notices" }, list.slice(0, 30).map((message) => h("li", { class: message.state === "queued" ? "new" : "dim", data: { message: message.id } }, since(message.at, "", " ago"), h("span", null, message.text.replace(/^\[baton\] /, ""))))),
          )
        : null,
    );
  }

  function letter(message) {
    const isNew = message.state === "queued";
    const node = h(
      "article",
      { class: "panel letter" + (isNew ? " new" : ""), data: { message: message.id } },
      h("p", { class: "who" }, isNew ? h("strong", null, "new ") : null, message.from === "user" ? "you" : h("a", { href: "#/agent/" + encodeURIComponent(message.from) }, message.from), " ", since(message.at, "", " ago"), message.ask ? h("strong", null, " waits for your answer") : null),
      h("div", { class: "prose" }, markdown(message.text)),
    );
    const tools = h("div", { class: "answers" });
    if (isNew) tools.append(button("Mark as read", async () => {
      if (await attempt(() => post("/inbox/" + encodeURIComponent(message.id) + "/read"))) readInbox();
    }));
    if (message.from !== "user") {
      const field = h("textarea", { rows: "2", "aria-label": "Answer to " + message.from, placeholder: "Answer to " + message.from });
      const taken = draft("reply." + message.id, field);
      tools.append(button("Answer", async () => {
        if (!field.value.trim()) return field.focus();
        const sent = await attempt(() => post("/inbox/" + encodeURIComponent(message.id) + "/reply", { text: field.value }));
        if (!sent) return;
        taken();
        toast(sent.to + " gets your answer.");
        readInbox();
      }, { class: "primary" }));
      node.append(field);
    }
    if (tools.firstChild) node.append(tools);
    return node;
  }

  fill(
    root,
    h("h1", { class: "hidden" }, "Inbox"),
    h("div", { class: "columns" }, h("section", null, h("h2", null, "Asked of you"), requests, terminals), h("section", null, h("h2", null, "Messages"), letters, notices)),
  );
  drawRequests();
  drawLetters();
  readInbox();
  return subscribe(({ kinds }) => {
    if (kinds.has("approvals")) drawRequests();
    if (kinds.has("inbox")) drawLetters();
  });
}
