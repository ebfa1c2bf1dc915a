// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// troubleLength is how many characters of a message are shown.
const troubleLength = 120

// Trouble is why a pod of any owner does not start, as its status reports: that no node can take it, or what its first container waits
// for that does not come by itself; empty if it says no such thing. What the node has said of an earlier generation of the pod does not
// count.
//
// The text ends up in conditions, so it stays the same while the trouble does: what only shows how long the next attempt is put
// off is left out.
func Trouble(p *corev1.Pod) string {
	if p.Status.ObservedGeneration != 0 && p.Status.ObservedGeneration < p.Generation {
		return ""
	}
	if c := condition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return "the pod has no node yet" + shown(c.Reason, c.Message)
	}
	for kind, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		i := slices.IndexFunc(statuses, inTrouble)
		if i < 0 {
			continue
		}
		return [...]string{"init container ", "container "}[kind] + statuses[i].Name + causeOf(&statuses[i])
	}
	return ""
}

// inTrouble reports whether a container waits for something that does not come by itself.
func inTrouble(s corev1.ContainerStatus) bool {
	if s.State.Waiting == nil {
		return false
	}
	switch s.State.Waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed", "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
		"PreCreateHookError", "PreStartHookError", "PostStartHookError":
		return true
	default:
		return false
	}
}

// causeOf is the cause that a container in trouble gives. A back-off between two pulls repeats why the last one failed, and the message of
// a back-off between two starts is about nothing but times.
func causeOf(s *corev1.ContainerStatus) string {
	waiting := s.State.Waiting
	switch waiting.Reason {
	case "ImagePullBackOff":
		if image, back := strings.CutPrefix(waiting.Message, `Back-off pulling image "`); back {
			if _, cause, known := strings.Cut(image, `": `); known {
				return shown("", cause)
			}
		}
	case "CrashLoopBackOff":
		return shown(waiting.Reason, ending(s.LastTerminationState.Terminated))
	}
	return shown(waiting.Reason, waiting.Message)
}

// ending returns how the last run of a container ended, if that is known.
func ending(t *corev1.ContainerStateTerminated) string {
	switch {
	case t == nil:
		return ""
	case t.Reason == "" || t.Reason == "Error" || t.Reason == "Completed":
		return fmt.Sprintf("its last run ended with exit code %d", t.ExitCode)
	default:
		return fmt.Sprintf("its last run ended with exit code %d (%s)", t.ExitCode, t.Reason)
	}
}

// shown is ": reason: message", without what is empty, in one line, and cut to a length that fits into a condition.
func shown(reason, message string) string {
	text := ""
	for _, part := range []string{reason, strings.Join(strings.Fields(message), " ")} {
		if part != "" {
			text += ": " + part
		}
	}
	if letters := []rune(text); len(letters) > troubleLength {
		return string(letters[:troubleLength]) + "..."
	}
	return text
}
