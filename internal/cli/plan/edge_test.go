// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// edgeRoll is a roll that is over, of a set with OpenYurt's annotations, on nodes by letters.
func edgeRoll(letters string, strategy openyurt.Strategy, more map[string]string) fakecluster.Roll {
	annotations := map[string]string{openyurt.UpdateStrategy: strategy.Format()}
	maps.Copy(annotations, more)
	return fakecluster.Roll{
		Name: "agent", Letters: letters, Annotations: annotations,
		Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}, "revisionHistoryLimit": int64(10)}, // with the default, as it is stored
	}
}

// documentOf is the plan that a command line makes.
func documentOf(t *testing.T, s *server, line string) *Document {
	t.Helper()
	if err := s.Run(t, New, append(strings.Fields(line), "-o", "json")...); err != nil {
		t.Fatal(err)
	}
	d := &Document{}
	if err := json.Unmarshal(s.Out.Bytes(), d); err != nil {
		t.Fatalf("%v\n%s", err, s.Out.String())
	}
	s.Out.Reset()
	return d
}

// outcomes are the verdicts and reasons of the nodes, in their order.
func outcomes(d *Document) string {
	var all []string
	for _, n := range d.Nodes {
		all = append(all, string(n.Verdict)+" "+n.Reason)
	}
	return strings.Join(all, ", ")
}

func warned(d *Document, kind string) bool {
	return slices.ContainsFunc(d.Warnings, func(w Warning) bool { return w.Kind == kind })
}

const (
	newImage = "daemonset/agent --image agent=registry.example/agent:3"
	// annotated is the edit of the annotation for the budget.
	annotated = `daemonset/agent --patch {"metadata":{"annotations":{"apps.openyurt.io/max-unavailable":"100%"}}}`
)

// Each strategy of OpenYurt leads to the outcomes that it has, and the annotation is its budget.
func TestEdge(t *testing.T) {
	half := map[string]string{openyurt.MaxUnavailable: "50%"}
	for name, c := range map[string]struct {
		strategy openyurt.Strategy
		letters  string
		more     map[string]string
		line     string
		want     string
		limit    int
	}{
		"a node is cut": {openyurt.AdvancedRollingUpdate, "uuuU", half, newImage,
			"recreate recreating, recreate recreating, recreate recreating, blocked wait-unreachable", 2},
		"a tenth without the annotation": {openyurt.AdvancedRollingUpdate, "uu", nil, newImage, "recreate recreating, recreate recreating", 1},
		"another budget":                 {openyurt.AdvancedRollingUpdate, "uu", nil, newImage + " --max-unavailable 100%", "recreate recreating, recreate recreating", 2},
		"what is left, with more budget": {openyurt.AdvancedRollingUpdate, "oo", nil, annotated, "recreate recreating, recreate recreating", 2},
		"the owners decide":              {openyurt.OTA, "uuU", half, newImage, "wait wait-node-owner, wait wait-node-owner, wait wait-node-owner", 0},
		"a value that is not known":      {"Ota2", "uu", half, newImage, "wait wait-on-delete, wait wait-on-delete", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := documentOf(t, newServer(t, edgeRoll(c.letters, c.strategy, c.more).Objects(t)...), c.line)
			if got := outcomes(d); got != c.want || c.limit != 0 && d.Budget.Limit != c.limit {
				t.Errorf("%s, %d at once; want %s, %d", got, d.Budget.Limit, c.want, c.limit)
			}
			if warned(d, warnNothing) || warned(d, warnDialect) || warned(d, warnSpec) != (c.strategy == "Ota2") || warned(d, warnUnreachable) != strings.Contains(c.letters, "U") {
				t.Errorf("the warnings are %+v", d.Warnings)
			}
		})
	}
}

