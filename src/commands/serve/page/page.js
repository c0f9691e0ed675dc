// The live page of raidtrace serve. Text from the server is only ever set as text, never as HTML.
"use strict";

const POINT_SECONDS = 10;
const HOUR = 3600;
const $ = (id) => document.getElementById(id);

let token = sessionStorage.getItem("token") || "";
let points = [];
let pointsAt = 0;
let cursor = null; // index from the newest point; null: none
let lastInterval = 0;
const cards = new Map();

// ---- elements ----

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A heading for a column of left-aligned text. */
const words = (text, className = "") => {
  const head = make("th", ("text " + className).trim(), text);
  head.scope = "col";
  return head;
};

function row(kind, cells) {
  const line = make("tr");
  cells.forEach((cell, i) => {
    if (cell instanceof Node) line.append(cell);
    else {
      const head = kind === "th" || i === 0;
      const item = make(head ? "th" : "td", "", cell);
      if (head) item.scope = kind === "th" ? "col" : "row";
      line.append(item);
    }
  });
  return line;
}

function table(className, caption, heads, lines) {
  const whole = make("table", className);
  whole.setAttribute("aria-label", caption);
  const head = make("thead");
  head.append(row("th", heads));
  const body = make("tbody");
  body.append(...lines);
  whole.append(head, body);
  const wide = make("div", "wide");
  wide.append(whole);
  return wide;
}

// ---- units ----

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i += 1; }
  return (i === 0 || n >= 100 ? n.toFixed(0) : n.toFixed(1)) + " " + units[i];
}

function count(n) {
  if (n >= 1e6) return (n / 1e6).toFixed(1) + " M";
  if (n >= 1e4) return (n / 1e3).toFixed(0) + " k";
  return n >= 10 || n === 0 ? n.toFixed(0) : n.toFixed(1);
}

function micros(us) {
  if (us === null || us === undefined) return "–";
  if (us >= 1e6) return (us / 1e6).toFixed(1) + " s";
  if (us >= 1e3) return (us / 1e3).toFixed(us >= 1e5 ? 0 : 1) + " ms";
  return us.toFixed(0) + " µs";
}

const percent = (share) => share === null || share === undefined ? "–" : (share * 100).toFixed(0) + " %";
const ioName = (io) => io.origin === "file_data" && io.op === "discard" ? "free_space discard" : io.origin + " " + io.op;

// ---- one array ----

const optional = (text) => make("td", "optional", text);

function memberRow(member, seconds) {
  const requests = member.io.reduce((sum, io) => sum + io.requests, 0) / seconds;
  const moved = member.io.filter((io) => io.op === "read" || io.op === "write")
    .reduce((sum, io) => sum + io.bytes, 0) / seconds;
  const slowest = member.io.filter((io) => io.device_us.count > 0)
    .reduce((most, io) => Math.max(most, io.device_us.p99), -1);
  const busy = member.disk ? member.disk.utilisation : null;
  const bar = make("td", "bar");
  const track = make("span", "track");
  const fill = make("span", busy >= 0.9 ? "fill high" : "fill");
  fill.style.width = Math.round((busy || 0) * 100) + "%";
  track.append(fill);
  bar.append(track);
  return row("td", [
    member.name,
    optional(member.slot === null ? "–" : String(member.slot)),
    bar,
    make("td", "", percent(busy)),
    make("td", "", count(requests)),
    make("td", "", bytes(moved)),
    make("td", "", micros(slowest < 0 ? null : slowest)),
    optional(member.disk ? String(member.disk.in_flight) : "–"),
    make("td", "text", member.health || "ok"),
  ]);
}

function membersTable(array, seconds) {
  const sparse = (text) => {
    const head = make("th", "optional", text);
    head.scope = "col";
    return head;
  };
  return table("members", "Members of " + array.name, [
    "member", sparse("slot"), words("busy"), "", "req/s", "bytes/s", "p99", sparse("in flight"), words("state"),
  ], array.members.map((m) => memberRow(m, seconds)));
}

