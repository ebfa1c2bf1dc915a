// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	helm3 "helm.sh/helm/v3/pkg/action"
	chart3 "helm.sh/helm/v3/pkg/chart"
	helm4 "helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart4 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// helm is a version of Helm. Its functions are helm install --wait and helm upgrade --wait of a chart with a manifest.
type helm struct {
	name             string
	install, upgrade func(manifest string, timeout time.Duration) error
}

// flags are those of kubectl and Helm for the namespace of the stage.
func (s *stage) flags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(false)
	kubeconfig := s.Cluster.Plane.Kubeconfig()
	flags.KubeConfig, flags.Namespace = &kubeconfig, &s.Name
	return flags
}

// helm4 is Helm 4, with its releases in memory.
func (s *stage) helm4() helm {
	s.t.Helper()
	with := helm4.NewConfiguration(helm4.ConfigurationSetLogger(slog.DiscardHandler))
	if err := with.Init(s.flags(), s.Name, "memory"); err != nil {
		s.t.Fatal(err)
	}
	chart := func(manifest string) *chart4.Chart {
		return &chart4.Chart{
			Metadata:  &chart4.Metadata{APIVersion: chart4.APIVersionV2, Name: set, Version: "1.0.0"},
			Templates: []*common.File{{Name: "templates/all.yaml", Data: []byte(manifest)}},
		}
	}
	return helm{"Helm 4", func(manifest string, timeout time.Duration) error {
		i := helm4.NewInstall(with)
		i.ReleaseName, i.Namespace, i.WaitStrategy, i.Timeout = set, s.Name, kube.StatusWatcherStrategy, timeout
		_, err := i.RunWithContext(s.Context(), chart(manifest), nil)
		return err
	}, func(manifest string, timeout time.Duration) error {
		u := helm4.NewUpgrade(with)
		u.Namespace, u.WaitStrategy, u.Timeout = s.Name, kube.StatusWatcherStrategy, timeout
		_, err := u.RunWithContext(s.Context(), set, chart(manifest), nil)
		return err
	}}
}

// helm3 is Helm 3, with its releases in memory.
func (s *stage) helm3() helm {
	s.t.Helper()
	with := &helm3.Configuration{}
	if err := with.Init(s.flags(), s.Name, "memory", func(string, ...any) {}); err != nil {
		s.t.Fatal(err)
	}
	chart := func(manifest string) *chart3.Chart {
		return &chart3.Chart{
			Metadata:  &chart3.Metadata{APIVersion: chart3.APIVersionV2, Name: set, Version: "1.0.0"},
			Templates: []*chart3.File{{Name: "templates/all.yaml", Data: []byte(manifest)}},
		}
	}
	return helm{"Helm 3", func(manifest string, timeout time.Duration) error {
		i := helm3.NewInstall(with)
		i.ReleaseName, i.Namespace, i.Wait, i.Timeout = set, s.Name, true, timeout
		_, err := i.RunWithContext(s.Context(), chart(manifest), nil)
		return err
	}, func(manifest string, timeout time.Duration) error {
		u := helm3.NewUpgrade(with)
		u.Namespace, u.Wait, u.Timeout = s.Name, true, timeout
		_, err := u.RunWithContext(s.Context(), set, chart(manifest), nil)
		return err
	}}
}

// released is a chart with the set of the stage and its policy: the first wave waits for an approval.
func (s *stage) released(image, more string) string {
	return s.manifest(image) + fmt.Sprintf(`---
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: %s}
spec:
  targets: [{apiVersion: %s, kind: DaemonSet, name: %s}]
  waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}, {name: rest, nodes: {percent: 100}}]
%s`, agents, s.dialect.version(), set, more)
}

// has fails unless that many nodes have a pod with the image, as the API server has it now.
func (s *stage) has(when, image string, want int) {
	s.t.Helper()
	pods, err := s.Cluster.Client.CoreV1().Pods(s.Name).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	found := 0
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && pod.Spec.Containers[0].Image == image {
			found++
		}
	}
	if found != want {
		s.t.Errorf("%s: %d nodes run %s, want %d", when, found, image, want)
	}
}

