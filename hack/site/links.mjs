// SPDX-License-Identifier: Apache-2.0

// node links.mjs OUT BASE checks the site as it was built: each link, picture, script and style of a page is in OUT, down to the heading. It also fails if a page
// loads something from another host.

import fs from "node:fs";
import path from "node:path";

const [out, base] = process.argv.slice(2);
const complaints = [];
const pages = new Map(); // from the name of a page to its ids

for (const entry of fs.readdirSync(out, { recursive: true, withFileTypes: true })) {
  const name = path.posix.join(path.posix.relative(out, entry.parentPath ?? entry.path), entry.name);
  if (entry.isFile() && name.endsWith(".html")) pages.set(name, fs.readFileSync(path.join(out, name), "utf8"));
}

const decode = (text) => text.replaceAll("&amp;", "&").replaceAll("&quot;", '"').replaceAll("&#39;", "'");
const anchors = new Map([...pages].map(([name, html]) => [name, new Set([...html.matchAll(/\sid="([^"]+)"/g)].map((m) => decode(m[1])))]));

// file returns the file of OUT that a server shows for a path.
function file(name) {
  for (const candidate of [name, path.posix.join(name, "index.html"), name + ".html"]) {
    if (fs.statSync(path.join(out, candidate), { throwIfNoEntry: false })?.isFile()) return candidate;
  }
}

function check(page, target, loaded) {
  const url = new URL(decode(target), "http://site.invalid" + base + page);
  if (url.host !== "site.invalid") {
    if (loaded) complaints.push(`${page} loads ${target} from another host`);
    return;
  }
  const found = url.pathname.startsWith(base) && file(decodeURIComponent(url.pathname.slice(base.length)));
  const anchor = decodeURIComponent(url.hash.slice(1));
  if (!found) complaints.push(`${page} has a link to ${target}, which is not there`);
  else if (anchor && !anchors.get(found)?.has(anchor)) complaints.push(`${page} has a link to ${target}, and that page has no such heading`);
}

let count = 0;
for (const [page, html] of pages) {
  for (const [, tag, , target] of html.matchAll(/<(\w+)([^>]*?)\s(?:href|src)="([^"]*)"/g)) {
    if (/^(data|mailto):/.test(target)) continue;
    count++;
    check(page, target, tag !== "a");
  }
}
if (complaints.length > 0) {
  console.error([...new Set(complaints)].join("\n"));
  process.exit(1);
}
if (count === 0) {
  console.error(`there is no link in ${out}`);
  process.exit(1);
}
console.log(`links: ${count} in ${pages.size} pages`);
