// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/imagepull"
	"everynode.dev/everynode/internal/policy"
)

// unstructuredOf is a typed object as the API server has it.
func unstructuredOf(t *testing.T, obj any) *unstructured.Unstructured {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	decode(t, data, &u.Object)
	return u
}

// row is a state of an object that is not a set.
type row struct {
	name string
	obj  *unstructured.Unstructured
}

// withoutPods is no phase: the set is complete, and has no available pod.
const withoutPods v1alpha1.Phase = "without pods"

// policies are a RolloutPolicy in the states of the table.
func policies(t *testing.T) []row {
	t.Helper()
	made := func(phase v1alpha1.Phase, change func(*v1alpha1.RolloutPolicy)) *unstructured.Unstructured {
		p := &v1alpha1.RolloutPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: "everynode.dev/v1alpha1", Kind: "RolloutPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: "agents", Namespace: "agents", Generation: 1},
			Spec:       v1alpha1.RolloutPolicySpec{Targets: []v1alpha1.Target{{APIVersion: nativeVersion, Kind: "DaemonSet", Name: "agent"}}},
		}
		if change != nil {
			change(p)
		}
		if phase == "" {
			u := unstructuredOf(t, p)
			decode(t, defaultOfStatus(t, "policy/00-crd-rolloutpolicies.everynode.dev.yaml"), into(u.Object, "status"))
			return u
		}
		sets := []v1alpha1.SetStatus{{APIVersion: nativeVersion, Name: "agent", Phase: phase, Enforcement: v1alpha1.EnforcementFull}}
		if phase == v1alpha1.PhaseSoaking || phase == v1alpha1.PhaseWaitingForApproval {
			sets[0].Waves = []v1alpha1.WaveStatus{{Name: "canary", Phase: v1alpha1.WavePhase(phase), Nodes: 1, Updated: 1, Available: 1}, {Name: "rest", Phase: v1alpha1.WavePending, Nodes: 2}}
		}
		if phase == withoutPods {
			sets[0].Phase, sets[0].Blocking = v1alpha1.PhaseComplete, []v1alpha1.Blocking{{Reason: "NoPodAvailable", Message: "No node has an available pod of the committed revision."}}
		}
		if phase == v1alpha1.PhaseFailed || phase == v1alpha1.PhaseStalled || phase == v1alpha1.PhaseRejected {
			sets[0].Blocking = []v1alpha1.Blocking{{Reason: "Why", Message: "The reason."}}
		}
		p.Status = v1alpha1.RolloutPolicyStatus{
			ObservedGeneration: p.Generation, Sets: sets,
			Conditions: policy.Read(p).Conditions(nil, sets, nil, metav1.NewTime(time.Unix(0, int64(begin())))),
		}
		return unstructuredOf(t, p)
	}
	healthy := func(p *v1alpha1.RolloutPolicy) { p.Spec.ReadyWhen = v1alpha1.ReadyWaveHealthy }
	changed := made(v1alpha1.PhaseComplete, nil)
	changed.SetGeneration(2)
	return []row{
		{"created; the manager has not seen it", made("", nil)},
		{"a set was created, and none of its pods is available", made(withoutPods, nil)},
		{"all sets are complete", made(v1alpha1.PhaseComplete, nil)},
		{"the policy was changed; the manager has not seen it", changed},
		{"a wave rolls", made(v1alpha1.PhaseRolling, nil)},
		{"a wave soaks", made(v1alpha1.PhaseSoaking, nil)},
		{"a wave soaks, `readyWhen: WaveHealthy`", made(v1alpha1.PhaseSoaking, healthy)},
		{"a wave waits for an approval", made(v1alpha1.PhaseWaitingForApproval, nil)},
		{"a wave waits for an approval, `readyWhen: WaveHealthy`", made(v1alpha1.PhaseWaitingForApproval, healthy)},
		{"no window is open", made(v1alpha1.PhaseWaitingForWindow, nil)},
		{"suspended in a rollout", made(v1alpha1.PhaseSuspended, nil)},
		{"suspended, and nothing is to be updated", made(v1alpha1.PhaseComplete, func(p *v1alpha1.RolloutPolicy) { p.Spec.Suspend = true })},
		{"a revision is being undone", made(v1alpha1.PhaseUndoing, nil)},
		{"a revision has failed, and is undone", made(v1alpha1.PhaseFailed, nil)},
		{"a revision was rejected", made(v1alpha1.PhaseRejected, nil)},
		{"the policy cannot be followed", made(v1alpha1.PhaseStalled, nil)},
	}
}

