// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

const (
	set      = "agent"
	nodes    = 5
	advanced = "ads/" + set
)

// TestVerbs plays each verb that changes something. The subtests share a plane, and each has nodes of its own.
func TestVerbs(t *testing.T) {
	c := shared.Cluster(t)
	for _, one := range []struct {
		name string
		play func(p *person)
	}{
		{"Read", reads}, {"Steer", steer}, {"Owned", owned}, {"Hook", hook}, {"OTA", upgradesOneByOne}, {"Images", whereImagesAre},
		{"Migrate", migrates}, {"MigrateInterrupted", interrupted}, {"TakeOverOpenYurt", takesOverOpenYurt}, {"TakeOver", takesOver},
	} {
		t.Run(one.name, func(t *testing.T) { one.play(&person{t, c.Space(t, nodes)}) })
	}
}

// manifest is an Advanced DaemonSet on the nodes of the space; strategy and more are JSON.
func manifest(s *harness.Space, strategy, more string) string {
	return fmt.Sprintf(`{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": %q}, "spec": {
		"selector": {"matchLabels": {"app": %q}}, "updateStrategy": %s, %s
		"template": {"metadata": {"labels": {"app": %q, "example.io/block": "true"}}, "spec": {"nodeSelector": {%q: %q},
			"containers": [{"name": %q, "image": %q}]}}}}`,
		set, set, strategy, more, set, harness.PoolLabel, s.Name, set, harness.Image)
}

const rolling = `{"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 5}}`

// create makes the set and waits until it runs.
func (p *person) create(strategy, more string) {
	p.t.Helper()
	if out, err := p.s.KubectlWith(manifest(p.s, strategy, more), "create", "-f", "-"); err != nil {
		p.t.Fatalf("%s%v", out, err)
	}
	p.s.Wait("the set runs", harness.RolledOut(set, 1, nodes))
}

// run is met when that many pods of the set are ready with the image, and the others with another.
func run(image string, count int) harness.Condition {
	return func(v harness.View) error {
		with, ready := 0, 0
		for _, pod := range v.Pods(set) {
			if harness.Ready(pod) && pod.DeletionTimestamp == nil {
				ready++
				if pod.Spec.Containers[0].Image == image {
					with++
				}
			}
		}
		if ready != nodes || with != count {
			return missing("%d pods are ready, %d of them with %s; want %d and %d", ready, with, image, nodes, count)
		}
		return nil
	}
}

// observed is met when the controller has seen the newest generation: from then on it would have acted.
func observed(v harness.View) error {
	now := v.Set(set)
	if now == nil || now.Status.ObservedGeneration < now.Generation {
		return missing("the newest generation of the set is not observed")
	}
	return nil
}

// steer goes through pause, partition, canary, restart and undo, and what the pods say of each.
func steer(p *person) {
	p.create(rolling, "")
	p.types("paused", "pause", set)
	p.types("it is paused", "set-image", set, set+"="+harness.Image2)
	p.s.Wait("nothing is updated while it is paused", observed, run(harness.Image, nodes))
	p.types("partition set to 3", "partition", advanced, "3")
	p.types("resumed", "resume", advanced)
	p.s.Wait("two nodes are updated", observed, run(harness.Image2, 2))
	p.types("partition set to 60%", "partition", advanced, "60%")
	p.types("rolled back to revision 1", "undo", set, "--to-revision", "1")
	p.types("partition set to 0", "partition", advanced, "0")
	p.s.Wait("all are back", observed, run(harness.Image, nodes))

	p.s.LabelNode(p.s.Nodes[0], "example.io/canary", p.s.Name)
	p.types("1 node of the cluster matches", "canary", set, "example.io/canary="+p.s.Name)
	p.types("it is a canary", "set-image", set, "*="+harness.Image3)
	p.s.Wait("the canary is updated, and nothing else", observed, run(harness.Image3, 1), func(v harness.View) error {
		if pod := v.PodOn(set, p.s.Nodes[0]); pod == nil || pod.Spec.Containers[0].Image != harness.Image3 {
			return missing("node %s has another image", p.s.Nodes[0])
		}
		return nil
	})
	p.types("(server dry run)", "undo", set, "--dry-run")
	p.types("canary off", "canary", set, "--off")
	p.s.Wait("all follow", observed, run(harness.Image3, nodes))

	before := harness.UIDs(p.s.View().Pods(set))
	p.types("restarted", "restart", set)
	p.s.Wait("all pods are new", observed, run(harness.Image3, nodes), func(v harness.View) error {
		for name, uid := range harness.UIDs(v.Pods(set)) {
			if before[name] == uid {
				return missing("pod %s is the one from before", name)
			}
		}
		return nil
	})
	p.native()
}

