// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"math/rand"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/daemon/util"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/podtemplate"
)

// upstreamPod is the pod that syncNodes of the native controller sends.
func upstreamPod(t *testing.T, ds *appsv1.DaemonSet, p podtemplate.Params) *corev1.Pod {
	t.Helper()
	template := util.CreatePodTemplate(ds.Spec.Template, p.TemplateGeneration, p.Hash)
	template.Spec.Affinity = util.ReplaceDaemonSetPodNodeNameNodeAffinity(template.Spec.Affinity, p.Node)
	pod, err := controller.GetPodFromTemplate(&template, ds, &p.Owner)
	if err != nil {
		t.Fatal(err)
	}
	// What Everynode does on purpose: the name is derived, and the namespace stands in the object, not only in the path.
	pod.Name, pod.Namespace = p.PodName, p.Namespace
	return pod
}

func everynodePod(t *testing.T, ds *appsv1.DaemonSet, p podtemplate.Params) *corev1.Pod {
	t.Helper()
	template := undecoded(t, ds)
	before := runtime.DeepCopyJSON(template)
	spec := template["spec"].(map[string]any)
	rules, _ := placement.Compile(spec)
	if rules == nil {
		t.Fatalf("no rules for %s", show(spec))
	}
	maker := podtemplate.NewMaker(template, rules).Decode()
	made := maker.Pod(p)
	if !equality.Semantic.DeepEqual(template, before) {
		t.Fatalf("the template %s became %s", show(before), show(template))
	}
	data, err := made.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := kjson.Unmarshal(data, pod); err != nil {
		t.Fatal(err)
	}
	if decoded := maker.Decoded(p); decoded == nil {
		t.Errorf("the template was not decoded: %s", show(template))
	} else if !equality.Semantic.DeepEqual(decoded, pod) {
		t.Errorf("decoded it is\n%s\nand undecoded\n%s", show(decoded), show(pod))
	}
	pod.TypeMeta = metav1.TypeMeta{}
	return pod
}

func TestPods(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	random := randomTemplates(3)
	for i := range 3000 {
		template := random()
		if i%2 == 0 {
			template = randomPlacement(r)
		}
		ds := daemonSet(t, template)
		p := podtemplate.Params{
			Namespace: ds.Namespace, SetName: ds.Name, PodName: "agent-x", Node: "n1", Hash: pick(r, "", "h"),
			Owner: *metav1.NewControllerRef(ds, appsv1.SchemeGroupVersion.WithKind("DaemonSet")),
		}
		if generation := int64(r.Intn(5)); r.Intn(2) == 0 {
			p.TemplateGeneration = &generation
		}
		want, got := upstreamPod(t, ds, p), everynodePod(t, ds, p)
		if show(got) != show(want) {
			t.Fatalf("got\n%s\nupstream has\n%s", show(got), show(want))
		}
	}
}

func TestLabelNames(t *testing.T) {
	if podtemplate.GenerationLabel != extensionsv1beta1.DaemonSetTemplateGenerationKey {
		t.Errorf("the label is %s, upstream's %s", podtemplate.GenerationLabel, extensionsv1beta1.DaemonSetTemplateGenerationKey)
	}
}
