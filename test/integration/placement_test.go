// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/harness"
)

const (
	colour = harness.LabelPrefix + "colour"
	taint  = harness.LabelPrefix + "taint"
)

// TestPlacement: on which nodes the pods of a set run, by what the template says.
func TestPlacement(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 3)
	s.LabelNode(s.Nodes[0], colour, "blue")
	s.LabelNode(s.Nodes[1], colour, "green")
	s.Taint(s.Nodes[2], corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule})
	tests := []struct {
		name string
		edit harness.Edit
		want []string
	}{
		{"no-wish", func(*appsv1.DaemonSet) {}, s.Nodes[:2]},
		{"node-selector", func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeSelector[colour] = "blue" }, s.Nodes[:1]},
		{"affinity-in", withNodeAffinity(corev1.NodeSelectorOpIn, "green"), s.Nodes[1:2]},
		{"affinity-not-in", withNodeAffinity(corev1.NodeSelectorOpNotIn, "green"), s.Nodes[:1]},
		{"affinity-nowhere", withNodeAffinity(corev1.NodeSelectorOpIn, "red"), nil},
		{"node-name", func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeName = s.Nodes[1] }, s.Nodes[1:2]},
		{"toleration", func(set *appsv1.DaemonSet) {
			set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists}}
		}, s.Nodes},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := s.In(t)
			set := s.Create(test.name, test.edit)
			s.Wait("the pods run where they should",
				harness.RolledOut(test.name, set.Generation, len(test.want)), harness.RunsOn(test.name, test.want...))
		})
	}
}

func withNodeAffinity(operator corev1.NodeSelectorOperator, value string) harness.Edit {
	return func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: colour, Operator: operator, Values: []string{value}}},
			}}},
		}}
	}
}

// TestNodeChanges: a set follows its nodes as they get and lose labels and taints.
func TestNodeChanges(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 3)
	first, second, third := s.Nodes[0], s.Nodes[1], s.Nodes[2]
	set := s.Create("ds", func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeSelector[colour] = "blue" })
	s.Wait("no node matches", harness.RolledOut("ds", set.Generation, 0))

	s.LabelNode(first, colour, "blue")
	s.Wait("a pod comes with the label", harness.RolledOut("ds", set.Generation, 1), harness.RunsOn("ds", first))
	s.LabelNode(second, colour, "blue")
	s.LabelNode(third, colour, "blue")
	s.Wait("pods come with the labels", harness.RolledOut("ds", set.Generation, 3))
	s.LabelNode(third, colour, "green")
	s.Wait("a pod goes with the label", harness.RolledOut("ds", set.Generation, 2), harness.RunsOn("ds", first, second))

	before := s.View().PodOn("ds", first).UID
	s.Taint(first, corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule})
	if s.Cluster.Controller == harness.Native {
		// It does not look at a node again on which a pod may stay, so its status follows only when something else happens.
		s.Update("ds", func(set *appsv1.DaemonSet) { set.Annotations = map[string]string{"example.org/touched": "yes"} })
	}
	s.Wait("a pod that runs may stay, and is counted as misscheduled", harness.StatusIs("ds", "1 desired, 1 misscheduled",
		func(status appsv1.DaemonSetStatus) bool {
			return status.DesiredNumberScheduled == 1 && status.NumberMisscheduled == 1 && status.CurrentNumberScheduled == 1
		}))
	if pod := s.View().PodOn("ds", first); pod == nil || pod.UID != before {
		t.Error("the pod on a node that got a NoSchedule taint was not left alone")
	}
	s.Untaint(first, taint)
	s.Wait("the node counts again", harness.RolledOut("ds", set.Generation, 2))

	s.Taint(first, corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoExecute})
	s.Wait("NoExecute removes the pod", harness.RolledOut("ds", set.Generation, 1), harness.RunsOn("ds", second))
	s.Untaint(first, taint)
	s.Wait("the pod comes back", harness.RolledOut("ds", set.Generation, 2), harness.RunsOn("ds", first, second))
}

