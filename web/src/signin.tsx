// SPDX-License-Identifier: Apache-2.0

// Sign-in, for a dashboard in the cluster: it asks for what the server misses, a token or a namespace.

import { h } from "preact";
import { useState } from "preact/hooks";
import { Failure, signIn } from "./api";

/** SignIn asks for a token, unless a proxy sends one, and for the namespace to show. */
export function SignIn({ failure }: { failure: Failure }) {
  const [token, setToken] = useState("");
  const [namespace, setNamespace] = useState("");
  const [problem, setProblem] = useState(failure.message);
  const [busy, setBusy] = useState(false);
  const byToken = failure.ask === "token";
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(token.trim(), namespace.trim());
      location.reload(); // nothing of another user stays in the page
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <main>
      <h1>{byToken ? "Sign in" : "Choose a namespace"}</h1>
      <p class="warning" role="alert">{problem}</p>
      <form onSubmit={submit}>
        {byToken && <p><label>Token <input class="wide" type="password" autocomplete="off" spellcheck={false} required value={token} onInput={(e) => setToken(e.currentTarget.value)} /></label></p>}
        <p><label>Namespace <input class="wide" autocomplete="off" placeholder="all namespaces" required={!byToken} value={namespace} onInput={(e) => setNamespace(e.currentTarget.value)} /></label></p>
        <button class="main" disabled={busy}>{byToken ? "Sign in" : "Show this namespace"}</button>
      </form>
      {byToken && <p>The page acts with the permissions of the token. For a service account, <code>kubectl create token NAME</code> prints one.</p>}
    </main>
  );
}
