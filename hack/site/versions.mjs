// SPDX-License-Identifier: Apache-2.0

// node versions.mjs SITES BASE OUT VERSION... tells each version which others there are and which pages they have, and writes the page at the top, which leads to
// the newest release, or to the working tree's pages if there is none.

import fs from "node:fs";
import path from "node:path";

const [sites, base, out, ...versions] = process.argv.slice(2);

function pages(dir, below = "") {
  return fs.readdirSync(path.join(dir, below), { withFileTypes: true }).flatMap((entry) => {
    const name = path.posix.join(below, entry.name);
    if (entry.name.startsWith(".")) return [];
    return entry.isDirectory() ? pages(dir, name) : name.endsWith(".md") ? [name] : [];
  });
}

const list = versions.map((name) => ({ name, pages: pages(path.join(sites, name)).sort() }));
for (const { name } of list) {
  fs.writeFileSync(path.join(sites, name, ".vitepress", "versions.json"), JSON.stringify({ base, name, list }));
}
const first = `${base}${versions[0]}/`;
fs.writeFileSync(
  path.join(out, "index.html"),
  `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Everynode</title><meta http-equiv="refresh" content="0; url=${first}"></head>` +
    `<body><a href="${first}">Everynode</a></body></html>\n`,
);
