// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode"
	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

// jobs are ImagePullJobs, and images of nodes, on an API server that is not there.
type jobs struct {
	all map[string]*v1beta1.ImagePullJob
	err error
	// there are images by node, and ordered when a node was told to pull what it has not.
	there   map[string]string
	ordered map[string]rollout.Time
	// unlisted are nodes that cannot be told to pull anything, and made when jobs were made.
	unlisted map[string]bool
	made     rollout.Time
	reading  bool
	missing  string
}

func newJobs() *jobs {
	return &jobs{all: map[string]*v1beta1.ImagePullJob{}, there: map[string]string{}, ordered: map[string]rollout.Time{}}
}

func (j *jobs) Serving() (bool, string) { return !j.reading && j.missing == "", j.missing }

func (j *jobs) Owned(_ context.Context, _ string, set types.UID) ([]predownload.Job, error) {
	var owned []predownload.Job
	for _, job := range j.all {
		if job.OwnerReferences[0].UID == set {
			owned = append(owned, predownload.Job{
				Name: job.Name, Hash: job.Labels[appsv1.ControllerRevisionHashLabelKey], Image: job.Spec.Image, Created: j.made, Stays: job.Spec.CompletionPolicy.Type == v1beta1.CompletionNever,
			})
		}
	}
	return owned, nil
}

func (j *jobs) Look(image string, job *predownload.Job) func(string) predownload.Pulled {
	return func(node string) predownload.Pulled {
		p := predownload.Pulled{There: j.there[node] == image}
		if job != nil {
			p.Ordered, p.Unlisted = j.ordered[node], j.unlisted[node]
		}
		return p
	}
}

func (j *jobs) Create(_ context.Context, job *v1beta1.ImagePullJob) error {
	if j.err == nil {
		j.all[job.Name] = job
	}
	return j.err
}

func (j *jobs) Delete(_ context.Context, _, name string) error {
	delete(j.all, name)
	return nil
}

// ahead is a world in which images are pulled ahead, with three nodes of which old pods run.
func ahead(t *testing.T, spec string) (*advanced, *jobs) {
	t.Helper()
	a, j := newAdvanced(t, 3, spec), newJobs()
	d := a.c.dialects["kruise"]
	d.Predownload = true
	a.c.PullJobs = j
	a.settle()
	if len(j.all) > 0 {
		t.Fatalf("the first pods have the jobs %v", j.all)
	}
	return a, j
}

// served is the order in which nodes are served.
func (w *world) served() []string {
	first, _ := w.c.Order("set-uid")
	return first
}

// marks are the revisions that carry a mark, as name=label.
func (w *world) marks() (marked []string) {
	for _, r := range w.revisions {
		for _, key := range []string{api.PredownloadCreated, api.PredownloadIgnored} {
			if _, ok := r.Labels[key]; ok {
				marked = append(marked, r.Name+"="+key)
			}
		}
	}
	return marked
}

func TestImagesArePulledAhead(t *testing.T) {
	a, j := ahead(t, `{updateStrategy: {rollingUpdate: {partition: 2}}}`)
	a.image("img:v2")
	a.settle()
	if len(j.all) != 1 || len(a.marks()) != 1 || !strings.HasSuffix(a.marks()[0], "="+api.PredownloadCreated) {
		t.Fatalf("the jobs are %v, the marks %v", j.all, a.marks())
	}
	for name, job := range j.all {
		if job.Spec.Image != "img:v2" || !strings.HasSuffix(name, "-c") || job.OwnerReferences[0].UID != "set-uid" || !*job.OwnerReferences[0].Controller {
			t.Errorf("got %+v", job)
		}
		if !strings.Contains(a.allEvents(), "Normal CreatedImagePullJob created ImagePullJob "+name+" for image: img:v2") {
			t.Errorf("told %s", a.allEvents())
		}
	}
	if got, _ := a.c.Order("set-uid"); len(got) != 2 || !slices.IsSortedFunc(got, func(x, y string) int { return strings.Compare(y, x) }) {
		t.Errorf("the order is %q", got)
	}
	a.image("img:v3")
	a.settle()
	for _, job := range j.all {
		if len(j.all) != 1 || job.Spec.Image != "img:v3" || len(a.marks()) != 1 {
			t.Errorf("after another change the jobs are %v, the marks %v", j.all, a.marks())
		}
	}
	a.change(func(spec map[string]any) {
		spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["partition"] = int64(0)
	})
	a.settle()
	if len(j.all) > 0 || a.served() != nil {
		t.Errorf("after the roll the jobs are %v, and the order is %q", j.all, a.served())
	}
}

