// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// installRemedy is what to do where something is missing in the cluster.
const installRemedy = "apply the namespace and the roles of Everynode (kubectl apply -f config/install/00-namespace.yaml -f config/install/10-manager.yaml), or make the like for another namespace"

// checkPlace finds out, before anything is started, whether the manager can work where it is: its addresses are free, and its
// namespace is there. An API server that cannot be reached is no error yet: it may come.
func checkPlace(ctx context.Context, o *options, cfg *rest.Config) error {
	for flag, address := range map[string]string{"--metrics-bind-address": o.metricsAddress, "--health-probe-bind-address": o.healthAddress} {
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
	return checkNamespace(ctx, client, o.namespace)
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

// checkNamespace tries, without doing it, to write what the manager has to write in its own namespace.
func checkNamespace(ctx context.Context, client kubernetes.Interface, namespace string) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: leaseName + "-check-"}}
	_, err := client.CoordinationV1().Leases(namespace).Create(ctx, lease, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the namespace %s does not exist: %s", namespace, installRemedy)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("not allowed to work in the namespace %s: %w: %s", namespace, err, installRemedy)
	default:
		return nil
	}
}
