// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/report"
)

var costs = flag.Bool("costs", false, "measure what requests cost the API server that do the same in different ways")

// variant is one of several ways to send a request. They are sent in turn, a batch each, to one API server: only so are they comparable.
type variant struct {
	group, name string
	config      *rest.Config
	connections int
	send        sending
	client      *floorClient
	// seconds are those of the API server's CPU for 1,000 requests, of each batch, and own those of this process.
	seconds, own []float64
}

// sending sends one request, about that pod.
type sending func(ctx context.Context, client rest.Interface, pod brief) error

// creates are requests before which there are no pods.
const creates = "create"

const (
	batch  = 500
	rounds = 5
)

// TestCosts prints the CPU time of the API server for 1,000 requests in each way. No node gets the pods, so nothing else is done with them.
func TestCosts(t *testing.T) {
	if !*costs {
		t.Skip("SKIPPED: this takes minutes and the whole machine; run go test -C test ./bench -run TestCosts -costs")
	}
	const nodes = 20
	plain := rowOf(floorRow)
	plain.simulated = simkubelet.Fast()
	b := newBench(t, t.Context(), plain, nodes)
	variants := b.variants()
	for i := range variants {
		v := &variants[i]
		var err error
		if v.client, err = newFloorClient(v.config, way{connections: max(v.connections, 1), atOnce: fastest().atOnce}); err != nil {
			t.Fatal(err)
		}
	}
	order := rand.New(rand.NewPCG(1, 1))
	for round := range rounds {
		for _, i := range order.Perm(len(variants)) { // none always follows the same one: what was deleted before it counts
			v := &variants[i]
			if err := b.play(v); err != nil {
				t.Fatalf("%s: %v", v.name, err)
			}
		}
		t.Logf("after %d of %d rounds:\n%s", round+1, rounds, costTable(variants).Markdown())
	}
	t.Logf("CPU seconds for 1,000 requests, median and range of %d batches of %d:\n%s", rounds, batch, costTable(variants).Markdown())
}

func costTable(variants []variant) report.Table {
	table := report.Table{Words: 2, Head: []string{"request", "way", "API server", "over the first way", "client"}}
	first := map[string]*variant{}
	for i := range variants {
		v := &variants[i]
		over := ""
		if f := first[v.group]; f == nil {
			first[v.group] = v
		} else {
			var ratios []float64
			for k := range v.seconds {
				ratios = append(ratios, v.seconds[k]/f.seconds[k])
			}
			over = spreadOf(ratios).format("%.2f")
		}
		table.Rows = append(table.Rows, []string{v.group, v.name, spreadOf(v.seconds).format("%.2f"), over, spreadOf(v.own).format("%.2f")})
	}
	return table
}

