// SPDX-License-Identifier: Apache-2.0

// Foresight: what an edit would do to each node, before anything is changed. It is the plan of kubectl everynode plan, played over the picture.

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import { Applied } from "./applied";
import { Cell, Details, Head, nodePath, seconds, span } from "./model";
import { Difference } from "./parts";
import { panelId } from "./picture";
import { Player } from "./player";
import { Asked, Confirm, run, save, useRights } from "./verbs";

interface PlannedNode { name: string; verdict: string; wave?: number; message: string; start?: string; end?: string }

/** Plan is the document of kubectl everynode plan, as far as the page uses it. The object also has the other fields. */
export interface Plan {
  revision: string;
  nodes: PlannedNode[]; counts: Record<string, number>; duration: string; unfinished: number; estimate: { low: string; high: string; endLow?: string; endHigh?: string };
  warnings: { kind: string; message: string }[]; diff?: string; budget: { limit: number; waves: number; mostAtOnce: number; mostDown: number };
  policy?: { name: string; holds?: string; waves: { name: string; nodes: string[]; start?: string; end?: string; begun?: boolean; completed?: boolean; approval?: boolean; after?: string[] }[] };
}

/** Foreseen is a plan that is shown, at a time of it in seconds; at is -1 for its verdicts. raw is the plan as the server has sent it: what is shown may differ in characters. */
export interface Foreseen { plan: Plan; byNode: Map<string, PlannedNode>; waveOf: Map<string, PlannedWave>; at: number; raw?: object }

const looks: Record<string, [tone: string, glyph: string]> = {
  create: ["g5", "+"], recreate: ["g5", "R"], "in-place": ["g5", "I"], surge: ["g5", "S"], remove: ["g4", "−"], wait: ["g2", "W"], blocked: ["g6", "B"], leave: ["g0", "·"],
};

type PlannedWave = NonNullable<Plan["policy"]>["waves"][0];

/** foresee keeps a plan with what is looked up in it for each node. */
export function foresee(plan: Plan, raw?: object): Foreseen {
  const waveOf = new Map<string, PlannedWave>();
  for (const w of plan.policy?.waves || []) {
    w.nodes.forEach((name) => waveOf.set(name, w));
  }
  return { plan, byNode: new Map(plan.nodes.map((n) => [n.name, n])), waveOf, at: -1, raw };
}

/** approvals names the approvals that a wave waits for; empty if it waits for none. Nobody knows when a person decides, so no time after them is known. */
export function approvals(wave?: PlannedWave): string {
  return wave?.after?.length ? `the approval of ${wave.after.join(", ")}` : "";
}

/** begins is when the first wave begins that waits for the same approvals, in seconds of the plan: at once after the last of them. */
function begins(plan: Plan, wave: PlannedWave): number {
  const waits = approvals(wave), all = (plan.policy?.waves || []).filter((w) => approvals(w) === waits);
  return Math.min(...all.map((w) => seconds(w.start) ?? Infinity));
}

/** within is a time of a plan, as one that counts from the approvals if the wave waits for some. */
export function within(plan: Plan, time: string | undefined, wave?: PlannedWave): string {
  const at = seconds(time), waits = approvals(wave), begin = wave && waits ? begins(plan, wave) : 0;
  if (at === undefined) {
    return "";
  }
  return waits ? (at > begin ? `${span(at - begin)} after ${waits}` : `after ${waits}`) : `after ${time}`;
}

/** whenOf is when a plan updates a node. */
export function whenOf(plan: Plan, n: PlannedNode, wave?: PlannedWave): string {
  const start = within(plan, n.start, wave), end = seconds(n.end), begin = seconds(n.start) ?? 0;
  return start && start + (end !== undefined ? `, for about ${span(end - begin)}` : "");
}

/** moment is a time of a plan that is played: it is no time of a clock once a wave has begun that waits for approvals. It counts from the last approvals, and from the same ones until others follow. */
export function moment({ plan, at }: Foreseen): string {
  let last: PlannedWave | undefined, from = -1;
  for (const w of plan.policy?.waves || []) {
    const begin = w.after?.length ? begins(plan, w) : Infinity;
    if (begin <= at && begin > from) {
      last = w;
      from = begin;
    }
  }
  return last ? `${span(at - from)} after ${approvals(last)}` : "after " + span(at);
}

const interval = (low: string, high: string) => low === high ? low : `${low} to ${high}`;

