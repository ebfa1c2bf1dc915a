// SPDX-License-Identifier: Apache-2.0

// Package site tests the documentation site that make site builds from docs: what hack/site/build accepts and refuses, and what the pages do in a headless Chromium
// that reaches no other host.
//
//	go test ./site -run TestVersions                                        a small repository with two releases
//	go test ./site -run TestBrowser -pictures "$PWD/../docs/images"         the site of this repository, with screenshots
package site

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// base is the path under which the sites of these tests are served.
const base = "/everynode/"

// repository is a small one that grows by a release after the other.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.git("init", "-q")
	r.write("docs/README.md", "# Documentation\n\n## Start\n\n- [How it works](how.md)\n- [The project](../README.md)\n")
	r.write("docs/how.md", "# How it works\n\n## What a node's `agent` does\n\nText with <NAME> and `{{name}}` and {{name}}.\n\n    run {{command}}\n")
	r.write("README.md", "# The project\n\n[How the agent works](docs/how.md#what-a-nodes-agent-does), [a file](config/.hidden.yaml), [a directory](config).\n")
	r.write("config/.hidden.yaml", "text: \"```\"\n")
	return r
}

func (r repository) git(words ...string) {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), "git", append([]string{"-c", "user.name=A Tester", "-c", "user.email=tester@example.com"}, words...)...)
	command.Dir = r.dir
	if out, err := command.CombinedOutput(); err != nil {
		r.t.Fatalf("git %s: %v\n%s", words, err, out)
	}
}

func (r repository) write(name, text string) {
	r.t.Helper()
	name = filepath.Join(r.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r repository) release(version string) {
	r.t.Helper()
	r.git("add", ".")
	r.git("commit", "-q", "-m", version)
	r.git("tag", version)
}

// build builds the site of a repository, or skips the test where that cannot be done.
func build(t *testing.T, root, out string) (string, error) {
	t.Helper()
	for _, program := range []string{"node", "npm", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: the site needs %s: install Node.js 20 or newer, on Debian with apt-get install nodejs npm, and run make test SUITE=site", program)
		}
	}
	said, err := exec.CommandContext(t.Context(), "../../hack/site/build", root, out, base).CombinedOutput()
	return string(said), err
}

// serve serves a site below base.
func serve(t *testing.T, out string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(base, http.StripPrefix(strings.TrimSuffix(base, "/"), http.FileServer(http.Dir(out))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + base
}

// TestBrokenLinks: a link to nothing fails the build, which names the page and, where it is known, the line.
func TestBrokenLinks(t *testing.T) {
	for _, c := range []struct {
		page string
		says []string
	}{
		{"# New\n\n```\n[x](none.md)\n```\n\n[x](none.md) [x](../../secret)\n", []string{
			"docs/new.md:7 links to none.md, and there is no docs/none.md\n", "docs/new.md:7 links to ../../secret",
		}},
		{"# New\n\n[x](how.md#none) ![x](https://example.com/x.png)\n", []string{
			"next/new.html has a link to ./how.html#none, and that page has no such heading\n", "next/new.html loads https://example.com/x.png from another host\n",
		}},
	} {
		r := newRepository(t)
		r.write("docs/new.md", c.page)
		said, err := build(t, r.dir, t.TempDir())
		for _, want := range c.says {
			if err == nil || !strings.Contains(said, want) {
				t.Errorf("error %v, and\n%s\ndoes not contain %s", err, said, want)
			}
		}
	}
}

// TestVersions: each release has its own pages, the newest is the first, and the list of versions leads to the same page of another one where it has it.
func TestVersions(t *testing.T) {
	r, out := newRepository(t), t.TempDir()
	r.release("v0.9.0")
	r.write("docs/README.md", "# Documentation\n\n## Start\n\n- [How it works](how.md)\n- [The project](../README.md)\n- [New](new.md)\n")
	r.write("docs/new.md", "# New in this version\n")
	r.release("v0.10.0")
	r.git("tag", "v0.11.0-rc.1")
	r.write("docs/how.md", "# How it works today\n\n## What a node's `agent` does\n")
	said, err := build(t, r.dir, out)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if !strings.Contains(said, "site: v0.10.0 v0.9.0 next; ") {
		t.Errorf("it says %s", said)
	}
	b := browse(t)
	url := serve(t, out)
	heading := func(text string) string {
		return fmt.Sprintf("document.querySelector('h1')?.innerText.includes(%q)", text)
	}
	at := func(path string) string { return fmt.Sprintf("location.pathname === %q", base+path) }
	choose := func(version string) string {
		// The page listens once it has been mounted.
		return fmt.Sprintf(`((e) => !!document.querySelector("#app")._vnode && (e.value = %q, e.dispatchEvent(new Event("change")), true))(document.querySelector("select.versions"))`, version)
	}
	b.Does("a version", visits(url, at("v0.10.0/"), heading("Documentation"), `[...document.querySelectorAll("select.versions option")].map((o) => o.innerText).join() === "v0.10.0,v0.9.0,next"`)...)
	b.Does("a version", visits(url+"v0.9.0/how.html", heading("How it works"), `document.body.innerText.includes("Text with <NAME> and {{name}} and {{name}}.")`,
		`document.querySelector("div[class*=language-] pre")?.innerText.includes("run {{command}}")`)...)
	b.Does("another version", untils(choose("next"), at("next/how.html"), heading("How it works today"))...)
	b.Does("a version", visits(url+"v0.10.0/new.html", heading("New in this version"))...)
	b.Does("another version", untils(choose("v0.9.0"), at("v0.9.0/"), heading("Documentation"))...)
	b.Does("a version", visits(url+"next/repository/config/hidden.yaml.html", heading(".hidden.yaml"), "document.querySelector('pre').innerText.includes('text: \"```\"')")...)
	b.Quiet(icon)
}