// variants are all; the first of a group is what the others are compared with.
func (b *bench) variants() []variant {
	token := withToken(b.cluster.Config, b.token)
	impersonating := rest.CopyConfig(b.cluster.Config)
	impersonating.Impersonate.UserName = b.row.user
	raw := func(validation string) sending {
		return func(ctx context.Context, c rest.Interface, pod brief) error {
			body, err := json.Marshal(neverPod(pod.name))
			if err != nil {
				return err
			}
			r := c.Post().Namespace(namespace).Resource("pods").SetHeader("Content-Type", "application/json").Body(body)
			if validation != "" {
				r = r.Param("fieldValidation", validation)
			}
			return r.Do(ctx).Error()
		}
	}
	creation := func(ctx context.Context, c rest.Interface, pod brief) error {
		return c.Post().Namespace(namespace).Resource("pods").Body(neverPod(pod.name)).Do(ctx).Error()
	}
	patch := func(kind types.PatchType, body string) sending {
		return func(ctx context.Context, c rest.Interface, pod brief) error {
			return c.Patch(kind).Namespace(namespace).Resource("pods").Name(pod.name).Body([]byte(body)).Do(ctx).Error()
		}
	}
	read := func(version string) sending {
		return func(ctx context.Context, c rest.Interface, pod brief) error {
			r := c.Get().Namespace(namespace).Resource("pods").Name(pod.name)
			if version != "" {
				r = r.Param("resourceVersion", version)
			}
			return r.Do(ctx).Error()
		}
	}
	return []variant{
		{group: creates, name: "protobuf, token", config: token, send: creation},
		{group: creates, name: "JSON", config: token, send: raw("")},
		{group: creates, name: "JSON, fieldValidation=Ignore", config: token, send: raw("Ignore")},
		{group: creates, name: "protobuf, certificate", config: b.cluster.Config, send: creation},
		{group: creates, name: "protobuf, certificate, impersonation", config: impersonating, send: creation},
		{group: creates, name: "protobuf, token, 64 connections", config: token, connections: 64, send: creation},
		{group: "patch", name: "strategic", config: token, send: patch(types.StrategicMergePatchType, `{"metadata":{"labels":{"hash":"b"}},"spec":{"containers":[{"name":"warm","image":"registry.example/daemon:9"}]}}`)},
		{group: "patch", name: "JSON patch", config: token, send: patch(types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/hash","value":"b"},{"op":"replace","path":"/spec/containers/0/image","value":"registry.example/daemon:9"}]`)},
		{group: "read", name: "newest", config: token, send: read("")},
		{group: "read", name: "from the cache", config: token, send: read("1")},
		{group: "delete", name: "without a precondition", config: token, send: deletion(false)},
		{group: "delete", name: "with the UID", config: token, send: deletion(true)},
	}
}

// deletion deletes a pod, which needs no grace where no node has it.
func deletion(guarded bool) sending {
	return func(ctx context.Context, c rest.Interface, pod brief) error {
		options := metav1.NewDeleteOptions(0)
		if guarded {
			options.Preconditions = metav1.NewUIDPreconditions(string(pod.uid))
		}
		return c.Delete().Namespace(namespace).Resource("pods").Name(pod.name).Body(options).Do(ctx).Error()
	}
}

// neverPod is a pod that no node gets. It is as large as one of the set.
func neverPod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": "never", "hash": "a"}}}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "everynode.dev/never"}}
	pod.Spec.Containers = []corev1.Container{{Name: "warm", Image: imageOf(0)}}
	return pod
}

// play sends one batch, and adds what it has cost.
func (b *bench) play(v *variant) error {
	pods, err := b.batchFor(v)
	if err != nil {
		return err
	}
	pids, err := b.pids()
	if err != nil {
		return err
	}
	server, err := readUsage(pids[apiServer])
	own, err2 := readUsage(os.Getpid())
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	var jobs []job
	for _, pod := range pods {
		jobs = append(jobs, func(ctx context.Context, c rest.Interface) error { return v.send(ctx, c, pod) })
	}
	if err := v.client.run(b.ctx, jobs); err != nil {
		return err
	}
	server2, err := readUsage(pids[apiServer])
	own2, err2 := readUsage(os.Getpid())
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	const thousand = 1000.0
	v.seconds = append(v.seconds, (server2.CPU-server.CPU)*thousand/batch)
	v.own = append(v.own, (own2.CPU-own.CPU)*thousand/batch)
	return nil
}

// batchFor are the pods of a batch, which are there already but for creates. What an earlier one has left is deleted.
func (b *bench) batchFor(v *variant) ([]brief, error) {
	pods := b.cluster.Client.CoreV1().Pods(namespace)
	err := pods.DeleteCollection(b.ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("deleting the pods of the batch before: %w", err)
	}
	list := make([]brief, batch)
	var group errgroup.Group
	group.SetLimit(v.client.atOnce)
	for i := range list {
		list[i].name = "never-" + strconv.Itoa(i)
		if v.group == creates {
			continue
		}
		group.Go(func() error {
			made, err := pods.Create(b.ctx, neverPod(list[i].name), metav1.CreateOptions{})
			if err == nil {
				list[i].uid = made.UID
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("creating the pods of a batch: %w", err)
	}
	if err := b.settle(); err != nil {
		return nil, err
	}
	// What was allocated before is no cost of this batch: with gc the profile of the heap is made after a collection.
	if err := b.cluster.Client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(b.ctx).Error(); err != nil {
		return nil, fmt.Errorf("having the API server collect its garbage: %w", err)
	}
	return list, nil
}
