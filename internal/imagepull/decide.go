// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/imageref"
)

// decision is a decision being made.
type decision struct {
	in        *Snapshot
	name, tag string
	drafts    map[string]*draft
	order     []string // of drafts, by name of their nodes
	claim     *Claim   // nil before it is needed

	desired, succeeded int
	waiting            []*Node // not begun
	active             []*Node
	failed             []*Node
}

// Decide returns what to do about a job. It is total: it reports invalid input in the status.
func Decide(s Snapshot) Plan {
	d := &decision{in: &s, drafts: map[string]*draft{}}
	status := s.Job.Status.DeepCopy()
	if s.Job.DeletionTimestamp != nil {
		return Plan{Status: *status}
	}
	var err error
	if d.name, d.tag, err = imageref.Split(s.Job.Spec.Image); err != nil {
		status.Message = fmt.Sprintf("job cannot run: the image %q cannot be read: %v", s.Job.Spec.Image, err)
		judge(status, s.Job, health{ConditionStalled, ReasonInvalid}, s.Now)
		return Plan{Status: *status}
	}
	chosen, err := d.selector()
	if err != nil {
		status.Message = fmt.Sprintf("job cannot run: its selector cannot be read: %v", err)
		judge(status, s.Job, health{ConditionStalled, ReasonInvalid}, s.Now)
		return Plan{Status: *status}
	}
	d.count(chosen)
	if s.Job.Status.CompletionTime != nil {
		return d.afterCompletion(status)
	}
	return d.run()
}

// selector returns which nodes the job is about.
func (d *decision) selector() (func(*Node) bool, error) {
	spec := &d.in.Job.Spec
	switch {
	case spec.PodSelector != nil:
		return func(n *Node) bool { return d.in.PodNodes[n.Name] }, nil
	case spec.Selector == nil:
		return func(*Node) bool { return true }, nil
	case spec.Selector.Names != nil:
		names := map[string]bool{}
		for _, name := range spec.Selector.Names {
			names[name] = true
		}
		return func(n *Node) bool { return names[n.Name] }, nil
	default:
		selector, err := metav1.LabelSelectorAsSelector(&spec.Selector.LabelSelector)
		if err != nil {
			return nil, err
		}
		return func(n *Node) bool { return selector.Matches(labels.Set(n.Labels)) }, nil
	}
}

// count determines the state of each node, and drafts the removal of images that the job no longer wants. Where it follows pods, a node that
// it has begun stays with it: the pod may be gone by the time the image is there.
func (d *decision) count(chosen func(*Node) bool) {
	follows := d.in.Job.Spec.PodSelector != nil
	for i := range d.in.Nodes {
		n := &d.in.Nodes[i]
		tag, wanted := d.ownTag(n), chosen(n)
		if tag == nil && !wanted {
			continue
		}
		if tag != nil && !wanted && !follows {
			removeOwner(d.draft(n), d.name, d.tag, d.in.Job.UID)
			continue
		}
		d.desired++
		if tag == nil {
			d.waiting = append(d.waiting, n)
			continue
		}
		switch outcome(tag, tagStatus(&n.Image.Status, d.name, d.tag), d.in.Job.UID) {
		case v1beta1.ImagePhaseSucceeded:
			d.succeeded++
		case v1beta1.ImagePhaseFailed:
			d.failed = append(d.failed, n)
		default:
			d.active = append(d.active, n)
		}
	}
}

// ownTag is the tag of the job on a node, if it has begun it. Tags of an image that the job wanted earlier are released.
func (d *decision) ownTag(n *Node) (found *v1beta1.ImageTagSpec) {
	if n.Image == nil {
		return nil
	}
	for name, image := range n.Image.Spec.Images {
		for i := range image.Tags {
			tag := &image.Tags[i]
			switch {
			case !ownedBy(tag, d.in.Job.UID):
			case name == d.name && tag.Tag == d.tag:
				found = tag
			default:
				removeOwner(d.draft(n), name, tag.Tag, d.in.Job.UID)
			}
		}
	}
	return found
}

func (d *decision) draft(n *Node) *draft {
	t := d.drafts[n.Name]
	if t == nil {
		t = newDraft(n.Image)
		d.drafts[n.Name] = t
		d.order = append(d.order, n.Name)
	}
	return t
}

