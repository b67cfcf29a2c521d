"use strict";
// What became of a publication and a client, as far as a page can know it: facts, and the same in sentences.

const INTERESTS_MOST = 8, NEIGHBOURS_MOST = 8, WAY_MOST = 60;

class Pair {
  constructor(model, message, client) {
    Object.assign(this, { model, message, client });
    const { columns, facts } = model;
    const sent = model.publicationOf.get(message);
    this.service = columns.sent_service[sent];
    this.sent = columns.sent_time[sent];
    this.home = model.home.get(client);
    const { carries, decided, wants } = facts.services[this.service];
    this.hops = model.hopsOf(message).filter(hop => columns.hop_body[hop] === message &&
      columns.hop_service[hop] === this.service && (!carries || carries.includes(columns.hop_type[hop])));
    this.losses = Array.from(model.lossesOf(message)).filter(row => !carries || carries.includes(columns.lost_type[row]))
      .sort((a, b) => columns.lost_time[a] - columns.lost_time[b] || columns.lost_link[a] - columns.lost_link[b]);
    this.first = new Map(); // by broker its first event
    for (const hop of this.hops) if (!this.first.has(model.hopBroker[hop])) this.first.set(model.hopBroker[hop], hop);
    this.got = Array.from(model.deliveriesOf(message)).filter(row => columns.got_client[row] === client).length;
    const end = this.hops.reduce((most, hop) => Math.max(most, columns.hop_time[hop]), this.sent);
    this.asked = (model.changesOf.get(client) ?? []).filter(row => columns.change_service[row] === this.service &&
      wants.includes(columns.change_operation[row]) && columns.change_issued[row] <= end &&
      !(columns.change_gone[row] >= 0 && columns.change_gone[row] < this.sent));
    this.decided = decided && !this.got;
    if (this.decided) {
      const missed = new Set(Array.from(model.missedOf(message), row => columns.missed_change[row]));
      this.asked = this.asked.filter(row => missed.has(row));
    }
    this.stop = this.towards = this.lost = this.hop = -1;
    if (!this.got && this.home !== undefined) this.follow();
    else this.hop = this.first.get(this.home) ?? -1;
  }

  // Where the way ends: at a copy that was lost, if that had come nearer to the client, else at the nearest that got one.
  follow() {
    const { model, home, first } = this, { columns } = model, { far, next } = model.nearer(home);
    for (const broker of first.keys())
      if (far[broker] < Infinity && (this.stop < 0 || far[broker] < far[this.stop] || (far[broker] === far[this.stop] && broker < this.stop))) this.stop = broker;
    const to = row => columns.link_to[columns.lost_link[row]];
    for (const row of this.losses)
      if (columns.lost_link[row] >= 0 && !first.has(to(row)) && (this.lost < 0 || far[to(row)] < far[to(this.lost)])) this.lost = row;
    if (this.lost >= 0 && this.stop >= 0 && far[to(this.lost)] >= far[this.stop]) this.lost = -1;
    if (this.lost >= 0) [this.stop, this.towards] = [columns.link_from[columns.lost_link[this.lost]], to(this.lost)];
    else if (this.stop === home) this.lost = this.losses.find(row => columns.lost_link[row] < 0 && columns.lost_client[row] === this.client) ?? -1;
    else if (this.stop >= 0) this.towards = this.source() ?? next[this.stop];
    this.hop = first.get(this.stop) ?? -1;
    this.onward = [];
    for (let at = this.towards; at >= 0; at = at === home ? -1 : next[at]) this.onward.push(at);
  }

  // The neighbour from which the broker where the way ends heard of the client's interest, and that got no copy.
  source() {
    const { model } = this;
    const told = this.asked.flatMap(row => model.heardOf(row))
      .filter(hop => model.hopBroker[hop] === this.stop && model.says[hop] > 0 && model.isLink(hop))
      .sort((a, b) => model.columns.hop_time[a] - model.columns.hop_time[b] || a - b)
      .map(hop => model.columns.link_from[model.columns.hop_at[hop]]);
    return told.find(broker => !this.first.has(broker));
  }

  // Of each interest that counts: what the broker where the way ends had heard of it before, and later, else who was
  // nearest of those that did.
  get heard() {
    const { model } = this, { columns } = model, time = hop => columns.hop_time[hop];
    let far;
    return this.asked.map(row => {
      const events = model.heardOf(row), here = events.filter(hop => model.hopBroker[hop] === this.stop);
      const before = here.filter(hop => this.hop < 0 || time(hop) < time(this.hop));
      const told = here.find(hop => model.says[hop] > 0) ?? -1, last = before[before.length - 1] ?? -1;
      const found = { row, stood: columns.change_issued[row] < 0, told, over: last >= 0 && model.says[last] < 0 ? last : -1, near: -1, nearest: -1 };
      found.late = told >= 0 && this.hop >= 0 ? time(told) - time(this.hop) : null;
      if (told >= 0 || found.stood || this.stop < 0) return found;
      far ??= model.nearer(this.stop).far;
      for (const hop of events) {
        const broker = model.hopBroker[hop];
        if (model.says[hop] > 0 && far[broker] < Infinity && (found.near < 0 || far[broker] < far[found.near] || (far[broker] === far[found.near] && broker < found.near)))
          [found.near, found.nearest] = [broker, hop];
      }
      return found;
    });
  }

