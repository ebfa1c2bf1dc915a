// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apijson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// worldTemplates takes patches of a template as the API server does.
type worldTemplates struct{ w *world }

func (f worldTemplates) PatchTemplate(_ context.Context, _ clustercache.Key, patch []byte) (*unstructured.Unstructured, error) {
	err := f.w.write("patch-template", "ds", func() error {
		var sent struct {
			Metadata struct{ UID, ResourceVersion string }
			Spec     map[string]any
		}
		if err := json.Unmarshal(patch, &sent); err != nil {
			return err
		}
		if sent.Metadata.UID != string(f.w.set.GetUID()) || sent.Metadata.ResourceVersion != f.w.set.GetResourceVersion() || len(sent.Spec) != 1 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "daemonsets"}, "ds", errors.New("the object has been modified"))
		}
		before, err := apijson.Marshal(f.w.set.Object)
		if err != nil {
			return err
		}
		after, err := strategicpatch.StrategicMergePatch(before, patch, &appsv1.DaemonSet{})
		if err != nil {
			return err
		}
		patched := map[string]any{}
		if err := apijson.Unmarshal(after, &patched); err != nil {
			return err
		}
		f.w.set = &unstructured.Unstructured{Object: patched}
		f.w.set.SetGeneration(f.w.set.GetGeneration() + 1)
		f.w.set.SetAnnotations(map[string]string{appsv1.DeprecatedTemplateGeneration: fmt.Sprint(f.w.set.GetGeneration())})
		f.w.set.SetResourceVersion(f.w.next())
		f.w.seeSet()
		return nil
	})
	return f.w.set.DeepCopy(), err
}

// stored is rules whose status is stored at once.
type stored struct{ *rules }

func (s stored) Report(set policy.Set, of []*policy.Policy, status *v1alpha1.SetStatus, judged []v1alpha1.RolloutApproval) {
	s.rules.Report(set, of, status, judged)
	if status != nil {
		s.Stored = status.DeepCopy()
	}
}

// alongsideWorld has four nodes with pods of v1 that another controller keeps, under a policy that undoes a revision that fails on one node.
func alongsideWorld(t *testing.T) (*edge, *rules) {
	t.Helper()
	e := newEdge(t, 4, "external", nil)
	p := canaryPolicy()
	p.Spec.Waves[0].After, p.Spec.Failure = nil, &v1alpha1.Failure{Action: v1alpha1.FailureUndo}
	r := &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(p)}}}
	e.c.Policies, e.c.Templates = stored{r}, worldTemplates{e.world}
	e.bad = "img:bad"
	e.roll()
	return e, r
}

