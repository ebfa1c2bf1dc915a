// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/fleet"
)

// failures remembers for each set why its last pass failed. A pass is repeated again and again until somebody raises a quota or mends a
// policy; the log says so once, and once more only for another reason.
type failures struct {
	mu      sync.Mutex
	reasons map[fleet.Key]string
}

// isNew takes the error of a pass, nil for one that succeeded, and is whether there is something new to say.
func (f *failures) isNew(key fleet.Key, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.reasons, key)
		return false
	}
	if f.reasons == nil {
		f.reasons = map[fleet.Key]string{}
	}
	all := reasonsOf(err)
	slices.Sort(all)
	reason := strings.Join(slices.Compact(all), "\n")
	told := f.reasons[key] == reason
	f.reasons[key] = reason
	return !told
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
	return []string{err.Error()}
}
