// SPDX-License-Identifier: Apache-2.0

// Where a file of the repository stands in the site. Pages of docs are at the top, and all others below repository: docs/install.md is install,
// CONTRIBUTING.md is repository/CONTRIBUTING. Pages that show another file or directory are named after it, without a dot in front, as the generator skips those.

import path from "node:path";

// place returns the page of a file, without .md. A README is the index of its directory.
export function place(file) {
  const name = file === "docs" ? "" : file.startsWith("docs/") ? file.slice("docs/".length) : path.posix.join("repository", file).replace(/(^|\/)\./g, "$1");
  if (path.posix.basename(name) === "README.md") return path.posix.join(path.posix.dirname(name), "index");
  return name.endsWith(".md") ? name.slice(0, -".md".length) : name;
}

// slug is the anchor of a heading, as GitHub has it.
export function slug(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

// prose calls a function with each part of a page that is neither in a code block nor between backticks, and returns the page with the answers in place.
export function prose(text, change) {
  let fence = "";
  // A block of code is indented after an empty line, unless that is in a list.
  let code = false;
  let empty = true;
  let list = false;
  return text
    .split("\n")
    .map((line, at) => {
      const mark = /^\s*(```+|~~~+)/.exec(line)?.[1];
      if (mark && (!fence || mark.startsWith(fence))) fence = fence ? "" : mark;
      if (mark || fence) return line;
      code = line.trim() ? /^(\t| {4})/.test(line) && !list && (empty || code) : code;
      empty = !line.trim();
      if (/^\S/.test(line)) list = /^([-*+]|\d+[.)])\s/.test(line);
      if (code) return line;
      return line
        .split(/(`+[^`]+`+)/)
        .map((part, n) => (n % 2 ? part : change(part, at + 1)))
        .join("");
    })
    .join("\n");
}
