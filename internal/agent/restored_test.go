// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// TestTheStatusOfARestoredNodeImageIsWritten: the storage of the API server was restored from a copy of before the image was there; the UID is the same, the
// version is older. The agent says again what is so, without anybody who restarts it.
func TestTheStatusOfARestoredNodeImageIsWritten(t *testing.T) {
	inTime(t, tags(v1beta1.ImageTagSpec{Tag: "v1", Version: 3}), func(t *testing.T, w *world) {
		copied, version := w.Object(), w.version
		w.begin()
		s := w.after(time.Minute)
		expect(t, "before the restore", of(s, "r.io/app", "v1"), "Succeeded v3 100% r.io/app@sha256:r.io/app:v1")
		w.set(func() {
			w.object, w.version = copied, version
			w.changed <- struct{}{}
		})
		s = w.after(time.Hour)
		expect(t, "an hour after the restore", of(s, "r.io/app", "v1"), "Succeeded v3 100% r.io/app@sha256:r.io/app:v1")
	})
}
