// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/webhook/defaulting"
)

const (
	alpha = "apps.kruise.io/v1alpha1"
	beta  = "apps.kruise.io/v1beta1"
)

// valid is an object that nothing can be said against.
func valid(t testing.TB, version string) map[string]any {
	t.Helper()
	return parse(t, `{"apiVersion":"`+version+`","kind":"DaemonSet","metadata":{"name":"agent","namespace":"default"},"spec":{
		"selector":{"matchLabels":{"app":"agent"}},
		"template":{"metadata":{"labels":{"app":"agent"}},"spec":{"restartPolicy":"Always","containers":[{"name":"main","image":"agent:1"}]}}
	}}`)
}

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var obj map[string]any
	if err := json.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}

// set puts the value, written as JSON, at the path below obj; without a value it removes what is there.
func set(t testing.TB, obj map[string]any, path, value string) {
	t.Helper()
	keys := strings.Split(path, " ")
	for _, key := range keys[:len(keys)-1] {
		if _, ok := obj[key].(map[string]any); !ok {
			obj[key] = map[string]any{}
		}
		obj = obj[key].(map[string]any)
	}
	last := keys[len(keys)-1]
	if value == "" {
		delete(obj, last)
		return
	}
	obj[last] = parse(t, `{"value":`+value+`}`)["value"]
}

// lines are the errors and warnings of r, as people see them.
func lines(r Result) []string {
	var all []string
	for _, err := range r.Errors {
		all = append(all, err.Error())
	}
	for _, warning := range r.Warnings {
		all = append(all, "warning: "+warning)
	}
	return all
}

const (
	rolling   = "spec updateStrategy rollingUpdate"
	container = `{"name":"main","image":"agent:1"`
	percent   = `a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`
)

// edits are pairs of a path and a value.
type edits []string

type example struct {
	name    string
	version string // v1beta1 unless given
	edits   edits
	want    []string
}

