// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// policyOf is a policy for the set agent with these fields of its specification.
func policyOf(spec string) string {
	return "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: agents, namespace: default, uid: uid-policy}\nspec:\n" +
		"  targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}]\n" + spec
}

const threeWaves = `  waves:
  - {name: canary, nodes: {count: 1}, soak: 30m, after: [{type: Approval}]}
  - {name: half, nodes: {percent: 50}, soak: 1h}
`

func governedCluster(t *testing.T, manifests ...string) *fakecluster.Cluster {
	t.Helper()
	objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "oooooo"}.Objects(t)
	for _, manifest := range manifests {
		objects = append(objects, runtime.Object(fakecluster.Object(t, manifest)))
	}
	return fakecluster.New(t, objects...)
}

func TestPlanUnderAPolicy(t *testing.T) {
	const edit = "agent --image agent=registry.example/agent:3 --local"
	night := "  windows: [{schedule: \"0 22 * * *\", duration: 1h}]\n  freezes: [{from: \"2026-03-01T22:00:00Z\", to: \"2026-03-01T22:30:00Z\"}]\n"
	zones := "  waves: [{name: all, nodes: {percent: 100}, growth: {start: 1}}]\n  pace: {minTimeBetween: 1m}\n"
	for name, c := range map[string]struct{ policy, args string }{
		"policy":           {policyOf(threeWaves), edit},
		"policy-json":      {policyOf(threeWaves), edit + " -o json"},
		"policy-remaining": {policyOf(threeWaves), "agent --local"},
		"policy-window":    {policyOf(threeWaves + night), edit},
		"policy-freeze":    {policyOf(threeWaves + "  freezes: [{from: \"2026-03-01T00:00:00Z\", to: \"9999-12-31T23:59:59Z\"}]\n"), edit},
		"policy-long":      {policyOf(strings.Replace(threeWaves, "30m", "150h", 1)), edit},
		"policy-analysis": {policyOf(strings.Replace(threeWaves, "soak:", "analysis: [errors], soak:", 1) +
			"  analyses: [{name: errors, provider: main, query: x, success: result < 1}]\n  blockOnAlerts: {provider: main}\n"), edit},
		"policy-last-soak":  {policyOf("  waves: [{name: canary, nodes: {count: 1}, soak: 10s}, {name: rest, nodes: {percent: 100}, soak: 30s}]\n"), edit},
		"policy-end-json":   {policyOf("  waves: [{name: all, nodes: {percent: 100}, soak: 30s}]\n"), edit + " -o json"},
		"policy-pace":       {policyOf(zones), edit},
		"policy-suspended":  {policyOf("  suspend: true\n" + threeWaves), edit},
		"policy-empty-wave": {policyOf("  waves: [{name: none, nodes: {selector: {matchLabels: {x: \"y\"}}}}]\n"), edit},
		"policy-invalid":    {policyOf("  windows: [{schedule: \"0 22 * *\", duration: 1h}]\n" + threeWaves), edit},
		"policy-no-nodes": {policyOf("  waves:\n  - {name: canary, nodes: {count: 1}, soak: 30m}\n  - {name: tenth, nodes: {percent: 10}, soak: 1h, after: [{type: Approval}]}\n" +
			"  - {name: again, nodes: {selector: {matchLabels: {kubernetes.io/hostname: node-1}}}, soak: 10m}\n"), edit},
		"policy-spread":    {policyOf(strings.Replace(threeWaves, "count: 1", "count: 1, spreadBy: [kubernetes.io/hostname, zonee]", 1)), edit},
		"policy-no-change": {policyOf(threeWaves), "agent --max-unavailable 3 --image agent=registry.example/agent:1 --local"},
		"policy-order":     {policyOf("  order: {topologyKey: kubernetes.io/hostname}\n"), edit},
		"policy-days":      {policyOf(threeWaves + "  freezes: [{from: \"2026-03-01T00:00:00Z\", to: \"2026-03-06T00:00:00Z\"}]\n"), edit},
		"what-if-window":   {policyOf(threeWaves + "  windows: [{schedule: \"0 12 * * *\", duration: 1m}]\n  failure: {action: Undo}\n"), edit + " --what-if failed=*"},
		"what-if-undo":     {policyOf(threeWaves + "  failure: {action: Undo}\n"), edit + " --what-if failed=*"},
		"what-if-pause":    {policyOf(threeWaves + "  failure: {maxFailedNodes: 1, waitingReasons: [], nodeDeadline: 2m, waveDeadline: 1h}\n"), edit + " --what-if failed=node-2,node-3 --what-if failed=node-5"},
		"what-if-one":      {policyOf(threeWaves + "  failure: {maxFailedNodes: 1}\n"), edit + " --what-if failed=node-1 -o json"},
		"what-if-unjudged": {policyOf(threeWaves), edit + " --what-if failed=node-2"},
		"what-if-alone":    {strings.Replace(policyOf(""), "name: agent}", "name: other}", 1), edit + " --what-if failed=node-1,node-2"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := governedCluster(t, c.policy)
			if err := cluster.Run(t, New, strings.Fields(c.args)...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String()+cluster.Err.String())
		})
	}
}

