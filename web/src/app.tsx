// SPDX-License-Identifier: Apache-2.0

// The page: it opens a session and shows what the address names.

import { h, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, asks, belongTo, login, read, signOut } from "./api";
import { Verdict, useVerdicts } from "./model";
import { Node } from "./node";
import { Set } from "./set";
import { Sets } from "./sets";
import { SignIn } from "./signin";

function useAddress(): string[] {
  const parts = () => {
    try {
      return location.hash.replace(/^#\/?/, "").split("?")[0].split("/").filter(Boolean).map(decodeURIComponent);
    } catch {
      return []; // it is no address of the page: the list is shown
    }
  };
  const [address, setAddress] = useState(parts);
  useEffect(() => {
    const turn = () => {
      setAddress(parts());
      window.scrollTo(0, 0);
    };
    addEventListener("hashchange", turn);
    return () => removeEventListener("hashchange", turn);
  }, []);
  return address;
}

function App({ cluster }: { cluster?: string }) {
  const [kind, ...names] = useAddress();
  useEffect(() => {
    document.title = [names.join("/"), cluster, "Everynode"].filter(Boolean).join(" · ");
  });
  switch (kind) {
    case "set":
      if (names.length === 3) { // with a key, nothing that was entered or planned for one set stays for another
        return <Set key={names.join("/")} namespace={names[0]} set={names.slice(1).join("/")} />;
      }
      break;
    case "node":
      if (names.length === 1) {
        return <Node key={names[0]} name={names[0]} />;
      }
  }
  return <Sets />;
}

/** Session is who uses a dashboard in the cluster. The dashboard of kubectl everynode names no user, but its cluster: the context of the kubeconfig. */
interface Session { cluster?: string; user?: string; namespace?: string; signedIn?: boolean; window?: string }

function User({ session }: { session: Session }) {
  const end = session.signedIn ? "Sign out" : session.namespace && "All namespaces"; // a proxy signs its users in again
  return (
    <span class="user">
      {session.user} {session.namespace && <small>in {session.namespace}</small>}{" "}
      {end && <button type="button" onClick={() => void signOut().finally(() => location.reload())}>{end}</button>}
    </span>
  );
}

function Shell() {
  const [state, setState] = useState<"opening" | "open" | string>("opening");
  const [session, setSession] = useState<Session>({});
  const [asked, setAsked] = useState<Failure>();
  useEffect(() => {
    const ask = (event: Event) => {
      const { detail } = event as CustomEvent<Failure>;
      if (detail.ask === "reload") {
        location.reload(); // nothing of another user stays in the page
      } else {
        setAsked(detail);
      }
    };
    addEventListener(asks, ask);
    // An address with another token, such as one that another page has opened, ends no session: its error is shown only if there is none.
    const enter = () => login().then(() => read<Session>("session"), (wrong: Error) => read<Session>("session").catch((error) => Promise.reject(error instanceof Failure && error.ask ? error : wrong)));
    enter().then((who) => {
      setSession(who);
      if (who.window) {
        belongTo(who.window);
      }
      return read<Record<string, Verdict>>("verdicts");
    }).then((all) => {
      useVerdicts(all);
      setState("open");
    }).catch((error: Error) => {
      const text = error instanceof Failure ? error.message : "there is no connection to the dashboard; is it still running?";
      setState(text);
    });
    const again = () => location.hash.startsWith("#token=") && location.reload(); // the URL of a dashboard that was started again: nothing of the earlier session stays in the page
    addEventListener("hashchange", again);
    return () => {
      removeEventListener(asks, ask);
      removeEventListener("hashchange", again);
    };
  }, []);
  return (
    <div>
      <header class="top"><a href="#/">Everynode</a>{session.cluster && <span class="cluster">cluster <b>{session.cluster}</b></span>}{session.user && <User session={session} />}</header>
      {asked ? <SignIn failure={asked} /> : state === "opening" ? <p class="empty">Opening …</p> : state === "open" ? <App cluster={session.cluster} /> : <main><h1>The page cannot be shown</h1><p class="warning" role="alert">{state}</p></main>}
    </div>
  );
}

const root = document.getElementById("app")!;
root.replaceChildren();
render(<Shell />, root);
