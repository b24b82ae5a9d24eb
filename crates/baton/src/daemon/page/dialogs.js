// Dialogs, and messages about what was done.

import { onReadOnly, post } from "./api.js";
import { button, fill, h } from "./dom.js";
import { changed, store } from "./store.js";

/** A dialog. `build(close)` makes its content; resolves with the value passed to `close`. */
export function open(title, build, { wide = false } = {}) {
  return new Promise((done) => {
    let result = null;
    const close = (value) => {
      result = value;
      dialog.close();
    };
    const heading = h("h2", { id: "dialog-title" }, title);
    const dialog = h("dialog", { class: wide ? "wide" : null, "aria-labelledby": "dialog-title" });
    fill(dialog, h("header", null, heading, button("\u2715", () => close(null), { class: "quiet", "aria-label": "Close" })), build(close, dialog));
    dialog.addEventListener("close", () => {
      dialog.remove();
      done(result);
    });
    // A click beside it closes it.
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) close(null);
    });
    document.body.append(dialog);
    // Focus the field or the main button, not the cross.
    if (!dialog.querySelector("[autofocus]")) dialog.querySelector("input, textarea, select")?.setAttribute("autofocus", "");
    dialog.showModal();
  });
}

export function toast(text, isBad = false) {
  const node = h("p", { class: isBad ? "toast bad" : "toast" }, text);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), isBad ? 9000 : 5000);
}

/** Carries out an action and reports the result. */
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    toast(error.message, true);
    return null;
  }
}

/** Yes or no. */
export function confirm(title, words, yes, { danger = false } = {}) {
  return open(title, (close) => [
    h("p", null, words),
    h(
      "footer",
      null,
      button("Cancel", () => close(false), { autofocus: danger }),
      button(yes, () => close(true), { class: danger ? "danger" : "primary", autofocus: !danger }),
    ),
  ]);
}

/** A text field whose content is kept in this tab until it was accepted, whatever happens to the daemon or the page. */
export function draft(key, area) {
  const name = "baton.draft." + key;
  area.value = sessionStorage.getItem(name) ?? "";
  area.addEventListener("input", () => sessionStorage.setItem(name, area.value));
  return () => {
    sessionStorage.removeItem(name);
    area.value = "";
  };
}

/** Asks for the digits that let this page change things. */
async function unlock() {
  const allowed = await open("Let this page change things?", (close) => {
    const field = h("input", {
      id: "digits",
      inputmode: "numeric",
      autocomplete: "one-time-code",
      maxlength: "12",
      required: true,
      placeholder: "0000 0000",
    });
    const why = h("p", { class: "bad", role: "alert" });
    return h(
      "form",
      {
        on: {
          submit: async (event) => {
            event.preventDefault();
            try {
              await post("/page/confirm", { code: field.value });
              close(true);
            } catch (error) {
              fill(why, error.message);
              field.select();
            }
          },
        },
      },
      h("p", null, "The page is read-only. Run ", h("code", null, "baton page --code"), " in a terminal and type the digits that it prints."),
      h("label", { for: "digits" }, "Code"),
      field,
      why,
      h("footer", null, button("Cancel", () => close(false)), h("button", { class: "primary" }, "Allow changes")),
    );
  });
  if (allowed) {
    store.mayChange = true;
    changed("rights");
  }
  return allowed === true;
}

onReadOnly(unlock);

/** Switches the page between read-only and may change things. */
export async function switchRights() {
  if (!store.mayChange) {
    if (await unlock()) toast("This page may change things until you log out or switch it back.");
    return;
  }
  if (await confirm("Make this page read-only?", "Answers, messages and orders will need a code again.", "Make it read-only")) {
    const answer = await attempt(() => post("/page/look"));
    if (answer) {
      store.mayChange = answer.may_change;
      changed("rights");
      toast(answer.may_change ? "The setting page.write lets it change things." : "This page is read-only.");
    }
  }
}

/** An address that somebody else wrote: shown first, and opened by a second click. */
export function leave(address) {
  open("Leave for another page?", (close) => [
    h("p", null, "Somebody wrote this address into a conversation:"),
    h("pre", null, address),
    h(
      "footer",
      null,
      button("Cancel", () => close()),
      button("Copy", () => copy(address).then(() => close())),
      button("Open", () => {
        window.open(address, "_blank", "noopener,noreferrer");
        close();
      }),
    ),
  ]);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    open("Copy this", () => h("pre", { tabindex: "0" }, text));
  }
}
