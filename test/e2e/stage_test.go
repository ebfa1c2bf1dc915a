// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/test/harness"
)

// set is the name of the set of a test, and of its container.
const set = "app"

// Images of the plane's registry.
const (
	repository = "registry.local/app"
	one        = repository + ":v1"
	two        = repository + ":v2"
	three      = repository + ":v3"
	broken     = repository + ":broken" // its container cannot be started
	crashing   = repository + ":crash"  // it ends right after its start
)

// stage is where a test plays: a namespace with all nodes, and a set on them.
type stage struct {
	*harness.Space
	t    *testing.T
	kind kind
}

// kind is a kind of set with a way to roll it.
type kind struct {
	name     string
	resource schema.GroupVersionResource
	// annotations and strategy are what makes it roll like that.
	annotations map[string]string
	strategy    string
	inPlace     bool
}

func native() schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource("daemonsets")
}
func advanced() schema.GroupVersionResource {
	return v1beta1.GroupVersion().WithResource(kruise.Resource)
}

const onDelete = `{"type": "OnDelete"}`

func nativeRoll() kind {
	return kind{name: "native", resource: native(), strategy: `{"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}`}
}

// nativeSurge has two pods on a node for a while; their application must be without a lock.
func nativeSurge() kind {
	return kind{name: "native-surge", resource: native(), strategy: `{"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}`}
}

func advancedRecreate() kind {
	return kind{
		name: "advanced-recreate", resource: advanced(),
		strategy: `{"type": "RollingUpdate", "rollingUpdate": {"rollingUpdateType": "Standard", "maxUnavailable": 1}}`,
	}
}

func advancedInPlace() kind {
	return kind{
		name: "advanced-in-place", resource: advanced(), inPlace: true,
		strategy: `{"type": "RollingUpdate", "rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1}}`,
	}
}

func openYurt() kind {
	return kind{
		name: "openyurt", resource: native(), strategy: onDelete,
		annotations: map[string]string{"apps.openyurt.io/update-strategy": "AdvancedRollingUpdate", "apps.openyurt.io/max-unavailable": "1"},
	}
}

// newStage gives a test a namespace with all nodes.
func newStage(t *testing.T, k kind) *stage {
	t.Helper()
	return &stage{Space: shared.Cluster(t).Space(t, count), t: t, kind: k}
}

// sets is the client for sets of the stage's kind.
func (s *stage) sets() dynamic.ResourceInterface {
	return s.Cluster.Dynamic.Resource(s.kind.resource).Namespace(s.Name)
}

// create creates the set.
func (s *stage) create(edits ...harness.Edit) int64 {
	s.t.Helper()
	native := s.NewSet(set, append([]harness.Edit{application(s.Name)}, edits...)...)
	for key, value := range s.kind.annotations {
		harness.WithAnnotation(key, value)(native)
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	raw, err := json.Marshal(native)
	if err = errors.Join(err, json.Unmarshal(raw, &object.Object)); err != nil {
		s.t.Fatal(err)
	}
	var strategy map[string]any
	if err := json.Unmarshal([]byte(s.kind.strategy), &strategy); err != nil {
		s.t.Fatal(err)
	}
	object.SetGroupVersionKind(s.kind.resource.GroupVersion().WithKind("DaemonSet"))
	object.Object["spec"].(map[string]any)["updateStrategy"] = strategy
	delete(object.Object, "status")
	created, err := s.sets().Create(s.Context(), object, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("creating a set: %v", err)
	}
	return created.GetGeneration()
}

// run creates the set and waits until it runs everywhere.
func (s *stage) run(edits ...harness.Edit) {
	s.t.Helper()
	generation := s.create(edits...)
	s.Wait("the set runs on all nodes", harness.RolledOut(set, generation, count))
}

// change merges a patch into the set, and returns its generation.
func (s *stage) change(patch string) int64 {
	s.t.Helper()
	return s.patch(types.MergePatchType, patch)
}

func (s *stage) patch(kind types.PatchType, patch string) int64 {
	s.t.Helper()
	changed, err := s.sets().Patch(s.Context(), set, kind, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.t.Fatalf("changing the set by %s: %v", patch, err)
	}
	return changed.GetGeneration()
}

// order gives the set's first container another image, and does not wait.
func (s *stage) order(image string) int64 {
	s.t.Helper()
	return s.patch(types.JSONPatchType, fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, image))
}