// TestPlanInTheMiddle: a soak that runs ends when the manager says so, although the manager stores seldom how much of it has passed; and a policy in a file that has the
// name of the one of the cluster continues with its progress.
func TestPlanInTheMiddle(t *testing.T) {
	status := func(generation int, waves, next string) string {
		return fmt.Sprintf("status:\n  observedGeneration: %d\n  sets: [{apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: Full, phase: Soaking, wave: canary, attempt: 1, "+
			"targetRevision: agent-%s, targetNumber: 2, committedRevision: agent-%s, waves: [%s], next: %s}]\n", generation, fakecluster.NewHash, fakecluster.OldHash, waves, next)
	}
	const (
		soaking = "{name: canary, nodes: 1, updated: 1, available: 1, begun: [node-1], phase: Soaking, completedAt: \"2026-03-01T11:58:10Z\", soaked: 1s}"
		passed  = "{name: canary, nodes: 1, updated: 1, available: 1, begun: [node-1], phase: Passed, completedAt: \"2026-03-01T11:58:10Z\"}"
		next    = "{action: EndSoak, at: \"2026-03-01T12:28:00Z\"}"
	)
	for name, c := range map[string]struct {
		status string
		file   bool
		end    string
		shown  string
	}{
		"soaks":                             {status(0, soaking, next), false, "28m0s", "- done 30m0s 28m0s (Sun 12:28 UTC)"},
		"soaks, with the policy in a file":  {status(0, soaking, next), true, "28m0s", "- done 30m0s 28m0s (Sun 12:28 UTC)"},
		"soaks, the policy was edited":      {status(1, soaking, next), false, "29m59s", "- done 30m0s 29m59s (Sun 12:29 UTC)"},
		"soaks, the end is not known":       {status(0, soaking, "null"), false, "29m59s", "- done 30m0s 29m59s (Sun 12:29 UTC)"},
		"has soaked more than it must":      {status(0, soaking, strings.Replace(next, "12:28", "11:59", 1)), false, "0s", "- done 30m0s 0s (Sun 12:00 UTC)"},
		"stored later than that":            {status(0, strings.Replace(soaking, "1s", "3m", 1), next), false, "27m0s", "- done 30m0s 27m0s (Sun 12:27 UTC)"},
		"passed":                            {status(0, passed, "null"), false, "0s", "- done 30m0s done"},
		"passed, with the policy in a file": {status(0, passed, "null"), true, "0s", "- done 30m0s done"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uooooo"}.Objects(t)
			cluster := fakecluster.New(t, append(objects, fakecluster.Object(t, policyOf(threeWaves)+c.status))...)
			args := "agent --local -o json"
			if c.file {
				file := filepath.Join(t.TempDir(), "policy.yaml")
				if err := os.WriteFile(file, []byte(policyOf(threeWaves)), 0o600); err != nil {
					t.Fatal(err)
				}
				args += " --policy " + file
			}
			if err := cluster.Run(t, New, strings.Fields(args)...); err != nil {
				t.Fatal(err)
			}
			var d Document
			if err := json.Unmarshal(cluster.Out.Bytes(), &d); err != nil {
				t.Fatal(err)
			}
			if w := d.Policy.Waves[0]; w.Name != "canary" || w.End != c.end {
				t.Errorf("the plan has the wave %+v, want an end after %s", w, c.end)
			}
			cluster.Out.Reset()
			if err := cluster.Run(t, New, strings.Fields(strings.Replace(args, "-o json", "", 1))...); err != nil {
				t.Fatal(err)
			}
			if row := "canary 1 " + c.shown + " node-1"; !strings.Contains(strings.Join(strings.Fields(cluster.Out.String()), " "), row) {
				t.Errorf("it prints\n%s, want the row %s", cluster.Out, row)
			}
		})
	}
}

