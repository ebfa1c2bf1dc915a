// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// importRule is a list of depguard in .golangci.yml.
type importRule struct {
	Files []string `json:"files"`
}

// importRules are the lists of depguard by name.
func importRules(t *testing.T) map[string]importRule {
	t.Helper()
	raw, err := os.ReadFile("../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]importRule `json:"rules"`
				} `json:"depguard"`
			} `json:"settings"`
		} `json:"linters"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	return config.Linters.Settings.Depguard.Rules
}

// covers is whether a pattern of an import rule, DIR/*.go or DIR/**, covers the files of the package in dir.
func covers(pattern, dir string) bool {
	pattern = strings.TrimPrefix(pattern, "${config-path}/")
	if below, ok := strings.CutSuffix(pattern, "/**"); ok {
		return strings.HasPrefix(dir+"/", below+"/")
	}
	return strings.TrimSuffix(pattern, "/*.go") == dir
}

// packages are the directories of the packages of the root module that are more than tests.
func packages(t *testing.T) []string {
	t.Helper()
	dirs := []string{}
	for _, line := range strings.Fields(goOutput(t, "list", "-f", "{{if .GoFiles}}{{.ImportPath}}{{end}}", "./...")) {
		dirs = append(dirs, strings.TrimPrefix(line, "everynode.dev/everynode/"))
	}
	return dirs
}

func goOutput(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir = ".."
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v", command.Args, err)
	}
	return string(out)
}

// TestEveryPackageHasAnImportRule: one that names what it may import of this repository, beside those on all pure packages (no-...) and on modules
// (...-modules). And each rule is about a package that exists: a rule about nothing is one that nobody keeps.
func TestEveryPackageHasAnImportRule(t *testing.T) {
	dirs, rules := packages(t), importRules(t)
	if len(dirs) == 0 || len(rules) < 10 {
		t.Fatalf("found %d packages and %d rules", len(dirs), len(rules))
	}
	own := map[string]int{}
	for name, rule := range rules {
		for _, pattern := range rule.Files {
			if strings.HasPrefix(pattern, "$") && !strings.HasPrefix(pattern, "${config-path}/") || pattern == "!$test" || strings.Contains(pattern, "/localplane/") {
				continue
			}
			at := slices.IndexFunc(dirs, func(dir string) bool { return covers(strings.TrimPrefix(pattern, "!"), dir) })
			if at < 0 {
				t.Errorf("the rule %s is about %s, where no package is", name, pattern)
			}
		}
		if name == "everywhere" || strings.HasPrefix(name, "no-") || strings.HasSuffix(name, "-modules") {
			continue
		}
		for _, dir := range dirs {
			inside := slices.ContainsFunc(rule.Files, func(pattern string) bool { return covers(pattern, dir) })
			outside := slices.ContainsFunc(rule.Files, func(pattern string) bool { return pattern[0] == '!' && covers(pattern[1:], dir) })
			if inside && !outside {
				own[dir]++
			}
		}
	}
	for _, dir := range dirs {
		if own[dir] != 1 {
			t.Errorf("%s has %d import rules of its own in .golangci.yml, want 1", dir, own[dir])
		}
	}
}

// TestDependencies: a list of direct imports does not show what those import in turn; go list does.
func TestDependencies(t *testing.T) {
	const client, manager, kubernetes = "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/kubernetes"
	for _, rule := range []struct {
		patterns, never []string
		why             string
	}{
		{[]string{
			"./api/...", "./internal/rollout", "./internal/placement", "./internal/podtemplate", "./internal/revision", "./internal/plan", "./internal/imagepull",
			"./internal/predownload", "./internal/policyinput", "./internal/dialect/...", "./internal/dialects", "./internal/webhook/conversion", "./internal/webhook/defaulting",
			"./internal/webhook/validation", "./internal/ota", "./internal/clustercache", "./internal/clustercache/inflight", "./internal/apply", "./internal/cli/view", "./internal/cli/textdiff",
			"./internal/agent/credentials", "./internal/agent/cri", "./internal/agent/store", "./internal/agent/rest",
		}, []string{client, manager, kubernetes}, "a simulator, and others who import them, must need no client"},
		{[]string{"./cmd/kubectl-everynode"}, []string{"everynode.dev/everynode/internal/controller", "everynode.dev/everynode/internal/manager"},
			"the plugin reads what the controllers read, and must not contain them"},
		{[]string{"./cmd/everynode-agent"}, []string{manager, client + "/kubernetes", kubernetes}, "one agent runs on every node: the types of all APIs would be most of its size"},
		{[]string{"./..."}, []string{kubernetes, "go.etcd.io/etcd/server", "sigs.k8s.io/kwok", "everynode.dev/everynode/localplane", "everynode.dev/everynode/test"},
			"whoever imports the API must not have to build Kubernetes; servers and simulated nodes belong into localplane"},
	} {
		for _, dep := range strings.Fields(goOutput(t, append([]string{"list", "-deps"}, rule.patterns...)...)) {
			if slices.ContainsFunc(rule.never, func(never string) bool { return dep == never || strings.HasPrefix(dep, never+"/") }) {
				t.Errorf("%s, ... reach %s: %s", rule.patterns[0], dep, rule.why)
				break
			}
		}
	}
}

// TestTheCoreIsAFunction: no goroutine, no channel, and no order that comes from ranging over a map, in what must give the same for the same input.
func TestTheCoreIsAFunction(t *testing.T) {
	for _, dir := range []string{"internal/rollout", "internal/agent/pull"} {
		names, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", dir, names, err)
		}
		sources := map[string]string{}
		for _, name := range names {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") {
				sources[name] = string(raw)
			}
		}
		for _, found := range impure(t, sources) {
			t.Error(found)
		}
	}
}

// TestImpureIsFound shows that TestTheCoreIsAFunction is able to fail.
func TestImpureIsFound(t *testing.T) {
	for body, want := range map[string]string{
		"func f() { go f() }":                                                "a goroutine",
		"type t struct{ c chan int }":                                        "a channel",
		"type m map[int]int\nfunc f(x m) { for range x {} }":                 "a loop over a map",
		"func f(x map[int]int) { for range maps.Keys(x) {} }":                "maps.Keys",
		"func f(x map[int]int) []int { return slices.Sorted(maps.Keys(x)) }": "",
	} {
		found := impure(t, map[string]string{"a.go": "package a\nimport (\"maps\"; \"slices\")\nvar _ = slices.Max[[]int]\nvar _ = maps.Clone[map[int]int]\n" + body})
		if got := strings.Join(found, "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: found %q, want %q", body, got, want)
		}
	}
}

// impure finds what makes two runs of a package differ.
func impure(t *testing.T, sources map[string]string) (found []string) {
	t.Helper()
	fset, files := token.NewFileSet(), []*ast.File{}
	for name, text := range sources {
		file, err := parser.ParseFile(fset, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: importer.ForCompiler(token.NewFileSet(), "source", nil)}
	if _, err := config.Check("a", fset, files, info); err != nil {
		t.Fatal(err)
	}
	report := func(n ast.Node, what string) { found = append(found, fset.Position(n.Pos()).String()+": "+what) }
	sorted := map[ast.Node]bool{} // calls whose result is sorted at once
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				report(n, "a goroutine")
			case *ast.ChanType:
				report(n, "a channel")
			case *ast.RangeStmt:
				if _, isMap := info.TypeOf(n.X).Underlying().(*types.Map); isMap {
					report(n, "a loop over a map: sort the keys")
				}
			case *ast.CallExpr:
				name := types.ExprString(n.Fun)
				if strings.HasPrefix(name, "slices.Sorted") && len(n.Args) > 0 {
					sorted[n.Args[0]] = true
				}
				if slices.Contains([]string{"maps.Keys", "maps.Values", "maps.All"}, name) && !sorted[n] {
					report(n, name+" without slices.Sorted around it")
				}
			}
			return true
		})
	}
	return found
}

// private are paths of one machine and addresses of mirrors, which mean nothing elsewhere. The pattern does not match itself.
var private = regexp.MustCompile(`(?m)(^|[\s"'=:(\x60])/([w]ork|[r]oot)/|proxy\.golang[.]org|deb\.debian[.]org|registry\.npmjs[.]org`)

// TestNothingPrivate looks through all files of the repository.
func TestNothingPrivate(t *testing.T) {
	for text, want := range map[string]bool{"see /w" + "ork/x": true, "from proxy.golang" + ".org": true, `cd "/ro` + `ot/x`: true, "framework/" + "work/x and docs/root/x": false} {
		if private.MatchString(text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
	command := exec.CommandContext(t.Context(), "git", "ls-files", "-co", "--exclude-standard")
	command.Dir = ".."
	out, err := command.Output()
	if err != nil {
		t.Skipf("SKIPPED: %v: this is no clone", err)
	}
	for _, name := range strings.Fields(string(out)) {
		raw, err := os.ReadFile(filepath.Join("..", name))
		if err == nil && filepath.Base(name) != "go.sum" {
			if found := private.Find(raw); found != nil {
				t.Errorf("%s has %q", name, found)
			}
		}
	}
}
