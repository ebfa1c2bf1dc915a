// SPDX-License-Identifier: Apache-2.0

package rollout

import "slices"

// Waiting are the reasons why containers wait, as bits, as far as they do not go away by themselves. The zero value is any other reason, and none.
type Waiting uint16

// WaitingNone is for a pod of which no container waits for something that does not come by itself.
const WaitingNone Waiting = 0

// waitingReasons are the reasons that kubelet gives. Source: pkg/kubelet/container/sync_result.go, pkg/kubelet/images/types.go and
// pkg/kubelet/kuberuntime/kuberuntime_container.go of Kubernetes 1.37.
func waitingReasons() []string {
	return []string{
		"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
		"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError", "PreStartHookError",
		"PostStartHookError",
	}
}

// WaitingFor returns the value for the reason of a waiting container. Between two pulls that fail, kubelet changes the reason from ErrImagePull to
// ImagePullBackOff and back, so both are one.
func WaitingFor(reason string) Waiting {
	switch reason {
	case "", "ContainerCreating", "PodInitializing": // most
		return WaitingNone
	case "ErrImagePull":
		reason = "ImagePullBackOff"
	}
	i := slices.Index(waitingReasons(), reason)
	if i < 0 {
		return WaitingNone
	}
	return 1 << i
}

// Reasons returns the reasons, in an order that does not depend on that of the containers.
func (w Waiting) Reasons() (reasons []string) {
	for i, reason := range waitingReasons() {
		if w&(1<<i) != 0 {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// String returns the first of the reasons; empty for WaitingNone.
func (w Waiting) String() string {
	if all := w.Reasons(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Ending is why a container ended. The zero value is that none has.
type Ending uint8

// The Endings that are not in endingReasons.
const (
	NotEnded   Ending = iota
	EndedOther        // for a reason without a name here
)

// endingReasons are the reasons that kubelet and the runtimes give, from EndedOther+1 on.
func endingReasons() []string {
	return []string{"", "", "Completed", "Error", "OOMKilled", "StartError", "ContainerCannotRun", "ContainerStatusUnknown", "DeadlineExceeded"}
}

// EndingFor returns the value for the reason of a container that has ended.
func EndingFor(reason string) Ending {
	if reason == "" {
		return EndedOther
	}
	return Ending(max(slices.Index(endingReasons(), reason), int(EndedOther)))
}

// String returns the reason; empty if none has ended, and for another one.
func (e Ending) String() string {
	if all := endingReasons(); int(e) < len(all) {
		return all[e]
	}
	return ""
}

// Pull is whether a pod waits until its node has pulled an image for the first start of a container. The zero value is that it may.
type Pull uint8

// The answers.
const (
	MayPull Pull = iota // the node does not say whether it pulls, or does something else
	Pulls               // all other things that the container needs are there
	NoPull              // it does not
)