// afterCompletion is about a job that has ended: its pulls are cancelled, and it is deleted after its TTL.
func (d *decision) afterCompletion(status *v1beta1.ImagePullJobStatus) Plan {
	d.cancel()
	if status.ObservedGeneration = d.in.Job.Generation; len(status.Conditions) == 0 { // it ended under OpenKruise, or a version that wrote none; later changes have no effect
		judge(status, d.in.Job, ended(status), d.in.Now)
	}
	plan := Plan{Status: *status, Edits: d.edits()}
	if ttl := d.in.Job.Spec.CompletionPolicy.TTLSecondsAfterFinished; ttl != nil {
		end := status.CompletionTime.Add(seconds(*ttl))
		if plan.Delete = !d.in.Now.Before(end); !plan.Delete {
			plan.Wake = end
		}
	}
	return plan
}

// cancel leaves every node that is not done.
func (d *decision) cancel() {
	for _, n := range d.active {
		removeOwner(d.draft(n), d.name, d.tag, d.in.Job.UID)
	}
}

// run is what a job does that has not ended.
func (d *decision) run() Plan {
	job := d.in.Job
	start := d.in.Now
	if job.Status.StartTime != nil {
		start = job.Status.StartTime.Time
	}
	plan := Plan{}
	done := d.succeeded + len(d.failed)
	always := job.Spec.CompletionPolicy.Type != v1beta1.CompletionNever
	late := false
	if limit := job.Spec.CompletionPolicy.ActiveDeadlineSeconds; always && limit != nil {
		plan.Wake = start.Add(seconds(*limit))
		late = done < d.desired && !d.in.Now.Before(plan.Wake)
	}
	switch {
	case late:
		d.cancel()
		d.failed = append(append(d.failed, d.active...), d.waiting...)
		d.active, d.waiting = nil, nil
	case always && done == d.desired:
	default:
		plan.More = d.begin()
		d.refresh()
		plan.Status.Message = d.progress()
	}
	d.report(&plan, start)
	if late {
		plan.Status.Message = messageDeadline
	}
	if late || always && done == d.desired {
		d.complete(&plan)
	}
	judge(&plan.Status, job, d.health(), d.in.Now)
	plan.Edits = d.edits()
	return plan
}

// maxStarts is how many nodes one decision begins at most, so that the status moves while a large job begins.
const maxStarts = 100

// refused reports whether the API server has refused the last change of the NodeImage.
func (d *decision) refused(n *Node) bool { return d.in.Refused[n.Name] != "" }

// begin starts as many nodes as there is room for: ready ones first, refused ones last, those in the given
// order before the others. It reports whether there is room for more than one decision may begin.
func (d *decision) begin() (more bool) {
	free := d.parallelism() - len(d.active)
	more = free > maxStarts
	free = min(free, maxStarts)
	if free <= 0 || d.in.Hold != "" || len(d.waiting) == 0 {
		return false
	}
	rank := map[string]int{}
	for i, name := range d.in.Order {
		rank[name] = i - len(d.in.Order)
	}
	slices.SortStableFunc(d.waiting, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(boolRank(!a.Ready), boolRank(!b.Ready)), cmp.Compare(boolRank(d.refused(a)), boolRank(d.refused(b))), cmp.Compare(rank[a.Name], rank[b.Name]), strings.Compare(a.Name, b.Name))
	})
	still := d.waiting[:0:0]
	for _, n := range d.waiting {
		if free == 0 || n.Image == nil || d.in.Held[n.Name] || !d.room(n) {
			still = append(still, n)
			continue
		}
		free--
		t := d.draft(n)
		d.addOwner(t)
		t.edit.Begins = true
		d.active = append(d.active, n)
	}
	d.waiting = still
	return more && free == 0 && len(still) > 0
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// room reports whether the NodeImage can have the image.
func (d *decision) room(n *Node) bool {
	if d.claim == nil {
		claim, tag := claimOf(d.in.Job), d.wanted(n.Name)
		claim.bytes = len(d.name) + bytesOf(&tag) + bytesOfSandbox(d.in.Job.Spec.SandboxConfig)
		d.claim = &claim
	}
	return d.claim.Room(n.Image, d.name)
}

// parallelism is how many nodes may be active at once; one that cannot be read holds the job, as 0 does.
func (d *decision) parallelism() int {
	p := d.in.Job.Spec.Parallelism
	if p == nil {
		return 1
	}
	return p.IntValue()
}

// refresh updates unfinished tags that only this job owns, after the job was changed.
func (d *decision) refresh() {
	for _, n := range d.active {
		tag := d.soleTag(n)
		if tag == nil || d.drafts[n.Name] != nil {
			continue
		}
		want := d.wanted(n.Name)
		if d.in.Hold != "" {
			want.PullSecrets = tag.PullSecrets // those of the job are not known
		}
		if equality.Semantic.DeepEqual(tag.PullPolicy, want.PullPolicy) && equality.Semantic.DeepEqual(tag.PullSecrets, want.PullSecrets) {
			continue
		}
		t := d.draft(n)
		image := t.image(d.name)
		changed := &image.Tags[findTag(&image, d.tag)]
		changed.PullPolicy, changed.PullSecrets = want.PullPolicy, want.PullSecrets
		t.put(d.name, image)
	}
}

