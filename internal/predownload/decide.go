// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

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
type Job struct {
	Namespace, Name, Hash, Image string
	UID                          types.UID
	Created                      rollout.Time
	// Stays reports whether it runs until it is deleted.
	Stays bool
}

// Input is everything that a decision depends on.
type Input struct {
	Set       *dialect.Workload
	Revisions []Revision
	Snapshot  *rollout.Snapshot
	// Jobs are those that the set owns.
	Jobs []Job
	// InPlace is how changes in place wait that the set has not asked to wait; nil where they do not. Off is whether nothing is pulled ahead, and
	// all jobs go.
	InPlace *InPlace
	Off     bool
	// PullSecrets are pull secrets that pods of the set have and agents may get, in addition to those of the template.
	PullSecrets []string
}

// Output is what is to be done. The jobs have no owner yet.
type Output struct {
	Create []*v1beta1.ImagePullJob
	Delete []string
	// Mark is the label for the wanted revision, once the jobs exist; empty for none. Clear contains the indices of revisions whose mark is removed.
	Mark  string
	Clear []int
}

// Decide returns what is to be done.
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
	old := in.oldNodes()
	for i := range in.Jobs {
		if in.Off || len(old) == 0 || !in.serves(&in.Jobs[i]) {
			out.Delete = append(out.Delete, in.Jobs[i].Name)
		}
	}
	in.decide(&out, old)
	if in.Off || in.only() || in.Snapshot.Set.ExternalController {
		out.Mark, out.Clear = "", nil // another controller owns the history, or the marks are of no use
	}
	return out
}

// decide returns which jobs are to be made, and with which mark.
func (in *Input) decide(out *Output, old []int) {
	set, waits := &in.Snapshot.Set, in.waits()
	marked := in.Revisions[set.Update].Mark != ""
	switch {
	case in.Off, len(old) == 0:
	case in.only() && set.Paused, in.halted(old): // what was ordered goes on
	case !waits && marked:
	case !waits && atOnce(set, len(old), desired(in.Snapshot)):
		out.Mark = kruise.PredownloadIgnored
	case !waits && updatedReady(in.Snapshot) < in.Set.PullAhead.MinUpdatedReady.Of(desired(in.Snapshot)):
	default:
		wanted := in.jobs(old)
		in.keep(out, wanted)
		if !marked {
			out.Mark = markOf(wanted)
		}
	}
}

// halted reports whether the policy lets none of these nodes have the wanted revision, because it has failed or was rejected.
func (in *Input) halted(old []int) bool {
	return !slices.ContainsFunc(old, func(i int) bool { return !in.Snapshot.Gate.Halts(i) })
}

// waits is whether some updates of the set wait for images.
func (in *Input) waits() bool { return in.Set.PullAhead.Wait || in.InPlace != nil }

// lasting is whether jobs stay until the rollout has ended: nodes wait for them, and a node that gets an old pod later would wait for ever; or there
// is no mark for created jobs.
func (in *Input) lasting() bool { return in.waits() || in.Snapshot.Set.ExternalController }

// serves reports whether a job is of use as it is.
func (in *Input) serves(job *Job) bool {
	return job.Hash == in.Revisions[in.Snapshot.Set.Update].Hash && (job.Stays || !in.lasting())
}

// keep creates every missing job. One that must be deleted first is created in the pass after its deletion.
func (in *Input) keep(out *Output, wanted []*v1beta1.ImagePullJob) {
	for _, job := range wanted {
		at := slices.IndexFunc(in.Jobs, func(have Job) bool { return have.Name == job.Name })
		switch {
		case at < 0:
			out.Create = append(out.Create, job)
		case in.serves(&in.Jobs[at]) && in.Jobs[at].Image != job.Spec.Image:
			out.Delete = append(out.Delete, job.Name) // another client has changed it
		}
	}
}

// markOf is the mark of a revision that needs these jobs.
func markOf(jobs []*v1beta1.ImagePullJob) string {
	if len(jobs) == 0 {
		return kruise.PredownloadIgnored
	}
	return kruise.PredownloadCreated
}

// oldNodes are the indices of nodes on which an old pod runs for which images are pulled ahead.
func (in *Input) oldNodes() []int {
	var old []int
	for i := range in.Snapshot.Nodes {
		if pod := oldPod(in.Snapshot, i); pod != nil && (!in.only() || in.concerns(i, pod)) {
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

// atOnce reports whether all old nodes may be updated in one go.
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

// jobs are one for each image that an old node lacks.
func (in *Input) jobs(old []int) []*v1beta1.ImagePullJob {
	has := in.images()
	var jobs []*v1beta1.ImagePullJob
	for _, image := range in.wanted() {
		if !slices.ContainsFunc(old, func(node int) bool { return has.lacks(oldPod(in.Snapshot, node), image.Image) }) {
			continue
		}
		var with []string
		for i := range in.Revisions {
			if i == in.Snapshot.Set.Update || slices.Contains(has[i], image.Image) || in.only() && !in.changes(i) {
				with = append(with, in.Revisions[i].Hash)
			}
		}
		jobs = append(jobs, in.job(image, with))
	}
	return jobs
}

// wanted are the images that pods of the wanted revision need.
func (in *Input) wanted() []podtemplate.NamedImage {
	return podtemplate.NamedImages(in.Revisions[in.Snapshot.Set.Update].Template)
}

// imagesOf are the images that pods of each revision need.
type imagesOf [][]string

func (in *Input) images() imagesOf {
	has := make(imagesOf, len(in.Revisions))
	for i := range in.Revisions {
		has[i] = podtemplate.Images(in.Revisions[i].Template)
	}
	return has
}

// lacks reports whether the node of that pod may lack an image: the pod does not run it.
func (has imagesOf) lacks(p *rollout.Pod, image string) bool {
	return p.Revision < 0 || p.Revision >= len(has) || !slices.Contains(has[p.Revision], image)
}

// Order returns in which order the old nodes of a set are served: first those that the update may start on, each group in the order in which the set updates its
// nodes. Nodes for which nothing needs to be pulled, or on which nothing pulls, are left out: they are served last. Where images are pulled ahead of changes in place
// alone, held are the nodes that the set or its policy holds back, which are served only when they are released. Otherwise they follow the others, as with OpenKruise.
func (in *Input) Order(p *rollout.Plan) (order []string, held map[string]bool) {
	s := in.Snapshot
	var later []string
	for k := range s.Nodes {
		i := k
		if s.Set.Descending {
			i = len(s.Nodes) - 1 - k
		}
		if pod := oldPod(s, i); pod == nil || in.only() && !in.concerns(i, pod) {
			continue
		}
		if HeldBack(p.Verdicts[i].Kind) {
			later = append(later, s.Nodes[i].Name)
		} else {
			order = append(order, s.Nodes[i].Name)
		}
	}
	if !in.only() {
		return append(order, later...), nil
	}
	held = make(map[string]bool, len(later))
	for _, name := range later {
		held[name] = true
	}
	return order, held
}

// HeldBack reports whether a node with that verdict is updated only when a user, a clock or a policy releases it.
func HeldBack(kind rollout.VerdictKind) bool {
	switch kind.Cause() {
	case rollout.CauseSpec, rollout.CauseLimit, rollout.CausePlacement, rollout.CausePolicy:
		return true
	default:
		return false
	}
}

// hashLabel is the label by which pods and jobs name their revision.
const hashLabel = appsv1.ControllerRevisionHashLabelKey
