// SPDX-License-Identifier: Apache-2.0

// Small pieces that several pages share.

import { ComponentChildren, h } from "preact";
import { Condition, ago } from "./model";

/** Bar shows how many of a number are done, and how many more are under way. */
export function Bar({ done, half, all, label }: { done: number; half: number; all: number; label: string }) {
  const part = (n: number) => (all > 0 ? Math.min(100, (100 * n) / all) : 0) + "%";
  return (
    <span class="bar" role="img" aria-label={label} title={label}>
      <span class="half" style={{ width: part(half) }} />
      <span class="done" style={{ width: part(done) }} />
    </span>
  );
}

/** Badge is a state in a word. */
export function Badge({ state }: { state: string }) {
  const tones: Record<string, string> = {
    finished: "good", Complete: "good", Passed: "good", failed: "bad", Failed: "bad", Rejected: "bad", Stalled: "bad", Undoing: "bad", stuck: "bad", "nodes not ready": "bad",
    rolling: "busy", Rolling: "busy", Soaking: "busy",
  };
  return <span class={"badge " + (tones[state] || "calm")}>{state}</span>;
}

export function Table({ head, children, caption }: { head: string[]; children: ComponentChildren; caption: string }) {
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead><tr>{head.map((text) => <th key={text} scope="col">{text}</th>)}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** Difference is a difference of two templates, line by line. */
export function Difference({ text }: { text: string }) {
  return <pre class="diff">{text.split("\n").map((line, i) => <span key={i} class={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}>{line + "\n"}</span>)}</pre>;
}

export function Conditions({ all }: { all: Condition[] }) {
  if (all.length === 0) {
    return <p class="empty">There are none.</p>;
  }
  return (
    <Table caption="Conditions" head={["Condition", "Status", "Since", "Reason"]}>
      {all.map((c) => (
        <tr key={c.of + c.type}>
          <td>{c.type}{c.of ? <small> of {c.of}</small> : null}</td><td>{c.status}</td><td>{ago(c.since)}</td><td>{c.reason}{c.message ? ": " + c.message : ""}</td>
        </tr>
      ))}
    </Table>
  );
}

/** Absent is about a set or a node that the address names and that does not exist. */
export function Absent({ what, error }: { what: string; error: string }) {
  return <p class="warning" role="status">{what} is not there: {error}. Check the address, or go back to the list; the page looks again every minute.</p>;
}

/** Warnings are about the page itself: that it is outdated, or incomplete. */
export function Warnings({ connected, error, lost, unread }: { connected: boolean; error?: string; lost?: string; unread?: string }) {
  const texts: string[] = [];
  if (!connected && error) {
    texts.push("Not up to date: " + error);
  }
  if (lost) {
    texts.push("Not up to date, the cluster does not answer: " + lost);
  }
  if (unread) {
    texts.push(unread);
  }
  return <div role="status" aria-live="polite">{texts.map((text) => <p key={text} class="warning">{text}</p>)}</div>;
}
