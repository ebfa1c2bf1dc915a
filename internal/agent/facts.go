// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/agent/credentials"
	"everynode.dev/everynode/internal/agent/cri"
	"everynode.dev/everynode/internal/agent/pull"
)

// facts queries the runtime if the result matters for a wanted image. A runtime that hangs counts as down too: each
// further query would delay the step by the timeout of a call.
func (l *loop) facts(ctx context.Context) pull.Facts {
	facts := pull.Facts{Runs: l.runs, Present: map[string]pull.Image{}}
	idle := l.idle()
	refs := map[string]bool{}
	for _, w := range idle {
		refs[w.Ref] = true
	}
	for ref := range l.lookups {
		if !refs[ref] {
			delete(l.lookups, ref)
		}
	}
	for _, w := range idle {
		if w.Always || w.Invalid != "" {
			continue
		}
		id, err := l.findImage(ctx, w)
		switch {
		case cri.IsSilent(err):
			facts.Down = credentials.Redact(err.Error())
			return facts
		case err != nil:
			klog.InfoS("Getting the status of an image failed", "image", w.Ref, "why", credentials.Redact(err.Error()))
		case id != "":
			facts.Present[w.Ref] = pull.Image{ID: id}
		}
	}
	if len(idle) > 0 {
		facts.Fill, facts.Down = l.fill(ctx)
	}
	return facts
}

// idle returns the wants that have not ended and have no run.
func (l *loop) idle() []pull.Want {
	busy := map[pull.Key]bool{}
	for i := range l.memory.States {
		if s := &l.memory.States[i]; s.Final() || s.Run != 0 && l.cancels[s.Run] != nil {
			busy[s.Key] = true
		}
	}
	idle := []pull.Want{}
	for _, w := range l.wants {
		if !busy[w.Key] {
			idle = append(idle, w)
		}
	}
	return idle
}

// findImage returns the ID of an image on the node. Results are cached for a while; otherwise, with many queued wants,
// each step would query all of them.
func (l *loop) findImage(ctx context.Context, w pull.Want) (string, error) {
	if last, ok := l.lookups[w.Ref]; ok && time.Since(last.at) < lookupInterval {
		return last.id, nil
	}
	id, err := l.runtime.Image(ctx, l.specs[w.Key].ref)
	if err != nil {
		return "", err
	}
	l.lookups[w.Ref] = lookup{time.Now(), id}
	return id, nil
}

// fill returns the usage of the image file system, or why the runtime is down.
func (l *loop) fill(ctx context.Context) (pull.Fill, string) {
	percent, err := l.runtime.Fill(ctx)
	switch {
	case cri.IsSilent(err):
		return pull.Fill{}, credentials.Redact(err.Error())
	case err != nil:
		klog.ErrorS(err, "Cannot read the usage of the image file system, so its limit is not enforced")
		return pull.Fill{}, ""
	}
	return pull.Fill{Known: true, Percent: percent}, ""
}
