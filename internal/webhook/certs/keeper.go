// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	again "k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/everynode"
)

const (
	// interval is the time between two checks of the Secret and of the published bundle, retry the time after an error.
	interval = time.Minute
	retry    = 2 * time.Second
	// soon is the time between two checks while there is nothing to publish yet.
	soon = 100 * time.Millisecond
)

// Keeper maintains the state in a Secret and serves the current certificate.
type Keeper struct {
	Client kubernetes.Interface
	// Namespace and Secret name the Secret; it is created if it does not exist.
	Namespace, Secret string
	// Names are the host names and addresses of the webhooks.
	Names []string
	// Published returns the bundles that the API server trusts, one for each place where it reads them.
	Published func(context.Context) ([][]byte, error)

	mu      sync.Mutex
	held    pair
	serving *tls.Certificate
	bundle  []byte
}

// NeedLeaderElection is false: every manager serves the webhooks.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start maintains the certificate until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	repeat(ctx, nil, "The certificate of the webhooks could not be updated", func() error {
		// When several managers start at once, another one is often faster.
		faster := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
		return again.OnError(again.DefaultRetry, faster, func() error { return k.sync(ctx, time.Now()) })
	})
	return nil
}

// Certificate returns the current certificate, for a tls.Config.
func (k *Keeper) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.serving == nil {
		return nil, errors.New("the certificate of the webhooks does not exist yet")
	}
	return k.serving, nil
}

// Ends returns when the current certificate expires; ok is false if there is none.
func (k *Keeper) Ends() (time.Time, bool) {
	served, err := k.Certificate(nil)
	if err != nil || served.Leaf == nil {
		return time.Time{}, false
	}
	return served.Leaf.NotAfter, true
}

// Bundle returns the authorities to trust; nil if there is no certificate.
func (k *Keeper) Bundle() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bundle, nil
}

// sync reads the Secret, updates it, and uses its state.
func (k *Keeper) sync(ctx context.Context, now time.Time) error {
	ctx = unlogged(ctx)
	secrets := k.Client.CoreV1().Secrets(k.Namespace)
	secret, err := secrets.Get(ctx, k.Secret, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("reading secret %s/%s: %w", k.Namespace, k.Secret, err)
	}
	if missing {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: k.Namespace, Name: k.Secret, Labels: map[string]string{everynode.PartOf: everynode.PartOfValue},
		}}
	}
	var unread error
	in := inputs{names: k.Names, held: k.holds(), published: func(p pair) bool {
		published, err := k.published(ctx, p)
		unread = err
		return published
	}}
	was := readState(secret.Data)
	is, err := was.advance(now, in)
	if err != nil {
		return err
	}
	if !is.equal(was) {
		if err := k.write(ctx, secret, is, missing); err != nil {
			return errors.Join(fmt.Errorf("writing secret %s/%s: %w", k.Namespace, k.Secret, err), k.useUnrenewed(was, now))
		}
	}
	return errors.Join(k.use(is.served(now, in), is.bundle), unread)
}

func (k *Keeper) holds() pair {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held
}

// published reports whether the API server trusts p in all places.
func (k *Keeper) published(ctx context.Context, p pair) (bool, error) {
	bundles, err := k.Published(ctx)
	if err != nil {
		return false, fmt.Errorf("reading which certificates are trusted: %w", err)
	}
	return !slices.ContainsFunc(bundles, func(bundle []byte) bool { return !p.trustedBy(bundle) }), nil
}

// unlogged returns a context for requests with the private key: from -v=8 on, the client logs requests and responses.
func unlogged(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// write writes the state. It fails if another manager was faster.
func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, s state, missing bool) error {
	secret = secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	maps.DeleteFunc(secret.Data, func(key string, _ []byte) bool { return key == keyNextCert || key == keyNextKey })
	maps.Copy(secret.Data, s.data())
	var err error
	if missing {
		_, err = k.Client.CoreV1().Secrets(k.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = k.Client.CoreV1().Secrets(k.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
	}
	return err
}

// useUnrenewed serves the pair of the Secret as it is, if this manager serves none yet. It is for a state that follows and cannot be written.
func (k *Keeper) useUnrenewed(s state, now time.Time) error {
	if _, usable := s.current.usable(now, k.Names); !usable || k.holds().cert != nil {
		return nil
	}
	bundle, err := trusted(now, s.current, pair{cert: s.bundle})
	if err != nil {
		return err
	}
	return k.use(s.current, bundle)
}

func (k *Keeper) use(p pair, bundle []byte) error {
	serving, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return fmt.Errorf("reading the certificate in use: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.serving, k.held, k.bundle = &serving, p, bundle
	return nil
}

// notYet means that there is no certificate yet. It is not an error, but a reason to retry soon.
type notYet struct{}

func (notYet) Error() string { return "there is no certificate yet" }

// repeat calls do once per interval, and sooner after an error or when something has changed, until ctx ends. Repetitions
// of an error are logged once.
func repeat(ctx context.Context, changed <-chan struct{}, failed string, do func() error) {
	said := ""
	for {
		wait := interval
		if err := do(); err == nil {
			said = ""
		} else if ctx.Err() == nil {
			wait = retry
			if errors.As(err, &notYet{}) {
				wait = soon
			} else if err.Error() != said {
				klog.FromContext(ctx).Error(err, failed)
			}
			said = err.Error()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(wait):
		}
	}
}