  // The fault that took a broker down while it was at work on its copy.
  get crash() {
    const { columns } = this.model, begins = columns.fault_begin;
    if (this.hop < 0) return -1;
    const begin = columns.hop_time[this.hop], end = this.model.finish(this.hop);
    return columns.fault_what.findIndex((what, row) => what === 0 && columns.fault_broker[row] === this.stop && begin <= begins[row] && begins[row] < end);
  }

  get command() {
    const { model } = this;
    return `brokerlab explain ${model.facts.run} ${shellWord(model.message(this.message))} --client ${this.client}`;
  }

  // ---- in words ------------------------------------------------------------------------------------------------

  get said() {
    const { model, home, client } = this;
    if (home === undefined) return [`Nothing in this file is of a client ${client}.`];
    if (this.got) {
      const times = this.got > 1 ? ` ${this.got} times` : "";
      return [`Client ${client} got it${times}, at ${model.broker(home)}.`, ...this.way(this.hop)];
    }
    const said = [`Client ${client}, at ${model.broker(home)}, did not get it.`];
    if (this.decided && !this.asked.length) return [...said, "Nothing that the client asked for, and that may count, wants it."];
    if (!this.asked.length) said.push("By then the client had asked for nothing in this service, as far as this file holds it.");
    else if (this.decided) said.push(`It is wanted by ${listOf(this.asked.map(row => this.name(row)), INTERESTS_MOST)}.`);
    else said.push("Whether its values were wanted this file does not know.");
    said.push(...this.ending, ...this.way(this.hop));
    if (this.stop >= 0 && this.lost < 0) said.push(...this.heard.slice(0, INTERESTS_MOST).map(each => this.heardText(each)));
    if (this.asked.length > INTERESTS_MOST) said.push(`The client had ${this.asked.length} interests; ${INTERESTS_MOST} are told.`);
    return said;
  }

  name(row) { return this.model.message(this.model.columns.change_message[row]); }

  when(hop) { return timeText(this.model.columns.hop_time[hop]); }

  way(hop) {
    if (hop < 0) return [];
    const { model } = this, brokers = model.chain(hop, this.hops).map(each => model.hopBroker[each]);
    const way = brokers.filter((broker, at) => broker !== brokers[at - 1]).map(broker => model.broker(broker));
    return [`It came there over ${listOf(way, WAY_MOST, " – ")}, at ${this.when(hop)}.`];
  }

  get ending() {
    const { model, stop, towards, home } = this, { columns } = model, at = stop < 0 ? "" : model.broker(stop);
    if (this.lost >= 0) {
      const what = columns.lost_link[this.lost] < 0 ? `${at}, the client's own broker, handled it, and its delivery was lost` : `${at} sent it to ${model.broker(towards)}, and it was lost there`;
      return [`${what}, at ${timeText(columns.lost_time[this.lost])} (${model.facts.reasons[columns.lost_reason[this.lost]]}).`];
    }
    if (stop < 0) return ["No broker handled it."];
    const crash = this.crash, fell = crash < 0 ? [] : [`${at} crashed at ${timeText(columns.fault_begin[crash])}, before it was done with it.`];
    if (stop === home) return [`It came to ${at}, the client's own broker, which did not deliver it.`, ...fell];
    const sentTo = new Set(this.hops.filter(hop => model.isLink(hop) && columns.link_from[columns.hop_at[hop]] === stop).map(hop => model.hopBroker[hop]));
    const to = listOf([...sentTo].map(each => model.broker(each)), NEIGHBOURS_MOST) || "nobody";
    const said = [`Its way ends at ${at}, which passed it on to ${to}, not to ${model.broker(towards)}; from there it is ${this.onward.length === 1 ? "the client's own broker" : `${this.onward.map(each => model.broker(each)).join(" – ")} to the client`}.`, ...fell];
    if (!model.isTree) said.push(`There are cycles; of the brokers that handled it, ${at} is nearest to the client.`);
    const link = columns.link_from.findIndex((from, each) => from === stop && columns.link_to[each] === towards);
    if (link >= 0 && model.finish(this.hop) + model.delay(link) >= model.facts.ends_us) said.push("The run ended before it can have come there.");
    return said;
  }

  heardText({ row, stood, told, over, late, near, nearest }) {
    const { model } = this, at = model.broker(this.stop), name = this.name(row), ended = over < 0 ? "" : `; at ${this.when(over)} it heard that it is over`;
    if (told < 0 && stood) return `${name} stood from the beginning${ended}.`;
    if (told < 0) return `${at} never heard of ${name}; ${near < 0 ? "no broker did" : `${model.broker(near)} is nearest to it of those that did, at ${this.when(nearest)}`}.`;
    const from = model.isLink(told) ? model.broker(model.columns.link_from[model.columns.hop_at[told]]) : "its client";
    const heard = `${at} heard of ${name} from ${from} at ${this.when(told)}`;
    if (late === null || stood) return `${heard}${ended}.`;
    if (late === 0) return `${heard}, in the same microsecond as it came.`;
    return late > 0 ? `${heard}, ${timeText(late)} too late.` : `${heard}, ${timeText(-late)} before it came${ended}.`;
  }
}

function listOf(names, most, between = ", ") {
  return names.length > most ? `${names.slice(0, most - 1).join(between)} and ${names.length - most + 1} others` : names.join(between);
}

// A word as a shell takes it: # begins a comment only at the beginning of one.
function shellWord(text) { return /^[\w.,:/@%+=-][\w.,:/@%+=#-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`; }
