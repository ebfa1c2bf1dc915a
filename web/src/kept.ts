// SPDX-License-Identifier: Apache-2.0

// What a user has chosen on a page is part of its address, after a question mark in the fragment. So it is there again after a reload, and after the way back, and in a link to a colleague.

import { useEffect, useState } from "preact/hooks";

function readKept(name: string): string | undefined {
  return new URLSearchParams(location.hash.split("?")[1] || "").get(name) ?? undefined;
}

/** useKept is a state that the address keeps under a name; undefined is not kept. It replaces the address: the way back leads to the page before, not to each letter. */
export function useKept(name: string): [value: string | undefined, keep: (value?: string) => void] {
  const [value, setValue] = useState(() => readKept(name));
  useEffect(() => {
    const turn = () => setValue(readKept(name));
    addEventListener("hashchange", turn);
    return () => removeEventListener("hashchange", turn);
  }, [name]);
  const keep = (to?: string) => {
    const [path, rest] = location.hash.split("?"), all = new URLSearchParams(rest || "");
    all.delete(name);
    if (to !== undefined) {
      all.set(name, to);
    }
    const text = all.toString();
    setValue(to);
    try {
      history.replaceState(null, "", (path || "#/") + (text && "?" + text));
    } catch {
      // Browsers limit how often an address changes in some seconds, as while a key is held down: the page has the value, and the address gets it with the next change.
    }
  };
  return [value, keep];
}
