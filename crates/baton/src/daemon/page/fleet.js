// Other machines and their agents, as last heard.

import { count, h, since } from "./dom.js";
import { readFleet, store } from "./store.js";

// Each request makes the daemon refresh its data, which the next request then returns.
const EVERY = 5000;

/** Polls until the returned function is called. A hidden tab does not poll. */
export function followFleet() {
  readFleet();
  const timer = setInterval(() => {
    if (!document.hidden) readFleet();
  }, EVERY);
  return () => clearInterval(timer);
}

function agentLine(machine, agent) {
  const used = agent.used_percentage === undefined ? "" : agent.used_percentage + " %";
  return h(
    "li",
    { data: { agent: agent.name + "@" + machine.name } },
    h("strong", null, agent.name + "@" + machine.name),
    " " + agent.state,
    used ? h("span", { class: "figures" }, " " + used) : null,
    h("span", { class: "dim" }, " " + agent.project),
  );
}

function machinePart(machine) {
  const heard = machine.heard === null ? "never heard" : ["heard ", since(machine.heard, "", " ago")];
  const agents = machine.presence === "gone" ? [] : machine.agents;
  return h(
    "article",
    { class: "machine " + machine.presence, data: { machine: machine.name } },
    h("h3", null, machine.name),
    h("p", { class: "dim" }, h("span", { class: "presence" }, machine.presence), ", ", heard, ", " + count(agents.length, "agent")),
    machine.doubt ? h("p", { class: "bad" }, "Not believed: " + machine.doubt) : null,
    h("ul", null, agents.map((agent) => agentLine(machine, agent))),
  );
}

/** Everything about other machines; empty without a fleet. */
export function fleetPart() {
  const { machine, link, news, machines } = store.fleet;
  if (machine === null || machines.length === 0) return null;
  const away = link && link.state !== "connected" ? [" The database is ", link.state, " for ", since(link.since), "."] : null;
  return [
    h("h2", null, "Elsewhere \u00b7 " + count(machines.length, "machine")),
    h("p", { class: "dim" }, news === null ? "Nothing was heard yet." : ["This is ", since(news), " old."], away),
    h("div", { class: "grid" }, machines.map(machinePart)),
  ];
}