// native: what apps/v1 has no field for is refused, and the rest works as well.
func (p *person) native() {
	p.s.Run("plain")
	for _, args := range [][]string{{"pause", "plain"}, {"resume", "plain"}, {"partition", "plain", "1"}, {"canary", "plain", "a=b"}} {
		p.isRefused(1, "migrate daemonset/plain", args...)
	}
	p.s.Create(set) // now there are two of this name
	p.isRefused(2, "write daemonset/agent for the one of apps/v1", "pause", set)
	p.s.Kubectl("delete", "daemonsets.apps", set)
	p.types("image updated", "set-image", "plain", "*="+harness.Image2)
	p.s.Wait("the native set is updated", harness.RolledOut("plain", 2, nodes))
	p.types("rolled back to revision 1", "undo", "daemonset/plain")
	p.s.Wait("and back", harness.RolledOut("plain", 3, nodes))
}

// owned: a field that somebody has applied is left alone, unless it is taken over, and that can be seen.
func owned(p *person) {
	text := manifest(p.s, `{"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 5, "paused": false}}`, "")
	if out, err := p.s.KubectlWith(text, "apply", "--server-side", "--field-manager=gitops", "-f", "-"); err != nil {
		p.t.Fatalf("%s%v", out, err)
	}
	p.s.Wait("the set runs", harness.RolledOut(set, 1, nodes))
	p.isRefused(1, `"gitops" has .spec.updateStrategy.rollingUpdate.paused`, "pause", set)
	p.isRefused(1, `"gitops" has .spec.template`, "set-image", set, set+"="+harness.Image2)
	p.types("partition set to 1", "partition", set, "1") // nobody has that
	p.types("paused", "pause", set, "--force-conflicts")
	p.s.Poll("the managers of the fields can be seen", func() error {
		fields := p.s.Kubectl("get", advanced, "-o", "yaml", "--show-managed-fields")
		if !strings.Contains(fields, "manager: kubectl-everynode") {
			return missing("there is no manager kubectl-everynode:\n%s", fields)
		}
		return nil
	})
	// The other manager is told in turn.
	if out, err := p.s.KubectlWith(text, "apply", "--server-side", "--field-manager=gitops", "-f", "-"); err == nil || !strings.Contains(out, "kubectl-everynode") {
		p.t.Errorf("whoever applied the field before is not told who has it now: %v\n%s", err, out)
	}
}

// hook: a pod that waits is shown and let go, and no other.
func hook(p *person) {
	p.create(rolling, `"lifecycle": {"preDelete": {"labelsHandler": {"example.io/block": "true"}}},`)
	p.types("image updated", "set-image", set, set+"="+harness.Image2)
	p.s.Wait("all pods wait", func(v harness.View) error {
		for _, pod := range v.Pods(set) {
			if pod.Labels["lifecycle.apps.kruise.io/state"] != "PreparingDelete" {
				return missing("pod %s does not wait", pod.Name)
			}
		}
		return nil
	})
	p.types("label example.io/block=true", "pre-delete", "list", advanced)
	p.isRefused(1, "there is no such node", "pre-delete", "release", "no-such-node")
	p.types("released", "pre-delete", "release", p.s.Nodes[1])
	p.s.Wait("the pod of that node is updated", run(harness.Image2, 1))
	p.types("released", "pre-delete", "release", "--all", advanced)
	p.s.Wait("the others follow", run(harness.Image2, nodes))
	p.types("No pod waits for a hook.", "pre-delete", "list")
}

