// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache"
)

// Revisions of nobody, in a namespace without any set, cost no more than they are long.
func TestRevisionsThatNoSetHas(t *testing.T) {
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const revisions = 20
	x := clustercache.NewIndex(func(clustercache.Key) {})
	before, length := heap(), 0
	for i := range revisions {
		data := `{"spec":{"template":{"x":[` + strings.Repeat("{},", 340_000) + `{}]}}}`
		length = len(data)
		r := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: fmt.Sprint("r", i), UID: types.UID(fmt.Sprint("u", i)), ResourceVersion: fmt.Sprint(i + 1)},
			Data:       kruntime.RawExtension{Raw: []byte(data)},
		}
		revisionSink{x}.put(r)
	}
	each := (heap() - before) / revisions
	t.Logf("%d bytes are held of a revision of %d bytes", each, length)
	if each > 2*length {
		t.Errorf("%d bytes are held of a revision of %d bytes that no set has", each, length)
	}
	runtime.KeepAlive(x)
}