func examples() []example {
	const in = "spec.updateStrategy.rollingUpdate."
	return []example{
		{"nothing to say", "", nil, nil},
		{"nothing to say", alpha, nil, nil},

		{"selector missing", "", edits{"spec selector", ""}, []string{"spec.selector: Required value: a daemon set needs a selector, which identifies its pods"}},
		{"selector empty", "", edits{"spec selector", "{}"}, []string{"spec.selector: Invalid value: empty selector is invalid for daemonset"}},
		{"selector does not match", "", edits{"spec selector", `{"matchLabels":{"app":"other"}}`},
			[]string{"spec.template.metadata.labels: Invalid value: {\"app\":\"agent\"}: `selector` does not match template `labels`"}},
		{"selector cannot be evaluated", "", edits{"spec selector", `{"matchExpressions":[{"key":"app","operator":"Like","values":["x"]}]}`},
			[]string{`spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`}},

		{"template missing", "", edits{"spec template", ""}, []string{"spec.template: Required value: a daemon set needs a pod template"}},
		{"template of another shape", "", edits{"spec template spec containers", `"x"`},
			[]string{"spec.template: Invalid value: Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec failed: json: cannot unmarshal string into Go struct field PodSpec.template.spec.containers of type []v1.Container"}},
		{"unknown field in the template", "", edits{"spec template spec containers", `[` + container + `,"imagePolicy":"x"}]`},
			[]string{`spec.template.spec.containers[0].imagePolicy: Forbidden: unknown field "spec.template.spec.containers[0].imagePolicy": a pod template has none of this name; remove it, or correct its name`}},
		{"restart policy", "", edits{"spec template spec restartPolicy", `"OnFailure"`},
			[]string{`spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"`}},
		{"deadline", "", edits{"spec template spec activeDeadlineSeconds", "5"},
			[]string{"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported"}},

		{"unknown field", "", edits{"spec replicas", "3"},
			[]string{`spec.replicas: Forbidden: unknown field "spec.replicas": apps.kruise.io/v1beta1 has none of this name; remove it, or correct its name`}},
		{"field of the other version", alpha, edits{"spec scaleStrategy", `{"partitionedScaling":true}`},
			[]string{`spec.scaleStrategy: Forbidden: unknown field "spec.scaleStrategy": apps.kruise.io/v1alpha1 has none of this name; remove it, or correct its name`}},
		{"type instead of rollingUpdateType", "", edits{rolling + " type", `"InPlaceIfPossible"`},
			[]string{in + `type: Forbidden: unknown field "` + in + `type": apps.kruise.io/v1beta1 has none of this name; write rollingUpdateType instead`}},
		{"field of another shape", "", edits{"spec minReadySeconds", `"x"`},
			[]string{"spec: Invalid value: json: cannot unmarshal string into Go struct field DaemonSetSpec.spec.minReadySeconds of type int32"}},
		{"no specification", "", edits{"spec", ""}, []string{"spec: Required value: a daemon set needs a specification"}},

		{"minReadySeconds", "", edits{"spec minReadySeconds", "-1"}, []string{"spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"}},
		{"revisionHistoryLimit", "", edits{"spec revisionHistoryLimit", "-1"}, []string{"spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"}},
		{"revisionHistoryLimit 0", "", edits{"spec revisionHistoryLimit", "0"}, nil},

		{"burst 1", "", edits{"spec burstReplicas", "1"}, nil},
		{"burst 10%", "", edits{"spec burstReplicas", `"10%"`}, nil},
		{"burst 0", "", edits{"spec burstReplicas", "0"}, []string{"spec.burstReplicas: Invalid value: 0: must be greater than 0, or no pod would ever be created or deleted"}},
		{"burst 0%", "", edits{"spec burstReplicas", `"0%"`}, []string{`spec.burstReplicas: Invalid value: "0%": must be greater than 0, or no pod would ever be created or deleted`}},
		{"burst negative", "", edits{"spec burstReplicas", "-5"}, []string{"spec.burstReplicas: Invalid value: -5: must be greater than 0, or no pod would ever be created or deleted"}},
		{"numbers too big for their fields", "", edits{"spec burstReplicas", "99999999999", "spec minReadySeconds", "2147483648", rolling + " partition", "-2147483649", rolling + " maxUnavailable", "1.5"}, []string{
			"spec.minReadySeconds: Invalid value: 2147483648: must be a whole number of at most 2147483647",
			"spec.burstReplicas: Invalid value: 99999999999: must be a whole number of at most 2147483647, or a percentage",
			in + "maxUnavailable: Invalid value: 1.5: must be a whole number of at most 2147483647, or a percentage",
			in + "partition: Invalid value: -2147483649: must be a whole number of at most 2147483647, or a percentage",
		}},
		{"the biggest numbers", "", edits{"spec burstReplicas", "2147483647", "spec minReadySeconds", "2147483647", rolling + " partition", "2147483647"}, nil},
		{"the longest name", "", edits{"metadata name", `"` + strings.Repeat("n", 242) + `"`}, nil},
		{"a name too long for its revisions", "", edits{"metadata name", `"` + strings.Repeat("n", 243) + `"`},
			[]string{`metadata.name: Invalid value: "` + strings.Repeat("n", 243) + `": must be no more than 242 characters, because the names of revisions consist of it and up to 11 more: use a shorter name`}},
		{"burst a word", "", edits{"spec burstReplicas", `"many"`}, []string{`spec.burstReplicas: Invalid value: "many": ` + percent}},

		{"unknown strategy", "", edits{"spec updateStrategy type", `"Recreate"`},
			[]string{`spec.updateStrategy.type: Unsupported value: "Recreate": supported values: "RollingUpdate", "OnDelete"`}},
		{"OnDelete", "", edits{"spec updateStrategy type", `"OnDelete"`}, nil},
		{"OnDelete with rollingUpdate", "", edits{"spec updateStrategy", `{"type":"OnDelete","rollingUpdate":{"paused":true}}`},
			[]string{"warning: spec.updateStrategy.rollingUpdate: has no effect with the type OnDelete"}},

		{"only maxSurge", "", edits{rolling + " maxSurge", "1"}, nil},
		{"only maxUnavailable", "", edits{rolling + " maxUnavailable", `"30%"`}, nil},
		{"both", "", edits{rolling + " maxUnavailable", "1", rolling + " maxSurge", "1"},
			[]string{in + "maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"}},
		{"neither", "", edits{rolling + " maxUnavailable", "0", rolling + " maxSurge", `"0%"`},
			[]string{in + "maxUnavailable: Required value: cannot be 0 when maxSurge is 0"}},
		{"maxUnavailable 0 alone", "", edits{rolling + " maxUnavailable", "0"}, []string{in + "maxUnavailable: Required value: cannot be 0 when maxSurge is 0"}},
		{"maxUnavailable negative", "", edits{rolling + " maxUnavailable", "-1"}, []string{in + "maxUnavailable: Invalid value: -1: must be greater than or equal to 0"}},
		{"maxUnavailable above 100%", "", edits{rolling + " maxUnavailable", `"101%"`}, []string{in + `maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{"maxUnavailable beyond all numbers", "", edits{rolling + " maxUnavailable", `"99999999999999999999%"`},
			[]string{in + `maxUnavailable: Invalid value: "99999999999999999999%": must not be greater than 100%`}},
		{"maxUnavailable a number in a string", "", edits{rolling + " maxUnavailable", `"5"`}, []string{in + `maxUnavailable: Invalid value: "5": ` + percent}},
		{"maxUnavailable a word", "", edits{rolling + " maxUnavailable", `"few"`}, []string{in + `maxUnavailable: Invalid value: "few": ` + percent}},
		{"maxSurge above 100%", "", edits{rolling + " maxSurge", `"200%"`}, []string{in + `maxSurge: Invalid value: "200%": must not be greater than 100%`}},
		{"maxSurge negative", "", edits{rolling + " maxSurge", "-2"}, []string{in + "maxSurge: Invalid value: -2: must be greater than or equal to 0"}},

		{"in place", "", edits{rolling + " rollingUpdateType", `"InPlaceIfPossible"`}, nil},
		{"in place with surge", "", edits{rolling + " rollingUpdateType", `"InPlaceIfPossible"`, rolling + " maxSurge", "1"},
			[]string{in + "maxSurge: Required value: must be 0 for InPlaceIfPossible type"}},
		{"unknown type", "", edits{rolling + " rollingUpdateType", `"Fast"`},
			[]string{in + `rollingUpdateType: Unsupported value: "Fast": supported values: "Standard", "InPlaceIfPossible"`}},
		{"Surging in v1beta1", "", edits{rolling + " rollingUpdateType", `"Surging"`},
			[]string{in + `rollingUpdateType: Unsupported value: "Surging": supported values: "Standard", "InPlaceIfPossible"`}},
		{"unknown type in v1alpha1", alpha, edits{rolling + " rollingUpdateType", `"Fast"`},
			[]string{in + `rollingUpdateType: Unsupported value: "Fast": supported values: "Standard", "InPlaceIfPossible", "Surging"`}},
		{"Surging in v1alpha1", alpha, edits{rolling + " rollingUpdateType", `"Surging"`},
			[]string{"warning: " + in + "rollingUpdateType: Surging is an old spelling; write Standard, with maxSurge 1 and maxUnavailable 0"}},
		{"Surging with maxUnavailable", alpha, edits{rolling + " rollingUpdateType", `"Surging"`, rolling + " maxUnavailable", "2"}, []string{
			in + "maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
			in + "maxUnavailable: Required value: must be 0 for Surging type",
			"warning: " + in + "rollingUpdateType: Surging is an old spelling; write Standard, with maxSurge 1 and maxUnavailable 0",
		}},

		{"partition", "", edits{rolling + " partition", "10"}, nil},
		{"partition 50%", "", edits{rolling + " partition", `"50%"`}, nil},
		{"partition negative", "", edits{rolling + " partition", "-1"}, []string{in + "partition: Invalid value: -1: must be greater than or equal to 0"}},
		{"partition above 100%", "", edits{rolling + " partition", `"101%"`}, []string{in + `partition: Invalid value: "101%": must not be greater than 100%`}},
		{"partition a word", "", edits{rolling + " partition", `"half"`}, []string{in + `partition: Invalid value: "half": ` + percent}},

		{"selector of nodes", "", edits{rolling + " selector", `{"matchLabels":{"nodeType":"canary"}}`}, nil},
		{"selector of all nodes", "", edits{rolling + " selector", "{}"}, nil},
		{"selector of nodes without values", "", edits{rolling + " selector", `{"matchExpressions":[{"key":"zone","operator":"In"}]}`},
			[]string{in + "selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}},
		{"selector of nodes with an impossible label", "", edits{rolling + " selector", `{"matchLabels":{"a b":"c"}}`},
			[]string{in + `selector.matchLabels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},

		{"hostPort without surge", "", edits{"spec template spec containers", `[` + container + `,"ports":[{"containerPort":80,"hostPort":80}]}]`}, nil},
		{"hostPort with surge", "", edits{"spec template spec containers", `[` + container + `,"ports":[{"containerPort":80,"hostPort":80}]}]`, rolling + " maxSurge", "1"},
			[]string{"warning: spec.template.spec.containers[0].ports[0].hostPort: with maxSurge the new pod cannot be scheduled next to the old one, which uses host port 80: set maxUnavailable instead of maxSurge"}},

		{"port in the network of the node with surge", "", edits{"spec template spec hostNetwork", "true", "spec template spec containers", `[` + container + `,"ports":[{"containerPort":80}]}]`, rolling + " maxSurge", "1"},
			[]string{"warning: spec.template.spec.containers[0].ports[0].containerPort: with maxSurge the new pod cannot be scheduled next to the old one, which uses host port 80: set maxUnavailable instead of maxSurge"}},
		{"port in the network of the pod with surge", "", edits{"spec template spec containers", `[` + container + `,"ports":[{"containerPort":80}]}]`, rolling + " maxSurge", "1"}, nil},
		{"hostPort of a sidecar with surge", "", edits{"spec template spec initContainers", `[{"name":"first","image":"a","ports":[{"containerPort":80,"hostPort":80}]},{"name":"side","image":"a","restartPolicy":"Always","ports":[{"containerPort":81,"hostPort":81}]}]`, rolling + " maxSurge", "1"},
			[]string{"warning: spec.template.spec.initContainers[1].ports[0].hostPort: with maxSurge the new pod cannot be scheduled next to the old one, which uses host port 81: set maxUnavailable instead of maxSurge"}},

		{"preDelete", "", edits{"spec lifecycle", `{"preDelete":{"labelsHandler":{"example.io/block-deleting":"true"},"finalizersHandler":["example.io/unready-blocker"],"markPodNotReady":true}}`}, nil},
		{"inPlaceUpdate", "", edits{"spec lifecycle", `{"inPlaceUpdate":{}}`}, []string{"spec.lifecycle.inPlaceUpdate: Forbidden: inPlaceUpdate hook has not supported yet"}},
		{"preNormal", "", edits{"spec lifecycle", `{"preNormal":{}}`},
			[]string{"spec.lifecycle.preNormal: Forbidden: preNormal hook has not supported yet: a pod of a daemon set is in use as soon as it is ready; remove the hook"}},
		{"label that cannot be", "", edits{"spec lifecycle", `{"preDelete":{"labelsHandler":{"a":"b c"}}}`},
			[]string{`spec.lifecycle.preDelete.labelsHandler: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		{"finalizer without a domain", "", edits{"spec lifecycle", `{"preDelete":{"finalizersHandler":["blocker"]}}`},
			[]string{`spec.lifecycle.preDelete.finalizersHandler[0]: Invalid value: "blocker": name is neither a standard finalizer name nor is it fully qualified`}},
		{"finalizer twice", "", edits{"spec lifecycle", `{"preDelete":{"finalizersHandler":["a.io/b","a.io/b"]}}`},
			[]string{`spec.lifecycle.preDelete.finalizersHandler[1]: Duplicate value: "a.io/b"`}},
		{"not ready, but waits for nothing", "", edits{"spec lifecycle", `{"preDelete":{"markPodNotReady":true}}`},
			[]string{"spec.lifecycle.preDelete.markPodNotReady: Invalid value: true: has no effect without labelsHandler or finalizersHandler, which say what a pod waits for: add one of them"}},
		{"waits for a label of the selector", "", edits{"spec lifecycle", `{"preDelete":{"labelsHandler":{"app":"agent"}}}`},
			[]string{"warning: spec.lifecycle.preDelete.labelsHandler[app]: spec.selector selects by this label, so a pod without it no longer belongs to the daemon set and is not deleted: use another label"}},
		{"waits for a label of an expression of the selector", "", edits{"spec selector", `{"matchExpressions":[{"key":"app","operator":"Exists"}]}`, "spec lifecycle", `{"preDelete":{"labelsHandler":{"app":"agent"}}}`},
			[]string{"warning: spec.lifecycle.preDelete.labelsHandler[app]: spec.selector selects by this label, so a pod without it no longer belongs to the daemon set and is not deleted: use another label"}},
		{"empty hook", "", edits{"spec lifecycle", `{"preDelete":{}}`}, nil},

		{"progressive in v1beta1", "", edits{"spec scaleStrategy", `{"partitionedScaling":true}`}, nil},
		{"progressive by annotation", alpha, edits{"metadata annotations", `{"daemonset.kruise.io/progressive-create-pod":"true"}`}, nil},
		{"progressive and not", "", edits{"metadata annotations", `{"daemonset.kruise.io/progressive-create-pod":"true"}`, "spec scaleStrategy", `{"partitionedScaling":false}`},
			[]string{`spec.scaleStrategy.partitionedScaling: Invalid value: false: contradicts the annotation daemonset.kruise.io/progressive-create-pod: "true"; remove one of them`}},
		annotated("daemonset.kruise.io/progressive-create-pod", "yes", `must be "true" or "false"`),
		annotated("apps.kruise.io/image-predownload-parallelism", "10%", "must be a whole number from 1"),
		annotated("apps.kruise.io/image-predownload-parallelism", "0", "must be a whole number from 1"),
		annotated("apps.kruise.io/image-predownload-parallelism", "10", ""),
		annotated("apps.kruise.io/image-predownload-timeout-seconds", "5m", "must be a whole number of seconds from 1"),
		annotated("apps.kruise.io/image-predownload-min-updated-ready-pods", "some", "must be a whole number from 0, or a percentage up to 100%"),
		annotated("apps.kruise.io/image-predownload-min-updated-ready-pods", "20%", ""),
		annotated("deprecated.daemonset.template.generation", "x", "must be a whole number; remove it, because it has no effect here"),
		{"template generation", "", edits{"metadata annotations", `{"deprecated.daemonset.template.generation":"3"}`},
			[]string{"warning: metadata.annotations[deprecated.daemonset.template.generation]: has no effect here: the revision of a pod shows whether it is up to date; remove it"}},
		annotated("everynode.dev/wait-for-image", "yes", `must be "true" or "false"`),
		annotated("everynode.dev/wait-for-image", "true", ""),
		{"pulls and updates that wait for each other", "", edits{"metadata annotations", `{"everynode.dev/wait-for-image":"true","apps.kruise.io/image-predownload-min-updated-ready-pods":"1"}`},
			[]string{"metadata.annotations[everynode.dev/wait-for-image]: Forbidden: may not be true together with apps.kruise.io/image-predownload-min-updated-ready-pods, because they would wait for each other; remove one of them"}},
		{"pulls that wait for no update", "", edits{"metadata annotations", `{"everynode.dev/wait-for-image":"true","apps.kruise.io/image-predownload-min-updated-ready-pods":"0"}`}, nil},
		annotated("everynode.dev/in-place-grace-seconds", "10s", "must be a whole number of seconds from 0"),
		annotated("everynode.dev/in-place-grace-seconds", "0", ""),
		kept(`{"scaleStrategy":{"partitionedScaling":false},"annotation":"true"}`, true),
		kept(`{"scaleStrategy":{}}`, true),
		kept(`{"scaleStrategy":"x"}`, false),
		kept(`{"scaleStrategy":{"partitionedScaling":"yes"}}`, false),
		kept(`{"scaleStrategy":{"replicas":3}}`, false),
		kept(`{"annotation":true}`, false),
		kept(`{"more":{}}`, false),
		kept(`{`, false),
		annotated("everynode.dev/max-replacing", "0", "must be a whole number from 1, or a percentage from 1% to 100%"),
		annotated("everynode.dev/max-replacing", "25%", ""),
	}
}

func annotated(key, value, sentence string) example {
	e := example{name: key + " " + value, edits: edits{"metadata annotations", `{"` + key + `":"` + value + `"}`}}
	if sentence != "" {
		e.want = []string{"metadata.annotations[" + key + `]: Invalid value: "` + value + `": ` + sentence}
	}
	return e
}

// kept is an object of v1alpha1 with the annotation that conversion leaves there.
func kept(value string, allowed bool) example {
	const key = "everynode.dev/v1beta1-scaling"
	e := example{name: key + " " + value, version: alpha, edits: edits{"metadata annotations", fmt.Sprintf("{%q:%q}", key, value)}}
	if !allowed {
		e.want = []string{fmt.Sprintf("metadata.annotations[%s]: Invalid value: %q: must be as conversion between the versions has written it; do not edit it: restore or remove it", key, value)}
	}
	return e
}

func TestCreate(t *testing.T) {
	for _, e := range examples() {
		if e.version == "" {
			e.version = beta
		}
		t.Run(e.name+" "+e.version[len("apps.kruise.io/"):], func(t *testing.T) {
			obj := valid(t, e.version)
			for i := 0; i < len(e.edits); i += 2 {
				set(t, obj, e.edits[i], e.edits[i+1])
			}
			defaulting.Default(obj)
			if got := lines(Create(obj, Options{})); !slices.Equal(got, e.want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(e.want, "\n     "))
			}
		})
	}
}

func TestWithoutDefaults(t *testing.T) {
	obj := valid(t, beta)
	set(t, obj, "spec updateStrategy type", `"RollingUpdate"`)
	want := []string{"spec.updateStrategy.rollingUpdate: Required value"}
	if got := lines(Create(obj, Options{})); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTemplateChecked(t *testing.T) {
	obj := valid(t, beta)
	defaulting.Default(obj)
	set(t, obj, "spec template spec brandNew", `{"a":1}`)
	if got := lines(Create(obj, Options{TemplateChecked: true})); got != nil {
		t.Errorf("a field that the API server knows is refused: %q", got)
	}
	if got := lines(Create(obj, Options{})); len(got) != 1 {
		t.Errorf("a field that nobody knows is accepted: %q", got)
	}
}

func TestUpdate(t *testing.T) {
	const forbidden = "spec: Forbidden: updates to daemonset spec for fields other than 'BurstReplicas', 'template', 'lifecycle', %s'updateStrategy', 'minReadySeconds', and 'revisionHistoryLimit' are forbidden"
	changed := `{"matchLabels":{"app":"agent"},"matchExpressions":[{"key":"app","operator":"Exists"}]}`
	immutable := `spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists"}],"matchLabels":{"app":"agent"}}: field is immutable`
	for _, e := range []struct {
		name, version string
		before, after edits
		want          []string
	}{
		{"everything that may change", beta, nil, edits{"spec burstReplicas", "7", "spec minReadySeconds", "3", "spec revisionHistoryLimit", "2",
			"spec lifecycle", `{"preDelete":{"labelsHandler":{"a":"b"}}}`, "spec scaleStrategy", `{"partitionedScaling":true}`,
			rolling + " paused", "true", "spec template metadata annotations", `{"a":"b"}`}, nil},
		{"selector", beta, nil, edits{"spec selector", changed}, []string{strings.Replace(forbidden, "%s", "'scaleStrategy', ", 1), immutable}},
		{"selector", alpha, nil, edits{"spec selector", changed}, []string{strings.Replace(forbidden, "%s", "", 1), immutable}},
		{"selector that the labels do not match", beta, nil, edits{"spec selector", `{"matchLabels":{"app":"other"}}`},
			[]string{strings.Replace(forbidden, "%s", "'scaleStrategy', ", 1), `spec.selector: Invalid value: {"matchLabels":{"app":"other"}}: field is immutable`}},
		{"selector and labels", beta, nil, edits{"spec selector", "{}", "spec template metadata labels", `{"app":"other"}`},
			[]string{strings.Replace(forbidden, "%s", "'scaleStrategy', ", 1), `spec.selector: Invalid value: {}: field is immutable`}},
		{"a long name from before", beta, edits{"metadata name", `"` + strings.Repeat("n", 253) + `"`}, edits{"spec minReadySeconds", "1"}, nil},
		{"selector written otherwise", beta, nil, edits{"spec selector", `{"matchLabels":{"app":"agent"},"matchExpressions":[]}`}, nil},
		{"invalid before, and left alone", beta, edits{"spec lifecycle", `{"preNormal":{}}`}, edits{"metadata labels", `{"a":"b"}`}, nil},
		{"invalid before, and changed", beta, edits{"spec lifecycle", `{"preNormal":{}}`}, edits{"spec minReadySeconds", "1"},
			[]string{"spec.lifecycle.preNormal: Forbidden: preNormal hook has not supported yet: a pod of a daemon set is in use as soon as it is ready; remove the hook"}},
		{"annotation invalid before", beta, edits{"metadata annotations", `{"everynode.dev/max-replacing":"x"}`}, edits{"metadata labels", `{"a":"b"}`}, nil},
		{"annotation made invalid", beta, edits{"metadata annotations", `{"everynode.dev/max-replacing":"1"}`}, edits{"metadata annotations", `{"everynode.dev/max-replacing":"x"}`},
			[]string{`metadata.annotations[everynode.dev/max-replacing]: Invalid value: "x": must be a whole number from 1, or a percentage from 1% to 100%`}},
	} {
		t.Run(e.name, func(t *testing.T) {
			old := valid(t, e.version)
			for i := 0; i < len(e.before); i += 2 {
				set(t, old, e.before[i], e.before[i+1])
			}
			defaulting.Default(old)
			obj := runtime.DeepCopyJSON(old)
			for i := 0; i < len(e.after); i += 2 {
				set(t, obj, e.after[i], e.after[i+1])
			}
			if got := lines(Update(obj, old, Options{})); !slices.Equal(got, e.want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(e.want, "\n     "))
			}
		})
	}
}

// FuzzValidate shows that nothing that is JSON makes validation panic.
func FuzzValidate(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"spec":1}`, `{"spec":{"selector":[],"template":{"metadata":{"labels":3}}}}`,
		`{"apiVersion":"apps.kruise.io/v1alpha1","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}},"updateStrategy":{"rollingUpdate":{"partition":"1%","selector":{}}}}}`,
		`{"metadata":{"annotations":{"everynode.dev/max-replacing":"","a":1}},"spec":{"template":null,"burstReplicas":"%"}}`,
	} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, text, before string) {
		var obj, old map[string]any
		if json.Unmarshal([]byte(text), &obj) != nil || json.Unmarshal([]byte(before), &old) != nil || obj == nil || old == nil {
			t.Skip("not an object")
		}
		defaulting.Default(obj)
		again := runtime.DeepCopyJSON(obj)
		defaulting.Default(again)
		if !reflect.DeepEqual(obj, again) {
			t.Errorf("defaulting twice is not defaulting once: %v, %v", obj, again)
		}
		_ = lines(Create(obj, Options{}))
		_ = lines(Update(obj, old, Options{}))
	})
}
