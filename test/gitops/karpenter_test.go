// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	karpenterstate "sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/pod"

	"everynode.dev/everynode/api/everynode"
)

// cloud offers one type of machine, with two CPUs.
type cloud struct{ cloudprovider.CloudProvider }

func (cloud) GetSupportedNodeClasses() []status.Object { return []status.Object{&karpenter.NodePool{}} } // any kind that has a status

func (cloud) GetInstanceTypes(context.Context, *karpenter.NodePool) ([]*cloudprovider.InstanceType, error) {
	of := func(key, value string) *scheduling.Requirement {
		return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, value)
	}
	where := []*scheduling.Requirement{of(corev1.LabelTopologyZone, "zone"), of(karpenter.CapacityTypeLabelKey, karpenter.CapacityTypeOnDemand)}
	kind := append(where, of(corev1.LabelInstanceTypeStable, "small"), of(corev1.LabelArchStable, "amd64"), of(corev1.LabelOSStable, "linux"))
	return []*cloudprovider.InstanceType{{
		Name: "small", Requirements: scheduling.NewRequirements(kind...), Capacity: twoCPUs(), Overhead: &cloudprovider.InstanceTypeOverhead{},
		Offerings: cloudprovider.Offerings{{Requirements: scheduling.NewRequirements(where...), Price: 1, Available: true}},
	}}, nil
}

// noEvents drops the events of Karpenter.
type noEvents struct{}

func (noEvents) Publish(...events.Event) {}

func twoCPUs() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("110")}
}

// asks is a specification of a pod that requests that much CPU.
func asks(cpu string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}
}

// onlyNode is the affinity of a pod of a daemon: its node, by name.
func onlyNode(name string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}},
	}}}}
}

// runningDaemon is a daemon pod on the node a, with half a CPU and the annotation for cluster-autoscaler.
func runningDaemon(version string) *corev1.Pod {
	p := daemonPod(version)
	p.Annotations = map[string]string{everynode.AutoscalerDaemonPod: "true"}
	p.Spec = asks("500m")
	p.Spec.NodeName, p.Spec.Affinity = "a", onlyNode("a")
	return p
}

// nativeSet is a DaemonSet of apps/v1 whose pods request half a CPU.
func nativeSet() *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "agents", UID: "u"}}
	set.Spec.Template.Spec = asks("500m")
	return set
}

// companion is a DaemonSet of apps/v1 next to the Advanced DaemonSet that runs on no node: none has its name, or none has the label.
func companion(byName bool) *appsv1.DaemonSet {
	set := nativeSet()
	set.UID = "c"
	if byName {
		set.Spec.Template.Spec.Affinity = onlyNode("no-such-node")
	} else {
		set.Spec.Template.Spec.NodeSelector = map[string]string{"no-such": "label"}
	}
	return set
}

// owned is a pod of an Advanced DaemonSet of which a companion is an owner, too, but not the controller.
func owned() *corev1.Pod {
	p := runningDaemon(advancedVersion)
	p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: nativeVersion, Kind: "DaemonSet", Name: "agent", UID: "c"})
	return p
}

