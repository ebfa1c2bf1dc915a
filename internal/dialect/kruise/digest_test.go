// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/rollout"
)

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// daemonSet is a valid DaemonSet with more in its spec; every line of more is indented by two.
func daemonSet(t testing.TB, annotations, more string) map[string]any {
	t.Helper()
	return decode(t, `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {namespace: agents, name: agent, uid: u1, generation: 4, annotations: {`+annotations+`}}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: a, image: a:1}]}
`+more)
}

// restarting is a DaemonSet that restarts these containers.
func restarting(t testing.TB, containers string) map[string]any {
	t.Helper()
	obj := daemonSet(t, "", "")
	set("spec.template.metadata.annotations", map[string]any{"everynode.dev/restarted-containers": containers})(obj)
	return obj
}

// tolerating is a DaemonSet whose pods tolerate the taint of a node that is held for them.
func tolerating(t testing.TB, annotations string) map[string]any {
	t.Helper()
	obj := daemonSet(t, annotations, "")
	set("spec.template.spec.tolerations", []any{map[string]any{"key": "everynode.dev/waits-for-daemon-pods", "operator": "Exists"}})(obj)
	return obj
}

// rolling is a DaemonSet with these fields in rollingUpdate.
func rolling(t testing.TB, fields string) map[string]any {
	t.Helper()
	return daemonSet(t, "", "  updateStrategy: {rollingUpdate: {"+fields+"}}")
}

func number(n int) rollout.Quantity  { return rollout.Quantity{Value: n} }
func percent(n int) rollout.Quantity { return rollout.Quantity{Value: n, Percent: true} }

// TestDigestAsNative shows that a DaemonSet of apps/v1 means the same when only its apiVersion is changed.
func TestDigestAsNative(t *testing.T) {
	for _, more := range []string{
		"", "  minReadySeconds: 7\n  revisionHistoryLimit: 3", "  updateStrategy: {type: OnDelete}",
		"  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%, maxSurge: 0}}",
		"  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 2}}",
	} {
		obj := daemonSet(t, "everynode.dev/max-replacing: 20%", more)
		got, want := kruise.Digest(obj), native.Digest(obj)
		want.Set.Burst = number(rollout.DefaultBurst)
		want.Set.Descending = got.Set.Descending // OpenKruise takes the nodes in another order
		want.Set.EligibleOnly = true             // and pods of nodes that may only keep theirs use up no budget
		if !reflect.DeepEqual(got.Set, want.Set) || got.HistoryLimit != want.HistoryLimit || len(got.Problems) > 0 {
			t.Errorf("%s\ngot  %+v\nwant %+v", more, got, want)
		}
		if got.Selector.String() != want.Selector.String() || !reflect.DeepEqual(got.Template, want.Template) {
			t.Errorf("%s\ngot  %v %v\nwant %v %v", more, got.Selector, got.Template, want.Selector, want.Template)
		}
	}
}

func TestBudgets(t *testing.T) {
	for fields, want := range map[string][2]rollout.Quantity{
		"":                                 {number(1), number(0)},
		"maxSurge: 2":                      {number(0), number(2)},
		"maxSurge: 30%":                    {number(0), percent(30)},
		"maxUnavailable: 3":                {number(3), number(0)},
		"maxUnavailable: 10%, maxSurge: 0": {percent(10), number(0)},
	} {
		w := kruise.Digest(rolling(t, fields))
		if got := [2]rollout.Quantity{w.Set.MaxUnavailable, w.Set.MaxSurge}; got != want || len(w.Problems) > 0 {
			t.Errorf("%q: got %v, want %v; problems %v", fields, got, want, w.Problems)
		}
	}
}

