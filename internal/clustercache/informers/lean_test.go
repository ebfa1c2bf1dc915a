// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/clustercache"
)

// podsToDecode are pods of every kind of owner, as a kubelet and a controller leave them.
func podsToDecode() map[string]*corev1.Pod {
	yes := true
	made := func(owner *metav1.OwnerReference, edit func(*corev1.Pod)) *corev1.Pod {
		p := podAt("p1", "77")
		p.UID, p.Generation, p.CreationTimestamp = "u1", 3, metav1.NewTime(time.Unix(1700000000, 0))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1700000100, 0)}, new(int64(30))
		p.Labels, p.Annotations, p.Finalizers = map[string]string{"app": "a", "controller-revision-hash": "h"}, map[string]string{"note": "b"}, []string{"example.com/f"}
		p.Spec.NodeName, p.Spec.Containers = "n1", []corev1.Container{{Name: "c", Image: "i:1"}}
		p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 2, Image: "i:1"}}
		for _, who := range []string{"kubelet", "everynode-manager"} {
			p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{Manager: who, Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)})
		}
		if owner != nil {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "n"}, *owner}
		}
		if edit != nil {
			edit(p)
		}
		return p
	}
	owner := func(version, kind string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: version, Kind: kind, Name: "o", UID: "o", Controller: &yes}
	}
	return map[string]*corev1.Pod{
		"DaemonSet": made(owner("apps/v1", "DaemonSet"), nil), "Advanced DaemonSet": made(owner("apps.kruise.io/v1beta1", "DaemonSet"), nil),
		"ReplicaSet": made(owner("apps/v1", "ReplicaSet"), nil), "Job": made(owner("batch/v1", "Job"), nil), "orphan": made(nil, nil),
		"another DaemonSet":      made(owner("example.com/v1", "DaemonSet"), nil),
		"no controller":          made(&metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "o", UID: "o"}, nil),
		"without managed fields": made(owner("apps/v1", "DaemonSet"), func(p *corev1.Pod) { p.ManagedFields = nil }),
		"nothing but metadata":   {ObjectMeta: metav1.ObjectMeta{Name: "p2", Namespace: "ns", UID: "u2", ResourceVersion: "78"}},
		"empty":                  {},
	}
}

func encoded(t testing.TB, object runtime.Object) []byte {
	t.Helper()
	var raw bytes.Buffer
	object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(reflect.TypeOf(object).Elem().Name()))
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &raw); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

// upstream decodes as client-go does.
func upstream(data []byte) (*corev1.Pod, error) {
	object, _, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("it is a %T", object)
	}
	return pod, nil
}

// same is an error if a decoder says anything else of a pod than client-go, as far as the index reads it.
func same(decode func([]byte) *corev1.Pod, data []byte) error {
	got := decode(data)
	if got == nil {
		return nil // it is left to client-go
	}
	want, err := upstream(data)
	if err != nil {
		return nil // what is broken is not looked at: the managed fields, or what follows the metadata of another's pod
	}
	want.ManagedFields = nil
	if _, _, ours := clustercache.OwnerOf(want); !ours {
		want.Spec, want.Status = corev1.PodSpec{}, corev1.PodStatus{}
	}
	got.TypeMeta, want.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	return nil
}

