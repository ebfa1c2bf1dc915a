// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"everynode.dev/everynode/internal/clustercache"
)

// recordLimit is how many bytes a pod of a set on a node may take, everything counted.
const recordLimit = 512

// heap is how much is in use.
func heap() int {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// podsOfSets makes the pods of sets in the order of their names, and hands each on: whole pods that have been decoded, or else, because that
// takes its time, only what a record is made of.
func podsOfSets(tb testing.TB, sets, nodes int, whole bool, take func(*corev1.Pod)) {
	tb.Helper()
	for s := range sets {
		set := fmt.Sprintf("agent-%02d", s)
		full := podOfSet(set)
		if !whole {
			full.ManagedFields, full.Annotations, full.Spec, full.Status.ContainerStatuses = nil, nil, corev1.PodSpec{}, nil
		}
		for i := range nodes {
			place(full, s, nodes, i)
			if whole {
				take(decoded(tb, full))
			} else {
				take(full.DeepCopy())
			}
		}
	}
}

// place makes a pod of a set, of that number, the one on a node.
func place(p *corev1.Pod, s, nodes, i int) {
	p.Name, p.Spec.NodeName = fmt.Sprintf("agent-%02d-%010x", s, i), fmt.Sprintf("ip-10-%03d-%03d-%03d.internal", i>>16, i>>8&255, i&255)
	p.UID, p.ResourceVersion = uid(s, i), fmt.Sprint(1_000_000+s*nodes+i)
}

// decoded is a pod as it comes from an API server.
func decoded(tb testing.TB, p *corev1.Pod) *corev1.Pod {
	tb.Helper()
	data, err := p.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	made := &corev1.Pod{}
	if err := made.Unmarshal(data); err != nil {
		tb.Fatal(err)
	}
	return made
}

// podOfSet is a pod as clusters have them, with all that nobody here reads.
func podOfSet(set string) *corev1.Pod {
	p := fullPod()
	p.Namespace, p.GenerateName, p.DeletionTimestamp = "monitoring", set+"-", nil
	p.Labels["app.kubernetes.io/name"], p.Labels["app.kubernetes.io/instance"] = set, set
	p.OwnerReferences[0].Name = set
	p.OwnerReferences[0].UID = uid(1000+int(set[len(set)-1]), int(set[len(set)-2]))
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 1500))}}
	c := &p.Spec.Containers[0]
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("10m"), corev1.ResourceMemory: quantity.MustParse("64Mi")}
	for i := range 10 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: strings.Repeat("v", 30)})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("volume-", i)})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, ImageID: strings.Repeat("i", 90), ContainerID: strings.Repeat("c", 80)}}
	return p
}

// listed is a cluster whose pods have been listed as a reflector does it: streamed into a store, and then handed over.
type listed struct {
	index     *clustercache.Index
	streaming cache.Store
}

