// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/test/harness"
)

// namespace is where everything is, and setName the only set.
const (
	namespace = "bench"
	setName   = "daemon"
	budget    = "10%"
)

// apiServer is the component of the plane that answers, and kubelets the one of the nodes.
const (
	apiServer = "kube-apiserver"
	kubelets  = "kwok"
)

// bench is one row at work on a plane of its own.
type bench struct {
	ctx      context.Context
	cluster  *harness.Cluster
	sets     dynamic.ResourceInterface
	row      row
	metrics  string // where the manager serves them
	nodes    []string
	crowd    *crowd
	client   *floorClient // nil where there is a controller
	token    string       // of the user of the row; empty for the native controller, which has its own
	profiled bool         // whether profiles are to be kept
	round    int          // how often everything was measured before
	image    int          // the number of the newest image
	from     start
	took     []string // what came before, and how long it took
}

// newBench starts a plane with nodes that are Ready and with no set.
func newBench(t *testing.T, ctx context.Context, w row, nodes int) *bench { //nolint:revive // the test comes first, as in every helper
	t.Helper()
	began := time.Now()
	metrics, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := harness.Start(ctx, w.options(nodes, metrics))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	b := &bench{ctx: ctx, cluster: cluster, row: w, metrics: metrics}
	if err := b.prepare(nodes); err != nil {
		t.Fatalf("preparing the plane: %v\n%s", err, b.tails())
	}
	t.Logf("%d nodes, ready to measure after %s: %s", nodes, time.Since(began).Round(time.Second), strings.Join(b.took, ", "))
	return b
}

func (b *bench) prepare(nodes int) error {
	anything, err := dynamic.NewForConfig(b.cluster.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	kind := b.set().GroupVersionKind()
	b.sets = anything.Resource(kind.GroupVersion().WithResource("daemonsets")).Namespace(namespace)
	_, err = b.cluster.Client.CoreV1().Namespaces().Create(b.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	if err := installKinds(b.ctx, b.cluster.Client); err != nil {
		return fmt.Errorf("having the API server count: %w", err)
	}
	if err := tellEnds(b.ctx, b.cluster.Client); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		take func() error
	}{
		{"waiting until all nodes are Ready", func() error { return b.awaitNodes(nodes) }},
		{"giving the row its token", b.authenticate},
		{"stopping everybody who watches pods", b.stop},
		{"warming the API server up", b.warm},
		{"having all clients watch again", b.resume},
		{"waiting until nodes are written no more", b.awaitCalm},
	} {
		began := time.Now()
		if err := step.take(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		b.took = append(b.took, fmt.Sprintf("%s %.1f s", step.what, time.Since(began).Seconds()))
	}
	if b.crowd, err = newCrowd(b.ctx, b.cluster.Config, namespace); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	if b.row.floor() {
		b.client, err = newFloorClient(withToken(b.cluster.Config, b.token), fastest())
	}
	return err
}

// awaitNodes returns when that many nodes are Ready, and pods can be created.
func (b *bench) awaitNodes(nodes int) error {
	err := wait.PollUntilContextTimeout(b.ctx, time.Second, notBy, true, func(ctx context.Context) (bool, error) {
		status, err := b.cluster.Plane.Status(ctx)
		if err != nil || status.Nodes == nil || status.Nodes.Ready < nodes {
			return false, err
		}
		_, err = b.cluster.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil // it is made a moment after the namespace
	})
	if err != nil {
		return fmt.Errorf("waiting until %d nodes are Ready: %w", nodes, err)
	}
	list, err := b.cluster.Client.CoreV1().Nodes().List(b.ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		b.nodes = append(b.nodes, list.Items[i].Name)
	}
	return nil
}

// warm creates pods that no node gets, and deletes them. An API server sizes the buffers of watches by what it has seen, so a new one ends
// the watches of readers that are behind by ten events, and they begin anew after a second.
func (b *bench) warm() error {
	const most, perNode, atOnce = 4000, 4, 32
	pods := min(most, perNode*len(b.nodes))
	config := rest.CopyConfig(b.cluster.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "warm-", Namespace: namespace}}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "everynode.dev/never"}}
	pod.Spec.Containers = []corev1.Container{{Name: "warm", Image: imageOf(0)}}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for range pods {
		group.Go(func() error {
			made, err := client.CoreV1().Pods(namespace).Create(b.ctx, pod, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			return client.CoreV1().Pods(namespace).Delete(b.ctx, made.Name, *metav1.NewDeleteOptions(0))
		})
	}
	return group.Wait()
}

// watchers are the components that watch pods, without the simulated kubelets, whose heartbeats must not stop: nodes that missed some would get
// taints in the first scenario.
func (b *bench) watchers() ([]string, error) {
	pids, err := b.pids()
	if err != nil {
		return nil, err
	}
	delete(pids, apiServer)
	delete(pids, "etcd")
	delete(pids, kubelets)
	return slices.Sorted(maps.Keys(pids)), nil
}

