// A drawing of a directed graph in layers, from left to right (after Sugiyama): every node stands right of all that lead
// to it; long links pass through places of their own; the order in a layer follows the neighbours, so few links cross.
// nodes: [{id, width, height, least?, last?}], links: [{from, to}]. Sets x and y of nodes and `path` of links; returns the
// size. `least` is the first layer that a node may stand in; `last` puts it into the last one.

const GAP = { x: 70, y: 18 };
const SWEEPS = 8;

export function layout(nodes, links) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const forward = withoutCycles(nodes, links.filter((link) => byId.has(link.from) && byId.has(link.to)));
  const layer = findLayers(nodes, forward);
  const { layers, chains } = addPlaces(nodes, forward, layer);
  order(layers);
  place(layers);
  for (const [link, chain] of chains) link.path = curve(chain);
  const all = layers.flat();
  return { width: Math.max(0, ...all.map((node) => node.x + node.width)) + 20, height: Math.max(0, ...all.map((node) => node.y + node.height)) + 20 };
}

// Links that would close a circle are turned around for the layout.
function withoutCycles(nodes, links) {
  const after = new Map(nodes.map((node) => [node.id, []])), state = new Map(), back = new Set();
  for (const link of links) after.get(link.from).push(link);
  const visit = (id) => {
    state.set(id, 1);
    for (const link of after.get(id)) {
      if (state.get(link.to) === 1) back.add(link);
      else if (!state.has(link.to)) visit(link.to);
    }
    state.set(id, 2);
  };
  for (const node of nodes) if (!state.has(node.id)) visit(node.id);
  return links.map((link) => ({ link, from: back.has(link) ? link.to : link.from, to: back.has(link) ? link.from : link.to, turned: back.has(link) }));
}

function findLayers(nodes, links) {
  const into = new Map(nodes.map((node) => [node.id, 0])), after = new Map(nodes.map((node) => [node.id, []]));
  for (const link of links) {
    into.set(link.to, into.get(link.to) + 1);
    after.get(link.from).push(link.to);
  }
  const layer = new Map(nodes.map((node) => [node.id, node.least ?? 0])), ahead = nodes.filter((node) => !into.get(node.id)).map((node) => node.id);
  while (ahead.length) {
    const id = ahead.shift();
    for (const next of after.get(id)) {
      layer.set(next, Math.max(layer.get(next), layer.get(id) + 1));
      into.set(next, into.get(next) - 1);
      if (!into.get(next)) ahead.push(next);
    }
  }
  const last = Math.max(0, ...layer.values());
  for (const node of nodes) if (node.last) layer.set(node.id, last);
  return layer;
}

function addPlaces(nodes, links, layer) {
  const layers = Array.from({ length: Math.max(0, ...layer.values()) + 1 }, () => []);
  const byId = new Map();
  for (const node of nodes) {
    Object.assign(node, { left: [], right: [] });
    layers[layer.get(node.id)].push(node);
    byId.set(node.id, node);
  }
  const chains = new Map();
  for (const link of links) {
    const chain = [byId.get(link.from)];
    for (let at = layer.get(link.from) + 1; at < layer.get(link.to); at += 1) {
      const dummy = { dummy: true, width: 0, height: 6, left: [], right: [] };
      layers[at].push(dummy);
      chain.push(dummy);
    }
    chain.push(byId.get(link.to));
    for (let at = 1; at < chain.length; at += 1) {
      chain[at - 1].right.push(chain[at]);
      chain[at].left.push(chain[at - 1]);
    }
    chains.set(link.link, link.turned ? [...chain].reverse() : chain);
  }
  return { layers, chains };
}

function order(layers) {
  const number = (layer) => layer.forEach((node, at) => { node.at = at; });
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const right = sweep % 2 === 0;
    for (const layer of right ? layers : [...layers].reverse()) {
      for (const node of layer) {
        const near = right ? node.left : node.right;
        node.weight = near.length ? near.reduce((sum, other) => sum + other.at, 0) / near.length : node.at;
      }
      layer.sort((a, b) => a.weight - b.weight || a.at - b.at);
      number(layer);
    }
  }
}

function place(layers) {
  let x = 12;
  for (const layer of layers) {
    let y = 12;
    for (const node of layer) {
      Object.assign(node, { x, y });
      y += node.height + GAP.y;
    }
    const width = Math.max(0, ...layer.map((node) => node.width));
    x += width + GAP.x;
  }
  const middle = (node) => node.y + node.height / 2;
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const right = sweep % 2 === 0;
    for (const layer of right ? layers : [...layers].reverse()) {
      for (const node of layer) {
        const near = right ? node.left : node.right;
        if (near.length) node.wish = near.reduce((sum, other) => sum + middle(other), 0) / near.length - node.height / 2;
        else node.wish = node.y;
      }
      settle(layer);
    }
  }
  const top = Math.min(...layers.flat().map((node) => node.y));
  for (const node of layers.flat()) node.y += 12 - top;
}

// Nodes go as near to where they wish as their order and their heights allow: the sum of squares of all distances is the
// least there is (pool adjacent violators).
function settle(layer) {
  const blocks = [];
  let offset = 0;
  for (const node of layer) {
    node.offset = offset;
    offset += node.height + (node.dummy ? GAP.y / 3 : GAP.y);
    let block = { sum: node.wish - node.offset, nodes: [node] };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).nodes.length > block.sum / block.nodes.length) {
      const before = blocks.pop();
      block = { sum: before.sum + block.sum, nodes: [...before.nodes, ...block.nodes] };
    }
    blocks.push(block);
  }
  for (const block of blocks) for (const node of block.nodes) node.y = block.sum / block.nodes.length + node.offset;
}

// A line through the places of a chain of nodes.
export function curve(chain) {
  const ends = chain.map((node, at) => ({ x: node.x + (at === 0 ? node.width : 0), y: node.y + node.height / 2 }));
  let path = `M${ends[0].x},${ends[0].y}`;
  for (let at = 1; at < ends.length; at += 1) {
    const bend = Math.max(20, Math.abs(ends[at].x - ends[at - 1].x) / 2);
    path += `C${ends[at - 1].x + bend},${ends[at - 1].y} ${ends[at].x - bend},${ends[at].y} ${ends[at].x},${ends[at].y}`;
  }
  return path;
}