func TestOptions(t *testing.T) {
	standard := kruise.Options{Burst: number(250)}
	with := func(change func(*kruise.Options)) kruise.Options {
		o := standard
		change(&o)
		return o
	}
	const progressive = `daemonset.kruise.io/progressive-create-pod: "true"`
	for name, e := range map[string]struct {
		obj  map[string]any
		want kruise.Options
	}{
		"nothing":            {daemonSet(t, "", ""), standard},
		"in place":           {rolling(t, "rollingUpdateType: InPlaceIfPossible"), with(func(o *kruise.Options) { o.InPlace = true })},
		"paused":             {rolling(t, "paused: true"), with(func(o *kruise.Options) { o.Paused = true })},
		"not paused":         {rolling(t, "paused: false"), standard},
		"partition":          {rolling(t, "partition: 10"), with(func(o *kruise.Options) { o.Partition = number(10) })},
		"partition percent":  {rolling(t, "partition: 50%"), with(func(o *kruise.Options) { o.Partition = percent(50) })},
		"ignored on delete":  {daemonSet(t, "", "  updateStrategy: {type: OnDelete, rollingUpdate: {paused: true, partition: x}}"), standard},
		"burst":              {daemonSet(t, "", "  burstReplicas: 5"), with(func(o *kruise.Options) { o.Burst = number(5) })},
		"burst percent":      {daemonSet(t, "", "  burstReplicas: 5%"), with(func(o *kruise.Options) { o.Burst = percent(5) })},
		"progressive":        {daemonSet(t, "", "  scaleStrategy: {partitionedScaling: true}"), with(func(o *kruise.Options) { o.Progressive = true })},
		"by annotation":      {daemonSet(t, progressive, ""), with(func(o *kruise.Options) { o.Progressive = true })},
		"the field wins":     {daemonSet(t, progressive, "  scaleStrategy: {partitionedScaling: false}"), standard},
		"another annotation": {daemonSet(t, `daemonset.kruise.io/progressive-create-pod: "yes"`, ""), standard},
		"grace":              {daemonSet(t, `everynode.dev/in-place-grace-seconds: "15"`, ""), with(func(o *kruise.Options) { o.Grace = 15 * time.Second })},
		"comes back first":   {tolerating(t, `everynode.dev/come-back-first-seconds: "90"`), with(func(o *kruise.Options) { o.ComeBackFirst = 90 * time.Second })},
		"marked":             {daemonSet(t, `everynode.dev/mark-for-autoscaler: "true"`, ""), standard},
		"not marked":         {daemonSet(t, `everynode.dev/mark-for-autoscaler: "false"`, ""), with(func(o *kruise.Options) { o.Unmarked = true })},
		"hook, labels": {daemonSet(t, "", `  lifecycle: {preDelete: {labelsHandler: {example.io/block-deleting: "true"}}}`), with(func(o *kruise.Options) {
			o.PreDelete = &kruise.Hook{Labels: map[string]string{"example.io/block-deleting": "true"}}
		})},
		"hook, finalizers": {daemonSet(t, "", "  lifecycle: {preDelete: {markPodNotReady: true, finalizersHandler: [example.io/unready-blocker]}}"), with(func(o *kruise.Options) {
			o.PreDelete = &kruise.Hook{Finalizers: []string{"example.io/unready-blocker"}, MarkNotReady: true}
		})},
		"hook without effect": {daemonSet(t, "", "  lifecycle: {preDelete: {}}"), with(func(o *kruise.Options) { o.PreDelete = &kruise.Hook{} })},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kruise.ReadOptions(e.obj); !reflect.DeepEqual(got, e.want) {
				t.Errorf("got  %+v\nwant %+v", got, e.want)
			}
			if w := kruise.Digest(e.obj); len(w.Problems) > 0 {
				t.Errorf("problems: %v", w.Problems)
			}
		})
	}
}

func TestNodeSelector(t *testing.T) {
	selector := kruise.ReadOptions(rolling(t, "selector: {matchLabels: {nodeType: canary}, matchExpressions: [{key: zone, operator: Exists}]}")).NodeSelector
	if selector == nil || selector.String() != "nodeType=canary,zone" {
		t.Errorf("got %v", selector)
	}
	if selector := kruise.ReadOptions(rolling(t, "selector: {}")).NodeSelector; selector == nil || !selector.Empty() {
		t.Errorf("an empty selector is %v, not all nodes", selector)
	}
}

