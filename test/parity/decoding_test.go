// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // registers the kinds, with their defaults

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/podtemplate"
)

// bodies are the two ways to send the pod of a template, as the executor sends them.
func bodies(t testing.TB, template map[string]any) (undecoded, decoded []byte) {
	t.Helper()
	spec, _ := template["spec"].(map[string]any)
	rules, _ := placement.Compile(spec)
	maker := podtemplate.NewMaker(template, rules).Decode()
	p := podtemplate.Params{Namespace: "ns", SetName: "agent", PodName: "agent-x", Node: "n1", Hash: "h", Owner: metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "u"}}
	undecoded, err := (&unstructured.Unstructured{Object: maker.Pod(p).Object}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	pod := maker.Decoded(p)
	if pod == nil {
		return undecoded, nil
	}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	var raw bytes.Buffer
	if err := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme).Encode(pod, &raw); err != nil {
		t.Fatal(err)
	}
	return undecoded, raw.Bytes()
}

// serverReads decodes a body as the API server does: strictly, with defaults, into its own type.
func serverReads(t testing.TB, body []byte, kind string) *core.Pod {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), kind)
	if !ok {
		t.Fatalf("no decoder reads %s", kind)
	}
	decoder := info.Serializer
	if info.StrictSerializer != nil {
		decoder = info.StrictSerializer
	}
	read, _, err := legacyscheme.Codecs.DecoderToVersion(decoder, core.SchemeGroupVersion).Decode(body, nil, nil)
	if err != nil {
		t.Fatalf("the API server refuses %s: %v", body, err)
	}
	return read.(*core.Pod)
}

// TestSentPods: the API server reads the same from a pod however it is sent, with its defaults.
func TestSentPods(t *testing.T) {
	random := randomTemplates(5)
	for range 2000 {
		template := undecoded(t, daemonSet(t, random()))
		asJSON, asProtobuf := bodies(t, template)
		if asProtobuf == nil {
			t.Fatalf("the template was not decoded: %s", show(template))
		}
		want, got := serverReads(t, asJSON, runtime.ContentTypeJSON), serverReads(t, asProtobuf, runtime.ContentTypeProtobuf)
		if show(got) != show(want) {
			t.Fatalf("from protobuf\n%s\nfrom JSON\n%s", show(got), show(want))
		}
	}
}

// BenchmarkSentPods is what the API server has to do to read the pod of the benchmark on planes.
func BenchmarkSentPods(b *testing.B) {
	asJSON, asProtobuf := bodies(b, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "daemon"}},
		"spec": map[string]any{
			"terminationGracePeriodSeconds": int64(1),
			"containers":                    []any{map[string]any{"name": "daemon", "image": "registry.example/daemon:1"}},
		},
	})
	for kind, body := range map[string][]byte{runtime.ContentTypeJSON: asJSON, runtime.ContentTypeProtobuf: asProtobuf} {
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				serverReads(b, body, kind)
			}
		})
	}
}
