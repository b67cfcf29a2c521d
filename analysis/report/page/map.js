"use strict";
// The overlay on a canvas: what is under way at a time above what was counted around that time.

const RAMP = 8, DOTS_MOST = 6000, SEEN_MOST = 4 * DOTS_MOST, LOSSES_MOST = 500, FADES = 4;
// Of services, as in figures of `brokerlab plot`: paths around 0, one in each direction.
const SHAPES = ["M-.9-.9H.9V.9H-.9Z", "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z", "M0-1L1 0L0 1L-1 0Z", "M0-1L1 .8H-1Z", "M0 1L1-.8H-1Z",
  "M-.35-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z", "M-1-.6L-.6-1L0-.4L.6-1L1-.6L.4 0L1 .6L.6 1L0 .4L-.6 1L-1 .6L-.4 0Z",
  "M0-1L.25-.35L.95-.31L.4 .13L.59 .81L0 .43L-.59 .81L-.4 .13L-.95-.31L-.25-.35Z"];
const PATHS = SHAPES.map(shape => new Path2D(shape));
const SHAPE_NAMES = ["squares", "circles", "diamonds", "triangles", "triangles upside down", "plus signs", "crosses", "stars"];

// Some of many, from the first to the last, at the same distance.
function spread(many, most) {
  const step = Math.max(1, Math.ceil(many.length / most));
  return step === 1 ? many : many.filter((_, at) => at % step === 0);
}

class OverlayMap {
  constructor(canvas, model, state) {
    Object.assign(this, { canvas, model, state, dots: 0 });
    this.pen = canvas.getContext("2d");
    this.base = document.createElement("canvas");
    this.readColours();
    this.fit();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const colour = name => style.getPropertyValue(name).trim();
    this.colour = Object.fromEntries(["page", "ink", "dim", "line", "bad", "light", "accent"].map(name => [name, colour(`--${name}`)]));
    this.ramp = Array.from({ length: RAMP }, (_, i) => colour(`--q${i}`));
    this.ofService = Array.from({ length: 8 }, (_, i) => colour(`--s${i}`));
    this.stale = true;
  }

  // The sign of a service at a place: filled, or a line of some width. Squares are quickest as rectangles.
  sign(pen, service, radius, line, x, y) {
    const number = service % SHAPES.length, { ratio } = this;
    pen.fillStyle = pen.strokeStyle = this.ofService[number];
    if (number) {
      pen.setTransform(radius * ratio, 0, 0, radius * ratio, x * ratio, y * ratio);
      pen.lineWidth = line / radius;
      if (line) pen.stroke(PATHS[number]);
      else pen.fill(PATHS[number]);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      return;
    }
    const half = radius * .9, side = 2 * half, left = x - half, top = y - half;
    if (!line) pen.fillRect(left, top, side, side);
    else {
      pen.fillRect(left, top, side, line);
      pen.fillRect(left, top + side - line, side, line);
      pen.fillRect(left, top, line, side);
      pen.fillRect(left + side - line, top, line, side);
    }
  }

