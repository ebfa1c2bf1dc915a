// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestVersionsThatDiffer: a manager and agents of another version than this program are a warning each, and no failure, because they work together.
func TestVersionsThatDiffer(t *testing.T) {
	for tag, want := range map[string]string{
		"v0.0.0-test": "ok       versions     the WHAT and this program are v0.0.0-test\n",
		"0.0.0-test":  "ok       versions     the WHAT and this program are 0.0.0-test\n",
		"v0.1.0":      "warning  versions     the WHAT is v0.1.0, this program v0.0.0-test\n",
	} {
		i := healthy(t)
		i.image = "registry.example/everynode/manager:" + tag
		objects := i.objects()
		for _, object := range objects {
			if set, is := object.(*appsv1.DaemonSet); is && len(set.Spec.Template.Spec.Containers) > 0 {
				set.Spec.Template.Spec.Containers[0].Image = "registry.example/everynode/agent:" + tag
			}
		}
		cluster := fakecluster.New(t, objects...)
		allow(cluster, everything)
		if err := cluster.Run(t, doctor.New); err != nil {
			t.Errorf("version %s: %v", tag, err)
		}
		for _, what := range []string{"manager", "agent"} {
			if line := strings.ReplaceAll(want, "WHAT", what); !strings.Contains(cluster.Out.String(), line) {
				t.Errorf("version %s: the screen lacks %q:\n%s", tag, line, cluster.Out)
			}
		}
	}
}
