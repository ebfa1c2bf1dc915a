// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/dialect/base"
	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/test/harness"
)

// comeBackFirst is the namespace whose sets may hold nodes, comeBackRole the right for that, and comeBackManifest what the pods must tolerate.
const (
	comeBackFirst    = "come-back-first"
	comeBackRole     = "everynode-manager-come-back-first"
	comeBackManifest = `{metadata: {annotations: {everynode.dev/come-back-first-seconds: "600"}}, spec: {template: {spec: {tolerations: [{key: everynode.dev/waits-for-daemon-pods, operator: Exists}]}}}}`
)

// TestComeBackFirst: a node that was off and comes back gets no pod of another workload before the pod of a set that asks for that is ready there.
func TestComeBackFirst(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: comeBackFirst}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := &stage{Space: c.SpaceIn(t, comeBackFirst, 1), t: t, name: name}
	s.start(agent)
	node := s.Nodes[0]
	s.run(comeBackManifest)
	s.Wait("nothing is ignored", harness.ConditionIs(s.name, kruisedialect.Degraded, corev1.ConditionFalse, kruisedialect.ReasonAsExpected))
	before := s.pod(node)

	s.CutNode(node)
	s.Wait("other pods are held back from the node", holds(node, true))
	other := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: other}
spec: {nodeSelector: {%s: %s}, containers: [{name: other, image: "registry.example/agent:1"}]}`, harness.PoolLabel, s.Name)
	if out, err := s.KubectlWith(other, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.recorder.Excuse(before.UID)
	s.Kubectl("delete", "pod", before.Name, "--force", "--grace-period=0") // what was on the node has ended with it
	s.apply(withImage(broken))
	s.HealNode(node)
	s.Wait("the node is ready, and the new pod on it is not", func(v harness.View) error {
		if n, pod := v.Node(node), v.PodOn(name, node); n == nil || len(n.Spec.Taints) != 1 || pod == nil || pod.UID == before.UID || len(pod.Status.ContainerStatuses) == 0 {
			return errors.New("the node is not ready, or has no pod")
		}
		return nil
	}, holds(node, true), repelled("other"))

	s.roll(one)
	s.Wait("the node takes other pods", holds(node, false), func(v harness.View) error {
		for _, pod := range v.AllPods() {
			if pod.Name == "other" && pod.Spec.NodeName == node && harness.Ready(pod) {
				return nil
			}
		}
		return errors.New("the other pod does not run")
	})
	s.Kubectl("delete", "ads", s.name)
	s.Kubectl("delete", "pod", "other")
}

// TestComeBackFirstElsewhere: a set of a namespace that the flag of the manager does not name learns that its annotation has no effect.
func TestComeBackFirstElsewhere(t *testing.T) {
	t.Parallel()
	s := newStage(t, cluster(t), 1)
	s.run(comeBackManifest)
	s.Wait("the annotation is ignored", harness.ConditionIs(s.name, kruisedialect.Degraded, corev1.ConditionTrue, base.ReasonIgnoredField))
}

// bindComeBack gives the managers of the plane the right to hold nodes, as an administrator does.
func bindComeBack(t *testing.T, c *harness.Cluster) {
	t.Helper()
	_, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: comeBackRole},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: comeBackRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "everynode-system", Name: "everynode-manager"}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// holds is met when the node has the taint, or has not.
func holds(node string, want bool) harness.Condition {
	return func(v harness.View) error {
		n := v.Node(node)
		if n == nil {
			return fmt.Errorf("there is no node %s", node)
		}
		for _, taint := range n.Spec.Taints {
			if taint.Key == everynode.HoldKey {
				if want {
					return nil
				}
				return fmt.Errorf("node %s is held", node)
			}
		}
		if want {
			return fmt.Errorf("node %s is not held", node)
		}
		return nil
	}
}

// repelled is met when the scheduler says that taints keep a pod from its nodes.
func repelled(name string) harness.Condition {
	return func(v harness.View) error {
		for _, pod := range v.AllPods() {
			if pod.Name != name {
				continue
			}
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "untolerated taint") {
					return nil
				}
			}
		}
		return fmt.Errorf("pod %s does not wait for a taint to go", name)
	}
}
