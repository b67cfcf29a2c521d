"use strict";
// Where a message went, and what that means for one client.

const STEPS_MOST = 200, ASKED_MOST = 8, LOST_MOST = 10;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function tableOf(caption, heads, rows) {
  const table = element("table");
  table.append(element("caption", caption));
  const head = table.createTHead().insertRow();
  for (const each of heads) {
    const cell = element("th", each);
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const each of row) line.insertCell().textContent = each;
  }
  const box = element("div", undefined, "scroll steps");
  box.tabIndex = 0;
  box.append(table);
  return box;
}

class Why {
  constructor(model, state) { Object.assign(this, { model, state }); }

  // What the page can say of a message, and of a client that may have wanted it, as elements.
  told(message, client) {
    const { model } = this, { columns } = model;
    const hops = model.hopsOf(message), parts = [];
    const sent = model.publicationOf.get(message), change = model.changeOf.get(message);
    if (sent !== undefined) {
      const service = columns.sent_service[sent];
      parts.push(`Publication ${model.message(message)} of client ${columns.sent_client[sent]} at ${model.broker(columns.sent_broker[sent])}, ` +
        `service ${model.facts.services[service].name}, sent at ${timeText(columns.sent_time[sent])}.`);
    }
    if (change !== undefined) parts.push(this.changeText(change));
    const got = Array.from(model.deliveriesOf(message), row => columns.got_client[row]);
    if (sent !== undefined) parts.push(`It was handled ${hops.length} times and delivered to ${got.length} clients.`);
    else parts.push(`It caused or rode in ${hops.length} events.`);
    const lost = Array.from(model.lossesOf(message));
    const told = spread(lost, LOST_MOST);
    if (told.length < lost.length) parts.push(`${lost.length.toLocaleString("en")} of its copies were lost; ${told.length} of them, from the first to the last:`);
    for (const row of told) parts.push(this.lossText(row));
    const found = parts.map(text => element("p", text));
    if (client >= 0) found.push(...this.ofClient(message, client));
    found.push(this.steps(hops, got));
    return found;
  }

  changeText(row) {
    const { columns, facts } = this.model, service = columns.change_service[row];
    const told = (name, us) => `${name} ${us < 0 ? "never" : timeText(us)}`;
    return `${this.model.type(service, columns.change_operation[row])} ${this.model.message(columns.change_message[row])} of client ${columns.change_client[row]}, ` +
      `service ${facts.services[service].name}: ${columns.change_issued[row] < 0 ? "stood from the beginning" : told("issued", columns.change_issued[row])}, ` +
      `${told("settled", columns.change_settled[row])}, ${told("revoked", columns.change_revoked[row])}, ${told("gone", columns.change_gone[row])}` +
      `${columns.change_lost[row] ? `; ${columns.change_lost[row]} of its messages were lost` : ""}.`;
  }

  lossText(row) {
    const { columns } = this.model, link = columns.lost_link[row];
    const where = link < 0 ? "a delivery" : `from ${this.model.broker(columns.link_from[link])} to ${this.model.broker(columns.link_to[link])}`;
    return `Lost at ${timeText(columns.lost_time[row])}, ${where}: ${this.model.facts.reasons[columns.lost_reason[row]]}.`;
  }

  // What became of a message and a client, and what tells all of it.
  ofClient(message, client) {
    const { model } = this;
    if (model.publicationOf.has(message)) {
      const pair = new Pair(model, message, client), typed = element("p", undefined, "command");
      typed.append("In full: ", element("code", pair.command));
      const asked = pair.got ? [] : pair.asked.slice(-ASKED_MOST).map(row => this.changeText(row));
      if (asked.length) asked.unshift("What the client had asked for by then:");
      return [...[...pair.said, ...asked].map(text => element("p", text)), typed];
    }
    const home = model.home.get(client);
    return [element("p", home === undefined ? `Nothing in this file is of a client ${client}.` : `Client ${client} is at ${model.broker(home)}.`)];
  }

  steps(hops, got) {
    const { model } = this, { columns } = model, begin = hops.length ? columns.hop_time[hops[0]] : 0;
    const sentTo = new Map();
    const senders = new Map(hops.length <= 3000 ? hops.map(hop => [hop, model.sender(hop, hops)]) : []);
    for (const [hop, sender] of senders) if (sender >= 0) sentTo.set(sender, [...(sentTo.get(sender) ?? []), model.hopBroker[hop]]);
    const clientsAt = new Map();
    for (const client of got) {
      const broker = model.home.get(client);
      clientsAt.set(broker, [...(clientsAt.get(broker) ?? []), client]);
    }
    const rows = hops.slice(0, STEPS_MOST).map(hop => {
      const broker = model.hopBroker[hop];
      const from = model.isLink(hop) ? model.broker(columns.link_from[columns.hop_at[hop]]) : "its client, or a timer";
      const to = (sentTo.get(hop) ?? []).map(each => model.broker(each)).join(", ") || "nobody";
      const clients = clientsAt.get(broker) ?? [];
      return [`+${timeText(columns.hop_time[hop] - begin)}`, model.broker(broker), model.type(columns.hop_service[hop], columns.hop_type[hop]), from,
        timeText(columns.hop_wait[hop]), to, clients.length > 6 ? `${clients.length} clients` : clients.join(", ")];
    });
    const more = hops.length > STEPS_MOST ? ` (the first ${STEPS_MOST} of ${hops.length})` : "";
    return tableOf(`Step by step${more}`, ["after", "broker", "message", "from", "in the broker", "passed on to", "delivered to clients"], rows);
  }
}
