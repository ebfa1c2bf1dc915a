// SPDX-License-Identifier: Apache-2.0

// One node, with every set on it.

import { h } from "preact";
import { useStream } from "./api";
import { NodeDetails, Pod, groupOf, groups, setPath } from "./model";
import { Absent, Conditions, Table, Warnings } from "./parts";

interface SetOnNode { k: string; namespace: string; set: string; verdict: string; reason: string; revision?: string; pods?: Pod[] }

export function Pods({ node, mine }: { node: NodeDetails; mine?: (p: NodeDetails["pods"][0]) => boolean }) {
  const pods = mine ? node.pods.filter(mine) : node.pods;
  if (pods.length === 0) {
    return <p class="empty">There is no pod.</p>;
  }
  return (
    <Table caption="Pods" head={["Pod", "Container", "Image", "State", "Restarts"]}>
      {pods.flatMap((p) => p.containers.map((c, i) => (
        <tr key={[p.namespace, p.name, c.name].join("/")}>
          <td>{i === 0 ? p.namespace + "/" + p.name : ""}</td><td>{c.name}{c.init && <small> (init)</small>}</td><td><code>{c.image}</code></td><td>{c.state}{c.ready ? ", ready" : c.init ? "" : ", not ready"}</td><td>{c.restarts}</td>
        </tr>
      )))}
    </Table>
  );
}

export function Node({ name }: { name: string }) {
  const page = useStream<SetOnNode>("node/stream?name=" + encodeURIComponent(name));
  const head = page.parts.head, node: NodeDetails | undefined = page.parts.node;
  const sets = [...page.items.values()].sort((a, b) => a.k.localeCompare(b.k));
  if (!head && page.error?.status === 404) {
    return (
      <main>
        <p><a href="#/">All sets</a></p>
        <h1>Node {name}</h1>
        <Absent what="The node" error={page.error.message} />
      </main>
    );
  }
  return (
    <main>
      <p><a href="#/">All sets</a></p>
      <h1>Node {name} {node?.cordoned && <span class="badge busy">cordoned</span>}</h1>
      <Warnings connected={page.connected} error={page.error?.message} lost={head?.lost} unread={head?.unread} />
      {node && !node.exists && !node.error && <p class="warning">The node does not exist any more.</p>}
      {node?.error && <p class="warning">{node.error}</p>}
      <h2>Sets on this node</h2>
      <Table caption="Sets on this node" head={["Set", "Verdict", "Why", "Pods"]}>
        {sets.map((s) => (
          <tr key={s.k}>
            <td><a href={setPath(s.namespace, s.set)}>{s.namespace}/{s.set}</a></td>
            <td><span class={"mark g" + groupOf(s.verdict)} aria-hidden="true">{groups[groupOf(s.verdict)].glyph}</span> {s.verdict}</td>
            <td>{s.reason}</td>
            <td>{(s.pods || []).map((p) => <div key={p.name}>{p.name}: {p.state}, revision {p.revision}</div>)}</td>
          </tr>
        ))}
      </Table>
      {node && <section>
        <h2>Pods of daemon sets</h2>
        <Pods node={node} />
        <h2>Conditions</h2>
        <Conditions all={node.conditions} />
        {node.taints && <p>Taints: {node.taints.join(", ")}</p>}
        <details><summary>Labels</summary><ul class="plain">{Object.entries(node.labels || {}).map(([k, v]) => <li key={k}><code>{k}={v}</code></li>)}</ul></details>
      </section>}
    </main>
  );
}
