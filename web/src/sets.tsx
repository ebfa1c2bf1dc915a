// SPDX-License-Identifier: Apache-2.0

// The list of all sets.

import { Component, Fragment, h } from "preact";
import { useState } from "preact/hooks";
import { useStream } from "./api";
import { useKept } from "./kept";
import { Row, setPath, span, waiting } from "./model";
import { Badge, Bar, Warnings } from "./parts";

type Column = { name: string; value: (r: Row) => string | number };

const rank: Record<string, number> = { failed: 0, rolling: 1, finished: 2 };

const columns: Column[] = [
  { name: "Set", value: (r) => r.namespace + "/" + r.set },
  { name: "Dialect", value: (r) => r.dialect },
  { name: "State", value: (r) => (r.desired === 0 && r.state === "finished" ? 4 : rank[r.state] ?? 3) }, // those without nodes are last
  { name: "Phase", value: (r) => r.phase || "" },
  { name: "Updated", value: (r) => (r.desired ? r.updated / r.desired : 1) },
  { name: "Available", value: (r) => (r.desired ? r.available / r.desired : 1) },
  { name: "Image and revision", value: (r) => (r.images || []).join(" ") + r.revision },
  { name: "Wave", value: (r) => r.wave || "" },
  { name: "Waits for", value: (r) => r.blocking || r.waits || "" },
  { name: "Next", value: (r) => r.next },
];

/** probe is the DaemonSet with which a manager finds out whether the controller of Kubernetes is active. */
const probe = "daemonset/everynode-probe";

/** fewRows is how many rows are shown at first, and how many more each time. */
const fewRows = 500;

function compare(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

/** SetRow is made again only when its set has changed: there may be thousands. */
class SetRow extends Component<{ r: Row }> {
  shouldComponentUpdate(next: { r: Row }) {
    return next.r !== this.props.r;
  }

  render() {
    const { r } = this.props;
    return (
      <tr role="row">
        <td role="cell" data-label="Set"><a href={setPath(r.namespace, r.set)}>{r.namespace}/{r.set}</a>{r.set === probe && <div><small>Everynode's check for another controller of DaemonSets; it runs on no node</small></div>}</td>
        <td role="cell" data-label="Dialect">{r.dialect}</td>
        <td role="cell" data-label="State" title={r.why}><Badge state={r.state} />{r.halt && <> <Badge state={r.halt} /></>}</td>
        <td role="cell" data-label="Phase">{r.phase ? <Badge state={r.phase} /> : "–"}</td>
        <td role="cell" data-label="Updated"><Bar done={r.updatedAndAvailable} half={r.updated} all={r.desired} label={`${r.updated} of ${r.desired} updated, ${r.updatedAndAvailable} of them available`} /> {r.updated}/{r.desired}</td>
        <td role="cell" data-label="Available">{r.available}/{r.desired}</td>
        <td role="cell" data-label="Image and revision">{(r.images || []).map((x) => <div key={x}><code>{x}</code></div>)}<small>{r.revision}</small></td>
        <td role="cell" data-label="Wave">{r.wave || "–"}</td>
        <td role="cell" data-label="Waits for" title={r.waits}>{r.blocking || waiting(r.waits || "–", r.waitsCause, r.waitsReason)}{r.secondsWithoutProgress ? <div><small>no progress for {span(r.secondsWithoutProgress)}</small></div> : null}</td>
        <td role="cell" data-label="Next">{r.next || "–"}</td>
      </tr>
    );
  }
}

export function Sets() {
  const page = useStream<Row>("sets/stream");
  const [filter = "", setFilter] = useKept("find");
  const [only, setOnly] = useKept("only");
  const [sort, setSort] = useKept("sort");
  const order = { column: Math.max(0, columns.findIndex((c) => c.name === (sort ?? "State").replace(/^-/, ""))), down: !!sort?.startsWith("-") };
  const [most, show] = useState(fewRows);
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (r: Row) => [r.namespace, r.set, r.state, r.halt, r.dialect, r.revision, r.phase, r.wave, r.waits, r.waitsCause, r.waitsReason, r.why, r.blocking, r.next, ...(r.images || [])].join(" ").toLowerCase();
  const value = columns[order.column].value;
  const all = [...page.items.values()];
  const rows = all
    .filter((r) => (!only || r.state !== "finished") && words.every((w) => text(r).includes(w)))
    .sort((a, b) => compare(value(a), value(b)) * (order.down ? -1 : 1) || compare(a.k, b.k));
  const rolling = all.filter((r) => r.state !== "finished").length;
  const head = page.parts.head;
  return (
    <main>
      <h1>Daemon sets {head?.namespace && <small>of namespace {head.namespace}</small>}</h1>
      <Warnings connected={page.connected} error={page.error?.message} lost={head?.lost} unread={head?.unread} />
      <form class="tools" onSubmit={(e) => e.preventDefault()}>
        <label>Filter <input type="search" value={filter} placeholder="name, namespace, verdict …" onInput={(e) => setFilter(e.currentTarget.value || undefined)} /></label>
        <label><input type="checkbox" checked={!!only} onChange={(e) => setOnly(e.currentTarget.checked ? "rolling" : undefined)} /> only rollouts in progress</label>
        <span role="status">{all.length} {all.length === 1 ? "set" : "sets"}, {rolling} with a rollout in progress{rows.length < all.length || rows.length > most ? `; ${Math.min(most, rows.length)} of ${rows.length} that match are shown` : ""}</span>
      </form>
      <div class="scroll" role="region" aria-label="Daemon sets" tabIndex={0}>
        <table class="sets" role="table">
          <caption class="unseen">Daemon sets</caption>
          <thead role="rowgroup"><tr role="row">
            {columns.map((c, i) => (
              <th key={c.name} scope="col" role="columnheader" aria-sort={order.column === i ? (order.down ? "descending" : "ascending") : "none"}>
                <button type="button" class="sort" onClick={() => setSort((order.column === i && !order.down ? "-" : "") + c.name)}>
                  {c.name}{order.column === i ? (order.down ? " ▾" : " ▴") : ""}
                </button>
              </th>
            ))}
          </tr></thead>
          <tbody role="rowgroup">
            {rows.slice(0, most).map((r) => <SetRow key={r.k} r={r} />)}
          </tbody>
        </table>
      </div>
      {rows.length > most && <p><button type="button" onClick={() => show(most + fewRows)}>Show {Math.min(fewRows, rows.length - most)} more</button></p>}
      {page.connected && all.length === 0 && <p class="empty">There are no daemon sets.</p>}
      {all.length > 0 && rows.length === 0 && <p class="empty">No daemon set matches.{" "}
        <button type="button" onClick={() => { setFilter(undefined); setOnly(undefined); }}>Show all</button></p>}
    </main>
  );
}
