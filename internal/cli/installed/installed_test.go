// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// Where the manager is known to leave the annotations of OpenYurt alone, what is shown is not what happens.
func TestAnnotationsThatNobodyReads(t *testing.T) {
	for args, told := range map[string]bool{"--dialects=native,kruise": true, "--dialects=native,openyurt": false} {
		roll := fakecluster.Roll{
			Name: "agent", Letters: "uo", Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}},
			Annotations: map[string]string{"apps.openyurt.io/update-strategy": "AdvancedRollingUpdate"},
		}
		manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: everynode.Namespace, Name: installed.Manager}}
		manager.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: []string{args}}}
		text := fakecluster.New(t, append(roll.Objects(t), manager)...).Session(t, command.Root, "status agent", "explain-node node-2 agent")
		if got := strings.Count(text, "does not read the annotation"); got != 2 && told || got != 0 && !told {
			t.Errorf("a manager started with %q: it is told %d times\n%s", args, got, text)
		}
	}
}