// TestBurstIsResolvedByTheCore: the status says how many nodes were desired when it was written, and nothing on the first pass.
func TestBurstIsResolvedByTheCore(t *testing.T) {
	for more, want := range map[string]rollout.Quantity{
		"  burstReplicas: 5":    number(5),
		"  burstReplicas: 10%":  percent(10),
		"  burstReplicas: 150%": percent(150),
		"":                      number(250),
	} {
		w := kruise.Digest(daemonSet(t, "", more+"\nstatus: {desiredNumberScheduled: 8}"))
		if w.Set.Burst != want {
			t.Errorf("%q: got %v, want %v", more, w.Set.Burst, want)
		}
	}
}

func TestProblems(t *testing.T) {
	const in = "spec.updateStrategy.rollingUpdate."
	for _, e := range []struct {
		obj   map[string]any
		fatal bool
		want  string
	}{
		{rolling(t, "rollingUpdateType: Surging"), true, `Field ` + in + `rollingUpdateType is "Surging": set it to Standard or InPlaceIfPossible.`},
		{rolling(t, "rollingUpdateType: InPlaceIfPossible, maxSurge: 1"), true, `Field ` + in + `maxSurge must be 0 for the type InPlaceIfPossible: set maxUnavailable instead.`},
		{rolling(t, "maxUnavailable: 1, maxSurge: 1"), true, `Field ` + in + `maxSurge may not be set when maxUnavailable is non-zero: set one of them to 0.`},
		{rolling(t, "maxUnavailable: 0, maxSurge: 0"), false, `Fields ` + in + `maxUnavailable and ` + in + `maxSurge are both 0, with which no update can go on: set one of them; until then one node at a time is updated.`},
		{rolling(t, "partition: half"), true, `Field ` + in + `partition is "half": set it to a whole number such as 3, or a percentage such as "10%".`},
		{rolling(t, "paused: maybe"), true, `Field ` + in + `paused is "maybe": set it to true or false.`},
		{rolling(t, "selector: x"), true, `Field ` + in + `selector is "x": make it an object.`},
		{rolling(t, "selector: {matchExpressions: [{key: a, operator: Like}]}"), true, `Field ` + in + `selector cannot be used: correct what is wrong ("Like" is not a valid label selector operator).`},
		{daemonSet(t, "", "  burstReplicas: 0"), true, `Field spec.burstReplicas is 0, with which nothing could ever be done: set it to a number from 1.`},
		{daemonSet(t, "", "  burstReplicas: 0%"), true, `Field spec.burstReplicas is 0, with which nothing could ever be done: set it to a number from 1.`},
		{daemonSet(t, "", "  scaleStrategy: {partitionedScaling: x}"), true, `Field spec.scaleStrategy.partitionedScaling is "x": set it to true or false.`},
		{daemonSet(t, "", "  lifecycle: {preNormal: {}}"), false, `Field spec.lifecycle.preNormal has no effect on a daemon set: remove it.`},
		{restarting(t, "a, b"), false, `Annotation everynode.dev/restarted-containers of the template names "b", which is not a container that can be restarted: correct the name, or remove it.`},
		{daemonSet(t, "", "  lifecycle: {inPlaceUpdate: {}}"), false, `Field spec.lifecycle.inPlaceUpdate has no effect on a daemon set: remove it.`},
		{daemonSet(t, "", "  lifecycle: {preDelete: {labelsHandler: [a]}}"), true, `Field spec.lifecycle.preDelete cannot be read: correct what is wrong (`},
		{daemonSet(t, `everynode.dev/come-back-first-seconds: "9"`, ""), false, `Annotation everynode.dev/come-back-first-seconds has no effect, because the pods do not tolerate the taint everynode.dev/waits-for-daemon-pods: add the toleration to the template.`},
		{tolerating(t, `everynode.dev/come-back-first-seconds: 5m`), false, `Annotation everynode.dev/come-back-first-seconds is "5m": set it to a whole number of seconds from 1 to 3600; until then its pods come back to a node in any order.`},
		{tolerating(t, `everynode.dev/come-back-first-seconds: "3601"`), false, `Annotation everynode.dev/come-back-first-seconds is "3601": set it to a whole number of seconds from 1 to 3600; until then its pods come back to a node in any order.`},
		{daemonSet(t, `everynode.dev/leave-last-seconds: "2147483647"`, ""), false, `Annotation everynode.dev/leave-last-seconds is "2147483647": set it to a whole number of seconds from 1 to 3600; until then its pods leave a node in any order.`},
		{daemonSet(t, `everynode.dev/in-place-grace-seconds: 5m`, ""), false, `Annotation everynode.dev/in-place-grace-seconds is "5m": set it to a whole number of seconds from 0; until then there is no wait.`},
	} {
		w := kruise.Digest(e.obj)
		if len(w.Problems) != 1 || w.Problems[0].Fatal != e.fatal || !strings.HasPrefix(w.Problems[0].Message, e.want) {
			t.Errorf("got  %+v\nwant %s (fatal: %v)", w.Problems, e.want, e.fatal)
			continue
		}
		// With InvalidSpec nothing is done: people rely on that.
		if reason := w.Problems[0].Reason; (reason == base.ReasonInvalidSpec) != e.fatal {
			t.Errorf("%s has the reason %s (fatal: %v)", e.want, reason, e.fatal)
		}
	}
}

