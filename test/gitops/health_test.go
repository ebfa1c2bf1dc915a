// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the tables of docs/gitops.md")

// page is the page with the tables and with the expressions for Flux.
func page() string { return filepath.Join("..", "..", "docs", "gitops.md") }

// TestHealthTables runs every tool on every object in every state, and compares that with the tables of the page. A table is skipped if a tool of it cannot be had.
func TestHealthTables(t *testing.T) {
	for name, table := range map[string]func(*testing.T) string{
		"advanced": func(t *testing.T) string {
			return advancedTable(t, ours(t, "apps.kruise.io/DaemonSet"), builtIn(t, "apps.kruise.io/DaemonSet"))
		},
		"native": nativeTable,
		"policy": func(t *testing.T) string { return table(t, policies(t), ours(t, "everynode.dev/RolloutPolicy")) },
		"job":    func(t *testing.T) string { return table(t, jobs(t), ours(t, "apps.kruise.io/ImagePullJob")) },
	} {
		t.Run(name, func(t *testing.T) { compare(t, name, table(t)) })
	}
}

// compare fails unless the page has the table, or writes it with -update.
func compare(t *testing.T, name, want string) {
	t.Helper()
	data, err := os.ReadFile(page())
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- table: "+name+" (test/gitops writes it) -->\n", "<!-- end -->"
	before, rest, found := strings.Cut(string(data), begin)
	got, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Error("the page has no such table")
	case got == want:
	case !*update:
		t.Errorf("the table is\n%s\nwant (go test ./gitops -update)\n%s", got, want)
	default:
		if err := os.WriteFile(page(), []byte(before+begin+want+end+after), 0o644); err != nil { //nolint:gosec // a page
			t.Fatal(err)
		}
	}
}

func line(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

func header(cells ...string) string {
	return line(cells...) + "|" + strings.Repeat("---|", len(cells)) + "\n"
}

func advancedTable(t *testing.T, ours, builtIn script) string {
	t.Helper()
	text := header("Advanced DaemonSet", "kstatus: Flux, Helm 4", "`kubectl wait` for `Ready`", "Argo CD, built in", "Argo CD, `contrib/argocd`")
	for _, st := range states() {
		if st.native {
			continue
		}
		obj := st.object(t, advancedVersion)
		text += line(st.name, kstatus(t, obj), kubectlWait(t, obj), argo(t, obj, builtIn), argo(t, obj, ours))
	}
	return text
}

func nativeTable(t *testing.T) string {
	t.Helper()
	text := header("DaemonSet of apps/v1", "kstatus: Flux, Helm 4", "`kubectl rollout status`", "Argo CD, built in", "Flux with the expression below")
	flux := expressions(t)[nativeVersion+" DaemonSet"]
	var names []string
	var objects []*unstructured.Unstructured
	for _, st := range states() {
		if st.advanced || st.governed != nil && st.governed.Settled {
			continue
		}
		names, objects = append(names, st.name), append(objects, st.object(t, nativeVersion))
	}
	argo := argoInGo(t, objects)
	for i, obj := range objects {
		byExpression := "not evaluated"
		if obj.GetDeletionTimestamp() == nil {
			byExpression = flux(obj)
		}
		text += line(names[i], kstatus(t, obj), rolloutStatus(t, obj), argo[i], byExpression)
	}
	return text
}

func table(t *testing.T, rows []row, with script) string {
	t.Helper()
	text := header(rows[0].obj.GetKind(), "kstatus: Flux, Helm 4", "`kubectl wait` for `Ready`", "Argo CD, `contrib/argocd`")
	for _, r := range rows {
		text += line(r.name, kstatus(t, r.obj), kubectlWait(t, r.obj), argo(t, r.obj, with))
	}
	return text
}

// TestNothingIsDoneTooEarly: while the manager has something to do for an Advanced DaemonSet, no tool calls it current, but for the built-in script of Argo CD, which the page says.
func TestNothingIsDoneTooEarly(t *testing.T) {
	flux, inProgress := expressions(t)[advancedVersion+" DaemonSet"], 0
	for _, st := range states() {
		if st.native || !st.unseen && !st.changed && !st.deleted && !strings.Contains(st.name, "rolling") && !strings.Contains(st.name, "created") &&
			!strings.Contains(st.name, "not available") && !strings.Contains(st.name, "not reached") && !strings.Contains(st.name, "crashes") {
			continue
		}
		inProgress++
		obj := st.object(t, advancedVersion)
		for tool, is := range map[string]bool{
			"kstatus":      kstatus(t, obj) == "Current",
			"kubectl wait": kubectlWait(t, obj) == "returns" && !st.deleted,
			"Argo CD":      argo(t, obj, ours(t, "apps.kruise.io/DaemonSet")) == "Healthy",
			"Flux":         !st.deleted && flux(obj) == "Current",
		} {
			if is {
				t.Errorf("%s: done too early for %s", st.name, tool)
			}
		}
	}
	if inProgress < 7 {
		t.Errorf("only %d states are in progress", inProgress)
	}
}

// expressions are the expressions of the page for Flux, evaluated with the code of Flux, by API version and kind.
func expressions(t *testing.T) map[string]func(obj *unstructured.Unstructured) string {
	t.Helper()
	data, err := os.ReadFile(page())
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "```yaml\nspec:\n  healthCheckExprs:\n")
	block, _, _ := strings.Cut(rest, "```")
	var checks []kustomize.CustomHealthCheck
	if err := yaml.UnmarshalStrict([]byte(block), &checks); err != nil || len(checks) != 4 {
		t.Fatalf("the page has %d expressions: %v", len(checks), err)
	}
	all := map[string]func(*unstructured.Unstructured) string{}
	for _, check := range checks {
		evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
		if err != nil {
			t.Fatalf("%s: %v", check.Kind, err)
		}
		all[check.APIVersion+" "+check.Kind] = func(obj *unstructured.Unstructured) string {
			result, err := evaluator.Evaluate(t.Context(), obj)
			if err != nil {
				t.Fatalf("%s: %v", check.Kind, err)
			}
			return result.Status.String()
		}
	}
	return all
}

// TestExpressionsForFlux: the expressions of the page for our own kinds say what kstatus says.
func TestExpressionsForFlux(t *testing.T) {
	for of, says := range expressions(t) {
		switch of {
		case nativeVersion + " DaemonSet":
			for _, st := range states() {
				if st.advanced || st.deleted {
					continue
				}
				want := kstatus(t, st.object(t, nativeVersion))
				if st.governed != nil || strings.HasPrefix(st.name, "OnDelete") {
					want = "Current" // that is what the expression is for
				}
				if got := says(st.object(t, nativeVersion)); got != want {
					t.Errorf("native, %s: %s, want %s", st.name, got, want)
				}
			}
		case advancedVersion + " DaemonSet":
			for _, st := range states() {
				if obj := st.object(t, advancedVersion); !st.native && !st.deleted && says(obj) != kstatus(t, obj) {
					t.Errorf("advanced, %s: %s, kstatus %s", st.name, says(obj), kstatus(t, obj))
				}
			}
		case "everynode.dev/v1alpha1 RolloutPolicy", advancedVersion + " ImagePullJob":
			rows := jobs(t)
			if strings.HasSuffix(of, "RolloutPolicy") {
				rows = policies(t)
			}
			for _, r := range rows {
				if says(r.obj) != kstatus(t, r.obj) {
					t.Errorf("%s, %s: %s, kstatus %s", of, r.name, says(r.obj), kstatus(t, r.obj))
				}
			}
		default:
			t.Errorf("the expression for %s is not tested", of)
		}
	}
}