// upgradesOneByOne: a DaemonSet with OpenYurt's OTA, and an Advanced one with OnDelete.
func upgradesOneByOne(p *person) {
	p.create(`{"type": "OnDelete"}`, "")
	p.s.Run("edge", harness.WithOnDelete, harness.WithAnnotation("apps.openyurt.io/update-strategy", "OTA"))
	p.types("No pod has a newer version.", "ota", "list")
	p.types("", "set-image", set, set+"="+harness.Image2)
	p.s.Update("edge", harness.WithImage(harness.Image2))
	p.s.Poll("all pods of both have a newer version", func() error {
		var rows []struct{ Set, NextRevision string }
		if err := json.Unmarshal([]byte(p.types("", "ota", "list", "-o", "json")), &rows); err != nil {
			return err
		}
		if len(rows) != 2*nodes {
			return missing("%d pods have one", len(rows))
		}
		return nil
	})
	first, second := p.s.Nodes[0], p.s.Nodes[1]
	// The agent of the node pulls what is asked for.
	if _, err := p.s.Cluster.Plane.ServeNodeAPI(p.s.Context(), second, "127.0.0.1:0"); err != nil {
		p.t.Fatal(err)
	}
	p.types("asked for", "ota", "pull", second, "daemonset/edge")
	p.s.Poll("the images are there", func() error {
		var rows []struct{ Images string }
		if err := json.Unmarshal([]byte(p.types("", "ota", "list", "daemonset/edge", second, "-o", "json")), &rows); err != nil {
			return err
		}
		if len(rows) != 1 || rows[0].Images != "Ready" {
			return missing("they are %v", rows)
		}
		return nil
	})
	p.types("to be upgraded to", "ota", "upgrade", second, "daemonset/edge")
	p.types("to be upgraded to", "ota", "upgrade", first)
	upgraded := func(name string, on ...string) harness.Condition {
		return func(v harness.View) error {
			for _, node := range p.s.Nodes {
				want := harness.Image
				for _, n := range on {
					if n == node {
						want = harness.Image2
					}
				}
				if pod := v.PodOn(name, node); pod == nil || !harness.Ready(pod) || pod.Spec.Containers[0].Image != want {
					return missing("node %s has not the pod of %s with %s", node, name, want)
				}
			}
			return nil
		}
	}
	p.s.Wait("these pods are upgraded, and no others", upgraded("edge", first, second), upgraded(set, first))
	p.s.Poll("a pod that is up to date cannot be upgraded", func() error {
		if a := p.tries("ota", "upgrade", "pod/"+p.s.View().PodOn("edge", first).Name); a.code != 1 || !strings.Contains(a.err, "is up to date") {
			return missing("it ends with %d: %s", a.code, a.err)
		}
		return nil
	})
}

// whereImagesAre: what kubelets report, and an ImagePullJob.
func whereImagesAre(p *person) {
	p.create(rolling, "")
	p.types(harness.Image, "images", set)
	job := fmt.Sprintf(`{"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": "ahead"}, "spec": {"image": %q, "parallelism": 5,
		"selector": {"matchLabels": {%q: %q}}, "completionPolicy": {"type": "Always"}}}`, harness.Image3, harness.PoolLabel, p.s.Name)
	if out, err := p.s.KubectlWith(job, "create", "-f", "-"); err != nil {
		p.t.Fatalf("%s%v", out, err)
	}
	p.s.Poll("the image is on all nodes", func() error {
		var report struct {
			Images []struct {
				Image string
				There []string
			}
			Jobs []struct{ Done bool }
		}
		if err := json.Unmarshal([]byte(p.types("", "images", "-o", "json")), &report); err != nil {
			return err
		}
		for _, image := range report.Images {
			if image.Image == harness.Image3 && len(image.There) == nodes && len(report.Jobs) == 1 && report.Jobs[0].Done {
				return nil
			}
		}
		return missing("the report says %v", report)
	})
}

// migrates there and back, while every pod stays.
func migrates(p *person) {
	p.s.Run(set, harness.WithBudget("2", "0"))
	before := running(p.s)
	p.types("(server dry run)", "migrate", set, "--dry-run")
	if after := running(p.s); after != before {
		p.t.Fatalf("a dry run has changed something:\n%s\nand was\n%s", after, before)
	}
	p.types("manages the pods now", "migrate", "daemonset/"+set)
	p.s.Wait("the Advanced set has taken over", harness.RolledOut(set, 1, nodes))
	if after := running(p.s); after != before {
		p.t.Fatalf("the pods were\n%s\nand are\n%s", before, after)
	}
	p.types("already: nothing to do", "migrate", set)
	p.types("partition set to 2", "partition", advanced, "2")
	p.isRefused(1, "spec.updateStrategy.rollingUpdate.partition: 2", "migrate", advanced)
	p.types("manages the pods now", "migrate", advanced, "--drop-fields")
	p.s.Wait("the native set has taken over", harness.RolledOut(set, 1, nodes))
	if after := running(p.s); after != before {
		p.t.Fatalf("the pods were\n%s\nand are\n%s", before, after)
	}
	p.types("image updated", "set-image", set, "*="+harness.Image2)
	p.s.Wait("it still rolls", run(harness.Image2, nodes))
}

