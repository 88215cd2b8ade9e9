// The data of the page: gzip of a safetensors file, in base64.
const byId = (id) => document.getElementById(id);

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text; // never as HTML
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

async function readData(text) {
  const packed = atob(text.trim());
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const table = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const types = { U8: Uint8Array, U16: Uint16Array, U32: Uint32Array, F32: Float32Array };
  const data = JSON.parse(table.__metadata__.gpcanet);
  data.arrays = {};
  delete table.__metadata__;
  for (const [name, { dtype, data_offsets: [begin, end] }] of Object.entries(table)) {
    const type = types[dtype];
    const count = (end - begin) / type.BYTES_PER_ELEMENT;
    data.arrays[name] = new type(buffer, 8 + length + begin, count);
  }
  data.n = data.ids.length;
  data.neighbors = neighborLists(data.n, data.arrays.edges);
  return data;
}

// Neighbours in CSR form from edges that are listed once.
function neighborLists(n, edges) {
  const start = new Uint32Array(n + 1);
  for (const node of edges) start[node + 1]++;
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const next = start.slice();
  const list = new Uint32Array(edges.length);
  for (let e = 0; e < edges.length; e += 2) {
    list[next[edges[e]]++] = edges[e + 1];
    list[next[edges[e + 1]]++] = edges[e];
  }
  return (node) => list.subarray(start[node], start[node + 1]);
}
