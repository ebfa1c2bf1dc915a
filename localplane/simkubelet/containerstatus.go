// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// status returns the status of the container for the API server.
func (c *container) status(s step, podStarted bool) v1.ContainerStatus {
	running := c.phase == phaseRunning || c.phase == phaseStopping
	st := v1.ContainerStatus{
		Name:         s.spec.Name,
		Image:        s.spec.Image,
		Ready:        c.ready,
		Started:      &running,
		RestartCount: int32(max(0, c.attempts-1)),
		ContainerID:  containerID(s.pod, s.spec.Name, c.attempts),
	}
	if c.attempts > 0 {
		st.Image, st.ImageID = c.ran, ImageID(c.ran)
		// A simulated node has sufficient resources, so a change of resources takes effect immediately.
		st.Resources = given(s.spec)
	}
	c.setState(&st, s, podStarted)
	return st
}

// given returns the resources of a container: nil if it requests none.
func given(spec *v1.Container) *v1.ResourceRequirements {
	if len(spec.Resources.Limits)+len(spec.Resources.Requests) == 0 {
		return nil
	}
	return &v1.ResourceRequirements{Limits: spec.Resources.Limits.DeepCopy(), Requests: spec.Resources.Requests.DeepCopy()}
}

// setState sets the current and the last state. While a new image is checked, the end of the old attempt is the current
// state, and becomes the last state when there is a reason for waiting.
func (c *container) setState(st *v1.ContainerStatus, s step, podStarted bool) {
	exit := c.terminated(s)
	switch c.phase {
	case phaseRunning, phaseStopping:
		st.State.Running = &v1.ContainerStateRunning{StartedAt: seconds(c.started)}
	case phaseExited:
		st.State.Terminated = exit
		return
	case phaseWaiting, phasePulling, phaseStarting:
		if exit != nil {
			st.State.Terminated = exit
			return
		}
		st.State.Waiting = &v1.ContainerStateWaiting{Reason: "ContainerCreating"}
		if !podStarted {
			st.State.Waiting.Reason = "PodInitializing"
		}
	default:
		st.State.Waiting = c.trouble(s)
	}
	st.LastTerminationState.Terminated = exit
}

// trouble returns the waiting state of a container that may wait forever.
func (c *container) trouble(s step) *v1.ContainerStateWaiting {
	switch {
	case c.phase == phaseBackOff:
		return &v1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff",
			Message: fmt.Sprintf("the container crashed %d times and is started again after %s",
				c.crashes, s.profile.backOff(c.crashes).Round(time.Second)),
		}
	case c.phase == phaseNeverPull:
		return &v1.ContainerStateWaiting{
			Reason:  "ErrImageNeverPull",
			Message: fmt.Sprintf("image %q is not on the node and its pull policy is Never", c.image),
		}
	case !c.until.IsZero():
		return &v1.ContainerStateWaiting{
			Reason:  "ErrImagePull",
			Message: fmt.Sprintf("no such image on any simulated registry: %q", c.image),
		}
	default:
		return &v1.ContainerStateWaiting{
			Reason:  "ImagePullBackOff",
			Message: fmt.Sprintf("waiting to pull image %q again", c.image),
		}
	}
}

func (c *container) terminated(s step) *v1.ContainerStateTerminated {
	if c.exit == nil {
		return nil
	}
	exit := *c.exit
	// The attempt that ended: the last one, unless it is running.
	ended := c.attempts
	if c.phase == phaseRunning || c.phase == phaseStopping {
		ended--
	}
	exit.ContainerID = containerID(s.pod, s.spec.Name, ended)
	return &exit
}

// recall restores a container from its status, so that a restart of this process has no effect.
func recall(st *v1.ContainerStatus, s step) container {
	c := container{image: st.Image, ran: st.Image, ready: st.Ready, attempts: int(st.RestartCount) + 1}
	if last := st.LastTerminationState.Terminated; last != nil {
		c.exit = last.DeepCopy()
	}
	switch {
	case st.State.Running != nil:
		c.phase, c.started = phaseRunning, st.State.Running.StartedAt.Time
		if !c.ready || Crashes(c.image) {
			c.until = c.started.Add(s.profile.ContainerReady)
		}
	case st.State.Terminated != nil:
		c.exit = st.State.Terminated.DeepCopy()
		done := s.runsOnce && c.exit.ExitCode == 0
		if done || !s.restarts() && c.image == s.spec.Image {
			c.phase = phaseExited
		} else {
			c.image = s.spec.Image
		}
	case c.exit == nil:
		// Nothing has run yet.
		return container{image: s.spec.Image}
	case st.State.Waiting != nil && st.State.Waiting.Reason == "CrashLoopBackOff":
		c.crashes = c.attempts
		c.phase, c.until = phaseBackOff, c.exit.FinishedAt.Add(s.profile.backOff(c.crashes))
	default:
		c.image = s.spec.Image
	}
	return c
}
