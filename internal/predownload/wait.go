// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// Pulled is what is known about one image on one node.
type Pulled struct {
	// There reports whether the node has it.
	There bool
	// Ordered is when the image was added to the NodeImage; 0 if it was not.
	Ordered rollout.Time
	// Unlisted reports whether the image cannot be added to the NodeImage: it has no room, or the API server refuses the change. The wait then
	// begins when the job was created.
	Unlisted bool
}

// Look returns the state of an image on the node with that name. The set orders the image with job, which is nil if there is none.
type Look func(image string, job *Job) func(node string) Pulled

// Wait sets for each old node of a set that waits for images whether images are missing, and when the wait
// ends. An image that the old pod runs is present. Wait changes the Snapshot of the Input. It returns the
// names of nodes that wait and are Unlisted.
func (in *Input) Wait(look Look) (unlisted []string) {
	s := in.Snapshot
	s.Set.ImagesInPlace = in.InPlace != nil
	if s.Set.Update < 0 || s.Set.Update >= len(in.Revisions) {
		return nil
	}
	has, wanted := in.images(), in.wanted()
	pulled, jobs := make([]func(node string) Pulled, len(wanted)), make([]*Job, len(wanted))
	for i := range wanted {
		jobs[i] = in.jobFor(wanted[i].Image)
		pulled[i] = look(wanted[i].Image, jobs[i])
	}
	known := func(node, image int) Pulled { return plausible(pulled[image](s.Nodes[node].Name), jobs[image], s.Now) }
	if in.InPlace != nil {
		in.lastOrder(known, len(wanted))
	}
	for i := range s.Nodes {
		pod := oldPod(s, i)
		if pod == nil || in.InPlace != nil && !in.concerns(i, pod) {
			continue
		}
		w := wait{}
		for k := range wanted {
			if has.lacks(pod, wanted[k].Image) {
				w.add(in.bounded(s.Nodes[i].Name, known(i, k), jobs[k]), jobs[k], in.Set.PullAhead.Timeout)
			}
		}
		s.Nodes[i].ImageWait, s.Nodes[i].ImageUntil = w.on, w.end()
		if w.unlisted {
			unlisted = append(unlisted, s.Nodes[i].Name)
		}
	}
	return unlisted
}

// jobFor is the job by which the set orders an image; nil if there is none.
func (in *Input) jobFor(image string) *Job {
	for i := range in.Jobs {
		if job := &in.Jobs[i]; job.Image == image && in.serves(job) {
			return job
		}
	}
	return nil
}

// maxAhead is how far the time of an order may lie in the future: the clocks of successive leaders may differ by minutes.
const maxAhead = 10 * time.Minute

// plausible returns the state of an image. If a leader with a fast clock wrote the time of the order, the
// time of the job replaces it; without a job, the order does not count.
func plausible(p Pulled, job *Job, now rollout.Time) Pulled {
	if p.Ordered > now.Add(maxAhead) {
		p.Ordered = 0
		if job != nil {
			p.Ordered = job.Created
		}
	}
	return p
}

// wait is how long a node waits for several images: for the last of them.
type wait struct {
	on bool
	// open reports whether one of them was not ordered yet, and until is when the wait for the others ends.
	open  bool
	until rollout.Time
	// unlisted reports whether one of them is Unlisted.
	unlisted bool
}

func (w *wait) add(p Pulled, job *Job, timeout time.Duration) {
	if p.There {
		return
	}
	w.on = true
	if p.Ordered == 0 && p.Unlisted && job != nil {
		w.unlisted, p.Ordered = true, job.Created
	}
	w.open = w.open || p.Ordered == 0
	w.until = max(w.until, p.Ordered.Add(timeout))
}

func (w *wait) end() rollout.Time {
	if w.open {
		return 0
	}
	return w.until
}