// TestHelm: what helm --wait and kubectl rollout status do while a wave waits for an approval. Helm 4 waits for the last wave, as kubectl does for a DaemonSet of apps/v1. Helm 3
// waits neither for an Advanced DaemonSet nor for OnDelete, which a policy needs next to kube-controller-manager.
func TestHelm(t *testing.T) {
	inPlace := dialects()[2]
	for _, c := range []struct {
		name    string
		dialect dialect
		cluster func(testing.TB) *harness.Cluster
		helm    func(*stage) helm
		waits   bool
	}{
		{"Helm4-native", native(), shared.Cluster, (*stage).helm4, true},
		{"Helm4-in-place", inPlace, shared.Cluster, (*stage).helm4, true},
		{"Helm4-alongside", alongside(), nextToNative, (*stage).helm4, true},
		{"Helm3-native", native(), shared.Cluster, (*stage).helm3, true},
		{"Helm3-in-place", inPlace, shared.Cluster, (*stage).helm3, false},
		{"Helm3-alongside", alongside(), nextToNative, (*stage).helm3, false},
	} {
		s := &stage{dialect: c.dialect}
		t.Run(c.name, func(t *testing.T) {
			s.t, s.Space = t, c.cluster(t).Space(t, 3)
			released(s, c.helm(s), c.waits)
		})
	}
}

// timedOut is what kubectl rollout status says at its --timeout.
const timedOut = "timed out waiting for the condition"

// rolloutStatus is what kubectl rollout status says of the set while a wave waits.
func (d *dialect) rolloutStatus() string {
	switch {
	case d.advanced:
		return `no kind "DaemonSet" is registered for version "apps.kruise.io/v1beta1"`
	case d.enforcement == v1alpha1.EnforcementOnDelete:
		return "rollout status is only available for RollingUpdate strategy type"
	default:
		return timedOut
	}
}

// waits fails unless Helm has waited until its --timeout, or has not.
func (s *stage) waits(when string, want bool, err error) {
	s.t.Helper()
	if (err != nil) != want || err != nil && !strings.Contains(err.Error(), "context deadline exceeded") {
		s.t.Errorf("%s: waits %v, want %v: %v", when, err != nil, want, err)
	}
}

// released installs the set with its policy, and upgrades it.
func released(s *stage, h helm, waits bool) {
	const short, long = 8 * time.Second, 2 * time.Minute
	if err := h.install(s.released(harness.Image, ""), long); err != nil {
		s.t.Fatalf("%s install --wait: %v", h.name, err)
	}
	s.Wait("the set runs on every node", harness.RolledOut(set, 1, 3)) // Helm 3 has not waited for an Advanced DaemonSet
	s.await(v1alpha1.PhaseComplete)

	s.waits(h.name+" upgrade --wait, and a wave waits for an approval", waits, h.upgrade(s.released(harness.Image2, ""), short))
	s.await(v1alpha1.PhaseWaitingForApproval)
	s.has("before the approval", harness.Image2, 1)
	if out, err := s.KubectlWith("", "rollout", "status", s.dialect.argument(), "--timeout=2s"); err == nil || !strings.Contains(out+err.Error(), s.dialect.rolloutStatus()) {
		s.t.Errorf("kubectl rollout status, and a wave waits for an approval: %v: %s", err, out)
	}
	if out, err := s.Plugin("approve", s.dialect.argument(), "--wave", "canary"); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	if err := h.upgrade(s.released(harness.Image2, ""), long); err != nil {
		s.t.Errorf("%s upgrade --wait after the approval: %v", h.name, err)
	}
	if waits {
		s.has("Helm has returned", harness.Image2, 3)
	}
	if s.dialect.rolloutStatus() == timedOut {
		s.Kubectl("rollout", "status", s.dialect.argument(), "--timeout=1m")
		s.has("kubectl rollout status has returned", harness.Image2, 3)
	}
	s.await(v1alpha1.PhaseComplete)

	// With readyWhen: WaveHealthy, an Advanced DaemonSet and its policy are ready at once. A DaemonSet of apps/v1 has only numbers.
	returns := s.dialect.advanced
	limit := short
	if returns {
		limit = long
	}
	s.waits(h.name+" upgrade --wait with readyWhen: WaveHealthy", waits && !returns, h.upgrade(s.released(harness.Image3, "  readyWhen: WaveHealthy\n"), limit))
	if waits {
		s.has("a healthy wave", harness.Image3, 1)
	}
}