// TestWhatIfARevisionHasFailed: without an edit, the plan is about the revision of the template. One that has failed already, or that a user has undone, does not fail in a wave after some time.
func TestWhatIfARevisionHasFailed(t *testing.T) {
	for wave, want := range map[string]string{
		"canary": "  The revision has failed already. Wave canary failed: x.\n",
		"":       "  The revision has failed already. The undo was requested by jane.\n",
	} {
		message := strings.TrimPrefix(strings.TrimSpace(want), "The revision has failed already. ")
		status := fmt.Sprintf("status:\n  sets: [{apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: Full, phase: Undoing, wave: %q, attempt: 1, "+
			"targetRevision: agent-%s, targetNumber: 2, committedRevision: agent-%s, rejectedRevision: agent-%s, failure: {wave: %q, action: Undo, message: %q, at: \"2026-03-01T11:58:10Z\"}}]\n",
			wave, fakecluster.NewHash, fakecluster.OldHash, fakecluster.NewHash, wave, message)
		cluster := governedCluster(t, policyOf(threeWaves+"  failure: {action: Undo}\n")+status)
		if err := cluster.Run(t, New, "agent", "-n", "ads", "--local", "--what-if", "failed=*"); err != nil {
			t.Fatal(err)
		}
		if out := cluster.Out.String(); !strings.Contains(out, want) || !strings.Contains(out, "  It reaches no node.\n\n") {
			t.Errorf("in wave %q: %s", wave, out)
		}
	}
}

// TestWhatIfNextToNative: next to the controller of Kubernetes an undo changes the template back, unless a field manager would write it again; then the failed nodes
// stay.
func TestWhatIfNextToNative(t *testing.T) {
	const spec = "  waves: [{name: canary, nodes: {count: 2}, soak: 1m}]\n  failure: {action: Undo}\n  undo: {maxUnavailable: 1}\n"
	for name, owners := range map[string][]any{
		"what-if-template": nil,
		"what-if-owned": {map[string]any{
			"manager": "argocd-controller", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:template": map[string]any{"f:spec": map[string]any{}}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			roll := fakecluster.Roll{Name: "agent", Letters: "uuuuuu", Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}}
			set := roll.Object()
			if err := unstructured.SetNestedSlice(set.Object, owners, "metadata", "managedFields"); err != nil {
				t.Fatal(err)
			}
			revision := "agent-" + fakecluster.NewHash
			policy := strings.Replace(policyOf(spec), "apps.kruise.io/v1beta1", "apps/v1", 1) + fmt.Sprintf("status: {sets: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, "+
				"enforcement: OnDelete, phase: Complete, committedRevision: %s, targetRevision: %s}]}\n", revision, revision)
			objects := append(append(append(roll.Nodes(), roll.Pods()...), roll.Revisions(t)...), set, fakecluster.Object(t, policy))
			cluster := fakecluster.New(t, objects...)
			if err := cluster.Run(t, New, strings.Fields("daemonset/agent --image agent=registry.example/agent:3 --local --what-if failed=*")...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String()+cluster.Err.String())
		})
	}
}

