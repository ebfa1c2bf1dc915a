// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/api/everynode"
	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialects"
)

// installRemedy is the remedy for missing objects of Everynode.
const installRemedy = "apply the namespace and the roles of Everynode (kubectl apply -f config/install/00-namespace.yaml -f config/install/10-manager.yaml), or make the like for another namespace"

// kruiseRemedy is the remedy for missing objects of the dialect kruise.
const kruiseRemedy = "apply what this dialect needs (kubectl apply --server-side -f config/kruise), or leave " + dialects.Kruise + " out of --dialects"

// checkPlace checks, before anything is started, whether the manager can run: its addresses are free, and its namespace
// exists. An unreachable API server is not an error, because it may become reachable.
func checkPlace(ctx context.Context, o *options, cfg *rest.Config) error {
	addresses := map[string]string{"--metrics-bind-address": o.metricsAddress, "--health-probe-bind-address": o.healthAddress}
	servesKruise := slices.Contains(o.dialects, dialects.Kruise)
	if servesKruise {
		addresses["--webhook-bind-address"] = o.webhookAddress
	}
	for flag, address := range addresses {
		if err := checkAddress(flag, address); err != nil {
			return err
		}
	}
	quick := rest.CopyConfig(cfg)
	quick.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(quick)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := checkNamespace(ctx, client, o.namespace); err != nil || !servesKruise {
		return err
	}
	if o.webhookURL == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return usagef("outside of a cluster the API server cannot reach the webhooks of the dialect %s through a Service: "+
			"give --webhook-url https://HOST:PORT with an address of this machine, or leave %s out of --dialects", dialects.Kruise, dialects.Kruise)
	}
	definitions, err := dynamic.NewForConfig(quick)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return checkDefinitions(ctx, definitions, o)
}

// foreignError is the error for a CRD that exists and is not Everynode's.
type foreignError struct{ name string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("the CRD %s is not Everynode's: it has no label %s: %s, or it is OpenKruise's: if OpenKruise runs here, scale its manager to zero and remove its webhooks first; then %s",
		e.name, everynode.PartOf, everynode.PartOfValue, kruiseRemedy)
}

// missingError is the error for a CRD that does not exist, or that the API server does not serve.
type missingError struct {
	name     string
	unserved bool
}

func (e *missingError) Error() string {
	if e.unserved {
		return fmt.Sprintf("the API server does not serve the version %s of the CRD %s: see why with kubectl describe crd %s, and %s", kruiseapi.VersionStored, e.name, e.name, kruiseRemedy)
	}
	return fmt.Sprintf("the CRD %s does not exist: %s", e.name, kruiseRemedy)
}

// kruiseDefinitions returns the names of the CRDs that the dialect kruise needs: for sets, and for image pulls.
func kruiseDefinitions() []string {
	names := []string{kruiseapi.Resource, kruiseapi.ResourceJob, kruiseapi.ResourceNodeImage}
	for i := range names {
		names[i] += "." + kruiseapi.Group
	}
	return names
}

// checkDefinitions determines whether the dialect of OpenKruise can be served. Where its CRDs are not Everynode's or may not be read, or
// that of its sets is missing, it is left out, and no object of it is touched; that is an error only where nothing else would be left to
// do. Where another CRD is missing there are no image pulls.
func checkDefinitions(ctx context.Context, client dynamic.Interface, o *options) error {
	found, err := readDefinitions(ctx, client)
	if apierrors.IsForbidden(err) {
		found.unreadable, found.prevent = true, fmt.Errorf("not allowed to read CRDs: %w: %s", err, kruiseRemedy)
	}
	if o.definitions = found; found.prevent == nil {
		return nil
	}
	if len(o.dialects) == 1 {
		return found.prevent
	}
	o.dialects, o.leftOut = slices.DeleteFunc(slices.Clone(o.dialects), func(d string) bool { return d == dialects.Kruise }), found.prevent
	return nil
}

// definitions are the problems of the CRDs that the dialect kruise needs.
type definitions struct {
	// missing are the names of CRDs that do not exist or are not served, foreign those that are not Everynode's.
	missing, foreign []string
	// unreadable reports whether the manager was not allowed to read them.
	unreadable bool
	// uids are the UIDs of the CRDs that were read, by name. A CRD that was deleted and created again has lost its objects, and has another UID.
	uids map[string]types.UID
	// prevent is the reason why the dialect cannot be served; nil if it can.
	prevent error
}

func (d definitions) same(other definitions) bool {
	for name, uid := range d.uids {
		if now, ok := other.uids[name]; ok && now != uid {
			return false
		}
	}
	return d.unreadable == other.unreadable && slices.Equal(d.missing, other.missing) && slices.Equal(d.foreign, other.foreign)
}

// readDefinitions checks the CRDs. If it returns an error, the result is incomplete.
func readDefinitions(ctx context.Context, client dynamic.Interface) (found definitions, err error) {
	found.uids = map[string]types.UID{}
	for i, name := range kruiseDefinitions() {
		foreign, missing := (*foreignError)(nil), (*missingError)(nil)
		uid, failed := checkDefinition(ctx, client, name)
		if uid != "" {
			found.uids[name] = uid
		}
		switch {
		case errors.As(failed, &foreign):
			if len(found.foreign) == 0 {
				found.prevent = failed // applying Everynode's CRD again would not be safe
			}
			found.foreign = append(found.foreign, name)
		case errors.As(failed, &missing):
			if i == 0 {
				found.prevent = failed
			}
			found.missing = append(found.missing, name)
		default:
			err = errors.Join(err, failed)
		}
	}
	return found, err
}

// checkDefinition determines whether a resource is defined by Everynode, because only then are its versions converted, and whether the API server serves it. It
// fails with a foreignError or a missingError, or because the CRD cannot be read.
func checkDefinition(ctx context.Context, client dynamic.Interface, name string) (types.UID, error) {
	crd, err := client.Resource(kruise.Definitions()).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", &missingError{name: name}
	case err != nil:
		return "", fmt.Errorf("reading the CRD %s: %w", name, err)
	case !kruise.OwnDefinition(crd):
		return crd.GetUID(), &foreignError{name}
	case !kruise.ServedDefinition(crd):
		return crd.GetUID(), &missingError{name: name, unserved: true}
	default:
		return crd.GetUID(), nil
	}
}

func checkAddress(flag, address string) error {
	if address == "" || address == "0" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w: give another address with %s, or 0 to switch it off", address, err, flag)
	}
	return l.Close()
}

// checkNamespace makes dry runs of the writes of the manager in its own namespace.
func checkNamespace(ctx context.Context, client kubernetes.Interface, namespace string) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: leaseName + "-check-"}}
	_, err := client.CoordinationV1().Leases(namespace).Create(ctx, lease, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the namespace %s does not exist: %s", namespace, installRemedy)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		if _, readErr := client.CoordinationV1().Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{}); readErr == nil {
			return nil // the manager has its rights; a quota or a policy may refuse new leases, and this one is only updated
		}
		return fmt.Errorf("not allowed to work in the namespace %s: %w: %s", namespace, err, installRemedy)
	default:
		return nil
	}
}
