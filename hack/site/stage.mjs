// SPDX-License-Identifier: Apache-2.0

// node stage.mjs TREE SITE writes the pages of a tree of the repository into SITE, as the generator reads them. The pages of docs need nothing for it: links to
// other files are followed, and what they name becomes a page too. A link to nothing is an error.

import fs from "node:fs";
import path from "node:path";
import { place, prose } from "./names.mjs";

const [tree, site] = process.argv.slice(2);
const errors = [];
const waiting = [];
const placed = new Map(); // from a file or directory of the repository to its place

function find(dir, found = []) {
  for (const entry of fs.readdirSync(path.join(tree, dir), { withFileTypes: true })) {
    const name = path.posix.join(dir, entry.name);
    if (entry.isDirectory()) find(name, found);
    else found.push(name);
  }
  return found.sort();
}

// want puts a file or directory into the site, and returns its place with its suffix.
function want(file) {
  const readme = path.posix.join(file, "README.md");
  if (fs.statSync(path.join(tree, file)).isDirectory() && fs.existsSync(path.join(tree, readme))) file = readme;
  if (!placed.has(file)) {
    const picture = /\.(svg|png)$/.test(file);
    placed.set(file, fs.statSync(path.join(tree, file)).isDirectory() ? path.posix.join(place(file), "index.md") : place(file) + (picture ? "" : ".md"));
    waiting.push(file);
  }
  return placed.get(file);
}

// link returns a link of a page as it must be in the site.
function link(from, target, line) {
  if (/^[a-z]+:/.test(target) || target.startsWith("#")) return target;
  const [name, heading] = target.split("#");
  const file = path.posix.join(path.posix.dirname(from), name).replace(/\/$/, "");
  if (file.startsWith("..") || !fs.existsSync(path.join(tree, file))) {
    errors.push(`${from}:${line} links to ${target}, and there is no ${file}`);
    return target;
  }
  const to = path.posix.relative(path.posix.dirname(placed.get(from)), want(file));
  return (to.startsWith(".") ? to : "./" + to) + (heading ? "#" + heading : "");
}

// code returns a file as a page.
function code(file, text) {
  const kind = { ".go": "go", ".json": "json", ".lua": "lua", ".yaml": "yaml", ".yml": "yaml", ".sh": "bash" }[path.extname(file)] ?? "text";
  const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((m) => m[0].length + 1)));
  return `# ${path.posix.basename(file)}\n\nThe file \`${file}\` of the repository:\n\n${fence}${kind}\n${text.trimEnd()}\n${fence}\n`;
}

// page returns the text of what becomes a page.
function page(file) {
  if (fs.statSync(path.join(tree, file)).isDirectory()) {
    const files = find(file).map((f) => `- [${path.posix.relative(file, f)}](./${path.posix.relative(path.posix.dirname(placed.get(file)), want(f))})`);
    return `# ${path.posix.basename(file)}\n\nThe files of \`${file}\` in the repository:\n\n${files.join("\n")}\n`;
  }
  const text = fs.readFileSync(path.join(tree, file), "utf8");
  if (!file.endsWith(".md")) return code(file, text);
  return prose(text, (part, line) =>
    part
      .replace(/\]\(([^)\s]+)\)/g, (_, target) => `](${link(file, target, line)})`)
      // A name such as <NAME> is no element.
      .replace(/<(?=\/?[A-Z])/g, "&lt;")
      .replaceAll("{{", "&#123;&#123;"),
  );
}

function write(name, content) {
  fs.mkdirSync(path.dirname(path.join(site, name)), { recursive: true });
  fs.writeFileSync(path.join(site, name), content);
}

// index reads the list of pages in docs/README.md: its headings, each with the links below it.
function index() {
  const groups = [];
  prose(fs.readFileSync(path.join(tree, "docs/README.md"), "utf8"), (part) => {
    const heading = /^## (.+)$/.exec(part);
    if (heading) groups.push({ text: heading[1], collapsed: groups.length > 1, items: [] });
    for (const [, text, target] of part.matchAll(/\[([^\]]+)\]\(([^)\s#]+\.md)(?:#[^)]*)?\)/g)) {
      const to = placed.get(path.posix.join("docs", target));
      const items = groups.at(-1)?.items;
      if (to && items && !items.some((i) => i.link === "/" + to)) items.push({ text, link: "/" + to });
    }
    return part;
  });
  return groups.filter((g) => g.items.length > 0);
}

for (const file of find("docs").filter((f) => f.endsWith(".md"))) want(file);
while (waiting.length > 0) {
  const file = waiting.shift();
  write(placed.get(file), /\.(svg|png)$/.test(file) ? fs.readFileSync(path.join(tree, file)) : page(file));
}
if (errors.length > 0) {
  console.error(errors.join("\n"));
  process.exit(1);
}

// The list has short texts, such as "of the manager", that need their context: the sidebar has the titles of the pages.
// Of two with the same title, the later one also has its directory.
const titles = new Map();
for (const to of [...placed.values()].filter((to) => to.endsWith(".md")).sort()) {
  const title = /^# (.+)$/m.exec(fs.readFileSync(path.join(site, to), "utf8"))?.[1].replaceAll("`", "");
  titles.set("/" + to, [...titles.values()].includes(title) ? `${title} (${path.posix.dirname(to)})` : title);
}
const sidebar = index().map((g) => ({ ...g, items: g.items.map((i) => ({ link: i.link.replace(/(index)?\.md$/, ""), text: titles.get(i.link) ?? i.text })) }));
write(".vitepress/sidebar.json", JSON.stringify(sidebar, null, 2));
write(".vitepress/config.mjs", fs.readFileSync(new URL("config.mjs", import.meta.url)));
write(".vitepress/names.mjs", fs.readFileSync(new URL("names.mjs", import.meta.url)));
