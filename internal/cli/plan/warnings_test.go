// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/plan"
)

// Old and new pods run beside each other: what counts are the ports that both want.
func TestHostPortsOfOldAndNew(t *testing.T) {
	const (
		none     = "{spec: {containers: [{name: a, ports: [{containerPort: 80}]}]}}"
		one      = "{spec: {containers: [{name: a, ports: [{containerPort: 80, hostPort: 8080}]}]}}"
		udp      = "{spec: {containers: [{name: a, ports: [{hostPort: 8080, protocol: UDP}]}]}}"
		both     = "{spec: {containers: [{name: a, ports: [{hostPort: 8080, protocol: TCP}, {hostPort: 9090}]}]}}"
		restarts = "{spec: {initContainers: [{name: a, restartPolicy: Always, ports: [{hostPort: 8080}]}]}}"
		here     = "{spec: {containers: [{name: a, ports: [{hostPort: 8080, hostIP: 127.0.0.1}]}]}}"
		there    = "{spec: {containers: [{name: a, ports: [{hostPort: 8080, hostIP: 10.0.0.1}]}]}}"
		anywhere = "{spec: {containers: [{name: a, ports: [{hostPort: 8080, hostIP: 0.0.0.0}, {hostPort: 8080, hostIP: 10.0.0.1}]}]}}"
		network  = "{spec: {hostNetwork: true, containers: [{name: a, ports: [{containerPort: 8080}]}]}}"
		ends     = "{spec: {initContainers: [{name: a, ports: [{hostPort: 8080}]}]}}"
	)
	const surge, in, newImages = plan.Surge, "both need port 8080/TCP of the node: ", "port 8080/TCP of the node is new: "
	for name, c := range map[string]struct {
		was, is string
		verdict plan.Verdict
		says    []string
	}{
		"none":                               {none, none, surge, nil},
		"kept":                               {one, one, surge, []string{in}},
		"added":                              {none, one, surge, []string{newImages}},
		"added to what is recreated":         {none, one, plan.Recreate, []string{newImages}},
		"added where nothing starts":         {none, one, plan.Wait, nil},
		"removed":                            {one, none, surge, nil},
		"another protocol":                   {udp, one, surge, []string{newImages}},
		"one kept and one added":             {one, both, surge, []string{in, "port 9090/TCP of the node is new: "}},
		"kept by one that is restarted":      {restarts, restarts, surge, []string{in}},
		"moved to one that is restarted":     {one, restarts, surge, []string{in}},
		"of one that ends before the rest":   {ends, ends, surge, nil},
		"of one address":                     {here, here, surge, []string{in}},
		"of another address":                 {here, there, surge, []string{newImages}},
		"of one address and of all":          {here, one, surge, []string{in, newImages}},
		"of all addresses and of one":        {anywhere, here, surge, []string{in}},
		"of all addresses as well":           {there, anywhere, surge, []string{in, newImages}},
		"of pods in the network of the node": {network, network, surge, []string{in}},
		"of a pod that goes there":           {none, network, surge, []string{newImages}},
		"nobody runs beside another":         {one, one, plan.Recreate, nil},
	} {
		f := &prediction{was: templateOf(t, c.was), is: templateOf(t, c.is)}
		f.result = plan.Result{Doubling: true, Nodes: []plan.Node{{Name: "node-1", Verdict: c.verdict}}}
		warnings := f.warnHostPorts()
		if len(warnings) != len(c.says) {
			t.Errorf("%s: it warns %v, want %q", name, warnings, c.says)
			continue
		}
		for i, says := range c.says {
			if !strings.Contains(warnings[i].Message, says) {
				t.Errorf("%s: it warns %v, want %q", name, warnings[i], says)
			}
		}
	}
}