// The budget of such a set is its annotation: the field has no effect there.
func TestEdgeBudgetIsTheAnnotation(t *testing.T) {
	d := documentOf(t, newServer(t, edgeRoll("uu", openyurt.AdvancedRollingUpdate, nil).Objects(t)...), "daemonset/agent --max-unavailable 100%")
	if got, want := strings.Join(strings.Fields(string(d.Edit.Patch)), ""), `[{"op":"add","path":"/metadata/annotations/apps.openyurt.io~1max-unavailable","value":"100%"}]`; got != want {
		t.Errorf("the edit is %s, want %s", got, want)
	}
	for _, c := range []struct {
		strategy openyurt.Strategy
		flag     string
		want     string
	}{
		{openyurt.AdvancedRollingUpdate, "--max-unavailable 0", `--max-unavailable "0": the annotation apps.openyurt.io/max-unavailable takes a number of nodes from 1, or a percentage from 1% to 100%`},
		{openyurt.AdvancedRollingUpdate, "--max-surge 1", "--max-surge: with the annotation apps.openyurt.io/update-strategy no new pod runs next to the old one: omit the flag"},
		{openyurt.OTA, "--max-unavailable 1", `--max-unavailable: there is no budget while the annotation apps.openyurt.io/update-strategy is "OTA", but only with AdvancedRollingUpdate: omit the flag`},
	} {
		err := newServer(t, edgeRoll("uu", c.strategy, nil).Objects(t)...).Run(t, New, strings.Fields("daemonset/agent "+c.flag)...)
		if options.Code(err) != options.ExitUsage || err.Error() != c.want {
			t.Errorf("%s %s: %v, want %s", c.strategy, c.flag, err, c.want)
		}
	}
}

// An annotation changes how a set is rolled out, and no generation.
func TestEdgeNothingChanges(t *testing.T) {
	for line, want := range map[string]bool{
		annotated: false,
		`daemonset/agent --patch {"metadata":{"annotations":{"note":"x"}}}`: true,
		"daemonset/agent": false, // there is no edit
	} {
		d := documentOf(t, newServer(t, edgeRoll("oo", openyurt.AdvancedRollingUpdate, nil).Objects(t)...), line)
		if got := warned(d, warnNothing); got != want {
			t.Errorf("%s: that nothing changes is said: %v, want %v", line, got, want)
		}
	}
}

// A plan does not hold any more when another budget was set by an annotation, though every node would get the same verdict.
func TestEdgePlanGoesStale(t *testing.T) {
	for value, want := range map[string]bool{"": false, "2": true} {
		p := newPlanned(t, newServer(t, edgeRoll("uu", openyurt.AdvancedRollingUpdate, nil).Objects(t)...), strings.Fields(newImage)...)
		resource := dialects.Onlookers()[0].Source.Resource
		object, err := p.Dynamic.Tracker().Get(resource, "default", "agent")
		if err != nil {
			t.Fatal(err)
		}
		changed := object.(*unstructured.Unstructured).DeepCopy()
		annotations := changed.GetAnnotations()
		annotations["note"] = "by somebody"
		if value != "" {
			annotations[openyurt.MaxUnavailable] = value
		}
		changed.SetAnnotations(annotations)
		if err := p.Dynamic.Tracker().Update(resource, changed, "default"); err != nil {
			t.Fatal(err)
		}
		err = p.Run(t, NewApply, "--plan", p.file)
		if stale := options.Code(err) == options.ExitStale; stale != want || (p.stored == 0) != want {
			t.Errorf("max-unavailable %q: %v, and %d writes were stored", value, err, p.stored)
		}
		said := "its update annotations are apps.openyurt.io/max-unavailable=2,apps.openyurt.io/update-strategy=AdvancedRollingUpdate, and were apps.openyurt.io/update-strategy=AdvancedRollingUpdate);"
		if want && !strings.Contains(err.Error(), said) {
			t.Errorf("it does not say what differs: %v", err)
		}
	}
}

// Where the manager is known to leave these annotations alone, what is shown is not what happens.
func TestEdgeHasToBeServed(t *testing.T) {
	for args, want := range map[string]bool{
		"": true, "--dialects=native": true, "--dialects=native,openyurt": false, "--config=manager.yaml": false, "--config=manager.yaml --dialects=kruise": true,
	} {
		for _, strategy := range []openyurt.Strategy{openyurt.OTA, ""} {
			roll := edgeRoll("uu", strategy, nil)
			if strategy == "" {
				roll = settled(false, 2)
			}
			s := newServer(t, roll.Objects(t)...)
			manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: everynode.Namespace, Name: installed.Manager}}
			manager.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: strings.Fields(args)}}
			if _, err := s.Kubernetes.AppsV1().Deployments(everynode.Namespace).Create(t.Context(), manager, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := warned(documentOf(t, s, newImage), warnDialect); got != (want && strategy != "") {
				t.Errorf("strategy %q, manager started with %q: the warning is there: %v", strategy, args, got)
			}
		}
	}
}