// TestPlanOfAPolicyThatControlsNothing: next to the controller of Kubernetes, which updates the set by itself, the plan has no waves, and a warning; also if a revision still
// has the mark of a rollout that the policy has controlled, and for a policy in a file.
func TestPlanOfAPolicyThatControlsNothing(t *testing.T) {
	const policyManager = "--dialects=kruise,policy"
	roll := fakecluster.Roll{Name: "agent", Letters: "uuuuuu"}
	spec := strings.Replace(policyOf(threeWaves), "apps.kruise.io/v1beta1", "apps/v1", 1)
	reported := spec + "status: {sets: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, enforcement: None, phase: Stalled, blocking: [{reason: NotServed, message: x}]}]}\n"
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		policy, args string
		marked       bool
		writers      string // of the status of the set, the last one last; without them, a Deployment of the manager
	}{
		"reported":                               {reported, "", false, ""},
		"marked":                                 {reported, "", true, ""},
		"in a file":                              {reported, " --policy " + file, true, ""},
		"a new one, by file":                     {"", " --policy " + file, true, ""},
		"by file, the manager has no Deployment": {"", " --policy " + file, true, "everynode-manager kube-controller-manager"},
	} {
		t.Run(name, func(t *testing.T) {
			revisions := roll.Revisions(t)
			if newest := revisions[1].(*appsv1.ControllerRevision); c.marked {
				newest.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(newest.UID))}
			}
			objects := append(append(append(roll.Nodes(), roll.Pods()...), revisions...), statusBy(roll.Object(), c.writers))
			if c.policy != "" {
				objects = append(objects, fakecluster.Object(t, c.policy))
			}
			cluster := fakecluster.New(t, objects...)
			if c.writers == "" {
				createManager(t, cluster, managerWith(policyManager))
			}
			if err := cluster.Run(t, New, strings.Fields("daemonset/agent --image agent=registry.example/agent:3"+c.args+" --local")...); err != nil {
				t.Fatal(err)
			}
			out := cluster.Out.String() + cluster.Err.String()
			if c.args != "" { // the same, except that a warning says that the file was not validated
				out = regexp.MustCompile("(?m)^  - the API server has not validated.*\n").ReplaceAllString(out, "")
			}
			fakecluster.Golden(t, *update, "policy-not-enforced.txt", out)
		})
	}
}

