// SPDX-License-Identifier: Apache-2.0

// Actions: verbs of kubectl everynode. Each is tried on the server first, and says what it would do; then it is confirmed.

import { Fragment, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { read, query, send } from "./api";
import { Details, Head, Outcome } from "./model";

/** Asked is a verb with its values. plan is the document to apply, as the server has sent it. */
export interface Asked { verb: string; arguments?: string[]; flags?: Record<string, string>; plan?: object }

export async function run(head: Head, asked: Asked & { node?: string }, dryRun = false): Promise<Outcome> {
  return send<Outcome>(asked.plan ? "apply" : "verb", { ...asked, namespace: head.namespace, set: head.set, dryRun });
}

/** useRights returns why the user may not use verbs. */
export function useRights(namespace: string, set: string): Record<string, string> | undefined {
  const [rights, setRights] = useState<Record<string, string>>();
  useEffect(() => {
    const cut = new AbortController();
    read<Record<string, string>>("rights" + query({ namespace, set }), cut.signal).then(setRights, () => undefined);
    return () => cut.abort();
  }, [namespace, set]);
  return rights;
}

const says: Record<string, string> = {
  pause: "Start no further updates", resume: "Resume a paused update, or a suspended policy", undo: "Return to the previous revision",
  approve: "Approve the wave that waits", promote: "End the soak of the wave now", reject: "Let no further node get this revision", retry: "Try a failed revision again",
  apply: "Make exactly the edit of this plan. The plan is made again first; if another one comes out, nothing is changed",
};

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
  const phase = head.policy?.phase || "";
  if (head.policy && phase !== "Complete" && phase !== "Stalled") {
    verbs.push(...(phase === "Failed" || phase === "Undoing" ? ["retry"] : ["approve", "promote", "reject"]));
  }
  return [...verbs, "undo"];
}

export function Actions({ head, details }: { head: Head; details?: Details }) {
  const rights = useRights(head.namespace, head.set);
  const [asked, ask] = useState<Asked>();
  return (
    <div class="actions" role="group" aria-label="Actions">
      {offered(head, details).map((verb) => {
        const denied = rights?.[verb];
        return (
          <button type="button" key={verb} disabled={!rights || !!denied} title={denied ? "You may not do that: " + denied : says[verb]} onClick={() => ask({ verb })}>
            {verb}
          </button>
        );
      })}
      {rights && Object.keys(rights).length > 0 && <details class="denied"><summary>Why some are disabled</summary>
        {[...new Set(Object.values(rights))].map((text) => <p key={text}>{text}</p>)}</details>}
      {asked && <Confirm head={head} asked={asked} close={() => ask(undefined)} />}
    </div>
  );
}

const withReason = ["approve", "promote", "reject", "retry"];

/** save offers a plan as a file, for the command that is shown. */
function save(plan: object) {
  const link = document.createElement("a"), url = URL.createObjectURL(new Blob([JSON.stringify(plan)], { type: "application/json" }));
  link.href = url;
  link.download = "plan.json";
  link.click();
  URL.revokeObjectURL(url);
}

interface ConfirmProps {
  head: Head; asked: Asked; close: () => void;
  /** again shows a new plan, and after is called when it has been done. */
  again?: () => void; after?: () => void;
}

/** Confirm shows what an action would do, and does it. */
export function Confirm({ head, asked, close, again, after }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [tried, setTried] = useState<Outcome>();
  const [done, setDone] = useState<Outcome>();
  const [busy, setBusy] = useState(true);
  const [reason, setReason] = useState("");
  const flags = { ...asked.flags, ...(reason ? { reason } : {}) };
  const request = { ...asked, flags };
  const call = (dryRun: boolean, take: (o: Outcome) => void) => {
    setBusy(true);
    run(head, request, dryRun).then((o) => {
      take(o);
      if (!dryRun && !o.error) {
        after?.();
      }
    }, (e: Error) => take({ line: "", error: e.message })).finally(() => setBusy(false));
  };
  useEffect(() => {
    dialog.current!.showModal();
    call(true, setTried);
  }, []);
  const shown = done || tried, stale = shown?.stale;
  const line = (shown?.line || "").replace(" --dry-run=server", "") + (reason && !done && !shown?.line.includes("--reason") ? " --reason='" + reason.replaceAll("'", "'\\''") + "'" : "");
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="confirm-title">
      <h2 id="confirm-title">{asked.plan ? "Apply this plan to" : asked.verb} {head.namespace}/{head.set}?</h2>
      {says[asked.verb] && <p>{says[asked.verb]}.</p>}
      {!shown && <p>Asking the API server what it would do …</p>}
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
      {shown?.line && <p class="line"><code>{line}</code> <button type="button" onClick={() => void navigator.clipboard?.writeText(line)}>Copy</button>
        {asked.plan && <> <button type="button" onClick={() => save(asked.plan!)}>Save plan.json</button></>}</p>}
      <p class="buttons">
        {stale && again && <button type="button" class="main" onClick={() => { dialog.current!.close(); again(); }}>Show the new plan</button>}
        {!done && !stale && <button type="button" class="main" disabled={busy || !tried || !!tried.error} onClick={() => call(false, setDone)}>{asked.verb} {head.set}</button>}
        <button type="button" onClick={() => dialog.current!.close()}>{done ? "Close" : "Cancel"}</button>
      </p>
    </dialog>
  );
}