// Where old and new pods want the same port, the new one beside the old one never starts: an update with surge stops at its budget.
func TestPortsStopASurge(t *testing.T) {
	surge := rolling(map[string]any{"maxUnavailable": int64(0), "maxSurge": int64(2)})
	edit := []string{"agent", "--image", "agent=registry.example/agent:3"}
	for title, c := range map[string]struct {
		spec  map[string]any
		stuck bool
		edit  []string
	}{
		"surge":    {surge, true, edit},
		"no surge": {rolling(map[string]any{"maxUnavailable": int64(2)}), false, edit},
		"surge, and something else in the way of which it is said that it will not be": {surge, true, []string{"agent", "--assume-start", "10s",
			"--patch", `{"spec":{"template":{"spec":{"priorityClassName":"absent"}}}}`}},
	} {
		roll := settled(false, 5)
		roll.Spec = c.spec
		roll.Spec["template"] = ported(roll, "registry.example/agent:2")
		d := foretold(t, roll.Objects(t), c.edit...)
		want := map[plan.Verdict]int{plan.Recreate: 5}
		if c.stuck {
			want = map[plan.Verdict]int{plan.Surge: 2, plan.Wait: 3}
		}
		if !maps.Equal(d.Counts, want) || d.Unfinished != d.Counts[plan.Surge] {
			t.Errorf("%s: verdicts %v, of which %d do not end, want %v", title, d.Counts, d.Unfinished, want)
		}
		told := slices.ContainsFunc(d.Warnings, func(w Warning) bool {
			return w.Kind == warnStuck && strings.Contains(w.Message, "(old and new pods both need port 8080/TCP of the node)")
		})
		if told != c.stuck {
			t.Errorf("%s: it warns %v", title, d.Warnings)
		}
	}
}

// What a plan says of priority classes, and of other managers: of what is as it was, and of our own changes, nothing.
func TestWarningsOfPrioritiesAndManagers(t *testing.T) {
	const name, gone = `{"spec":{"template":{"spec":{"priorityClassName":"edge"}}}}`, `{"spec":{"template":{"spec":{"priorityClassName":null}}}}`
	const spec, meta = `{"f:spec":{"f:minReadySeconds":{}}}`, `{"f:metadata":{"f:labels":{"f:a":{}}}}`
	applied := func(manager, fields string) *metav1.ManagedFieldsEntry {
		return &metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	updated := applied("gitops", spec)
	updated.Operation = metav1.ManagedFieldsOperationUpdate
	const fromGitops = "the specification is applied by gitops: make the change there too, or the next apply reverts it"
	for title, c := range map[string]struct {
		class   string // of the pods that run
		patch   string
		manager *metav1.ManagedFieldsEntry
		want    string // the kind and the begin of the message, nothing where there is no warning
	}{
		"no class":                   {patch: "{}"},
		"priority kept":              {class: "edge", patch: "{}"},
		"priority lost":              {class: "edge", patch: gone, want: warnPriority + ": the pods lose the priority class edge: "},
		"priority new":               {patch: name, want: warnPriority + ": new pods get the priority 1000 of class edge: "},
		"another priority":           {class: "other", patch: name, want: warnPriority + ": new pods get the priority 1000 of class edge: "},
		"no such class":              {class: "absent", patch: "{}", want: warnPriority + ": there is no priority class absent: "},
		"fields of another manager":  {patch: "{}", manager: applied("gitops", spec), want: warnManager + ": " + fromGitops},
		"fields beside the spec":     {patch: "{}", manager: applied("gitops", meta)},
		"what another one updates":   {patch: "{}", manager: updated},
		"fields that are our own":    {patch: "{}", manager: applied(options.FieldManager, spec)},
		"fields of nobody, it seems": {patch: "{}", manager: &metav1.ManagedFieldsEntry{Manager: "gitops", Operation: metav1.ManagedFieldsOperationApply}},
	} {
		t.Run(title, func(t *testing.T) {
			roll := settled(true, 2)
			template := roll.Template("registry.example/agent:2")
			if c.class != "" {
				template["spec"].(map[string]any)["priorityClassName"] = c.class
			}
			roll.Spec = map[string]any{"template": template}
			objects := roll.Objects(t)
			if c.manager != nil {
				objects[len(objects)-1].(*unstructured.Unstructured).SetManagedFields([]metav1.ManagedFieldsEntry{*c.manager})
			}
			s := newServer(t, append(objects, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Value: 1000})...)
			if err := s.Run(t, New, "agent", "--patch", c.patch, "-o", "json"); err != nil {
				t.Fatal(err)
			}
			d := &Document{}
			if err := json.Unmarshal(s.Out.Bytes(), d); err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, w := range d.Warnings {
				if w.Kind == warnPriority || w.Kind == warnManager {
					said = append(said, w.Kind+": "+w.Message)
				}
			}
			if got := strings.Join(said, "\n"); (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) || len(said) > 1 {
				t.Errorf("it warns %q, want %q", got, c.want)
			}
		})
	}
}

