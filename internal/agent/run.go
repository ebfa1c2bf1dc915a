// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"everynode.dev/everynode/internal/agent/credentials"
	"everynode.dev/everynode/internal/agent/cri"
)

// component is the name of the agent for the runtime and in events: the policy everynode-agent-own-node allows no other
// name.
const component = "everynode-agent"

// pull executes one run in the background, and sends its result to the loop.
func (l *loop) pull(ctx context.Context, number int64, o pullSpec) {
	e := pullResult{run: number}
	p := cri.Pull{Ref: o.ref, By: component}
	if o.sandbox != nil {
		p.Labels, p.Annotations = o.sandbox.Labels, o.sandbox.Annotations
	}
	var missing error
	p.Credentials, missing = l.keychain.find(ctx, o)
	if e.id, e.err = l.runtime.Pull(ctx, p); e.err != nil {
		e.text = credentials.Redact(e.err.Error())
		if len(p.Credentials) > 0 {
			e.text = credentials.Reason(e.err)
		}
		// An error of the credentials is not fatal, because the image may be public.
		if missing != nil {
			e.text += "\n" + credentials.Redact(missing.Error())
		}
	} else if id, err := l.runtime.Image(ctx, o.ref); err == nil && id != "" {
		e.id = id // the response to a pull may be a digest, which is not the ID
	}
	select {
	case l.results <- e:
	case <-l.done:
	}
}
