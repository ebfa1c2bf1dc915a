// SPDX-License-Identifier: Apache-2.0

// The generator's own theme without its fonts, which are larger than all pages, with a list of versions and with Mermaid.

import { h } from "vue";
import Theme from "vitepress/theme-without-fonts";
import Mermaid from "./Mermaid.vue";
import Versions from "./Versions.vue";

export default {
  extends: Theme,
  Layout: () => h(Theme.Layout, null, { "nav-bar-content-after": () => h(Versions) }),
  enhanceApp({ app }) {
    app.component("Mermaid", Mermaid);
  },
};
