"use strict";
// Columns as they were packed: five letters for four bytes, deflate, byte planes, zigzag, differences.

const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%:()*+-;,=.?@^_`{|}~";

function inflated(text) {
  const packed = text.trim(), bytes = new Uint8Array(Math.floor(packed.length * 4 / 5)), value = new Uint8Array(128);
  for (let i = 0; i < LETTERS.length; i++) value[LETTERS.charCodeAt(i)] = i;
  for (let from = 0, to = 0; from < packed.length; from += 5, to += 4) {
    let word = 0;
    for (let i = 0; i < 5; i++) word = word * 85 + (from + i < packed.length ? value[packed.charCodeAt(from + i)] : 84);
    for (let i = 0; i < 4 && to + i < bytes.length; i++) bytes[to + i] = word >>> (24 - 8 * i);
  }
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
}

async function unpack(directory, text) {
  const plain = new Uint8Array(await inflated(text).arrayBuffer());
  const columns = {};
  let at = 0;
  for (const { name, rows, planes, running, wide } of directory) {
    const column = wide || planes > 4 ? new Float64Array(rows) : new Int32Array(rows);
    let sum = 0;
    for (let row = 0; row < rows; row++) {
      let value = 0;
      for (let plane = planes - 1; plane >= 0; plane--) value = value * 256 + plain[at + plane * rows + row];
      value = value % 2 ? -(value + 1) / 2 : value / 2;
      if (running) value = sum += value;
      column[row] = value;
    }
    at += planes * rows;
    columns[name] = column;
  }
  return columns;
}
