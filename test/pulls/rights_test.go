// SPDX-License-Identifier: Apache-2.0

package pulls

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/config"
	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

// TestRights: who may write and read what, and where agents run, on a plane with the shipped manifests.
func TestRights(t *testing.T) {
	const few = 4
	w := newWorld(t, few, "--pull-secret-namespaces=team")
	kube, err := kubernetes.NewForConfig(w.plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a simulated agent writes about its own node alone", func(t *testing.T) { w.agentsAreConfined(t, kube) })
	t.Run("secrets are copied from listed namespaces alone", func(t *testing.T) { w.secretsAreCopied(t, kube, few) })
	t.Run("the shipped DaemonSet runs on every node", func(t *testing.T) { w.agentsRunEverywhere(t, kube, few) })
}

// agentsAreConfined writes as the agent of one node of the simulation does, with its code.
func (w *world) agentsAreConfined(t *testing.T, kube kubernetes.Interface) {
	agents, err := simkubelet.NewAgents(w.plane.RESTConfig(), kube)
	if err != nil {
		t.Fatal(err)
	}
	node, err := kube.CoreV1().Nodes().Get(t.Context(), "node-0001", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := agents.Identify(t.Context(), simkubelet.Identity{}, node, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agents.WriteStatus(t.Context(), own, "node-0001", []byte(`{"status":{"desired":0}}`)); err != nil {
		t.Errorf("the status of its own node: %v", err)
	}
	// The policy is at work a while after it was applied.
	const refusal = "the agent of node node-0001 may not write the NodeImage node-0002"
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		_, err = agents.WriteStatus(t.Context(), own, "node-0002", []byte(`{"status":{"desired":7}}`))
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), refusal) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the status of another node: %v", err)
		}
	}
	// The simulation itself may not write them at all, so its agents write as themselves.
	for user, may := range map[string]bool{"localplane:kwok": false, "system:serviceaccount:everynode-agents:everynode-agent": true} {
		review, err := kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: []string{"system:nodes", "system:authenticated"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: "apps.kruise.io", Resource: kruise.ResourceNodeImage, Subresource: "status", Verb: "patch", Name: "node-0001",
			}},
		}, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed != may {
			t.Errorf("%s may write: %+v, %v", user, review, err)
		}
	}
}

// secretsAreCopied runs one job with a pull secret in a namespace that the manager may copy from, and one in another.
func (w *world) secretsAreCopied(t *testing.T, kube kubernetes.Interface, nodes int32) {
	for _, namespace := range []string{"team", "other"} {
		w.pullWithSecret(t, kube, namespace)
	}
	await(t, w, &v1beta1.ImagePullJobList{}, "one job to end and one to be held", func(l *v1beta1.ImagePullJobList) bool {
		return slices.ContainsFunc(l.Items, func(j v1beta1.ImagePullJob) bool { return j.Namespace == "team" && j.Status.Succeeded == nodes }) &&
			slices.ContainsFunc(l.Items, func(j v1beta1.ImagePullJob) bool {
				return j.Namespace == "other" && j.Status.Active+j.Status.Succeeded == 0 &&
					strings.Contains(j.Status.Message, "pull secrets of the namespace other may not be given to nodes: add it to pullSecretNamespaces")
			})
	})
	copies, err := kube.CoreV1().Secrets(kruise.PullNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(copies.Items) != 1 || copies.Items[0].Annotations[kruise.PullSecretSource] != "team/registry" {
		t.Fatalf("the copies are %+v, %v", copies, err)
	}
	if got := string(copies.Items[0].Data[corev1.DockerConfigJsonKey]); got != dockerConfig {
		t.Errorf("the copy holds %s", got)
	}
}

const dockerConfig = `{"auths":{"registry.local":{"username":"ann","password":"p"}}}`

// pullWithSecret makes a namespace with a secret that the manager could read, and a job that names it.
func (w *world) pullWithSecret(t *testing.T, kube kubernetes.Interface, namespace string) {
	t.Helper()
	create := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	create(w.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	create(w.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(dockerConfig)},
	}))
	w.byHand = append(w.byHand, harness.RoleName("ClusterRole", namespace, "everynode-manager-read-pull-secrets"))
	_, err := kube.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everynode"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "everynode-manager-read-pull-secrets"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "everynode-system", Name: "everynode-manager"}},
	}, metav1.CreateOptions{})
	create(err)
	create(w.Create(ctx, &v1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pull"},
		Spec:       v1beta1.ImagePullJobSpec{Image: "registry.local/" + namespace + ":1", PullSecrets: []string{"registry"}},
	}))
}

// agentsRunEverywhere: the shipped DaemonSet has a pod on every node, whatever keeps others off it.
func (w *world) agentsRunEverywhere(t *testing.T, kube kubernetes.Interface, nodes int) {
	for name, patch := range map[string]string{
		"node-0001": `{"spec":{"taints":[{"key":"dedicated","value":"gpu","effect":"NoExecute"}]}}`,
		"node-0002": `{"spec":{"unschedulable":true}}`,
		"node-0003": `{"spec":{"taints":[{"key":"dedicated","value":"gpu","effect":"NoSchedule"}]}}`,
	} {
		if _, err := kube.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set := shipped(t)
	if _, err := kube.AppsV1().DaemonSets(set.Namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	on := map[string]bool{}
	await(t, w, &corev1.PodList{}, "an agent on every node", func(l *corev1.PodList) bool {
		for i := range l.Items {
			if p := &l.Items[i]; p.Namespace == set.Namespace && p.Status.Phase == corev1.PodRunning && p.Spec.PriorityClassName == "system-node-critical" {
				on[p.Spec.NodeName] = true
			}
		}
		return len(on) == nodes
	})
	if err := kube.AppsV1().DaemonSets(set.Namespace).Delete(context.WithoutCancel(t.Context()), set.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// shipped is the DaemonSet of config/agent; a field that it has and apps/v1 has not is an error.
func shipped(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	data, err := config.Agent.ReadFile("agent/30-daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set := &appsv1.DaemonSet{}
	if err := yaml.UnmarshalStrict(data, set); err != nil {
		t.Fatal(err)
	}
	return set
}
