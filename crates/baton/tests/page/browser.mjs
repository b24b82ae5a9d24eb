// The page in a real browser. Started by the tests of this folder:
//
//   node browser.mjs SCENARIO        the daemon's address, a folder for pictures and the like come as one line of JSON
//
// Each scenario looks and clicks as a person would, and asks the test that started it to do the rest: a line of JSON on
// standard output, answered by a line on standard input. It ends with `{"done": …}`, or with an error.

import { createRequire } from "node:module";
import { join } from "node:path";
import readline from "node:readline";

const require = createRequire(join(process.env.BATON_PAGE_TOOLS, "x.js"));
const { chromium } = require("playwright-core");

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const hear = async () => JSON.parse((await lines.next()).value);
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");

/** Has the test do something. */
async function ask(what, value = null) {
  say({ ask: what, value });
  return hear();
}

function check(is, words) {
  if (!is) throw new Error(words);
}

function same(is, should, words) {
  check(JSON.stringify(is) === JSON.stringify(should), `${words}: ${JSON.stringify(is)} instead of ${JSON.stringify(should)}`);
}

const args = await hear();
const host = new URL("http://" + args.http).host;
const browser = await chromium.launch({
  executablePath: process.env.BATON_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
});
const complaints = [];
const foreign = [];
// What the browser itself says of an answer that was expected to be a refusal.
let expected = [];

async function newContext(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(20000);
  context.on("request", (request) => {
    const url = new URL(request.url());
    if (url.host !== host) foreign.push(request.url());
  });
  context.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    if (!expected.some((part) => message.text().includes(part))) complaints.push(message.text());
  });
  context.on("weberror", (error) => complaints.push(String(error.error())));
  return context;
}

/** A page that is logged in. */
async function open(context, hash = "") {
  const page = await context.newPage();
  await page.goto(await ask("address"));
  await page.waitForSelector("#rights:not([hidden])");
  await page.waitForSelector("#link.live", { state: "attached" });
  if (hash) await page.evaluate((to) => (location.hash = to), hash);
  return page;
}

/** Waits until a function of the page gives what is wanted. */
async function until(page, words, look, arg) {
  try {
    return await page.waitForFunction(look, arg, { polling: 20 });
  } catch (error) {
    throw new Error(words + "\n" + (await page.evaluate(() => document.body.innerText)).slice(0, 2000) + "\n" + error);
  }
}

const text = (page, selector) => page.locator(selector).first().innerText();

/** Lets the page change things, with the code that the user is shown. */
async function typeDigits(page) {
  const digits = await ask("digits");
  await page.locator("#digits").fill(digits);
  await page.getByRole("button", { name: "Allow changes" }).click();
  await page.locator("#digits").waitFor({ state: "detached" });
}

