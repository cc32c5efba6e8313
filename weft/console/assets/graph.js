// The plan as a graph: streams, stores, probes and results, each with the queries that use it.
// Made of what explain says (`plan.topology`), so that both show the same.

// A query over derived rows reads a stream whose name begins with "#"; parts with that name and a number fill it.
export const isPart = (name) => name.startsWith("#");
const fills = (query, stream) => isPart(query) && query.replace(/-\d+$/, "") === stream;

// Some queries, with the parts that they read.
function withParts(topology, query) {
  const found = new Set([query]);
  for (const name of found) {
    const read = topology.edges.filter((edge) => isPart(edge.stream) && edge.starts.some((start) => start.split(".")[0] === name));
    for (const edge of read) for (const one of topology.queries) if (fills(one.query, edge.stream)) found.add(one.query);
  }
  return found;
}

export function makeGraph(topology, chosen) {
  const nodes = new Map(), links = new Map(), stream = {}, only = chosen ? withParts(topology, chosen) : null;
  const want = (query) => !only || only.has(query);
  const add = (id, kind, facts, query) => {
    const node = nodes.get(id) ?? { id, kind, ...facts, queries: new Set() };
    if (query) node.queries.add(query);
    nodes.set(id, node);
    return id;
  };
  const join = (from, to, kind, query) => {
    const id = `${from} ${to} ${kind}`;
    const link = links.get(id) ?? { from, to, kind, queries: new Set() };
    if (query) link.queries.add(query);
    links.set(id, link);
  };
  const stores = Object.fromEntries(topology.stores.map((store) => [store.name, store]));
  const users = (store) => [...new Set(store.users.map((user) => user.split(".")[0]))].filter(want);
  for (const edge of topology.edges) for (const start of edge.starts) stream[start] = edge;
  for (const store of topology.stores) for (const query of users(store)) add(`store ${store.name}`, "store", { store }, query);
  for (const edge of topology.edges) {
    const queries = new Set(edge.starts.map((start) => start.split(".")[0]).filter(want));
    for (const name of edge.stores) {
      for (const query of users(stores[name])) {
        add(`stream ${edge.stream}`, "stream", { name: edge.stream }, query);
        join(`stream ${edge.stream}`, `store ${name}`, "keep", query);
      }
    }
    for (const query of queries) add(`stream ${edge.stream}`, "stream", { name: edge.stream }, query);
  }
  for (const { query, ways, results } of topology.queries.filter((one) => want(one.query))) {
    const end = add(`result ${query}`, "result", { name: query, results, last: !isPart(query) }, query);
    for (const edge of topology.edges) if (fills(query, edge.stream)) join(end, `stream ${edge.stream}`, "go", query);
    for (const way of ways) {
      const edge = stream[`${query}.${way.alias}`];
      if (!edge) continue;
      let at = `stream ${edge.stream}`;
      for (const part of way.parts) {
        if (part.kind === "keep") join(at, `store ${part.store}`, "keep", query);
        else {
          const probe = add(`probe ${part.id}`, "probe", { probe: part, alias: way.alias, least: 2 }, query);
          join(at, probe, "go", query);
          join(`store ${part.store}`, probe, "look", query);
          at = probe;
        }
      }
      if (way.fills !== null) continue;
      const groups = topology.stores.filter((store) => store.placement[0] === "keys of the groups" && users(store).includes(query));
      for (const store of groups) join(at, `store ${store.name}`, "keep", query);
      if (!groups.length) join(at, end, "go", query);
      for (const store of groups) join(`store ${store.name}`, end, "look", query);
    }
  }
  return { nodes: [...nodes.values()], links: [...links.values()].filter((link) => nodes.has(link.from) && nodes.has(link.to)) };
}

// Many queries at once: only streams, stores and results; a store leads to the results of its users.
export function makeOverview(topology) {
  const whole = makeGraph(topology);
  const nodes = whole.nodes.filter((node) => node.kind !== "probe");
  const links = whole.links.filter((link) => (link.kind === "keep" && link.from.startsWith("stream")) || link.to.startsWith("stream"));
  for (const node of nodes) {
    if (node.kind !== "store") continue;
    for (const query of node.queries) links.push({ from: node.id, to: `result ${query}`, kind: "look", queries: new Set([query]) });
  }
  return { nodes, links };
}
