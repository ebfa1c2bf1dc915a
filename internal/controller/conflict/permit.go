// SPDX-License-Identifier: Apache-2.0

package conflict

import (
	"context"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// Settle waits until no write of a controller that has just stopped can take effect any more, and until the cache is
// newer than that. With an older cache, this controller would act on a state that the last writes of the other
// controller have changed.
type Settle func(ctx context.Context) error

// permit reports whether a dialect may write: not before the first check, not while another controller is active, and
// after that not before settle has returned.
type permit struct {
	settle Settle
	may    atomic.Bool
	// other reports whether the last check found another controller.
	other atomic.Bool
	// known reports whether there was a check, failed whether one has failed before that, unsettled whether writes of another controller may be in flight.
	known, failed, unsettled bool
}

// fail records that a check has failed. It reports whether it is the first one and nothing is known yet: until a check succeeds, nothing may be written, which is to
// be shown as if another controller were active.
func (p *permit) fail() (isNew bool) {
	isNew = !p.known && !p.failed
	p.failed = true
	return isNew
}

// decide uses the result of a check. It reports whether the result has changed, and whether to check again immediately:
// the other controller may have started again during the wait.
func (p *permit) decide(ctx context.Context, other bool) (changed, again bool) {
	p.other.Store(other)
	if !other && p.unsettled {
		if err := p.settle(ctx); err != nil {
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Another controller has ended, but the cluster could not be read since then; retrying")
			}
			return false, false
		}
		p.unsettled = false
		return false, true
	}
	p.unsettled = p.unsettled || other
	if p.may.Swap(!other) == !other && p.known {
		return false, false
	}
	p.known = true
	return true, false
}