func createManager(t *testing.T, cluster *fakecluster.Cluster, manager *appsv1.Deployment) {
	t.Helper()
	if _, err := cluster.Kubernetes.AppsV1().Deployments(everynode.Namespace).Create(t.Context(), manager, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// statusBy is the set with a status that these have written, one after the other.
func statusBy(set *unstructured.Unstructured, writers string) *unstructured.Unstructured {
	var entries []metav1.ManagedFieldsEntry
	for i, writer := range strings.Fields(writers) {
		entries = append(entries, metav1.ManagedFieldsEntry{Manager: writer, Subresource: "status", Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: fakecluster.Now().Add(time.Duration(i) * time.Second)}})
	}
	set.SetManagedFields(entries)
	return set
}

// TestPlanOfAFileNextToNative: a policy in a file is played for a set with OnDelete as a manager that serves policies alone would follow it. Where that manager owns the
// pods, only users update such a set. Where it is not known who does, a warning says what the plan assumes.
func TestPlanOfAFileNextToNative(t *testing.T) {
	roll := fakecluster.Roll{Name: "agent", Letters: "uuuuuu", Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}}
	spec := strings.Replace(policyOf("  pace: {maxUnavailable: 2}\n  waves: [{name: canary, nodes: {count: 2}, soak: 1m}]\n"), "apps.kruise.io/v1beta1", "apps/v1", 1)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	known := fakecluster.Object(t, strings.NewReplacer("canary", "first", "maxUnavailable: 2", "maxUnavailable: 1").Replace(spec)+
		"status: {sets: [{apiVersion: apps/v1, name: agent, enforcement: OnDelete, phase: Complete}]}\n")
	for name, c := range map[string]struct {
		manager *appsv1.Deployment
		writers string // of the status of the set
		known   bool
		updated int
	}{
		"policies alone":       {managerWith("--dialects=kruise,policy"), "", false, 6},
		"as the policy says":   {nil, "", true, 6},
		"Everynode owns pods":  {managerWith("--dialects=native,policy"), "", false, 0},
		"nothing is known":     {nil, "", false, 6},
		"flags are in a file":  {managerWith("--config=/etc/everynode.yaml"), "", false, 6},
		"not next to anything": {managerWith("--dialects=kruise"), "", false, 0},
		"Kubernetes has pods":  {nil, "everynode-manager kube-controller-manager kubectl", false, 6},
		"Everynode has pods":   {managerWith("--config=/etc/everynode.yaml"), "kube-controller-manager everynode-manager", false, 0},
	} {
		objects := append(append(append(roll.Nodes(), roll.Pods()...), roll.Revisions(t)...), statusBy(roll.Object(), c.writers))
		if c.known {
			objects = append(objects, known)
		}
		cluster := fakecluster.New(t, objects...)
		if c.manager != nil {
			createManager(t, cluster, c.manager)
		}
		if err := cluster.Run(t, New, "daemonset/agent", "--image", "agent=registry.example/agent:3", "--local", "--policy", file, "-o", "json"); err != nil {
			t.Fatal(err)
		}
		d := &Document{}
		if err := json.Unmarshal(cluster.Out.Bytes(), d); err != nil {
			t.Fatal(err)
		}
		updated := 0
		for _, n := range d.Nodes {
			if n.Verdict == "recreate" {
				updated++
			}
		}
		if updated != c.updated {
			t.Errorf("%s: %d nodes are updated, want %d: %+v", name, updated, c.updated, d.Policy)
		}
		warned := slices.ContainsFunc(d.Warnings, func(w Warning) bool { return strings.Contains(w.Message, "the plan assumes the dialect policy") })
		if want := name == "nothing is known" || name == "flags are in a file"; warned != want {
			t.Errorf("%s: warned %t: %+v", name, warned, d.Warnings)
		}
		if c.updated > 0 && (d.Budget.Limit != 2 || len(d.Policy.Waves) != 2 || d.Policy.Waves[0].Name != "canary" || !strings.HasPrefix(d.Policy.NotHeld, "another controller creates the pods")) {
			t.Errorf("%s: the budget is %+v, and the policy %+v", name, d.Budget, d.Policy)
		}
	}
}

// TestWhatIfIsChecked: a value that is no failure, and a node without the set, are errors that say what to write; a plan of a failure is not applied.
func TestWhatIfIsChecked(t *testing.T) {
	for value, want := range map[string]string{
		"slow=node-1":        "--what-if slow=node-1: write failed=NODE, with the names of nodes or *",
		"failed":             "--what-if failed: write failed=NODE",
		"failed=node-1,":     "--what-if failed=node-1, names no node",
		"failed=node-1,nope": "--what-if failed=nope: ads/agent runs on no such node: see `kubectl everynode plan ads/agent -o wide`",
	} {
		err := governedCluster(t).Run(t, New, "agent", "--local", "--image", "agent=registry.example/agent:3", "--what-if", value)
		if options.Code(err) != options.ExitUsage || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
	cluster := governedCluster(t)
	if err := cluster.Run(t, New, strings.Fields("agent --local --image agent=registry.example/agent:3 --what-if failed=node-1 -o json")...); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, cluster.Out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := governedCluster(t).Run(t, NewApply, "--plan", file); err == nil || !strings.Contains(err.Error(), "make one without --what-if") {
		t.Errorf("a plan of a failure is applied: %v", err)
	}
}

// TestPlanOfAGroup: the plan says which other set of the concurrency group it waits for, also for a policy in a file.
func TestPlanOfAGroup(t *testing.T) {
	const group = "  concurrencyGroup: {name: network, scope: Zone}\n"
	other := fakecluster.Roll{Name: "net", Letters: "ouaooo"}
	others := strings.NewReplacer("name: agents", "name: nets", "uid-policy", "uid-nets", "apps.kruise.io/v1beta1", "apps/v1", "name: agent}", "name: net}").Replace(policyOf(group))
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policyOf(group)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ policy, args string }{
		"policy-group": {policyOf(group), ""}, "policy-group-file": {policyOf(""), " --policy " + file},
	} {
		t.Run(name, func(t *testing.T) {
			objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "oooooo"}.Objects(t)
			objects = append(append(append(objects, other.Pods()...), other.Revisions(t)...), other.Object())
			for _, manifest := range []string{c.policy, others} {
				objects = append(objects, runtime.Object(fakecluster.Object(t, manifest)))
			}
			cluster := fakecluster.New(t, objects...)
			if err := cluster.Run(t, New, strings.Fields("agent --image agent=registry.example/agent:3 --local"+c.args)...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", strings.ReplaceAll(cluster.Out.String()+cluster.Err.String(), file, "policy.yaml"))
		})
	}
}

