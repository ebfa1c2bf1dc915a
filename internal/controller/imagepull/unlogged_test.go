// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// TestSecretsAreNotLogged: from -v=8 on a client logs what is sent and answered, so requests about secrets come with a logger that writes nothing.
func TestSecretsAreNotLogged(t *testing.T) {
	first, second := newJob("secret", "first", 1), newJob("secret", "second", 1)
	first.Spec.PullSecrets, second.Spec.PullSecrets = []string{"registry"}, []string{"registry"}
	w := newWorld(t, append(node("a"), first, second, secret("secret", "registry"))...)
	seen := map[string]bool{}
	see := func(ctx context.Context, what string, object runtime.Object) {
		_, one := object.(*corev1.Secret)
		_, many := object.(*corev1.SecretList)
		if one || many {
			if seen[what] = true; klog.FromContext(ctx).GetSink() != nil {
				t.Errorf("%s of a secret is logged", what)
			}
		}
	}
	w.c.Secrets.live = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			see(ctx, "get", o)
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			see(ctx, "list", l)
			return c.List(ctx, l, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			see(ctx, "create", o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			see(ctx, "update", o)
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			see(ctx, "delete", o)
			return c.Delete(ctx, o, opts...)
		},
	})
	for _, job := range []*v1beta1.ImagePullJob{first, second} {
		w.mustPass(job)
	}
	for _, job := range []*v1beta1.ImagePullJob{first, second} {
		if err := w.client.Delete(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if err := w.c.Secrets.sweep(t.Context(), w.c.neededBy); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 5 {
		t.Errorf("only these requests were seen: %v", seen)
	}
}
