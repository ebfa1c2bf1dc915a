// SPDX-License-Identifier: Apache-2.0

// The way to the server: a session, JSON, and server-sent events. Every request carries a header that no other site can send.

import { useEffect, useState } from "preact/hooks";

const headers: Record<string, string> = { "X-Everynode-Dashboard": "1" };

/** belongTo makes this a window of a user and a namespace: the server rejects its requests once the browser has signed in as another user. */
export function belongTo(window: string): void {
  headers["X-Everynode-Window"] = window;
}

/** Failure is an answer that is no success. */
export class Failure extends Error {
  /** ask is what the server needs from the user: a token or a namespace; or reload, if the window is of another user than the browser. */
  constructor(readonly status: number, text: string, readonly ask?: string) {
    super(text);
  }
}

/** asks is the event of a failure after which the user must be asked for something. */
export const asks = "everynode-asks";

/** hidden are the characters that are not shown by their looks: controls, except for tabs and new lines, and those that change the order of the text around them (Unicode's embeddings, overrides and isolates). In JSON
some of them are escaped, after a backslash that is not escaped itself. */
const hidden = /\\(?:u00(?:0[0-8bcef]|1[0-9a-f])|[\s\S])|[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/gi;

/** parse reads JSON. Characters that are not shown by their looks are shown by their numbers instead. */
export function parse(text: string): any {
  return JSON.parse(text.replace(hidden, (c) => {
    if (c.length === 1) {
      return "\\\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
    }
    const short: Record<string, string> = { "\\b": "\\\\u0008", "\\f": "\\\\u000c", "\\r": "\\\\u000d" };
    return c.length > 2 ? "\\" + c : short[c] ?? c;
  }));
}

async function checked(response: Response): Promise<Response> {
  if (response.ok) {
    return response;
  }
  let text = response.statusText || "the status of the answer is " + response.status, ask = ""; // HTTP/2 has no texts
  try {
    const answer = parse(await response.text());
    text = answer.error || text;
    ask = answer.ask || "";
  } catch {
    // It is no answer of the dashboard: the status has to do.
  }
  const failure = new Failure(response.status, text, ask);
  if (ask) {
    dispatchEvent(new CustomEvent(asks, { detail: failure }));
  }
  throw failure;
}

/** login exchanges the token in the fragment of the URL for a cookie, and removes it from the URL. */
export async function login(): Promise<void> {
  if (!location.hash.startsWith("#token=")) {
    return;
  }
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  history.replaceState(null, "", "#/");
  if (!found) {
    throw new Failure(400, "the address has no token of a dashboard: open the URL that the dashboard has printed");
  }
  await checked(await fetch("api/session", {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify({ token: found[1] }),
  }));
}

/** signIn stores a token, unless it is empty, and a namespace in cookies that scripts cannot read. */
export async function signIn(token: string, namespace: string): Promise<void> {
  const response = await fetch("api/session", {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify({ token, namespace }),
  });
  if (!response.ok) {
    throw new Failure(response.status, (await response.json().catch(() => ({}))).error || response.statusText);
  }
}

/** signOut ends the session. */
export async function signOut(): Promise<void> {
  await checked(await fetch("api/session", { method: "DELETE", headers }));
}

/** read gets JSON. */
export async function read<T>(path: string, signal?: AbortSignal): Promise<T> {
  return parse(await (await checked(await fetch("api/" + path, { headers, signal }))).text());
}

/** send posts JSON, and returns the answer as it is shown; and as it is, for what is sent back. */
export async function send<T>(path: string, body: unknown): Promise<{ shown: T; raw: () => T }> {
  const how = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const text = await (await checked(await fetch("api/" + path, how))).text();
  return { shown: parse(text), raw: () => JSON.parse(text) };
}

/** query makes the query of a URL. */
export function query(values: Record<string, string>): string {
  return "?" + new URLSearchParams(values);
}

interface Message {
  full?: boolean;
  parts?: Record<string, unknown>;
  items?: { k: string }[];
  gone?: string[];
}

/** Page is what a stream has sent so far. version changes with every message. */
export interface Page<T> {
  parts: Record<string, any>;
  items: Map<string, T>;
  version: number;
  /** order changes when an item is added or removed. */
  order: number;
  /** connected is whether messages arrive; error is why not. */
  connected: boolean;
  error?: Failure;
}

/** silence is how long nothing may arrive, in milliseconds: the server sends a line every 15 seconds. A connection can be broken without being closed. */
const silence = 40_000;

/** absence is how long the page waits before it asks again for what does not exist, in milliseconds. */
const absence = 60_000;

/** slow is how long an answer may take before the page says that what it shows may be old, in milliseconds. */
const slow = 2000;

/** lines reads the data of server-sent events. heard is called when anything arrives. */
async function lines(response: Response, take: (data: string) => void, heard: () => void): Promise<void> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    heard();
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    const all = (rest + value).split("\n");
    rest = all.pop()!;
    for (const line of all) {
      if (line.startsWith("data: ")) {
        take(line.slice(6));
      }
    }
  }
}