// An update goes on where jobs cannot be made, and somebody is told.
func TestJobsThatCannotBeMade(t *testing.T) {
	a, j := ahead(t, `{}`)
	j.err = errors.New("quota")
	a.image("img:v2")
	after, err := a.c.Reconcile(t.Context(), a.key)
	if err != nil || after > predownloadRetry || after <= 0 {
		t.Errorf("comes back after %v, %v", after, err)
	}
	if len(a.wrote("delete")) != 1 {
		t.Errorf("the update does not begin: %q", a.log)
	}
	if !strings.Contains(a.allEvents(), "Warning FailedCreateImagePullJob failed to create ImagePullJob ") || len(a.marks()) > 0 {
		t.Errorf("told %s, marks %v", a.allEvents(), a.marks())
	}
	j.err = nil
	a.clock.Step(time.Minute)
	a.mustPass()
	if len(j.all) != 1 {
		t.Errorf("it is not tried again: %v", j.all)
	}
}

// What is tried again and again is told once, until its cause is another.
func TestJobsThatCannotBeMadeAreReportedOnce(t *testing.T) {
	a, j := ahead(t, `{updateStrategy: {rollingUpdate: {paused: true}}}`)
	j.err = errors.New("quota")
	a.image("img:v2")
	told := func() int {
		for range 5 {
			a.clock.Step(predownloadRetry)
			a.mustPass()
		}
		return strings.Count(a.allEvents(), "FailedCreateImagePullJob")
	}
	if n := told(); n != 1 {
		t.Errorf("one cause was told %d times", n)
	}
	if c := a.condition("Degraded"); c["status"] != "True" || c["reason"] != "FailedCreateImagePullJob" {
		t.Errorf("the condition is %v", c)
	}
	j.err = errors.New("policy")
	if n := told(); n != 1 {
		t.Errorf("another cause was told %d times", n)
	}
	j.err = nil
	told()
	if c := a.condition("Degraded"); c["status"] != "False" {
		t.Errorf("afterwards the condition is %v", c)
	}
}

// A set of apps/v1 gets the same, whether its pods are updated by us or by somebody else.
func TestNativeSetsPullAhead(t *testing.T) {
	for _, strategy := range []appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType} {
		w := newWorld(t, 3, func(ds *appsv1.DaemonSet) { ds.Spec.UpdateStrategy.Type = strategy })
		j := w.pullAhead()
		w.settle()
		w.edit("img:v2")
		w.annotate(api.PredownloadParallelism, "7")
		w.mustPass()
		if len(j.all) != 1 || len(w.marks()) != 1 {
			t.Fatalf("%s: the jobs are %v, the marks %v", strategy, j.all, w.marks())
		}
		for _, job := range j.all {
			owner := job.OwnerReferences[0]
			if job.Spec.Image != "img:v2" || job.Spec.Parallelism.IntValue() != 7 || owner.APIVersion != "apps/v1" || owner.Kind != "DaemonSet" || owner.UID != "set-uid" {
				t.Errorf("%s: got %+v", strategy, job)
			}
		}
		if len(w.served()) != 3 {
			t.Errorf("%s: the order is %q", strategy, w.served())
		}
	}
}

// pullAhead has sets of the world pull ahead.
func (w *world) pullAhead() *jobs {
	j := newJobs()
	w.c.dialects[w.key.Dialect].Predownload = true
	w.c.PullJobs = j
	return j
}

func (w *world) annotate(key, value string) {
	annotations := w.set.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	w.set.SetAnnotations(annotations)
	w.set.SetResourceVersion(w.next())
	w.seeSet()
}

