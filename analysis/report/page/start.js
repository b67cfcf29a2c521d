"use strict";
// Brings a page to life: unpacks its columns, and connects what people can press with what is drawn.

const $ = id => document.getElementById(id), FLASH_S = .3, LINKS_NAMED_MOST = 2000, CHANGES_MOST = 200;
const CROSS = "M-.7-.7L.7 .7M.7-.7L-.7 .7", LINE = "M-1.2 0H1.2";
// What else is drawn above the overlay: words, path, look, dashes.
const SIGNS = [["small: a message was lost; as large as a broker: it is down", CROSS, "fault"], ["a broker is slow", SHAPES[1], "fault", "2 3"],
  ["a link is cut", LINE, "fault", "6 4"], ["a link is worse than it was", LINE, "fault", "2 3"], ["the way of a message or change that is chosen", LINE, "lit"],
  ["a broker that is chosen; dark: that of the client", "M-1-.4V-1H-.4M.4-1H1V-.4M1 .4V1H.4M-.4 1H-1V.4", "chosen"]];

// For how long in the run a delivery is seen, at the speed that is chosen.
function flashed() { return FLASH_S * 1e6 * +$("speed").value; }

function explained(fact) {
  const found = [element("h3", `${fact.service} ${fact.message}, client ${fact.client}: ${fact.verdict}${fact.sure ? "" : ", as it looks"}`)];
  const change = fact.change ? ` The change that made it so: ${fact.change}.` : "";
  const where = fact.broker ? `${fact.towards ? "The way stops" : "Decided"} at ${fact.broker}${fact.towards ? `, before ${fact.towards}` : ""}.` : "";
  if (where || change) found.push(element("p", where + change));
  for (const said of fact.said) found.push(element("p", said));
  found.push(tableOf(`Step by step${fact.left_out ? `; ${fact.left_out} in the middle are left out` : ""}`, ["at", "broker", "what"], fact.steps));
  return found;
}

function sign(path, look, dashes = "none") {
  const picture = svgElement("svg", { viewBox: "-9 -9 18 18", width: 16, height: 16, "aria-hidden": "true" });
  picture.append(svgElement("path", { d: path, class: look, transform: "scale(6)", "vector-effect": "non-scaling-stroke", "stroke-dasharray": dashes }));
  return picture;
}

function told(words, ...signs) {
  const item = element("li");
  item.append(...signs, words);
  return item;
}

// What shapes and colours stand for: those of services, then all others.
function signs(services) {
  const ofServices = services.map(({ name }, at) => {
    const number = at % SHAPES.length, shape = SHAPES[number];
    return told(`${name}: ${SHAPE_NAMES[number]}`, sign(shape, `f${number}`), sign(shape, `bars s${number}`));
  });
  return [told("Services, filled: a publication; hollow: another message; wide and fading around a broker: a delivery."), ...ofServices,
    ...SIGNS.map(([words, ...each]) => told(words, sign(...each)))];
}

function shareText(part) { return `${+(100 * part).toPrecision(3)} %`; }

function secondsTyped(us) { return `${(us / 1e6).toFixed(9).replace(/\.?0+$/, "")}s`; }

class Page {
  constructor(facts, columns) {
    this.facts = facts;
    this.model = new Model(facts, columns);
    this.state = { time: 0, stretch: 0, whole: true, service: -1, show: $("show").value, message: -1, hops: [], broker: -1, link: -1, home: -1, window: facts.window_us, flash: flashed() };
    this.map = new OverlayMap($("map"), this.model, this.state);
    this.diagram = new Diagram($("diagram"), this.map, this.model, this.state);
    this.why = new Why(this.model, this.state);
    $("key").append(...signs(facts.services));
    this.listChanges();
    this.wire();
    this.setTime(0, true);
    this.showCase();
  }

