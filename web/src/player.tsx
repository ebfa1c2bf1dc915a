// SPDX-License-Identifier: Apache-2.0

// A player moves a time: with a slider, which also has the arrow keys, and by itself.

import { ComponentChildren, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** pause is the time between two steps of a player, in milliseconds. */
const pause = 100;

/** Props: steps is how many steps a player makes from the begin to the end. */
interface Props { from: number; to: number; at: number; says: string; steps?: number; move: (at: number) => void; children?: ComponentChildren }

export function Player({ from, to, at, says, steps = 100, move, children }: Props) {
  const [playing, play] = useState(false);
  /** own is the time to which the player has moved. If another one stays, something else is shown, and the player stops; for a moment it may be the time before the move. */
  const own = useRef(at);
  useEffect(() => {
    if (!playing) {
      return;
    }
    if (at !== own.current) {
      const stop = setTimeout(() => play(false), 5 * pause);
      return () => clearTimeout(stop);
    }
    const timer = setTimeout(() => {
      const next = Math.min(at + Math.max((to - from) / steps, 0.1), to);
      if (next >= to) {
        play(false);
      }
      move((own.current = next));
    }, pause);
    return () => clearTimeout(timer);
  }, [playing, at]);
  const start = () => {
    own.current = at;
    if (!playing && at >= to) {
      move((own.current = from));
    }
    play(!playing);
  };
  return (
    <div class="tools player" role="group" aria-label="Play">
      <button type="button" onClick={start}>{playing ? "Pause" : "Play"}</button>
      <label>Time <input type="range" min={from} max={to} step="any" value={at} aria-valuetext={says}
        onInput={(e) => { play(false); move(Number(e.currentTarget.value)); }} /></label>
      <span>{says}</span>
      {children}
    </div>
  );
}