// condition is a condition of the set.
func (w *world) condition(kind string) map[string]any {
	list, _, _ := unstructured.NestedSlice(w.set.Object, "status", "conditions")
	for _, item := range list {
		if c, _ := item.(map[string]any); c["type"] == kind {
			return c
		}
	}
	return nil
}

// Where there is no webhook, what cannot be honoured is told.
func TestWrongAnnotationsAboutImages(t *testing.T) {
	for key, value := range map[string]string{
		api.PredownloadParallelism: "10%", api.PredownloadTimeout: "5m", api.PredownloadMinUpdatedReady: "some", everynode.WaitForImage: "yes",
	} {
		w := newWorld(t, 1, nil)
		w.pullAhead()
		w.annotate(key, value)
		w.settle()
		if told := w.allEvents(); strings.Count(told, "Warning InvalidAnnotation Annotation "+key+` is "`+value+`": set it to `) != 1 {
			t.Errorf("told %s", told)
		}
	}
}

// An update waits on each node for its image, and on no other node.
func TestUpdatesWaitForImages(t *testing.T) {
	w := newWorld(t, 3, func(ds *appsv1.DaemonSet) {
		all := intstr.FromString("100%")
		ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all}
	})
	j := w.pullAhead()
	w.annotate(everynode.WaitForImage, "true")
	w.annotate(api.PredownloadTimeout, "60")
	w.settle()
	w.edit("img:v2")
	w.annotate(everynode.WaitForImage, "true")
	w.annotate(api.PredownloadTimeout, "60")
	w.forgetLog()
	w.mustPass()
	if len(j.all) != 1 || len(w.wrote("delete")) > 0 {
		t.Fatalf("before any image is there the jobs are %v, and the writes %q", j.all, w.log)
	}
	const waiting = "Normal WaitingForImage Waiting for image on n1, n2, n3: the update of a node begins when it has the images of the new pod, or 1m0s after the pull was requested."
	if told := w.allEvents(); !strings.Contains(told, waiting) {
		t.Errorf("told %s", told)
	}
	w.c.PullsChanged("set-uid")
	j.there["n2"], j.ordered["n1"] = "img:v2", timeOf(w.clock.Now())
	if after, err := w.c.Reconcile(t.Context(), w.key); err != nil || after <= 0 || after > 60*time.Second {
		t.Errorf("comes back after %v, %v", after, err)
	}
	if gone := w.wrote("delete"); len(gone) != 1 || w.nodeOf(gone[0]) != "n2" {
		t.Errorf("deleted %q", gone)
	}
	w.clock.Step(61 * time.Second)
	w.mustPass()
	if gone := w.wrote("delete"); len(gone) != 2 {
		t.Errorf("after its time, deleted %q", gone)
	}
	if told := w.allEvents(); strings.Count(told, "WaitingForImage") > 0 ||
		strings.Count(told, "Warning ImageWaitOver Updating n1 without the images of the new pod: they are not there after 1m0s.") != 1 {
		t.Errorf("told %s", told)
	}
	for _, name := range slices.Collect(maps.Keys(j.all)) { // a job that somebody deletes comes back, or the third node waits for ever
		delete(j.all, name)
	}
	w.mustPass()
	if len(j.all) != 1 {
		t.Errorf("the jobs are %v", j.all)
	}
	j.there["n3"] = "img:v2"
	w.settle()
	if len(j.all) > 0 || w.status("updatedNumberScheduled") != 3 {
		t.Errorf("in the end the jobs are %v, and %d are updated", j.all, w.status("updatedNumberScheduled"))
	}
}

