// SPDX-License-Identifier: Apache-2.0

package daemonset

import corev1 "k8s.io/api/core/v1"

// refuse sends an event for each problem of the set that has none yet, and returns whether one of them is fatal.
func (p *pass) refuse() bool {
	fatal := false
	if p.state.reportedOf != p.w.Generation {
		p.state.reportedOf, p.state.reported = p.w.Generation, map[string]bool{}
	}
	for _, problem := range p.w.Problems {
		fatal = fatal || problem.Fatal
		p.recordEvent(problem.Reason, problem.Message)
	}
	return fatal
}

// maxReported is how many problems of a set are remembered.
const maxReported = 64

// recordEvent sends an event that has not been sent for this generation yet.
func (p *pass) recordEvent(reason, message string) {
	if id := reason + "/" + message; !p.state.reported[id] {
		if len(p.state.reported) >= maxReported { // texts that differ each time
			clear(p.state.reported)
		}
		p.state.reported[id] = true
		p.c.Events.Event(p.object(), corev1.EventTypeWarning, reason, message)
	}
}
