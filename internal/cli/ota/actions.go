// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/ota"
)

func newUpgrade(o *options.Options) *cobra.Command {
	d := &action{
		Options: o, none: "no pod has a newer version",
		able:  func(one *candidate) bool { return one.refused() == nil },
		waits: "skipped, because the requested images are not on the node yet",
	}
	d.do, d.after = d.upgrade, d.warnUnreachable
	return d.command(&cobra.Command{
		Use:   "upgrade NODE|POD...|--all [daemonset/NAME|ads/NAME]",
		Short: "Upgrade pods now",
		Long: "Upgrade pods now: each pod is deleted, and its controller creates a pod of the newest revision. A pod whose images were requested\n" +
			"(ota pull) is refused until the images are on the node. There is no budget: pods that are named together are deleted together.",
		Example: "  # The pods of one node\n  kubectl everynode ota upgrade node-0002\n\n  # All of one set\n  kubectl everynode ota upgrade --all daemonset/agent",
	})
}

func newPull(o *options.Options) *cobra.Command {
	d := &action{
		Options: o, none: "no pod has a newer version whose images must still be requested",
		able: func(one *candidate) bool { return one.mayPull() == nil && !one.upgrading() },
	}
	d.do, d.after = d.pull, d.warnNoAgent
	return d.command(&cobra.Command{
		Use:   "pull NODE|POD...|--all [daemonset/NAME|ads/NAME]",
		Short: "Pull the images of the newer version before the upgrade",
		Long: "Pull the images of the newer version before the upgrade, so that it is short: sets the condition " + string(openyurt.PodImageReady) + " of the pods\n" +
			"to False, and the agent of the node then pulls the images. Follow it with ota list. Without an agent nothing is pulled,\n" +
			"and the command reports that.",
		Example: "  # On one node\n  kubectl everynode ota pull node-0002",
	})
}

// agentLabel is the label of the pods of the agents, in any namespace.
const agentLabel = everynode.AgentLabel + "=" + everynode.AgentName

// warnNoAgent lists nodes without an agent: there the request is not carried out, and the pods cannot be upgraded.
// Without the right to list pods there is no warning.
func (d *action) warnNoAgent(ctx context.Context, c *options.Clients, done []*candidate) {
	nodes := nodesOf(done)
	at, err := agents(ctx, c, nodes)
	if err != nil {
		return
	}
	if without := slices.DeleteFunc(nodes, func(node string) bool { return at[node] }); len(without) > 0 {
		change.Note(d.Options, "no agent of Everynode runs on %s: unless another program pulls them, the images are not pulled, and `%s ota upgrade` refuses these pods",
			strings.Join(without, ", "), options.Program)
	}
}

// maxGets is how many nodes are read one by one; for more nodes, all are listed.
const maxGets = 20

// agents returns the nodes that have an agent, at least of the given ones.
func agents(ctx context.Context, c *options.Clients, nodes []string) (map[string]bool, error) {
	// A read from the API server's cache is sufficient.
	asked := []metav1.ListOptions{{LabelSelector: agentLabel, ResourceVersion: "0"}}
	if len(nodes) <= maxGets {
		asked = nil
		for _, node := range nodes {
			asked = append(asked, metav1.ListOptions{
				LabelSelector: agentLabel, ResourceVersion: "0", FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
			})
		}
	}
	at := map[string]bool{}
	for _, how := range asked {
		list, err := c.Kubernetes.CoreV1().Pods(metav1.NamespaceAll).List(ctx, how)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			at[list.Items[i].Spec.NodeName] = true
		}
	}
	return at, nil
}

// mayPull returns an error if the images of a pod cannot be requested. That they are not on the node yet is not an error.
func (one *candidate) mayPull() error {
	if reason := ota.Refusal(one.pod, one.next, one.old); reason == v2.ReasonDeleting || reason == v2.ReasonUpToDate {
		return one.refused()
	}
	if one.next == "" {
		return fmt.Errorf("pod %s on node %s cannot have its images pulled: its condition %s names no revision", one.pod.Name, one.pod.Spec.NodeName, openyurt.PodNeedUpgrade)
	}
	return nil
}