// A node that nobody can tell to pull is updated after its time all the same, and the set says why it waits.
func TestUpdatesDoNotWaitForWhatCannotBePulled(t *testing.T) {
	w := newWorld(t, 3, func(ds *appsv1.DaemonSet) {
		all := intstr.FromString("100%")
		ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all}
	})
	j := w.pullAhead()
	w.annotate(everynode.WaitForImage, "true")
	w.annotate(api.PredownloadTimeout, "60")
	w.settle()
	w.edit("img:v2")
	j.made = timeOf(w.clock.Now())
	w.forgetLog()
	w.mustPass()
	if after, err := w.c.Reconcile(t.Context(), w.key); err != nil || after <= 0 || after > time.Minute {
		t.Errorf("while no end is known it comes back after %v, %v", after, err)
	}
	j.unlisted = map[string]bool{"n1": true, "n2": true}
	w.clock.Step(30 * time.Second)
	w.mustPass()
	w.mustPass()
	if told := w.allEvents(); strings.Count(told, "Warning ImageCannotBePulled Cannot have the image pulled on n1, n2: ") != 1 || len(w.wrote("delete")) > 0 {
		t.Errorf("told %s, and deleted %q", told, w.wrote("delete"))
	}
	w.clock.Step(31 * time.Second)
	w.mustPass()
	if gone := w.wrote("delete"); len(gone) != 2 {
		t.Errorf("after its time, deleted %q", gone)
	}
	if told := w.allEvents(); strings.Count(told, "Warning ImageWaitOver Updating n1, n2 without the images") != 1 {
		t.Errorf("told %s", told)
	}
}

// nodeOf is the node of a pod that is there.
func (w *world) nodeOf(pod string) string {
	rec, _ := w.index.PodFrom(w.pods[pod])
	return rec.Node
}

// Before the watches have seen which images there are, a set that waits is held; one that does not is not.
func TestUpdatesWaitForTheWatchesOfImages(t *testing.T) {
	for _, wait := range []string{"true", "false"} {
		w := newWorld(t, 3, nil)
		j := w.pullAhead()
		w.settle()
		j.reading = true
		w.edit("img:v2")
		w.annotate(everynode.WaitForImage, wait)
		after, err := w.c.Reconcile(t.Context(), w.key)
		if deletes := len(w.wrote("delete")); err != nil || after == 0 || (deletes == 0) != (wait == "true") || len(j.all) > 0 {
			t.Errorf("%s: %d deletes, jobs %v, again after %v, %v", wait, deletes, j.all, after, err)
		}
	}
}

// A set that asks for what is not to be had here is told, once, and updated all the same.
func TestWaitingWhereNothingIsPulled(t *testing.T) {
	a := newAdvanced(t, 3, `{}`)
	a.settle()
	a.annotate(everynode.WaitForImage, "true")
	a.image("img:v2")
	a.settle()
	if told := a.allEvents(); strings.Count(told, "Annotation everynode.dev/wait-for-image has no effect: start everynode-manager with --feature-gates PreDownloadImageForDaemonSetUpdate=true") != 1 {
		t.Errorf("told %s", told)
	}
	if c := a.condition("Degraded"); c["status"] != "True" || c["reason"] != "IgnoredField" {
		t.Errorf("the condition is %v", c)
	}
	w := newWorld(t, 3, nil)
	j := w.pullAhead()
	j.missing = "the CRD x does not exist: apply it"
	w.settle()
	w.edit("img:v2")
	w.annotate(everynode.WaitForImage, "true")
	w.settle()
	if told := w.allEvents(); strings.Count(told, "ImagePullsNotServed No images are pulled ahead, and no update waits for them: the CRD x does not exist: apply it.") != 1 {
		t.Errorf("told %s", told)
	}
	if a.status("updatedNumberScheduled") != 3 || w.status("updatedNumberScheduled") != 3 {
		t.Error("the updates wait")
	}
}

// What is known of a set goes with it, also when another of its name comes at once.
func TestOrdersOfASetThatIsMadeAgain(t *testing.T) {
	a, _ := ahead(t, `{updateStrategy: {rollingUpdate: {partition: 2}}}`)
	a.annotate(everynode.WaitForImage, "true")
	a.image("img:v2")
	a.settle()
	if len(a.served()) == 0 {
		t.Fatal("there is no order")
	}
	a.set.SetUID("another")
	a.annotate("made", "anew")
	_ = a.pass() // its revision has the name of another set's; what counts is that it was looked at
	if a.served() != nil || len(a.c.orders.waiting) != 1 {
		t.Errorf("left are the order %q, and waiting %v", a.served(), a.c.orders.waiting)
	}
}
