// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"sync"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
)

// failures remembers for each set why its passes failed. A pass is repeated, and a node is tried again, until a person raises a quota or changes a
// policy; the log has this once, and again only for another reason.
type failures struct {
	mu      sync.Mutex
	reasons map[clustercache.Key]map[string]bool
	// blocked are the sets with nodes for which a write was refused: they are not tried in every pass.
	blocked map[clustercache.Key]bool
}

// maxReasons is how many reasons of a set are remembered: texts may differ each time.
const maxReasons = 32

// setBlocked records whether the set has nodes for which a write was refused.
func (f *failures) setBlocked(key clustercache.Key, blocked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !blocked {
		delete(f.blocked, key)
		return
	}
	if f.blocked == nil {
		f.blocked = map[clustercache.Key]bool{}
	}
	f.blocked[key] = true
}

// isNew takes the error of a pass, nil for one that succeeded, and is whether there is something new to say.
func (f *failures) isNew(key clustercache.Key, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		if !f.blocked[key] {
			delete(f.reasons, key)
		}
		return false
	}
	if f.reasons == nil {
		f.reasons = map[clustercache.Key]map[string]bool{}
	}
	known := f.reasons[key]
	if len(known) > maxReasons || known == nil {
		known = map[string]bool{}
		f.reasons[key] = known
	}
	isNew := false
	for _, reason := range reasonsOf(err) {
		isNew = isNew || !known[reason]
		known[reason] = true
	}
	return isNew
}

// reasonsOf is what err says, of refusals without the names of nodes and pods: the next one to be refused is another.
func reasonsOf(err error) []string {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, one := range many.Unwrap() {
			all = append(all, reasonsOf(one)...)
		}
		return all
	}
	if refusal := (*executor.Refusal)(nil); errors.As(err, &refusal) {
		return []string{refusal.Reason()}
	}
	return []string{apply.Brief(err).Error()}
}
