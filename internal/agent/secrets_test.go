// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/credentials"
	"everynode.dev/everynode/internal/agent/cri"
)

// A runtime may say what it was given, or what a registry has led it to. That is in nothing that others read.
func TestNothingSecretIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]v1beta1.ImageSpec{"r.io/app": {Tags: []v1beta1.ImageTagSpec{
			{Tag: "v1", PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: ptr.To[int32](0)}},
		}}})
		w.credentials = []credentials.Credential{{Username: "ann", Password: "planted-password", RegistryToken: "planted-token"}}
		w.pulling = func(_ context.Context, p cri.Pull) error {
			c := p.Credentials[0]
			return fmt.Errorf("403 Forbidden for %s: Get %q: %s", c.Password, "https://ann:planted-user@r.io/v2/app?sig=planted-query", c.RegistryToken)
		}
		w.begin()
		status := w.after(time.Minute)
		w.stop()
		tag := status.ImageStatuses["r.io/app"].Tags[0]
		if tag.Phase != v1beta1.ImagePhaseFailed || !strings.Contains(tag.Message, "403 Forbidden (the pull used credentials") {
			t.Errorf("%s: %s", tag.Phase, tag.Message)
		}
		data, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		said := string(data)
		for len(w.recorder.Events) > 0 {
			said += <-w.recorder.Events
		}
		if !strings.Contains(said, "PullImageFailed") || strings.Contains(said, "planted") {
			t.Errorf("told: %s", said)
		}
	})
}