const scenarios = {
  /** A code works once, the secret is in this tab alone, another tab gets it, and a stranger nothing. */
  async login() {
    const address = await ask("address");
    const context = await newContext();
    const page = await context.newPage();
    await page.goto(address);
    await page.waitForSelector(".card[data-agent='app']");
    check(!page.url().includes("code"), "the code stays in the history: " + page.url());
    const cookies = await context.cookies();
    same(cookies.map((cookie) => [cookie.httpOnly, cookie.sameSite]), [[true, "Strict"]], "cookies");
    check((await page.evaluate(() => sessionStorage.getItem("baton.secret"))).length === 64, "the secret");
    same(await page.evaluate(() => document.cookie), "", "what scripts see of the cookie");
    // A reload stays logged in, and a second tab of this browser is let in by the first.
    await page.reload();
    await page.waitForSelector(".card[data-agent='app']");
    const second = await context.newPage();
    await second.goto("http://" + host + "/");
    await second.waitForSelector(".card[data-agent='app']");
    // A second login keeps the first tab alive.
    await second.goto("about:blank");
    await second.goto(await ask("address"));
    await second.waitForSelector(".card[data-agent='app']");
    same(await page.evaluate(async () => (await fetch("/health", { headers: { "X-Baton-CSRF": sessionStorage.getItem("baton.secret") } })).status), 200, "the first tab");
    // The cookie without the secret, GET too.
    expected = ["403", "401"];
    same(await page.evaluate(async () => (await fetch("/sessions")).status), 403, "the cookie alone");
    // Somebody else with the same code.
    const other = await newContext();
    const stranger = await other.newPage();
    await stranger.goto(address);
    await stranger.waitForSelector("dialog[open] #code");
    check((await text(stranger, "dialog .bad")).includes("was used"), "a used code is said");
    same(await stranger.locator(".card").count(), 0, "cards for a stranger");
    // The whole address can be pasted there.
    await stranger.locator("#code").fill(await ask("address"));
    await stranger.getByRole("button", { name: "Log in" }).click();
    await stranger.waitForSelector(".card[data-agent='app']");
  },

  /** Agents of another machine, and that it went to sleep. */
  async fleet() {
    const page = await open(await newContext());
    await page.waitForSelector("[data-machine='m1'] [data-agent='app@m1']");
    same(await text(page, "[data-machine='m1'] .presence"), "awake", "its presence");
    check((await text(page, ".elsewhere")).includes("old"), "the age of the news");
    await ask("sleep");
    await page.waitForFunction(() => document.querySelector("[data-machine='m1'] .presence")?.textContent === "asleep", null, { timeout: 60000 });
    same(await page.locator("[data-agent='app@m1']").count(), 1, "what was heard of it stays");
  },

  /** A gauge moves when a hook reports. */
  async gauge() {
    const page = await open(await newContext());
    const meter = page.locator(".card[data-agent='app'] [role=meter]");
    await meter.waitFor();
    const before = Number(await meter.getAttribute("aria-valuenow"));
    await ask("fuller");
    await until(page, "the gauge moved", (before) => Number(document.querySelector(".card[data-agent='app'] [role=meter]")?.getAttribute("aria-valuenow")) > before, before);
    check((await text(page, ".card[data-agent='app'] .figures")).includes("left"), "what is left");
    // Somebody who needs a person comes first, and the title says so.
    await ask("limit");
    await until(page, "it needs a person", () => document.querySelector(".group0 .card[data-agent='app']") && document.title.startsWith("(1)"));
  },

  /** The chart has the marks that the log has, and a click opens the document. */
  async chart() {
    const page = await open(await newContext(), "#/agent/app");
    await page.waitForSelector(".chart .mark");
    const wanted = await ask("marks");
    await until(page, "all marks", (n) => document.querySelectorAll(".chart .mark").length === n, wanted.length);
    const shown = await page.evaluate(() => [...document.querySelectorAll(".chart .mark")].map((mark) => [mark.dataset.kind, mark.dataset.at, mark.dataset.handoff]));
    same(shown, wanted, "marks");
    check((await page.locator(".chart .curve").getAttribute("d")).includes("V"), "a tooth falls at once");
    for (const name of ["compacts", "asks", "warns"]) check((await page.locator(".chart .limit." + name).count()) === 1, name);
    const mark = page.locator(".chart .mark.rotated").first();
    const id = await mark.getAttribute("data-handoff");
    await mark.click();
    await page.waitForSelector("dialog[open] .document");
    const document = await text(page, "dialog[open]");
    check(document.includes(id) && document.includes("Port the parser"), document);
    check(/claimed by session .*consumed by session/s.test(document), "who had it: " + document);
    await page.keyboard.press("Escape");
    // The chain, and what went from hop to hop.
    await page.evaluate(() => (location.hash = "#/tasks"));
    await page.waitForSelector(".task[data-agent='app'] .piece.rotated");
    await page.locator(".task[data-agent='app'] .hop").last().click();
    await page.waitForSelector("dialog[open] details");
    check((await text(page, "dialog[open]")).includes("Carried"), "what was carried");
  },

  /** A hundred megabytes: the newest at once, older ones as one scrolls, bounded memory. */
  async long() {
    const page = await open(await newContext(), "#/agent/app");
    await until(page, "the newest", () => document.querySelector(".conversation")?.innerText.includes("the very last words"));
    const top = () => page.evaluate(() => Math.min(...[...document.querySelectorAll(".conversation .words.you")].map((node) => Number(/prompt (\d+)/.exec(node.innerText)?.[1] ?? 1e9))));
    let [last, turns] = [await top(), 0];
    check(last > 1000, "it begins near its end: " + last);
    while (turns < 14) {
      const at = last;
      await page.evaluate(() => (document.querySelector(".conversation").scrollTop = 0));
      await until(page, "older ones", (at) => Math.min(...[...document.querySelectorAll(".conversation .words.you")].map((node) => Number(/prompt (\d+)/.exec(node.innerText)?.[1] ?? 1e9))) < at, at);
      last = await top();
      turns += 1;
    }
    const entries = await page.evaluate(() => document.querySelector(".entries").children.length);
    check(entries <= 660, "what is far away is let go: " + entries);
    await page.getByRole("button", { name: "Newest" }).click();
    await until(page, "the newest again", () => document.querySelector(".conversation")?.innerText.includes("the very last words"));
    // What is said now comes by itself.
    await ask("speak");
    await until(page, "what was said now", () => document.querySelector(".conversation")?.innerText.includes("said just now"));
    // A running tool shows how it ended, once.
    await until(page, "a running call", () => document.querySelectorAll(".tool.runs").length === 1);
    await ask("end");
    await until(page, "its end", () => document.querySelectorAll(".tool.runs").length === 0);
    same(await page.evaluate(() => [...document.querySelectorAll(".conversation .words")].filter((node) => node.innerText.includes("said just now")).length), 1, "it is there once");
    same(await page.evaluate(() => document.querySelectorAll(".diff .added").length > 0), true, "the diff of an edit");
  },

  async search() {
    const page = await open(await newContext(), "#/search");
    await page.locator("#search-q").fill("\"quick brown fox\"");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".result mark");
    same(await page.locator(".result").count(), 1, "conversations");
    check((await text(page, ".result mark")).toLowerCase().includes("quick brown fox"), "what was found is marked");
    const resume = await page.locator("[data-resume]").getAttribute("data-resume");
    check(/^cd .* && baton sessions resume [0-9a-f-]+$/.test(resume), resume);
    await page.getByRole("link", { name: "open it here" }).first().click();
    await page.waitForSelector(".target");
    check((await text(page, ".target")).includes("quick brown fox"), "it opens at its place");
    await page.goBack();
    await page.waitForSelector(".result mark");
    await page.locator(".search summary").click();
    await page.locator("#search-role").selectOption("assistant");
    await page.getByRole("button", { name: "Search" }).click();
    await until(page, "filters count", () => document.querySelector(".found")?.innerText.includes("Nothing in"));
    // A subagent has a conversation of its own.
    await page.evaluate(() => (location.hash = "#/agent/app"));
    await page.locator(".subagents summary").click();
    await page.locator(".subagents a").click();
    await until(page, "what the subagent did", () => document.querySelector(".past .conversation")?.innerText.includes("655 MB/s"));
  },

  /** An agent asks; the person reads it, confirms with the code, allows it, and sees it run. */
  async approve() {
    expected = ["403"];
    const page = await open(await newContext());
    await page.waitForSelector(".group0 .card .request");
    check((await text(page, ".group0 .request pre")).includes("rm -rf build"), "what is asked for");
    same(await text(page, "#rights"), "read-only", "rights");
    await page.evaluate(() => (location.hash = "#/inbox"));
    await page.waitForSelector(".stack .request");
    // By keyboard: the next card, allow.
    await page.keyboard.press("j");
    await page.keyboard.press("a");
    await page.waitForSelector("#digits");
    await page.locator("#digits").fill("00000000");
    await page.getByRole("button", { name: "Allow changes" }).click();
    await until(page, "a wrong code is refused", () => document.querySelector("dialog .bad")?.innerText.includes("not the code"));
    await typeDigits(page);
    await ask("ran", "rm -rf build");
    same(await text(page, "#rights"), "may change things", "rights");
    // The next one, denied with a reason, by touch of the buttons.
    await until(page, "the second request", () => document.querySelector(".request pre")?.innerText.includes("make"));
    await page.getByRole("button", { name: "Deny" }).first().click();
    await page.locator("#reason").fill("not on main");
    await page.locator("dialog").getByRole("button", { name: "Deny" }).click();
    await ask("refused", "not on main");
    await until(page, "nobody asks", () => document.querySelector(".stack .empty"));
    // A question is answered by its number.
    await ask("question");
    await page.waitForSelector(".request fieldset");
    await page.getByLabel("Blue").check();
    await page.getByRole("button", { name: "Answer", exact: true }).click();
    await ask("answered", "Blue");
    // Rotate and retire ask first.
    await page.evaluate(() => (location.hash = "#/agent/worker"));
    await page.getByRole("button", { name: "Retire" }).click();
    await page.locator("dialog").getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Retire" }).click();
    await page.locator("dialog").getByRole("button", { name: "Retire" }).click();
    await ask("retired");
    // And it can be taken back that the page may do such things.
    await page.locator("#rights").click();
    await page.getByRole("button", { name: "Make it read-only" }).click();
    await until(page, "it is read-only", () => document.getElementById("rights").innerText === "read-only");
  },

  /** A message, and its receipt when the agent has seen it. */
  async send() {
    expected = ["403"];
    const page = await open(await newContext(), "#/agent/worker");
    await page.locator("#message").fill("How far are you?");
    await page.getByRole("button", { name: "Send" }).click();
    await typeDigits(page);
    await until(page, "it is on its way", () => document.querySelector(".messages li"));
    await ask("sent", "How far are you?");
    await until(page, "it was seen", () => document.querySelector(".messages li[data-state='delivered']"));
    check((await text(page, ".messages li")).includes("seen"), "in words");
    same(await page.locator("#message").inputValue(), "", "the field is empty again");
    // The agent asks back, and is answered from the inbox.
    await ask("asks");
    await page.evaluate(() => (location.hash = "#/inbox"));
    await page.waitForSelector(".letter.new textarea");
    check((await text(page, ".letter.new")).includes("Shall I release it?"), "the question");
    await page.locator(".letter.new textarea").fill("Yes, release it.");
    await page.getByRole("button", { name: "Answer", exact: true }).click();
    await until(page, "it was read", () => !document.querySelector(".letter.new"));
    await ask("answered", "Yes, release it.");
    // Another agent is started.
    await page.evaluate(() => (location.hash = "#/now"));
    await page.getByRole("button", { name: "Start an agent" }).click();
    await page.locator("#spawn-name").fill("second");
    await page.locator("#spawn-cwd").fill(args.folder);
    await page.locator("#spawn-prompt").fill("Look around.");
    await page.locator("dialog").getByRole("button", { name: "Start" }).click();
    await until(page, "its own view", () => document.querySelector(".agent h1")?.innerText === "second");
    await ask("spawned", "Look around.");
  },

  /** The daemon is killed and comes back: a new code, nothing typed is lost, nothing that happened is missed or doubled. */
  async restart() {
    expected = ["ERR_", "401", "403", "net::", "Failed to load"];
    const context = await newContext();
    const page = await open(context);
    await page.waitForSelector(".card[data-agent='app']");
    await ask("happen");
    await until(page, "what happened", () => document.querySelectorAll("#feed li[data-event]").length === 1);
    await page.evaluate(() => (location.hash = "#/agent/app"));
    await page.locator("#message").fill("half a sentence");
    const health = await context.newPage();
    await health.goto("http://" + host + "/");
    await health.waitForSelector(".card[data-agent='app']");
    await ask("kill");
    await until(page, "it says so", () => document.getElementById("link").innerText.includes("no connection"));
    await health.evaluate(() => (location.hash = "#/health"));
    await until(health, "nothing can be read", () => document.querySelector("main").innerText.includes("the daemon does not answer"));
    for (let n = 0; n < 3; n += 1) await ask("happen");
    await ask("start");
    await page.waitForSelector("dialog[open] #code");
    same(await page.locator("#message").inputValue(), "half a sentence", "what was typed");
    // Another tab logs in; this one goes on by itself.
    const other = await context.newPage();
    await other.goto(await ask("address"));
    await other.waitForSelector(".card[data-agent='app']");
    await page.locator("dialog").waitFor({ state: "detached" });
    await until(page, "it is live", () => document.getElementById("link").className === "live");
    same(await page.locator("#message").inputValue(), "half a sentence", "what was typed");
    await until(health, "what could not be read is read by itself", () => document.querySelector(".findings") && !document.querySelector("main").innerText.includes("does not answer"));
    await ask("happen");
    await page.evaluate(() => (location.hash = "#/now"));
    await until(page, "everything that happened", () => document.querySelectorAll("#feed li[data-event]").length >= 5);
    const events = await page.evaluate(() => [...document.querySelectorAll("#feed li[data-event]")].map((node) => node.dataset.event));
    same(new Set(events).size, events.length, "twice");
    same(events.length, 5, "events");
    await page.reload();
    await page.evaluate(() => (location.hash = "#/agent/app"));
    await page.waitForSelector("#message");
    same(await page.locator("#message").inputValue(), "half a sentence", "what was typed, after a reload");
  },

  /** Whatever a conversation holds is text. */
  async hostile() {
    const page = await open(await newContext());
    let opened = 0;
    page.context().on("page", () => (opened += 1));
    page.on("dialog", (dialog) => {
      complaints.push("a dialog: " + dialog.message());
      dialog.dismiss();
    });
    for (const hash of ["#/now", "#/agent/app", "#/inbox", "#/tasks", "#/search?q=alert"]) {
      await page.evaluate((to) => (location.hash = to), hash);
      if (hash === "#/agent/app") await until(page, "the end of it", () => document.querySelector(".conversation")?.innerText.includes("the very last words"));
      if (hash.startsWith("#/search")) await page.waitForSelector(".result");
      const bad = await page.evaluate(() => ({
        scripts: document.querySelectorAll("main script, main iframe, main img, main object, main embed, main style, main link").length,
        handlers: [...document.querySelectorAll("main *")].filter((node) => [...node.attributes].some((one) => one.name.startsWith("on"))).length,
        links: [...document.querySelectorAll("main a")].filter((node) => !node.getAttribute("href").startsWith("#/")).length,
        done: globalThis.done ?? null,
        controls: /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(document.querySelector("main").textContent),
      }));
      same(bad, { scripts: 0, handlers: 0, links: 0, done: null, controls: false }, hash);
      check((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, hash + " is wider than the window");
    }
    await page.evaluate(() => (location.hash = "#/agent/app"));
    await page.waitForSelector(".conversation .out");
    const shown = await page.evaluate(() => document.querySelector(".conversation").innerText);
    check(shown.includes("<script>globalThis.done = 1</script>"), "markup is shown as it was written");
    check(shown.includes("javascript:globalThis.done=1"), "an address that is none of a web page is text");
    // An address of a web page asks before it leads away.
    await page.locator(".conversation .out").first().click();
    await page.waitForSelector("dialog[open] pre");
    await page.getByRole("button", { name: "Cancel" }).click();
    same(opened, 0, "pages that were opened");
  },

  /** Everything fits a phone, and thumbs reach it. */
  async phone() {
    const page = await open(await newContext({ viewport: { width: 360, height: 780 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 }));
    for (const hash of ["#/now", "#/tasks", "#/search?q=parser", "#/inbox", "#/health", "#/agent/app"]) {
      await page.evaluate((to) => (location.hash = to), hash);
      await page.waitForTimeout(0);
      await until(page, hash, () => document.querySelector("main").children.length > 0);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      check(wide <= 0, hash + " is " + wide + " pixels too wide");
      const nav = await page.locator("#nav").boundingBox();
      check(nav.y > 600 && nav.height >= 44, "the bar is at the bottom: " + JSON.stringify(nav));
    }
    await page.evaluate(() => (location.hash = "#/now"));
    await page.waitForSelector(".group0 .request");
    const buttons = await page.evaluate(() => [...document.querySelectorAll(".request button.primary")].map((node) => node.getBoundingClientRect().height));
    check(buttons.every((height) => height >= 44), "buttons for thumbs: " + buttons);
    await page.locator(".group0 .card h3 a").first().tap();
    await page.waitForSelector(".chart");
    await page.setViewportSize({ width: 3840, height: 2160 });
    await until(page, "a large screen", () => document.documentElement.scrollWidth <= document.documentElement.clientWidth);
  },

  /** Things stand where one expects them, at every width; what is typed or pressed first has the focus. */
  async looks() {
    const page = await open(await newContext({ viewport: { width: 1920, height: 1080 } }));
    const focus = () => page.evaluate(() => document.activeElement.id || document.activeElement.innerText);
    same(await text(page, ".card[data-agent=porter] .state .mark"), "!", "the mark of a limit");
    await page.evaluate(() => (location.hash = "#/agent/lead"));
    for (const width of [360, 1280, 1920, 3840]) {
      await page.setViewportSize({ width, height: 1080 });
      await page.waitForSelector(".conversation .words.agent .prose");
      const places = await page.evaluate(() =>
        [...document.querySelectorAll(".conversation .words")].map((node) => {
          const [who, prose] = [node.querySelector(".who"), node.querySelector(".prose")].map((part) => part.getBoundingClientRect());
          return { left: Math.abs(who.left - prose.left) <= 1, below: prose.top >= who.bottom, gap: prose.top - who.bottom < 10 };
        }),
      );
      check(places.length > 1 && places.every((place) => place.left && place.below && place.gap), width + ": words below who said them: " + JSON.stringify(places));
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByRole("button", { name: "Rotate" }).click();
    await page.waitForSelector("dialog[open]");
    same(await focus(), "Rotate", "what Enter does");
    check((await text(page, "dialog[open]")).includes("In a terminal: baton rotate lead"), "the command that does the same");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Retire" }).click();
    await page.waitForSelector("dialog[open]");
    same(await focus(), "Cancel", "what Enter does before something that cannot be undone");
    await page.keyboard.press("Escape");
    await page.locator("#rights").click();
    await page.waitForSelector("dialog[open]");
    same(await focus(), "digits", "what is typed into");
    await page.keyboard.press("Escape");
    // Times of day are written one way, by the agents' states, the terminal and the page.
    check(!/\d [AP]M/.test(await text(page, "main")), "hours of a day of 24: " + (await text(page, "main")));
    await page.evaluate(() => (location.hash = "#/agent/nobody"));
    await until(page, "that there is no such agent", () => document.querySelector(".head")?.innerText.includes("There is no such agent"));
    same(await page.evaluate(() => [...document.querySelectorAll(".split > .agent > .panel")].filter((part) => !part.hidden).length), 1, "parts of an agent that is not there");
    same(await page.locator(".toast").count(), 0, "complaints about an agent that is not there");
    await page.evaluate(() => (location.hash = "#/inbox"));
    await page.waitForSelector(".request");
    const asked = await text(page, "main");
    check(asked.includes("app asks for an answer") && asked.includes("reviewer asks for Bash"), "in people's words: " + asked);
    check(asked.includes("~/work/app"), "a folder as people write it: " + asked);
  },

  /** axe-core finds nothing serious, in light and dark; a conversation can be printed. */
  async access() {
    const axe = require.resolve("axe-core");
    for (const colorScheme of ["light", "dark"]) {
      // axe is put into the page by the test, which the page itself would refuse.
      const page = await open(await newContext({ colorScheme, bypassCSP: true }));
      await page.waitForSelector(".card");
      await page.addScriptTag({ path: axe });
      for (const hash of ["#/now", "#/agent/app", "#/tasks", "#/search?q=parser", "#/inbox", "#/health"]) {
        await page.evaluate((to) => (location.hash = to), hash);
        const ready = { "#/agent/app": ".chart .mark", "#/tasks": ".piece", "#/search?q=parser": ".result", "#/inbox": ".request", "#/health": ".findings" }[hash] ?? ".card";
        await page.locator(ready).first().waitFor({ state: "attached" });
        const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        const bad = found.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
        check(bad.length === 0, colorScheme + " " + hash + ": " + bad.map((one) => one.id + " " + one.nodes.slice(0, 3).map((node) => node.html + " " + node.failureSummary).join(" | ")).join("\n"));
      }
      await page.keyboard.press("?");
      await page.waitForSelector("dialog[open]");
      const found = await page.evaluate(() => axe.run(document.querySelector("dialog")));
      check(found.violations.every((one) => one.impact !== "serious" && one.impact !== "critical"), "a dialog");
      await page.close();
    }
    const page = await open(await newContext(), "#/agent/app");
    await page.waitForSelector(".words");
    await page.emulateMedia({ media: "print" });
    same(await page.evaluate(() => [getComputedStyle(document.querySelector("#nav")).display, getComputedStyle(document.querySelector(".conversation")).overflow]), ["none", "visible"], "on paper");
  },

  /** Pictures of every view, for people to look at. */
  async pictures() {
    for (const [size, viewport] of Object.entries({ phone: { width: 360, height: 780 }, desktop: { width: 1440, height: 900 } })) {
      for (const colorScheme of ["light", "dark"]) {
        const context = await newContext({ viewport, colorScheme, hasTouch: size === "phone", isMobile: size === "phone" });
        const page = await open(context);
        await page.waitForSelector(".card");
        for (const [name, hash, ready] of [
          ["now", "#/now", ".card"],
          ["agent", "#/agent/lead", ".chart .mark"],
          ["tasks", "#/tasks", ".piece"],
          ["search", "#/search?q=parser", ".result"],
          ["inbox", "#/inbox", ".request"],
          ["health", "#/health", ".findings"],
        ]) {
          await page.evaluate((to) => (location.hash = to), hash);
          await page.locator(ready).first().waitFor({ state: "attached" });
          await page.waitForLoadState("networkidle", { timeout: 700 }).catch(() => null);
          await page.screenshot({ path: join(args.pictures, `${name}-${size}-${colorScheme}.png`) });
          if (name === "agent" && size === "phone") await page.screenshot({ path: join(args.pictures, `${name}-${size}-${colorScheme}-whole.png`), fullPage: true });
        }
        await context.close();
      }
    }
  },

  /** How long until there is something to see, and until a change shows. */
  async bench() {
    const context = await newContext();
    // When the first cards have been painted.
    await context.addInitScript(() => {
      new MutationObserver((_, watch) => {
        if (!document.querySelector(".card")) return;
        watch.disconnect();
        requestAnimationFrame(() => setTimeout(() => performance.mark("cards"), 0));
      }).observe(document, { childList: true, subtree: true });
    });
    const first = [];
    for (let n = 0; n < 5; n += 1) {
      const page = await context.newPage();
      await page.goto(await ask("address"));
      await until(page, "the first cards", () => performance.getEntriesByName("cards").length > 0);
      first.push(await page.evaluate(() => performance.getEntriesByName("cards")[0].startTime));
      await page.close();
    }
    const page = await open(context);
    await page.waitForSelector(".card[data-agent='load-0']");
    await until(page, "all cards", (n) => document.querySelectorAll(".card").length === n, args.agents);
    const changes = [];
    for (let n = 0; n < 30; n += 1) {
      const seen = page.evaluate(
        () =>
          new Promise((done) => {
            const grid = document.querySelector(".card[data-agent='load-0']").parentNode;
            const watch = new MutationObserver(() => {
              watch.disconnect();
              requestAnimationFrame(() => done(Date.now()));
            });
            watch.observe(grid, { childList: true, subtree: true, attributes: true });
          }),
      );
      const at = await ask("change", n);
      changes.push((await seen) - at);
    }
    const more = [];
    for (let n = 0; n < 9; n += 1) {
      const own = await newContext();
      more.push(await open(own));
    }
    await ask("memory");
    return { first, changes };
  },
};

const name = process.argv[2];
let result = null;
try {
  result = (await scenarios[name]()) ?? true;
  same(foreign, [], "requests to other hosts");
  same(complaints, [], "complaints of the browser");
} catch (error) {
  say({ failed: String(error.stack ?? error), complaints });
  await browser.close();
  process.exit(1);
}
say({ done: result });
await browser.close();
process.exit(0);
