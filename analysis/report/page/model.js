"use strict";
// What a page knows of a run: names, and which events belong together. Times are in microseconds.

function timeText(us) {
  if (us >= 1e6) return `${+(us / 1e6).toPrecision(us >= 1e7 ? 6 : 5)} s`;
  return us >= 1000 ? `${+(us / 1000).toPrecision(4)} ms` : `${us} µs`;
}

const TIMER = -2; // in place of an interest: what is no message tells nobody of any

class Model {
  constructor(facts, columns) {
    Object.assign(this, { facts, columns });
    this.span = facts.span_us;
    const count = columns.hop_time.length;
    const { hop_at: at, hop_time: time } = columns;
    this.links = columns.link_from.length;
    columns.link_delay = Float64Array.from(columns.link_delay_ns, ns => Math.floor(ns / 1000));
    this.hopBroker = new Int32Array(count);
    for (let i = 0; i < count; i++)
      this.hopBroker[i] = at[i] < this.links ? columns.link_to[at[i]] : at[i] - this.links;
    this.inTime = inOrder(time);
    this.sortedTime = new Float64Array(count);
    for (let i = 0; i < count; i++) this.sortedTime[i] = time[this.inTime[i]];
    this.longest = columns.link_delay.reduce((a, b) => Math.max(a, b), 0) + 1;
    this.byBody = grouped(columns.hop_body, facts.messages);
    this.byCause = grouped(columns.hop_cause, facts.messages);
    this.lossesOf = grouped(columns.lost_message, facts.messages);
    this.deliveriesOf = grouped(columns.got_message, facts.messages);
    this.missedOf = grouped(columns.missed_message, facts.messages);
    this.changesOf = new Map();
    columns.change_client.forEach((client, row) => {
      if (!this.changesOf.has(client)) this.changesOf.set(client, []);
      this.changesOf.get(client).push(row);
    });
    this.home = new Map();
    columns.client.forEach((client, row) => this.home.set(client, columns.client_broker[row]));
    this.publicationOf = new Map();
    columns.sent_message.forEach((message, row) => this.publicationOf.set(message, row));
    this.changeOf = new Map();
    columns.change_message.forEach((message, row) => this.changeOf.set(message, row));
  }

  broker(number) { return this.facts.brokers[number]; }

  linkName(link) { return `${this.broker(this.columns.link_from[link])} → ${this.broker(this.columns.link_to[link])}`; }

  // A directed link by its name, -1 if there is none.
  link(name) {
    for (let link = 0; link < this.links; link++) if (this.linkName(link) === name.trim()) return link;
    return -1;
  }

  delay(link) { return this.columns.link_delay[link]; }

  isLink(hop) { return this.columns.hop_at[hop] < this.links; }

  finish(hop) { return this.columns.hop_time[hop] + this.columns.hop_wait[hop]; }

  message(index) {
    const { message_entity: entity, message_number: number } = this.columns;
    const client = entity[index] - this.facts.nodes;
    return client >= 0 ? `${client}#${number[index]}` : String(BigInt(entity[index]) * 4294967296n + BigInt(number[index]));
  }

  find(name) {
    if (!this.names) {
      this.names = new Map();
      for (let i = 0; i < this.facts.messages; i++) this.names.set(this.message(i), i);
    }
    return this.names.get(name.trim()) ?? -1;
  }

  type(service, type) { return this.facts.services[service].types[type] ?? `message of type ${type}`; }

  // The events of a message: those that carried it, else those that it caused.
  hopsOf(message) {
    const carried = this.byBody(message);
    const found = this.publicationOf.has(message) && carried.length ? carried : [...new Set([...carried, ...this.byCause(message)])];
    const { hop_time: time } = this.columns;
    return Array.from(found).sort((a, b) => time[a] - time[b] || a - b);
  }

  // The event that sent another: the last of the same message that its neighbour was done with a link's delay before;
  // of a timer the last at its own broker.
  sender(hop, among) {
    const { hop_time: time, hop_interest: interest } = this.columns;
    if (!this.isLink(hop)) {
      if (interest[hop] !== TIMER) return -1;
      return among.findLast(other => this.hopBroker[other] === this.hopBroker[hop] && time[other] < time[hop]) ?? -1;
    }
    const link = this.columns.hop_at[hop], from = this.columns.link_from[link];
    const before = this.columns.hop_time[hop] - this.delay(link) + 2; // rounding, twice
    let found = -1;
    for (const other of among)
      if (other !== hop && this.hopBroker[other] === from && this.finish(other) <= before) found = other;
    return found;
  }