// TestAutomaticTolerations: the tolerations that every pod of a DaemonSet has, beside those of the template.
func TestAutomaticTolerations(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 1)
	always := []string{
		"node.kubernetes.io/disk-pressure:NoSchedule", "node.kubernetes.io/memory-pressure:NoSchedule",
		"node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/pid-pressure:NoSchedule",
		"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unschedulable:NoSchedule",
	}
	own := []corev1.Toleration{{Key: "own", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	tests := []struct {
		name        string
		hostNetwork bool
		want        []string
	}{
		{"plain", false, append([]string{"own:NoSchedule"}, always...)},
		{"host-network", true, append([]string{"own:NoSchedule", "node.kubernetes.io/network-unavailable:NoSchedule"}, always...)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := s.In(t)
			s.Run(test.name, func(set *appsv1.DaemonSet) {
				set.Spec.Template.Spec.HostNetwork = test.hostNetwork
				set.Spec.Template.Spec.Tolerations = own
			})
			var got []string
			for _, toleration := range s.View().Pods(test.name)[0].Spec.Tolerations {
				if toleration.Operator != corev1.TolerationOpExists || toleration.Value != "" || toleration.TolerationSeconds != nil {
					t.Errorf("toleration %+v: want operator Exists without value and time", toleration)
				}
				got = append(got, toleration.Key+":"+string(toleration.Effect))
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("tolerations\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestCordonedNode: pods are made, and replaced, on a node that is unschedulable for others.
func TestCordonedNode(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 1)
	s.Cordon(s.Nodes[0], true)
	s.Run("ds")
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the pod is replaced", harness.RolledOut("ds", written.Generation, 1), runsImage("ds", harness.Image2))
}

// TestPodIsPinnedToItsNode: each pod asks the default scheduler for one node by name, and keeps the rest of its template.
func TestPodIsPinnedToItsNode(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 2)
	s.Run("ds", func(set *appsv1.DaemonSet) {
		spec := &set.Spec.Template.Spec
		set.Spec.Template.Annotations = map[string]string{"example.org/note": "kept"}
		set.Spec.Template.Finalizers = nil
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 7, PodAffinityTerm: corev1.PodAffinityTerm{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}, TopologyKey: corev1.LabelHostname,
			}}},
		}}
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ds"}},
			MaxSkew:       5, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		}}
		spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}}
		spec.Overhead = nil
		spec.SetHostnameAsFQDN = new(true)
	})
	for _, pod := range s.View().Pods("ds") {
		checkPinned(t, pod)
		if pod.Annotations["example.org/note"] != "kept" || pod.Spec.TopologySpreadConstraints[0].MaxSkew != 5 ||
			pod.Spec.Affinity.PodAntiAffinity == nil || len(pod.Spec.Containers[0].ResizePolicy) != 1 || !*pod.Spec.SetHostnameAsFQDN {
			t.Errorf("pod %s lost something of its template: %+v", pod.Name, pod.Spec)
		}
		if pod.Labels[templateGeneration] != "1" || pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == "" {
			t.Errorf("pod %s has labels %v", pod.Name, pod.Labels)
		}
		if pod.GenerateName != "ds-" || !strings.HasPrefix(pod.Name, "ds-") {
			t.Errorf("pod %s has generateName %q", pod.Name, pod.GenerateName)
		}
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "DaemonSet" || owner.APIVersion != "apps/v1" || owner.Name != "ds" || owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
			t.Errorf("pod %s has owner %+v", pod.Name, owner)
		}
	}
}

func checkPinned(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	want := fmt.Sprintf("[{[] [{metadata.name In [%s]}]}]", pod.Spec.NodeName)
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if got := fmt.Sprint(required.NodeSelectorTerms); got != want {
		t.Errorf("pod %s: node selector terms %s, want %s", pod.Name, got, want)
	}
	if pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
		t.Errorf("pod %s asks scheduler %q", pod.Name, pod.Spec.SchedulerName)
	}
}

// TestImpossibleSetsAreRefused: what the controller never gets to see because the API server refuses it.
func TestImpossibleSetsAreRefused(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 1)
	tests := map[string]struct {
		edit harness.Edit
		want string
	}{
		"empty selector": {func(set *appsv1.DaemonSet) { set.Spec.Selector = &metav1.LabelSelector{} }, "empty selector is invalid for daemonset"},
		"other selector": {func(set *appsv1.DaemonSet) { set.Spec.Selector.MatchLabels = map[string]string{"app": "x"} }, "`selector` does not match template `labels`"},
		"both budgets 0": {harness.WithBudget("0", "0"), "cannot be 0"},
		"both budgets 1": {harness.WithBudget("1", "1"), "may not be set when"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := s.In(t)
			_, err := s.Cluster.Client.AppsV1().DaemonSets(s.Name).Create(t.Context(), s.NewSet("ds", test.edit), metav1.CreateOptions{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// patchStatus merges into the status of a set, as somebody else than its controller.
func patchStatus(t *testing.T, s *harness.Space, set, patch string) {
	t.Helper()
	_, err := s.Cluster.Client.AppsV1().DaemonSets(s.Name).Patch(t.Context(), set, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatalf("patching the status of %s: %v", set, err)
	}
}