// stop ends everything that watches pods: a watch keeps the buffer that it began with, however much the API server has seen since. The watch of the
// measurement itself begins later. While the API server is warmed up no client has to read what that writes. There is no set yet, so no manager has
// to wait for the lease of the one before it.
func (b *bench) stop() error {
	watchers, err := b.watchers()
	if err != nil {
		return err
	}
	for _, name := range watchers {
		if err := b.cluster.Plane.KillComponent(b.ctx, name); err != nil {
			return err
		}
	}
	if !b.row.managed() {
		return nil
	}
	list := b.cluster.Client.CoordinationV1().Leases(everynode.Namespace)
	if err := list.DeleteCollection(b.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting the lease of the manager: %w", err)
	}
	return nil
}

// resume starts it again, all at once.
func (b *bench) resume() error {
	watchers, err := b.watchers()
	if err != nil {
		return err
	}
	if err := b.cluster.Plane.KillComponent(b.ctx, kubelets); err != nil {
		return err
	}
	began := time.Now()
	var group errgroup.Group
	for _, name := range append(watchers, kubelets) {
		group.Go(func() error { return b.cluster.Plane.StartComponent(b.ctx, name) })
	}
	if err := group.Wait(); err != nil || b.row.floor() {
		return err
	}
	err = wait.PollUntilContextTimeout(b.ctx, 100*time.Millisecond, notBy, true, func(context.Context) (bool, error) {
		_, err := cachesFull(b.cluster.Log(b.row.component()), began)
		return err == nil, nil //nolint:nilerr // it is not there yet
	})
	if err != nil {
		return fmt.Errorf("waiting until the controller has read the cluster: %w\n%s", err, b.tails())
	}
	return nil
}

// awaitCalm returns when nodes are written no more often than heartbeats explain: what follows their becoming Ready, of taints and
// addresses, would be a load of the first scenario.
func (b *bench) awaitCalm() error {
	const between, patience, share = time.Second, 5 * time.Minute, 20
	var last counts
	err := wait.PollUntilContextTimeout(b.ctx, between, patience, true, func(ctx context.Context) (bool, error) {
		now, err := readCounts(ctx, b.cluster.Client)
		calm := last.Watched != nil && now.since(last).Watched["nodes"] <= len(b.nodes)/share
		last = now
		return calm, err
	})
	if err != nil {
		return fmt.Errorf("waiting until nodes are written no more: %w", err)
	}
	return nil
}

// imageOf is the image of that number.
func imageOf(number int) string { return fmt.Sprintf("registry.example/daemon:%d", number) }

// set is the set as it is created.
func (b *bench) set() *unstructured.Unstructured {
	rolling := map[string]any{"maxUnavailable": budget}
	if b.row.advanced && b.row.inPlace {
		rolling["rollingUpdateType"] = "InPlaceIfPossible"
	}
	labels := map[string]any{"app": setName}
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": setName, "namespace": namespace},
		"spec": map[string]any{
			"selector":       map[string]any{"matchLabels": labels},
			"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": rolling},
			"template":       b.template(),
		},
	}}
	if b.row.advanced {
		set.SetAPIVersion("apps.kruise.io/v1beta1")
	}
	return set
}

// template is that of the newest image.
func (b *bench) template() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": setName}},
		"spec": map[string]any{
			"terminationGracePeriodSeconds": int64(1),
			"containers":                    []any{map[string]any{"name": "daemon", "image": imageOf(b.image)}},
		},
	}
}

// order creates the set, or gives it the next image, and has the floor do what a controller would; skip are nodes that cannot be reached.
func (b *bench) order(skip map[string]bool) (generation int64, err error) {
	b.image++
	b.crowd.aim(imageOf(b.image))
	var set *unstructured.Unstructured
	if b.image == 1 {
		set, err = b.sets.Create(b.ctx, b.set(), metav1.CreateOptions{})
	} else {
		patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, imageOf(b.image))
		set, err = b.sets.Patch(b.ctx, setName, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	}
	if err != nil {
		return 0, fmt.Errorf("writing the set: %w", err)
	}
	if b.client != nil {
		return set.GetGeneration(), b.client.carryOut(b, set, skip)
	}
	return set.GetGeneration(), nil
}

// awaitStatus returns when the status of the set says that all is done, which a floor does not have.
func (b *bench) awaitStatus(generation int64, nodes int) error {
	if b.row.floor() {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, notBy)
	defer cancel()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return b.sets.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return b.sets.Watch(ctx, o)
		},
	}
	last := ""
	_, err := toolswatch.UntilWithSync(ctx, source, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		set, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return false, nil
		}
		raw, err := json.Marshal(set.Object["status"])
		last = string(raw)
		return err == nil && complete(set, generation, int64(nodes)), err
	})
	if err != nil {
		return fmt.Errorf("waiting until the status of the set says that all is done: %w; it says %s", err, last)
	}
	return nil
}

