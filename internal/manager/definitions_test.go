// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata/fake"
)

// TestDefinitionsThatComeAndGo: a manager begins again when a definition comes that was missing, and when one goes, and at nothing else.
func TestDefinitionsThatComeAndGo(t *testing.T) {
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme)
	create := func(name string) {
		t.Helper()
		err := client.Tracker().Create(definitionResource, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		}, "")
		if err != nil {
			t.Fatal(err)
		}
	}
	names := kruiseDefinitions()
	create(names[0])
	w := &definitionWatch{client: client, every: time.Millisecond}
	var err error
	if w.missing, err = w.look(t.Context()); err != nil || !slices.Equal(w.missing, names[1:]) {
		t.Fatalf("missing %q, error %v", w.missing, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		t.Errorf("nothing has changed, and it ends with %v", err)
	}
	create(names[2])
	if err := w.Start(t.Context()); !errors.Is(err, errDefinitions) {
		t.Errorf("%s has come: %v", names[2], err)
	}
	w.missing, _ = w.look(t.Context())
	if err := client.Tracker().Delete(definitionResource, "", names[0]); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); !errors.Is(err, errDefinitions) {
		t.Errorf("%s has gone: %v", names[0], err)
	}
}
