// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"everynode.dev/everynode/internal/agent/credentials"
	"everynode.dev/everynode/internal/agent/cri"
)

// puller is what the runtime is told of who pulls, and who events are from: the policy everynode-agent-own-node lets no other name pass.
const puller = "everynode-agent"

// pull carries out one run, and tells the loop how it ended. It runs beside the loop.
func (l *loop) pull(ctx context.Context, number int64, o order) {
	e := ending{run: number}
	p := cri.Pull{Ref: o.ref, By: puller}
	if o.sandbox != nil {
		p.Labels, p.Annotations = o.sandbox.Labels, o.sandbox.Annotations
	}
	var missing error
	p.Credentials, missing = l.keys.find(ctx, o)
	if e.id, e.err = l.runtime.Pull(ctx, p); e.err != nil {
		e.text = credentials.Redact(e.err.Error())
		if len(p.Credentials) > 0 {
			e.text = credentials.Reason(e.err)
		}
		// A fault of the credentials alone is no error: the image may be public.
		if missing != nil {
			e.text += "\n" + credentials.Redact(missing.Error())
		}
	} else if id, err := l.runtime.Image(ctx, o.ref); err == nil && id != "" {
		e.id = id // a pull may be answered with a digest, which is not the ID
	}
	select {
	case l.ended <- e:
	case <-l.done:
	}
}
