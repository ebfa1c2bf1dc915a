// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"encoding/json"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apijson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"everynode.dev/everynode/internal/clustercache"
)

type worldRevisions struct{ w *world }

func (f worldRevisions) Create(_ context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	r = r.DeepCopy()
	err := f.w.write("create-revision", r.Name, func() error {
		if f.w.revisions[r.Name] != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "controllerrevisions"}, r.Name)
		}
		r.UID, r.ResourceVersion = types.UID("rev-"+r.Name), f.w.next()
		r.CreationTimestamp = metav1.NewTime(f.w.clock.Now())
		f.w.revisions[r.Name] = r
		if f.w.watch {
			f.w.seeRevision(r)
		}
		return nil
	})
	return r, err
}

func (f worldRevisions) Get(_ context.Context, _, name string) (*appsv1.ControllerRevision, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if r := f.w.revisions[name]; r != nil {
		return r.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "controllerrevisions"}, name)
}

func (f worldRevisions) Patch(_ context.Context, _, name string, patch []byte) (*appsv1.ControllerRevision, error) {
	patched := &appsv1.ControllerRevision{}
	err := f.w.write("patch-revision", name, func() error {
		r := f.w.revisions[name]
		if r == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "controllerrevisions"}, name)
		}
		if err := strategic(r, patch, patched); err != nil {
			return err
		}
		patched.ResourceVersion = f.w.next()
		f.w.revisions[name] = patched
		if f.w.watch {
			f.w.seeRevision(patched)
		}
		return nil
	})
	return patched.DeepCopy(), err
}

func (f worldRevisions) Delete(_ context.Context, _, name string, _ types.UID) error {
	return f.w.write("delete-revision", name, func() error {
		if r := f.w.revisions[name]; r != nil && len(r.Finalizers) > 0 {
			if r.DeletionTimestamp == nil {
				r.DeletionTimestamp = &metav1.Time{Time: f.w.clock.Now()}
				r.ResourceVersion = f.w.next()
				f.w.seeRevision(r)
			}
			return nil
		}
		if r := f.w.revisions[name]; r != nil && f.w.watch {
			f.w.index.DropRevision(r.UID)
		}
		delete(f.w.revisions, name)
		return nil
	})
}

func (f worldRevisions) List(_ context.Context, _ string, selector labels.Selector, each func(*appsv1.ControllerRevision)) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.lists++
	for _, r := range f.w.revisions {
		if selector.Matches(labels.Set(r.Labels)) {
			each(r.DeepCopy())
		}
	}
	return nil
}

type worldSets struct{ w *world }

// checkPreconditions compares the UID and the version of the set with those that a patch has left or set.
func (w *world) checkPreconditions(patched *unstructured.Unstructured) error {
	if patched.GetUID() != w.set.GetUID() || patched.GetResourceVersion() != w.set.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Resource: "daemonsets"}, w.set.GetName(), errors.New("the object has been modified"))
	}
	return nil
}

// patchStatusStrategically takes the status out of a strategic merge patch, as the API server does for its own types.
func (w *world) patchStatusStrategically(patch []byte) error {
	before, err := apijson.Marshal(w.set.Object)
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, &appsv1.DaemonSet{})
	if err != nil {
		return err
	}
	var patched map[string]any
	if err := apijson.Unmarshal(after, &patched); err != nil {
		return err
	}
	if err := w.checkPreconditions(&unstructured.Unstructured{Object: patched}); err != nil {
		return err
	}
	w.set.Object["status"] = patched["status"]
	w.set.SetResourceVersion(w.next())
	if w.watch {
		w.seeSet()
	}
	return nil
}

func (f worldSets) Get(context.Context, clustercache.Key) (*unstructured.Unstructured, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.set.DeepCopy(), nil
}

func (f worldSets) PatchStatus(_ context.Context, _ clustercache.Key, patch []byte) (*unstructured.Unstructured, error) {
	err := f.w.write("status", "ds", func() error {
		if f.w.set.GetAPIVersion() == appsv1.SchemeGroupVersion.String() {
			return f.w.patchStatusStrategically(patch)
		}
		var p map[string]any
		if err := json.Unmarshal(patch, &p); err != nil {
			return err
		}
		patched := f.w.set.DeepCopy()
		if version, named, _ := unstructured.NestedString(p, "metadata", "resourceVersion"); named {
			patched.SetResourceVersion(version)
		}
		if err := f.w.checkPreconditions(patched); err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(f.w.set.Object, "status")
		if status == nil {
			status = map[string]any{}
		}
		for k, v := range p["status"].(map[string]any) {
			if n, ok := v.(float64); ok {
				v = int64(n)
			}
			status[k] = v
		}
		f.w.set.Object["status"] = status
		f.w.set.SetResourceVersion(f.w.next())
		if f.w.watch {
			f.w.seeSet()
		}
		return nil
	})
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.set.DeepCopy(), err
}

// later is whether version a is later than b.
func later(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

func strategic[T any](from *T, patch []byte, to *T) error {
	original, err := json.Marshal(from)
	if err != nil {
		return err
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, from)
	if err != nil {
		return err
	}
	return json.Unmarshal(merged, to)
}
