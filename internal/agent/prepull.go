// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/agent/pull"
	"everynode.dev/everynode/internal/imageref"
)

// retryInterval is the pause after a failed request to the API server.
const retryInterval = 5 * time.Second

// revisions is the part of the API server client that a prepuller uses.
type revisions interface {
	// Template returns the pod template of a revision, or nil if there is no such revision.
	Template(ctx context.Context, namespace string, owner types.UID, hash string) (*corev1.PodTemplateSpec, error)
	SetCondition(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) error
}

// prepuller pulls the images that pods of the node request with the condition PodImageReady, and writes the result to
// the condition. Its whole state is in the pods, so the agent continues after a crash.
type prepuller struct {
	cluster revisions
	// pods returns the pods of the node; notifyLoop wakes the loop when the wants have changed.
	pods       func() (pods []*corev1.Pod, seen bool, err error)
	notifyLoop func()
	changed    chan struct{}

	mu       sync.Mutex
	requests map[requestKey]*request
	last     int64 // the highest number of a request
}

// requestKey identifies a request by pod, revision and time: a repeated request after a failure is a new one.
type requestKey struct {
	uid   types.UID
	hash  string
	since int64
}

// request is one pod that waits for images.
type request struct {
	pod   *corev1.Pod
	hash  string
	wants []pull.Want
	specs map[pull.Key]pullSpec
	// ended is true when all pulls have ended, reported when the condition is written; failed is the error of one of the
	// pulls.
	ended, reported bool
	failed          string
}

func newPrepuller(cluster revisions, notifyLoop func()) *prepuller {
	return &prepuller{cluster: cluster, notifyLoop: notifyLoop, changed: make(chan struct{}, 1), requests: map[requestKey]*request{}}
}

// notify wakes run after a change of pods or pulls.
func (p *prepuller) notify() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// run runs until ctx ends.
func (p *prepuller) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		case <-timer.C:
		}
		if err := p.step(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Pulling images for pods failed and will be retried")
			timer.Reset(retryInterval)
		}
	}
}

// step reads the requests of pods, and reports those that have ended.
func (p *prepuller) step(ctx context.Context) error {
	pods, _, err := p.pods()
	if err != nil {
		return err
	}
	asked := map[requestKey]*corev1.Pod{}
	for _, pod := range pods {
		if hash, since := requestedRevision(pod); hash != "" {
			asked[requestKey{pod.UID, hash, since}] = pod
		}
	}
	changed := p.drop(asked)
	for key, pod := range asked {
		began, failed := p.begin(ctx, key, pod)
		changed = changed || began
		if failed != nil {
			err = failed
		}
	}
	if changed {
		p.notifyLoop()
	}
	for _, a := range p.ended() {
		if failed := p.report(ctx, a); failed != nil {
			err = failed
		}
	}
	return err
}

// requestedRevision returns the revision whose images a pod requests, or "". In a request, the condition has no reason
// yet, and names the next revision of the pod.
func requestedRevision(pod *corev1.Pod) (hash string, since int64) {
	next, asks, announced := "", false, false
	for i := range pod.Status.Conditions {
		switch c := &pod.Status.Conditions[i]; {
		case c.Type == openyurt.PodImageReady && c.Status == corev1.ConditionFalse && c.Reason == "":
			hash, asks = openyurt.ParseRevision(c.Message)
			since = c.LastTransitionTime.Unix()
		case c.Type == openyurt.PodNeedUpgrade:
			next, announced = openyurt.ParseRevision(c.Message)
		}
	}
	if !asks || pod.DeletionTimestamp != nil || announced && next != hash {
		return "", 0
	}
	return hash, since
}

// drop removes requests that no pod has any more.
func (p *prepuller) drop(asked map[requestKey]*corev1.Pod) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.requests {
		if asked[key] == nil {
			delete(p.requests, key)
			changed = true
		}
	}
	return changed
}

