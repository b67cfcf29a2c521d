#!/usr/bin/env node
// Subscription forwarding on trees, for the kind `content`, as a program: JSON on standard input and output.
//
// A subscription goes to every broker, and each notes where it came from. A publication goes to where one that it
// answers came from.

const [PUBLISH, SUBSCRIBE, UNSUBSCRIBE] = [0, 1, 2];
const CLIENT = -1; // in place of a link
const brokers = new Map(); // by number: {links, known}, where known are, by id, subscriptions: {came, client, ranges}

function rangesOf(row) {
  const ranges = [];
  for (let i = 0; i < row.length && row[i] !== null; i += 3) ranges.push(row.slice(i, i + 3));
  return ranges;
}

function matches(values, ranges) {
  return ranges.every(([a, low, high]) => values[a] !== null && low <= values[a] && values[a] <= high);
}

function handle({ links, known }, { n, type, link, client, word: id, body }, act) {
  if (type === PUBLISH) {
    const answered = [...known.values()].filter(
      ({ came, ranges }) => (came === CLIENT || came !== link) && matches(body, ranges),
    );
    const wanted = new Set(answered.map(({ came }) => came));
    const clients = new Set(answered.filter(({ came }) => came === CLIENT).map(({ client }) => client));
    for (const other of links) if (wanted.has(other)) act.push(["forward", n, other]);
    for (const each of [...clients].sort((a, b) => a - b)) act.push(["deliver", n, each]);
    act.push(["work", n, known.size, answered.length]);
    return;
  }
  if (type === SUBSCRIBE && !known.has(id)) known.set(id, { came: link, client, ranges: rangesOf(body) });
  else if (type === UNSUBSCRIBE && known.has(id) && known.get(id).came === link) known.delete(id);
  else return;
  for (const other of links) if (other !== link) act.push(["forward", n, other]);
  act.push(["entries", n, known.size]);
}

function answer({ hello, begin, events }) {
  if (hello) return { hello: 1, kind: "content", trees_only: true };
  if (begin) for (const [b, links] of Object.entries(begin.brokers)) brokers.set(+b, { links, known: new Map() });
  if (!events) return {};
  const actions = [];
  for (const event of events) handle(brokers.get(event.broker), event, actions);
  return { actions };
}

let rest = []; // of a line that is not whole
process.stdin.setEncoding("utf8").on("data", (text) => {
  const lines = text.split("\n");
  rest.push(lines[0]);
  for (const more of lines.slice(1)) {
    process.stdout.write(JSON.stringify(answer(JSON.parse(rest.join("")))) + "\n");
    rest = [more];
  }
});