// provisioned lets Karpenter place a new pod in a cluster with these objects, and returns what it asks of a new node, or 0 if a node has room for the pod.
func provisioned(t *testing.T, cpu string, objects ...client.Object) (cpuOfNewNode string) {
	t.Helper()
	pool := &karpenter.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpenter.NodeClassReference{Group: "karpenter.sh", Kind: "NodePool", Name: "any"}
	for _, kind := range []string{karpenter.ConditionTypeValidationSucceeded, karpenter.ConditionTypeNodeClassReady} {
		pool.StatusConditions().SetTrue(kind)
	}
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "apps", UID: "app"}, Spec: asks(cpu)}
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(append(objects, pool, waiting)...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	cluster := karpenterstate.NewCluster(clock.RealClock{}, api, cloud{})
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *corev1.Node:
			err = cluster.UpdateNode(t.Context(), o)
		case *appsv1.DaemonSet:
			err = cluster.UpdateDaemonSet(t.Context(), o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := options.ToContext(t.Context(), &options.Options{})
	scheduler, err := provisioning.NewProvisioner(api, noEvents{}, cloud{}, cluster, clock.RealClock{}).NewScheduler(ctx, []*corev1.Pod{waiting}, cluster.DeepCopyNodes())
	if err != nil {
		t.Fatal(err)
	}
	result, err := scheduler.Solve(ctx, []*corev1.Pod{waiting})
	if err != nil || len(result.PodErrors) > 0 || len(result.NewNodeClaims) > 1 {
		t.Fatalf("%v, %v, %d new nodes", err, result.PodErrors, len(result.NewNodeClaims))
	}
	if len(result.NewNodeClaims) == 0 {
		return "0"
	}
	return result.NewNodeClaims[0].Spec.Resources.Requests.Cpu().String()
}

// TestKarpenterAndPods: for Karpenter, only pods of apps/v1 are daemon pods. It moves and evicts those of an Advanced DaemonSet, whatever their annotation is, unless they
// tolerate its taint; and makes no node for one that waits for its own.
func TestKarpenterAndPods(t *testing.T) {
	native, advanced := runningDaemon(nativeVersion), runningDaemon(advancedVersion)
	if !pod.IsOwnedByDaemonSet(native) || pod.IsReschedulable(native) {
		t.Error("a pod of apps/v1 is no daemon pod")
	}
	if pod.IsOwnedByDaemonSet(advanced) || !pod.IsReschedulable(advanced) {
		t.Error("a pod of an Advanced DaemonSet is a daemon pod: read docs/drains-and-autoscalers.md again")
	}
	for name, p := range map[string]*corev1.Pod{"apps/v1": native, "an Advanced DaemonSet": advanced} {
		if !pod.IsEvictable(p, clock.RealClock{}, noEvents{}) || !pod.IsDrainable(p, clock.RealClock{}) {
			t.Errorf("a pod of %s is not evicted", name)
		}
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		if pod.IsEvictable(p, clock.RealClock{}, noEvents{}) || pod.IsDrainable(p, clock.RealClock{}) {
			t.Errorf("a pod of %s that tolerates every taint is evicted", name)
		}
	}
	if !pod.IsOwnedByDaemonSet(owned()) || pod.IsReschedulable(owned()) {
		t.Error("a second owner of apps/v1 does not count")
	}
	waits := runningDaemon(advancedVersion)
	waits.Spec.NodeName = ""
	waits.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}}
	provisioner := provisioning.NewProvisioner(nil, noEvents{}, cloud{}, nil, clock.RealClock{})
	if !pod.IsProvisionable(waits) || provisioner.Validate(t.Context(), waits) == nil {
		t.Error("a pod of an Advanced DaemonSet that waits for room on its node gets another node")
	}
}

// TestKarpenterAndNewNodes: Karpenter makes new nodes large enough for the pods of DaemonSets of apps/v1 only. A companion of apps/v1 that runs nowhere gets room, too, if it
// excludes the nodes by name and not by label; but a node that has a pod of the Advanced DaemonSet then counts it twice, unless the companion is an owner of the pod.
func TestKarpenterAndNewNodes(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelHostname: "a"}}}
	node.Status.Capacity, node.Status.Allocatable = twoCPUs(), twoCPUs()
	elsewhere := runningDaemon(advancedVersion)
	elsewhere.Spec.NodeName = "another"
	for _, c := range []struct {
		name    string
		objects []client.Object
		cpu     string // of the pod that waits
		want    string // of a new node, or 0
	}{
		{"no daemons", nil, "1", "1"},
		{"a DaemonSet of apps/v1", []client.Object{nativeSet()}, "1", "1500m"},
		{"an Advanced DaemonSet", []client.Object{elsewhere}, "1", "1"},
		{"with a companion that excludes nodes by name", []client.Object{elsewhere, companion(true)}, "1", "1500m"},
		{"with a companion that excludes nodes by label", []client.Object{elsewhere, companion(false)}, "1", "1"},
		{"a node with a pod of apps/v1", []client.Object{node, runningDaemon(nativeVersion), nativeSet()}, "1200m", "0"},
		{"a node with a pod of an Advanced DaemonSet", []client.Object{node, runningDaemon(advancedVersion)}, "1200m", "0"},
		{"the same with a companion", []client.Object{node, runningDaemon(advancedVersion), companion(true)}, "1200m", "1700m"},
		{"the same with a companion that owns the pod", []client.Object{node, owned(), companion(true)}, "1200m", "0"},
	} {
		if got := provisioned(t, c.cpu, c.objects...); got != c.want {
			t.Errorf("%s: a new node of %s CPU, want %s", c.name, got, c.want)
		}
	}
}
