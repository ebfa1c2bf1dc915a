// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"everynode.dev/everynode/api/annotation"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rollout"
)

// The recipes of CONTRIBUTING.md for a verdict, an annotation or limit, and a dialect say how many sources such a change touches. These tests count,
// for each one that exists, the sources that name it: code of the product, without tests and without what is generated. A source that names more than its
// recipe has must be listed here with the reason, and a listed source that no longer does is an error.

// exceptions are what goes beyond a recipe, by the reason.
type exceptions map[string][]string

// check compares what was found to go beyond the recipe with the exceptions.
func (e exceptions) check(t *testing.T, recipe string, found []string) {
	t.Helper()
	listed := map[string]bool{}
	for reason, names := range e {
		for _, name := range names {
			listed[name] = true
			if !slices.Contains(found, name) {
				t.Errorf("the recipe of a new %s: %s does not go beyond it any more: remove the exception (%s)", recipe, name, reason)
			}
		}
	}
	for _, name := range found {
		if !listed[name] {
			t.Errorf("the recipe of a new %s in CONTRIBUTING.md: %s goes beyond it: read what is declared instead, or add an exception with the reason", recipe, name)
		}
	}
}

// uses are the sources of the product that name a package-level object, by "dir.Name", or a field or method of any type, by ".Name". Imported packages and
// string literals are uses too, by "import dir" and by their quoted text.
type uses map[string]map[string]bool

func (u uses) add(name, file string) {
	if u[name] == nil {
		u[name] = map[string]bool{}
	}
	u[name][file] = true
}

// of are the sources that name one of these.
func (u uses) of(names ...string) []string {
	files := map[string]bool{}
	for _, name := range names {
		maps.Copy(files, u[name])
	}
	return slices.Sorted(maps.Keys(files))
}

// source is a file of the product.
type source struct {
	name string // with the directory
	ast  *ast.File
}

// sources reads the product: the files of the root module and of localplane, without tests, generated files, and what only tests use.
func sources(t *testing.T) ([]source, uses) {
	t.Helper()
	var all []source
	found := uses{}
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if slices.Contains([]string{"bin", "dist", "test", "hack", "examples", "internal/testing", "internal/sim"}, name) || name != "." && entry.Name()[0] == '.' {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ".go", strings.HasSuffix(name, "_test.go"), strings.HasPrefix(entry.Name(), "zz_generated"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err == nil {
			all = append(all, source{name, file})
			found.read(path.Dir(name), name, file)
		}
		return err
	})
	if err != nil || len(all) < 100 {
		t.Fatalf("read %d sources: %v", len(all), err)
	}
	return all, found
}

// in returns the sources of one package.
func in(all []source, dir string) []source {
	return slices.DeleteFunc(slices.Clone(all), func(s source) bool { return path.Dir(s.name) != dir })
}

func (u uses) read(dir, file string, f *ast.File) {
	imported := map[string]string{}
	for _, spec := range f.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if local, ours := strings.CutPrefix(name, "everynode.dev/everynode/"); ours {
			u.add("import "+local, file)
			alias := path.Base(local)
			if spec.Name != nil {
				alias = spec.Name.Name
			}
			imported[alias] = local
		}
	}
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imported[x.Name] != "" {
				u.add(imported[x.Name]+"."+n.Sel.Name, file)
				return false
			}
			u.add("."+n.Sel.Name, file)
			ast.Inspect(n.X, visit)
			return false
		case *ast.Field:
			for _, name := range n.Names {
				u.add("."+name.Name, file)
			}
			if n.Type != nil {
				ast.Inspect(n.Type, visit)
			}
			return false
		case *ast.Ident:
			u.add(dir+"."+n.Name, file)
		case *ast.BasicLit:
			u.add(n.Value, file)
		}
		return true
	}
	ast.Inspect(f, visit)
}

// constantsOf are the constants that are declared in a package, by name.
func constantsOf(all []source, dir string) map[string]*ast.ValueSpec {
	found := map[string]*ast.ValueSpec{}
	for _, s := range in(all, dir) {
		for _, decl := range s.ast.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.CONST {
				for _, spec := range gen.Specs {
					found[spec.(*ast.ValueSpec).Names[0].Name] = spec.(*ast.ValueSpec)
				}
			}
		}
	}
	return found
}