/** Origins by member: bytes per second, or requests per second for operations without bytes. The shade repeats the figure. */
function heatTable(array, seconds) {
  const sums = new Map();
  array.members.forEach((member, column) => member.io.forEach((io) => {
    const name = ioName(io);
    if (!sums.has(name)) sums.set(name, { loads: new Array(array.members.length).fill(null), unit: "" });
    const sum = sums.get(name);
    const moves = io.op === "read" || io.op === "write";
    sum.unit = moves ? "" : "/s";
    sum.loads[column] = (sum.loads[column] || 0) + (moves ? io.bytes : io.requests) / seconds;
  }));
  const lines = [...sums].map(([name, sum]) => {
    const most = Math.max(...sum.loads.map((l) => l || 0), 1e-9);
    const total = sum.loads.reduce((a, b) => a + (b || 0), 0);
    const cells = sum.loads.map((load) => {
      const text = load === null ? "" : sum.unit ? count(load) + sum.unit : bytes(load);
      const cell = make("td", "", text);
      cell.style.backgroundColor = `rgba(var(--heat), ${(0.45 * (load || 0) / most).toFixed(3)})`;
      return cell;
    });
    const skew = total > 0 ? most * sum.loads.length / total : 1;
    return { total, line: row("td", [name, ...cells, make("td", "", skew.toFixed(1))]) };
  });
  lines.sort((a, b) => b.total - a.total);
  return table("heat", "Origins by member", ["origin", ...array.members.map((m) => m.name), "skew"],
    lines.map((l) => l.line));
}

function latencyTable(array) {
  const all = new Map();
  array.members.forEach((member) => member.io.forEach((io) => {
    const name = ioName(io);
    if (io.device_us.count === 0) return; // all bios merged into requests of other origins
    const now = all.get(name) || { p50: 0, p99: 0, max: 0, queue: 0, member: "" };
    now.p50 = Math.max(now.p50, io.device_us.p50);
    now.queue = Math.max(now.queue, io.queue_us.p99);
    now.max = Math.max(now.max, io.device_us.max);
    if (io.device_us.p99 >= now.p99) { now.p99 = io.device_us.p99; now.member = member.name; }
    all.set(name, now);
  }));
  const lines = [...all].sort((a, b) => b[1].p99 - a[1].p99).map(([name, t]) =>
    row("td", [name, make("td", "", micros(t.p50)), make("td", "", micros(t.p99)), make("td", "", micros(t.max)),
      make("td", "", micros(t.queue)), make("td", "text", t.member)]));
  return table("", "Latency", ["slowest member's", "p50", "p99", "max", "queue p99", words("member")], lines);
}

function tasksTable(array, seconds) {
  const sum = (list) => list.reduce((all, io) => all + io.bytes, 0) / seconds;
  const lines = array.tasks.slice(0, 20).map((task) => {
    const main = [...task.io].sort((a, b) => b.bytes - a.bytes)[0];
    return row("td", [
      `${task.comm} ${task.pid}`,
      make("td", "", bytes(sum(task.io))),
      make("td", "", bytes(sum(task.dirtied || []))),
      make("td", "text", main ? ioName(main) : ""),
      make("td", "text", task.role || task.cgroup || ""),
    ]);
  });
  return table("", "Tasks", ["task", "submitted/s", "dirtied/s", words("mostly"), words("role or cgroup")], lines);
}

function filesTable(array, seconds) {
  const lines = array.files.slice(0, 20).map((file) => row("td", [
    make("td", "path", file.path || file.name || `inode ${file.inode}`),
    make("td", "", file.op),
    make("td", "", bytes(file.bytes / seconds)),
  ]));
  return table("", "Files", ["file", "op", "bytes/s"], lines);
}

class Card {
  constructor(name) {
    this.name = name;
    this.section = make("section");
    this.title = make("h2");
    this.headline = make("p", "headline");
    this.about = make("p", "about");
    this.parts = make("div", "parts");
    this.left = make("div");
    this.right = make("div");
    this.parts.append(this.left, this.right);
    this.strips = make("div", "strips");
    this.strips.tabIndex = 0;
    this.strips.setAttribute("role", "group");
    this.strips.setAttribute("aria-label", `The last hour of ${name}: use the left and right keys`);
    this.strips.addEventListener("keydown", (event) => this.move(event));
    this.cursor = make("p", "cursor");
    this.cursor.setAttribute("role", "status");
    this.section.append(this.title, this.headline, this.about, this.parts,
      make("h3", "", "Last hour"), this.cursor, this.strips);
  }

  show(array, seconds) {
    this.title.textContent = array.name;
    const hotspot = array.hotspot;
    const severity = hotspot ? hotspot.severity : "none";
    const mark = { warning: "! ", info: "› ", none: "" }[severity] || "";
    this.headline.textContent = mark + (array.slow || (hotspot ? hotspot.headline : "waiting for figures"));
    this.headline.className = "headline " + severity;
    const about = [array.level, array.chunk_bytes ? `${array.chunk_bytes / 1024} KiB chunks` : "",
      array.health || "in sync", ...array.filesystems];
    this.about.textContent = about.filter(Boolean).join(" · ");
    const heading = (text) => make("h3", "", text);
    const left = [heading("Members"), membersTable(array, seconds)];
    const right = [heading("Bytes per second by origin and member"), heatTable(array, seconds)];
    left.push(heading("Latency"), latencyTable(array));
    if (array.tasks.length) right.push(heading("Tasks"), tasksTable(array, seconds));
    if (array.files.length) right.push(heading("Files"), filesTable(array, seconds));
    this.left.replaceChildren(...left);
    this.right.replaceChildren(...right);
  }