// managed makes a field manager own the template.
func (e *edge) managed(manager string) {
	e.set.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{}}}}`),
	}})
}

// lasts lets everybody work for a while.
func (e *edge) lasts(d time.Duration) {
	for range int(d / time.Second) {
		e.upstream()
		_ = e.pass()
		e.live()
		e.clock.Step(time.Second)
	}
}

// Next to another controller, a revision that crashes on the canary is undone by changing exactly the template back, once, and the old pods are deleted.
func TestUndoChangesTheTemplateBack(t *testing.T) {
	for name, play := range map[string]func(e *edge){
		"no incident":        func(*edge) {},
		"the next leader":    func(e *edge) { e.restart(); e.c.Policies.(stored).Stored = nil },
		"the answer is lost": func(e *edge) { e.lose("patch-template") },
		"a conflict": func(e *edge) {
			e.refuse("patch-template", apierrors.NewConflict(schema.GroupResource{}, "ds", errors.New("no")))
		},
		"the API server is too busy": func(e *edge) { e.refuse("patch-template", apierrors.NewTooManyRequests("no", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			e, r := alongsideWorld(t)
			before, _, _ := unstructured.NestedMap(e.set.Object, "spec")
			e.edit("img:bad")
			e.managed("kubectl-set")
			if name != "the next leader" {
				play(e)
			}
			for i := 0; i < 60 && len(e.wrote("patch-template")) == 0; i++ {
				e.lasts(time.Second)
			}
			if name == "the next leader" {
				state := r.last()
				play(e)
				r.Stored = &state
			}
			e.lasts(time.Minute)
			after, _, _ := unstructured.NestedMap(e.set.Object, "spec")
			if !equality.Semantic.DeepEqual(before, after) {
				t.Errorf("the specification is %v, want %v", after, before)
			}
			if got := r.last(); got.Phase != v1alpha1.PhaseComplete || got.RejectedRevision == "" || countOf(e.images(), "v1") != 4 {
				t.Errorf("%+v, %v", got, e.images())
			}
			tries := len(e.wrote("patch-template"))
			if generation := e.set.GetGeneration(); generation != 3 || tries != 1 && e.before == nil || tries != 2 && e.before != nil {
				t.Errorf("the change of the template was tried %d times, and the generation is %d", tries, generation)
			}
			if events := e.allEvents(); strings.Count(events, policy.ReasonTemplateReverted) != 1 && name != "the answer is lost" {
				t.Errorf("the events are %s", events)
			}
			e.edit("img:bad") // a user applies it again
			e.lasts(time.Minute)
			if got := r.last(); got.Phase != v1alpha1.PhaseFailed || len(e.wrote("patch-template")) != tries || countOf(e.images(), "v1") != 4 {
				t.Errorf("%+v, %v, %v", got, e.images(), e.verbs())
			}
		})
	}
}

// lose has the answer to the first write of that kind lost, and refuse has the first one refused.
func (e *edge) lose(of string) { e.after = e.once(of, errors.New("the connection is gone")) }

func (e *edge) refuse(of string, err error) { e.before = e.once(of, err) }

func (e *edge) once(of string, err error) func(verb, name string) error {
	done := false
	return func(verb, _ string) error {
		if verb != of || done {
			return nil
		}
		done = true
		return err
	}
}

// While another field manager may write the template again, it is not changed: neither if that was known before, nor if only the API server knows of it.
func TestUndoLeavesTheTemplateOfOthers(t *testing.T) {
	for name, blind := range map[string]bool{"known": false, "known to the API server only": true} {
		t.Run(name, func(t *testing.T) {
			e, r := alongsideWorld(t)
			e.edit("img:bad")
			if blind {
				e.seeSet()
			}
			e.managed("argocd-controller")
			if !blind {
				e.seeSet()
			}
			e.lasts(time.Minute)
			if len(e.wrote("patch-template")) != 0 || countOf(e.images(), "bad") != 1 {
				t.Errorf("%v, %v", e.verbs(), e.images())
			}
			reasons := []string{}
			for _, b := range r.last().Blocking {
				reasons = append(reasons, b.Reason)
			}
			if want := "UndoNotPossible"; !blind && !slices.Contains(reasons, want) {
				t.Errorf("blocking has %q", reasons)
			}
		})
	}
}

// Where the API server refuses the change, that is reported, and tried again now and then until it is allowed.
func TestUndoWithoutTheRight(t *testing.T) {
	e, r := alongsideWorld(t)
	forbidden, tries := true, 0
	e.before = func(verb, name string) error {
		if verb != "patch-template" || !forbidden {
			return nil
		}
		tries++
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, name, errors.New(`User "system:serviceaccount:edge:everynode-manager" cannot patch resource "daemonsets"`))
	}
	e.edit("img:bad")
	e.lasts(200 * time.Second)
	if got := r.last(); got.Phase != v1alpha1.PhaseFailed || got.Blocking[0].Reason != "UndoRefused" || !strings.Contains(got.Blocking[0].Message, `everynode-manager" cannot patch`) || tries < 2 || tries > 5 {
		t.Errorf("%d tries, %+v", tries, got)
	}
	remedy := "kubectl create rolebinding everynode-manager-undo --namespace " + e.key.Namespace + " --clusterrole everynode-manager-undo --serviceaccount edge:everynode-manager."
	if message := r.last().Blocking[0].Message; !strings.Contains(message, " The ClusterRole everynode-manager-undo has this right: "+remedy+" Change the template, or let Everynode change it.") {
		t.Errorf("no remedy: %s", message)
	}
	forbidden = false
	e.lasts(200 * time.Second)
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || countOf(e.images(), "v1") != 4 {
		t.Errorf("%+v, %v", got, e.images())
	}
}
