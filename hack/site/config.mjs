// SPDX-License-Identifier: Apache-2.0

// The settings of the generator, the same for each version.

import fs from "node:fs";
import { slug } from "./names.mjs";

const read = (name) => JSON.parse(fs.readFileSync(new URL(name, import.meta.url), "utf8"));
const versions = read("versions.json");

export default {
  title: "Everynode",
  description: "Keeps one pod on every node of a Kubernetes cluster, and changes it safely.",
  lang: "en",
  // Pages name the URLs of local clusters.
  ignoreDeadLinks: "localhostLinks",
  themeConfig: {
    sidebar: read("sidebar.json"),
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Getting started", link: "/getting-started" },
      { text: "Install", link: "/install" },
      { text: "Support", link: "/support" },
      { text: "Changelog", link: "/repository/CHANGELOG" },
    ].filter(({ link }) => versions.list.find((v) => v.name === versions.name).pages.includes(`${link.slice(1)}.md`)),
    footer: { message: "Apache License 2.0" },
  },
  markdown: {
    anchor: { slugify: slug },
    config(md) {
      const { fence, code_inline: inline } = md.renderer.rules;
      // Braces in code are text, as in a template of Go.
      md.renderer.rules.code_inline = (...of) => inline(...of).replace("<code", "<code v-pre");
      md.renderer.rules.fence = (tokens, at, ...rest) =>
        tokens[at].info.trim() === "mermaid" ? `<Mermaid code="${encodeURIComponent(tokens[at].content)}" />` : fence(tokens, at, ...rest);
      // A block that is indented looks like a fenced one, and scrolls like that.
      md.renderer.rules.code_block = fence;
    },
  },
  vite: {
    build: { chunkSizeWarningLimit: 4096 },
    define: { __VERSIONS__: JSON.stringify(versions) },
  },
};