  // Deliveries in the order of time: how many a broker made when it was done with a publication for the first time.
  get delivering() {
    if (this.delivered) return this.delivered;
    const { columns, facts } = this, found = [];
    columns.sent_message.forEach((message, sent) => {
      const service = columns.sent_service[sent], { carries } = facts.services[service], counts = new Map();
      for (const row of this.deliveriesOf(message)) {
        const broker = this.home.get(columns.got_client[row]);
        counts.set(broker, (counts.get(broker) ?? 0) + 1);
      }
      if (!counts.size) return;
      for (const hop of Array.from(this.byBody(message)).sort((a, b) => columns.hop_time[a] - columns.hop_time[b] || a - b)) {
        const broker = this.hopBroker[hop], count = counts.get(broker);
        if (!count || (carries && !carries.includes(columns.hop_type[hop]))) continue;
        found.push([this.finish(hop), broker, service, count]);
        counts.delete(broker);
      }
    });
    return this.delivered = found.sort((a, b) => a[0] - b[0]);
  }

  // The events by which one came about, from the first on.
  chain(hop, among) {
    const found = [];
    for (let at = hop; at >= 0; at = this.sender(at, among)) found.unshift(at);
    return found;
  }

  get isTree() { return this.links === 2 * (this.facts.brokers.length - 1); }

  // Of each broker, how far it is from one (in µs) and the next on its quickest way there, of several the first.
  nearer(target) {
    const { link_from: a, link_to: b, link_delay_ns: delay } = this.columns;
    if (!this.into) {
      this.into = Array.from({ length: this.facts.brokers.length }, () => []);
      for (let link = 0; link < this.links; link++) this.into[b[link]].push(link);
    }
    const far = new Float64Array(this.facts.brokers.length).fill(Infinity);
    const next = new Int32Array(far.length).fill(-1);
    const ahead = [[0, target]];
    far[target] = 0;
    while (ahead.length) {
      let least = 0;
      for (let i = 1; i < ahead.length; i++) if (ahead[i][0] < ahead[least][0]) least = i;
      const [distance, at] = ahead[least];
      ahead[least] = ahead[ahead.length - 1];
      ahead.pop();
      if (distance > far[at]) continue;
      for (const link of this.into[at]) {
        const other = a[link], longer = distance + delay[link];
        if (longer < far[other]) {
          far[other] = longer;
          next[other] = at;
          ahead.push([longer, other]);
        } else if (longer === far[other] && at < next[other]) next[other] = at;
      }
    }
    return { far: far.map(ns => ns / 1000), next };
  }

  // The events by which brokers heard of what a change is about, or that it is over, in the order of time. Numbers of
  // interests are those of a service. A protocol's own messages are known by the change that caused them.
  heardOf(row) {
    if (!this.byInterest) {
      const { columns, facts } = this, count = columns.hop_time.length, about = new Int32Array(count).fill(-1);
      const changing = facts.services.map(({ begins, ends }) => new Map([...begins.map(type => [type, 1]), ...ends.map(type => [type, -1])]));
      this.says = new Int8Array(count); // 1: of the interest, -1: that it is over
      for (let hop = 0; hop < count; hop++) {
        if (columns.hop_cause[hop] < 0 || columns.hop_interest[hop] === TIMER) continue;
        const row = this.changeOf.get(columns.hop_cause[hop]) ?? -1, types = changing[columns.hop_service[hop]];
        if (row >= 0 && columns.change_issued[row] < 0) continue;
        const says = types.get(columns.hop_type[hop]) ?? (row < 0 ? 0 : types.get(columns.change_operation[row]) ?? 0);
        const named = columns.hop_interest[hop] >= 0 ? columns.hop_interest[hop] : row < 0 ? -1 : columns.change_interest[row];
        if (says && named >= 0) [about[hop], this.says[hop]] = [named, says];
      }
      const interests = columns.change_interest.reduce((most, each) => Math.max(most, each + 1), 0);
      this.byInterest = grouped(about, interests);
    }
    const { hop_time: time, hop_service: service, change_interest: interest, change_service: asked } = this.columns;
    return Array.from(this.byInterest(interest[row])).filter(hop => service[hop] === asked[row]).sort((a, b) => time[a] - time[b] || a - b);
  }

  // The place in `inTime` of the first event at or after a time.
  firstAt(us) { return firstOf(this.sortedTime.length, place => this.sortedTime[place] >= us); }
}

// The first place of so many from which on something holds.
function firstOf(places, holds) {
  let low = 0, high = places;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Rows in the order of time. Time and row share one number, which sorts faster than a function can compare.
function inOrder(time) {
  const size = 2 ** Math.ceil(Math.log2(Math.max(2, time.length)));
  const keys = new Float64Array(time.length);
  for (let i = 0; i < time.length; i++) keys[i] = time[i] * size + i;
  keys.sort();
  const rows = new Int32Array(time.length);
  for (let i = 0; i < time.length; i++) rows[i] = keys[i] % size;
  return rows;
}

// Rows by the value of a column, as a function of that value.
function grouped(column, values) {
  const start = new Int32Array(values + 1);
  for (const value of column) if (value >= 0) start[value + 1]++;
  for (let i = 0; i < values; i++) start[i + 1] += start[i];
  const rows = new Int32Array(start[values]), at = start.slice();
  column.forEach((value, row) => { if (value >= 0) rows[at[value]++] = row; });
  return value => rows.subarray(start[value], start[value + 1]);
}
