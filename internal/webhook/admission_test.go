// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// fakeChecker answers with wrong and err, or with the template and one more field.
type fakeChecker struct {
	calls    int
	wrong    field.ErrorList
	warnings []string
	err      error
}

func (f *fakeChecker) Check(_ context.Context, namespace string, template map[string]any) (Judgement, error) {
	f.calls++
	if f.err != nil || f.wrong != nil {
		return Judgement{Wrong: f.wrong, Warnings: f.warnings}, f.err
	}
	defaulted := runtime.DeepCopyJSON(template)
	defaulted["defaulted"] = "in " + namespace
	return Judgement{Defaulted: defaulted, Warnings: f.warnings}, nil
}

const agent = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","metadata":{"name":"agent","namespace":"agents"},"spec":{
	"selector":{"matchLabels":{"app":"agent"}},"template":{"metadata":{"labels":{"app":"agent"}},"spec":{"containers":[{"name":"a","image":"a:1"}]}}}}`

func request(operation admissionv1.Operation, obj, old string) admission.Request {
	r := admissionv1.AdmissionRequest{Operation: operation, Namespace: "agents", Object: runtime.RawExtension{Raw: []byte(obj)}}
	if old != "" {
		r.OldObject.Raw = []byte(old)
	}
	return admission.Request{AdmissionRequest: r}
}

// mutated is obj as the mutator leaves it.
func mutated(t *testing.T, checker TemplateChecker, r admission.Request) string {
	t.Helper()
	response := (&mutator{checker}).Handle(t.Context(), r)
	if !response.Allowed {
		t.Fatalf("refused: %v", response.Result)
	}
	return patched(t, string(r.Object.Raw), response)
}

func TestMutate(t *testing.T) {
	checker := &fakeChecker{}
	got := mutated(t, checker, request(admissionv1.Create, agent, ""))
	for _, want := range []string{`"burstReplicas":250`, `"maxUnavailable":1`, `"defaulted":"in agents"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if again := mutated(t, checker, request(admissionv1.Update, got, got)); again != got || checker.calls != 1 {
		t.Errorf("an unchanged template was checked %d times, and is %s", checker.calls, again)
	}
	changed := strings.Replace(got, "a:1", "a:2", 1)
	if again := mutated(t, checker, request(admissionv1.Update, changed, got)); again != changed || checker.calls != 2 {
		t.Errorf("a changed template was checked %d times", checker.calls-1)
	}
}

// TestMutateLeavesTheSpecAlone shows that what was made while the webhooks were away, without defaults and not valid, can be labelled, and its
// finalizers removed.
func TestMutateLeavesTheSpecAlone(t *testing.T) {
	invalid := strings.Replace(agent, `"spec":{`, `"spec":{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Fast"}},`, 1)
	held := strings.Replace(invalid, `"namespace":"agents"`, `"namespace":"agents","finalizers":["x/y"],"deletionTimestamp":"2026-01-01T00:00:00Z"`, 1)
	for name, c := range map[string]struct{ obj, old string }{
		"a label":             {strings.Replace(invalid, `"namespace":"agents"`, `"namespace":"agents","labels":{"a":"b"}`, 1), invalid},
		"a finalizer removed": {strings.Replace(held, `"finalizers":["x/y"],`, "", 1), held},
	} {
		checker := &fakeChecker{wrong: field.ErrorList{field.Required(field.NewPath("spec"), "")}}
		r := (&mutator{checker}).Handle(t.Context(), request(admissionv1.Update, c.obj, c.old))
		if !r.Allowed || len(r.Patches) != 0 || checker.calls != 0 {
			t.Errorf("%s: %+v, the template was checked %d times", name, r, checker.calls)
		}
		if r := (&validator{checker}).Handle(t.Context(), request(admissionv1.Update, c.obj, c.old)); !r.Allowed {
			t.Errorf("%s: refused: %s", name, r.Result.Message)
		}
	}
	mended := mutated(t, &fakeChecker{}, request(admissionv1.Update, agent, invalid))
	if r := (&validator{&fakeChecker{}}).Handle(t.Context(), request(admissionv1.Update, mended, invalid)); !r.Allowed || !strings.Contains(mended, `"burstReplicas":250`) {
		t.Errorf("mending the object: %+v, it became %s", r.Result, mended)
	}
}