/** useStream follows a page. In the background it does not: it starts again with the whole page when the window is visible. */
export function useStream<T extends { k: string }>(path: string): Page<T> {
  const [page, show] = useState<Page<T>>({ parts: {}, items: new Map(), version: 0, order: 0, connected: false });
  useEffect(() => {
    let state: Page<T> = { parts: {}, items: new Map(), version: 0, order: 0, connected: false };
    let cut = new AbortController();
    let timer = 0;
    let delay = 500;
    const publish = (change: Partial<Page<T>>) => show((state = { ...state, ...change, version: state.version + 1 }));
    const take = (data: string) => {
      const message: Message = parse(data);
      const items = message.full ? new Map<string, T>() : state.items, before = items.size;
      for (const item of message.items || []) {
        items.set(item.k, item as T);
      }
      for (const key of message.gone || []) {
        items.delete(key);
      }
      delay = 500;
      const order = message.full || message.gone || items.size !== before ? state.order + 1 : state.order;
      publish({ parts: message.full ? message.parts || {} : { ...state.parts, ...message.parts }, items, order, connected: true, error: undefined });
    };
    const open = async () => {
      clearTimeout(timer);
      cut.abort();
      if (document.hidden) {
        return;
      }
      const own = (cut = new AbortController());
      let watch = 0, silent = false;
      const heard = () => {
        clearTimeout(watch);
        watch = window.setTimeout(() => {
          silent = true;
          own.abort();
        }, silence);
      };
      if (state.connected) {
        publish({ connected: false });
      }
      const late = window.setTimeout(() => {
        if (state.order > 0 && !state.connected && !state.error) {
          publish({ error: new Failure(0, "the dashboard has not answered yet") });
        }
      }, slow);
      heard();
      try {
        await lines(await checked(await fetch("api/" + path, { headers, signal: own.signal })), take, heard);
      } catch (error) {
        if (own.signal.aborted && !silent) {
          return;
        }
        publish({ connected: false, error: error instanceof Failure ? error : new Failure(0, "there is no connection to the dashboard; is it still running?") });
        if (error instanceof Failure && error.status === 401 && error.ask) {
          return; // the user is asked; without that it may be a proxy that renews its token
        }
        if (error instanceof Failure && error.status === 404 && state.order === 0) {
          delay = absence; // it may be created
        }
      } finally {
        clearTimeout(watch);
        clearTimeout(late);
      }
      if (!own.signal.aborted || silent) {
        publish({ connected: false });
        timer = window.setTimeout(open, delay);
        delay = delay === absence ? 500 : Math.min(delay * 2, 10_000);
      }
    };
    const turn = () => void open();
    document.addEventListener("visibilitychange", turn);
    show(state);
    void open();
    return () => {
      document.removeEventListener("visibilitychange", turn);
      clearTimeout(timer);
      cut.abort();
    };
  }, [path]);
  return page;
}
