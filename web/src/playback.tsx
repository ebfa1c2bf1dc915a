// SPDX-License-Identifier: Apache-2.0

// Playback: the last hours of a set, as the dashboard has recorded them, played over the same picture.

import { h } from "preact";
import { useState } from "preact/hooks";
import { query, read } from "./api";
import { Cell, Head, collator, wall } from "./model";
import { Player } from "./player";

/** Past is what the server has recorded. Times are in milliseconds since 1970; changes has three numbers for each: the time since began, the node, and its state or -1. */
interface Past {
  began: number; until: number; folded?: boolean; nodes: string[]; states: { v: string; r?: string; x?: boolean }[];
  base: number[]; changes: number[]; gaps: [from: number, to: number][];
}

/** Replay makes the cells of any time of a recording. */
export class Replay {
  /** order are the nodes in the order in which they are shown. */
  private order: number[];
  /** made are the cells that were made: a node that has not changed has the same cell, and so the same tile. */
  private made = new Map<number, Cell>();

  constructor(readonly past: Past, private live: Map<string, Cell>) {
    this.order = past.nodes.map((_, i) => i).sort((a, b) => collator.compare(past.nodes[a], past.nodes[b]));
  }

  /** gap returns the gap that a time is in. */
  gap(at: number): [from: number, to: number] | undefined {
    return this.past.gaps.find(([from, to]) => at > from && at < to);
  }

  /** next returns the time of the change after a time, and before it with back. */
  next(at: number, back: boolean): number | undefined {
    const { began, changes } = this.past;
    let found: number | undefined;
    for (let i = 0; i < changes.length; i += 3) {
      const time = began + changes[i];
      if (back ? time < at : time > at) {
        found = time;
      }
      if (time >= at && found !== undefined || time > at) {
        break;
      }
    }
    return found;
  }

  /** cells returns the cells at a time, in their order. In a gap none of them is known. */
  cells(at: number): Map<string, Cell> {
    const { began, nodes, base, changes } = this.past, states = [...base], cells = new Map<string, Cell>(), unknown = !!this.gap(at);
    for (let i = 0; i < changes.length && began + changes[i] <= at; i += 3) {
      states[changes[i + 1]] = changes[i + 2];
    }
    for (const i of this.order) {
      if (states[i] >= 0) {
        cells.set(nodes[i], this.cell(i, unknown ? -1 : states[i]));
      }
    }
    return cells;
  }

  private cell(node: number, state: number): Cell {
    const key = node * (this.past.states.length + 1) + state + 1;
    let cell = this.made.get(key);
    if (!cell) {
      const k = this.past.nodes[node], s = this.past.states[state], now = this.live.get(k);
      cell = { k, v: s ? s.v : "not recorded", w: now?.w ?? -1, f: now?.f ?? [] };
      if (s?.x) {
        cell.x = -1; // since when is not recorded
      }
      if (s?.r) {
        cell.p = [{ name: "", revision: s.r, state: "of revision " + s.r }];
      }
      this.made.set(key, cell);
    }
    return cell;
  }
}

/** Replayed is a recording at a time. */
export interface Replayed { replay: Replay; at: number }

interface Props { head: Head; live: Map<string, Cell>; replayed?: Replayed; show: (r?: Replayed) => void }

export function Playback({ head, live, replayed, show }: Props) {
  const [problem, setProblem] = useState("");
  const begin = () => {
    setProblem("");
    read<Past>("set/past" + query({ namespace: head.namespace, set: head.set })).then((past) => {
      const replay = new Replay(past, live);
      show({ replay, at: past.began });
    }, (e: Error) => setProblem(e.message));
  };
  if (!replayed) {
    return (
      <div class="actions">
        <button type="button" onClick={begin}>Play back the last hours</button>
        {problem && <p class="warning" role="alert">{problem}</p>}
      </div>
    );
  }
  const { replay, at } = replayed, past = replay.past, gap = replay.gap(at), total = Math.max(past.until - past.began, 1);
  const move = (to: number | undefined) => to !== undefined && show({ replay, at: to });
  const before = replay.next(at, true), after = replay.next(at, false);
  return (
    <section class="playback" aria-label="Playback" data-playback={gap ? "gap" : "shown"}>
      <p><b>This is the past.</b> Recorded from {wall(past.began)} to {wall(past.until)}.{past.folded ? " What was before is not kept." : ""}</p>
      <Player from={past.began} to={past.began + total} steps={300} at={at} says={wall(at)} move={(to) => move(to)}>
        <button type="button" disabled={before === undefined} onClick={() => move(before)}>Previous change</button>
        <button type="button" disabled={after === undefined} onClick={() => move(after)}>Next change</button>
        <button type="button" class="main" onClick={() => show(undefined)}>Back to live</button>
      </Player>
      {past.gaps.length > 0 && <div class="gaps" aria-hidden="true">{past.gaps.map(([from, to]) => (
        <span key={from} style={{ left: (100 * (from - past.began)) / total + "%", width: (100 * (to - from)) / total + "%" }} />
      ))}</div>}
      {past.gaps.length > 0 && <details><summary>{past.gaps.length === 1 ? "For one time" : `For ${past.gaps.length} times`} nothing is recorded</summary>
        <ul class="plain">{past.gaps.map(([from, to]) => <li key={from}>from {wall(from)} to {wall(to)}</li>)}</ul></details>}
      <div role="status">{gap && <p class="warning">Nothing is recorded from {wall(gap[0])} to {wall(gap[1])}: the dashboard did not watch the set, or the cluster did not answer. What changed meanwhile is shown at the end.</p>}</div>
    </section>
  );
}