// TestRecipeOfAVerdict: a verdict is a constant with its row in the table, and the rule that gives it: in the core, or among those of rollout policies.
func TestRecipeOfAVerdict(t *testing.T) {
	const core, table = "internal/rollout", "internal/rollout/verdict.go"
	files, all := sources(t)
	kinds := verdictNames(in(files, core))
	if len(kinds) != len(rollout.VerdictKinds()) {
		t.Fatalf("found the rows of %d verdicts, there are %d: %v", len(kinds), len(rollout.VerdictKinds()), kinds)
	}
	const rules = "internal/policy/"
	outside, several := map[string]bool{}, []string{}
	for _, name := range kinds {
		inside := 0
		for _, file := range all.of(core + "." + name) {
			if strings.HasPrefix(file, core+"/") {
				inside++
			} else {
				outside[file] = true
			}
		}
		ofPolicy := slices.ContainsFunc(all.of(core+"."+name), func(file string) bool { return strings.HasPrefix(file, rules) })
		if !slices.Contains(all.of(core+"."+name), table) || inside < 2 && !ofPolicy {
			t.Errorf("%s is not both declared in %s and given by a rule", name, table)
		}
		if inside > 2 {
			several = append(several, name)
		}
	}
	verdictExceptions().check(t, "verdict", slices.Sorted(maps.Keys(outside)))
	exceptions{
		"a preDelete hook comes before every kind of deletion":         {"Recreating", "FinishingSurge", "ReplacingFailed", "ReplacingEnded", "RemovingExcess"},
		"nodes that are left, and sets of another controller":          {"NotEvaluated", "NotWanted", "Removing", "WaitTerminating", "WaitCollection", "WaitHook", "WaitController"},
		"a node whose write was rejected comes after these":            {"WaitBackoff", "WaitBurst", "WaitBudget", "WaitReplacing", "WaitSurgeRemove", "WaitNodeOwner", "Blocked"},
		"the budget reserves nothing for nodes that are not updated":   {"WaitEligible", "WaitProgressive"},
		"a policy also holds what only the partition keeps":            {"WaitPartition"},
		"a set at rest has this one on all nodes, and is decided fast": {"UpToDate"},
	}.check(t, "verdict", several)
}

