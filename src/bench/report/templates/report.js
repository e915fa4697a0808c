"use strict";
// The page is complete without this; it switches the measure of a table, sorts by a column, and answers
// for a reader's own mix, data, memory and durability.

const STEPS = {
  us: [[1e6, " s"], [1e3, " ms"], [1, " \u00b5s"], [1e-3, " ns"]],
  s: [[1, " s"], [1e-3, " ms"], [1e-6, " \u00b5s"], [1e-9, " ns"]],
  bytes: [[2 ** 30, " GiB"], [2 ** 20, " MiB"], [2 ** 10, " KiB"], [1, " B"]],
  rates: [[1e9, " G/s"], [1e6, " M/s"], [1e3, " k/s"], [1, "/s"]],
};
const digits = (value) =>
  value > 0 && value < 0.1 ? value.toPrecision(2) : value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
// A ratio that is not 1 is not shown as 1.00: it has up to two more decimal places.
const ratioText = (value) =>
  digits(value) === "1.00" ? [3, 4].map((places) => value.toFixed(places)).find((text) => Number(text) !== 1) ?? "1.00" : digits(value);

function words(unit, value) {
  if (unit === "count") return value.toLocaleString("en");
  if (unit === "times") return digits(value) + "\u00d7";
  if (unit === "rate") return value >= 100 ? Math.round(value).toLocaleString("en") : digits(value) + "/s";
  if (value === 0) return "0";
  const [step, name] = STEPS[unit].find(([least]) => value >= least) ?? STEPS[unit].at(-1);
  return digits(value / step) + name;
}

// What a cell has of the measure with a number: median, smallest, largest, whether it is best.
function figures(cell, number) {
  const own = (cell?.dataset.f ?? "").split(",").map((one) => one.split(" "));
  return own.find(([tab]) => tab === String(number))?.slice(1).map(Number);
}

function show(table, input) {
  const { unit, caption, better } = input.dataset;
  const number = [...input.closest(".switch").querySelectorAll("input")].indexOf(input);
  table.dataset.measure = number;
  table.dataset.better = better;
  table.querySelector(".what").textContent = caption;
  for (const cell of table.querySelectorAll("tbody td")) {
    const [shown, instead] = [cell.querySelector(".figure"), cell.querySelector(".instead")];
    if (!shown) continue;
    // The first measure keeps what the page came with: its figures are exact, and a table of mixed units has no other.
    shown.first ??= { text: shown.textContent, title: shown.title, value: shown.dataset.value, best: shown.className };
    const own = figures(cell, number);
    const first = number === 0 && shown.first.value !== undefined;
    shown.hidden = !own && !first;
    if (instead) instead.hidden = !shown.hidden;
    if (first) {
      Object.assign(shown, { textContent: shown.first.text, title: shown.first.title, className: shown.first.best });
      shown.dataset.value = shown.first.value;
    } else if (own) {
      const [median, least, most, best] = own;
      shown.textContent = words(unit, median);
      shown.title = least === most ? "" : `${words(unit, least)} to ${words(unit, most)}`;
      shown.dataset.value = median;
      shown.classList.toggle("best", best === 1);
    }
  }
  const sorted = table.querySelector("thead th[aria-sort]");
  if (sorted) sort(table, sorted, sorted.getAttribute("aria-sort"));
}

function sort(table, head, direction) {
  const column = head.cellIndex;
  const labels = head.classList.contains("label");
  const sign = direction === "ascending" ? 1 : -1;
  const key = (row) => {
    const cell = row.cells[column];
    if (labels) return cell.querySelector("span").textContent;
    const chosen = cell?.querySelector(".figure:not([hidden])");
    return chosen ? Number(chosen.dataset.value) : null;
  };
  const order = (a, b) => {
    // What has no figure is neither best nor worst: always last.
    if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
    if (labels) return sign * a.key.localeCompare(b.key, "en", { numeric: true });
    return sign * (a.key - b.key);
  };
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: key(row) }));
  rows.sort(order);
  table.tBodies[0].append(...rows.map(({ row }) => row));
  for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction);
}

