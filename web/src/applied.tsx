// SPDX-License-Identifier: Apache-2.0

// Applied: how far the nodes have come since a plan was applied, and whether what comes out is the plan.

import { h } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Cell, groupOf } from "./model";
import { Plan } from "./foresight";

const updated = ["create", "recreate", "in-place", "surge"];

/** compare counts the nodes that have come out as planned, and names those that have got the revision although the plan holds them back. */
export function compare(plan: Plan, cells: Map<string, Cell>): { done: number; left: number; more: string[] } {
  let done = 0, left = 0;
  const more: string[] = [];
  for (const n of plan.nodes) {
    const cell = cells.get(n.name), pods = cell?.p || [], revision = pods[pods.length - 1]?.revision;
    if (n.verdict === "wait" && revision === plan.revision) {
      more.push(n.name);
    }
    if (n.verdict !== "remove" && !(updated.includes(n.verdict) && n.end)) {
      continue; // nothing is to come out
    }
    const out = n.verdict === "remove" ? pods.length === 0 : !!cell && groupOf(cell.v) === 1 && revision === plan.revision;
    out ? done++ : left++;
  }
  return { done, left, more };
}

export function Applied({ plan, cells, close }: { plan: Plan; cells: Map<string, Cell>; close: () => void }) {
  const { done, left, more } = compare(plan, cells), all = done + left, box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current!.scrollIntoView({ block: "start" }), [plan]); // the plan was above, and is gone
  return (
    <div class="panel" ref={box} data-applied={left + more.length > 0 ? "under way" : all > 0 ? "as planned" : "no updates"}>
      <p class="right"><button type="button" onClick={close}>Close</button></p>
      <p role="status"><b>The plan was applied.</b> {all > 0 ? `${done} of ${all} nodes have come out as planned.${left + more.length === 0 ? " The outcome is the plan." : ""}`
        : "It updates and removes no pod, so there is nothing to wait for."}</p>
      {more.length > 0 && <p class="warning">{more.length} {more.length === 1 ? "node has" : "nodes have"} the revision, and would wait in the plan: {more.slice(0, 5).join(", ")}{more.length > 5 ? " …" : ""}</p>}
    </div>
  );
}
