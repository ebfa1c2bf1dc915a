// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// neutralized takes patches of a template that a mutating webhook changes to what the template is, so that nothing is written.
type neutralized struct{ worldTemplates }

func (f neutralized) PatchTemplate(context.Context, clustercache.Key, []byte) (*unstructured.Unstructured, error) {
	return f.w.set.DeepCopy(), f.w.write("patch-template", "ds", func() error { return nil })
}

// A webhook that keeps the template as it is makes the undo impossible: that is reported as it is, and tried again now and then, and no event reports a change.
func TestUndoThatAWebhookTakesBack(t *testing.T) {
	e, r := alongsideWorld(t)
	e.c.Templates = neutralized{worldTemplates{e.world}}
	e.edit("img:bad")
	e.lasts(3 * time.Minute)
	got := r.last()
	if tries := len(e.wrote("patch-template")); tries < 2 || tries > 5 {
		t.Errorf("the change of the template was tried %d times in three minutes", tries)
	}
	if got.Phase != v1alpha1.PhaseFailed || got.Blocking[0].Reason != "UndoRefused" {
		t.Errorf("phase %s, blocking %+v", got.Phase, got.Blocking)
	}
	if events := e.allEvents(); strings.Contains(events, policy.ReasonTemplateReverted) {
		t.Errorf("the events are %s", events)
	}
	e.c.Templates = worldTemplates{e.world}
	e.lasts(3 * time.Minute)
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || countOf(e.images(), "v1") != 4 {
		t.Errorf("%+v, %v", got, e.images())
	}
}

// A slow webhook that refuses the change of the template is shown like any other, and asked again just as seldom.
func TestUndoThatASlowWebhookRefuses(t *testing.T) {
	e, r := alongsideWorld(t)
	e.c.Executor.Slow = &executor.SlowLane{Pods: worldPods{e.world}, Hold: func(context.Context) error { return nil }, Free: func(context.Context, func() bool) {}}
	refuses := true
	e.before = func(verb, name string) error {
		if verb != "patch-template" || !refuses {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, name, errors.New("the webhook says no"))
	}
	lasts := func(d time.Duration) {
		for range int(d / time.Second) {
			e.c.slow.noteSlow(slowKind{"ns", writesTemplate}, e.clock.Now())
			e.lasts(time.Second)
			e.c.slow.running.Wait()
		}
	}
	e.edit("img:bad")
	lasts(3 * time.Minute)
	got := r.last()
	if tries := len(e.wrote("patch-template")); tries < 2 || tries > 5 {
		t.Errorf("the change of the template was tried %d times in three minutes", tries)
	}
	if got.Phase != v1alpha1.PhaseFailed || got.Blocking[0].Reason != "UndoRefused" || !strings.Contains(got.Blocking[0].Message, "the webhook says no") {
		t.Errorf("phase %s, blocking %+v", got.Phase, got.Blocking)
	}
	refuses = false
	lasts(3 * time.Minute)
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || countOf(e.images(), "v1") != 4 {
		t.Errorf("%+v, %v", got, e.images())
	}
}
