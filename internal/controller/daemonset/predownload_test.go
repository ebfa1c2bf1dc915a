// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/predownload"
)

// jobs are ImagePullJobs on an API server that is not there.
type jobs struct {
	all map[string]*v1beta1.ImagePullJob
	err error
}

func (j *jobs) Owned(_ context.Context, _ string, set types.UID) ([]predownload.Job, error) {
	var owned []predownload.Job
	for _, job := range j.all {
		if job.OwnerReferences[0].UID == set {
			owned = append(owned, predownload.Job{Name: job.Name, Hash: job.Labels[appsv1.ControllerRevisionHashLabelKey]})
		}
	}
	return owned, nil
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
	a, j := newAdvanced(t, 3, spec), &jobs{all: map[string]*v1beta1.ImagePullJob{}}
	d := a.c.dialects["kruise"]
	d.Predownload = true
	a.c.PullJobs = j
	a.settle()
	if len(j.all) > 0 {
		t.Fatalf("the first pods have the jobs %v", j.all)
	}
	return a, j
}

// marks are the revisions that carry a mark, as name=label.
func (a *advanced) marks() (marked []string) {
	for _, r := range a.revisions {
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
	if got := a.c.Order("set-uid"); len(got) != 2 || !slices.IsSortedFunc(got, func(x, y string) int { return strings.Compare(y, x) }) {
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
	if len(j.all) > 0 || a.c.Order("set-uid") != nil {
		t.Errorf("after the roll the jobs are %v, and the order is %q", j.all, a.c.Order("set-uid"))
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