// rolled waits until all nodes have that generation of the set, with that image.
func (s *stage) rolled(generation int64, image string) {
	s.t.Helper()
	s.Wait("all nodes run "+image, harness.RolledOut(set, generation, count), harness.EachPod(set, "on image "+image, runs(image)))
}

// roll gives the set another image and waits until all nodes have it.
func (s *stage) roll(image string) {
	s.t.Helper()
	s.rolled(s.order(image), image)
}

// runs is whether the first container of a pod has that image.
func runs(image string) func(pod *corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == image }
}

// pods are the pods of the set by node; there is one on each.
func (s *stage) pods() map[string]*corev1.Pod {
	s.t.Helper()
	pods := map[string]*corev1.Pod{}
	for _, node := range s.Nodes {
		if pods[node] = s.View().PodOn(set, node); pods[node] == nil {
			s.t.Fatalf("node %s has no pod\n%s", node, s.View().Describe())
		}
	}
	return pods
}

// restarts is how often a container of a pod was started again.
func restarts(pod *corev1.Pod, container string) int32 { return statusOf(pod, container).RestartCount }

func statusOf(pod *corev1.Pod, container string) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// nodeIs is met when the node is Ready, or is not.
func nodeIs(name string, ready bool) harness.Condition {
	return func(v harness.View) error {
		for _, c := range v.Node(name).Status.Conditions {
			if c.Type == corev1.NodeReady && (c.Status == corev1.ConditionTrue) == ready {
				return nil
			}
		}
		return fmt.Errorf("node %s: Ready is not %t", name, ready)
	}
}

// cut cuts nodes off until heal, or the end of the test, and waits until they are not ready.
func (s *stage) cut(nodes ...string) {
	s.t.Helper()
	for _, node := range nodes {
		s.mended(node, s.Cluster.Plane.HealNode)
		s.CutNode(node)
	}
	for _, node := range nodes {
		s.Wait(node+" is not ready", nodeIs(node, false))
	}
}

// heal connects nodes again and waits until they are ready.
func (s *stage) heal(nodes ...string) {
	s.t.Helper()
	for _, node := range nodes {
		s.HealNode(node)
	}
	for _, node := range nodes {
		s.Wait(node+" is ready", nodeIs(node, true))
	}
}

// powerOff ends everything on a node at once until powerOn, or the end of the test.
func (s *stage) powerOff(node string) {
	s.t.Helper()
	s.mended(node, s.Cluster.Plane.StartNode)
	if err := s.Cluster.Plane.KillNode(s.Context(), node); err != nil {
		s.t.Fatal(err)
	}
	s.Wait(node+" is not ready", nodeIs(node, false))
}

func (s *stage) powerOn(node string) {
	s.t.Helper()
	if err := s.Cluster.Plane.StartNode(s.Context(), node); err != nil {
		s.t.Fatal(err)
	}
	s.Wait(node+" is ready", nodeIs(node, true))
}

// mended has a node mended when the test ends, so that the next one finds it ready.
func (s *stage) mended(node string, mend func(context.Context, string) error) {
	s.atEnd("mending node "+node, func(ctx context.Context) error {
		if err := mend(ctx, node); err != nil {
			return err
		}
		return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			now, err := s.Cluster.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			return err == nil && ready(now), nil
		})
	})
}

// atEnd has something done when the test ends, before the nodes are given back.
func (s *stage) atEnd(what string, do func(ctx context.Context) error) {
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := do(ctx); err != nil {
			s.t.Errorf("%s: %v", what, err)
		}
	})
}

// ready is whether a node is Ready, and without the taints of one that was not.
func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}

// service makes a Service in front of the pods of the set, and returns its URL. A local one leads to the pod of the node where it is asked.
func (s *stage) service(policy corev1.ServiceInternalTrafficPolicy) string {
	s.t.Helper()
	service, err := s.Cluster.Client.CoreV1().Services(s.Name).Create(s.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: set},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": set}, InternalTrafficPolicy: &policy,
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(port)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("creating a service: %v", err)
	}
	return "http://" + service.Spec.ClusterIP + "/"
}
