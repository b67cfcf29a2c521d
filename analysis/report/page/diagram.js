"use strict";
// Space and time: a row for each broker, time from left to right, a line for each message.

const LINES_MOST = 12000, ROWS_MOST = 400;

class Diagram {
  constructor(canvas, map, model, state) {
    Object.assign(this, { canvas, map, model, state });
    this.pen = canvas.getContext("2d");
  }

  // The events to draw and the time between which they are.
  window() {
    const { model, state } = this;
    if (state.message >= 0 && state.hops.length) {
      const { hop_time: time } = model.columns;
      const begin = time[state.hops[0]], end = state.hops.reduce((most, hop) => Math.max(most, model.finish(hop)), begin);
      const room = Math.max(50, (end - begin) * .06);
      return { hops: state.hops, begin: begin - room, end: end + room };
    }
    const begin = state.time, end = begin + state.window;
    const found = [];
    for (let place = model.firstAt(begin); place < model.sortedTime.length && model.sortedTime[place] < end; place++) {
      const hop = model.inTime[place];
      if (state.service < 0 || model.columns.hop_service[hop] === state.service) found.push(hop);
    }
    return { hops: found, begin, end };
  }

  draw() {
    const { pen, model, map, state } = this, ratio = Math.min(2, window.devicePixelRatio || 1);
    const width = this.canvas.clientWidth || 1000, height = this.canvas.clientHeight || 420;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = map.colour.page;
    pen.fillRect(0, 0, width, height);
    const { hops, begin, end } = this.window();
    const step = Math.max(1, Math.ceil(hops.length / LINES_MOST));
    const used = new Set();
    for (const hop of hops) {
      used.add(model.hopBroker[hop]);
      if (model.isLink(hop)) used.add(model.columns.link_from[model.columns.hop_at[hop]]);
    }
    const rows = Array.from(model.columns.place_order).filter(broker => used.has(broker)).slice(0, ROWS_MOST);
    const left = 90, top = 24, room = (height - top - 10) / Math.max(1, rows.length);
    const y = new Map(rows.map((broker, row) => [broker, top + room * (row + .5)]));
    const x = us => left + (us - begin) / Math.max(1, end - begin) * (width - left - 12);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = map.colour.dim;
    for (let tick = 0; tick <= 4; tick++) {
      const us = begin + (end - begin) * tick / 4;
      pen.textAlign = tick === 4 ? "right" : tick ? "center" : "left";
      pen.fillText(timeText(Math.max(0, Math.round(us))), x(us), 14);
    }
    pen.textAlign = "left";
    pen.strokeStyle = map.colour.line;
    pen.lineWidth = .6;
    pen.beginPath();
    rows.forEach((broker, row) => {
      pen.moveTo(left, y.get(broker));
      pen.lineTo(width - 12, y.get(broker));
      if (room >= 10 || row % Math.ceil(10 / room) === 0) pen.fillText(model.broker(broker).slice(0, 12), 6, y.get(broker) + 4);
    });
    pen.stroke();
    this.lines = 0;
    for (let at = 0; at < hops.length; at += step) {
      const hop = hops[at], arrives = model.columns.hop_time[hop], to = model.hopBroker[hop];
      if (!y.has(to)) continue;
      pen.strokeStyle = pen.fillStyle = map.ofService[model.columns.hop_service[hop] % 8];
      if (model.isLink(hop)) {
        const link = model.columns.hop_at[hop], from = model.columns.link_from[link];
        if (!y.has(from)) continue;
        pen.lineWidth = state.message >= 0 ? 1.6 : .9;
        pen.setLineDash(model.columns.hop_payload[hop] ? [] : [4, 3]);
        pen.beginPath();
        pen.moveTo(x(Math.max(begin, arrives - model.delay(link))), y.get(from));
        pen.lineTo(x(arrives), y.get(to));
        pen.stroke();
      }
      pen.fillRect(x(arrives), y.get(to) - 1.5, x(model.finish(hop)) - x(arrives), 3);
      pen.setLineDash([]);
      map.sign(pen, model.columns.hop_service[hop], state.message >= 0 ? 3.5 : 2.2, model.columns.hop_payload[hop] ? 0 : 1, x(arrives), y.get(to));
      this.lines++;
    }
    pen.strokeStyle = map.colour.bad;
    pen.lineWidth = 2;
    for (let row = 0; row < model.columns.lost_time.length; row++) {
      const us = model.columns.lost_time[row], link = model.columns.lost_link[row];
      if (us < begin || us > end || link < 0 || (state.message >= 0 && model.columns.lost_message[row] !== state.message)) continue;
      const from = y.get(model.columns.link_from[link]), to = y.get(model.columns.link_to[link]) ?? (from < height / 2 ? top : height - 10);
      if (from === undefined) continue;
      const middle = from + (to - from) * .4, across = x(us);
      pen.beginPath();
      pen.moveTo(across, from); pen.lineTo(across, middle);
      pen.moveTo(across - 4, middle - 4); pen.lineTo(across + 4, middle + 4);
      pen.moveTo(across + 4, middle - 4); pen.lineTo(across - 4, middle + 4);
      pen.stroke();
    }
    const told = [`${this.lines.toLocaleString("en")} events from ${timeText(Math.max(0, Math.round(begin)))} to ${timeText(Math.round(end))}`];
    if (step > 1) told.push(`one in ${step} of ${hops.length.toLocaleString("en")} is drawn`);
    if (used.size > rows.length) told.push(`${rows.length} of ${used.size} brokers are drawn`);
    return told.join("; ");
  }
}