// TestWhereSetsMayComeBackFirst: a set that asks in a namespace for which the manager has no permission is warned.
func TestWhereSetsMayComeBackFirst(t *testing.T) {
	obj := tolerating(t, `everynode.dev/come-back-first-seconds: "9"`)
	set("metadata.namespace", "here")(obj)
	for namespace, want := range map[string]string{
		"here":  "",
		"there": "Annotation everynode.dev/come-back-first-seconds has no effect in namespace here: an administrator allows it with the flag --come-back-first-namespaces of the manager, or the value manager.comeBackFirstNamespaces of the chart.",
	} {
		r := kruise.Registration()
		w := r.New(dialect.Setting{MayHold: func(name string) bool { return name == namespace }}).Source.Digest(obj)
		got := ""
		for _, p := range w.Problems {
			got += p.Message
		}
		if got != want {
			t.Errorf("only sets of namespace %s may ask: got %q, want %q", namespace, got, want)
		}
	}
	if w := kruise.Registration().New(dialect.Setting{}).Source.Digest(obj); len(w.Problems) > 0 {
		t.Errorf("who does not know: %+v", w.Problems)
	}
}

func TestReadStatus(t *testing.T) {
	w := kruise.Digest(daemonSet(t, "", `
status: {updateRevision: 7f9c, desiredNumberScheduled: 3, conditions: [{type: Paused, status: "True", reason: x, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`))
	if w.UpdateRevision != "7f9c" || w.Status.Desired != 3 || len(w.Conditions) != 1 || w.Conditions[0].Type != kruise.Paused {
		t.Errorf("got %+v", w)
	}
	if w := kruise.Digest(daemonSet(t, "", "status: {updateRevision: 7, conditions: x}")); w.UpdateRevision != "" || w.Conditions != nil {
		t.Errorf("what cannot be read is %q, %v", w.UpdateRevision, w.Conditions)
	}
}

// FuzzDigest shows that nothing that is JSON makes Digest panic, and that what it makes of it can be used.
func FuzzDigest(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":"50%","selector":{"matchLabels":{"a":"b"}},"paused":1}}}}`,
		`{"spec":{"burstReplicas":-1,"lifecycle":{"preDelete":{"labelsHandler":{"a":1}}},"scaleStrategy":[]},"status":{"conditions":[{"type":1}]}}`,
		`{"metadata":{"annotations":{"everynode.dev/in-place-grace-seconds":"99999999999999999999"}},"spec":{"template":{"spec":{}}}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var obj map[string]any
		if json.Unmarshal([]byte(text), &obj) != nil {
			t.Skip("not an object")
		}
		w := kruise.Digest(obj)
		if w.Selector == nil || fmt.Sprint(w.Problems) != fmt.Sprint(kruise.Digest(obj).Problems) {
			t.Errorf("got %+v", w)
		}
		for _, p := range w.Problems {
			if p.Reason == "" || !strings.HasSuffix(p.Message, ".") {
				t.Errorf("problem %+v", p)
			}
		}
		kruise.StatusPatch(&w, kruise.Status{Status: base.Status{Numbers: rollout.Status{Desired: 1}}})
	})
}
