// SPDX-License-Identifier: Apache-2.0

// What the server sends, as far as the page uses it, and how it is written for people.

export interface Verdict { sentence: string; group: number }

export interface Pod { name: string; revision: string; state: string; restarts?: number }

/** Cell is a node of the picture. w is the index of its wave in waveNames of the head; -1 for none. x is since when the node is not ready, in seconds since 1970; -1 if that is not known. s is whether its new pod does not start by itself. */
export interface Cell {
  k: string; v: string; r?: string; x?: number; s?: boolean; gone?: boolean; c?: boolean; w: number; f: number[]; p?: Pod[];
}

export interface Facet { key: string; values: string[] }

export interface Wave {
  name: string; nodes: number; updated: number; available: number; phase: string; failed?: number;
  rollingSince?: string; completedAt?: string; waitingSince?: string; soaked?: string; approval?: string; approvedBy?: string;
}

export interface Policy {
  name: string; others?: string[]; reported: boolean; phase: string; wave?: string; enforcement?: string; waves?: Wave[];
  blocking?: { reason: string; message: string }[]; next?: { action: string; at?: string }; failure?: { wave?: string; at?: string; message?: string };
  targetRevision?: string; committedRevision?: string; rejectedRevision?: string;
  decisions?: { approval: string; text: string }[];
}

/** Remedy is an action for which a rollout waits: what it concerns, and its command for a shell. */
export interface Remedy { verb: string; concerns: string; line: string }

/** Head is the head of the page of a set. waveNames are the waves of the policy as it is now; those of policy are what its manager has reported, which may be older. */
export interface Head {
  missing?: boolean; set: string; namespace: string; name: string; dialect: string; advanced: boolean; revision: string; state: string; why: string;
  desired: number; updated: number; available: number; ready: number; misscheduled: number; updatedAndAvailable: number; aside: number;
  budget: { limit: number; surge: boolean; usedByUpdate: number; usedByOthers: number; usedByUnreachable: number };
  waves?: { size: number; done: number; total: number }; secondsLeft?: number; waveNames?: string[];
  verdicts?: { verdict: string; nodes: number }[]; budgetText: string; overBudget?: boolean;
  waits: { verdict: string; reason: string; notReady?: number; count: number; nodes: string[] }[];
  problems?: string[]; policy?: Policy; next: string; remedies?: Remedy[]; halt?: string; secondsWithoutProgress?: number; unread?: string; lost?: string;
  restarts: { new: number; old: number; newPods: number; oldPods: number };
}

export interface Revision { name: string; hash: string; number: number; created: number; pods: number; images?: string[]; current?: boolean; failed?: string; marked?: string; rejected?: string }

export interface Condition { type: string; status: string; reason?: string; message?: string; since?: string; of?: string }

/** Closed are times in which no update starts, in milliseconds since 1970. */
export interface Closed { times: { from: number; to: number; why: string }[]; until: number }

export interface Details {
  closed?: Closed;
  conditions: Condition[]; paused: boolean; partition?: string; selector?: string; hook?: boolean; policyText: string; containers: { name: string; image: string; init?: boolean }[];
  eventsSay?: string;
  events: { type: string; reason: string; message: string; count: number; last: string }[];
  policy?: {
    suspend?: boolean;
    waves?: { name: string; soak?: string; after?: { type: string }[] }[];
    windows?: { schedule: string; duration: string; timeZone?: string }[]; freezes?: { from: string; to: string }[];
  };
  errors?: string[];
}

export interface NodeDetails {
  exists: boolean; conditions: Condition[]; labels?: Record<string, string>; taints?: string[]; cordoned?: boolean; version?: string; error?: string;
  pods: { namespace: string; name: string; owner: string; phase: string; containers: { name: string; image: string; init?: boolean; ready: boolean; restarts: number; state: string }[] }[];
}

export interface Row {
  k: string; namespace: string; set: string; dialect: string; state: string; why: string; revision: string; desired: number; updated: number; available: number;
  budgetUsed: number; budgetLimit: number; secondsLeft?: number; waits?: string; waitsCause?: string; waitsReason?: string; phase?: string; wave?: string; next: string; halt?: string; secondsWithoutProgress?: number; updatedAndAvailable: number; blocking?: string; images?: string[];
}

