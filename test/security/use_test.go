// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/webhook"
	"everynode.dev/everynode/test/harness"
)

// nativeSet is a DaemonSet of apps/v1 that keeps no history.
func nativeSet(name, strategy, image string) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: %[1]s, name: %[2]s}, spec: {
		revisionHistoryLimit: 0, selector: {matchLabels: {app: %[2]s}}, updateStrategy: {type: %[3]s},
		template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [{name: c, image: "%[4]s"}]}}}}`, team, name, strategy, image)
}

// advancedSet is one of apps.kruise.io that is changed in place.
func advancedSet(name, image, cpu string) string {
	return fmt.Sprintf(`{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, metadata: {namespace: %[1]s, name: %[2]s-advanced}, spec: {
		selector: {matchLabels: {app: %[2]s-advanced}}, revisionHistoryLimit: 1,
		updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 2}},
		template: {metadata: {labels: {app: %[2]s-advanced}}, spec: {containers: [{name: c, image: "%[3]s", resources: {requests: {cpu: %[4]s}, limits: {cpu: "1"}}}]}}}}`,
		team, name, image, cpu)
}

// unplaced is a set of one of the versions, or of apps/v1, that runs on no node.
func unplaced(name, version string) string {
	return fmt.Sprintf(`{apiVersion: %[3]s, kind: DaemonSet, metadata: {namespace: %[1]s, name: %[2]s}, spec: {
		selector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}}, spec: {
		nodeSelector: {nobody: has-this}, containers: [{name: c, image: "registry.local/a:1"}]}}}}`, team, name, version)
}

// pullJob is an ImagePullJob with the planted secret.
func pullJob(name, metadata, completion string) string {
	return fmt.Sprintf(`{apiVersion: apps.kruise.io/v1beta1, kind: ImagePullJob, metadata: {namespace: %s, name: %s%s}, spec: {
		image: "registry.local/%s:1", pullSecrets: [registry], parallelism: 10, completionPolicy: %s}}`, team, name, metadata, name, completion)
}

// plant makes a pull secret that the manager may read.
func (w *world) plant() {
	w.byHand = append(w.byHand, harness.RoleName("ClusterRole", team, "everynode-manager-read-pull-secrets"))
	w.apply(
		`{apiVersion: v1, kind: Namespace, metadata: {name: `+team+`}}`,
		`{apiVersion: v1, kind: Secret, metadata: {namespace: `+team+`, name: registry}, type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: `+
			base64.StdEncoding.EncodeToString([]byte(dockerConfig))+`}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: `+team+`, name: everynode},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everynode-manager-read-pull-secrets},
			subjects: [{kind: ServiceAccount, namespace: everynode-system, name: everynode-manager}]}`,
	)
}

// useEverything has the manager use every right that it has.
func (w *world) useEverything() {
	w.plant()
	const bundle = "ca.crt" // the manager looks at its Secret once a minute
	w.store(func(data map[string][]byte) { delete(data, bundle) })
	w.pulls()
	w.native()
	w.restart()
	w.edge()
	w.advanced()
	w.nodeImages()
	w.until("what was taken out of the Secret of the webhooks", func() error {
		secret, err := w.client.CoreV1().Secrets(everynode.Namespace).Get(w.t.Context(), webhook.SecretName, metav1.GetOptions{})
		if err == nil && len(secret.Data[bundle]) == 0 {
			err = fmt.Errorf("it has no %s", bundle)
		}
		return err
	})
	// Copies of secrets are looked through once a minute.
	w.until("the end of the copies", func() error {
		copies, err := w.client.CoreV1().Secrets(kruise.PullNamespace).List(w.t.Context(), metav1.ListOptions{})
		if err == nil && len(copies.Items) > 0 {
			err = fmt.Errorf("%d copies are there", len(copies.Items))
		}
		return err
	})
}

// pulls has two jobs share a copy of a secret. One ends by itself, and one has been made by OpenKruise, with its finalizer.
func (w *world) pulls() {
	kept := pullJob("kept", ", finalizers: ["+kruise.JobFinalizer+"]", "{type: Always}")
	w.apply(kept)
	w.number(kept, nodes, "status", "succeeded")
	brief := pullJob("brief", "", "{type: Always, ttlSecondsAfterFinished: 1}")
	w.apply(brief)
	w.gone(brief)
	w.remove(kept, metav1.DeletePropagationBackground)
}

// native takes pods and history over from a set that is gone, releases a pod, and rolls.
func (w *world) native() {
	set := nativeSet("native", "RollingUpdate", "registry.local/a:1")
	w.apply(set)
	w.number(set, nodes, "status", "numberReady")
	w.remove(set, metav1.DeletePropagationOrphan)
	w.apply(set)
	w.number(set, nodes, "status", "numberReady")
	pods := w.client.CoreV1().Pods(team)
	list, err := pods.List(w.t.Context(), metav1.ListOptions{LabelSelector: "app=native"})
	if err != nil || len(list.Items) == 0 {
		w.t.Fatal(list, err)
	}
	released := list.Items[0].Name
	if _, err := pods.Patch(w.t.Context(), released, types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"nobody"}}}`), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.until("a pod that is released", func() error {
		pod, err := pods.Get(w.t.Context(), released, metav1.GetOptions{})
		if err == nil && len(pod.OwnerReferences) > 0 {
			err = fmt.Errorf("it belongs to %v", pod.OwnerReferences)
		}
		return err
	})
	rolled := nativeSet("native", "RollingUpdate", "registry.local/a:2")
	w.apply(rolled)
	w.number(rolled, nodes, "status", "updatedNumberScheduled")
	w.number(rolled, nodes, "status", "numberAvailable")
}

