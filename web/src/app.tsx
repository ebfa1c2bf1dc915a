// SPDX-License-Identifier: Apache-2.0

// The page: it opens a session and shows what the address names.

import { h, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, login, read } from "./api";
import { Verdict, useVerdicts } from "./model";
import { Node } from "./node";
import { Set } from "./set";
import { Sets } from "./sets";

function useAddress(): string[] {
  const parts = () => location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
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

function App() {
  const [kind, ...names] = useAddress();
  useEffect(() => {
    document.title = (names.length > 0 ? names.join("/") + " · " : "") + "Everynode";
  });
  switch (kind) {
    case "set":
      return <Set namespace={names[0]} set={names.slice(1).join("/")} />;
    case "node":
      return <Node name={names[0]} />;
    default:
      return <Sets />;
  }
}

function Shell() {
  const [state, setState] = useState<"opening" | "open" | string>("opening");
  useEffect(() => {
    login().then(() => read<Record<string, Verdict>>("verdicts")).then((all) => {
      useVerdicts(all);
      setState("open");
    }).catch((error: Error) => {
      const text = error instanceof Failure ? error.message : "there is no connection to the dashboard; is it still running?";
      setState(text);
    });
  }, []);
  return (
    <div>
      <header class="top"><a href="#/">Everynode</a></header>
      {state === "opening" ? <p class="empty">Opening …</p> : state === "open" ? <App /> : <main><h1>The page cannot be shown</h1><p class="warning" role="alert">{state}</p></main>}
    </div>
  );
}

const root = document.getElementById("app")!;
root.replaceChildren();
render(<Shell />, root);