/** Outcome is what a verb has printed. stale is what has changed since the plan to apply was made;
raw is the plan as the server has sent it, to send it back. exact are flags with which a change does what its trial has shown, and not what has become the default since. */
export interface Outcome { line: string; output?: string; data?: any; raw?: any; notes?: string; error?: string; stale?: string[]; exact?: Record<string, string> }

/** groups are the groups of verdicts: the characters are those of kubectl everynode status. */
export const groups = [
  { name: "needs no pod", glyph: "·" },
  { name: "up to date", glyph: "●" },
  { name: "waits for its turn", glyph: "○" },
  { name: "starting", glyph: "◐" },
  { name: "stopping", glyph: "◌" },
  { name: "being changed", glyph: "◆" },
  { name: "held", glyph: "▲" },
];

/** notReady is the character of a node that is not ready. */
export const notReady = "✖";

/** stuck is the character of a node whose new pod does not start by itself. */
export const stuck = "!";

/** verdicts are those of the server, by name. */
export let verdicts: Record<string, Verdict> = {};

export function useVerdicts(all: Record<string, Verdict>): void {
  verdicts = all;
}

export function groupOf(verdict: string): number {
  return verdicts[verdict]?.group ?? 0;
}

export function reasonOf(cell: Cell): string {
  return cell.r || verdicts[cell.v]?.sentence || cell.v;
}

/** waiting writes a verdict with a number of nodes, such as "wait-budget 3", as a sentence: reason, or that of the verdict. */
export function waiting(text: string, cause?: string, reason?: string): string {
  const [verdict, count] = text.split(" "), sentence = reason || verdicts[verdict]?.sentence;
  return sentence && count ? `${count} ${count === "1" ? "node" : "nodes"}: ${sentence}${cause ? " (" + cause + ")" : ""}` : text;
}

/** collator sorts names with numbers in them. */
export const collator = new Intl.Collator("en", { numeric: true });

/** span writes a number of seconds. */
export function span(seconds: number): string {
  const s = Math.max(0, Math.round(seconds)), m = Math.round(s / 60);
  if (s < 90) {
    return s + "s";
  }
  if (s < 5400) {
    return m + "m";
  }
  return s < 48 * 3600 ? Math.floor(m / 60) + "h" + (m % 60) + "m" : Math.round(s / 86400) + "d";
}

/** ago writes how long something was ago. */
export function ago(time: string | number | undefined): string {
  if (!time) {
    return "–";
  }
  const at = typeof time === "number" ? time * 1000 : Date.parse(time);
  return span((Date.now() - at) / 1000) + " ago";
}

/** wall writes a time, in milliseconds since 1970, with the day if it is not today. It is UTC, as in the messages of the cluster and of kubectl everynode. */
export function wall(at: number): string {
  const text = new Date(at).toISOString(), day = text.slice(0, 10);
  return (day === new Date().toISOString().slice(0, 10) ? "" : day + " ") + text.slice(11, 19) + " UTC";
}

/** moment writes a time that the cluster has written; as it is if it cannot be read. */
export function moment(time: string): string {
  const at = Date.parse(time);
  return Number.isNaN(at) ? time : wall(at);
}

/** seconds reads a duration of Go. */
export function seconds(text: string | undefined): number | undefined {
  if (!text) {
    return undefined;
  }
  let total = 0;
  for (const [, number, unit] of text.matchAll(/([\d.]+)(h|ms|m|s)/g)) {
    total += Number(number) * { h: 3600, m: 60, s: 1, ms: 0.001 }[unit]!;
  }
  return total;
}

/** setPath is the address of the page of a set. */
export function setPath(namespace: string, set: string): string {
  return "#/set/" + encodeURIComponent(namespace) + "/" + set.split("/").map(encodeURIComponent).join("/");
}

export function nodePath(name: string): string {
  return "#/node/" + encodeURIComponent(name);
}