// TestLeanPod: what an API server sends is decoded leanly, and as client-go decodes it. Decoders that skip more are found out.
func TestLeanPod(t *testing.T) {
	mutants := map[string]func([]byte) *corev1.Pod{
		"pods of Advanced DaemonSets and orphans are other's": func(data []byte) *corev1.Pod {
			pod, err := upstream(data)
			if ref := metav1.GetControllerOf(pod); err == nil && (ref == nil || ref.APIVersion != "apps/v1") {
				pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
			}
			pod.ManagedFields = nil
			return pod
		},
		"the owner is the first reference": func(data []byte) *corev1.Pod {
			pod, _ := upstream(data)
			if len(pod.OwnerReferences) > 0 && pod.OwnerReferences[0].Kind != "DaemonSet" {
				pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
			}
			pod.ManagedFields = nil
			return pod
		},
		"metadata ends with the owners": func(data []byte) *corev1.Pod {
			pod := leanPod(data)
			if pod != nil {
				pod.Finalizers = nil
			}
			return pod
		},
	}
	found := map[string]bool{}
	for name, pod := range podsToDecode() {
		data := encoded(t, pod)
		if leanPod(data) == nil {
			t.Errorf("%s: it was not decoded leanly", name)
		}
		if err := same(leanPod, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for what, mutant := range mutants {
			found[what] = found[what] || same(mutant, data) != nil
		}
	}
	for what := range mutants {
		if !found[what] {
			t.Errorf("it is not noticed that %s", what)
		}
	}
}

// field is one of bytes.
func field(number byte, value []byte) []byte {
	return slices.Concat([]byte{number<<3 | ofBytes, byte(len(value))}, value)
}

// TestNotLean: what is not as an API server writes it is left to client-go.
func TestNotLean(t *testing.T) {
	meta := &metav1.ObjectMeta{Name: "p"}
	metadata, err := meta.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	kind, rest := []byte(podType), slices.Concat(field(podSpec, nil), field(podStatus, nil))
	envelope := func(parts ...[]byte) []byte {
		return slices.Concat(append([][]byte{[]byte(envelopePrefix)}, parts...)...)
	}
	good := slices.Concat(field(podMetadata, metadata), rest)
	if leanPod(envelope(field(envelopeType, kind), field(envelopeRaw, good))) == nil {
		t.Error("a good one was not decoded")
	}
	managed := slices.Concat([]byte{0x8a, 0x01, 0}) // field 17, empty
	for name, data := range map[string][]byte{
		"no prefix":               good,
		"a node":                  encoded(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
		"no kind":                 envelope(field(envelopeRaw, good)),
		"another version":         envelope(field(envelopeType, []byte("\n\x02v2\x12\x03Pod")), field(envelopeRaw, good)),
		"compressed":              envelope(field(envelopeType, kind), field(envelopeRaw, good), field(envelopeEncoding, []byte("gzip"))),
		"JSON":                    envelope(field(envelopeType, kind), field(envelopeRaw, good), field(envelopeContent, []byte("application/json"))),
		"raw twice":               envelope(field(envelopeType, kind), field(envelopeRaw, good), field(envelopeRaw, good)),
		"metadata twice":          envelope(field(envelopeType, kind), field(envelopeRaw, slices.Concat(field(podMetadata, metadata), good))),
		"metadata last":           envelope(field(envelopeType, kind), field(envelopeRaw, slices.Concat(rest, field(podMetadata, metadata)))),
		"a field of later":        envelope(field(envelopeType, kind), field(envelopeRaw, slices.Concat(good, field(9, nil)))),
		"cut off":                 envelope(field(envelopeType, kind), []byte{envelopeRaw<<3 | ofBytes, 200}),
		"a name after the fields": envelope(field(envelopeType, kind), field(envelopeRaw, slices.Concat(field(podMetadata, slices.Concat(managed, metadata)), rest))),
		"metadata cut off":        envelope(field(envelopeType, kind), field(envelopeRaw, slices.Concat(field(podMetadata, []byte{0x0a, 9}), rest))),
	} {
		if pod := leanPod(data); pod != nil {
			t.Errorf("%s: %v", name, pod)
		}
	}
}

// FuzzLeanPod compares with client-go whatever arrives.
func FuzzLeanPod(f *testing.F) {
	for _, pod := range podsToDecode() {
		f.Add(encoded(f, pod))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := same(leanPod, data); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLeanPodsChanged compares with client-go after single bytes were changed.
func TestLeanPodsChanged(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	lean := 0
	for _, pod := range podsToDecode() {
		data := encoded(t, pod)
		for range 3000 {
			changed := slices.Clone(data)
			for range 1 + chance.IntN(3) {
				changed[chance.IntN(len(changed))] = byte(chance.IntN(256))
			}
			if leanPod(changed) != nil {
				lean++
			}
			if err := same(leanPod, changed); err != nil {
				t.Fatalf("%x: %v", changed, err)
			}
		}
	}
	if lean == 0 {
		t.Error("none was decoded leanly")
	}
}

// TestLeanWatch: lists and watches work as those of client-go, with both encodings.
func TestLeanWatch(t *testing.T) {
	pod := podsToDecode()["DaemonSet"]
	serializer := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		if r.URL.Query().Get("watch") == "" {
			_, _ = w.Write(encoded(t, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "70"}, Items: []corev1.Pod{*pod}}))
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		var event bytes.Buffer
		if err := serializer.Encode(&metav1.WatchEvent{Type: string(watch.Modified), Object: runtime.RawExtension{Raw: encoded(t, pod)}}, protobuf.LengthDelimitedFramer.NewFrameWriter(&event)); err != nil {
			t.Error(err)
		}
		_, _ = w.Write(event.Bytes())
	}))
	defer server.Close()
	pods, err := NewPods(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	list, err := pods.Pods("ns").List(context.Background(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.ResourceVersion != "70" || list.Items[0].UID != types.UID("u1") {
		t.Fatalf("the list is %v, %v", list, err)
	}
	watching, err := pods.Pods("ns").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	event := <-watching.ResultChan()
	got, ok := event.Object.(*corev1.Pod)
	if event.Type != watch.Modified || !ok || got.UID != "u1" || got.Spec.NodeName != "n1" || got.Status.Phase != corev1.PodRunning || got.ManagedFields != nil {
		t.Errorf("the event is %+v", event)
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, pod := range podsToDecode() {
		if name != "DaemonSet" && name != "ReplicaSet" {
			continue
		}
		data := encoded(b, pod)
		b.Run(name+"/client-go", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := upstream(data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/lean", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				leanPod(data)
			}
		})
	}
}