// foretold is the plan that an edit has on a cluster.
func foretold(t *testing.T, objects []runtime.Object, args ...string) *Document {
	t.Helper()
	s := newServer(t, objects...)
	if err := s.Run(t, New, append(args, "-o", "json")...); err != nil {
		t.Fatal(err)
	}
	d := &Document{}
	if err := json.Unmarshal(s.Out.Bytes(), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Where no new pod can come to run, the update stops at its budget: the plan foresees that, and no end.
func TestNothingStarts(t *testing.T) {
	patch := func(spec string) string {
		return `{"spec":{"template":{"spec":{` + spec + `"containers":[{"name":"agent","image":"registry.example/agent:3"`
	}
	const end = `}]}}}}`
	asks := func(quantities string) string {
		return patch("") + `,"resources":{"requests":{` + quantities + `}}` + end
	}
	for title, c := range map[string]struct {
		patch, kind, reason string
		stuck               bool
		args                string // that are given besides
	}{
		"a class that is there":     {patch: patch(`"priorityClassName":"edge",`) + end, kind: warnPriority},
		"a class that is not there": {patch: patch(`"priorityClassName":"absent",`) + end, kind: warnPriority, stuck: true, reason: "there is no priority class absent"},
		"more than any node has":    {patch: asks(`"cpu":"9","memory":"1Gi"`), kind: warnRoom, stuck: true, reason: "no node has cpu 9 (the most is 8)"},
		"more than a device has":    {patch: asks(`"example.com/gpu":"3"`), kind: warnRoom, stuck: true, reason: "no node has example.com/gpu 3 (the most is 2)"},
		"what no node knows":        {patch: asks(`"example.com/claimed":"1"`)}, // a driver may give it without a word of it in the node
		"huge pages that none has":  {patch: asks(`"hugepages-2Mi":"4Mi"`), kind: warnRoom, stuck: true, reason: "no node has hugepages-2Mi 4Mi (the most is 0)"},
		"a class that will be":      {patch: patch(`"priorityClassName":"absent",`) + end, kind: warnPriority, args: "--assume-start 10s"},
		"room that will be":         {patch: asks(`"cpu":"9"`), kind: warnRoom, args: "--assume-start 10s"},
		"no more than one node has": {patch: asks(`"cpu":"8"`)},
		"nothing that is asked for": {patch: patch("") + end},
	} {
		t.Run(title, func(t *testing.T) {
			objects := append(settled(false, 9).Objects(t), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Value: 1000})
			for _, o := range objects {
				if n, ok := o.(*corev1.Node); ok && n.Name != "node-1" {
					n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("2Gi")}
					if n.Name == "node-2" {
						n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("8")
						n.Status.Allocatable["example.com/gpu"] = resource.MustParse("2")
					}
				}
			}
			d := foretold(t, objects, append([]string{"agent", "--patch", c.patch}, strings.Fields(c.args)...)...)
			want := map[plan.Verdict]int{plan.Recreate: 9}
			if c.stuck {
				want = map[plan.Verdict]int{plan.Recreate: 2, plan.Wait: 7}
			}
			if !maps.Equal(d.Counts, want) {
				t.Errorf("verdicts %v, want %v", d.Counts, want)
			}
			said := map[string]string{}
			for _, w := range d.Warnings {
				said[w.Kind] = w.Message
			}
			if _, warned := said[c.kind]; warned != (c.kind != "") {
				t.Errorf("warnings %v, want one of the kind %q", said, c.kind)
			}
			if c.stuck && !strings.Contains(said[warnStuck], "("+c.reason+")") || !c.stuck && d.Unfinished > 0 {
				t.Errorf("%d do not end, and it warns %q, want %q", d.Unfinished, said[warnStuck], c.reason)
			}
			for _, a := range d.Assumptions {
				if a.Name == "start" && (a.Value == never) != c.stuck {
					t.Errorf("it assumes %+v", a)
				}
			}
		})
	}
}

// An empty selector of a PodDisruptionBudget is all pods of the namespace, and none at all is no pod.
func TestBudgetsOfAllPods(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{
		"all": {}, "these": {MatchLabels: map[string]string{"app": "agent"}}, "": {MatchLabels: map[string]string{"app": "x"}}, "none": nil,
	} {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pdb"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector},
		}
		d := foretold(t, append(settled(false, 1).Objects(t), budget), "agent")
		told := slices.ContainsFunc(d.Warnings, func(w Warning) bool { return w.Kind == warnDisruption })
		if want := name == "all" || name == "these"; told != want {
			t.Errorf("%q: it warns %v, want %v", name, told, want)
		}
	}
}

// templateOf is a template as the dynamic client has it.
func templateOf(t *testing.T, text string) map[string]any {
	t.Helper()
	template := map[string]any{}
	if err := utiljson.Unmarshal(jsonOf(t, text), &template); err != nil {
		t.Fatal(err)
	}
	return template
}

func jsonOf(t *testing.T, text string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
