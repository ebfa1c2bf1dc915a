// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// FuzzNodeImage: whatever stands in a job and in the NodeImage of a node, its status included, which is the node's own word, the job counts one
// node, and what is written is something that the API server takes.
func FuzzNodeImage(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"spec":{"image":"agent:2"}}`, `{}`},
		{`{"metadata":{"uid":"u","namespace":"jobs","name":"j"},"spec":{"image":"agent:2","parallelism":"0%","pullPolicy":{"timeoutSeconds":-5}}}`,
			`{"spec":{"images":{"agent":{"tags":[{"tag":"2","version":9223372036854775807,"ownerReferences":[{"uid":"u"}]}]}}},"status":{"imageStatuses":{"agent":{"tags":[{"tag":"2","version":9223372036854775807,"phase":"Failed"}]}}}}`},
		{`{"spec":{"image":"","completionPolicy":{"type":"Never"}}}`, `{"spec":{"images":{"":{"tags":[{}]}}}}`},
		{`{"spec":{"image":"a@sha256:x","completionPolicy":{"type":"Always","activeDeadlineSeconds":-1,"ttlSecondsAfterFinished":-1}},"status":{"startTime":"0001-01-01T00:00:00Z","completionTime":"9999-01-01T00:00:00Z"}}`,
			`{"status":{"imageStatuses":{"a":{"tags":[{"tag":"","phase":"Pulling","startTime":"9999-12-31T23:59:59Z"}]}}}}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, wanted, found []byte) {
		var job v1beta1.ImagePullJob
		var image v1beta1.NodeImage
		if json.Unmarshal(wanted, &job) != nil || json.Unmarshal(found, &image) != nil {
			t.Skip("no job, or no NodeImage")
		}
		image.Name, image.ResourceVersion = "n1", "1"
		now := time.Unix(2e9, 0).UTC()
		p := Decide(Snapshot{Now: now, Job: &job, Nodes: []Node{{Name: "n1", Ready: true, Image: image.DeepCopy()}}})
		for i := range p.Edits {
			checkEdit(t, &image, &p.Edits[i])
		}
		s := p.Status
		if s.Desired < 0 || s.Desired > 1 || s.Active < 0 || s.Succeeded < 0 || s.Failed < 0 || s.Active+s.Succeeded+s.Failed > 1 || len(s.FailedNodes) > 1 {
			t.Errorf("of one node the job says %+v", s)
		}
		sweep := Sweep{Now: now, Image: image.DeepCopy(), Ready: true, Since: now.Add(-time.Hour), Owner: func(*corev1.ObjectReference) OwnerState { return OwnerBusy }}
		out := sweep.Run()
		if out.Edit != nil {
			checkEdit(t, &image, out.Edit)
		}
		if out.Status != nil {
			if _, err := StatusPatch(&image, out.Status); err != nil {
				t.Error(err)
			}
		}
	})
}

// checkEdit makes sure that an edit can be written, and makes no NodeImage that is larger than one may be.
func checkEdit(t *testing.T, image *v1beta1.NodeImage, e *Edit) {
	t.Helper()
	if _, err := e.Patch(); err != nil {
		t.Error(err)
	}
	after := e.Apply(image.Spec)
	if len(after.Images) > max(MostImages, len(image.Spec.Images)) {
		t.Errorf("it wants %d images after %d", len(after.Images), len(image.Spec.Images))
	}
	for name, changed := range e.Images {
		if changed == nil {
			continue
		}
		for _, tag := range changed.Tags {
			if tag.Version < 0 && !had(image, name, tag.Version) {
				t.Errorf("%s: it makes up the version %d", name, tag.Version)
			}
		}
	}
}

func had(image *v1beta1.NodeImage, name string, version int64) bool {
	for _, tag := range image.Spec.Images[name].Tags {
		if tag.Version == version {
			return true
		}
	}
	return false
}
