// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/imagepull"
	"everynode.dev/everynode/internal/imageref"
	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

// pulls are the jobs of a set, and what the nodes report of images.
type pulls struct {
	jobs   []predownload.Job
	images map[string]*v1beta1.NodeImage
}

// AwaitImages has the nodes of the evaluation wait that the manager has wait for images, and decides again. It returns what the agent of a node reports of the
// images of the wanted revision. Nothing waits where jobs, NodeImages or agents cannot be read, or where the set has no job that waits.
func AwaitImages(ctx context.Context, c *options.Clients, m *Evaluation) (reports func(node string) []string) {
	nothing := func(string) []string { return nil }
	asked, w := m.Workload.PullAhead.Wait, m.Workload
	if m.History == nil || m.History.Current < 0 || !asked && !predownload.MayWaitInPlace(w, &m.Snapshot.Set) {
		return nothing
	}
	in := &predownload.Input{Set: w, Snapshot: &m.Snapshot}
	for i := range m.History.Entries {
		in.Revisions = append(in.Revisions, predownload.Revision{Name: m.History.Entries[i].Name, Hash: m.History.Entries[i].Hash, Template: m.History.Entries[i].Template})
	}
	p := readPulls(ctx, c, m)
	if len(p.jobs) == 0 {
		return nothing
	}
	in.Jobs = p.jobs
	if !asked {
		in.InPlace = &predownload.InPlace{Agents: map[string]int{}, Only: true, Held: map[string]bool{}}
		for node := range installed.Agents(ctx, c.Kubernetes) {
			in.InPlace.Agents[node] = 1
		}
	}
	in.Wait(p.look)
	m.Plan = live.Decide(w, m.Snapshot)
	return p.reports
}

// readPulls reads the jobs of the set that updates wait for, and the NodeImages if there are any.
func readPulls(ctx context.Context, c *options.Clients, m *Evaluation) pulls {
	p := pulls{images: map[string]*v1beta1.NodeImage{}}
	version := v1beta1.GroupVersion()
	jobs, err := c.Dynamic.Resource(version.WithResource(kruiseapi.ResourceJob)).Namespace(m.Set.Namespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return p
	}
	for i := range jobs.Items {
		var job v1beta1.ImagePullJob
		if runtime.DefaultUnstructuredConverter.FromUnstructured(jobs.Items[i].Object, &job) != nil || !metav1.IsControlledBy(&job, &metav1.ObjectMeta{UID: m.Workload.UID}) {
			continue
		}
		if job.Spec.CompletionPolicy.Type == v1beta1.CompletionNever && job.Labels[appsv1.ControllerRevisionHashLabelKey] == m.History.Entries[m.History.Current].Hash {
			p.jobs = append(p.jobs, predownload.Job{
				Namespace: job.Namespace, Name: job.Name, Hash: m.History.Entries[m.History.Current].Hash, Image: job.Spec.Image, UID: job.UID,
				Created: rollout.Time(job.CreationTimestamp.UnixNano()), Stays: true,
			})
		}
	}
	if len(p.jobs) == 0 {
		return p
	}
	images, err := c.Dynamic.Resource(version.WithResource(kruiseapi.ResourceNodeImage)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return pulls{}
	}
	for i := range images.Items {
		image := &v1beta1.NodeImage{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(images.Items[i].Object, image) == nil {
			p.images[image.Name] = image
		}
	}
	return p
}

// look is a predownload.Look on what was read.
func (p *pulls) look(image string, job *predownload.Job) func(node string) predownload.Pulled {
	name, tag, err := imageref.Split(image)
	if err != nil || job == nil {
		return func(string) predownload.Pulled { return predownload.Pulled{There: true} } // nothing waits for it
	}
	return func(node string) predownload.Pulled {
		s := imagepull.ImageStateOf(p.images[node], name, tag, job.UID)
		pulled := predownload.Pulled{There: s.There}
		if !s.Since.IsZero() {
			pulled.Ordered = max(rollout.Time(s.Since.UnixNano()), job.Created)
		}
		return pulled
	}
}

// reports are what the agent of a node reports of the images of the jobs.
func (p *pulls) reports(node string) []string {
	of := p.images[node]
	if of == nil {
		return nil
	}
	var all []string
	for i := range p.jobs {
		name, tag, err := imageref.Split(p.jobs[i].Image)
		if err != nil {
			continue
		}
		for _, s := range of.Status.ImageStatuses[name].Tags {
			if s.Tag != tag {
				continue
			}
			text := fmt.Sprintf("%s: %s", p.jobs[i].Image, s.Phase)
			if s.Message != "" {
				text += ", " + s.Message
			}
			all = append(all, text)
		}
	}
	return all
}