/** lasts is how long a plan takes. A soak goes on after all nodes are updated, and the time until people decide is not known. */
export function lasts({ estimate: e, policy }: Plan): string {
  const soak = e.endLow && e.endHigh ? ` until all nodes are updated; with the last soak ${interval(e.endLow, e.endHigh)}` : "";
  return interval(e.low, e.high) + soak + (policy?.waves.some((w) => w.approval) ? " and the time until approvals" : "");
}

/** counted counts the nodes of a plan by verdict. */
function counted({ nodes, counts }: Plan): string {
  return `${number(nodes.length)}: ${Object.entries(counts).map(([v, n]) => `${n} ${v}`).join(", ")}`;
}

const number = (n: number) => n + (n === 1 ? " node" : " nodes");

/** does is what a plan does, after its verdicts: how long it takes, and how many nodes at once; that nothing starts, if none does. */
function does(plan: Plan): string {
  const { budget: b, unfinished } = plan, never = unfinished ? `; ${number(unfinished)} never ${unfinished === 1 ? "finishes" : "finish"}` : "";
  if (!plan.nodes.some((n) => n.start)) {
    return "; no node is updated" + never;
  }
  const batches = plan.policy ? "" : b.waves + (b.waves === 1 ? " batch, " : " batches, ");
  return `; takes ${lasts(plan)}, ${batches}at most ${number(b.mostAtOnce)} at once, at most ${b.mostDown} without an available pod${never}`;
}

/** Look is how a node looks in a plan. name is what that means. */
interface Look { tone: string; glyph: string; name: string }

/** stageOf is a node at a moment of the plan: with at -1 its verdict, else whether it has begun and is finished. */
function stageOf(f: Foreseen, n: PlannedNode): Look {
  const start = seconds(n.start), end = seconds(n.end), [tone, glyph] = looks[n.verdict] || ["g0", "·"];
  if (f.at < 0 || start === undefined) {
    return { tone, glyph, name: n.verdict };
  }
  if (f.at < start) {
    return { tone: "g2", glyph: "○", name: "later" };
  }
  return end !== undefined && f.at >= end ? { tone: "g1", glyph: "●", name: "finished" } : { tone: "g5", glyph: "◆", name: "in progress" };
}

/** lookOf is how a node looks at a moment of the plan, and what there is to say about it. */
export function lookOf(f: Foreseen, node: string): { tone: string; glyph: string; says: () => string } {
  const n = f.byNode.get(node);
  if (!n) {
    return { tone: "g0", glyph: "·", says: () => node + ": not in the plan" };
  }
  const wave = f.waveOf.get(node), when = [whenOf(f.plan, n, wave), wave && "wave " + wave.name].filter(Boolean).map((text) => ", " + text).join("");
  const { tone, glyph } = stageOf(f, n);
  return { tone, glyph, says: () => `${n.name}: ${n.verdict}${when}: ${n.message}` };
}

/** PlanLegend says what the cells of a plan mean, and how many of those that are shown there are of each. */
export function PlanLegend({ of: f, cells }: { of: Foreseen; cells: Map<string, Cell> }) {
  const found = new Map<string, Look & { count: number }>();
  for (const n of f.plan.nodes) {
    if (!cells.has(n.name)) {
      continue;
    }
    const look = stageOf(f, n), before = found.get(look.name);
    found.set(look.name, { ...look, count: (before?.count || 0) + 1 });
  }
  return (
    <ul class="legend plain" aria-label="Legend of the plan">
      {[...found.values()].sort((a, b) => a.name.localeCompare(b.name)).map((l) => (
        <li key={l.name}><span class={"mark " + l.tone} aria-hidden="true">{l.glyph}</span> {l.name} {l.count}</li>
      ))}
    </ul>
  );
}