func complete(set *unstructured.Unstructured, generation, nodes int64) bool {
	number := func(field string) int64 {
		n, _, err := unstructured.NestedInt64(set.Object, "status", field)
		if err != nil {
			return 0
		}
		return n
	}
	return number("observedGeneration") >= generation && number("desiredNumberScheduled") == nodes &&
		number("updatedNumberScheduled") == nodes && number("numberReady") == nodes && number("numberAvailable") == nodes
}

// start is what was read when a scenario began.
type start struct {
	at         time.Time
	counts     counts
	pids       map[string]int
	controller usage
	server     usage
	machine    machineUsage
	log        int   // how long the API server's log was
	before     usage // what a controller had used of it that was killed since
}

// begin waits until all is calm, and begins to measure.
func (b *bench) begin() error {
	if err := b.settle(); err != nil {
		return err
	}
	pids, err := b.pids()
	if err != nil {
		return err
	}
	b.from = start{pids: pids, log: len(b.cluster.Log(apiServer))}
	if !b.row.floor() {
		if err := forgetPeak(pids[b.row.component()]); err != nil {
			return err
		}
	}
	if b.from.counts, err = readCounts(b.ctx, b.cluster.Client); err != nil {
		return err
	}
	b.crowd.forgetWrites()
	if b.from.machine, err = readMachine(); err != nil {
		return err
	}
	b.from.controller, b.from.server, err = b.usages()
	b.from.at = time.Now()
	return err
}

// settle returns when the controller has sent what it had to send, events included.
func (b *bench) settle() error {
	const between, patience = time.Second, 2 * time.Minute
	var last counts
	err := wait.PollUntilContextTimeout(b.ctx, between, patience, true, func(ctx context.Context) (bool, error) {
		now, err := readCounts(ctx, b.cluster.Client)
		calm := last.Requests != nil && now.settled(last)
		last = now
		return calm, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the controller is calm: %w", err)
	}
	return nil
}

func (b *bench) pids() (map[string]int, error) {
	status, err := b.cluster.Plane.Status(b.ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the processes of the plane: %w", err)
	}
	pids := map[string]int{}
	for _, c := range status.Components {
		pids[c.Name] = c.PID
	}
	return pids, nil
}

func (b *bench) usages() (controller, server usage, err error) {
	if b.row.floor() { // it is this process, which watches pods besides, as a controller would
		controller, err = readUsage(os.Getpid())
	} else {
		controller, err = readUsage(b.from.pids[b.row.component()])
	}
	if err != nil {
		return controller, server, err
	}
	server, err = readUsage(b.from.pids[apiServer])
	return controller, server, err
}

// end finishes a measurement that began with begin.
func (b *bench) end(scenario string) (*result, error) {
	took := time.Since(b.from.at)
	controller, server, err := b.usages()
	if err != nil {
		return nil, err
	}
	machine, err := readMachine()
	if err != nil {
		return nil, err
	}
	// What the scenario was the reason of belongs to it, be it a moment late.
	if err := b.settle(); err != nil {
		return nil, err
	}
	now, err := readCounts(b.ctx, b.cluster.Client)
	if err != nil {
		return nil, err
	}
	log := b.cluster.Log(apiServer)
	used, counted := controller.since(b.from.controller).and(b.from.before), now.since(b.from.counts)
	return &result{
		Row: b.row.Name, Nodes: len(b.nodes), Scenario: scenario, Round: b.round, Whole: took.Seconds(), Served: counted.Served,
		ControllerCPU: used.CPU, APIServerCPU: server.since(b.from.server).CPU, PeakMemory: used.Peak, Read: used.Read,
		Requests: counted.Requests, Rejected: counted.Rejected, Watched: counted.Watched, PodEvents: counted.PodEvents, EndedWatches: counted.Ended,
		Cores: machine.share(b.from.machine, took.Seconds()), NodeWrites: &counted.Nodes, EndedOf: endedOf(log[min(b.from.log, len(log)):]),
	}, nil
}

// kill ends the controller with SIGKILL; what it has used is kept.
func (b *bench) kill() error {
	controller, _, err := b.usages()
	if err != nil {
		return err
	}
	b.from.before = controller.since(b.from.controller)
	return b.cluster.Plane.KillComponent(b.ctx, b.row.component())
}

// revive starts it again.
func (b *bench) revive() error {
	if err := b.cluster.Plane.StartComponent(b.ctx, b.row.component()); err != nil {
		return err
	}
	pids, err := b.pids()
	b.from.pids, b.from.controller = pids, usage{}
	return err
}

// tails are the ends of the logs that may say what went wrong.
func (b *bench) tails() string {
	if b.row.floor() {
		return ""
	}
	log := strings.Split(strings.TrimSpace(b.cluster.Log(b.row.component())), "\n")
	const lines = 15
	return strings.Join(log[max(0, len(log)-lines):], "\n")
}
