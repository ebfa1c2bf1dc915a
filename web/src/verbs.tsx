// SPDX-License-Identifier: Apache-2.0

// Actions: verbs of kubectl everynode. Each is tried on the server first, and says what it would do; then it is confirmed.

import { Fragment, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { read, query, send } from "./api";
import { Details, Head, Outcome, Revision } from "./model";

/** Asked is a verb with its values. plan is the document to apply, as the server has sent it. */
export interface Asked { verb: string; node?: string; arguments?: string[]; flags?: Record<string, string>; plan?: object }

/** Value is what a person enters for a verb before it is tried. */
interface Value { label: string; now: string; hint: string }

export async function run(head: Head, asked: Asked, dryRun = false): Promise<Outcome> {
  const { shown, raw } = await send<Outcome>(asked.plan ? "apply" : "verb", { ...asked, namespace: head.namespace, set: head.set, dryRun });
  return asked.verb === "plan" ? { ...shown, raw: raw().data } : shown;
}

/** reviews are the answers about rights of the last seconds: several parts of a page ask for them at once. */
const reviews = new Map<string, Promise<Record<string, string>>>();

function readRights(path: string): Promise<Record<string, string>> {
  let answer = reviews.get(path);
  if (!answer) {
    reviews.set(path, (answer = read<Record<string, string>>(path)));
    setTimeout(() => reviews.delete(path), 5000);
  }
  return answer;
}

/** staleAfter is how long rights are used before they are asked for again, in milliseconds. */
const staleAfter = 60_000;

/** useRights returns why the user may not use verbs: by verb, and for rights, as right:change-policy. They are asked for again from time to time, and when the window is visible again. */
export function useRights(namespace: string, set: string): Record<string, string> | undefined {
  const [rights, setRights] = useState<Record<string, string>>();
  useEffect(() => {
    let left = false, timer = 0;
    const ask = () => {
      clearTimeout(timer);
      if (left || document.hidden) {
        return; // in the background nothing is read
      }
      const again = (after: number) => {
        clearTimeout(timer);
        timer = left ? 0 : window.setTimeout(ask, after);
      };
      void readRights("rights" + query({ namespace, set })).then((all) => {
        if (!left) {
          setRights(all);
        }
        again(staleAfter);
      }, () => again(6000)); // until it is known, the buttons are disabled
    };
    ask();
    document.addEventListener("visibilitychange", ask);
    return () => {
      left = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  }, [namespace, set]);
  return rights;
}

const says: Record<string, string> = {
  pause: "Start no further updates", resume: "Resume a paused update, or a suspended policy", undo: "Return to the previous revision",
  suspend: "Suspend the rollout policy: start no further updates of the sets that it applies to",
  partition: "That many nodes keep their pod, all others are updated", canary: "Update only the nodes with these labels; without labels all nodes again",
  "set-image": "Change the image of a container of the template, which rolls out", restart: "Recreate all pods, as an update would, within the budget",
  release: "Release pods that wait for the preDelete hook, so that they are deleted. The work that the hook waits for is not done",
  "undo-to-committed": "Let the rollout policy return all nodes to the committed revision. The template stays as it is, and the revision rolls out again only after retry or a new template",
  approve: "Approve the wave that waits", promote: "End the soak of the wave now", reject: "Let no further node get this revision", retry: "Try a failed revision again",
  apply: "Make exactly the edit of this plan. The plan is made again first; if another one comes out, nothing is changed",
};

/** valueOf is what a verb needs; nothing for most. */
function valueOf(verb: string, details?: Details): Value | undefined {
  const first = details?.containers[0];
  switch (verb) {
    case "partition":
      return { label: "Nodes that keep their pod", now: details?.partition || "0", hint: "a number, or a percentage such as 90%" };
    case "canary":
      return { label: "Labels of the nodes to update", now: details?.selector || "", hint: "zone=a,disk!=old; empty for all nodes" };
    case "set-image":
      return { label: "Container and image", now: first ? first.name + "=" + first.image : "", hint: "CONTAINER=IMAGE" };
  }
}

/** asking is a verb with the value that was entered. */
function asking(asked: Asked, value?: string): Asked {
  if (value === undefined) {
    return asked;
  }
  return asked.verb === "canary" && value === "" ? { ...asked, flags: { off: "true" } } : { ...asked, arguments: [value] };
}

/** nodesGone is why a rollout is stalled after all nodes of a wave are gone that had a pod of the revision: a person decides whether it works. */
const nodesGone = "NodesGone";

/** offered are the actions that make sense for a set now. */
function offered(head: Head, details?: Details): string[] {
  const verbs: string[] = [];
  const paused = details?.paused || details?.policy?.suspend;
  if (head.advanced && !details?.paused) {
    verbs.push("pause");
  }
  if (paused) {
    verbs.push("resume");
  }
  if (details?.policy && !details.policy.suspend) {
    verbs.push("suspend");
  }
  if (head.advanced) {
    verbs.push("partition", "canary");
  }
  if (head.verdicts?.some((v) => v.verdict === waitsForHook)) {
    verbs.push("release");
  }
  const phase = head.policy?.phase || "";
  if (head.policy && phase !== "Complete" && phase !== "Stalled") {
    verbs.push(...(phase === "Failed" || phase === "Undoing" ? ["retry"] : ["approve", "promote", "reject"]));
  } else if (head.policy?.blocking?.some((b) => b.reason === nodesGone)) {
    verbs.push("promote", "reject");
  }
  verbs.push("set-image", "restart", "undo");
  if (head.policy?.committedRevision && head.policy.targetRevision && head.policy.committedRevision !== head.policy.targetRevision) {
    verbs.push("undo-to-committed");
  }
  return [...verbs.filter((v) => !dangerous.includes(v)), ...verbs.filter((v) => dangerous.includes(v))];
}

/** dangerous are the verbs that end pods that work, or work that is not done. Their buttons look like that, and come last. */
const dangerous = ["reject", "restart", "undo", "undo-to-committed", "release"];

/** waitsForHook is the verdict of a node whose pod waits for a preDelete hook. */
export const waitsForHook = "wait-hook";

/** deniedFor is why the user may not use a verb on a set now; empty if that is allowed. */
function deniedFor(verb: string, rights: Record<string, string> = {}, details?: Details): string {
  if (verb === "resume" && details?.policy?.suspend) { // the policy is resumed, and the set too if it is paused
    return [...new Set([details.paused && rights.resume, rights.suspend].filter(Boolean))].join("; ");
  }
  return rights[verb] || "";
}

/** idleFor is why a verb would do nothing now; empty if it does something. */
function idleFor(verb: string, head: Head, revisions?: Revision[]): string {
  const waves = head.policy?.waves || [], rejected = head.policy?.phase === "Rejected";
  switch (verb) {
    case "approve":
      return rejected ? "the revision was rejected" : waves.some((w) => w.phase === "WaitingForApproval") ? "" : "no wave waits for an approval now";
    case "promote":
      return rejected ? "the revision was rejected" : waves.some((w) => w.phase === "Soaking") || head.policy?.blocking?.some((b) => b.reason === nodesGone) ? "" : "no wave soaks now";
    case "reject":
      return rejected ? "the revision was rejected already" : "";
    case "undo":
      return revisions && revisions.every((r) => r.current) ? "there is no other revision to return to" : "";
    case "undo-to-committed": {
      const enforced = head.policy?.enforcement || "Full";
      return head.policy?.phase === "Undoing" ? "the revision is undone already"
        : enforced !== "Full" && enforced !== "OnDelete" ? `the rollout policy enforces only ${enforced} for the set, so it cannot return nodes` : "";
    }
  }
  return "";
}

const paceOf = (head: Head) => head.budget.limit > 0 ? `at most ${nodes(head.budget.limit)} at a time` : "and none before the budget allows it";

/** effectOf is what a verb does to nodes, as far as the page knows it; empty if that depends on what is entered. */
export function effectOf(verb: string, head: Head, details?: Details): string {
  const waves = head.policy?.waves || [], left = Math.max(0, head.desired - head.updated), pace = paceOf(head);
  const follows = (phase: string) => {
    const at = waves.findIndex((w) => w.phase === phase), next = at < 0 ? undefined : waves[at + 1];
    const gated = verb === "promote" && details?.policy?.waves?.find((w) => w.name === waves[at]?.name)?.after?.some((g) => g.type === "Approval");
    return next && `${gated ? "After its approval, " : ""}${nodes(next.nodes - next.updated)} of the wave ${next.name} can begin, ${pace}${at + 2 < waves.length ? "; the waves after it follow" : ""}.`;
  };
  switch (verb) {
    case "approve":
      return follows("WaitingForApproval") || "No wave follows.";
    case "promote":
      return follows("Soaking") || "";
    case "reject":
      return `${nodes(left)} without this revision do not get it; ${nodes(head.updated)} with it keep it until you undo it.`;
    case "retry":
      return `${nodes(left)} without this revision can get it, ${pace}.`;
    case "undo-to-committed":
      return `${nodes(head.updated)} with revision ${head.policy?.targetRevision} return to revision ${head.policy?.committedRevision}, without waves, ${pace}; ${nodes(left)} without it do not get it.`;
    case "undo":
      return `${nodes(head.updated)} with this revision get another one, ${pace}.`;
    case "restart":
    case "set-image": {
      const kept = [details?.paused && "the pause", details?.partition && !/^0%?$/.test(details.partition) && "the partition", details?.selector && "the canary"].filter(Boolean);
      const few = kept.length > 0 ? `Some or none of ${nodes(head.desired)}, because ${kept.join(" and ")} ${kept.length > 1 ? "hold" : "holds"} others, get` : `${nodes(head.desired)} get`;
      return `${few} a new pod, ${head.policy ? `in the waves of rolloutpolicy/${head.policy.name}, ` : ""}${pace}.`;
    }
    case "pause":
    case "suspend":
      return `${nodes(left)} without this revision do not get it before you resume.`;
    case "resume":
      return `${nodes(left)} without this revision can get it, ${pace}.`;
  }
  return "";
}

/** labelOf is the text of the button of a verb. */
export const labelOf = (verb: string) => verb === "undo-to-committed" ? "undo to committed" : verb;

const nodes = (n: number) => n + (n === 1 ? " node" : " nodes");

/** Advance approves a wave before it waits for that. */
export function Advance({ head, wave }: { head: Head; wave: string }) {
  const rights = useRights(head.namespace, head.set), [asked, ask] = useState(false);
  const waves = head.policy?.waves || [], next = waves[waves.findIndex((w) => w.name === wave) + 1], phase = head.policy?.phase;
  const reason = rights?.approve ? "You may not do that: " + rights.approve
    : phase === "Rejected" || phase === "Failed" || phase === "Undoing" ? "The revision was rejected, has failed, or is undone." : "";
  const effect = next ? `${nodes(next.nodes - next.updated)} of the wave ${next.name} can begin when the wave ${wave} is complete and has soaked, without another approval, ${paceOf(head)}.` : "No wave follows.";
  return (
    <span class="advance"><button type="button" disabled={!rights || !!reason} title={reason} onClick={() => ask(true)}>approve {wave} in advance</button>
      {reason && <small> {reason}</small>}
      {asked && <Confirm head={head} asked={{ verb: "approve", flags: { wave } }} effect={effect} close={() => ask(false)} />}</span>
  );
}

/** Disabled lists the buttons that are disabled, with the reason of each. */
function Disabled({ reasons }: { reasons: Map<string, string[]> }) {
  return reasons.size > 0 ? (
    <details class="denied"><summary>Why some are disabled</summary>
      <ul class="plain">{[...reasons].map(([text, verbs]) => <li key={text}><b>{verbs.map(labelOf).join(", ")}</b>: {text}</li>)}</ul>
    </details>
  ) : null;
}

export function Actions({ head, details, revisions }: { head: Head; details?: Details; revisions?: Revision[] }) {
  const rights = useRights(head.namespace, head.set);
  const [asked, ask] = useState<Asked>();
  const verbs = offered(head, details), reasons = new Map<string, string[]>(), remedies = head.remedies || [];
  const reasonFor = (verb: string) => deniedFor(verb, rights, details) || idleFor(verb, head, revisions);
  for (const verb of verbs) {
    const reason = reasonFor(verb);
    if (reason) {
      reasons.set(reason, [...(reasons.get(reason) || []), verb]);
    }
  }
  const usable = remedies.map((r) => r.verb).filter((verb) => verbs.includes(verb) && !reasonFor(verb));
  return (
    <div class="actions" role="group" aria-label="Actions">
      {verbs.map((verb) => {
        const denied = deniedFor(verb, rights, details), reason = reasonFor(verb);
        return (
          <button type="button" key={verb} class={verb === usable[0] ? "main" : dangerous.includes(verb) ? "danger" : ""} disabled={!rights || !!reason}
            title={denied ? "You may not do that: " + denied : reason || says[verb]} onClick={() => ask(verb === "release" ? { verb, flags: { all: "true" } } : { verb })}>
            {labelOf(verb)}
          </button>
        );
      })}
      {rights && usable.length > 0 && <span class="use">It waits for a user: {usable.map((verb, i) => <Fragment key={verb}>{i > 0 && " or "}<b>{labelOf(verb)}</b></Fragment>)}.</span>}
      {remedies.length > 0 && <ul class="plain remedies" aria-label="What a user can do">{remedies.map((r) => <li key={r.verb}>{labelOf(r.verb)} ({r.concerns}): <code>{r.line}</code></li>)}</ul>}
      <Disabled reasons={reasons} />
      {asked && <Confirm head={head} asked={asked} value={valueOf(asked.verb, details)} effect={effectOf(asked.verb, head, details)} close={() => ask(undefined)} />}
    </div>
  );
}

const withReason = ["approve", "promote", "reject", "retry", "undo-to-committed"];

/** save offers a file for the command that is shown. */
export function save(name: string, text: string) {
  const link = document.createElement("a"), url = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

/** Copy copies a text, and says whether that has worked: browsers refuse it on pages without TLS, and if the user does. */
function Copy({ text }: { text: string }) {
  const [says, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
    } catch {
      say("The browser does not let the page copy: select the line.");
    }
  };
  useEffect(() => say(""), [text]);
  return <Fragment><button type="button" onClick={() => void copy()}>Copy</button> <span role="status">{says}</span></Fragment>;
}

interface ConfirmProps {
  head: Head; asked: Asked; close: () => void;
  /** value is what the verb needs before it can be tried. */
  value?: Value;
  /** effect is what it does to nodes. */
  effect?: string;
  /** again shows a new plan, and after is called when it has been done. */
  again?: () => void; after?: () => void;
}

/** Trial is a request with what it would do. */
interface Trial { request: Asked; outcome: Outcome }

/** Confirm shows what an action would do, and does it: the request that was tried, and no other. */
export function Confirm({ head, asked, value, effect, close, again, after }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [trial, setTrial] = useState<Trial>();
  const [done, setDone] = useState<Outcome>();
  const [busy, setBusy] = useState(!value);
  const [entered, enter] = useState(value?.now);
  const [reason, setReason] = useState("");
  /** latest is the number of the last trial: an answer to an older one is about another value. */
  const latest = useRef(0);
  const lost = (e: Error): Outcome => ({ line: "", error: e.message });
  const attempt = () => {
    const request = asking(asked, entered?.trim()), own = ++latest.current;
    setBusy(true);
    void run(head, request, true).catch(lost).then((outcome) => {
      if (own === latest.current) {
        setTrial({ request, outcome });
        setBusy(false);
      }
    });
  };
  const change = (to: string) => {
    latest.current++;
    enter(to);
    setTrial(undefined);
    setBusy(false);
  };
  const confirm = ({ request, outcome }: Trial) => {
    setBusy(true);
    void run(head, { ...request, flags: { ...request.flags, ...outcome.exact, ...(reason ? { reason } : {}) } }).then((o) => {
      setDone(o);
      if (!o.error) {
        after?.();
      }
    }, (e: Error) => setDone(lost(e))).finally(() => setBusy(false));
  };
  useEffect(() => {
    dialog.current!.showModal();
    if (!value) {
      attempt();
    }
  }, []);
  const tried = trial?.outcome, shown = done || tried, stale = shown?.stale;
  // The answer to a request that got lost has no line: that of the trial is still the one to use.
  const line = (shown?.line || tried?.line || "").replace(" --dry-run=server", "") + (reason && !(shown?.line || "").includes("--reason") ? " --reason='" + reason.replaceAll("'", "'\\''") + "'" : "");
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="confirm-title">
      <h2 id="confirm-title">{asked.plan ? "Apply this plan to" : labelOf(asked.verb)} {head.namespace}/{head.set}{asked.node && ", node " + asked.node}{asked.flags?.wave && ", wave " + asked.flags.wave}?</h2>
      {says[asked.verb] && !asked.flags?.wave && <p>{says[asked.verb]}.</p>}
      {effect && !done && <p data-effect>{effect}</p>}
      {value && !done && <form class="tools" onSubmit={(e) => { e.preventDefault(); attempt(); }}>
        <label>{value.label} <input class="wide" value={entered} placeholder={value.hint} onInput={(e) => change(e.currentTarget.value)} /></label>
        <button type="submit" disabled={busy}>Show what it would do</button></form>}
      {!shown && busy && <p>Asking the API server what it would do …</p>}
      {stale ? (
        <div class="warning" role="alert" data-stale>
          <p>The plan is no longer valid, and nothing has been changed:</p>
          <ul class="plain">{stale.map((text) => <li key={text}>{text}</li>)}</ul>
        </div>
      ) : shown?.error && <p class="warning" role="alert">{shown.error}</p>}
      {shown?.output && <pre>{shown.output}</pre>}
      {shown?.notes && <pre class="note">{shown.notes}</pre>}
      {!done && !tried?.error && withReason.includes(asked.verb) &&
        <label>Reason, for other people <input value={reason} maxLength={1000} onInput={(e) => setReason(e.currentTarget.value)} /></label>}
      {line && <p class="line"><code>{line}</code> <Copy text={line} />
        {asked.plan && <> <button type="button" onClick={() => save("plan.json", JSON.stringify(asked.plan))}>Save plan.json</button></>}</p>}
      <p class="buttons">
        {stale && again && <button type="button" class="main" onClick={() => { dialog.current!.close(); again(); }}>Show the new plan</button>}
        {!done && !stale && <button type="button" class={dangerous.includes(asked.verb) ? "main danger" : "main"} disabled={busy || !trial || !!trial.outcome.error} onClick={() => confirm(trial!)}>{labelOf(asked.verb)} {head.set}</button>}
        <button type="button" onClick={() => dialog.current!.close()}>{done ? "Close" : "Cancel"}</button>
      </p>
    </dialog>
  );
}