// interrupted: nobody looks after the new set, so the migration does not come to its end; said again it does.
func interrupted(p *person) {
	p.s.Run(set, harness.WithBudget("2", "0"))
	before, c := running(p.s), p.s.Cluster
	c.Kill(p.t, harness.ManagerComponent)
	started := false
	defer func() {
		if !started {
			c.StartComponent(p.t, harness.ManagerComponent)
		}
	}()
	// Its webhooks are gone with the manager, so nothing is begun.
	p.isRefused(1, "", "migrate", "daemonset/"+set, "--timeout", "2s")
	if after := running(p.s); after != before {
		p.t.Fatalf("the pods were\n%s\nand are\n%s", before, after)
	}
	c.StartComponent(p.t, harness.ManagerComponent)
	started = true
	p.s.Poll("the webhooks answer", func() error {
		if a := p.tries("migrate", "daemonset/"+set, "--timeout", "1ms"); a.code != 3 {
			return missing("it ends with %d:\n%s%s", a.code, a.out, a.err)
		}
		return nil
	})
	p.types("manages the pods now", "migrate", "daemonset/"+set)
	p.s.Wait("the Advanced set has taken over", harness.RolledOut(set, 1, nodes))
	if after := running(p.s); after != before {
		p.t.Fatalf("the pods were\n%s\nand are\n%s", before, after)
	}
	list, err := c.Client.CoreV1().ConfigMaps(p.s.Name).List(p.s.Context(), metav1.ListOptions{LabelSelector: "everynode.dev/part-of"})
	if err != nil || len(list.Items) > 0 {
		p.t.Errorf("what was kept is still there: %v (%v)", list.Items, err)
	}
}

// running are the pods of the space with their restarts, as text.
func running(s *harness.Space) string {
	list, err := s.Cluster.Client.CoreV1().Pods(s.Name).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, pod := range list.Items {
		fmt.Fprintf(&text, "%s %s %s restarts %d\n", pod.Spec.NodeName, pod.Name, pod.UID, restarts(&pod))
	}
	return text.String()
}

func restarts(pod *corev1.Pod) int32 {
	var n int32
	for _, c := range pod.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// takesOver comes last, for it leaves the plane without a manager. It plays OpenKruise: its definition has no label, a webhook that nobody
// serves, and objects that may be stored as v1alpha1.
func takesOver(p *person) {
	const definition = "customresourcedefinition/daemonsets.apps.kruise.io"
	p.create(rolling, "")
	before, c := running(p.s), p.s.Cluster
	c.Kill(p.t, harness.ManagerComponent)
	p.s.Kubectl("label", definition, "everynode.dev/part-of-")
	p.s.Kubectl("patch", definition, "--subresource=status", "--type=merge", "-p", `{"status": {"storedVersions": ["v1alpha1", "v1beta1"]}}`)
	hook := `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "kruise-validating-webhook-configuration"},
		"webhooks": [{"name": "v.kruise.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
		"clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [{"apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["clonesets"]}]}]}`
	if out, err := p.s.KubectlWith(hook, "create", "-f", "-"); err != nil {
		p.t.Fatalf("%s%v", out, err)
	}
	p.types("replaced", "adopt", "--dry-run")
	// The conversion that is published leads to the manager that was killed, so objects cannot be written yet.
	if a := p.tries("adopt", "--timeout", "2s"); a.code == 0 || !strings.Contains(a.out, definition+" replaced") {
		p.t.Fatalf("without a manager it ends with %d:\n%s%s", a.code, a.out, a.err)
	}
	c.StartComponent(p.t, harness.ManagerComponent)
	p.s.Poll("the objects are stored anew", func() error {
		if a := p.tries("adopt"); a.code != 0 {
			return missing("it ends with %d:\n%s", a.code, a.err)
		}
		return nil
	})
	if stored := p.s.Kubectl("get", definition, "-o", "jsonpath={.status.storedVersions}"); stored != `["v1beta1"]` {
		p.t.Errorf("stored versions are %s", stored)
	}
	if after := running(p.s); after != before {
		p.t.Errorf("the pods were\n%s\nand are\n%s", before, after)
	}
	p.isRefused(1, "everynode-manager", "adopt", "--back") // it is at work
	p.types("partition set to 1", "partition", set, "1")   // and looks after the set
	p.hooks("everynode-mutating", "everynode-validating")

	// The way back, once the lease of the manager that was killed has ended.
	c.Kill(p.t, harness.ManagerComponent)
	p.s.Poll("OpenKruise's definition is put back", func() error {
		if a := p.tries("adopt", "--back"); a.code != 0 {
			return missing("it ends with %d:\n%s", a.code, a.err)
		}
		return nil
	})
	p.hooks("kruise-validating-webhook-configuration")
	if label := p.s.Kubectl("get", definition, "-o", `jsonpath={.metadata.labels.everynode\.dev/part-of}`); label != "" {
		p.t.Errorf("the definition is still Everynode's: %q", label)
	}
	p.isRefused(1, "everynode-mutating does not exist", "adopt")
}

// hooks fails unless these webhook configurations are the only ones.
func (p *person) hooks(want ...string) {
	p.t.Helper()
	var names []string
	mutating, err := p.s.Cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(p.s.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, one := range mutating.Items {
		names = append(names, one.Name)
	}
	validating, err := p.s.Cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(p.s.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, one := range validating.Items {
		names = append(names, one.Name)
	}
	if !slices.Equal(names, want) {
		p.t.Errorf("the webhooks are %q, want %q", names, want)
	}
}
