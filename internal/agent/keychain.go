// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"everynode.dev/everynode/internal/agent/credentials"
)

// secretRetryInterval is the pause between two requests for a secret while the API server does not answer.
const secretRetryInterval = 2 * time.Second

// keychain finds the credentials for a pull.
type keychain interface {
	// find returns credentials in the order in which to try them, and an error for credentials that cannot be used.
	find(ctx context.Context, o pullSpec) ([]credentials.Credential, error)
}

// nodeKeychain reads the pull secrets of the pull, and then calls the plugins of the node, as the kubelet does.
type nodeKeychain struct {
	// namespace is the only namespace from which secrets are read, except for secrets of a pod of the node.
	namespace string
	get       func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	plugins   *credentials.Plugins // nil without a configuration

	mu   sync.Mutex
	seen map[string]*corev1.Secret
}

func (k *nodeKeychain) find(ctx context.Context, o pullSpec) ([]credentials.Credential, error) {
	ring := &credentials.Keyring{}
	var wrong []error
	for _, ref := range o.secrets {
		if ref.Namespace != k.namespace && !o.ofPod {
			wrong = append(wrong, fmt.Errorf("pull secret %s/%s: this agent reads secrets only from the namespace %s", ref.Namespace, ref.Name, k.namespace))
			continue
		}
		secret, err := k.secret(ctx, ref.Namespace, ref.Name)
		if err == nil {
			err = ring.AddSecret(secret)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("pull secret %s/%s: %w", ref.Namespace, ref.Name, err))
		}
	}
	found := ring.Lookup(o.ref.Repository)
	if k.plugins != nil {
		more, err := k.plugins.Ask(ctx, o.ref.Repository)
		found = append(found, more.Lookup(o.ref.Repository)...)
		wrong = append(wrong, err)
	}
	return found, errors.Join(wrong...)
}

// secret returns a secret. If the API server is not reachable, it returns the last known version; if there is none, it
// waits until the timeout of the pull.
func (k *nodeKeychain) secret(ctx context.Context, namespace, name string) (secret *corev1.Secret, err error) {
	key := namespace + "/" + name
	failed := wait.PollUntilContextCancel(ctx, secretRetryInterval, true, func(ctx context.Context) (bool, error) {
		secret, err = k.get(ctx, namespace, name)
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case err == nil:
			k.seen[key] = secret
			return true, nil
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			delete(k.seen, key)
			return true, nil
		}
		if known := k.seen[key]; known != nil {
			secret, err = known, nil
			return true, nil
		}
		return false, nil
	})
	if err == nil {
		err = failed
	}
	return secret, err
}