// restart has a manager find what another one has left, the probe for other controllers among it.
func (w *world) restart() {
	for _, do := range []func(context.Context, string) error{w.KillComponent, w.StartComponent} {
		if err := do(w.t.Context(), "manager"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// edge has pods say that there is something newer.
func (w *world) edge() {
	set := func(image string) string {
		o := w.object(nativeSet("edge", "OnDelete", image))
		o.SetAnnotations(map[string]string{openyurt.UpdateStrategy: "OTA"})
		data, err := o.MarshalJSON()
		if err != nil {
			w.t.Fatal(err)
		}
		return string(data)
	}
	w.apply(set("registry.local/a:1"))
	w.number(set("registry.local/a:1"), nodes, "status", "numberReady")
	w.apply(set("registry.local/a:2"))
	w.until("pods that say so", func() error {
		list, err := w.client.CoreV1().Pods(team).List(w.t.Context(), metav1.ListOptions{LabelSelector: "app=edge"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Conditions {
				if c.Type == openyurt.PodNeedUpgrade && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
		}
		return fmt.Errorf("none of %d pods does", len(list.Items))
	})
}

// advanced changes images in place, which are pulled ahead, and then resources.
func (w *world) advanced() {
	set := advancedSet("set", "registry.local/a:1", "10m")
	w.apply(set)
	w.number(set, nodes, "status", "numberReady")
	w.remove(set, metav1.DeletePropagationOrphan)
	w.apply(set)
	w.number(set, nodes, "status", "numberReady")
	for _, next := range []string{advancedSet("set", "registry.local/a:2", "10m"), advancedSet("set", "registry.local/a:2", "20m")} {
		w.apply(next)
		w.number(next, nodes, "status", "updatedNumberScheduled")
		w.number(next, nodes, "status", "numberAvailable")
	}
}

// nodeImages come and go with nodes, and one says for a node that is cut that nothing was heard of it for too long.
func (w *world) nodeImages() {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	ofNoNode := `{apiVersion: apps.kruise.io/v1beta1, kind: NodeImage, metadata: {name: of-no-node}}`
	w.apply(ofNoNode)
	w.gone(ofNoNode)
	added, err := w.AddNodes(ctx, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	image := `{apiVersion: apps.kruise.io/v1beta1, kind: NodeImage, metadata: {name: ` + added[0] + `}}`
	w.until("a NodeImage of the new node", func() error {
		_, err := w.of(w.object(image)).Get(ctx, added[0], metav1.GetOptions{})
		return err
	})
	if err := w.CutNode(ctx, added[0]); err != nil {
		w.t.Fatal(err)
	}
	asked := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	w.apply(`{apiVersion: apps.kruise.io/v1beta1, kind: NodeImage, metadata: {name: ` + added[0] + `}, spec: {images: {registry.local/never: {tags: [
		{tag: "1", createdAt: "` + asked + `", version: 0}]}}}}`)
	w.number(image, 1, "status", "failed")
	if err := w.RemoveNode(ctx, added[0]); err != nil {
		w.t.Fatal(err)
	}
	w.gone(image)
}
