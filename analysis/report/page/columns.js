"use strict";
// Columns as they were packed: base64, deflate, byte planes, zigzag, differences.

function inflated(text) {
  const packed = atob(text.trim());
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
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