for (const group of document.querySelectorAll(".switch")) {
  const table = document.getElementById(group.dataset.table);
  group.addEventListener("change", (event) => show(table, event.target));
  // A browser may restore what was chosen before a reload.
  const chosen = group.querySelector("input:checked");
  if (chosen !== group.querySelector("input")) show(table, chosen);
  else Object.assign(table.dataset, { measure: 0, better: chosen.dataset.better });
  for (const head of table.querySelectorAll("thead th")) {
    head.querySelector("button").addEventListener("click", () => {
      const best = !head.classList.contains("label") && table.dataset.better === "higher" ? "descending" : "ascending";
      const other = best === "ascending" ? "descending" : "ascending";
      sort(table, head, head.getAttribute("aria-sort") === best ? other : best);
    });
  }
}

// Two-sided probability of Student's t with a whole number of degrees of freedom.
function chance(t, freedom) {
  const angle = Math.atan(Math.abs(t) / Math.sqrt(freedom));
  const [sine, cosine, odd] = [Math.sin(angle), Math.cos(angle), freedom % 2 === 1];
  let [term, sum] = [odd ? cosine : 1, 0];
  for (let place = odd ? 1 : 0; place < freedom - 1; place += 2) {
    sum += term;
    term *= (cosine * cosine * (place + 1)) / (place + 2);
  }
  return Math.max(0, 1 - (odd ? ((angle + sine * sum) * 2) / Math.PI : sine * sum));
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// One-sided probability of the normal distribution, which Student's is with many degrees of freedom, and its inverse.
const tail = (z) => chance(z, 1000) / 2;
function quantile(p) {
  let [low, high] = [0, 40];
  for (let step = 0; step < 50; step += 1) {
    const middle = (low + high) / 2;
    [low, high] = tail(middle) > p ? [middle, high] : [low, middle];
  }
  return low;
}

// Returns the one-sided p-value over all evaluations of a plan, of which so many blocks are measured.
function overall(p, { planned, factor }, count) {
  const share = planned === null ? 1 : Math.min(1, count / planned);
  return Math.min(1, factor * (share === 1 || p >= 0.5 ? p : tail(quantile(p) * Math.sqrt(share))));
}

// Returns the strictest of several plans, with the narrowest margin.
function strictest(plans) {
  const planned = Math.max(0, ...plans.map((plan) => plan.planned ?? 0)) || null;
  const [factors, margins] = [plans.map(({ factor }) => factor), plans.map(({ margin }) => margin)];
  return { planned, factor: Math.max(1, ...factors), margin: Math.min(...margins) };
}

// Returns the number of repetitions that two stores have in common, the mean ratio, and the p-values of Student's tests
// of difference and of equality within the margin. In a repetition that a store lacks, the logarithm is not finite.
// `between` is the standard deviation between measurements with different sources.
function tested(one, other, plan, between) {
  const logs = one.logs.map((log, number) => log - other.logs[number]).filter(Number.isFinite);
  const [middle, freedom] = [mean(logs), logs.length - 1];
  const within = Math.sqrt(logs.reduce((sum, log) => sum + (log - middle) ** 2, 0) / freedom / logs.length);
  const apart = one.sources.some((source, place) => source !== other.sources[place]);
  const error = apart ? Math.hypot(within, Math.SQRT2 * between) : within;
  const p = (distance) => (freedom < 2 ? NaN : error > 0 ? chance(distance / error, freedom) : distance === 0 ? 1 : 0);
  const inside = Math.log1p(plan.margin) - Math.abs(middle);
  return {
    count: logs.length,
    ratio: Math.exp(middle),
    different: Math.min(1, 2 * overall(p(middle) / 2, plan, logs.length)),
    equal: inside > 0 ? overall(p(inside) / 2, plan, logs.length) : 1,
  };
}

// Returns for each p-value whether it is significant at 5% for all together (Holm).
function shown(probabilities) {
  const order = probabilities.map((p, place) => [p, place]).sort(([a], [b]) => a - b);
  const marks = probabilities.map(() => false);
  for (const [rank, [p, place]] of order.entries()) {
    if (!(p < 0.05 / (order.length - rank))) break;
    marks[place] = true;
  }
  return marks;
}

const GB = 1e9;
const NEAR = 0.1; // Work whose share of reads differs by more than 10 points says nothing.
const TIMES = 2; // Work whose values are, in the mean, more than two times larger or smaller says nothing.

// Returns the mean of a size in bytes, such as "100" or "100-200".
const meanSize = (text) => mean(text.split("-").map(Number));

// Returns true if a cell may stand in the answer: it loses no more than may be lost, or the work only reads.
const fits = (cell, work, asked) =>
  (asked.reads === 1 && work.reads === 1) || (cell.kill <= asked.kill && cell.power_cut <= asked.power);

// Returns true if a failure is that of the store of a cell, under the cell's policy and in its environment.
const isOf = (failure, { store, durability }, { group }) =>
  failure.store === store && failure.durability === durability && failure.group === group;

// Returns the work, each with the cells that fit: of each store, under the fastest of its policies that fit, without those
// under which it `failed` in any of the work. `all` holds the cells of all policies. Each cell has the plan of its own
// comparison.
function admitted(contests, asked, failed) {
  const rate = (cell) => mean(cell.rates.filter((one) => one !== null));
  const works = new Map();
  for (const contest of contests) {
    const work = works.get(contest.work) ?? { ...contest, cells: [], all: [] };
    works.set(contest.work, work);
    const { planned, factor, margin } = contest;
    const cells = contest.cells.map((cell) => ({ ...cell, plan: { planned, factor, margin } }));
    work.all.push(...cells);
    for (const cell of cells.filter((one) => fits(one, contest, asked) && !failed.some((other) => isOf(other, one, contest)))) {
      const place = work.cells.findIndex((one) => one.store === cell.store);
      if (place < 0) work.cells.push(cell);
      else if (rate(cell) > rate(work.cells[place])) work.cells[place] = cell;
    }
  }
  return [...works.values()];
}

const LOSSES = ["nothing", "the last second", "what the system had not written", "the engine's buffer", "everything"];

const POLICIES = { memory: "in memory", unknown: "durability unknown" };
const policy = ({ durability }) => POLICIES[durability] ?? `fsync ${durability}`;

// Returns the reason why a store is not in the ranking.
function absence(store, place, near, asked, needs, memory, failed) {
  if (needs(store) > memory) return `needs ${words("bytes", needs(store))} of memory`;
  const own = (work) => work.all.filter((cell) => cell.store === place);
  const lossy = near.flatMap((work) => own(work).filter((cell) => !fits(cell, work, asked)));
  const count = near.flatMap(own).length;
  const hasFailed = (work) => failed.some((one) => one.store === place && one.group === work.group && fits(one, work, asked));
  if (near.some(hasFailed)) return "failed in this work";
  if (count === 0) return "not measured in this work";
  if (lossy.length < count) return "not measured in all of this work";
  const least = lossy.reduce((a, b) => (b.power_cut + b.kill < a.power_cut + a.kill ? b : a));
  const by = least.power_cut > asked.power ? ["a power cut", least.power_cut] : ["a kill", least.kill];
  if (least.durability === "unknown") return "its durability is not known";
  return `${by[0]} may lose ${LOSSES[by[1]]} ${least.durability === "memory" ? "" : "under "}${policy(least)}`;
}

// What the figures say to a question; see `tell` for the words.
function choose({ stores, contests, between_runs }, asked) {
  const [data, memory] = [asked.data * GB, asked.memory * GB];
  const needs = (store) => (store.holds_all ? data * (store.factor ?? 1) : 0);
  const tooLarge = stores.map((store, place) => place).filter((place) => needs(stores[place]) > memory);
  const related = contests.filter((one) => one.access === asked.access)
    .map((work) => ({ ...work, weight: 1.1 - Math.abs(work.reads - asked.reads) / NEAR }))
    .filter((work) => work.weight > 0.0999);
  // A store that failed in a part of the work must not rank as fast in the rest.
  const failed = related.flatMap(({ failed, group }) => failed.map((failure) => ({ ...failure, group })));
  const level = admitted(related, asked, failed)
    .map((work) => ({ ...work, cells: work.cells.filter((cell) => !tooLarge.includes(cell.store)) }));
  const beyond = (one) => one.memory !== null && one.data > one.memory;
  const sized = (works) => works.filter((one) => beyond(one) === data > memory);
  const bytes = meanSize(asked.value);
  const valued = (works) => works.filter(({ value_bytes }) =>
    meanSize(value_bytes) <= bytes * TIMES && bytes <= meanSize(value_bytes) * TIMES);
  // Work on data and values of the asked sizes; without any, work on data or values of other sizes.
  const similar = [valued(sized(level)), valued(level), sized(level), level].find((works) => works.length > 0) ?? [];
  // Only work of one environment: of that with the most stores, and of several that of the newest.
  const stored = (work) => work.cells.length;
  const group = similar.reduce((a, b) => (stored(b) - stored(a) || b.group - a.group) > 0 ? b : a, similar[0])?.group;
  const near = similar.filter((work) => work.group === group);
  const lacking = [valued(near).length === 0 && "values", sized(near).length === 0 && "data"].filter(Boolean);
  // Only work that as many stores as possible have done, and of it the stores that did it all.
  const most = Math.max(0, ...near.map((work) => work.cells.length));
  const common = near.filter((work) => work.cells.length === most && most > 0);
  const left = stores.map((_, place) => place).filter((place) =>
    common.length > 0 && common.every((work) => work.cells.some((cell) => cell.store === place)));
  const ranking = left.map((place) => {
    const own = common.map((work) => ({ work, cell: work.cells.find((cell) => cell.store === place) }));
    const weights = own.reduce((sum, { work }) => sum + work.weight, 0);
    const repetitions = Math.min(...own.map(({ cell }) => cell.rates.length));
    const logs = Array.from({ length: repetitions }, (_, number) =>
      own.reduce((sum, { work, cell }) => sum + work.weight * Math.log(cell.rates[number] ?? NaN), 0) / weights);
    const nearest = own.reduce((a, b) => (b.work.weight > a.work.weight ? b : a));
    const [sources, plans] = [own.map(({ cell }) => cell.source), own.map(({ cell }) => cell.plan)];
    return { store: stores[place], logs, nearest, sources, plans };
  }).filter(({ logs }) => logs.some(Number.isFinite));
  const middle = ({ logs }) => mean(logs.filter(Number.isFinite));
  ranking.sort((a, b) => middle(b) - middle(a));
  const [best, ...rivals] = ranking;
  const plan = strictest(ranking.flatMap(({ plans }) => plans));
  const pairs = ranking.flatMap((one, place) => ranking.slice(place + 1).map((other) => tested(one, other, plan, between_runs)));
  const different = shown(pairs.map((pair) => pair.different));
  const equal = shown(pairs.map((pair) => pair.equal));
  // The first pairs are those of the best store with each other one.
  rivals.forEach((one, place) => {
    const { count, ratio } = pairs[place];
    one.ratio = count > 0 ? 1 / ratio : Math.exp(middle(one) - middle(best));
    one.standing = equal[place] ? "equal" : different[place] ? "slower" : "cannot tell";
  });
  if (best) best.ratio = 1;
  const few = pairs.slice(0, rivals.length).some(({ count }) => count < 3);
  const alike = rivals.filter((one) => one.standing === "equal");
  const unclear = rivals.filter((one) => one.standing === "cannot tell");
  const missing = stores.map((_, place) => place).filter((place) => !ranking.some((one) => one.store === stores[place]));
  const out = missing.map((place) => [stores[place].name, absence(stores[place], place, near, asked, needs, memory, failed)]);
  const { margin } = plan;
  return { ranking, rivals, alike, unclear, few, margin, lacking, larger: data > memory, out, works: common, near };
}

function tell(form, found, asked) {
  const part = (name) => form.querySelector(name);
  const { ranking, rivals, alike, unclear, few, margin, lacking, larger, out, works } = found;
  const names = (list) => list.map(({ store }) => store.name).join(", ");
  const percent = (reads) => `${Math.round(reads * 1000) / 10}%`;
  const size = larger ? "data larger than memory" : "data that fit in memory";
  const values = (sizes) => `values of ${sizes.join(" and ").replaceAll("-", " to ")} bytes`;
  let [headline, reason] = ["Not measured", `No work within 10 points of ${percent(asked.reads)} reads.`];
  if (ranking.length > 0) {
    const ahead = rivals.length > 0 ? `${ratioText(1 / rivals[0].ratio)}\u00d7 as fast as ${rivals[0].store.name}` : "the only store left";
    const mixes = [...new Set(works.map((work) => percent(work.reads)))].join(" and ");
    const basis = `work of ${mixes} reads`;
    const near = [...alike, ...unclear];
    const undecided = unclear.length > 0 ? "cannot tell" : `equal within ${Number((margin * 100).toFixed(2))}%`;
    const verdict = near.length > 0 ? `${names([ranking[0], ...near])}, ${undecided}` : `${ranking[0].store.name}, ${ahead}`;
    if (few) [headline, reason] = ["Too few repetitions for a verdict", `The order in ${basis}:`];
    else if (lacking.length > 0) {
      const asks = lacking.map((what) => (what === "values" ? values([asked.value]) : size)).join(" and ");
      const measured = [...new Set(works.map((work) => work.value_bytes))];
      const other = lacking.map((what) => (what === "values" ? ` with ${values(measured)}` : " on other data")).join("");
      [headline, reason] = [`Not measured with ${asks}`, `In ${basis}${other}: ${verdict}.`];
    } else if (rivals.length === 0) [headline, reason] = [`${ranking[0].store.name} only`, `No other store is left in ${basis}.`];
    else if (near.length > 0) [headline, reason] = [names([ranking[0], ...near]), `${undecided[0].toUpperCase()}${undecided.slice(1)} in ${basis}, ${size}.`];
    else [headline, reason] = [ranking[0].store.name, `${ahead} in ${basis}, ${size}.`];
  } else if (found.near.length > 0) reason = "No store that was measured fits the question.";
  part(".headline").textContent = headline;
  part(".reason").textContent = reason;
  part(".reason").title = works.map((work) => work.title).join("; ");
  part(".ranking").replaceChildren(...ranking.map(({ store, ratio, nearest }) => {
    const line = document.createElement("li");
    const cell = (text) => Object.assign(document.createElement("span"), { textContent: text });
    const track = Object.assign(document.createElement("span"), { className: "track" });
    const bar = document.createElement("i");
    bar.style.width = `${Math.max(1, Math.min(100, ratio * 100))}%`;
    track.append(bar);
    const p99 = nearest.cell.p99_us;
    line.title = `p99 in ${nearest.work.title}`;
    const end = p99 === null ? policy(nearest.cell) : `p99 ${words("us", p99)}, ${policy(nearest.cell)}`;
    line.append(cell(store.name), track, cell(ratioText(ratio)), cell(end));
    return line;
  }));
  part(".out").replaceChildren(...out.map(([name, why]) =>
    Object.assign(document.createElement("li"), { textContent: `${name} is left out: ${why}` })));
  const next = part(".next");
  next.hidden = ranking.length > 0 && lacking.length === 0 && !few;
  if (!next.hidden) suggest(part, found, asked, works[0] ?? found.near[0] ?? found.any);
}

// Shows the commands that measure the asked work, and what they take.
function suggest(part, found, asked, work) {
  const quick = command(asked, work, found.larger, true);
  const full = command(asked, work, found.larger, false);
  part(".quick").textContent = quick.text;
  part(".full").textContent = full.text;
  part(".quick-time").textContent = `about ${duration(quick.seconds)}`;
  part(".full-time").textContent = `about ${duration(full.seconds)}`;
  part(".scale").textContent = found.larger
    ? `Data and memory are scaled 1:${SCALE}. --memory-limit needs root, or a delegated control group.` : "";
}

const duration = (seconds) => seconds < 90 ? `${Math.ceil(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;

// Data of a sixteenth at the same ratio to memory answer the same question sooner.
const SCALE = 16;

// Returns the flag for the loss that is allowed: a policy where no word of --may-lose says it.
function loss({ power, kill }) {
  const word = (place) => (place === 0 ? "nothing" : place === 1 ? "second" : "anything");
  if (power === 2 || power === 3) return `--fsync ${["always", "everysec", "no"].join(",")}`;
  return power === kill ? `--may-lose ${word(power)}` : `--may-lose kill=${word(kill)},power=${word(power)}`;
}

// Returns a command that measures the asked work with the flags of a work that was measured, and its time in seconds.
function command(asked, work, larger, quick) {
  const scale = larger ? SCALE : 1;
  const bytes = meanSize(/--key-bytes (\S+)/.exec(work.flags)[1]) + meanSize(asked.value);
  const keys = Math.ceil((asked.data * GB) / scale / bytes);
  const mix = [["get", asked.reads], ["update", 1 - asked.reads]].filter(([, share]) => share > 0.0001);
  const parts = mix.map(([name, share]) => `${name}=${Number(share.toFixed(3))}`).join(",");
  const limit = larger ? ` --memory-limit ${Math.max(1, Math.round((asked.memory * 1e3) / scale))}MB` : "";
  // With the warm-up of --full, a measurement takes 35 seconds.
  const [repetitions, seconds] = quick ? [3, 3] : [5, 35];
  const policies = loss(asked).startsWith("--fsync") ? 3 : 1;
  const stores = /--stores (\S+)/.exec(work.flags)?.[1].split(",").length ?? 10;
  const around = Math.max(1, ((asked.data * GB) / scale) * work.seconds_per_byte);
  return {
    text: `kvbench bench --mix ${parts} --keys ${keys} --value-bytes ${asked.value} ${work.flags} ${loss(asked)}${limit} ${quick ? "--quick --seconds 3" : "--full"}`,
    seconds: stores * policies * repetitions * (seconds + around),
  };
}

const form = document.getElementById("chooser");
const chooserData = JSON.parse(document.getElementById("figures").textContent);
if (chooserData.contests.length > 0) {
  const field = (name) => form.elements.namedItem(name);
  const accesses = new Set(chooserData.contests.map(({ access }) => access));
  field("access").replaceChildren(...[...accesses].map((access) => new Option(access)));
  const answer = () => {
    field("shown").value = `${field("reads").value}%`;
    if (!form.checkValidity()) return;
    const asked = {
      reads: Number(field("reads").value) / 100, data: Number(field("data").value), memory: Number(field("memory").value),
      power: Number(field("power").value), kill: Number(field("kill").value), access: field("access").value,
      value: field("value").value,
    };
    const any = chooserData.contests.find(({ access }) => access === asked.access);
    tell(form, { ...choose(chooserData, asked), any }, asked);
  };
  // The page opens on what was measured.
  const { start } = chooserData;
  if (start) {
    const short = (bytes) => Number((bytes / GB).toPrecision(3));
    const values = { reads: Math.round(start.reads * 100), data: short(start.data), power: start.power_cut, kill: start.kill, value: start.value_bytes, access: start.access };
    for (const [name, value] of Object.entries(values)) field(name).value = value;
    if (start.memory !== null) field("memory").value = short(start.memory);
  }
  form.addEventListener("input", answer);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  answer();
}

// The charts of a table are packed until it is opened.
async function unpack(box) {
  const packed = box.dataset.packed;
  if (!packed) return;
  delete box.dataset.packed;
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  box.innerHTML = await new Response(stream).text();
}

for (const table of document.querySelectorAll("details.table"))
  table.addEventListener("toggle", () => table.open && table.querySelectorAll(".packed").forEach(unpack));

// A link into a table or its notes opens them.
function reveal() {
  let one = location.hash ? document.getElementById(location.hash.slice(1)) : null;
  for (; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
}
addEventListener("hashchange", reveal);
reveal();
