// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Of a node with several pods that must go and are all protected, the deletes are tried as seldom as that of one pod.
func TestSeveralRefusedPodsOfANode(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	for _, p := range w.pods {
		for i := range 3 {
			more := p.DeepCopy()
			more.Name = fmt.Sprint("more", i)
			w.addPod(more)
		}
		break
	}
	w.before = func(verb, name string) error {
		if verb == "delete" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("protected"))
		}
		return nil
	}
	w.forgetLog()
	for range 10 {
		_ = w.passesFor(time.Minute)
		w.allEvents() // the recorder has room for few
	}
	if tries := len(w.wrote("delete")); tries < 3 || tries > 3*20 {
		t.Errorf("%d deletes of three pods in ten minutes", tries)
	}
}
