// SPDX-License-Identifier: Apache-2.0

package conflict

import (
	"context"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// Settle waits until no write of a controller that has just ended can take effect any more, and until everything that this one decides
// on is newer than that. A view that is older would let it act on what the other has changed with its last breath.
type Settle func(ctx context.Context) error

// permit is whether a dialect may write: never before the first look, not while somebody else is at work, and after that not before
// settle has returned.
type permit struct {
	settle Settle
	may    atomic.Bool
	// known is whether the first answer has come, unsettled whether writes of somebody else may be under way.
	known, unsettled bool
}

// decide takes what a look has found. It says whether the answer has changed, and whether to look again at once: whoever has ended may
// have come back while it was waited for.
func (p *permit) decide(ctx context.Context, other bool) (changed, again bool) {
	if !other && p.unsettled {
		if err := p.settle(ctx); err != nil {
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Another controller has ended, but the cluster could not be read since; trying again")
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