// TestMutateRefuses shows that what is wrong with the template comes together with all else that is wrong.
func TestMutateRefuses(t *testing.T) {
	checker := &fakeChecker{wrong: field.ErrorList{field.Required(field.NewPath("spec", "template", "spec", "containers").Index(0).Child("image"), "")}}
	bad := strings.Replace(agent, `"spec":{`, `"spec":{"minReadySeconds":-1,`, 1)
	response := (&mutator{checker}).Handle(t.Context(), request(admissionv1.Create, bad, ""))
	want := `DaemonSet.apps.kruise.io "agent" is invalid: [spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0, ` +
		`spec.template.spec.containers[0].image: Required value]`
	if response.Allowed || response.Result.Message != want || response.Result.Code != http.StatusUnprocessableEntity || len(response.Result.Details.Causes) != 2 {
		t.Errorf("got  %+v\nwant %s", response.Result, want)
	}
	checker = &fakeChecker{err: errors.New("asking the API server about the pod template: it is away")}
	response = (&mutator{checker}).Handle(t.Context(), request(admissionv1.Create, agent, ""))
	if response.Allowed || response.Result.Code != http.StatusInternalServerError || response.Result.Message != checker.err.Error() {
		t.Errorf("got %+v", response.Result)
	}
}

func TestValidate(t *testing.T) {
	checker := &fakeChecker{}
	good := mutated(t, checker, request(admissionv1.Create, agent, ""))
	surge := strings.NewReplacer(`"maxSurge":0`, `"maxSurge":1`, `"maxUnavailable":1`, `"maxUnavailable":0`, `"a:1"`, `"a:1","ports":[{"containerPort":1,"hostPort":1}]`).Replace(good)
	for name, e := range map[string]struct {
		r        admission.Request
		wrong    field.ErrorList
		message  string
		warnings int
	}{
		"good":      {request(admissionv1.Create, good, ""), nil, "", 0},
		"unchanged": {request(admissionv1.Update, good, good), field.ErrorList{field.InternalError(nil, errors.New("not asked"))}, "", 0},
		"a warning": {request(admissionv1.Create, surge, ""), nil, "", 1},
		"deleted":   {request(admissionv1.Delete, "", ""), nil, "", 0},
		"selector": {request(admissionv1.Update, strings.Replace(good, `"matchLabels":{"app":"agent"}`, `"matchExpressions":[{"key":"app","operator":"Exists"}]`, 1), good), nil,
			`DaemonSet.apps.kruise.io "agent" is invalid: [spec: Forbidden: updates to daemonset spec for fields other than 'BurstReplicas', 'template', 'lifecycle', 'scaleStrategy', 'updateStrategy', 'minReadySeconds', and 'revisionHistoryLimit' are forbidden, spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable]`, 0},
		"template":    {request(admissionv1.Create, good, ""), field.ErrorList{field.Forbidden(field.NewPath("spec.template.x"), "no")}, `DaemonSet.apps.kruise.io "agent" is invalid: spec.template.x: Forbidden: no`, 0},
		"no object":   {request(admissionv1.Create, "null", ""), nil, "decoding the object: the CREATE request contains none", 0},
		"no JSON":     {request(admissionv1.Create, "{", ""), nil, "decoding the object: unexpected end of JSON input", 0},
		"no old JSON": {request(admissionv1.Update, good, "["), nil, "decoding the old object: unexpected end of JSON input", 0},
	} {
		t.Run(name, func(t *testing.T) {
			response := (&validator{&fakeChecker{wrong: e.wrong}}).Handle(t.Context(), e.r)
			message := ""
			if !response.Allowed {
				message = response.Result.Message
			}
			if message != e.message || len(response.Warnings) != e.warnings || response.Allowed != (e.message == "") {
				t.Errorf("got  %v %s %q\nwant %s", response.Allowed, message, response.Warnings, e.message)
			}
		})
	}
}

// server answers every create of a PodTemplate with answer.
func server(answer func(create clienttesting.CreateActionImpl) (runtime.Object, error)) *DryRun {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		corev1.SchemeGroupVersion.WithResource("podtemplates"): "PodTemplateList",
	})
	client.PrependReactor("create", "podtemplates", func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := answer(action.(clienttesting.CreateActionImpl))
		return true, obj, err
	})
	return &DryRun{Client: client}
}

