// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

// The workloads.
const (
	native   = "native"
	advanced = "advanced"
)

func image(version string) string { return localplane.RegistryHost + "/app:" + version }

// stage is where the test plays.
type stage struct {
	*harness.Space
	t *testing.T
}

// application makes the container of a set one that is ready when it answers.
func application(ds *appsv1.DaemonSet) {
	ds.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "app", Image: image("v1"),
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}}},
	}}
}

// sets is the client for one of the workloads.
func (s *stage) sets(workload string) dynamic.ResourceInterface {
	resource := appsv1.SchemeGroupVersion.WithResource("daemonsets")
	if workload == advanced {
		resource = v1beta1.GroupVersion().WithResource(kruise.Resource)
	}
	return s.Cluster.Dynamic.Resource(resource).Namespace(s.Name)
}

// createAdvanced creates the Advanced DaemonSet; the webhooks of the chart have to answer for that.
func (s *stage) createAdvanced() {
	s.t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.NewSet(advanced, application))
	if err != nil {
		s.t.Fatal(err)
	}
	delete(content, "status")
	if err := unstructured.SetNestedField(content, "true", "metadata", "annotations", everynode.InPlaceGate); err != nil {
		s.t.Fatal(err)
	}
	rolling := map[string]any{"rollingUpdateType": string(v1beta1.InplaceRollingUpdateType), "maxUnavailable": int64(1)}
	if err := unstructured.SetNestedMap(content, map[string]any{"type": "RollingUpdate", "rollingUpdate": rolling}, "spec", "updateStrategy"); err != nil {
		s.t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(v1beta1.GroupVersion().WithKind(kruise.Kind))
	s.Poll("the Advanced DaemonSet is created", func() error {
		_, err := s.sets(advanced).Create(s.Context(), object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// roll changes the image of both workloads, and waits until all nodes have it.
func (s *stage) roll(version string) {
	s.t.Helper()
	for _, workload := range []string{native, advanced} {
		generation := s.change(workload, version)
		s.Wait(workload+" is rolled out", harness.RolledOut(workload, generation, count))
	}
}

// change changes the image of a workload, and returns its generation.
func (s *stage) change(workload, version string) int64 {
	s.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}`, image(version))
	kind := types.StrategicMergePatchType
	if workload == advanced {
		kind = types.JSONPatchType
		patch = fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image(version))
	}
	changed, err := s.sets(workload).Patch(s.Context(), workload, kind, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.t.Fatalf("changing %s: %v", workload, err)
	}
	return changed.GetGeneration()
}

// refusesToUninstall: while a pod is changed in place, which only a manager can finish, Helm deletes nothing, and the log says what to do first. Then the
// release can be kept: Helm takes it for one that is being uninstalled until it is rolled back to the same revision.
func (s *stage) refusesToUninstall(h *helm, revision int) {
	s.t.Helper()
	// By default a change in place waits for its image on a node with an agent, before the pod is taken out of service.
	anyway := fmt.Sprintf(`{"metadata":{"annotations":{%q:"false"}}}`, everynode.WaitForImage)
	if _, err := s.sets(advanced).Patch(s.Context(), advanced, types.MergePatchType, []byte(anyway), metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.change(advanced, "none")
	s.Poll("a pod is out of service", func() error {
		pods, err := s.Cluster.Client.CoreV1().Pods(s.Name).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			for _, c := range pods.Items[i].Status.Conditions {
				if c.Type == "InPlaceUpdateReady" && c.Status == corev1.ConditionFalse {
					return nil
				}
			}
		}
		return errors.New("every pod is in service")
	})
	if err := h.uninstall(); err == nil {
		s.t.Fatal("a pod is out of service, and Helm uninstalls the manager")
	}
	out, err := s.Cluster.Kubectl(s.Context(), "logs", "-n", home, "job/everynode-check-uninstall")
	if err != nil || !strings.Contains(out, "1 pod with a closed readiness gate") || !strings.Contains(out, "kubectl everynode pause") {
		s.t.Errorf("the log of the check is (%v)\n%s", err, out)
	}
	h.rollback(revision)
	if left := s.images(home, "everynode-manager"); len(left) != 1 {
		s.t.Errorf("managers run from %q", left)
	}
	s.roll("v3")
}

// runs are the pods of both workloads, by node, as the API server has them now: who they are, and how often their containers have started.
func (s *stage) runs() map[string]string {
	s.t.Helper()
	pods, err := s.Cluster.Client.CoreV1().Pods(s.Name).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{}
	for i := range pods.Items {
		pod, restarts := &pods.Items[i], int32(0)
		for _, c := range pod.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		all[pod.Labels["app"]+" on "+pod.Spec.NodeName] += fmt.Sprintf("%s of %s, %d restarts, ready %t; ", pod.UID, pod.Spec.Containers[0].Image, restarts, harness.Ready(pod))
	}
	return all
}

// unchanged fails if anything of the workloads is not as it was.
func (s *stage) unchanged(what string, before map[string]string) {
	s.t.Helper()
	if len(before) != 2*count {
		s.t.Fatalf("before %s there were the pods %v", what, before)
	}
	if after := s.runs(); !maps.Equal(before, after) {
		s.t.Fatalf("%s has changed the pods\n%v\nto\n%v", what, before, after)
	}
}

// images are those with which the pods of a program run.
func (s *stage) images(namespace, label string) []string {
	s.t.Helper()
	pods, err := s.Cluster.Client.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + label})
	if err != nil {
		s.t.Fatal(err)
	}
	var images []string
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && harness.Ready(&pod) {
			images = append(images, pod.Spec.Containers[0].Image)
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// runFrom fails unless manager and agents run from the images of that tag.
func (s *stage) runFrom(tag string) {
	s.t.Helper()
	for namespace, program := range map[string]string{home: "everynode-manager", "everynode-agents": "everynode-agent"} {
		if got, want := s.images(namespace, program), localplane.RegistryHost+"/"+program+":"+tag; !slices.Equal(got, []string{want}) {
			s.t.Errorf("%s runs from %q, want %s", program, got, want)
		}
	}
}

// TestSmokeInstall is all of it, one after the other.
func TestSmokeInstall(t *testing.T) {
	c := shared.Cluster(t)
	c.WatchAdvanced()
	h := newHelm(t, c, published(t, c))
	push(t, c, "two")
	s := &stage{Space: c.Space(t, count), t: t}

	const agents = "agent: {nodeSelector: {localplane.everynode.dev/real: \"true\"}}\n"
	h.install("", agents)
	s.runFrom(releaseVersion)
	if said := h.test(); !strings.Contains(said, "the webhooks answer") || !strings.Contains(said, " 0 warnings, 0 failed, 0 skipped") {
		t.Errorf("helm test says\n%s", said)
	}
	s.Create(native, application)
	s.createAdvanced()
	s.Wait("both workloads run on all nodes", harness.RolledOut(native, 1, count), harness.RolledOut(advanced, 1, count))
	s.roll("v2")
	s.readsLogs()

	before := s.runs()
	h.upgrade("two", agents+"manager: {replicas: 1, flags: {kube-api-qps: 100}}\n")
	s.unchanged("the upgrade", before)
	s.runFrom("two")
	s.roll("v3")
	s.refusesToUninstall(h, 2)

	before = s.runs()
	if err := h.uninstall(); err != nil {
		t.Fatalf("uninstalling: %v", err)
	}
	s.unchanged("the removal", before)
	s.checkRemoval()

	h.install("", agents)
	s.unchanged("the installation afterwards", before)
	s.roll("v1")
}

// readsLogs types what docs/operations.md says of logs, and says that no other plane can answer.
func (s *stage) readsLogs() {
	s.t.Helper()
	says := []string{"Serving a dialect", "Agent begins"}
	for _, c := range harness.ReadPage(s.t, "docs/operations.md").Commands {
		if c.Untyped == "" {
			continue
		}
		if len(says) == 0 {
			s.t.Fatalf("line %d of docs/operations.md is marked, and this test does not type it: %s", c.Line, c.Text)
		}
		out, err := s.Cluster.Kubectl(s.Context(), strings.Fields(c.Text)[1:]...)
		if err != nil || !strings.Contains(out, says[0]) {
			s.t.Errorf("$ %s\n%s%v; it should say %q", c.Text, out, err, says[0])
		}
		says = says[1:]
	}
	if len(says) > 0 {
		s.t.Errorf("docs/operations.md has no command that says %q", says)
	}
}

// checkRemoval: nothing is left but the definitions, with all objects of theirs, the namespaces for what people put there, and what the manager has
// made for itself.
func (s *stage) checkRemoval() {
	s.t.Helper()
	if _, err := s.sets(advanced).Get(s.Context(), advanced, metav1.GetOptions{}); err != nil {
		s.t.Errorf("the Advanced DaemonSet after the removal: %v", err)
	}
	for resource, keep := range map[string]bool{
		"customresourcedefinitions.apiextensions.k8s.io": true, "clusterroles.rbac.authorization.k8s.io": false, "clusterrolebindings.rbac.authorization.k8s.io": false,
		"mutatingwebhookconfigurations.admissionregistration.k8s.io": false, "validatingwebhookconfigurations.admissionregistration.k8s.io": false,
		"validatingadmissionpolicies.admissionregistration.k8s.io": false, "flowschemas.flowcontrol.apiserver.k8s.io": false,
	} {
		plural, group, _ := strings.Cut(resource, ".")
		list, err := s.Cluster.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		left := 0
		for _, o := range list.Items {
			// The plane applies the rights of the dialects openyurt and policy, which the chart does not serve here.
			ofPlane := o.GetName() == "everynode-manager-openyurt" || o.GetName() == "everynode-manager-undo"
			if !ofPlane && (strings.HasPrefix(o.GetName(), "everynode") || strings.HasSuffix(o.GetName(), "."+kruise.Group)) {
				left++
				if !keep {
					s.t.Errorf("the removal leaves %s %s", plural, o.GetName())
				}
			}
		}
		if keep && left != 3 {
			s.t.Errorf("the removal leaves %d %s, want 3", left, plural)
		}
	}
	for _, name := range []string{"everynode-agents", kruise.PullSecretNamespace} {
		namespace, err := s.Cluster.Client.CoreV1().Namespaces().Get(s.Context(), name, metav1.GetOptions{})
		if err != nil || namespace.DeletionTimestamp != nil {
			s.t.Errorf("the removal takes the namespace %s, and what people have put there: %v", name, err)
		}
	}
	for namespace, program := range map[string]string{home: "everynode-manager", "everynode-agents": "everynode-agent"} {
		s.Poll(program+" is gone", func() error {
			if left := s.images(namespace, program); len(left) > 0 {
				return fmt.Errorf("it runs from %q", left)
			}
			return nil
		})
	}
}
