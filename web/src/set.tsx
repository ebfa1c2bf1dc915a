// SPDX-License-Identifier: Apache-2.0

// One set: the fleet as a picture, and what else there is to know of it.

import { ComponentChildren, Fragment, h } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { query, read, useStream } from "./api";
import { Foreseen, Foresight, Plan, PlanLegend, PlanPanel, PlanPlayer, approvals, lasts, lookOf, within } from "./foresight";
import { Cell, Details, Facet, Head, NodeDetails, Outcome, Policy, Revision, ago, collator, groupOf, groups, moment, nodePath, notReady, stuck, reasonOf, seconds, span, wall } from "./model";
import { useKept } from "./kept";
import { Pods } from "./node";
import { Absent, Badge, Bar, Conditions, Difference, Table, Warnings } from "./parts";
import { Playback, Replayed } from "./playback";
import { Picture, Tile, TileGroup, panelId } from "./picture";
import { ClosedTimes, Timeline, brief, opens } from "./timeline";
import { Actions, Advance, Confirm, labelOf, run, useRights, waitsForHook } from "./verbs";

const zone = "topology.kubernetes.io/zone";

/** ofLabel is before the labels by which nodes can be grouped: a label may be called wave. */
const ofLabel = "label:";

export function Set({ namespace, set }: { namespace: string; set: string }) {
  const page = useStream<Cell>("set/stream" + query({ namespace, set }));
  const [foreseen, foresee] = useState<Foreseen>();
  const [replayed, replay] = useState<Replayed>();
  const [selected, select] = useKept("node");
  const head: Head | undefined = page.parts.head, details: Details | undefined = page.parts.details, revisions: Revision[] = page.parts.revisions || [];
  const title = namespace + "/" + set;
  const showPast = (r?: Replayed) => {
    foresee(undefined);
    replay(r);
  };
  const close = () => {
    select(undefined);
    (document.querySelector<HTMLElement>(`.cell[data-node="${CSS.escape(selected!)}"]`) ?? document.querySelector<HTMLElement>(".picture canvas"))?.focus({ preventScroll: true });
  };
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key === "Escape" && !document.querySelector("dialog[open]") && !(e.target as HTMLElement).matches("input, select, textarea")) {
        close();
      }
    };
    if (selected) {
      addEventListener("keydown", key);
    }
    return () => removeEventListener("keydown", key);
  }, [selected]);
  const past = useMemo(() => replayed?.replay.cells(replayed.at), [replayed]);
  // What a screen reader reads when a node is chosen: the focus stays on its cell, so that the arrow keys lead to the next one.
  const announced = useMemo(() => {
    const cell = selected && (past || page.items).get(selected);
    return selected ? `${foreseen ? lookOf(foreseen, selected).says() : cell ? says(cell) : selected}. The panel after the picture has the details; Escape closes it.` : "";
  }, [selected, !!foreseen, !!replayed]);
  if (!head || head.missing) {
    return (
      <main>
        <p><a href="#/">All sets</a></p>
        <h1>{title}</h1>
        {page.error?.status === 404 ? <Absent what="The set" error={page.error.message} /> : <Warnings connected={page.connected} error={page.error?.message} lost={head?.lost} />}
        <p class="empty">{head?.missing ? "The set was deleted." : page.error ? "" : "Reading …"}</p>
      </main>
    );
  }
  return (
    <main>
      <p><a href="#/">All sets</a></p>
      <h1>{title} <Badge state={head.state} />{head.halt && <> <Badge state={head.halt} /></>}{head.policy && <> <Badge state={head.policy.phase} /></>}</h1>
      <Warnings connected={page.connected} error={page.error?.message} lost={head.lost} unread={head.unread} />
      <Summary head={head} details={details} revisions={revisions} cells={page.items.size} />
      <Actions head={head} details={details} revisions={page.parts.revisions} />
      <Foresight head={head} details={details} cells={page.items} foreseen={foreseen} show={(f) => { replay(undefined); foresee(f); }} />
      {!replayed && <Playback head={head} live={page.items} show={showPast} />}
      <p class="unseen" role="status" data-announced>{announced}</p>
      <div>
        <Fleet page={page} head={head} facets={page.parts.facets || []} foreseen={foreseen} past={past} at={replayed?.at} selected={selected} select={select}>
          {replayed ? <Playback head={head} live={page.items} replayed={replayed} show={showPast} /> : foreseen && <PlanPlayer of={foreseen} show={foresee} />}
        </Fleet>
        {selected && (past && replayed ? <PastPanel node={selected} cell={past.get(selected)} at={replayed.at} close={close} />
          : foreseen ? <PlanPanel node={selected} of={foreseen} close={close} />
          : <Panel key={selected} head={head} node={selected} cell={page.items.get(selected)} close={close} />)}
      </div>
      {head.policy && <Waves head={head} policy={head.policy} details={details} />}
      <h2>Revisions</h2>
      <Revisions head={head} all={revisions} />
      {details && <Fragment>
        {(details.errors || []).map((text) => <p key={text} class="warning">{text}</p>)}
        <h2>Conditions</h2>
        <Conditions all={details.conditions} />
        <h2>Events</h2>
        {details.eventsSay && <p class="hint">{details.eventsSay}</p>}
        {details.events.length === 0 ? <p class="empty">There are none.</p> : (
          <Table caption="Events" head={["Last", "Type", "Reason", "Message", "Count"]}>
            {details.events.map((e, i) => <tr key={i}><td>{ago(e.last)}</td><td>{e.type}</td><td>{e.reason}</td><td>{e.message}</td><td>{e.count}</td></tr>)}
          </Table>
        )}
      </Fragment>}
    </main>
  );
}

