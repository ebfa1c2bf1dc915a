// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// server is the part of an API server that edits meet: it keeps preconditions, fills in defaults, and stores nothing in a dry run.
type server struct {
	*fakecluster.Cluster
	// forbidden is whether nobody may write, busy how often the status changes just before a write.
	forbidden bool
	busy      int
	// stored counts the writes that were stored, tried those that were not.
	stored, tried int
}

func newServer(t *testing.T, objects ...runtime.Object) *server {
	s := &server{Cluster: fakecluster.New(t, objects...)}
	s.Dynamic.PrependReactor("patch", "daemonsets", s.patch)
	s.Dynamic.PrependReactor("create", "daemonsets", s.create)
	return s
}

func (s *server) live(action clienttesting.Action, name string) (*resolver.Set, error) {
	object, err := s.Dynamic.Tracker().Get(action.GetResource(), action.GetNamespace(), name)
	if err != nil {
		return nil, err
	}
	return setOf(object.(*unstructured.Unstructured)), nil
}

func setOf(object *unstructured.Unstructured) *resolver.Set {
	d := dialects.Onlookers()[0]
	if object.GetAPIVersion() != "apps/v1" {
		d = dialects.Onlookers()[1]
	}
	return &resolver.Set{Source: d.Source, Dialect: d, Resource: d.Source.Resource, Kind: d.Source.Kind, Object: object}
}

func (s *server) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	p := action.(clienttesting.PatchActionImpl)
	resource := p.GetResource()
	if s.forbidden {
		return true, nil, apierrors.NewForbidden(resource.GroupResource(), p.GetName(), errors.New("no"))
	}
	set, err := s.live(action, p.GetName())
	if err != nil {
		return true, nil, err
	}
	if s.busy > 0 && len(p.PatchOptions.DryRun) == 0 {
		s.busy--
		set.Object = set.Object.DeepCopy()
		set.Object.SetResourceVersion(set.Object.GetResourceVersion() + "0")
		if err := s.Dynamic.Tracker().Update(resource, set.Object, p.GetNamespace()); err != nil {
			return true, nil, err
		}
	}
	edited, err := tryLocally(set, Edit{Type: string(p.GetPatchType()), Patch: p.GetPatch()})
	switch {
	case err != nil:
		return true, nil, apierrors.NewBadRequest(err.Error())
	case edited.GetUID() != set.Object.GetUID() || edited.GetResourceVersion() != set.Object.GetResourceVersion():
		return true, nil, apierrors.NewConflict(resource.GroupResource(), p.GetName(), errors.New("it has been modified"))
	case len(p.PatchOptions.DryRun) > 0:
		s.tried++
		return true, edited, nil
	}
	s.stored++
	edited.SetResourceVersion("8")
	return true, edited, s.Dynamic.Tracker().Update(resource, edited, p.GetNamespace())
}

func (s *server) create(action clienttesting.Action) (bool, runtime.Object, error) {
	c := action.(clienttesting.CreateActionImpl)
	resource := c.GetResource()
	if s.forbidden {
		return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no"))
	}
	set := setOf(c.GetObject().(*unstructured.Unstructured))
	data, err := set.Object.MarshalJSON()
	if err != nil {
		return true, nil, err
	}
	created, err := tryLocally(set, Edit{Type: typeCreate, Patch: data})
	if err != nil {
		return true, nil, apierrors.NewBadRequest(err.Error())
	}
	created.SetUID("uid-of-the-new-one")
	if len(c.CreateOptions.DryRun) > 0 {
		s.tried++
		return true, created, nil
	}
	s.stored++
	return true, created, s.Dynamic.Tracker().Create(resource, created, c.GetNamespace())
}

// settled is a roll that is over: all pods are of the newest revision, on that many nodes.
func settled(advanced bool, nodes int) fakecluster.Roll {
	return fakecluster.Roll{Name: "agent", Advanced: advanced, Letters: string(slices.Repeat([]byte{'u'}, nodes))}
}

// rolling is the specification of an update.
func rolling(fields map[string]any) map[string]any {
	return map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": fields}}
}
