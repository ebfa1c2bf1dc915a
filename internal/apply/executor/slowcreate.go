// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// createSlowly is a create that no pass waits for.
func (r *run) createSlowly(ctx context.Context, i int, params name) outcome {
	a, e, t, object := r.job.Plan.Actions[i], r.e.continuing(), r.job.Texts, r.job.Object
	void := r.overtaken(a)
	if void() {
		r.leaveForNextPass()
		return createGoesOn
	}
	maker, warn := r.job.Maker(a.Revision), r.warner(a.Node)
	c := &slowCreate{e: e, name: params, workload: r.job.Workload, warn: func(err error) { warn(t.CreateFailed, t.CreateFailedText, err) }}
	room := e.sendSlowly(ctx, &slowWrite{
		verb: verbCreate, what: "creating a pod", node: params.Node, pod: params.PodName, void: r.unlessChanged(void),
		send: func(ctx context.Context) (*corev1.Pod, error) {
			return create(ctx, e.Slow.Pods, maker, c.name.Params)
		},
		meaning: func(_ context.Context, err error) (apply.Answer, error) {
			e.Count(verbCreate, apply.OfCreate(err))
			return apply.OfCreate(err), err
		},
		begun: func(until rollout.Time) {
			c.until = until
			w := c.write()
			w.Slow = true
			e.Index.Begin(w)
		},
		answered: c.answered,
		done:     func() { e.Events.Eventf(object, corev1.EventTypeNormal, t.Created, t.CreatedText, c.name.PodName) },
		failed:   c.warn,
	})
	if !room {
		r.laneFull()
	}
	return createGoesOn
}

// slowCreate is a create in the lane.
type slowCreate struct {
	e        sender
	name     name
	workload *dialect.Workload
	until    rollout.Time
	warn     func(err error)
}

// write is the create as it is under way.
func (c *slowCreate) write() inflight.Write {
	return inflight.Write{Verb: inflight.Create, Set: c.e.key, Node: c.name.Node, Pod: c.name.PodName, Until: c.until}
}

func (c *slowCreate) answered(ctx context.Context, answer apply.Answer, _ error, created *corev1.Pod) (again bool) {
	switch answer {
	case apply.Done:
		c.e.observe(created)
	case apply.Refused, apply.Busy, apply.Ended:
	case apply.Exists:
		return c.exists(ctx)
	default: // a read shows whether it exists, and who owns it
		c.e.Index.Resolve(c.write(), inflight.Unclear)
		return false
	}
	c.e.Index.Resolve(c.write(), inflight.TookEffect) // or not: the next pass sees
	return false
}

// exists looks at the pod that has the name already, like run.claim. It returns true when there is another name to try.
func (c *slowCreate) exists(ctx context.Context) (again bool) {
	h, err := c.e.holder(ctx, c.name)
	switch {
	case err != nil:
		c.e.Index.Resolve(c.write(), inflight.Unclear)
		return false
	case h.pod == nil:
		_ = Sleep(ctx, busyPause) // it is gone now
	case h.why == nil:
		c.e.Index.Accept(c.e.key, c.name.Node, 0)
	case c.name.inTheWay(c.workload, h.pod):
		c.name = freeName(c.workload, h.pod, c.name)
		return true
	case h.stale:
	default:
		c.e.block(c.name.Node, h.why.Error())
		c.warn(h.why)
	}
	c.e.Index.Resolve(c.write(), inflight.TookEffect) // or not: the next pass sees
	return false
}