/** Summary is what one reads first: how far it is, what blocks it, and what comes next. */
function Summary({ head, details, revisions, cells }: { head: Head; details?: Details; revisions: Revision[]; cells: number }) {
  const r = head.restarts;
  const images = revisions.find((x) => x.current)?.images || details?.containers.map((c) => c.image) || [];
  const more = cells - head.desired; // nodes that need no pod have a cell while one is there, as one that was cut off
  const replaced = revisions.filter((x) => !x.current && x.pods > 0);
  return (
    <section class="summary">
      <p>{head.why}.{head.secondsWithoutProgress ? <b> No progress for {span(head.secondsWithoutProgress)}.</b> : null}</p>
      {head.next && <p class="next"><b>Next:</b> {head.next}.</p>}
      <Bar done={head.updatedAndAvailable} half={head.updated} all={head.desired} label={`${head.updatedAndAvailable} of ${head.desired} nodes updated and available`} />
      <dl>
        <div><dt>{replaced.length > 0 ? "New revision" : "Revision"}</dt><dd><code>{head.revision}</code> {images.map((i) => <code key={i}>{i}</code>)}</dd></div>
        {replaced.slice(0, 3).map((x) => (
          <div key={x.name}><dt>Old revision, {x.pods} {x.pods === 1 ? "pod" : "pods"}</dt><dd><code>{x.hash}</code> {(x.images || []).map((i) => <code key={i}>{i}</code>)}</dd></div>
        ))}
        <div><dt>Nodes</dt><dd>{head.desired} need a pod, {head.updated} updated, {head.available} available{more > 0 ? `; ${more} more ${more === 1 ? "needs no new one, and has" : "need no new one, and have"} a pod, or had one` : ""}{head.aside ? `; ${head.aside} more ${head.aside === 1 ? "needs" : "need"} none` : ""}</dd></div>
        <div><dt>Budget</dt><dd>{head.budgetText}{head.overBudget && <small> Nodes whose pod was not available before are updated in addition, and pods that fail later count too.</small>}</dd></div>
        <div><dt>Restarts</dt><dd>{r.new} in {r.newPods} new pods, {r.old} in {r.oldPods} old ones</dd></div>
        {head.policy && head.state === "rolling" && head.secondsLeft !== undefined && <div><dt>At this speed</dt><dd>about {span(head.secondsLeft)} left</dd></div>}
        {head.waves && !head.policy && <div><dt>Batches</dt><dd>{head.waves.done} of {head.waves.total}, of {head.waves.size} nodes</dd></div>}
      </dl>
      {(head.problems || []).map((text) => <p key={text} class="warning">{text}</p>)}
      {head.policy?.failure?.message && <p class="warning">The revision has failed: {head.policy.failure.message}</p>}
      {(head.policy?.blocking || []).filter((b) => b.message !== head.policy?.failure?.message).map((b) => <p key={b.reason + b.message} class="blocking">Nothing starts: {b.message}</p>)}
      {head.waits.length > 0 && <ul class="waits" aria-label="What nodes wait for">
        {head.waits.slice(0, 8).map((w) => (
          <li key={w.verdict + w.reason + !!w.notReady}>
            <span class={"mark " + (w.notReady ? "x" : "g" + groupOf(w.verdict))} aria-hidden="true">{w.notReady ? notReady : groups[groupOf(w.verdict)].glyph}</span>
            {" "}<b>{w.count} {w.count === 1 ? "node" : "nodes"}</b>: <bdi>{w.reason}</bdi>{w.notReady ? ` (not ready for ${span(w.notReady)})` : ""} <small>{w.nodes.join(", ")}{w.count > w.nodes.length ? " …" : ""}</small>
          </li>
        ))}
      </ul>}
    </section>
  );
}

