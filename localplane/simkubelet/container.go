// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"crypto/sha256"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// phase is the phase of a container.
type phase int

const (
	// phaseWaiting is before the image is checked.
	phaseWaiting phase = iota
	// phasePulling ends with the image in the store, or with phasePullError.
	phasePulling
	// phasePullError lasts until the image is changed.
	phasePullError
	// phaseNeverPull is a missing image that may not be pulled.
	phaseNeverPull
	phaseStarting
	phaseRunning
	// phaseStopping is a running container whose image was changed.
	phaseStopping
	// phaseBackOff is a crashed container that waits for the next attempt.
	phaseBackOff
	// phaseExited is a container that has ended permanently.
	phaseExited
)

// pullErrorShown is how long a failed pull is reported as an error before it is reported as a back-off.
const pullErrorShown = time.Second

// container is the state of one container on its node.
type container struct {
	phase phase
	// image is the wanted image, ran the image of the last attempt.
	image, ran string
	// until is when the phase ends; zero means never.
	until time.Time
	// attempts counts the attempts so far.
	attempts int
	// crashes counts the failed attempts of this image.
	crashes int
	started time.Time
	ready   bool
	// exit is the end of the last attempt.
	exit *v1.ContainerStateTerminated
}

// step is the input of a state transition.
type step struct {
	now     time.Time
	pod     *v1.Pod
	spec    *v1.Container
	images  *ImageStore
	profile Profile
	// runsOnce is true for an init container that must end.
	runsOnce bool
}

// advance makes the transitions that are due.
func (c *container) advance(s step) {
	c.followSpec(s)
	for c.move(s) {
	}
}

// followSpec handles an image that was changed in place. Like a kubelet, it ends the old container first and then pulls
// the new image.
func (c *container) followSpec(s step) {
	if c.image == s.spec.Image || c.phase == phaseExited {
		return
	}
	switch c.phase {
	case phaseStopping:
	case phaseRunning:
		c.phase, c.until = phaseStopping, s.now.Add(s.delay(s.profile.ContainerStop, c.attempts))
	default:
		c.phase, c.image, c.until = phaseWaiting, s.spec.Image, time.Time{}
	}
	c.crashes = 0
}

// move makes one transition if one is due.
func (c *container) move(s step) bool {
	if !c.until.IsZero() && c.until.After(s.now) {
		return false
	}
	switch c.phase {
	case phaseWaiting:
		c.lookForImage(s)
	case phasePulling:
		c.pulled(s)
	case phaseBackOff:
		c.enter(phaseStarting, c.at(s), s.delay(s.profile.ContainerStart, c.attempts))
	case phaseStarting:
		c.run(s)
	case phaseStopping:
		c.end(c.at(s), 0)
		c.phase, c.image, c.until = phaseWaiting, s.spec.Image, time.Time{}
	case phaseRunning:
		return c.runOn(s)
	case phasePullError, phaseNeverPull, phaseExited:
		// followSpec ends the first two phases.
		c.until = time.Time{}
		return false
	}
	return true
}

// at returns when the phase that ends now was due to end.
func (c *container) at(s step) time.Time {
	if c.until.IsZero() {
		return s.now
	}
	return c.until
}

func (c *container) enter(p phase, from time.Time, d time.Duration) {
	c.phase, c.until = p, from.Add(d)
}

func (c *container) lookForImage(s step) {
	c.image = s.spec.Image
	if s.spec.ImagePullPolicy == v1.PullNever && !s.images.Has(c.image, s.now) {
		c.phase = phaseNeverPull
		return
	}
	pull := s.profile.spread(s.profile.ImagePull, s.pod.Spec.NodeName+c.image)
	if !Pullable(c.image, s.pod.Spec.NodeName) {
		c.enter(phasePulling, s.now, pull)
		return
	}
	c.phase, c.until = phasePulling, s.images.Pull(c.image, s.now, pull)
}

func (c *container) pulled(s step) {
	if Pullable(c.image, s.pod.Spec.NodeName) {
		c.enter(phaseStarting, s.now, s.delay(s.profile.ContainerStart, c.attempts))
		return
	}
	c.phase = phasePullError
	if s.profile.ImagePull > 0 {
		c.until = c.at(s).Add(pullErrorShown)
	} else {
		c.until = time.Time{}
	}
}

func (c *container) run(s step) {
	c.attempts++
	c.ran, c.started, c.ready = c.image, c.at(s), false
	switch {
	case Crashes(c.image):
		c.enter(phaseRunning, c.started, s.delay(s.profile.CrashAfter, c.attempts))
	case s.runsOnce:
		c.enter(phaseRunning, c.started, s.delay(s.profile.InitRun, c.attempts))
	default:
		c.enter(phaseRunning, c.started, s.readyDelay(c.attempts))
	}
}

// runOn is a running container that crashes, completes, or becomes ready.
func (c *container) runOn(s step) bool {
	switch {
	case Crashes(c.image):
		c.end(c.at(s), 1)
		c.crashed(s)
	case s.runsOnce:
		c.end(c.at(s), 0)
		c.phase, c.until, c.ready = phaseExited, time.Time{}, true
	case !c.ready:
		c.ready, c.until = true, time.Time{}
	default:
		return false
	}
	return true
}

// end records the end of an attempt.
func (c *container) end(at time.Time, code int32) {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	c.ready = false
	c.exit = &v1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: seconds(c.started), FinishedAt: seconds(at),
	}
}

func (c *container) crashed(s step) {
	c.crashes++
	if !s.restarts() {
		c.phase, c.until = phaseExited, time.Time{}
		return
	}
	c.enter(phaseBackOff, c.at(s), s.profile.backOff(c.crashes))
}

// restarts reports whether a failed attempt is followed by another one.
func (s step) restarts() bool {
	if s.spec.RestartPolicy != nil && *s.spec.RestartPolicy == v1.ContainerRestartPolicyAlways {
		return true
	}
	return s.pod.Spec.RestartPolicy != v1.RestartPolicyNever
}

// backOff returns the delay after the n-th crash: none after the first, then doubling.
func (p Profile) backOff(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	const enough = 20
	return min(p.CrashBackOff<<min(n-2, enough), p.CrashBackOffMax)
}

func (s step) delay(d time.Duration, attempt int) time.Duration {
	return s.profile.spread(d, fmt.Sprintf("%s/%s/%d", s.pod.UID, s.spec.Name, attempt))
}

func (s step) readyDelay(attempt int) time.Duration {
	d := s.delay(s.profile.ContainerReady, attempt)
	if probe := s.spec.ReadinessProbe; probe != nil {
		d += time.Duration(probe.InitialDelaySeconds) * time.Second
	}
	return d
}

// containerID returns the container ID of the last attempt.
func containerID(pod *v1.Pod, name string, attempt int) string {
	if attempt == 0 {
		return ""
	}
	return fmt.Sprintf("containerd://%x", sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", pod.UID, name, attempt)))
}

// seconds truncates a time to whole seconds, as in the API.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
