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

// Trouble returns the reason in its status why a pod of any owner does not start: that no node can run it, or an
// error that its first container waits for, which does not resolve automatically; empty if there is none. A
// status for an earlier generation of the pod does not count. The text is used in conditions, so it does not
// change while the problem lasts: parts that only show the delay of the next attempt are omitted.
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

// inTrouble reports whether a container waits because of an error that does not resolve automatically.
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

// causeOf returns the cause that the status of a failing container shows. A back-off between two pulls
// repeats why the last pull failed; the message of a back-off between two starts contains only times.
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

// shown returns ": reason: message" in one line, without empty parts, and truncated to a length that fits into a condition.
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