/** says describes a cell in a sentence. */
function says(c: Cell): string {
  const pods = (c.p || []).map((p) => `pod ${p.state}` + (p.restarts ? `, ${p.restarts} restarts` : "")).join("; ");
  return `${c.k}: ${reasonOf(c)}` + (c.x ? "; the node is not ready" + (c.x > 0 ? " since " + wall(c.x * 1000) : "") : "") + (pods ? "; " + pods : "");
}

/** tiles are those of cells: a cell that has not changed is the same object, and has the same tile. */
const tiles = new WeakMap<Cell, Tile>();

function tileOf(c: Cell, foreseen?: Foreseen): Tile {
  if (foreseen) {
    return { key: c.k, ...lookOf(foreseen, c.k) };
  }
  let tile = tiles.get(c);
  if (!tile) {
    const group = groupOf(c.v);
    tile = { key: c.k, tone: c.x && group !== 1 ? "x" : c.s ? "s" : "g" + group, glyph: c.x ? notReady : c.s ? stuck : groups[group].glyph, says: () => says(c) };
    tiles.set(c, tile);
  }
  return tile;
}

/** legendOf are the entries of the legend that a cell belongs to: its group, unless its pod does not start; and that its node is not ready. */
function legendOf(c: Cell): number[] {
  return c.x ? [groupOf(c.v), 7] : [c.s ? 8 : groupOf(c.v)];
}

/** waveOf is the wave of a cell. A node that is not ready counts in no wave, and would be among the remaining ones: that is no wave of the policy if it has no other nodes. */
function waveOf(head: Head, c: Cell): string | undefined {
  const name = head.waveNames?.[c.w], waves = head.policy?.waves;
  return c.x && name === "remaining" && waves && !waves.some((w) => w.name === name) ? "no wave while not ready" : name;
}

/** phaseOf is the phase of a wave. One that was active when the revision was rejected or failed does not continue from it. */
function phaseOf(policy: Policy, phase: string): string {
  const over = policy.phase === "Failed" || policy.phase === "Rejected";
  return over && phase !== "Pending" && phase !== "Passed" ? policy.phase : phase;
}

/** wavesOf are the waves by which nodes can be grouped: those of a plan that is shown, or those of now. */
function wavesOf(head: Head, foreseen?: Foreseen): string[] {
  return (foreseen?.plan.policy ? foreseen.plan.policy.waves.map((w) => w.name) : head.waveNames) || [];
}