// upgrading reports whether no images must be requested.
func (one *candidate) upgrading() bool { return ota.Asked(one.pod, one.next) }

// outcome returns the result for a pod.
func (one *candidate) outcome(done string, fields ...change.Field) (change.Outcome, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(one.pod)
	if err != nil {
		return change.Outcome{}, fmt.Errorf("encoding pod %s: %w", one.pod.Name, err)
	}
	read := &unstructured.Unstructured{Object: raw}
	read.SetAPIVersion("v1")
	read.SetKind("Pod")
	object := change.Object{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Read: read}
	return change.Outcome{Object: object, Result: &change.Result{Object: read, Fields: fields}, Done: "on " + one.pod.Spec.NodeName + " " + done}, nil
}

func (one *candidate) request(verb, resource string) options.Request {
	return options.Request{Verb: verb, Resource: corev1.Resource(resource), Namespace: one.pod.Namespace, Name: one.pod.Name}
}

// upgrade deletes exactly this pod.
func (d *action) upgrade(ctx context.Context, c *options.Clients, one *candidate) (change.Outcome, error) {
	if err := d.held(ctx, c, one, one.refused()); err != nil {
		return change.Outcome{}, err
	}
	if d.DryRun != change.DryRunClient {
		only := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &one.pod.UID}, DryRun: d.ServerSide()}
		err := c.Kubernetes.CoreV1().Pods(one.pod.Namespace).Delete(ctx, one.pod.Name, only)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return change.Outcome{}, fmt.Errorf("pod %s on node %s was deleted in the meantime", one.pod.Name, one.pod.Spec.NodeName)
		}
		if err != nil {
			return change.Outcome{}, options.Explain(err, one.request("delete", "pods"))
		}
	}
	to := one.next
	if to == "" {
		to = "the newest revision"
	}
	return one.outcome("deleted, to be upgraded to "+to, change.Field{
		Path: fieldpath.MakePathOrDie("metadata", "labels", revisionLabel), From: one.pod.Labels[revisionLabel], To: one.next,
	})
}

// pull requests the images of the next revision. The time distinguishes a request from the one before it.
func (d *action) pull(ctx context.Context, c *options.Clients, one *candidate) (change.Outcome, error) {
	if err := d.held(ctx, c, one, one.mayPull()); err != nil {
		return change.Outcome{}, err
	}
	if one.upgrading() {
		return one.outcome("has its images requested already")
	}
	asked := map[string]any{
		"type": openyurt.PodImageReady, "status": corev1.ConditionFalse, "message": openyurt.FormatRevision(one.next),
		"lastTransitionTime": metav1.NewTime(d.Now()), "reason": nil, // other fields stay as they are
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": one.pod.UID}, "status": map[string]any{"conditions": []any{asked}},
	})
	if err != nil {
		return change.Outcome{}, fmt.Errorf("writing the condition %s: %w", openyurt.PodImageReady, err)
	}
	if d.DryRun != change.DryRunClient {
		how := metav1.PatchOptions{FieldManager: options.FieldManager, DryRun: d.ServerSide()}
		now, err := c.Kubernetes.CoreV1().Pods(one.pod.Namespace).Patch(ctx, one.pod.Name, types.StrategicMergePatchType, patch, how, "status")
		if err != nil {
			return change.Outcome{}, options.Explain(err, one.request("patch", "pods/status"))
		}
		one.pod = now
	}
	return one.outcome("images of "+one.next+" asked for", change.Field{
		Path: fieldpath.MakePathOrDie("status", "conditions", fieldpath.KeyByFields("type", string(openyurt.PodImageReady))),
		To:   string(corev1.ConditionFalse),
	})
}
