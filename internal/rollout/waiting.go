// SPDX-License-Identifier: Apache-2.0

package rollout

import "slices"

// Waiting is the reason why a container waits, if it is one that does not go away by itself. The zero value is any other reason, and none.
type Waiting uint8

// WaitingNone is for a pod of which no container waits for something that does not come by itself.
const WaitingNone Waiting = 0

// WaitingCount is the number of the values of Waiting.
const WaitingCount = Waiting(14)

// waitingReasons are the reasons that kubelet gives. Source: pkg/kubelet/container/sync_result.go, pkg/kubelet/images/types.go and
// pkg/kubelet/kuberuntime/kuberuntime_container.go of Kubernetes 1.37.
func waitingReasons() []string {
	return []string{
		"", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
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
	return Waiting(max(slices.Index(waitingReasons(), reason), 0))
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

// String returns the reason; empty for WaitingNone.
func (w Waiting) String() string {
	if all := waitingReasons(); int(w) < len(all) {
		return all[w]
	}
	return ""
}