  move(event) {
    const last = points.length - 1;
    if (last < 0) return;
    const at = cursor === null ? last + 1 : last - cursor;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    cursor = to === null ? null : last - Math.min(Math.max(to, 0), last);
    drawStrips();
  }

  /** Draws a strip for each member (utilisation) and for each origin (bytes). */
  draw() {
    const here = points.map((p) => p.arrays[this.name]);
    const members = new Set(here.flatMap((a) => a ? Object.keys(a.members) : []));
    const origins = new Set(here.flatMap((a) => a ? Object.keys(a.origins) : []));
    const strips = [];
    for (const name of [...members].sort()) {
      const values = here.map((a) => a && a.members[name] ? a.members[name].busy : null);
      const known = values.filter((v) => v !== null);
      const most = Math.max(0, ...known);
      const mean = known.reduce((a, b) => a + b, 0) / Math.max(known.length, 1);
      strips.push(this.strip(name, values, 0.9, `busy ${percent(mean)}, most ${percent(most)}`));
    }
    for (const name of [...origins].sort()) {
      const rates = here.map((a, i) => a ? (a.origins[name] || 0) / points[i].seconds : null);
      const most = Math.max(0, ...rates.filter((v) => v !== null));
      if (most === 0) continue;
      strips.push(this.strip(name, rates.map((v) => v === null ? null : v / most), 2, `most ${bytes(most)}/s`));
    }
    this.strips.replaceChildren(...strips);
    this.sayCursor(here);
  }

  /** Shares of at least `high` are drawn in the colour of a busy member. */
  strip(name, shares, high, figures) {
    const line = make("div", "strip");
    const canvas = make("canvas");
    canvas.setAttribute("aria-hidden", "true");
    line.append(make("span", "", name), canvas, make("span", "figures", figures));
    requestAnimationFrame(() => paint(canvas, shares, high));
    return line;
  }

  sayCursor(here) {
    const at = cursor === null ? -1 : points.length - 1 - cursor;
    const array = here[at];
    if (!array) {
      this.cursor.textContent = points.length ? "Left and right keys show a time." : "Available after the first ten seconds.";
      return;
    }
    const busiest = Object.entries(array.members).sort((a, b) => (b[1].busy || 0) - (a[1].busy || 0)).slice(0, 3);
    const origins = Object.entries(array.origins).sort((a, b) => b[1] - a[1]).slice(0, 3);
    const time = new Date(points[at].time * 1000).toLocaleTimeString();
    const parts = busiest.map(([n, m]) => `${n} ${percent(m.busy)}, p99 ${micros(m.p99_us)}`);
    parts.push(...origins.map(([n, b]) => `${n} ${bytes(b / points[at].seconds)}/s`));
    this.cursor.textContent = `${time}: ${parts.join(" · ")}`;
  }
}

/** Paints an hour as columns, newest at the right. Height and colour show the share. */
function paint(canvas, shares, high) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth * scale;
  const height = canvas.clientHeight * scale;
  if (!width || !height) return;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const wide = width / (HOUR / POINT_SECONDS);
  shares.forEach((share, i) => {
    const x = width - (shares.length - i) * wide;
    if (share !== null) {
      context.fillStyle = share >= high ? style.getPropertyValue("--busy") : style.getPropertyValue("--bar");
      const tall = Math.max(share > 0 ? scale : 0, share * height);
      context.fillRect(x, height - tall, Math.max(wide - 0.3 * scale, 0.7), tall);
    }
    if (cursor !== null && i === shares.length - 1 - cursor) {
      context.fillStyle = style.getPropertyValue("--text");
      context.fillRect(x, 0, Math.max(wide / 2, scale), height);
    }
  });
}

function drawStrips() {
  cards.forEach((card) => card.draw());
}

// ---- the whole page ----