// soleTag is the tag on a node if the job is its only owner.
func (d *decision) soleTag(n *Node) *v1beta1.ImageTagSpec {
	image := n.Image.Spec.Images[d.name]
	i := findTag(&image, d.tag)
	if i < 0 || len(image.Tags[i].OwnerReferences) != 1 || image.Tags[i].OwnerReferences[0].UID != d.in.Job.UID {
		return nil
	}
	return &image.Tags[i]
}

// edits are the drafts that change something, sorted by name of their nodes.
func (d *decision) edits() []Edit {
	slices.Sort(d.order)
	var edits []Edit
	for _, name := range d.order {
		if t := d.drafts[name]; t.changed() {
			edits = append(edits, t.edit)
		}
	}
	return edits
}

// progress says in words how far a job is that runs.
func (d *decision) progress() string {
	full, held := 0, 0
	for _, n := range d.waiting {
		switch {
		case d.in.Held[n.Name]:
			held++
		case n.Image != nil && !d.room(n):
			full++
		}
	}
	done := d.succeeded + len(d.failed)
	message := messageNoProgress
	if d.desired > 0 {
		message = fmt.Sprintf(messageProgress, 100*float64(done)/float64(d.desired))
	}
	if d.in.Hold != "" {
		message += "; " + d.in.Hold
	}
	if held > 0 {
		message += fmt.Sprintf("; %d nodes pull the image when the rollout releases them", held)
	}
	for i := range d.in.Nodes {
		if n := &d.in.Nodes[i]; d.refused(n) && (d.drafts[n.Name] != nil || slices.ContainsFunc(d.waiting, func(w *Node) bool { return w.Name == n.Name })) {
			message += fmt.Sprintf("; the node image of %s cannot be changed: %s", n.Name, d.in.Refused[n.Name])
			break
		}
	}
	if full > 0 {
		message += fmt.Sprintf("; %d nodes have no room for the image: their node images are at the limit of images, in total or for this namespace", full)
	}
	return message
}

// complete ends the job.
func (d *decision) complete(plan *Plan) {
	now := metav1.NewTime(d.in.Now.Truncate(time.Second))
	plan.Status.CompletionTime = &now
	if plan.Status.Message == "" {
		plan.Status.Message = messageCompleted
	}
	plan.Events = append(plan.Events, Event{
		Warning: len(d.failed) > 0, Reason: ReasonCompleted,
		Message: fmt.Sprintf(messageAllCompleted, imageref.Join(d.name, d.tag), d.succeeded, d.desired, len(d.failed)),
	})
	if ttl := d.in.Job.Spec.CompletionPolicy.TTLSecondsAfterFinished; ttl != nil {
		plan.Wake = now.Add(seconds(*ttl))
	} else {
		plan.Wake = time.Time{}
	}
}

// MaxFailedNodes is how many failed nodes the status of a job names, so that it can be written for a cluster of any size.
const MaxFailedNodes = 1000

// report writes the numbers into the status, and adds events for nodes that failed since the last one.
func (d *decision) report(plan *Plan, start time.Time) {
	began := metav1.NewTime(start.Truncate(time.Second))
	s := &plan.Status
	s.StartTime = &began
	s.Desired, s.Active, s.Succeeded, s.Failed = int32(d.desired), int32(len(d.active)), int32(d.succeeded), int32(len(d.failed))
	slices.SortFunc(d.failed, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	known := map[string]bool{}
	for _, name := range d.in.Job.Status.FailedNodes {
		known[name] = true
	}
	for _, n := range d.failed[:min(len(d.failed), MaxFailedNodes)] {
		s.FailedNodes = append(s.FailedNodes, n.Name)
		if why := d.why(n); !known[n.Name] && why != "" {
			plan.Events = append(plan.Events, Event{
				Warning: true, Reason: ReasonPullImageFailed,
				Message: fmt.Sprintf(messagePullFailed, imageref.Join(d.name, d.tag), n.Name, why),
			})
		}
	}
}

// why returns the error that the agent of a node has reported; empty for a node that has not failed.
func (d *decision) why(n *Node) string {
	if n.Image == nil {
		return ""
	}
	report := tagStatus(&n.Image.Status, d.name, d.tag)
	if report == nil || report.Phase != v1beta1.ImagePhaseFailed {
		return ""
	}
	return cmp.Or(report.Message, "a reason that the node has not reported")
}