/** naming returns how the group of a cell is called. */
function naming(by: string, facets: Facet[], head: Head, foreseen?: Foreseen): (c: Cell) => string {
  switch (by) {
    case "":
      return () => "";
    case "wave":
      return (c) => (foreseen?.plan.policy ? foreseen.waveOf.get(c.k)?.name : waveOf(head, c)) || "no wave";
    case "verdict":
      return (c) => c.v;
    case "revision":
      return (c) => "revision " + (c.p?.[c.p.length - 1]?.revision || "none");
  }
  const key = by.slice(ofLabel.length), i = facets.findIndex((f) => f.key === key), none = "without " + key;
  return (c) => {
    const value = facets[i]?.values[c.f[i]];
    return value === undefined ? none : value || "with " + key; // a label without a value, such as node-role.kubernetes.io/worker
  };
}

/** FleetProps: past are the cells of the time at, if that is not now. children move the time that is shown: they stay visible with the legend, however large the picture is. */
interface FleetProps {
  children: ComponentChildren;
  page: ReturnType<typeof useStream<Cell>>; head: Head; facets: Facet[]; foreseen?: Foreseen; past?: Map<string, Cell>; at?: number; selected?: string; select: (k?: string) => void;
}

function Fleet({ page, head, facets, foreseen, past, at, selected, select, children }: FleetProps) {
  const cells = past || page.items;
  const zones = facets.find((f) => f.key === zone);
  const [chosen, by] = useKept("by");
  const [filter = "", setFilter] = useKept("find");
  const [only, setOnly] = useState<number>();
  const [zoom, setZoom] = useState<number>();
  const count = cells.size, size = zoom ?? (count > 5000 ? 12 : count > 1000 ? 14 : 22);
  const waves = wavesOf(head, foreseen);
  const possible = ["", "verdict", "revision", ...(waves.length > 0 ? ["wave"] : []), ...facets.map((f) => ofLabel + f.key)];
  const how = chosen !== undefined && possible.includes(chosen) ? chosen : (zones?.values.length || 0) > 1 ? ofLabel + zone : "";
  const sorted = useMemo(() => past ? [...past.keys()] : [...page.items.keys()].sort(collator.compare), [page.order, past]);
  const { all, shown, found } = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean), name = naming(how, facets, head, foreseen);
    const filtered = words.length > 0 || (only !== undefined && !foreseen);
    const groupsFound = new Map<string, TileGroup>();
    let shown = 0, found = "";
    for (const key of sorted) {
      const c = cells.get(key)!, of = name(c), tile = tileOf(c, foreseen);
      let group = groupsFound.get(of);
      if (!group) {
        groupsFound.set(of, (group = { name: of, tiles: [], dim: filtered ? [] : undefined }));
      }
      group.tiles.push(tile);
      if (group.dim) {
        const text = words.length > 0 ? (c.k + " " + c.v + " " + tile.says() + " " + facets.map((f, i) => f.values[c.f[i]] || "").join(" ")).toLowerCase() : "";
        const matches = words.every((w) => text.includes(w)) && (only === undefined || !!foreseen || legendOf(c).includes(only));
        group.dim.push(!matches);
        if (matches) {
          shown++;
          found = key;
        }
      }
    }
    const place = (g: TileGroup) => (how === "wave" && waves.includes(g.name) ? String(waves.indexOf(g.name)).padStart(4, "0") : "~" + g.name);
    return { all: [...groupsFound.values()].sort((a, b) => collator.compare(place(a), place(b))), shown: filtered ? shown : undefined, found: shown === 1 ? found : undefined };
  }, [past || page.version, how, filter, only, foreseen]);
  const counts = new Array<number>(9).fill(0);
  for (const c of cells.values()) {
    legendOf(c).forEach((i) => counts[i]++);
  }
  return (
    <section aria-label="The fleet">
      <h2>The fleet {foreseen && <span class="badge busy">a plan</span>}{past && <span class="badge busy">at {wall(at!)}</span>}</h2>
      <form class="tools" onSubmit={(e) => e.preventDefault()}>
        <label>Group by <select value={how} onChange={(e) => by(e.currentTarget.value)}>
          <option value="">nothing</option>
          {waves.length > 0 && <option value="wave">wave</option>}
          <option value="verdict">verdict</option>
          <option value="revision">revision</option>
          {facets.length > 0 && <optgroup label="Labels of nodes">{facets.map((f) => <option key={f.key} value={ofLabel + f.key}>{f.key}</option>)}</optgroup>}
        </select></label>
        <label>Find <input type="search" value={filter} placeholder="node, verdict, label …" onInput={(e) => setFilter(e.currentTarget.value || undefined)} /></label>
        <label>Zoom <input type="range" min={6} max={44} value={size} onInput={(e) => setZoom(Number(e.currentTarget.value))} /></label>
        <span role="status">{shown !== undefined ? `${shown} of ${count} nodes` : `${count} nodes`}</span>
      </form>
      {found && cells.get(found) ? <p class="found" role="status">{tileOf(cells.get(found)!, foreseen).says()}.</p>
        : shown === 0 ? <p class="found" role="status">No node matches.</p>
        : <p class="hint">Choose a node, or type its name, to see why it waits.</p>}
      <div class="steer">
        {children}
        {foreseen ? <PlanLegend of={foreseen} cells={cells} /> : <div class="legend" role="group" aria-label="Show only">
          {[...groups, { name: "node not ready", glyph: notReady }, { name: "does not start", glyph: stuck }].map((g, i) => counts[i] > 0 && (
            <button key={g.name} type="button" aria-pressed={only === i} onClick={() => setOnly(only === i ? undefined : i)}>
              <span class={"mark " + (i === 7 ? "x" : i === 8 ? "s" : "g" + i)} aria-hidden="true">{g.glyph}</span> {g.name} {counts[i]}
            </button>
          ))}
        </div>}
      </div>
      <Picture groups={all} size={size} selected={selected} choose={(k) => select(k === selected ? undefined : k)} />
    </section>
  );
}

