// SPDX-License-Identifier: Apache-2.0

package adopt_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// yurt is yurt-manager as its chart installs it, with these arguments and annotations.
func yurt(t *testing.T, args, annotations string) runtime.Object {
	t.Helper()
	return fakecluster.Object(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: yurt-manager, namespace: kube-system, uid: uid-1, resourceVersion: "7", annotations: {`+annotations+`}}
spec:
  template:
    spec:
      containers:
      - {name: yurt-manager, command: [/usr/local/bin/yurt-manager], args: [`+args+`]}
      - {name: other, args: [--controllers-file=x]}`)
}

// TestOpenYurt: what is switched off is one controller, and what comes back is what was there.
func TestOpenYurt(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "everynode-manager-openyurt"}}
	play := func(lines []string, objects ...runtime.Object) string {
		return fakecluster.New(t, objects...).Session(t, command.Root, lines...)
	}
	const chart = `--v=4, "--controllers=-nodelifecycle,*"`
	thereAndBack := []string{"adopt openyurt", "adopt openyurt", "adopt openyurt --back", "adopt openyurt --back"}
	text := play([]string{"adopt openyurt --dry-run", "adopt openyurt --dry-run=client"}, role, yurt(t, chart, ""))
	text += play(thereAndBack, role, yurt(t, chart, "meta.helm.sh/release-name: yurt"))
	text += play(thereAndBack[:3], role, yurt(t, `--controllers, "nodepool,daemon-pod-updater-controller"`, ""))
	fakecluster.Golden(t, *update, "openyurt.txt", text)

	machines := []string{"adopt openyurt -o json --dry-run=client", "adopt openyurt -o yaml", "adopt openyurt -o json --back"}
	fakecluster.Golden(t, *update, "openyurt-machines.txt", play(machines, role, yurt(t, chart, "")))

	once := []string{"adopt openyurt"}
	text = play(once, role)
	text += play(once, yurt(t, chart, ""))
	text += play(once, role, yurt(t, "--v=4", ""))
	text += play(once, role, yurt(t, `"--controllers=*", "--controllers=-nodepool"`, ""))
	text += play([]string{"adopt openyurt --back"}, role, yurt(t, `"--controllers=-daemonpodupdater,nodepool"`, `everynode.dev/kept-controllers: "*"`))
	text += play([]string{"adopt openyurt --back"}, role, yurt(t, `"--controllers=*"`, `everynode.dev/kept-controllers: "*"`)) // Helm was faster
	text += play([]string{"adopt openyurt x", "adopt openyurt --dry-run=maybe"}, role, yurt(t, chart, ""))
	fakecluster.Golden(t, *update, "openyurt-refused.txt", text)
}

// TestOpenYurtBackWhileWeAreAtWork: two that update the same DaemonSets would fight.
func TestOpenYurtBackWhileWeAreAtWork(t *testing.T) {
	for _, c := range []struct {
		args     string
		replicas int32
		old      int32  // pods with the flags from before
		says     string // nothing where it is put back without a word
		refused  bool
	}{
		{args: "--dialects=native,openyurt", replicas: 2, refused: true, says: "error: the Deployment everynode-system/everynode-manager serves openyurt, so both would be active: " +
			"take openyurt out of its --dialects (dialects in the values of the chart), wait until its pods are new, and run this command again (code 1)"},
		{args: "--dialects openyurt", replicas: 1, refused: true, says: "serves openyurt"},
		{args: "--dialects=native,openyurt"},
		{args: "--dialects=native", replicas: 2},
		{args: "--dialects=native", replicas: 2, old: 1, refused: true, says: "is being rolled out, so a pod that serves openyurt may still be active: " +
			"wait for `kubectl -n everynode-system rollout status deployment/everynode-manager`, and run this command again"},
		{args: "--v=2", replicas: 2},
		{args: "--dialects=native --config=/etc/manager.yaml", replicas: 2, says: "Note: dialects may also be set in the file /etc/manager.yaml of the Deployment everynode-system/everynode-manager: make sure that openyurt is not among them"},
	} {
		manager := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "everynode-system", Name: "everynode-manager"},
			Spec:       appsv1.DeploymentSpec{Replicas: &c.replicas},
			Status:     appsv1.DeploymentStatus{Replicas: c.replicas + c.old, UpdatedReplicas: c.replicas},
		}
		manager.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: strings.Fields(c.args)}}
		cluster := fakecluster.New(t, manager, yurt(t, `"--controllers=-daemonpodupdater,*"`, `everynode.dev/kept-controllers: "*"`))
		said := cluster.Session(t, command.Root, "adopt openyurt --back")
		if sent := strings.Contains(said, "-> patch"); sent == c.refused || !strings.Contains(said, c.says) || c.says == "" && strings.Contains(said, "Note:") {
			t.Errorf("%s on %d pods:\n%s", c.args, c.replicas, said)
		}
	}
}
