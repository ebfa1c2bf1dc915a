// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/rbac"
	"everynode.dev/everynode/internal/webhook"
	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

const (
	// settled is how long before now a manager would have made a certificate that it may serve now: it dates them an hour back, and lets ten minutes
	// pass, which a test cannot wait for.
	settled = time.Hour + 10*time.Minute
	// rotates is how long a rotation may take: managers look at the Secret once a minute, and publish once a minute.
	rotates = 5 * time.Minute
)

// pair is a certificate that an authority of its own has signed, and its key, as they are in the Secret.
type pair struct {
	leaf, authority *x509.Certificate
	cert, key       []byte
}

// TestCertificatesRotate: two managers change the certificate of their webhooks, and with it the authority, while clients create, change and read
// Advanced DaemonSets in both versions. No request fails. The Secret is the one that a manager would have written ten minutes earlier, then one that an
// operator puts in its place, and then there is none.
func TestCertificatesRotate(t *testing.T) {
	w := newWorldOf(t, localplane.Manager{Count: 2}, localplane.Dialects()...)
	w.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: `+team+`}}`, unplaced("first", kruise.Group+"/v1beta1"))
	asks := w.startAsking()
	first := w.stored("tls")
	w.serve(first)

	asks.during("the renewal", func() {
		next := w.issue(300 * 24 * time.Hour)
		w.store(func(data map[string][]byte) { data["next.crt"], data["next.key"] = next.cert, next.key })
		w.publish(next)
		w.serve(next)
		w.publish(first) // until it ends
	})
	asks.during("the replacement", func() {
		other := w.issue(310 * 24 * time.Hour)
		w.store(func(data map[string][]byte) {
			clear(data)
			data["tls.crt"], data["tls.key"] = other.cert, other.key
		})
		w.publish(other)
		w.serve(other)
	})
	asks.during("the loss", func() {
		served := w.stored("tls")
		if err := w.client.CoreV1().Secrets(everynode.Namespace).Delete(t.Context(), webhook.SecretName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		var next pair
		w.within(rotates, "the Secret with the next certificate", func() (err error) {
			next, err = w.inSecret("next")
			return err
		})
		w.publish(next)
		w.serve(served)
	})
	asks.stop()
	asked, err := harness.AskedBy(w.AuditLog(), rbac.User(rbac.Manager))
	if err == nil {
		err = harness.CheckRights(rbac.Manager, asked, false)
	}
	if err != nil {
		t.Error(err)
	}
}

// issue makes what a manager makes, as old as one that may be served. Its end tells it from others.
func (w *world) issue(until time.Duration) pair {
	w.t.Helper()
	from, host := time.Now().Add(-settled), w.webhooks().Hostname()
	sign := func(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
		template.NotBefore, template.NotAfter = from, time.Now().Add(until)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			w.t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			w.t.Fatal(err)
		}
		return cert
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			w.t.Fatal(err)
		}
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: until.String()}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	p := pair{authority: sign(root, root, keys[0], keys[0])}
	p.leaf = sign(&x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.ParseIP(host)}}, p.authority, keys[1], keys[0])
	var err error
	if p.cert, err = certutil.EncodeCertificates(p.leaf, p.authority); err != nil {
		w.t.Fatal(err)
	}
	if p.key, err = keyutil.MarshalPrivateKeyToPEM(keys[1]); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// store changes the Secret.
func (w *world) store(change func(data map[string][]byte)) {
	w.t.Helper()
	secrets := w.client.CoreV1().Secrets(everynode.Namespace)
	w.until("a change of the Secret", func() error { // a manager may be faster
		secret, err := secrets.Get(w.t.Context(), webhook.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(secret.Data)
		_, err = secrets.Update(w.t.Context(), secret, metav1.UpdateOptions{})
		return err
	})
}

// stored is a certificate in the Secret.
func (w *world) stored(name string) pair {
	w.t.Helper()
	p, err := w.inSecret(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) inSecret(name string) (pair, error) {
	secret, err := w.client.CoreV1().Secrets(everynode.Namespace).Get(w.t.Context(), webhook.SecretName, metav1.GetOptions{})
	if err != nil {
		return pair{}, err
	}
	p := pair{cert: secret.Data[name+".crt"], key: secret.Data[name+".key"]}
	chain, err := certutil.ParseCertsPEM(p.cert)
	if err != nil || len(chain) < 2 {
		return pair{}, fmt.Errorf("%s.crt has %d certificates: %w", name, len(chain), err)
	}
	p.leaf, p.authority = chain[0], chain[len(chain)-1]
	return p, nil
}

// publish waits until the authority is trusted wherever the API server reads whom it trusts.
func (w *world) publish(p pair) {
	w.t.Helper()
	w.within(rotates, "the authority in all that is published", func() error {
		bundles, err := w.bundles(w.t.Context())
		if err != nil {
			return err
		}
		for where, bundle := range bundles {
			if known, err := certutil.ParseCertsPEM(bundle); err != nil || !slices.ContainsFunc(known, p.authority.Equal) {
				return fmt.Errorf("%s trusts %d others: %w", where, len(known), err)
			}
		}
		return nil
	})
}

// serve waits until every manager serves the certificate: the one that leads is asked for it, and each tells in its metrics when its own ends.
func (w *world) serve(p pair) {
	w.t.Helper()
	w.within(rotates, "the certificate at all managers", func() error {
		served, err := handshake(w.t.Context(), w.webhooks().Host, &tls.Config{InsecureSkipVerify: true}) // whether it is trusted is asked by others
		if err != nil {
			return err
		}
		if !p.leaf.Equal(served) {
			return fmt.Errorf("the manager serves one that ends %s", served.NotAfter)
		}
		for _, manager := range []string{"manager", "manager-2"} {
			url, err := w.MetricsURL(manager)
			if err != nil {
				return err
			}
			found := regexp.MustCompile(`(?m)^everynode_webhook_certificate_ends_seconds (\S+)$`).FindStringSubmatch(w.read(w.t, url))
			if found == nil {
				return fmt.Errorf("%s has no certificate", manager)
			}
			if ends, err := strconv.ParseFloat(found[1], 64); err != nil || int64(ends) != p.leaf.NotAfter.Unix() {
				return fmt.Errorf("%s serves one that ends %s, want %s: %w", manager, found[1], p.leaf.NotAfter, err)
			}
		}
		return nil
	})
}

// bundles are whom the API server has been told to trust, by where it reads that.
func (w *world) bundles(ctx context.Context) (map[string][]byte, error) {
	found := map[string][]byte{}
	configurations := w.client.AdmissionregistrationV1()
	mutating, err := configurations.MutatingWebhookConfigurations().Get(ctx, "everynode-mutating", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for i := range mutating.Webhooks {
		found["mutating "+mutating.Webhooks[i].Name] = mutating.Webhooks[i].ClientConfig.CABundle
	}
	validating, err := configurations.ValidatingWebhookConfigurations().Get(ctx, "everynode-validating", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for i := range validating.Webhooks {
		found["validating "+validating.Webhooks[i].Name] = validating.Webhooks[i].ClientConfig.CABundle
	}
	definitions := w.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	definition, err := definitions.Get(ctx, "daemonsets.apps.kruise.io", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	text, _, err := unstructured.NestedString(definition.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
	if err != nil {
		return nil, err
	}
	found["conversion"], err = base64.StdEncoding.DecodeString(text)
	return found, err
}

// webhooks is where the API server reaches them.
func (w *world) webhooks() *url.URL {
	w.t.Helper()
	validating, err := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(w.t.Context(), "everynode-validating", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(validating.Webhooks) == 0 || validating.Webhooks[0].ClientConfig.URL == nil {
		w.t.Fatalf("the API server does not know where the webhooks are: %+v", validating.Webhooks)
	}
	at, err := url.Parse(*validating.Webhooks[0].ClientConfig.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	return at
}
