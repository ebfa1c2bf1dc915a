// SPDX-License-Identifier: Apache-2.0

// The timeline of the waves of a rollout policy: when each of them began, was complete and soaked, and when the others do, as a plan foresees it.

import { Fragment, h } from "preact";
import { Plan } from "./foresight";
import { Closed, Details, Policy, seconds, wall } from "./model";

type Spec = Details["policy"];

/** Part is a part of a wave: times are in milliseconds since 1970. kind is a class of the style sheet. */
interface Part { kind: "rolled" | "soak" | "approval" | "failed" | "planned"; from: number; to: number; says: string }

interface Props { policy: Policy; spec: Spec; closed?: Closed; estimate?: { plan?: Plan; at: number } }

/** partsOf are the parts of a wave until now, and those that a plan foresees. */
function partsOf(w: NonNullable<Policy["waves"]>[0], { policy, spec, estimate }: Props, now: number): Part[] {
  const parts: Part[] = [], began = Date.parse(w.rollingSince || ""), complete = Date.parse(w.completedAt || ""), waits = Date.parse(w.waitingSince || "");
  const own = spec?.waves?.find((x) => x.name === w.name), soak = (seconds(own?.soak) || 0) * 1000;
  const failed = policy.failure?.wave === w.name ? Date.parse(policy.failure.at || "") : NaN, until = failed || now;
  if (began) {
    parts.push({ kind: "rolled", from: began, to: complete || Math.max(until, began), says: "its nodes are updated" });
  }
  if (complete && soak > 0) {
    const end = w.phase === "Passed" ? Math.min(complete + soak, now) : waits || until;
    parts.push({ kind: "soak", from: complete, to: Math.max(end, complete), says: "it soaks" });
  }
  if (waits && w.phase === "WaitingForApproval") {
    parts.push({ kind: "approval", from: waits, to: now, says: "it waits for an approval" });
  }
  if (failed) {
    parts.push({ kind: "failed", from: failed, to: Math.max(failed, now), says: "it has failed" });
  }
  const planned = estimate?.plan?.policy?.waves.find((x) => x.name === w.name), end = seconds(planned?.end);
  if (estimate && planned && end !== undefined && (planned.start || planned.begun)) {
    const at = estimate.at, start = planned.begun ? 0 : seconds(planned.start) || 0;
    parts.push({ kind: "planned", from: at + start * 1000, to: at + end * 1000, says: planned.after ? "estimate, if approvals come at once" : "estimate" });
  }
  return parts;
}

/** Hatch marks the times in which no update starts. */
function Hatch({ times, place }: { times: Closed["times"]; place: (at: number) => string }) {
  return <Fragment>{times.map((x) => <span key={x.from} class="closed" title={`No update starts: ${x.why}, ${wall(x.from)} to ${wall(x.to)}`} style={{ left: place(x.from), right: `calc(100% - ${place(x.to)})` }} />)}</Fragment>;
}

/** fewTimes is how many times are listed in words. */
const fewTimes = 5;

/** ClosedTimes lists the present and the next times in which no update starts, and the earlier ones since the rollout began. */
export function ClosedTimes({ closed }: { closed: Closed }) {
  const now = Date.now(), ahead = closed.times.filter((x) => x.to > now), past = closed.times.length - ahead.length;
  if (ahead.length === 0 && past === 0) {
    return null;
  }
  return (
    <ul class="plain" aria-label="When no update starts">
      {ahead.slice(0, fewTimes).map((x) => <li key={x.from}>No update starts {x.from <= now ? "now, until " + wall(x.to) : `from ${wall(x.from)} to ${wall(x.to)}`}: {x.why}.</li>)}
      {ahead.length > fewTimes && <li>{ahead.length - fewTimes} more such times until {wall(closed.until)}.</li>}
      {past > 0 && <li>{past} such {past === 1 ? "time has" : "times have"} passed since the rollout began.</li>}
    </ul>
  );
}

/** Timeline draws the waves on one axis of time. The list of waves, and that of the times in which no update starts, say the same in words, so it is hidden from screen readers. */
export function Timeline(p: Props) {
  const now = Date.now(), rows = (p.policy.waves || []).map((w) => ({ name: w.name, parts: partsOf(w, p, now) })), all = rows.flatMap((r) => r.parts);
  if (all.length === 0) {
    return null;
  }
  const shut = p.closed?.times || [], opening = shut.find((x) => x.from <= now && now < x.to)?.to || now; // that updates start again is a part of what happens next
  const from = Math.min(now, ...all.map((x) => x.from)), to = Math.max(now, opening, ...all.map((x) => x.to)), total = Math.max(to - from, 1000);
  const place = (at: number) => (100 * (at - from)) / total + "%";
  const times = shut.filter((x) => x.from < to && x.to > from).map((x) => ({ ...x, from: Math.max(x.from, from), to: Math.min(x.to, to) }));
  return (
    <div class="timeline" aria-hidden="true">
      {rows.map((r) => (
        <div key={r.name} class="track">
          <span class="name">{r.name}</span>
          <span class="line-of-time">
            {r.parts.map((x) => <span key={x.kind} class={"part " + x.kind} title={`${r.name}: ${x.says}, ${wall(x.from)} to ${wall(x.to)}`} style={{ left: place(x.from), width: (100 * (x.to - x.from)) / total + "%" }} />)}
            <Hatch times={times} place={place} />
            <span class="now" style={{ left: place(now) }} />
          </span>
        </div>
      ))}
      <div class="track"><span class="name" /><span class="ends"><span>{wall(from)}</span>{now > from && now < to && <span>now {wall(now)}</span>}<span>{to === now ? "now " : ""}{wall(to)}</span></span></div>
      <p class="hint"><span class="key rolled" /> updated <span class="key soak" /> soak <span class="key approval" /> waits for an approval{all.some((x) => x.kind === "failed") && <span> <span class="key failed" /> has failed</span>}{all.some((x) => x.kind === "planned") && <span> <span class="key planned" /> estimate, if approvals come at once</span>}{times.length > 0 && <span> <span class="key closed" /> no update starts</span>}</p>
    </div>
  );
}

const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/** opens says when the window of a schedule opens; the schedule itself if it is none of the simple ones. */
export function opens(schedule: string): string {
  const [, minute, hour, on] = /^(\d{1,2}) (\d{1,2}) \* \* (\*|[0-7](?:[-,][0-7])*)$/.exec(schedule.trim()) || [];
  if (!minute) {
    return schedule;
  }
  const at = ` at ${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
  const named = on.split(",").map((part) => part.split("-").map((day) => days[Number(day)]).join(" to "));
  return (on === "*" ? "every day" : named.join(", ")) + at;
}

/** brief writes a duration of Go without its zeros: 8h for 8h0m0s. */
export function brief(duration: string): string {
  return duration.replace(/([hm])0s$/, "$1").replace(/h0m$/, "h");
}