// A policy in a file counts alone: the one of the cluster has no waves and is suspended.
func TestPlanForAPolicyInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	for name, c := range map[string]struct{ content, want string }{
		"followed":   {policyOf(threeWaves), ""},
		"no policy":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "holds no RolloutPolicy of everynode.dev/v1alpha1: write one with `kubectl everynode policy init NAME`"},
		"misspelt":   {policyOf("  wave: []\n"), "policy.yaml: spec.wave: there is no such field: correct its name or remove it; the fields are analyses, "},
		"in days":    {policyOf(strings.Replace(threeWaves, "1h", "1d", 1)), "reading the policy in " + file + `: spec.waves[1].soak: "1d" is not a duration: write a duration such as 30s, 10m or 24h`},
		"wrong zone": {policyOf("  windows: [{schedule: \"0 22 * * *\", duration: 1h, timeZone: Nowhere/Land}]\n"), "cannot be followed: spec.windows[0]: the time zone"},
		"several":    {strings.Replace(policyOf("  suspend: true\n"), "name: agent}", "name: other}", 1) + "---\n" + policyOf(threeWaves), ""},
		"several for it": {policyOf(threeWaves) + "---\n" + strings.Replace(policyOf(threeWaves), "agents,", "others,", 1),
			"2 policies in " + file + " apply to default/ads/agent: agents, others; change spec.targets so that one remains"},
		"several for others": {strings.ReplaceAll(policyOf(threeWaves)+"---\n"+policyOf(threeWaves), "name: agent}", "name: other}"),
			"no policy in " + file + " (agents, agents) applies to default/ads/agent: add the set to the spec.targets of one of them"},
		"no name":   {strings.Replace(policyOf(threeWaves), "name: agents, ", "", 1), "reading the policy in " + file + ": metadata.name is missing: name the policy"},
		"empty":     {"# nothing\n", file + " is empty: write a RolloutPolicy with `kubectl everynode policy init NAME`"},
		"other set": {strings.Replace(policyOf(threeWaves), "name: agent}", "name: other}", 1), "does not apply to default/ads/agent: add the set to its spec.targets"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			cluster := governedCluster(t, policyOf("  suspend: true\n"))
			err := cluster.Run(t, New, "agent", "--image", "agent=registry.example/agent:3", "--local", "--policy", file)
			out := cluster.Out.String()
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %s", err, c.want)
			case c.want == "" && (err != nil || !strings.Contains(out, "Rollout policy agents (from the file):") || strings.Contains(out, "suspended")):
				t.Errorf("%v, it prints\n%s", err, out)
			}
		})
	}
	err := governedCluster(t).Run(t, New, "-f", "-", "--policy", "-")
	if options.Code(err) != options.ExitUsage {
		t.Errorf("two files from the standard input: %v", err)
	}
}
