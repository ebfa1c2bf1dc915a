// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/podtemplate"
	"everynode.dev/everynode/internal/rollout"
)

// Revision is one revision of the set; its place in Input.Revisions is that in the Snapshot.
type Revision struct {
	Name, Hash string
	Template   map[string]any
	// Mark is the label that says what was decided about it; empty for none.
	Mark string
}

// Job is an ImagePullJob that the set owns.
type Job struct{ Name, Hash string }

// Input is everything that a decision depends on.
type Input struct {
	Set       *dialect.Workload
	Revisions []Revision
	Snapshot  *rollout.Snapshot
	// Jobs are those that the set owns.
	Jobs []Job
}

// Output is what is to be done. The jobs have no owner yet.
type Output struct {
	Create []*v1beta1.ImagePullJob
	Delete []string
	// Mark is the label for the wanted revision, once the jobs are there; empty for none. Clear are the indices of revisions whose
	// mark goes.
	Mark  string
	Clear []int
}

// Decide says what is to be done.
func Decide(in *Input) Output {
	out := Output{}
	current := in.Snapshot.Set.Update
	if current < 0 || current >= len(in.Revisions) {
		return out
	}
	for i := range in.Revisions {
		if i != current && in.Revisions[i].Mark != "" {
			out.Clear = append(out.Clear, i)
		}
	}
	old := oldNodes(in.Snapshot)
	for _, job := range in.Jobs {
		if len(old) == 0 || job.Hash != in.Revisions[current].Hash {
			out.Delete = append(out.Delete, job.Name)
		}
	}
	switch {
	case len(old) == 0 || in.Revisions[current].Mark != "":
	case atOnce(&in.Snapshot.Set, len(old), desired(in.Snapshot)):
		out.Mark = kruise.PredownloadIgnored
	case updatedReady(in.Snapshot) >= minUpdatedReady(in.Set.Annotations, desired(in.Snapshot)):
		out.Create = in.jobs(old)
		out.Mark = kruise.PredownloadCreated
		if len(out.Create) == 0 {
			out.Mark = kruise.PredownloadIgnored
		}
	}
	return out
}

// oldNodes are the indices of nodes on which an old pod runs, of whatever revision.
func oldNodes(s *rollout.Snapshot) []int {
	var old []int
	for i := range s.Nodes {
		if oldPod(s, i) != nil {
			old = append(old, i)
		}
	}
	return old
}

// oldPod is the pod of another revision than the wanted one on a node; nil if there is none that stays.
func oldPod(s *rollout.Snapshot, node int) *rollout.Pod {
	pods := s.Nodes[node].Pods
	for i := range pods {
		if !pods[i].Deleting && pods[i].Revision != s.Set.Update {
			return &pods[i]
		}
	}
	return nil
}

// desired is how many nodes should run a pod.
func desired(s *rollout.Snapshot) int {
	count := 0
	for i := range s.Nodes {
		if s.Nodes[i].Fit == rollout.MustRun {
			count++
		}
	}
	return count
}

// atOnce is whether all old nodes may be updated in one go.
func atOnce(set *rollout.Set, old, desired int) bool {
	if set.Strategy != rollout.RollingUpdate || set.Paused || set.Selective || set.Partition.Down(desired) > 0 {
		return false
	}
	return max(set.MaxUnavailable.Of(desired), set.MaxSurge.Of(desired)) >= old
}

func updatedReady(s *rollout.Snapshot) int {
	count := 0
	for i := range s.Nodes {
		pods := s.Nodes[i].Pods
		if slices.ContainsFunc(pods, func(p rollout.Pod) bool { return p.Revision == s.Set.Update && p.Ready && !p.Deleting }) {
			count++
		}
	}
	return count
}

// minUpdatedReady is how many updated pods have to be ready first; a percentage is rounded up.
func minUpdatedReady(annotations map[string]string, desired int) int {
	text, ok := annotations[kruise.PredownloadMinUpdatedReady]
	if !ok {
		return 0
	}
	q := intstr.Parse(text)
	least, err := intstr.GetScaledValueFromIntOrPercent(&q, desired, true)
	if err != nil {
		return 0 // refused at admission
	}
	return least
}

// jobs are one for each image that an old node lacks.
func (in *Input) jobs(old []int) []*v1beta1.ImagePullJob {
	has := make([][]string, len(in.Revisions))
	for i := range in.Revisions {
		has[i] = podtemplate.Images(in.Revisions[i].Template)
	}
	var jobs []*v1beta1.ImagePullJob
	for _, image := range podtemplate.NamedImages(in.Revisions[in.Snapshot.Set.Update].Template) {
		lacks := func(node int) bool {
			revision := oldPod(in.Snapshot, node).Revision
			return revision < 0 || revision >= len(has) || !slices.Contains(has[revision], image.Image)
		}
		if !slices.ContainsFunc(old, lacks) {
			continue
		}
		var with []string
		for i := range in.Revisions {
			if i == in.Snapshot.Set.Update || slices.Contains(has[i], image.Image) {
				with = append(with, in.Revisions[i].Hash)
			}
		}
		jobs = append(jobs, in.job(image, with))
	}
	return jobs
}

// Order is in which order the old nodes of a set are served: first those that the update may start on, each group in the order in which
// the set updates its nodes.
func Order(s *rollout.Snapshot, p *rollout.Plan) []string {
	var released, held []string
	for k := range s.Nodes {
		i := k
		if s.Set.Descending {
			i = len(s.Nodes) - 1 - k
		}
		if oldPod(s, i) == nil {
			continue
		}
		switch p.Verdicts[i].Kind {
		case rollout.WaitPartition, rollout.WaitSelector:
			held = append(held, s.Nodes[i].Name)
		default:
			released = append(released, s.Nodes[i].Name)
		}
	}
	return append(released, held...)
}

// hashLabel is the label by which pods and jobs name their revision.
const hashLabel = appsv1.ControllerRevisionHashLabelKey
