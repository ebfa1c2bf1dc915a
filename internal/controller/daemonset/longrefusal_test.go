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

	"everynode.dev/everynode/internal/clustercache"
)

// limitedSets are those of an API server whose storage takes no object of more than 1.5 MiB, as etcd does.
type limitedSets struct {
	worldSets
	refused *int
	longest *int
}

func (l limitedSets) PatchStatus(ctx context.Context, key clustercache.Key, patch []byte) (*unstructured.Unstructured, error) {
	*l.longest = max(*l.longest, len(patch))
	if len(patch) > 3<<19 {
		*l.refused++
		return nil, errors.New("etcdserver: request is too large")
	}
	return l.worldSets.PatchStatus(ctx, key, patch)
}

// A refusal with a long message does not keep the status from being written.
func TestALongRefusalDoesNotStopTheStatus(t *testing.T) {
	a := newAdvanced(t, 6, standard)
	a.settle()
	refused, longest := 0, 0
	a.c.Sets = limitedSets{worldSets{a.world}, &refused, &longest}
	a.before = func(verb, name string) error {
		if verb == "delete" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New(strings.Repeat("no, because of what it says in chapter seven; ", 6000)))
		}
		return nil
	}
	a.image("img:v2")
	for range 300 {
		_ = a.pass()
		a.kubelets()
		a.clock.Step(time.Second)
	}
	observed, _, _ := unstructured.NestedInt64(a.set.Object, "status", "observedGeneration")
	if refused > 0 || observed != a.set.GetGeneration() {
		t.Errorf("%d writes of the status were refused, the longest of %d bytes; the observed generation is %d, of %d", refused, longest, observed, a.set.GetGeneration())
	}
}
