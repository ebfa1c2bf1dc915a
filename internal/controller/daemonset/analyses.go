// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// Analyses measure what policies ask for. No pass waits for that.
type Analyses interface {
	// Ask replaces what is measured for a set. wake is called after each answer.
	Ask(key clustercache.Key, questions []policy.Question, wake func())
	// Answers returns the answers since the last call, in their order.
	Answers(key clustercache.Key) []policy.Answer
}

// answers are those since the last decision; without Analyses there are none, so nothing that needs them passes.
func (p *pass) answers() []policy.Answer {
	if p.c.Analyses == nil {
		return nil
	}
	return p.c.Analyses.Answers(p.key)
}

// ask has measured what a decision asks for.
func (c *Controller) ask(key clustercache.Key, questions []policy.Question) {
	if c.Analyses != nil {
		c.Analyses.Ask(key, questions, func() { c.wake(key) })
	}
}