  wire() {
    const { state } = this;
    $("time").addEventListener("input", event => this.setTime(event.target.value / 1000 * this.model.span, false));
    $("play").addEventListener("click", () => this.play());
    $("whole").addEventListener("change", event => { state.whole = event.target.checked; this.redraw(); });
    $("service").addEventListener("change", event => { state.service = +event.target.value; this.redraw(); this.redrawDiagram(); this.showLink(); });
    $("show").addEventListener("change", event => { state.show = event.target.value; this.redraw(); });
    $("map").addEventListener("click", event => this.press(event.offsetX, event.offsetY));
    $("map").addEventListener("keydown", event => this.key(event));
    $("speed").addEventListener("change", () => { state.flash = flashed(); this.redraw(); });
    for (let link = 0; link < Math.min(this.model.links, LINKS_NAMED_MOST); link += 2) $("links").append(new Option("", this.model.linkName(link)));
    $("link").addEventListener("change", event => this.pickLink(this.model.link(event.target.value)));
    $("broker").addEventListener("change", event => this.pick(this.facts.brokers.indexOf(event.target.value)));
    $("case").addEventListener("change", () => this.showCase());
    $("loss").addEventListener("change", event => this.showLoss(+event.target.value));
    $("change").addEventListener("change", event => this.showChange(+event.target.value));
    $("find").addEventListener("submit", event => { event.preventDefault(); this.find(); });
    $("earlier").addEventListener("click", () => this.along(-1));
    $("later").addEventListener("click", () => this.along(1));
    $("clear").addEventListener("click", () => this.select(-1, -1));
    $("window").addEventListener("change", event => { state.window = +event.target.value; this.select(-1, -1); });
    window.addEventListener("resize", () => { this.map.fit(); this.redraw(); this.redrawDiagram(); });
    const repaint = () => { this.map.readColours(); this.redraw(); this.redrawDiagram(); };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    matchMedia("print").addEventListener("change", repaint);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -50, PageUp: 50 }[event.key];
    if (event.key === " ") this.play();
    else if (event.key === "Home") this.setTime(0, false);
    else if (event.key === "End") this.setTime(this.model.span, false);
    else if (step) this.setTime(this.state.time + step * this.model.span / 1000, false);
    else return;
    event.preventDefault();
  }

  setTime(us, whole) {
    const { state, facts } = this;
    state.time = Math.round(Math.min(this.model.span, Math.max(0, us)) * 1000) / 1000; // a whole ns, as commands name it
    state.stretch = Math.min(facts.stretches - 1, Math.floor(state.time / this.model.span * facts.stretches));
    state.whole = whole;
    $("whole").checked = whole;
    $("time").value = state.time / this.model.span * 1000;
    $("time").setAttribute("aria-valuetext", timeText(Math.round(state.time)));
    this.redraw();
    if (state.message < 0 && !this.playing) this.redrawDiagram();
  }

  play() {
    this.playing = !this.playing;
    $("play").textContent = this.playing ? "Pause" : "Play";
    $("play").setAttribute("aria-pressed", String(this.playing));
    if (!this.playing) {
      this.redrawDiagram();
      return;
    }
    if (this.state.time >= this.model.span) this.state.time = 0;
    let last = performance.now();
    const frame = now => {
      if (!this.playing) return;
      this.setTime(this.state.time + (now - last) * 1000 * +$("speed").value, false);
      last = now;
      if (this.state.time >= this.model.span) this.play();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  redraw() {
    this.map.draw();
    $("clock").textContent = this.state.whole ? "the whole run" : timeText(Math.round(this.state.time));
    $("map-command").textContent = this.mapCommand();
    const { told, partly } = this.map, { show } = this.state, number = value => value.toLocaleString("en", { maximumFractionDigits: 0 });
    const what = { traffic: ["messages on a link", "events at a broker"], load: ["", "of the time at work at a broker"], tables: ["", "entries at a broker"], waste: ["wasted copies on a link", "at a broker"] }[show];
    const most = [what[0] && `${number(told.linkMost)} ${what[0]}`, `${show === "load" ? shareText(told.atMost) : number(told.atMost)} ${what[1]}`].filter(Boolean).join(", ");
    const whole = show === "load" && !this.map.worksOverTime ? ["load is of the whole run and of all services"] : [];
    $("legend").textContent = [`strongest and widest: ${most}`, ...whole, ...partly].join("; ");
  }

  redrawDiagram() {
    $("diagram-said").textContent = this.diagram.draw();
    $("diagram-command").textContent = this.diagramCommand();
  }

  // What draws the map as a file, and the diagram.
  mapCommand() {
    const { state } = this, at = state.whole ? "" : ` --at ${secondsTyped(state.time)}`;
    return `${this.facts.plot} --kind overlay --metric ${state.show}${this.serviceTyped()}${at}${this.messageTyped()}`;
  }

  diagramCommand() {
    const { begin, end } = this.diagram.window(), way = this.messageTyped();
    return `${this.facts.plot} --kind space-time${way || `${this.serviceTyped()} --from ${secondsTyped(begin)} --to ${secondsTyped(end)}`}`;
  }

  linkCommand(link) {
    const { columns } = this.model, ends = [columns.link_from[link], columns.link_to[link]].map(each => shellWord(this.model.broker(each)));
    const line = element("p", undefined, "command"), code = element("code", `${this.facts.plot} --kind link --link ${ends.join(" ")}${this.serviceTyped()}`);
    code.id = "link-command";
    line.append(code);
    return line;
  }

  serviceTyped() { return this.state.service < 0 ? "" : ` --service ${this.facts.typed[this.state.service]}`; }

  messageTyped() { return this.state.hops.length ? ` --message ${this.model.message(this.state.message)}` : ""; }

  press(x, y) {
    const loss = this.map.lossAt(x, y);
    if (loss >= 0) {
      this.showLoss(loss);
      return;
    }
    const link = this.map.nearest(x, y, this.map.radius + 5) < 0 ? this.map.linkAt(x, y) : -1;
    if (link >= 0) this.pickLink(link);
    else this.pick(this.map.nearest(x, y));
  }

  pickLink(link) {
    this.state.link = link;
    this.redraw();
    this.showLink();
  }

  showLink() {
    const { link, service } = this.state;
    $("link").value = link < 0 ? "" : this.model.linkName(link);
    $("curve").replaceChildren(...(link < 0 ? [] : [...linkCurve(this.model, link, service), this.linkCommand(link)]));
  }

  pick(broker) {
    this.state.broker = broker;
    this.redraw();
    if (broker < 0) {
      $("said").textContent = "No broker is chosen.";
      return;
    }
    const { facts, model, map } = this, clients = [...model.home].filter(([, at]) => at === broker).length;
    const linked = new Set();
    for (let link = 0; link < model.links; link++) if (model.columns.link_from[link] === broker) linked.add(model.broker(model.columns.link_to[link]));
    const what = { traffic: "events", load: "of the time at work", tables: "table entries", waste: "wasted copies" }[this.state.show];
    const much = this.state.show === "load" ? shareText(map.told.at[broker]) : map.told.at[broker].toLocaleString("en");
    $("said").textContent = `${facts.brokers[broker]}: ${much} ${what}, ${clients} clients, ` +
      `linked to ${[...linked].slice(0, 12).join(", ")}${linked.size > 12 ? " and others" : ""}.`;
    $("broker").value = facts.brokers[broker];
  }

  select(message, client) {
    const { state, model } = this;
    state.message = message;
    state.hops = message >= 0 ? model.hopsOf(message) : [];
    state.home = client >= 0 ? model.home.get(client) ?? -1 : -1;
    if (message >= 0) {
      $("message").value = model.message(message);
      const last = state.hops.length ? model.finish(state.hops[state.hops.length - 1]) : 0;
      this.setTime(last, false);
      $("answer").replaceChildren(...this.why.told(message, client));
    } else $("answer").replaceChildren();
    this.redraw();
    this.redrawDiagram();
  }

  showCase() {
    const fact = this.facts.cases[$("case").value];
    if (!fact) return;
    $("explained").replaceChildren(...explained(fact));
    if (this.begun) {
      $("client").value = fact.client;
      this.select(this.model.find(fact.message), fact.client);
    }
    this.begun = true;
  }

  showLoss(row) {
    if (row < 0) return;
    const { lost_message: message, lost_client: client } = this.model.columns;
    if (message[row] < 0) {
      $("answer").replaceChildren(element("p", this.why.lossText(row)), element("p", "It belonged to no message of a client."));
      return;
    }
    $("client").value = client[row] >= 0 ? client[row] : "";
    this.select(message[row], client[row]);
  }

  // Changes that never settled, then those that took longest.
  listChanges() {
    const { model } = this, { change_issued: issued, change_settled: settled, change_message: message, change_service: service, change_operation: operation } = model.columns;
    const took = row => settled[row] < 0 ? Infinity : settled[row] - issued[row];
    const rows = Array.from(issued.keys()).filter(row => issued[row] >= 0).sort((a, b) => took(a) === took(b) ? a - b : took(b) - took(a));
    const shown = rows.slice(0, CHANGES_MOST), never = rows.filter(row => settled[row] < 0).length, number = value => value.toLocaleString("en");
    $("change").append(new Option("choose one", -1), ...shown.map(row => new Option(`${model.message(message[row])}, ${this.facts.services[service[row]].name} ` +
      `${model.type(service[row], operation[row])}: ${settled[row] < 0 ? "never settled" : `settled after ${timeText(took(row))}`}`, row)));
    $("changes-of").textContent = `(${number(shown.length)} of ${number(rows.length)}; ${number(never)} never settled)`;
    $("changes").hidden = !rows.length;
  }

  showChange(row) {
    if (row < 0) return;
    const { change_message: message, change_client: client } = this.model.columns;
    $("client").value = client[row];
    this.select(message[row], client[row]);
  }

  find() {
    const name = $("message").value, message = this.model.find(name);
    const client = /^\d+$/.test($("client").value.trim()) ? +$("client").value : -1;
    if (message < 0) {
      const sampled = this.facts.share < 1 ? ` It holds ${this.facts.share_text} of all messages.` : "";
      $("answer").replaceChildren(element("p", `This file has no message ${JSON.stringify(name)}; they are named client#number, as in 0#1.${sampled}`));
      return;
    }
    this.select(message, client);
  }

  along(step) {
    const { sent_message: message, sent_service: service } = this.model.columns, { state } = this;
    let at = this.model.publicationOf.get(state.message) ?? (step > 0 ? -1 : message.length);
    do at += step; while (at >= 0 && at < message.length && state.service >= 0 && service[at] !== state.service);
    if (at < 0 || at >= message.length) return;
    this.select(message[at], /^\d+$/.test($("client").value.trim()) ? +$("client").value : -1);
  }
}

async function start() {
  const facts = JSON.parse($("facts").textContent);
  facts.cases = await inflated($("cases").textContent).json();
  const page = new Page(facts, await unpack(facts.columns, $("columns").textContent));
  window.brokerlab = page; // for whoever opens the console, and for tests
  $("waiting").hidden = true;
  $("live").hidden = false;
  page.map.fit();
  page.redraw();
  page.redrawDiagram();
  performance.mark("ready");
  document.documentElement.dataset.ready = "yes";
}

start().catch(error => {
  $("waiting").textContent = `The pictures cannot be drawn here (${error.message}); all else can be read.`;
  throw error;
});
