// Points of a run: rates, gaps between runs, and marks. A point covers the time from `since` to `until`.

export const total = (counts) => Object.values(counts ?? {}).reduce((sum, count) => sum + count, 0);
export const span = (point) => Math.max(point.until - point.since, 1e-3);

// Points of the last so many seconds before the newest one.
export function recent(points, length = 30) {
  const last = points.at(-1)?.until ?? 0;
  return points.filter((point) => last - point.until < length);
}

// Key -> count a second over some points, of one of their counters.
export function rates(points, counter) {
  const time = points.reduce((sum, point) => sum + span(point), 0), found = {};
  for (const point of points) for (const [key, count] of Object.entries(counter(point) ?? {})) found[key] = (found[key] ?? 0) + count;
  for (const key of Object.keys(found)) found[key] /= time || 1;
  return found;
}

// Times and one list of values for each series; a gap between two runs is null.
export function curves(points, series) {
  const times = [], lists = series.map(() => []);
  points.forEach((point, place) => {
    const before = points[place - 1];
    if (before && point.since > before.until + 1) {
      times.push((before.until + point.since) / 2);
      lists.forEach((list) => list.push(null));
    }
    times.push(point.until);
    series.forEach((one, at) => lists[at].push(one(point)));
  });
  return [times, ...lists];
}

// Names by size, the largest first; the rest is one.
export function largest(points, counter, most = 7) {
  const sums = {};
  for (const point of points) for (const [key, count] of Object.entries(counter(point) ?? {})) sums[key] = (sums[key] ?? 0) + count;
  const names = Object.keys(sums).sort((a, b) => sums[b] - sums[a] || (a < b ? -1 : 1));
  return { shown: names.slice(0, most).sort(), rest: names.slice(most) };
}

export function skew(point, now) {
  const workers = point.workers ?? now;
  const load = Object.values(point.load ?? {}), sum = total(point.load);
  return sum && workers ? (Math.max(...load) * workers) / sum : null;
}

// Starts, ends, kills and changes of plan, as marks on curves. A run that began again without an end was killed.
export function marks(events, points) {
  const found = [];
  let open = null;
  for (const event of events) {
    if (event.is === "start") {
      if (open) {
        const last = points.filter((point) => point.until < event.at).at(-1);
        found.push({ at: last?.until ?? open.at, kind: "killed", text: "the run was killed" });
      }
      found.push({ at: event.at, kind: "start", text: "a run began" });
      open = event;
    } else if (event.is === "end") {
      found.push({ at: event.at, kind: event.how, text: event.how === "failed" ? `the run failed: ${event.why}` : event.how === "done" ? "the run read all input and ended" : "the run was stopped" });
      open = null;
    } else if (event.is === "notice" && event.kind === "plan-changed") found.push({ at: event.at, kind: "plan", text: event.message, detail: event.detail });
    else if (event.is === "notice") found.push({ at: event.at, kind: "notice", text: event.message, detail: event.detail });
  }
  return found.sort((a, b) => a.at - b.at);
}