// begin reads which images are needed, if that is not known yet.
func (p *prepuller) begin(ctx context.Context, key requestKey, pod *corev1.Pod) (began bool, err error) {
	p.mu.Lock()
	known := p.requests[key] != nil
	p.mu.Unlock()
	owner := metav1.GetControllerOf(pod)
	if known || owner == nil {
		return false, nil
	}
	template, err := p.cluster.Template(ctx, pod.Namespace, owner.UID, key.hash)
	if err != nil {
		return false, fmt.Errorf("reading the images of revision %s: %w", key.hash, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &request{pod: pod, hash: key.hash, specs: map[pull.Key]pullSpec{}}
	if template == nil {
		a.ended, a.failed = true, "there is no ControllerRevision "+key.hash
	} else {
		p.last++
		a.fill(template, p.last)
		a.ended = len(a.wants) == 0
	}
	p.requests[key] = a
	return true, nil
}

// fill creates a want for each image. The number distinguishes the request from earlier ones, which may have failed.
func (a *request) fill(template *corev1.PodTemplateSpec, number int64) {
	sandbox := &v1beta1.SandboxConfig{Labels: template.Labels, Annotations: template.Annotations}
	secrets := []v1beta1.ReferenceObject{}
	for _, spec := range []*corev1.PodSpec{&template.Spec, &a.pod.Spec} { // the pod also has the pull secrets of its service account
		for _, s := range spec.ImagePullSecrets {
			secrets = append(secrets, v1beta1.ReferenceObject{Namespace: a.pod.Namespace, Name: s.Name})
		}
	}
	add := func(image string, policy corev1.PullPolicy) {
		w := pull.Want{Key: pull.Key{Image: image, Version: number, Pod: string(a.pod.UID)}, Always: policy == corev1.PullAlways, Retries: -1}
		name, tag, err := imageref.Split(image)
		ref := imageref.Full{}
		if err == nil {
			w.Image, w.Tag = name, tag
			ref, err = imageref.Complete(name, tag)
		}
		if w.Ref = ref.Name; err != nil {
			w.Invalid = err.Error()
		}
		if _, twice := a.specs[w.Key]; image == "" || twice {
			return
		}
		a.wants = append(a.wants, w)
		a.specs[w.Key] = pullSpec{ref: ref, secrets: secrets, sandbox: sandbox, ofPod: true}
	}
	for _, c := range template.Spec.InitContainers {
		add(c.Image, c.ImagePullPolicy)
	}
	for _, c := range template.Spec.Containers {
		add(c.Image, c.ImagePullPolicy)
	}
	for _, v := range template.Spec.Volumes {
		if v.Image != nil {
			add(v.Image.Reference, v.Image.PullPolicy)
		}
	}
}

// wants returns the images that pods request, for the loop.
func (p *prepuller) wants() ([]pull.Want, map[pull.Key]pullSpec) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wants, specs := []pull.Want{}, map[pull.Key]pullSpec{}
	for _, a := range p.requests {
		wants = append(wants, a.wants...)
		for key, o := range a.specs {
			specs[key] = o
		}
	}
	return wants, specs
}

// observe updates the state of the pulls.
func (p *prepuller) observe(states []pull.State) {
	of := map[pull.Key]*pull.State{}
	for i := range states {
		of[states[i].Key] = &states[i]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.requests {
		if a.ended {
			continue
		}
		a.ended, a.failed = true, ""
		for i := range a.wants {
			switch s := of[a.wants[i].Key]; {
			case s == nil || !s.Final():
				a.ended = false
			case s.Phase == pull.Broken:
				a.failed = s.Image + ": " + s.Message
			}
		}
		if a.ended {
			p.notify()
		}
	}
}

// ended returns the requests that have ended and are not reported yet.
func (p *prepuller) ended() []*request {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []*request{}
	for _, a := range p.requests {
		if a.ended && !a.reported {
			all = append(all, a)
		}
	}
	return all
}

// report writes the result to the condition of the pod. The request is removed when the watch shows that.
func (p *prepuller) report(ctx context.Context, a *request) error {
	c := corev1.PodCondition{
		Type: openyurt.PodImageReady, Status: corev1.ConditionTrue, Reason: openyurt.PullImageSuccess,
		Message: openyurt.FormatRevision(a.hash), LastTransitionTime: metav1.Now(),
	}
	if a.failed != "" {
		klog.ErrorS(nil, "Pulling the images of a pod failed", "pod", klog.KObj(a.pod), "revision", a.hash, "cause", a.failed)
		c.Status, c.Reason = corev1.ConditionFalse, openyurt.PullImageFail
		c.Message = fmt.Sprintf("pull image job image-pre-pull-%s-%s failed", a.pod.Name, a.hash)
	}
	err := p.cluster.SetCondition(ctx, a.pod, c)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	// Only once, even if the pod does not exist any more: a second write would end a newer request.
	p.mu.Lock()
	defer p.mu.Unlock()
	a.reported = true
	return nil
}