/** PlanPanel is about one node of the plan. */
export function PlanPanel({ node, of: f, close }: { node: string; of: Foreseen; close: () => void }) {
  const n = f.byNode.get(node), wave = f.waveOf.get(node), look = n && stageOf(f, n), when = n && whenOf(f.plan, n, wave);
  return (
    <aside class="panel node" id={panelId} aria-label={"Node " + node}>
      <p class="right"><button type="button" onClick={close}>Close</button></p>
      <h3><a href={nodePath(node)}>{node}</a> in the plan</h3>
      {n && look ? <Fragment>
        <p><span class={"mark " + look.tone} aria-hidden="true">{look.glyph}</span> <b>{n.verdict}</b>: <bdi>{n.message}</bdi>.{look.name !== n.verdict && ` ${moment(f)}: ${look.name}.`}</p>
        {wave && <p>Wave: {wave.name}, {wave.nodes.length} {wave.nodes.length === 1 ? "node" : "nodes"}{wave.after?.length ? ", which starts after " + approvals(wave) : ""}.</p>}
        {when && <p>It is updated {when}{n.end ? "" : ", and does not finish"}.</p>}
      </Fragment> : <p>The node is not in the plan.</p>}
    </aside>
  );
}

/** PlanPlayer plays a plan over the picture; none if the plan updates no node. */
export function PlanPlayer({ of: f, show }: { of: Foreseen; show: (f?: Foreseen) => void }) {
  const total = Math.max(0, ...f.plan.nodes.map((n) => seconds(n.end) ?? seconds(n.start) ?? 0));
  return total > 0 ? (
    <Player from={0} to={total} at={f.at < 0 ? total : f.at} says={f.at < 0 ? "the verdicts" : moment(f)} move={(at) => show({ ...f, at })}>
      {f.at >= 0 && <button type="button" onClick={() => show({ ...f, at: -1 })}>Verdicts</button>}
    </Player>
  ) : null;
}

/** mostPolicy is the maximum size of a rollout policy in bytes, as the server checks it. */
const mostPolicy = 1 << 20;

interface Props { head: Head; details?: Details; cells: Map<string, Cell>; foreseen?: Foreseen; show: (f?: Foreseen) => void }