  fit() {
    const ratio = this.ratio = Math.min(2, window.devicePixelRatio || 1);
    const { clientWidth, clientHeight } = this.canvas;
    this.width = clientWidth || 1000;
    this.height = clientHeight || 560;
    for (const each of [this.canvas, this.base]) {
      each.width = Math.round(this.width * ratio);
      each.height = Math.round(this.height * ratio);
      each.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    const { place_x: x, place_y: y } = this.model.columns;
    const margin = 26, side = Math.max(1, Math.min(this.height, this.width) - 2 * margin);
    const wide = Math.max(1, this.width - 2 * margin);
    // The shorter side of the places is stretched no more than twice: a map stays a map.
    const stretch = this.model.facts.geographic ? 1 : Math.min(2, wide / side);
    const left = (this.width - side * stretch) / 2, top = (this.height - side) / 2;
    this.x = Float32Array.from(x, value => left + value / 65535 * side * stretch);
    this.y = Float32Array.from(y, value => top + value / 65535 * side);
    this.radius = Math.max(1.5, Math.min(9, 90 / Math.sqrt(x.length)));
    this.stale = true;
  }

  // Counts of a service, or of all, in a stretch of time, or in all: by link or by broker.
  counts(name, places) {
    const { model, state } = this, { services, stretches } = model.facts;
    const column = model.columns[name], found = new Float64Array(places);
    if (!column.length) return found;
    if (name === "work" && !this.worksOverTime) return Float64Array.from(column);
    const from = state.whole ? 0 : state.stretch, to = state.whole ? stretches - 1 : state.stretch;
    for (let service = 0; service < services.length; service++) {
      if (state.service >= 0 && service !== state.service) continue;
      for (let place = 0; place < places; place++) {
        const row = (service * places + place) * stretches;
        if (name === "entries") found[place] += column[row + to];
        else for (let stretch = from; stretch <= to; stretch++) found[place] += column[row + stretch];
      }
    }
    return found;
  }

  // Whether load is known of a stretch of time and of a service.
  get worksOverTime() { return this.model.columns.work.length > this.model.facts.brokers.length; }

  // The time of which work is a share.
  get available() {
    const { model, state } = this;
    return state.whole || !this.worksOverTime ? model.facts.lasts_us : model.span / model.facts.stretches;
  }

  // The largest count there is in any stretch, so that colours mean the same at all times.
  most(name, places) {
    const key = `${name} ${this.state.service} ${this.state.whole}`;
    this.largest ??= new Map();
    if (!this.largest.has(key)) {
      const { stretch, whole } = this.state;
      let most = 0;
      for (let each = 0; each < (whole ? 1 : this.model.facts.stretches); each++) {
        this.state.stretch = each;
        for (const value of this.counts(name, places)) most = Math.max(most, value);
      }
      this.state.stretch = stretch;
      this.largest.set(key, most);
    }
    return this.largest.get(key);
  }

  measured() {
    const { model } = this, brokers = model.facts.brokers.length, show = this.state.show;
    if (show === "load") {
      const { available } = this, at = this.counts("work", brokers).map(us => us / available);
      return { links: new Float64Array(model.links), at, linkMost: 0, atMost: this.most("work", brokers) / available };
    }
    if (show === "tables") {
      const at = this.counts("entries", brokers);
      return { links: new Float64Array(model.links), at, linkMost: 0, atMost: this.most("entries", brokers) };
    }
    const [onLinks, atBrokers] = show === "waste" ? ["waste_links", "waste_brokers"] : ["on_links", "at_brokers"];
    const links = this.counts(onLinks, model.links), at = this.counts(atBrokers, brokers);
    return { links, at, linkMost: this.most(onLinks, model.links), atMost: this.most(atBrokers, brokers) };
  }

  // A link that arises at times is there while it carries something, of whichever service.
  isThere(link) {
    const { model, state } = this, { services, stretches } = model.facts, carried = model.columns.on_links;
    if (state.whole || !model.columns.link_latent[link] || !carried.length) return true;
    for (let service = 0; service < services.length; service++)
      for (const each of [link, link + 1])
        if (carried[(service * model.links + each) * stretches + state.stretch]) return true;
    return false;
  }

  level(value, most) { return most && value ? Math.min(RAMP - 1, 1 + Math.floor(value / most * (RAMP - 1))) : 0; }

  drawBase() {
    const pen = this.base.getContext("2d"), { model } = this;
    const { link_from: a, link_to: b } = model.columns;
    const told = this.told = this.measured();
    pen.fillStyle = this.colour.page;
    pen.fillRect(0, 0, this.width, this.height);
    const byLevel = Array.from({ length: RAMP }, () => []);
    for (let link = 0; link < model.links; link += 2) // both directions on one line
      if (this.isThere(link)) byLevel[this.level(Math.max(told.links[link], told.links[link + 1]), told.linkMost)].push(link);
    byLevel.forEach((links, level) => {
      pen.strokeStyle = level ? this.ramp[level] : this.colour.line;
      pen.lineWidth = (level ? 1 + level * .7 : .8) * Math.min(1, this.radius / 4);
      pen.beginPath();
      for (const link of links) {
        pen.moveTo(this.x[a[link]], this.y[a[link]]);
        pen.lineTo(this.x[b[link]], this.y[b[link]]);
      }
      pen.stroke();
    });
    const nodes = Array.from({ length: RAMP }, () => []);
    for (let broker = 0; broker < this.x.length; broker++) nodes[this.level(told.at[broker], told.atMost)].push(broker);
    nodes.forEach((brokers, level) => {
      pen.fillStyle = this.ramp[level];
      pen.strokeStyle = this.colour.dim;
      pen.lineWidth = .7;
      pen.beginPath();
      for (const broker of brokers) {
        const radius = this.radius * (.6 + level * .09);
        pen.moveTo(this.x[broker] + radius, this.y[broker]);
        pen.arc(this.x[broker], this.y[broker], radius, 0, 7);
      }
      pen.fill();
      if (this.x.length <= 3000) pen.stroke();
    });
    if (this.x.length <= 80) {
      pen.fillStyle = this.colour.ink;
      pen.font = "11px system-ui, sans-serif";
      for (let broker = 0; broker < this.x.length; broker++)
        pen.fillText(model.broker(broker).slice(0, 14), this.x[broker] + this.radius + 2, this.y[broker] - 3);
    }
    this.stale = false;
  }

  draw() {
    const { pen, state } = this;
    const key = `${state.show} ${state.service} ${state.whole} ${state.stretch}`;
    if (this.stale || key !== this.drawn) {
      this.drawBase();
      this.drawn = key;
    }
    pen.drawImage(this.base, 0, 0, this.width, this.height);
    this.partly = [];
    this.drawFaults();
    if (state.message >= 0) this.drawWay();
    if (!state.whole) {
      this.drawDots();
      this.drawFlashes();
    }
    this.drawLosses();
    this.drawMarks();
  }

  line(link) {
    const { link_from: a, link_to: b } = this.model.columns;
    this.pen.moveTo(this.x[a[link]], this.y[a[link]]);
    this.pen.lineTo(this.x[b[link]], this.y[b[link]]);
  }

  drawFaults() {
    const { pen, state, model } = this, { fault_what: what, fault_broker: at, fault_link: on, fault_begin: begin, fault_end: end } = model.columns;
    this.faultsShown = 0;
    for (let row = 0; row < what.length; row++) {
      const now = begin[row] <= state.time && (end[row] < 0 || state.time < end[row]);
      if (!now && !state.whole) continue;
      this.faultsShown++;
      pen.strokeStyle = this.colour.bad;
      pen.lineWidth = 2.5;
      pen.setLineDash(what[row] === 1 || what[row] === 3 ? [2, 3] : [6, 4]);
      pen.beginPath();
      if (at[row] >= 0) {
        const [x, y, r] = [this.x[at[row]], this.y[at[row]], this.radius + 4];
        if (what[row] === 0) {
          pen.setLineDash([]);
          pen.moveTo(x - r, y - r); pen.lineTo(x + r, y + r); pen.moveTo(x + r, y - r); pen.lineTo(x - r, y + r);
        } else pen.arc(x, y, r, 0, 7);
      } else if (on[row] >= 0) this.line(on[row] & ~1); // the same dashes for both directions
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  drawWay() {
    const { pen, state, model } = this, { hop_time: time, hop_at: at } = model.columns;
    const until = state.whole ? Infinity : state.time;
    pen.strokeStyle = this.colour.light;
    pen.lineWidth = 5;
    pen.globalAlpha = .85;
    pen.beginPath();
    const reached = new Set();
    for (const hop of state.hops) {
      if (time[hop] > until) continue;
      reached.add(model.hopBroker[hop]);
      if (model.isLink(hop)) this.line(at[hop]);
    }
    pen.stroke();
    pen.lineWidth = 3;
    pen.beginPath();
    for (const broker of reached) {
      pen.moveTo(this.x[broker] + this.radius + 3, this.y[broker]);
      pen.arc(this.x[broker], this.y[broker], this.radius + 3, 0, 7);
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  drawDots() {
    const { pen, model, state } = this, { hop_at: at, hop_time: time, hop_service: service, hop_payload: payload } = model.columns;
    const { link_from: a, link_to: b } = model.columns;
    const first = model.firstAt(state.time), last = model.firstAt(state.time + model.longest);
    const step = Math.max(1, Math.ceil((last - first) / SEEN_MOST)), radius = Math.max(2.2, this.radius * .4), underWay = [];
    for (let place = first; place < last; place += step) {
      const hop = model.inTime[place], link = at[hop];
      if (link >= model.links || (state.service >= 0 && service[hop] !== state.service)) continue;
      if (time[hop] - state.time <= model.delay(link)) underWay.push(hop);
    }
    const drawn = spread(underWay, DOTS_MOST);
    this.dots = drawn.length;
    this.tellPart(this.dots, underWay.length * step, step > 1 ? "about " : "", "messages under way");
    for (const hop of drawn) {
      const link = at[hop], part = 1 - (time[hop] - state.time) / model.delay(link), from = a[link], to = b[link];
      const across = this.x[to] - this.x[from], down = this.y[to] - this.y[from];
      const long = Math.hypot(across, down) || 1;
      const x = this.x[from] + across * part - down / long * 3, y = this.y[from] + down * part + across / long * 3;
      this.sign(pen, service[hop], radius, payload[hop] ? 0 : 1, x, y);
    }
  }

  // What is said beside the map where not all is drawn.
  tellPart(shown, of, about, what) {
    if (shown < of) this.partly.push(`${shown.toLocaleString("en")} of ${about}${of.toLocaleString("en")} ${what} are drawn`);
  }

  // The sign of its service widens and fades around a broker that just delivered: one for each.
  drawFlashes() {
    const { pen, model, state } = this, { delivering } = model, since = state.time - state.flash;
    const rings = new Map(); // by broker, the last in the end
    this.flashes = 0;
    for (let place = firstOf(delivering.length, each => delivering[each][0] > since); place < delivering.length; place++) {
      const [us, broker, service, count] = delivering[place];
      if (us > state.time) break;
      if (state.service >= 0 && service !== state.service) continue;
      rings.set(broker, Math.floor((state.time - us) / state.flash * FADES) * 8 + service % 8);
      this.flashes += count;
    }
    for (const [broker, ring] of rings) {
      const fade = Math.floor(ring / 8);
      pen.globalAlpha = 1 - fade / FADES;
      this.sign(pen, ring % 8, this.radius + 3 + 2 * fade, 2, this.x[broker], this.y[broker]);
    }
    pen.globalAlpha = 1;
  }

  drawLosses() {
    const { pen, model, state } = this, { lost_time: time, lost_link: on, lost_service: service, lost_message: message } = model.columns;
    const since = state.whole ? -1 : state.time - model.span / 100, until = state.whole ? Infinity : state.time;
    pen.strokeStyle = this.colour.bad;
    pen.lineWidth = 2;
    pen.beginPath();
    const fits = [];
    this.lossPlaces = [];
    for (let row = 0; row < time.length; row++) {
      if (time[row] < since || time[row] > until || on[row] < 0) continue;
      if (state.service >= 0 && service[row] !== state.service) continue;
      if (state.message < 0 || message[row] === state.message) fits.push(row);
    }
    const drawn = spread(fits, LOSSES_MOST);
    this.tellPart(drawn.length, fits.length, "", "losses");
    for (const row of drawn) {
      const from = model.columns.link_from[on[row]], to = model.columns.link_to[on[row]];
      const x = this.x[from] * .35 + this.x[to] * .65, y = this.y[from] * .35 + this.y[to] * .65;
      pen.moveTo(x - 4, y - 4); pen.lineTo(x + 4, y + 4); pen.moveTo(x + 4, y - 4); pen.lineTo(x - 4, y + 4);
      this.lossPlaces.push([x, y, row]);
    }
    pen.stroke();
  }

  // The loss that is drawn at a place, -1 if none is. Where several lie on one another it is the last.
  lossAt(x, y) {
    for (const [across, down, row] of [...this.lossPlaces].reverse())
      if (Math.abs(across - x) <= 6 && Math.abs(down - y) <= 6) return row;
    return -1;
  }

  drawMarks() {
    const { pen, state } = this;
    for (const [broker, colour] of [[state.broker, this.colour.accent], [state.home, this.colour.ink]]) {
      if (broker < 0) continue;
      const r = this.radius + 6;
      pen.strokeStyle = colour;
      pen.lineWidth = 2.5;
      pen.setLineDash([r * .8, r * 1.2]); // corners alone: squares are a service's
      pen.lineDashOffset = r * .4;
      pen.strokeRect(this.x[broker] - r, this.y[broker] - r, 2 * r, 2 * r);
    }
    pen.setLineDash([]);
    if (state.link < 0) return;
    pen.strokeStyle = this.colour.accent;
    pen.lineWidth = 4;
    pen.beginPath();
    this.line(state.link);
    pen.stroke();
  }

  // The link that is drawn through a place, -1 if none is.
  linkAt(x, y) {
    const { link_from: a, link_to: b } = this.model.columns;
    let found = -1, least = 5;
    for (let link = 0; link < this.model.links; link += 2) {
      if (!this.isThere(link)) continue;
      const across = this.x[b[link]] - this.x[a[link]], down = this.y[b[link]] - this.y[a[link]];
      const along = ((x - this.x[a[link]]) * across + (y - this.y[a[link]]) * down) / (across ** 2 + down ** 2 || 1);
      const part = Math.min(1, Math.max(0, along));
      const far = Math.hypot(this.x[a[link]] + part * across - x, this.y[a[link]] + part * down - y);
      if (far < least) [found, least] = [link, far];
    }
    return found;
  }

  nearest(x, y, within = 24) {
    let found = -1, least = within * within;
    for (let broker = 0; broker < this.x.length; broker++) {
      const far = (this.x[broker] - x) ** 2 + (this.y[broker] - y) ** 2;
      if (far < least) [found, least] = [broker, far];
    }
    return found;
  }
}
