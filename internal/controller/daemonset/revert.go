// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// Templates changes the templates of daemon sets whose pods another controller creates.
type Templates interface {
	// PatchTemplate sends a strategic merge patch of the set itself, and returns the set as it is then.
	PatchTemplate(ctx context.Context, key clustercache.Key, patch []byte) (*unstructured.Unstructured, error)
}

// refusal is a change of the template that was refused.
type refusal struct {
	text string
	// generation is the generation of the set.
	generation int64
	retryAt    rollout.Time
}

// template is what policies need to know of the template; nil if the manager does not change it.
func (p *pass) template() *policy.Template {
	if !p.byPolicy || p.c.Templates == nil {
		return nil
	}
	known := &policy.Template{Owners: p.w.TemplateOwners}
	if of := p.state.refused.Load(); of != nil && of.generation == p.w.Generation {
		known.Refused, known.RetryAt = of.text, of.retryAt
	}
	return known
}

// revert changes the template to that of a revision, exactly. The set is read from the API server itself: if it has changed since the decision, or belongs to
// another field manager, nothing is written, and the pass that follows from the change decides again. The patch has the resourceVersion of what was read.
func (p *pass) revert(ctx context.Context, h *clustercache.Resolved, out *policy.Result) error {
	if out.Revert < 0 || out.Revert >= len(h.Entries) || h.Entries[out.Revert].Template == nil || p.c.Templates == nil || p.ending != nil || !p.mayWrite() {
		return nil
	}
	if p.c.slow.waits(writesOf{p.key, writesTemplate}) {
		return nil // the pass that follows the answer continues
	}
	live, err := p.live(ctx)
	if err != nil {
		return fmt.Errorf("reading the daemon set before its template is changed: %w", err)
	}
	if now := p.d.Source.Digest(live.Object); now.UID != p.w.UID || now.Generation != p.w.Generation || now.Deleting || len(now.TemplateOwners) > 0 {
		return nil
	}
	patch, err := templatePatch(live, h.Entries[out.Revert].Template)
	if err != nil {
		return err
	}
	name := h.Entries[out.Revert].Name
	err = p.write(ctx, writesTemplate, func(ctx context.Context) error {
		patched, err := p.c.Templates.PatchTemplate(ctx, p.key, patch)
		p.c.Observer.Wrote("patch-template", err)
		switch {
		case err != nil:
		case patched.GetGeneration() == p.w.Generation:
			err = errKept
		default:
			p.c.Events.Eventf(p.object(), corev1.EventTypeWarning, policy.ReasonTemplateReverted, "Changed the template back to that of revision %s.", name)
		}
		return p.answered(err)
	})
	if errors.Is(err, errLater) {
		return nil
	}
	return err
}

// mayUndo is how an administrator gives the manager the right to change the templates of a namespace.
const mayUndo = " The ClusterRole everynode-manager-undo has this right: kubectl create rolebinding everynode-manager-undo --namespace %s " +
	"--clusterrole everynode-manager-undo --serviceaccount %s."

// errKept is the answer to a change of the template that was accepted and has changed nothing.
var errKept = errors.New("the API server has accepted the change, but a mutating webhook or policy keeps the template as it is")

// answered notes what came of the change of the template, maybe while other passes are made. The watch shows a set that has changed meanwhile.
func (p *pass) answered(err error) error {
	p.state.refused.Store(nil)
	answer := apply.OfDelete(err)
	if errors.Is(err, errKept) {
		answer = apply.Refused
	}
	switch answer {
	case apply.Done, apply.Differs, apply.Gone:
		return nil
	case apply.Refused:
		text := apply.Brief(err).Error() + "."
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot patch resource") {
			text += fmt.Sprintf(mayUndo, p.key.Namespace, apply.RefusedAccount(err))
		}
		p.state.refused.Store(&refusal{text: text, generation: p.w.Generation, retryAt: rollout.Time(p.c.Clock.Now().Add(policy.RefusedPause).UnixNano())})
		p.c.wake(p.key)
		return nil
	default:
		return fmt.Errorf("changing the template back: %w", err)
	}
}

// templatePatch replaces the template of a set as it was read.
func templatePatch(live *unstructured.Unstructured, template map[string]any) ([]byte, error) {
	data, err := revision.Data(template)
	if err != nil {
		return nil, fmt.Errorf("reading the template of a revision: %w", err)
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("reading the template of a revision: %w", err)
	}
	patch["metadata"] = map[string]any{"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion()}
	return json.Marshal(patch)
}