/** settling is how long a node must stay as it is before it is explained again, in milliseconds: a node that is updated changes several times. */
const settling = 300;

/** Why is an explanation of a node, and of which state of it. */
interface Why { state: string; outcome: Outcome; at: number }

/** useWhy explains a node, and again when its state has changed. */
function useWhy(head: Head, node: string, state: string): { why?: Why; current: boolean } {
  const [why, setWhy] = useState<Why>();
  useEffect(() => {
    let left = false;
    const take = (outcome: Outcome) => left || setWhy({ state, outcome, at: Date.now() });
    const timer = setTimeout(() => run(head, { verb: "explain-node", node }).then(take, (e: Error) => take({ line: "", error: e.message })), why ? settling : 0);
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [node, state]);
  return { why, current: why?.state === state };
}

/** nextOf is what happens next to a node: at a time, by a person, or with the others of the set. */
function nextOf(head: Head, cell?: Cell, e?: Explained): string {
  if (e?.next) {
    return e.next;
  }
  if (e?.remedy) {
    return "nothing by itself; what helps: " + e.remedy;
  }
  const group = cell ? groupOf(cell.v) : 0;
  if (cell?.x && (group === 3 || group === 4 || cell.v === "wait-unreachable")) {
    return "nothing before the node is ready again; then it continues";
  }
  if (cell?.s) {
    return "nothing by itself: a user must correct why the pod does not start, change the template, or undo";
  }
  if (cell?.v === waitsForHook) {
    return "nothing before the owner of the preDelete hook, or a user with the button below, releases the pod";
  }
  const own: Record<number, string> = { 3: "its pod becomes available", 4: "its old pod ends", 5: "it is changed now" };
  return own[group] || (group > 1 && head.next ? "what happens next to the set: " + head.next : "nothing");
}

/** Panel is about one node of the picture. */
function Panel({ head, node, cell, close }: { head: Head; node: string; cell?: Cell; close: () => void }) {
  const [details, setDetails] = useState<NodeDetails>();
  const [open, setOpen] = useState(false);
  const [releasing, release] = useState(false);
  const rights = useRights(head.namespace, head.set);
  const inWave = cell && waveOf(head, cell), wave = head.policy?.waves?.find((w) => w.name === inWave); // none if it is not reported yet
  const { f: _, ...own } = cell || { f: undefined }, state = JSON.stringify([own, head.revision, head.policy?.phase, head.policy?.next, inWave, wave?.phase]);
  const { why, current } = useWhy(head, node, state);
  useEffect(() => {
    const cut = new AbortController();
    read<NodeDetails>("cell" + query({ namespace: head.namespace, set: head.set, node }), cut.signal).then(setDetails, () => undefined);
    return () => cut.abort();
  }, [node, state]);
  const outcome = why?.outcome, next = !current ? "reading …" : outcome?.error ? "not known: " + outcome.error : nextOf(head, cell, outcome?.data);
  return (
    <aside class="panel node" id={panelId} aria-label={"Node " + node}>
      <p class="right"><button type="button" onClick={close}>Close</button></p>
      <h3><a href={nodePath(node)}>{node}</a></h3>
      {cell ? <p><span class={"mark " + tileOf(cell).tone} aria-hidden="true">{tileOf(cell).glyph}</span> <b>{cell.v}</b>: <bdi>{reasonOf(cell)}</bdi>.
        {cell.c && " It uses the budget."}{cell.x && ` The node is not ready for ${span(Date.now() / 1000 - cell.x)}.`}</p> : <p>The set needs no pod there any more.</p>}
      {inWave && <p>Wave: {inWave}{wave && `, which is ${wave.phase}: ${wave.available} of ${wave.nodes} nodes updated and available`}.</p>}
      <p data-next aria-busy={!current}>Next: {next}{current && "."}</p>
      {cell && groupOf(cell.v) > 1 && head.remedies && <p data-remedies>The buttons for that: {head.remedies.map((r) => `${labelOf(r.verb)} (${r.concerns})`).join(" or ")}.</p>}
      {(cell?.p || []).map((p) => <p key={p.name}>{p.name}: {p.state}, revision <code>{p.revision}</code>, {p.restarts || 0} restarts</p>)}
      {details && <Fragment>
        {details.error && <p class="warning">{details.error}</p>}
        <Pods node={details} />
        <Conditions all={details.conditions} />
      </Fragment>}
      {cell?.v === waitsForHook && <p><button type="button" disabled={!rights || !!rights.release} title={rights?.release} onClick={() => release(true)}>release the pod from its hook</button>
        {rights?.release && " You may not do that: " + rights.release}</p>}
      {releasing && <Confirm head={head} asked={{ verb: "release", node }} close={() => release(false)} />}
      <p><button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>Explain with rules and values</button></p>
      {open && outcome?.error && <p class="warning">{outcome.error}</p>}
      {open && outcome?.data && <Explanation of={outcome.data} as={current ? "Read at " + wall(why!.at) + "." : "The node has changed since: reading again …"} />}
      {open && outcome?.line && <p class="line"><code>{outcome.line}</code></p>}
    </aside>
  );
}

/** PastPanel is about one node of the picture at a time in the past: the rest is not recorded. */
function PastPanel({ node, cell, at, close }: { node: string; cell?: Cell; at: number; close: () => void }) {
  return (
    <aside class="panel node" id={panelId} aria-label={"Node " + node}>
      <p class="right"><button type="button" onClick={close}>Close</button></p>
      <h3>{node} at {wall(at)}</h3>
      <p>{cell ? says(cell) + "." : "The set did not concern the node."}</p>
    </aside>
  );
}

interface Explained { placement: string; rules?: { rule: string; says: string; against: boolean }[]; values?: { name: string; says: string }[]; next?: string; remedy?: string }

/** Explanation is what explain-node says. as says how new it is. */
function Explanation({ of: e, as }: { of: Explained; as: string }) {
  return (
    <div data-explained>
      <p class="hint">{as}</p>
      <p>{e.placement}</p>
      <ul class="plain">{(e.rules || []).map((r) => <li key={r.rule + r.says}>{r.rule}: {r.says}{r.against ? " (against)" : ""}</li>)}</ul>
      <ul class="plain">{(e.values || []).map((v) => <li key={v.name + v.says}>{v.name}: {v.says}</li>)}</ul>
      {e.remedy && <p>Remedy: {e.remedy}</p>}
    </div>
  );
}

/** Estimate is a plan of what is left, when it was made, in milliseconds since 1970, and of which state of the rollout. */
interface Estimate { plan?: Plan; at: number; error?: string; state: string }

/** estimated says when a wave begins and ends, as a plan foresees it; empty if it is finished. */
function estimated(wave: string, e: Estimate): string {
  const w = e.plan?.policy?.waves.find((x) => x.name === wave), start = seconds(w?.start), end = seconds(w?.end);
  if (w?.after) {
    return "estimate: " + (within(e.plan!, w.start, w) || "after " + approvals(w)) + (start !== undefined && end !== undefined ? ", for about " + span(end - start) : "");
  }
  if (!w || start === undefined && !end) {
    return "";
  }
  const time = (s: number) => wall(e.at + s * 1000);
  return "estimate: " + [start && !w.begun ? "from " + time(start) : "", end !== undefined ? "until " + time(end) : "the end is not known"].filter(Boolean).join(" ")
    + (w.approval ? ", and then the approval" : "");
}

/** Waves is the timeline of a policy. */
function Waves({ head, policy, details }: { head: Head; policy: Policy; details?: Details }) {
  const spec = details?.policy;
  const [made, setEstimate] = useState<Estimate>();
  const [busy, setBusy] = useState(false);
  // An estimate is of a state of the rollout: it goes away when a wave, an approval or the policy has changed since.
  const state = JSON.stringify([head.revision, policy.phase, policy.wave, (policy.waves || []).map((w) => [w.name, w.phase, w.nodes, w.approval]), spec]);
  const estimate = made?.state === state ? made : undefined;
  const ask = () => {
    setBusy(true);
    run(head, { verb: "plan" }).then((o) => setEstimate({ plan: o.data, at: Date.now(), error: o.error, state }), (e: Error) => setEstimate({ at: Date.now(), error: e.message, state }))
      .finally(() => setBusy(false));
  };
  return (
    <section>
      <h2>Waves of rolloutpolicy/{policy.name}</h2>
      {policy.others && <p class="warning">More than one policy applies, so none is followed: {policy.others.join(", ")}</p>}
      {!policy.reported && <p class="empty">No manager has reported this yet: it is what a manager would report now.</p>}
      <Timeline policy={policy} spec={spec} closed={details?.closed} estimate={estimate} />
      <ol class="waves">
        {(policy.waves || []).map((w) => {
          const own = spec?.waves?.find((x) => x.name === w.name), past = seconds(w.soaked);
          return (
            <li key={w.name} class={w.name === policy.wave ? "active" : ""} aria-current={w.name === policy.wave ? "step" : undefined}>
              <b>{w.name}</b> <Badge state={phaseOf(policy, w.phase)} />
              <Bar done={w.available} half={w.updated} all={w.nodes} label={`${w.available} of ${w.nodes} nodes updated and available`} />
              <span>{w.available}/{w.nodes} nodes</span>
              {w.failed ? <span class="bad-text">{w.failed} failed</span> : null}
              {own?.soak && <span>soak {own.soak}{w.phase === "Soaking" && past ? `, ${span(past)} of it had passed when it was reported` : ""}</span>}
              {own?.after?.some((g) => g.type === "Approval") && <span>{w.approval ? `approved by ${w.approvedBy || "unknown"} (${w.approval})` : "needs an approval"}
                {w.waitingSince && !w.approval ? `, waits for ${ago(w.waitingSince).replace(" ago", "")}` : ""}</span>}
              {own?.after?.some((g) => g.type === "Approval") && !w.approval && (w.phase === "Pending" || w.phase === "Rolling" || w.phase === "Soaking") && policy.targetRevision !== policy.committedRevision && <Advance head={head} wave={w.name} />}
              {w.rollingSince && phaseOf(policy, w.phase) === "Rolling" && <span>since {ago(w.rollingSince)}</span>}
              {w.completedAt && <span>complete for {ago(w.completedAt).replace(" ago", "")}</span>}
              {estimate && estimated(w.name, estimate) && <span data-estimate>{estimated(w.name, estimate)}</span>}
            </li>
          );
        })}
      </ol>
      {policy.decisions && <ul class="plain" aria-label="Decisions">{policy.decisions.map((d) => <li key={d.approval}><bdi>{d.text}</bdi></li>)}</ul>}
      {(policy.waves || []).length > 0 && <p><button type="button" disabled={busy} onClick={ask}>{busy ? "Estimating …" : "Estimate the times"}</button>
        {made && !estimate && !busy && <span role="status"> The rollout has changed since the estimate of {wall(made.at)}.</span>}
        {estimate?.plan && <span role="status"> Estimated at {wall(estimate.at)}: {estimate.plan.unfinished ? `${estimate.plan.unfinished} nodes do not finish` : `it takes ${lasts(estimate.plan)}`}{estimate.plan.policy?.holds ? "; " + estimate.plan.policy.holds : ""}.</span>}</p>}
      {estimate?.error && <p class="warning" role="alert">{estimate.error}</p>}
      {spec?.windows && <p>Windows: {spec.windows.map((w) => `${opens(w.schedule)} for ${brief(w.duration)} (${w.timeZone || "UTC"})`).join("; ")}</p>}
      {spec?.freezes && <p>Freezes: {spec.freezes.map((f) => `${moment(f.from)} to ${moment(f.to)}`).join("; ")}</p>}
      {details?.closed && <ClosedTimes closed={details.closed} />}
    </section>
  );
}

function Revisions({ head, all }: { head: Head; all: Revision[] }) {
  const [diff, setDiff] = useState<Outcome>();
  const [back, goBack] = useState<number>();
  const rights = useRights(head.namespace, head.set);
  const show = (from: number, to: number) => {
    run(head, { verb: "diff", arguments: [String(from), String(to)] }).then(setDiff, (e: Error) => setDiff({ line: "", error: e.message }));
  };
  const returning = (number: number) => {
    const to = all.find((r) => r.number === number), from = all.find((r) => r.current), images = (r?: Revision) => (r?.images || []).join(", ");
    const pods = Math.max(0, head.desired - (to?.pods || 0));
    return `${pods} ${pods === 1 ? "node gets" : "nodes get"} revision ${number} (${images(to)}) instead of revision ${from?.number} (${images(from)}), at most ${head.budget.limit} at a time.`;
  };
  const state = (r: Revision) => [
    r.current && "wanted", r.name === head.policy?.committedRevision && "committed", r.rejected || r.name === head.policy?.rejectedRevision && "rejected", r.failed && "failed: " + r.failed,
    r.marked && "has a mark of a failure that no policy confirms: " + r.marked,
  ].filter(Boolean).join(", ");
  return (
    <div>
      <Table caption="Revisions" head={["Number", "Revision", "Created", "Pods", "Images", "State", "Difference", "Return"]}>
        {all.map((r, i) => (
          <tr key={r.name}>
            <td>{r.number}</td><td><code>{r.hash}</code></td><td>{ago(r.created)}</td><td>{r.pods}</td><td>{(r.images || []).map((x) => <div key={x}><code>{x}</code></div>)}</td>
            <td>{state(r) || "–"}</td>
            <td>{all[i + 1] && <button type="button" onClick={() => show(all[i + 1].number, r.number)}>from {all[i + 1].number}</button>}</td>
            <td>{!r.current && <button type="button" class={r.rejected || r.failed || r.name === head.policy?.rejectedRevision ? "danger" : ""} disabled={!rights || !!rights.undo} title={rights?.undo} onClick={() => goBack(r.number)}>undo to {r.number}</button>}</td>
          </tr>
        ))}
      </Table>
      {back !== undefined && <Confirm head={head} asked={{ verb: "undo", flags: { "to-revision": String(back) } }} effect={returning(back)} close={() => goBack(undefined)} />}
      {diff?.error && <p class="warning">{diff.error}</p>}
      {diff?.data && <Difference text={String(diff.data.diff || "They do not differ.")} />}
    </div>
  );
}