// jobs are an ImagePullJob in the states of the table.
func jobs(t *testing.T) []row {
	t.Helper()
	made := func(parallelism int, phase v1beta1.ImagePullPhase, image string) *unstructured.Unstructured {
		p := intstr.FromInt(parallelism)
		job := &v1beta1.ImagePullJob{
			TypeMeta:   metav1.TypeMeta{APIVersion: advancedVersion, Kind: "ImagePullJob"},
			ObjectMeta: metav1.ObjectMeta{Name: "pull", Namespace: "agents", UID: "u", Generation: 1},
			Spec:       v1beta1.ImagePullJobSpec{Image: image, Parallelism: &p},
		}
		if phase == "unseen" {
			u := unstructuredOf(t, job)
			decode(t, defaultOfStatus(t, "kruise/00-crd-imagepulljobs.apps.kruise.io.yaml"), into(u.Object, "status"))
			return u
		}
		node := imagepull.Node{Name: "a", Ready: true, Image: &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
		now := time.Unix(0, int64(begin())).UTC()
		plan := imagepull.Decide(imagepull.Snapshot{Now: now, Job: job, Nodes: []imagepull.Node{node}})
		job.Status = plan.Status
		if phase != "" {
			node.Image.Spec = plan.Edits[0].Apply(node.Image.Spec)
			tag := node.Image.Spec.Images["img"].Tags[0]
			node.Image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"img": {Tags: []v1beta1.ImageTagStatus{{Tag: tag.Tag, Version: tag.Version, Phase: phase}}}}
			job.Status = imagepull.Decide(imagepull.Snapshot{Now: now, Job: job, Nodes: []imagepull.Node{node}}).Status
		}
		return unstructuredOf(t, job)
	}
	held := func(lasts time.Duration) *unstructured.Unstructured {
		job := &v1beta1.ImagePullJob{
			TypeMeta:   metav1.TypeMeta{APIVersion: advancedVersion, Kind: "ImagePullJob"},
			ObjectMeta: metav1.ObjectMeta{Name: "pull", Namespace: "agents", UID: "u", Generation: 1},
			Spec:       v1beta1.ImagePullJobSpec{Image: "img:v1"},
		}
		node := imagepull.Node{Name: "a", Ready: true, Image: &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
		now := time.Unix(0, int64(begin())).UTC()
		for _, at := range []time.Time{now, now.Add(lasts)} {
			job.Status = imagepull.Decide(imagepull.Snapshot{Now: at, Job: job, Nodes: []imagepull.Node{node}, Hold: "the secret x may not be read"}).Status
		}
		return unstructuredOf(t, job)
	}
	return []row{
		{"created; the manager has not seen it", made(1, "unseen", "img:v1")},
		{"nodes pull", made(1, "", "img:v1")},
		{"paused (`parallelism: 0`)", made(0, "", "img:v1")},
		{"every node has the image", made(1, v1beta1.ImagePhaseSucceeded, "img:v1")},
		{"ended, and nodes have failed", made(1, v1beta1.ImagePhaseFailed, "img:v1")},
		{"its pull secrets may not be copied, for a minute", held(time.Minute)},
		{"its pull secrets may not be copied, for ten minutes", held(10 * time.Minute)},
		{"the image cannot be read", made(1, "", ":")},
	}
}
