// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"io/fs"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// agentSet is the DaemonSet of the agents. A field that apps/v1 does not have is an error.
func agentSet(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	data, err := config.Agent.ReadFile("agent/30-daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set := &appsv1.DaemonSet{}
	if err := yaml.UnmarshalStrict(data, set); err != nil {
		t.Fatal(err)
	}
	return set
}

// TestAgentRunsOnEveryNode, and before what it pulls images for.
func TestAgentRunsOnEveryNode(t *testing.T) {
	set := agentSet(t)
	spec := set.Spec.Template.Spec
	if len(spec.Tolerations) != 1 || spec.Tolerations[0] != (corev1.Toleration{Operator: corev1.TolerationOpExists}) {
		t.Errorf("a taint keeps it off: %+v", spec.Tolerations)
	}
	if spec.PriorityClassName != "system-node-critical" || spec.Affinity != nil || len(spec.NodeSelector) != 1 || spec.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("it may not get a place: %q %+v %v", spec.PriorityClassName, spec.Affinity, spec.NodeSelector)
	}
	if u := set.Spec.UpdateStrategy.RollingUpdate; u == nil || u.MaxUnavailable == nil || u.MaxUnavailable.String() != "10%" {
		t.Errorf("it is updated with %+v", set.Spec.UpdateStrategy)
	}
}

// TestAgentAsksNothingOfEverynode: the set is one of apps/v1 like any other, so whoever runs those runs it, and no annotation makes
// its update wait for what agents do.
func TestAgentAsksNothingOfEverynode(t *testing.T) {
	set := agentSet(t)
	if set.APIVersion != "apps/v1" || set.Kind != "DaemonSet" {
		t.Errorf("it is a %s of %s", set.Kind, set.APIVersion)
	}
	if len(set.Annotations)+len(set.Spec.Template.Annotations) > 0 {
		t.Errorf("it has the annotations %v and %v", set.Annotations, set.Spec.Template.Annotations)
	}
}

// TestAgentHasNoMoreThanItNeeds of the node.
func TestAgentHasNoMoreThanItNeeds(t *testing.T) {
	spec := agentSet(t).Spec.Template.Spec
	c := spec.Containers[0]
	s := c.SecurityContext
	switch {
	case s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation, s.Privileged != nil && *s.Privileged,
		s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem,
		s.Capabilities == nil || len(s.Capabilities.Add) > 0 || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL",
		s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault,
		spec.HostPID, spec.HostIPC:
		t.Errorf("it may do too much: %+v", s)
	}
	for _, v := range spec.Volumes {
		kind := corev1.HostPathDirectory
		if v.Name == "state" {
			kind = corev1.HostPathDirectoryOrCreate // it belongs to the agent alone
		}
		if v.HostPath == nil || v.HostPath.Type == nil || *v.HostPath.Type != kind || v.HostPath.Path == "/" {
			t.Errorf("the volume %s is %+v", v.Name, v.VolumeSource)
		}
	}
	if c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("its resources are %+v", c.Resources)
	}
	if c.LivenessProbe == nil || c.ReadinessProbe == nil {
		t.Error("nobody sees when it hangs")
	}
}

// TestAgentRightsAreTheLeast: what an agent may do, in full. Whoever adds a line has to think of a node that was taken over.
func TestAgentRightsAreTheLeast(t *testing.T) {
	data, err := fs.ReadFile(config.Agent, "agent/10-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	may := []string{}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		role := rbacv1.Role{}
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			may = append(may, strings.Join([]string{role.Kind, role.Namespace, strings.Join(rule.APIGroups, ","),
				strings.Join(rule.Resources, ","), strings.Join(rule.Verbs, ",")}, " "))
		}
	}
	want := strings.Join([]string{
		"ClusterRole  apps.kruise.io nodeimages list,watch",
		"ClusterRole  apps.kruise.io nodeimages/status patch",
		"ClusterRole   events create,patch",
		// For the API of the node. Reads are of all pods, as they cannot be confined; the policy confines what is written.
		"ClusterRole   pods get,list,watch,delete",
		"ClusterRole   pods/status patch",
		"ClusterRole  apps controllerrevisions list",
		"ClusterRole  apps.kruise.io daemonsets get",
		"ClusterRole  authentication.k8s.io tokenreviews create",
		"ClusterRole  authorization.k8s.io subjectaccessreviews create",
		"Role kruise-daemon-config  secrets get",
	}, "\n")
	if got := strings.Join(may, "\n"); got != want {
		t.Errorf("agents may\n%s\nand not\n%s", got, want)
	}
}