func list(tb testing.TB, sets, nodes int, whole bool) *listed {
	l := &listed{index: clustercache.NewIndex(func(clustercache.Key) {})}
	for i := range nodes {
		name := fmt.Sprintf("ip-10-%03d-%03d-%03d.internal", i>>16, i>>8&255, i&255)
		l.index.PutNode(clustercache.Node{Name: name, RV: "1", Ready: true, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"}})
	}
	for s := range sets {
		name := fmt.Sprintf("agent-%02d", s)
		w := digest(set(name).Object)
		owner := podOfSet(name).OwnerReferences[0]
		w.Namespace, w.UID, w.Advanced = "monitoring", owner.UID, owner.APIVersion != "apps/v1"
		l.index.PutSet(clustercache.Key{Dialect: "native", Namespace: "monitoring", Name: name}, &w)
	}
	sink := newPodSink(l.index)
	target := newStore(sink.record, sink)
	l.streaming = cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.WithTransformer(target.Transformer()))
	podsOfSets(tb, sets, nodes, whole, func(p *corev1.Pod) {
		if err := l.streaming.Add(p); err != nil {
			tb.Fatal(err)
		}
	})
	if err := target.Replace(l.streaming.List(), "9999999"); err != nil {
		tb.Fatal(err)
	}
	return l
}

// TestNoPodIsKept: of pods as they come from an API server, what is kept is less than recordLimit each, and twice that while a
// list is streamed.
func TestNoPodIsKept(t *testing.T) {
	const sets, nodes = 5, 2000
	empty := heap()
	l := list(t, sets, nodes, true)
	streaming := (heap() - empty) / (sets * nodes)
	l.streaming = nil
	kept := (heap() - empty) / (sets * nodes)
	t.Logf("%d bytes a pod, %d while they are listed", kept, streaming)
	if kept > recordLimit || streaming > 2*recordLimit || kept < 100 {
		t.Errorf("%d bytes a pod, %d while they are listed; want at most %d and %d", kept, streaming, recordLimit, 2*recordLimit)
	}
	key := clustercache.Key{Dialect: "native", Namespace: "monitoring", Name: "agent-04"}
	if s, _, ok := l.index.Snapshot(key, clustercache.History{Generation: -1}, 1); !ok || len(s.Nodes) != nodes || len(s.Nodes[nodes-1].Pods) != 1 {
		t.Errorf("the pods did not arrive: %v, %d nodes", ok, len(s.Nodes))
	}
}

// memoryLimit is what 20 sets on 100,000 nodes have to fit in; the process is told (as by GOMEMLIMIT), or else the collector would let the
// heap grow to twice of what is in use.
const memoryLimit = 2 << 30

// BenchmarkMemory lists the pods of 20 sets on every node. It reports how much is in use at the end, and while the list is handed over, and
// what the process has got of the system for it.
func BenchmarkMemory(b *testing.B) {
	const sets = 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	for _, nodes := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			empty := heap()
			for b.Loop() {
				l := list(b, sets, nodes, false)
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				if m.Sys-m.HeapReleased > memoryLimit {
					b.Errorf("%d MiB of the system are in use", (m.Sys-m.HeapReleased)>>20)
				}
				b.ReportMetric(float64(m.Sys-m.HeapReleased)/(1<<20), "MiB-of-system")
				b.ReportMetric(float64(heap()-empty)/(1<<20), "MiB-listing")
				l.streaming = nil
				kept := heap() - empty
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(kept)/(1<<20), "MiB")
				b.ReportMetric(float64(m.HeapInuse)/(1<<20), "MiB-in-use")
				b.ReportMetric(float64(kept)/float64(sets*nodes), "B/record")
				runtime.KeepAlive(l)
			}
		})
	}
}

// BenchmarkIntake takes in that pods become ready and not ready, all over the cluster, as their objects come decoded from a watch.
func BenchmarkIntake(b *testing.B) {
	const sets, stride = 20, 7919
	for _, nodes := range []int{1000, 10000, 100000} {
		l := list(b, sets, nodes, false)
		l.streaming = nil
		pods := make([]*corev1.Pod, 0, sets*200)
		for k := range cap(pods) {
			s := k % sets
			p := podOfSet(fmt.Sprintf("agent-%02d", s))
			place(p, s, nodes, k/sets*stride%nodes)
			pods = append(pods, decoded(b, p))
		}
		sink, version, next := newPodSink(l.index), 10_000_000, 0
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := pods[next%len(pods)]
				next, version = next+1, version+1
				p.ResourceVersion = strconv.Itoa(version)
				for i := range p.Status.Conditions {
					if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
						c.Status = corev1.ConditionFalse
					} else if c.Type == corev1.PodReady {
						c.Status = corev1.ConditionTrue
					}
				}
				sink.put(p)
			}
		})
		runtime.KeepAlive(l)
	}
}

func uid(set, node int) types.UID {
	return types.UID(fmt.Sprintf("%08x-1111-2222-3333-%012x", set, node))
}
