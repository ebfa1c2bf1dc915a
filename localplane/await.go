// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/localplane/internal/nodes"
	"everynode.dev/everynode/localplane/internal/realnode"
)

const (
	// awaitedNodes is how many nodes a start waits for. More may become Ready after it has returned: callers must handle
	// nodes that join later anyway.
	awaitedNodes = 50
	awaitTimeout = 30 * time.Second
	pollInterval = 100 * time.Millisecond
)

// awaitNodes waits until the nodes of a small plane, and the real nodes of any plane, are Ready and schedulable. Nodes that were cut off before stay cut off.
func (own *owner) awaitNodes(ctx context.Context, client kubernetes.Interface) error {
	if own.registered+own.inputs.Real.Count == 0 {
		return nil
	}
	began := time.Now()
	var missing int
	err := poll(ctx, awaitTimeout, func(ctx context.Context) (done bool, err error) {
		count, err := nodes.Count(ctx, client, own.home.IsCut)
		missing = own.awaited(count)
		return err == nil && missing == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d nodes to be Ready: %w", missing, err)
	}
	own.progress("all nodes Ready after %s", time.Since(began).Round(10*time.Millisecond))
	return nil
}

// awaited returns how many nodes a start still waits for.
func (own *owner) awaited(count nodes.Counts) int {
	missing := count.Unsettled
	if own.registered > awaitedNodes {
		missing = count.UnsettledReal
	}
	for n := 1; n <= own.inputs.Real.Count; n++ {
		if name := realnode.Name(n); !slices.Contains(count.Real, name) && !own.home.IsCut(name) {
			missing++
		}
	}
	return missing
}

// awaitWebhooks waits until an Advanced DaemonSet can be created in the version that must be converted: the API server
// needs a moment to use webhooks that have just been published.
func awaitWebhooks(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("waiting for the webhooks: %w", err)
	}
	sets := client.Resource(schema.GroupVersionResource{Group: kruise.Group, Version: kruise.VersionAlpha, Resource: kruise.Resource}).Namespace(metav1.NamespaceDefault)
	labels := map[string]any{"app": "probe"}
	probe := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kruise.Group + "/" + kruise.VersionAlpha, "kind": kruise.Kind,
		"metadata": map[string]any{"generateName": "probe-"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "probe", "image": "probe"}}},
			},
		},
	}}
	err = poll(ctx, awaitTimeout, func(ctx context.Context) (bool, error) {
		made, err := sets.Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, err
		}
		// Without the defaults of the webhook, the webhook was not called.
		strategy, _, _ := unstructured.NestedString(made.Object, "spec", "updateStrategy", "type")
		return strategy != "", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the webhooks: %w", err)
	}
	return nil
}

// poll calls a condition until it is true. An error counts as false; the last one is returned after a timeout.
func poll(ctx context.Context, timeout time.Duration, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		done, err := ask(ctx)
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	}
}