function show(message) {
  const interval = message.interval;
  const seconds = interval.interval_s || 1;
  const seen = new Set();
  interval.arrays.forEach((array) => {
    seen.add(array.name);
    if (!cards.has(array.name)) {
      const card = new Card(array.name);
      cards.set(array.name, card);
      $("arrays").append(card.section);
      card.draw();
    }
    cards.get(array.name).show(array, seconds);
  });
  cards.forEach((card, name) => {
    if (!seen.has(name)) { card.section.remove(); cards.delete(name); }
  });
  lastInterval = Date.now();
  const lost = interval.lost.events;
  setState(`${interval.local_time.slice(11, 19)}, live${lost ? `, ${lost} events lost` : ", nothing lost"}`, lost > 0);
  const notes = interval.notes || [];
  $("notes-section").hidden = notes.length === 0;
  $("notes").replaceChildren(...notes.map((n) => make("li", "", n)));
  showRecorder(message.serve);
  if (Date.now() - pointsAt > POINT_SECONDS * 1000) loadTimeline();
}

function showRecorder(serve) {
  $("recorder").hidden = !serve.has_recorder && serve.alerts.length === 0;
  $("kept").textContent = serve.has_recorder
    ? `${Math.floor(serve.seconds / 60)} min ${serve.seconds % 60} s in memory (${bytes(serve.bytes || 0)}).` : "";
  const button = $("keep");
  button.hidden = !serve.has_recorder || !serve.dumps;
  const last = serve.last;
  const file = last && last.name;
  if (last && last.error) $("kept-result").textContent = last.error;
  else if (file && $("kept-result").dataset.file !== file) {
    $("kept-result").dataset.file = file;
    $("kept-result").textContent = `Written: ${file}`;
    loadDumps(serve.download);
  }
  $("alerts").replaceChildren(...(serve.alerts.length
    ? serve.alerts.map((a) => make("li", "", `${new Date(a.time).toLocaleString()} ${a.rule}: ${a.why}`))
    : [make("li", "faint", "none")]));
}

function setState(text, isLost) {
  $("state").textContent = text;
  $("state").className = isLost ? "lost" : "";
}

// ---- the server ----

function ask(path, options = {}) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  return fetch(path, { ...options, headers, cache: "no-store" });
}

async function loadTimeline() {
  pointsAt = Date.now();
  const last = points.length ? points[points.length - 1].number : 0;
  const answer = await ask("/api/timeline?after=" + last).catch(() => null);
  if (!answer || !answer.ok) return;
  const fresh = await answer.json();
  // After a restart of serve, numbers begin again.
  const begins = fresh.length && fresh[0].number <= last;
  points = (begins ? fresh : points.concat(fresh)).slice(-HOUR / POINT_SECONDS);
  drawStrips();
}

async function loadDumps(download) {
  const answer = await ask("/dumps").catch(() => null);
  if (!answer || !answer.ok) return;
  const dumps = await answer.json();
  $("dumps").replaceChildren(...dumps.slice(0, 10).map((dump) => {
    const item = make("li");
    const text = `${dump.name} (${bytes(dump.bytes)})`;
    if (download) {
      const link = make("a", "", text);
      link.href = "/dumps/" + encodeURIComponent(dump.name);
      link.addEventListener("click", (event) => save(event, dump.name));
      item.append(link);
    } else item.textContent = text;
    return item;
  }));
}

/** Downloads with fetch if there is a token, because a link cannot send it. */
async function save(event, name) {
  if (!token) return;
  event.preventDefault();
  const answer = await ask("/dumps/" + encodeURIComponent(name));
  if (!answer.ok) { $("kept-result").textContent = await answer.text(); return; }
  const link = make("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function keep() {
  $("kept-result").textContent = "requesting …";
  const answer = await ask("/api/dump", { method: "POST" }).catch(() => null);
  $("kept-result").textContent = answer ? (await answer.text()).trim() : "no response from the server";
}

/** Reads server-sent events with fetch, because EventSource cannot send the token. */
async function follow() {
  const answer = await ask("/api/events");
  if (answer.status === 401) { $("token-form").hidden = false; $("token").focus(); setState("a token is required", true); return false; }
  if (!answer.ok) throw new Error((await answer.text()).trim());
  $("token-form").hidden = true;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the server closed the connection");
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const data = text.slice(0, end).split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5)).join("\n");
      text = text.slice(end + 2);
      if (data) show(JSON.parse(data));
    }
  }
}

async function run() {
  for (;;) {
    try {
      if (!await follow()) return;
    } catch (error) {
      setState(`no connection (${error.message}); trying again every 2 s`, true);
    }
    await new Promise((wake) => setTimeout(wake, 2000));
  }
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("token", token);
  run();
});
$("keep").addEventListener("click", keep);
window.addEventListener("resize", drawStrips);
setInterval(() => {
  if (lastInterval && Date.now() - lastInterval > 5000) {
    setState(`no figures for ${Math.round((Date.now() - lastInterval) / 1000)} s: the server is down or does not respond`, true);
  }
}, 1000);
run();
