// A request that waits for an answer: the request in full, and the answers.

import { post } from "./api.js";
import { button, fill, h, since } from "./dom.js";
import { attempt, draft, open, toast } from "./dialogs.js";
import { diff, markdown } from "./markdown.js";
import { agents, readApprovals, store } from "./store.js";

export function requestOf(agent) {
  return store.approvals.find((request) => request.agent === agent) ?? null;
}

/** A card with the request and its buttons. */
export function requestCard(request, { brief = false } = {}) {
  return h(
    "section",
    { class: "request", data: { request: request.id }, "aria-label": request.agent + " asks for " + request.asks_for },
    brief
      ? null
      : h(
          "header",
          null,
          h("a", { class: "name", href: "#/agent/" + encodeURIComponent(request.agent) }, request.agent),
          h("span", { class: "dim" }, request.subagent ? " (its subagent " + request.subagent + ")" : "", " asks for "),
          h("strong", null, request.asks_for),
          since(request.at, ", ", " ago"),
          h("span", { class: "dim path" }, request.folder),
        ),
    what(request),
    request.questions.length ? questions(request, brief) : verdicts(request),
  );
}

/** The request. A field without a special view is shown as it is. */
function what(request) {
  const rest = { ...request.input };
  const out = [];
  const take = (name) => {
    const value = rest[name];
    if (typeof value !== "string") return null;
    delete rest[name];
    return value;
  };
  if (request.questions.length) return null;
  if (request.tool === "ExitPlanMode") {
    const plan = take("plan");
    if (plan !== null) out.push(h("div", { class: "prose boxed" }, markdown(plan)));
  } else {
    const description = take("description");
    const command = take("command");
    if (command !== null) out.push(h("pre", { class: "code", tabindex: "0", "aria-label": "command" }, command));
    if (description !== null) out.push(h("p", { class: "dim" }, description));
    const path = take("file_path");
    if (path !== null) out.push(h("p", { class: "path" }, path));
    const [before, after, content] = [take("old_string"), take("new_string"), take("content")];
    const marked = (mark, text) => (text ? text.split("\n").map((line) => mark + line).join("\n") + "\n" : "");
    if (before !== null || after !== null) out.push(diff(marked("-", before) + marked("+", after)));
    if (content !== null) out.push(diff(marked("+", content)));
  }
  if (Object.keys(rest).length) out.push(h("pre", { class: "code", tabindex: "0", "aria-label": "input" }, JSON.stringify(rest, null, 1)));
  return out;
}

async function answer(request, body, said) {
  const done = await attempt(() => post("/approvals/" + encodeURIComponent(request.id), { hash: request.id, ...body }));
  readApprovals();
  if (done) toast(said);
}

export function allow(request, grant = "once") {
  const how = grant === "once" ? "once" : "for this session";
  return answer(request, { verdict: "allow", grant }, request.agent + " may go on: " + request.asks_for + " allowed " + how + ".");
}

/** Asks for the reason, which the agent reads, and denies. */
export function deny(request) {
  return open("Deny " + request.agent + " " + request.asks_for, (close) => {
    const field = h("textarea", { id: "reason", rows: "3", required: true });
    const taken = draft("deny." + request.id, field);
    return h(
      "form",
      {
        on: {
          submit: async (event) => {
            event.preventDefault();
            const reason = field.value;
            await answer(request, { verdict: "deny", reason }, "Denied.");
            taken();
            close(true);
          },
        },
      },
      h("label", { for: "reason" }, "Why? The agent reads it."),
      field,
      h("footer", null, button("Cancel", () => close(false)), h("button", { class: "danger" }, "Deny")),
    );
  });
}

function verdicts(request) {
  const takesMore = agents.get(request.agent) !== undefined && (request.suggestions ?? []).length > 0;
  return h(
    "div",
    { class: "answers" },
    button("Allow once", () => allow(request), { class: "primary", data: { key: "a" } }),
    takesMore ? button("For this session", () => allow(request, "session"), { data: { key: "A" } }) : null,
    button("Deny\u2026", () => deny(request), { data: { key: "d" } }),
  );
}

/** Each option by its number, or free text. */
function questions(request, brief) {
  const chosen = request.questions.map(() => null);
  const form = h("form", { class: "questions" });
  const parts = request.questions.map((question, n) => {
    const name = "q" + n + request.short;
    const own = h("input", { type: "text", "aria-label": "An answer of your own to: " + question.question, placeholder: "or write an answer" });
    const options = question.options.map(([label, meaning], option) => {
      const input = h("input", { type: question.multiple ? "checkbox" : "radio", name, value: String(option + 1) });
      return h("label", { class: "option" }, input, h("span", null, h("strong", null, label), meaning ? h("span", { class: "dim" }, " " + meaning) : null));
    });
    chosen[n] = () => {
      const picked = [...form.querySelectorAll("input[name='" + name + "']:checked")].map((input) => input.value);
      return own.value.trim() || picked.join(", ");
    };
    return h("fieldset", null, h("legend", { class: brief && request.questions.length === 1 ? "hidden" : null }, question.question), options, own);
  });
  fill(
    form,
    parts,
    h("div", { class: "answers" }, h("button", { class: "primary" }, "Answer"), button("Refuse\u2026", () => deny(request), { data: { key: "d" } })),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const answers = chosen.map((choice) => choice());
    if (answers.some((text) => text === "")) return toast("Choose or write an answer to each question.", true);
    answer(request, { verdict: "answer", answers }, "Answered.");
  });
  return form;
}