// monitoring is a file of the chart's monitoring.
func monitoring(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(path.Join("../charts/everynode/monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestAlertsOfVerdicts: the chart has the alerts that the table of verdicts names, each with all verdicts of the table; no other verdict is in its monitoring.
func TestAlertsOfVerdicts(t *testing.T) {
	want, known := map[string][]string{}, map[string]bool{}
	for _, kind := range rollout.VerdictKinds() {
		known[kind.String()] = true
		if alert := kind.Alert(); alert != "" && alert != rollout.AlertStuck { // that one reads a metric of its own
			want[string(alert)] = append(want[string(alert)], kind.String())
		}
	}
	alerts := monitoring(t, "alerts.yaml")
	got, names := map[string][]string{}, regexp.MustCompile(`verdict(?:=|=~|!=|!~)\\?"([a-z|-]+)`)
	for _, rule := range strings.Split(alerts, "- alert: ")[1:] {
		name, _, _ := strings.Cut(rule, "\n")
		for _, found := range names.FindAllStringSubmatch(rule, -1) {
			got[name] = append(got[name], strings.Split(found[1], "|")...)
		}
	}
	if !maps.EqualFunc(got, want, slices.Equal) || !strings.Contains(alerts, "- alert: "+string(rollout.AlertStuck)+"\n") {
		t.Errorf("the alerts of the chart are for the verdicts %v, those of the table are %v and %s", got, want, rollout.AlertStuck)
	}
	for _, found := range names.FindAllStringSubmatch(alerts+monitoring(t, "dashboard.json"), -1) {
		for _, name := range strings.Split(found[1], "|") {
			if !known[name] {
				t.Errorf("the monitoring of the chart names the verdict %s, which does not exist", name)
			}
		}
	}
}

// verdictNames are the keys of the table of verdicts.
func verdictNames(core []source) (names []string) {
	for _, s := range core {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Names[0].Name != "verdicts" || len(spec.Values) == 0 {
				return true
			}
			for _, row := range spec.Values[0].(*ast.CompositeLit).Elts {
				names = append(names, row.(*ast.KeyValueExpr).Key.(*ast.Ident).Name)
			}
			return false
		})
	}
	return names
}

// verdictExceptions are the sources outside of the core that name single verdicts. All others read the table.
func verdictExceptions() exceptions {
	return exceptions{
		"it counts one by one what happens, or simulates it": {"internal/plan/outcome.go", "internal/plan/simulate.go"},
		"a write is checked again":                           {"internal/apply/executor/executor.go", "internal/apply/executor/overtaken.go"},
		"it shows the values behind a verdict":               {"internal/cli/explain/pod.go", "internal/cli/explain/policy.go", "internal/cli/explain/values.go", "internal/cli/inspect/cause.go", "internal/cli/plan/waits.go", "internal/cli/plan/warnings.go"},
		"it shows where a rollout is": {
			"internal/cli/inspect/govern.go", "internal/cli/inspect/outcome.go", "internal/cli/inspect/report.go", "internal/cli/live/live.go",
			"internal/cli/view/frame.go", "internal/cli/view/model.go", "internal/cli/view/batches.go",
		},
		"conditions and events about one of them": {"internal/controller/daemonset/imagewait.go", "internal/dialect/kruise/conditions.go"},
		"a rollout policy gives them, as an input of the core": {
			"internal/policy/analysis.go", "internal/policy/answers.go", "internal/policy/budget.go", "internal/policy/decide.go", "internal/policy/failure.go", "internal/policy/group.go", "internal/policy/order.go", "internal/policy/returned.go", "internal/policy/roll.go", "internal/policy/watch.go", "internal/policy/window.go",
		},
	}
}

// TestRecipeOfAnAnnotation: an annotation is declared with its value, and read below internal/dialect; a limit also has a field and a rule in the core.
func TestRecipeOfAnAnnotation(t *testing.T) {
	files, all := sources(t)
	beyond := map[string]bool{}
	for dir, rules := range map[string][]annotation.Rule{
		"api/everynode": everynode.Annotations(), "api/kruise": kruise.Annotations(), "api/openyurt": openyurt.Annotations(),
	} {
		for _, rule := range rules {
			name := constantOf(files, dir, rule.Key)
			users := all.of(dir+"."+name, dir+"."+name+"Value", strconv.Quote(rule.Key))
			readers := slices.DeleteFunc(slices.Clone(users), func(file string) bool { return !strings.HasPrefix(file, "internal/dialect/") })
			if len(readers) != 1 {
				t.Errorf("%s is read in %v, want one source below internal/dialect", rule.Key, readers)
			}
			for _, file := range users {
				if !strings.HasPrefix(file, dir+"/") && !strings.HasPrefix(file, "internal/dialect/") {
					beyond[file] = true
				}
			}
		}
	}
	annotationExceptions().check(t, "annotation", slices.Sorted(maps.Keys(beyond)))

	limit := all.of("api/everynode.MaxReplacing", "api/everynode.MaxReplacingValue", ".MaxReplacing")
	recipe := []string{"api/everynode/names.go", "internal/dialect/base/annotations.go", "internal/rollout/model.go", "internal/rollout/rolling.go"}
	for _, file := range recipe {
		if !slices.Contains(limit, file) {
			t.Errorf("%s is a source of the recipe, and does not name the limit MaxReplacing", file)
		}
	}
	exceptions{
		"it shows the limit in an answer":                {"internal/cli/explain/values.go"},
		"with AdvancedRollingUpdate there is always one": {"internal/dialect/openyurt/digest.go"},
	}.check(t, "limit", slices.DeleteFunc(limit, func(file string) bool { return slices.Contains(recipe, file) }))
}

// annotationExceptions are the further sources that name an annotation.
func annotationExceptions() exceptions {
	return exceptions{
		"it became a field in v1beta1":             {"internal/cli/migrate/translate.go", "internal/webhook/conversion/scaling.go", "internal/webhook/validation/strategy.go"},
		"an eviction asks the webhook":             {"internal/webhook/evictions.go"},
		"two of them exclude each other":           {"internal/webhook/validation/annotations.go"},
		"it needs a feature gate, and says so":     {"internal/controller/daemonset/predownload.go"},
		"the remedy names it":                      {"internal/cli/doctor/heldnodes.go", "internal/cli/doctor/leavelast.go"},
		"it shows the value, with where it is set": {"internal/cli/explain/values.go", "internal/cli/plan/slow.go"},
		"a verb for OpenYurt's strategies": {
			"internal/cli/edit/doc.go", "internal/cli/installed/installed.go", "internal/cli/ota/eligibility.go", "internal/cli/plan/edge.go", "internal/cli/plan/edit.go",
		},
	}
}

// constantOf is the name of the constant in dir whose text is key, or ends with its last part: Domain + "/part".
func constantOf(all []source, dir, key string) string {
	for name, spec := range constantsOf(all, dir) {
		for _, value := range spec.Values {
			if sum, ok := value.(*ast.BinaryExpr); ok {
				value = sum.Y
			}
			lit, ok := value.(*ast.BasicLit)
			if text, err := strconv.Unquote(cmp.Or(lit, &ast.BasicLit{}).Value); ok && err == nil && strings.Contains(text, "/") && strings.HasSuffix(key, text) {
				return name
			}
		}
	}
	return key
}

// TestRecipeOfADialect: a dialect is its package, a line in internal/dialects, and a page.
func TestRecipeOfADialect(t *testing.T) {
	_, all := sources(t)
	beyond := map[string]bool{}
	for _, r := range dialects.All() {
		dir := "internal/dialect/" + r.Name
		constants := []string{"import " + dir, strconv.Quote(r.Name)}
		for _, name := range []string{"Native", "Kruise", "OpenYurt", "Policy"} {
			if strings.EqualFold(name, r.Name) {
				constants = append(constants, "internal/dialects."+name)
			}
		}
		for _, file := range all.of(constants...) {
			if !strings.HasPrefix(file, dir+"/") && file != "internal/dialects/dialects.go" {
				beyond[file] = true
			}
		}
	}
	dialectExceptions().check(t, "dialect", slices.Sorted(maps.Keys(beyond)))
}

// dialectExceptions are the further sources that name a dialect.
func dialectExceptions() exceptions {
	return exceptions{
		"the definitions, the webhooks and the image pulls of OpenKruise's API": {
			"internal/manager/definitions.go", "internal/manager/holds.go", "internal/manager/leader.go", "internal/manager/options.go", "internal/manager/place.go", "internal/manager/pulls.go",
			"internal/manager/run.go", "internal/webhook/certs/publisher.go", "internal/webhook/certs/watch.go", "internal/cli/doctor/doctor.go", "internal/cli/doctor/kruise.go", "internal/cli/doctor/uninstall.go",
		},
		"the probe for other controllers of apps/v1":   {"internal/cli/doctor/others.go"},
		"which dialects fit a cluster":                 {"internal/cli/doctor/install.go"},
		"a verb that replaces the other project":       {"internal/cli/adopt/adopt.go", "internal/cli/adopt/conditions.go", "internal/cli/adopt/definitions.go", "internal/cli/adopt/openyurt.go"},
		"a rollout policy, and not the dialect policy": {"internal/cli/explain/policy.go", "internal/cli/plan/plan.go", "internal/cli/policies/init.go"},
		"ads/NAME, and what is shown of such pods":     {"internal/cli/inspect/inspect.go", "internal/cli/resolver/reference.go", "internal/cli/resolver/set.go"},
		"pods that are changed in place":               {"internal/cli/edit/restart.go", "internal/cli/plan/warnings.go"},
		"a note that OpenYurt's annotations count not": {"internal/cli/installed/installed.go"},
		"a plane has the webhooks and the node API of one dialect, and Kubernetes' own controller in the place of another": {
			"localplane/demo/story.go", "localplane/internal/component/commands.go", "localplane/options.go", "localplane/start.go",
		},
		"a snapshotter of containerd has the same name": {"localplane/internal/realnode/check.go"},
	}
}
