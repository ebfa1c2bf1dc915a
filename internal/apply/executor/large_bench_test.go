// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/podtemplate"
	"everynode.dev/everynode/internal/rollout"
)

// BenchmarkLargePods is what the creates of pods of 1 MiB hold that are under way at once, as many as passes may have: MiB-waiting for
// each until it is answered, and MiB-answered for each pod that was in an answer. It is measured for the encoding of most templates and for JSON.
func BenchmarkLargePods(b *testing.B) {
	for name, typed := range map[string]bool{"protobuf": true, "json": false} {
		b.Run(name, func(b *testing.B) {
			m := largeMaker(b)
			if typed {
				m = m.Decode()
			}
			for b.Loop() {
				waiting, answered := largeCreates(b, m)
				b.ReportMetric(waiting, "MiB-waiting")
				b.ReportMetric(answered, "MiB-answered")
			}
		})
	}
}

// largeMaker makes pods of about 1 MiB, in 4,000 environment variables.
func largeMaker(b *testing.B) *podtemplate.Maker {
	b.Helper()
	env := make([]any, 4000)
	for i := range env {
		env[i] = map[string]any{"name": fmt.Sprintf("VARIABLE_%04d", i), "value": strings.Repeat("x", 220)}
	}
	spec := map[string]any{"containers": []any{map[string]any{"name": "agent", "image": "agent:1", "env": env}}}
	rules, problem := placement.Compile(spec)
	if problem != nil {
		b.Fatal(problem)
	}
	return podtemplate.NewMaker(map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "agent"}}, "spec": spec}, rules)
}

// largeCreates sends as many creates as may be under way, to a server that answers none before it has read all.
func largeCreates(b *testing.B, m *podtemplate.Maker) (waiting, answered float64) {
	b.Helper()
	const creates = rollout.DefaultBurst
	answer := encoded(b, m)
	var read sync.WaitGroup
	read.Add(creates)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		read.Done()
		<-release
		w.Header().Set("Content-Type", kruntime.ContentTypeProtobuf)
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, ContentConfig: rest.ContentConfig{AcceptContentTypes: kruntime.ContentTypeProtobuf, ContentType: kruntime.ContentTypeProtobuf},
	})
	if err != nil {
		b.Fatal(err)
	}
	before, pods := inUse(), NewSlowPods(client)
	var wg sync.WaitGroup
	created, errs := make([]*corev1.Pod, creates), make([]error, creates)
	for i := range creates {
		wg.Go(func() {
			created[i], errs[i] = create(b.Context(), pods, m, podtemplate.Params{Namespace: "ns", SetName: "ds", PodName: fmt.Sprint("ds-", i), Node: fmt.Sprint("n", i), Hash: "h"})
		})
	}
	read.Wait()
	waiting = (inUse() - before) / creates
	close(release)
	wg.Wait()
	answered = (inUse() - before) / creates
	for i, err := range errs {
		if err != nil || len(created[i].Spec.Containers[0].Env) != 4000 {
			b.Fatalf("create %d: %v", i, err)
		}
	}
	return waiting, answered
}

// encoded is a pod as the API server answers it.
func encoded(b *testing.B, m *podtemplate.Maker) []byte {
	b.Helper()
	pod := m.Decode().Decoded(podtemplate.Params{Namespace: "ns", SetName: "ds", PodName: "ds-0", Node: "n", Hash: "h", Owner: metav1.OwnerReference{Name: "ds"}})
	info, _ := kruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), kruntime.ContentTypeProtobuf)
	data, err := kruntime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), pod)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// inUse is how much memory is in use, in MiB.
func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}