func TestDryRun(t *testing.T) {
	template := map[string]any{"spec": map[string]any{"newField": int64(1)}}
	checker := server(func(create clienttesting.CreateActionImpl) (runtime.Object, error) {
		if create.Namespace != "agents" || !slices.Equal(create.CreateOptions.DryRun, []string{"All"}) || create.CreateOptions.FieldValidation != "Strict" {
			t.Errorf("asked with %+v", create)
		}
		obj := create.Object.(*unstructured.Unstructured).DeepCopy()
		obj.Object["template"].(map[string]any)["metadata"] = map[string]any{"creationTimestamp": nil, "labels": map[string]any{}}
		return obj, nil
	})
	judgement, err := checker.Check(t.Context(), "agents", template)
	got, _ := json.Marshal(judgement.Defaulted)
	if err != nil || judgement.Wrong != nil || string(got) != `{"metadata":{"labels":{}},"spec":{"newField":1}}` {
		t.Errorf("got %s, %v, %v", got, judgement.Wrong, err)
	}
}

func TestDryRunRefused(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "everynode-check-x", field.ErrorList{
		field.Required(field.NewPath("template", "spec", "containers").Index(0).Child("image"), ""),
		field.Invalid(field.NewPath("template", "spec", "containers").Index(0).Child("name"), "C_", "not a name"),
		field.NotSupported(field.NewPath("template", "spec", "dnsPolicy"), "x", []string{"ClusterFirst"}),
		field.TooLong(field.NewPath("template", "spec", "hostname"), "", 63),
		field.Invalid(field.NewPath("template", "labels"), "a b", "not a label"),
	})
	newer := apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "x", nil)
	newer.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "FieldValueBrandNew", Field: "template.spec.a", Message: "Brand new: it is wrong"}}
	for name, e := range map[string]struct {
		answer error
		want   []string // of the errors about the template
		err    string
	}{
		"invalid": {invalid, []string{
			"spec.template.spec.containers[0].image: Required value",
			`spec.template.spec.containers[0].name: Invalid value: "C_": not a name`,
			`spec.template.spec.dnsPolicy: Unsupported value: "x": supported values: "ClusterFirst"`,
			"spec.template.spec.hostname: Too long: may not be more than 63 bytes",
			`spec.template.metadata.labels: Invalid value: "a b": not a label`,
		}, ""},
		"of a type that is newer": {newer, []string{"spec.template.spec.a: Invalid value: Brand new: it is wrong"}, ""},
		"unknown fields": {apierrors.NewBadRequest(`PodTemplate in version "v1" cannot be handled as a PodTemplate: strict decoding error: unknown field "template.spec.a", unknown field "template.spec.containers[0].b"`), []string{
			`spec.template.spec.a: Forbidden: unknown field "spec.template.spec.a": a pod template has none of this name; remove it, or correct its name`,
			`spec.template.spec.containers[0].b: Forbidden: unknown field "spec.template.spec.containers[0].b": a pod template has none of this name; remove it, or correct its name`,
		}, ""},
		"another shape": {apierrors.NewBadRequest(`PodTemplate in version "v1" cannot be handled as a PodTemplate: json: cannot unmarshal`),
			[]string{"spec.template: Invalid value: Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec failed: json: cannot unmarshal"}, ""},
		"not allowed": {apierrors.NewForbidden(corev1.Resource("podtemplates"), "", errors.New("no")), nil, `asking the API server about the pod template: podtemplates is forbidden: no`},
		"away":        {errors.New("connection refused"), nil, "asking the API server about the pod template: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			checker := server(func(clienttesting.CreateActionImpl) (runtime.Object, error) { return nil, e.answer })
			judgement, err := checker.Check(t.Context(), "agents", map[string]any{})
			var got []string
			for _, w := range judgement.Wrong {
				got = append(got, w.Error())
			}
			if !slices.Equal(got, e.want) || (err == nil) != (e.err == "") || err != nil && err.Error() != e.err {
				t.Errorf("got  %q, %v\nwant %q, %s", got, err, e.want, e.err)
			}
		})
	}
}
