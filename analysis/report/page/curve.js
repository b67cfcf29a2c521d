"use strict";
// What a link carried over time, as a small picture: a line for each direction.

const CURVE = { width: 560, height: 150, left: 46, right: 12, top: 12, bottom: 24 };

function svgElement(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Messages over a directed link by stretch of time, of a service or (-1) of all.
function carriedOver(model, link, service) {
  const { services, stretches } = model.facts, column = model.columns.on_links, found = new Array(stretches).fill(0);
  services.forEach((_, each) => {
    if (service >= 0 && each !== service) return;
    for (let stretch = 0; stretch < stretches; stretch++) found[stretch] += column[(each * model.links + link) * stretches + stretch];
  });
  return found;
}

// The picture of a link with its other direction, and the same in a sentence for each.
function linkCurve(model, link, service) {
  if (!model.columns.on_links.length) return [element("p", "What links carried over time needs trace level full.")];
  const { width, height, left, right, top, bottom } = CURVE, { stretches } = model.facts;
  const both = [link, link ^ 1].map(each => carriedOver(model, each, service));
  const most = Math.max(1, ...both.flat()), wide = (width - left - right) / stretches;
  const x = stretch => left + stretch * wide, y = count => height - bottom - count / most * (height - bottom - top);
  const length = timeText(Math.round(model.span / stretches));
  const said = both.map((counts, way) => {
    const total = counts.reduce((sum, each) => sum + each, 0), peak = Math.max(...counts);
    const when = total ? `, at most ${peak.toLocaleString("en")} in ${length}, from ${timeText(Math.round(counts.indexOf(peak) * model.span / stretches))} on` : "";
    return `${model.linkName(link ^ way)} (${way ? "dashed" : "solid"}): ${total.toLocaleString("en")} messages${when}.`;
  });
  const picture = svgElement("svg", { class: "chart", role: "img", "aria-label": `Messages in ${length}. ${said.join(" ")}`, width, height, viewBox: `0 0 ${width} ${height}` });
  picture.append(svgElement("path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }),
    svgElement("text", { class: "dim", x: left - 6, y: top + 8, "text-anchor": "end" }, most.toLocaleString("en")),
    svgElement("text", { class: "dim", x: left, y: height - 6 }, "0 s"),
    svgElement("text", { class: "dim", x: width - right, y: height - 6, "text-anchor": "end" }, timeText(Math.round(model.span))));
  both.forEach((counts, way) => {
    const steps = counts.map((count, stretch) => `${stretch ? "V" : `M${left} `}${y(count).toFixed(1)}H${x(stretch + 1).toFixed(1)}`);
    picture.append(svgElement("path", { class: `series s${way}`, d: steps.join("") }));
  });
  return [picture, ...said.map(text => element("p", text))];
}
