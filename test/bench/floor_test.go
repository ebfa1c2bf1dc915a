// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/podtemplate"
	"everynode.dev/everynode/test/report"
)

// way is how a plain client sends its writes. The floor's is the one that costs least of those in costs_test.go.
type way struct {
	connections int
	atOnce      int // how many writes are under way, on all connections together
}

func fastest() way { return way{connections: 1, atOnce: 64} }

// cycles is how many single nodes are replaced to find out how long one takes.
const cycles = 5

// floorClient does what a controller has to write, and decides nothing: for each node of a roll it deletes the pod and creates another
// one, or changes it in place, without any budget. It looks at no answer but for errors.
type floorClient struct {
	connections []rest.Interface
	atOnce      int
	template    *corev1.Pod // a pod for no node
	number      int         // of the image
}

// job is something that is done on one connection.
type job func(ctx context.Context, client rest.Interface) error

// newFloorClient makes a client of the user of that configuration, which authenticates like the controllers.
func newFloorClient(config *rest.Config, how way) (*floorClient, error) {
	f := &floorClient{atOnce: how.atOnce}
	for range how.connections {
		client, err := newConnection(config)
		if err != nil {
			return nil, err
		}
		f.connections = append(f.connections, client.CoreV1().RESTClient())
	}
	return f, nil
}

// newConnection makes a client with a connection of its own and no limit.
func newConnection(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.DisableCompression = true          // as controllers do
	config.Dial = (&net.Dialer{}).DialContext // a configuration with a dialer shares its connections with no other
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// carryOut writes what the newest template of the set wants, and returns when all is written. Nodes to skip are left alone.
func (f *floorClient) carryOut(b *bench, set *unstructured.Unstructured, skip map[string]bool) error {
	if err := f.prepare(b, set); err != nil {
		return err
	}
	have := map[string]brief{}
	for _, pod := range b.crowd.list() {
		have[pod.node] = pod
	}
	var jobs []job
	for _, node := range b.nodes {
		if skip[node] {
			continue
		}
		pod, exists := have[node]
		switch {
		case !exists:
			jobs = append(jobs, f.creation(node))
		case b.row.inPlace:
			jobs = append(jobs, f.change(pod))
		default:
			jobs = append(jobs, f.replacement(pod))
		}
	}
	return f.run(b.ctx, jobs)
}

// prepare makes pods as a controller makes them from this set.
func (f *floorClient) prepare(b *bench, set *unstructured.Unstructured) error {
	template := b.template()
	spec, _ := template["spec"].(map[string]any)
	rules, err := placement.Compile(spec)
	if err != nil {
		return fmt.Errorf("reading the template: %w", err)
	}
	f.number = b.image
	generation := int64(f.number)
	made := podtemplate.NewMaker(template, rules).Pod(podtemplate.Params{
		Namespace: namespace, SetName: setName, Hash: fmt.Sprintf("%010d", f.number), TemplateGeneration: &generation,
		Owner: *metav1.NewControllerRef(set, set.GroupVersionKind()),
	})
	f.template = &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, f.template); err != nil {
		return fmt.Errorf("making a pod: %w", err)
	}
	return nil
}

// pod is the one of a node. It shares what is the same with all others.
func (f *floorClient) pod(node string) *corev1.Pod {
	pod := *f.template
	pod.Name = fmt.Sprintf("%s-%s-%d", setName, node, f.number)
	pod.Spec.Affinity = pod.Spec.Affinity.DeepCopy()
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for i := range term.MatchFields {
			term.MatchFields[i].Values = []string{node}
		}
	}
	return &pod
}

// creation creates the pod of a node.
func (f *floorClient) creation(node string) job {
	return func(ctx context.Context, client rest.Interface) error {
		if err := client.Post().Namespace(namespace).Resource("pods").Body(f.pod(node)).Do(ctx).Error(); err != nil {
			return fmt.Errorf("creating a pod: %w", err)
		}
		return nil
	}
}

func (f *floorClient) replacement(old brief) job {
	creation := f.creation(old.node)
	return func(ctx context.Context, client rest.Interface) error {
		if err := client.Delete().Namespace(namespace).Resource("pods").Name(old.name).Do(ctx).Error(); err != nil {
			return fmt.Errorf("deleting a pod: %w", err)
		}
		return creation(ctx, client)
	}
}

// change changes the image of a pod.
func (f *floorClient) change(old brief) job {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"controller-revision-hash":"%010d"}},"spec":{"containers":[{"name":"daemon","image":%q}]}}`, f.number, imageOf(f.number))
	return func(ctx context.Context, client rest.Interface) error {
		err := client.Patch(types.StrategicMergePatchType).Namespace(namespace).Resource("pods").Name(old.name).Body([]byte(patch)).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("changing the image of a pod: %w", err)
		}
		return nil
	}
}

// run does the jobs on all connections, and returns when all have ended.
func (f *floorClient) run(ctx context.Context, jobs []job) error {
	waiting := make(chan job, len(jobs))
	for _, next := range jobs {
		waiting <- next
	}
	close(waiting)
	group, ctx := errgroup.WithContext(ctx)
	for i := range f.atOnce {
		client := f.connections[i%len(f.connections)]
		group.Go(func() error {
			for next := range waiting {
				if err := next(ctx, client); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// cycle is how long one node takes from the first write to a pod that is new and ready, with nothing else going on: the median of a few.
func (f *floorClient) cycle(b *bench) (float64, error) {
	set, err := b.sets.Get(b.ctx, setName, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading the set: %w", err)
	}
	skip := map[string]bool{}
	for _, node := range b.nodes {
		skip[node] = true
	}
	var times []time.Duration
	for i := range cycles {
		delete(skip, b.nodes[i])
		b.image++
		b.crowd.aim(imageOf(b.image))
		began := time.Now()
		if err := f.carryOut(b, set, skip); err != nil {
			return 0, err
		}
		done, err := b.crowd.await(b.ctx, "a pod is new and ready", b.crowd.some(1))
		if err != nil {
			return 0, err
		}
		times = append(times, done.Sub(began))
		skip[b.nodes[i]] = true
	}
	return report.Summarize(times).Median.Seconds(), nil
}

// encode is JSON of what can be written as such.
func encode(what any) ([]byte, error) {
	raw, err := json.Marshal(what)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return raw, nil
}
