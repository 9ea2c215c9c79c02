// The list of questions: search, sort, filter; a question at a time beside it.

const PAGE = 60; // rows made at a time: thousands of rows cost a telephone seconds

async function browse() {
  const index = await part("index");
  const root = document.getElementById("browser");
  const list = root.querySelector("ol"), pane = root.querySelector(".pane"), count = root.querySelector(".count");
  const [search, run, metric, sort, filter] = ["search", "run", "metric", "sort", "filter"].map((name) => root.querySelector("[name=" + name + "]"));
  const more = root.querySelector(".more");
  const haystack = index.ids.map((id, n) => [id, index.questions[n], ...index.golds[n], ...index.runs.map((r) => r.answers[n] || "")].join("\n").toLowerCase());
  let order = [], made = 0, opened = null;

  for (const [n, name] of index.names.entries()) run.append(element("option", { value: n }, name));
  for (const name of index.metrics) metric.append(element("option", null, name));
  if (index.metrics.includes("containment")) metric.value = "containment";
  run.closest("label").hidden = index.names.length === 1;

  const column = () => index.runs[Number(run.value)];
  const score = (n) => (column().scores[metric.value] || [])[n] ?? null;
  const gain = (n) => { const a = score(n), b = (index.runs[0].scores[metric.value] || [])[n] ?? null; return a === null || b === null ? null : a - b; };
  const filters = {
    "all questions": () => true,
    "score below 1": (n) => score(n) !== null && score(n) < 1,
    "score 0": (n) => score(n) === 0,
    "not scored": (n) => score(n) === null,
    failed: (n) => column().failed[n],
    abstained: (n) => column().abstained[n],
    "with unsupported sentences": (n) => column().unsupported[n] > 0,
    ...Object.fromEntries(index.steps.map((step, at) => ["gold lost: not " + step, (n) => column().lost[n] === at])),
    ...(index.names.length > 1 ? { ["wins against " + index.names[0]]: (n) => gain(n) > 0, ["loses against " + index.names[0]]: (n) => gain(n) < 0, ["ties with " + index.names[0]]: (n) => gain(n) === 0 } : {}),
  };
  const sorts = { "file order": null, "score, low first": (n) => score(n), "score, high first": (n) => -score(n), "slowest first": (n) => -column().seconds[n], "most tokens first": (n) => -column().tokens[n], "unsupported first": (n) => -column().unsupported[n], ...(index.names.length > 1 ? { "gain, low first": gain, "gain, high first": (n) => -gain(n) } : {}) };
  const unknown = { score, gain, slowest: (n) => column().seconds[n], most: (n) => column().tokens[n], unsupported: (n) => column().unsupported[n] };
  for (const name of Object.keys(filters)) filter.append(element("option", null, name));
  for (const name of Object.keys(sorts)) sort.append(element("option", null, name));

  function refresh() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    order = index.ids.map((_, n) => n).filter((n) => filters[filter.value](n) && words.every((word) => haystack[n].includes(word)));
    const key = sorts[sort.value];
    if (key) {
      const known = unknown[sort.value.split(/[ ,]/)[0]];
      const last = (n) => (known(n) === null || known(n) === undefined ? 1 : 0); // what has no value comes last
      order.sort((a, b) => last(a) - last(b) || key(a) - key(b) || a - b);
    }
    list.replaceChildren();
    made = 0;
    count.textContent = order.length === index.ids.length ? order.length.toLocaleString("en") + " questions" : order.length.toLocaleString("en") + " of " + index.ids.length.toLocaleString("en") + " questions";
    grow();
  }

  function grow() {
    list.append(...order.slice(made, made + PAGE).map(entry));
    made = Math.min(order.length, made + PAGE);
    more.hidden = made >= order.length;
    more.textContent = "Show " + Math.min(PAGE, order.length - made) + " more";
  }

  function entry(n) {
    const values = index.names.length > 1 ? index.runs.map((r) => number((r.scores[metric.value] || [])[n] ?? null, 2)).join(" / ") : number(score(n), 2);
    const of = column();
    const flags = [of.failed[n] && "failed", of.abstained[n] && "abstained", of.unsupported[n] && of.unsupported[n] + " unsupported", of.lost[n] !== null && of.lost[n] < index.steps.length && "gold not " + index.steps[of.lost[n]]];
    const button = element("button.entry", { type: "button", "data-n": n, "aria-current": String(n === opened) },
      element("span.what", { dir: "auto" }, index.questions[n].slice(0, 240)),
      element("span.value", { title: metric.value }, values),
      element("span.flags", null, index.ids[n].slice(0, 60), ...flags.filter(Boolean).map((flag) => element("i", null, flag))));
    return element("li", null, button);
  }

  async function open(n, focus) {
    opened = n;
    for (const button of list.querySelectorAll("button.entry")) button.setAttribute("aria-current", String(Number(button.dataset.n) === n));
    const detail = await questionDetail(index, n);
    if (opened !== n) return; // another was opened meanwhile
    pane.replaceChildren(back, detail);
    root.classList.add("opened");
    pane.scrollTop = 0;
    history.replaceState(null, "", "#q=" + encodeURIComponent(index.ids[n]));
    if (focus) detail.querySelector("h3").focus({ preventScroll: false });
  }

  function close() {
    root.classList.remove("opened");
    (list.querySelector("[aria-current=true]") || search).focus();
  }

  const back = element("button.back", { type: "button" }, "← All questions");
  back.addEventListener("click", close);
  list.addEventListener("click", (event) => { const button = event.target.closest("button.entry"); if (button) open(Number(button.dataset.n), true); });
  more.addEventListener("click", () => { const at = made; grow(); list.children[at]?.firstChild.focus(); });
  let waiting = null;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(refresh, 120); });
  for (const control of [run, metric, sort, filter]) control.addEventListener("change", refresh);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing) { event.preventDefault(); search.focus(); }
    else if (event.key === "Escape" && pane.contains(event.target)) close();
    else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && (event.target.classList.contains("entry") || event.target === search)) {
      const buttons = [...list.querySelectorAll("button.entry")], at = buttons.indexOf(event.target), to = at + (event.key === "ArrowDown" ? 1 : -1);
      event.preventDefault();
      (to < 0 ? search : buttons[Math.min(to, buttons.length - 1)] || search).focus();
    }
  });

  refresh();
  root.dataset.ready = "yes";
  const at = index.ids.indexOf(new URLSearchParams(location.hash.slice(1)).get("q"));
  if (at >= 0) { await open(at, false); root.scrollIntoView(); }
}

browse().catch((problem) => {
  document.querySelector("#browser .count").textContent = "The questions cannot be shown: " + problem.message + ". A browser of 2023 or later is needed.";
});
