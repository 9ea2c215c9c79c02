// One question in full: what each run did, from its queries to its scores.

async function questionDetail(index, position) {
  const chunk = await part("details-" + Math.floor(position / index.chunk));
  const detail = chunk[position % index.chunk];
  const blockOf = await part("blocks");
  const gold = element("dl.gold");
  const fact = (name, ...value) => gold.append(element("dt", null, name), element("dd", { dir: "auto" }, ...value));
  if (detail.answers === null || detail.answers === undefined) fact("Gold answer", element("em", null, "not known"));
  else if (!detail.answers.length) fact("Gold answer", element("em", null, "none: unanswerable"));
  else fact("Gold answer", folded(detail.answers.join("\n")));
  if (detail.documents && detail.documents.length) fact("Gold documents", folded(detail.documents.join("\n")));
  const box = element("div", null, element("p.id", null, index.ids[position]), element("h3", { dir: "auto", tabindex: "-1" }, folded(detail.question, "span.text")), gold);
  for (const [n, run] of detail.runs.entries()) box.append(await runDetail(index, n, position, run, detail, blockOf));
  return box;
}

async function runDetail(index, n, position, run, detail, blockOf) {
  const box = element("section.run");
  if (index.names.length > 1) box.append(element("h4.name", null, index.names[n]));
  if (!run) return box.append(element("p.muted", null, "This run has no row for the question.")), box;
  if (run.error) box.append(element("p.error", null, element("strong", null, "Failed"), " in " + run.error.stage + " (" + run.error.kind + "): ", folded(run.error.message || "", "span.text")));
  box.append(element("h4", null, "Answer"), answer(run), scores(index, n, position));
  for (const [name, items] of Object.entries(run.lists)) box.append(await evidence(name, items, run, detail, blockOf));
  for (const [name, value] of Object.entries(run.others)) box.append(other(name, value));
  if (run.prompt.length) {
    const pieces = await Promise.all(run.prompt.map((piece) => (typeof piece === "string" ? piece : resolve(piece, blockOf))));
    const text = pieces.map((piece) => (piece === null ? "[left out of this file]" : piece)).join("");
    box.append(later("Prompt", text.length.toLocaleString("en") + " characters", () => folded(text)));
  }
  if (run.trace.length) box.append(later("Trace", run.trace.length + " stages", () => trace(run.trace)));
  return box;
}

function answer(run) {
  const text = element("div.text.answer", { dir: "auto" });
  const whole = run.answer.reduce((length, [sentence]) => length + sentence.length, 0);
  if (!whole) return element("p.muted", null, "No answer.");
  if (whole > 20000) return folded(run.answer.map(([sentence]) => sentence).join(""), "div.text.answer");
  for (const [sentence, supported] of run.answer) text.append(supported ? element("span", null, sentence) : element("mark", { title: "no item of the evidence supports this sentence" }, sentence));
  const unsupported = run.answer.filter(([, supported]) => !supported).length;
  if (!unsupported) return text;
  return element("div", null, text, element("p.muted", null, unsupported + " of " + run.answer.length + " sentences (marked) have no support in the evidence" + (run.finish === "length" ? "; the answer stopped at its length limit" : "") + "."));
}

function scores(index, n, position) {
  const list = element("dl.scores");
  for (const metric of index.metrics) {
    const values = index.runs[n].scores[metric];
    if (values) list.append(element("div", null, element("dt", null, metric), element("dd", null, number(values[position], 2))));
  }
  return list;
}

async function evidence(name, items, run, detail, blockOf) {
  const judged = items.filter((item) => "kept" in item);
  const stayed = judged.filter((item) => item.kept).length;
  const note = judged.length ? stayed + " of " + items.length + " kept" : items.length + (name === run.evidence ? ", the evidence" : "");
  const snippets = Object.values(run.lists).flat().filter((item) => "kept" in item);
  return later(name, note, () => {
    const list = element("ol.items");
    for (const item of items) {
      const place = element("div");
      list.append(element("li" + (item.kept === false ? ".dropped" : ""), null, about(item, snippets, detail), place));
      resolve(item.text, blockOf).then((text) => place.replaceWith(text === null ? element("p.muted", null, "Text left out, to keep this file small; see the run's Parquet.") : folded(text, "div.text", ITEM)));
    }
    return list;
  }, name === run.evidence);
}

function about(item, snippets, detail) {
  const line = element("p.about");
  const add = (kind, text, title) => line.append(element(kind, title ? { title } : null, text), " ");
  if ("kept" in item) add(item.kept ? "b.kept" : "b.out", item.kept ? "kept" : "dropped");
  if (item.reason) add("span.why", item.reason);
  if (item.score !== undefined) add("span.score", "score " + number(item.score));
  if (item.doc_id !== undefined && detail.documents && detail.documents.includes(item.doc_id)) add("b.right", "gold document");
  const own = "kept" in item ? [] : snippets.filter((snippet) => snippet.pid === item.pid);
  if (own.length) add("span", own.filter((snippet) => snippet.kept).length + " of its " + own.length + " snippets kept");
  if (item.doc_id !== undefined) add("span.source", item.doc_id);
  if (item.url) line.append(link(item.url), " ");
  if (item.query !== undefined) add("span", "found by “" + item.query.slice(0, 300) + "”");
  const shown = new Set(["text", "kept", "reason", "score", "doc_id", "url", "query", "rank"]);
  for (const [name, value] of Object.entries(item)) if (!shown.has(name)) add("span", name + " " + (typeof value === "number" ? number(value) : typeof value === "string" ? value.slice(0, 300) : JSON.stringify(value).slice(0, 300)));
  return line;
}

// Only web addresses become links: javascript: and the like stay words.
function link(url) {
  if (!/^https?:\/\/[^\s]+$/i.test(url) || url.length > 2000) return element("span.source", null, url.slice(0, 300));
  return element("a.source", { href: url, rel: "noopener noreferrer nofollow", referrerpolicy: "no-referrer", target: "_blank" }, url.replace(/^https?:\/\//i, "").slice(0, 80));
}

function other(name, value) {
  if (Array.isArray(value) && value.every((part) => typeof part === "string")) {
    return later(name, String(value.length), () => element("ol.items", null, ...value.map((text) => element("li", null, folded(text)))), name === "queries");
  }
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
  return later(name, text.length > 40 ? "" : text, () => folded(text));
}

function trace(steps) {
  const names = ["stage", "seconds", "kept", "calls", "prompt_tokens", "generated_tokens", "queue_seconds", "device_seconds", "notes"];
  const head = element("tr", null, ...names.map((name) => element("th", { scope: "col" }, name.replace("_", " "))));
  const cell = (value) => (Array.isArray(value) ? value.join("; ") : typeof value === "number" ? number(value, 2) : value === null || value === undefined ? "" : value);
  const body = steps.map((step) => element("tr", null, ...names.map((name) => element(typeof step[name] === "number" ? "td.n" : "td", null, cell(step[name])))));
  return element("div.wide", { tabindex: "0", role: "region", "aria-label": "Trace" }, element("table", null, element("thead", null, head), element("tbody", null, ...body)));
}

// A fold whose contents are made when it is opened.
function later(name, note, make, open = false) {
  const fold = element("details.fold", null, element("summary", null, element("b", null, name), " ", element("span.muted", null, note)));
  const fill = () => { if (fold.open && fold.children.length === 1) fold.append(make()); };
  fold.addEventListener("toggle", fill);
  if (open) { fold.open = true; fill(); }
  return fold;
}
