// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"testing"

	"everynode.dev/everynode/internal/clustercache"
)

// Nothing is kept of sets that come and go while the list of sets is not viewed.
func TestSetsThatAreGoneAreForgotten(t *testing.T) {
	w := open(t, zoned(t, roll()))
	for i := range 1000 {
		w.s.note(clustercache.Key{Dialect: "kruise", Namespace: "default", Name: fmt.Sprint("gone-", i)}) // created, and deleted
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if n := len(w.s.changed); n > 10 {
		t.Errorf("%d sets that do not exist are kept without a viewer", n)
	}
}
