// SPDX-License-Identifier: Apache-2.0

package install

import (
	"log/slog"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/test/harness"
)

const (
	home = "everynode-system"
	// releaseName is that of the release.
	releaseName = "everynode"
)

// helm is Helm for the plane.
type helm struct {
	t     *testing.T
	with  *action.Configuration
	chart *chart.Chart
}

func newHelm(t *testing.T, c *harness.Cluster, of *chart.Chart) *helm {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	kubeconfig, namespace := c.Plane.Kubeconfig(), home
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	with := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := with.Init(flags, home, "secret"); err != nil {
		t.Fatal(err)
	}
	return &helm{t: t, with: with, chart: of}
}

// values are those of an installation with the images of that tag; without one, with those that the chart names.
func (h *helm) values(tag, more string) map[string]any {
	h.t.Helper()
	values := map[string]any{}
	text := more
	if tag != "" {
		text += "image: {tag: " + tag + "}\n"
	}
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		h.t.Fatal(err)
	}
	return values
}

// install installs the chart and waits until all of it is ready. What kubectl apply has installed before, it takes over.
func (h *helm) install(tag, more string) {
	h.t.Helper()
	i := action.NewInstall(h.with)
	i.ReleaseName, i.Namespace, i.CreateNamespace = releaseName, home, true
	i.WaitStrategy, i.Timeout = kube.StatusWatcherStrategy, patience
	i.TakeOwnership, i.ForceConflicts = true, true
	if _, err := i.RunWithContext(h.t.Context(), h.chart, h.values(tag, more)); err != nil {
		h.t.Fatalf("installing: %v", err)
	}
}

// test does what helm test --logs does, and returns the log of the check.
func (h *helm) test() string {
	h.t.Helper()
	a := action.NewReleaseTesting(h.with)
	a.Namespace, a.Timeout = home, patience
	result, cleanUp, err := a.Run(releaseName)
	if err != nil {
		h.t.Errorf("helm test: %v", err)
	}
	r, ok := result.(*release.Release)
	if !ok {
		h.t.Fatalf("Helm returns %T: %v", result, err)
	}
	log := &strings.Builder{}
	if err := a.GetPodLogs(log, r); err != nil {
		h.t.Errorf("the log of the check: %v", err)
	}
	if err := cleanUp(); err != nil {
		h.t.Errorf("removing the pod of the check: %v", err)
	}
	return log.String()
}

// upgrade changes the installation, and waits in the same way.
func (h *helm) upgrade(tag, more string) {
	h.t.Helper()
	u := action.NewUpgrade(h.with)
	u.Namespace, u.WaitStrategy, u.Timeout = home, kube.StatusWatcherStrategy, patience
	result, err := u.RunWithContext(h.t.Context(), releaseName, h.chart, h.values(tag, more))
	if err != nil {
		h.t.Fatalf("upgrading: %v", err)
	}
	if r, ok := result.(*release.Release); !ok || r.Version < 2 {
		h.t.Fatalf("the release after the upgrade is %+v", result)
	}
}

// uninstall takes away what was installed, and waits until it is gone.
func (h *helm) uninstall() error {
	u := action.NewUninstall(h.with)
	u.WaitStrategy, u.Timeout, u.DeletionPropagation = kube.StatusWatcherStrategy, patience, "foreground"
	_, err := u.Run(releaseName)
	return err
}

// rollback installs an earlier revision of the release again, and waits in the same way.
func (h *helm) rollback(revision int) {
	h.t.Helper()
	r := action.NewRollback(h.with)
	r.Version, r.WaitStrategy, r.Timeout = revision, kube.StatusWatcherStrategy, patience
	if err := r.Run(releaseName); err != nil {
		h.t.Fatalf("going back to revision %d: %v", revision, err)
	}
}