export function Foresight({ head, details, cells, foreseen, show }: Props) {
  const [images, setImages] = useState(new Map<string, string>());
  const [partition, setPartition] = useState("");
  const [selector, setSelector] = useState<string>();
  const [policy, setPolicy] = useState<string>();
  const [problem, setProblem] = useState("");
  const [line, setLine] = useState("");
  const [busy, setBusy] = useState(false);
  const [planned, plannedFor] = useState("");
  const [asked, ask] = useState<{ request: Asked; effect: string }>();
  const [applied, apply] = useState<Plan>();
  const [open, setOpen] = useState(false);
  const rights = useRights(head.namespace, head.set);
  const containers = details?.containers || [];
  const changed = containers.filter((c) => (images.get(c.name) || c.image) !== c.image);
  const flags: Record<string, string> = {};
  if (changed.length > 0) {
    flags.image = changed.map((c) => c.name + "=" + images.get(c.name)).join("\n");
  }
  if (partition) {
    flags.partition = partition;
  }
  if (selector !== undefined && selector !== (details?.selector || "")) {
    flags.selector = selector;
  }
  if (policy !== undefined) {
    flags.policy = policy;
  }
  const inputs = JSON.stringify(flags), outdated = planned !== inputs;
  const makePlan = async () => {
    setBusy(true);
    setProblem("");
    const size = new TextEncoder().encode(policy || "").length;
    if (size > mostPolicy) {
      setProblem(`Rollout policy: it has ${size} bytes, and may have ${mostPolicy}`);
      setBusy(false);
      return;
    }
    try {
      const answer = await run(head, { verb: "plan", flags });
      setLine(answer.line);
      plannedFor(inputs);
      if (answer.error || !answer.data) {
        setProblem(answer.error || "there is no plan");
        show(undefined);
      } else {
        const plan: Plan = answer.data;
        show(foresee(plan, answer.raw));
      }
    } catch (error) {
      setProblem((error as Error).message);
    }
    setBusy(false);
  };
  const idle = foreseen && planned && Object.entries(JSON.parse(planned)).every(([flag, value]) => flag === "policy" && head.policy && value === details?.policyText)
    ? "The plan makes no edit: there is nothing to apply." : "";
  const effect = (plan: Plan) => [
    ...changed.map((c) => `Image of ${c.name}: ${c.image} → ${images.get(c.name)}.`), flags.partition && `Partition: ${details?.partition || 0} → ${flags.partition}.`,
    flags.selector !== undefined && `Canary: ${details?.selector || "all nodes"} → ${flags.selector || "all nodes"}.`, flags.policy && "It stores the rollout policy first.",
    counted(plan) + (plan.nodes.some((n) => n.start) ? `; it takes ${lasts(plan)}` : "") + ".",
  ].filter(Boolean).join(" ");
  const edits = Object.keys(flags), ofPolicy = head.policy ? "right:change-policy" : "right:create-policy";
  const denied = (edits.some((f) => f !== "policy") && rights?.apply) || (policy !== undefined && rights?.[ofPolicy]) || "";
  return (
    <Fragment>
      {applied && <Applied plan={applied} cells={cells} close={() => apply(undefined)} />}
      <details class="foresight" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary>What would a change do?</summary>
        <p class="hint">Enter another image or other values. The plan shows what would happen to each node, and changes nothing.</p>
        <form class="tools" onSubmit={(e) => { e.preventDefault(); void makePlan(); }}>
          {containers.map((c) => (
            <label key={c.name}>Image of {c.init && "init container "}{c.name} <input class="wide" value={images.get(c.name) ?? c.image} onInput={(e) => setImages(new Map(images).set(c.name, e.currentTarget.value))} /></label>
          ))}
          {head.advanced && <label>Partition <input value={partition} placeholder={details?.partition || "0"} onInput={(e) => setPartition(e.currentTarget.value.trim())} /></label>}
          {head.advanced && <label>Canary: only nodes with the labels <input class="wide" value={selector ?? details?.selector ?? ""} placeholder="all nodes; for example zone=a"
            onInput={(e) => setSelector(e.currentTarget.value.trim())} /></label>}
          {details && <label><input type="checkbox" checked={policy !== undefined} onChange={(e) => setPolicy(e.currentTarget.checked ? details.policyText : undefined)} />
            {head.policy ? " edit the rollout policy" : " with a new rollout policy"}</label>}
          {policy !== undefined && <label class="text">Rollout policy, as YAML
            <textarea rows={Math.min(24, policy.split("\n").length + 1)} spellcheck={false} value={policy} onInput={(e) => setPolicy(e.currentTarget.value)} /></label>}
          <button type="submit" disabled={busy}>{busy ? "Planning …" : "Show the plan"}</button>
          {foreseen && <button type="button" onClick={() => show(undefined)}>Back to now</button>}
        </form>
        {problem && <p class="warning" role="alert">{problem}</p>}
        {foreseen && (
          <div data-plan="shown">
            <p role="status"><b>This is a plan: nothing has been changed.</b> {Object.entries(foreseen.plan.counts).map(([v, n]) => `${n} ${v}`).join(", ")}{does(foreseen.plan)}.</p>
            {foreseen.plan.warnings.map((w) => <p key={w.kind + w.message} class="warning">{w.message}</p>)}
            {foreseen.plan.policy?.holds && <p class="warning">{foreseen.plan.policy.holds}</p>}
            {foreseen.plan.policy && <ul class="plain">{foreseen.plan.policy.waves.map((w) => (
              <li key={w.name}>wave {w.name}: {number(w.nodes.length)}{w.completed ? ", complete" : w.begun ? ", begun" : w.start ? `, starts ${seconds(w.start) === 0 && !w.after?.length ? "at once" : within(foreseen.plan, w.start, w)}` : ""}{w.end ? `, ends ${within(foreseen.plan, w.end, w)}` : ""}{w.approval ? ", then needs an approval" : ""}</li>
            ))}</ul>}
            {foreseen.plan.diff && <details><summary>Difference of the templates</summary><Difference text={foreseen.plan.diff} /></details>}
            {line && <p class="line"><code>{line}</code>
              {planned.includes('"policy":') && <> <button type="button" onClick={() => save("policy.yaml", JSON.parse(planned).policy)}>Save policy.yaml</button></>}</p>}
            <p><button type="button" class="main" disabled={busy || !rights || !!denied || outdated || !!idle} title={denied && "You may not do that: " + denied}
              onClick={() => ask({ request: { verb: "apply", flags: JSON.parse(planned), plan: foreseen.raw }, effect: effect(foreseen.plan) })}>Apply this plan …</button>
              {denied && <span class="denied"> You may not do that: {denied}</span>}
              {idle && " " + idle}
              {outdated && " The plan is for other values than those above: show it again."}</p>
          </div>
        )}
      </details>
      {asked && <Confirm head={head} asked={asked.request} effect={asked.effect} close={() => ask(undefined)} again={() => void makePlan()} after={() => { apply(foreseen?.plan); show(undefined); }} />}
    </Fragment>
  );
}
