// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"

	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// beforeInstall runs the checks before an installation for a user who may do everything.
func beforeInstall(t *testing.T, cluster *fakecluster.Cluster) (string, error) {
	t.Helper()
	allow(cluster, everything)
	err := cluster.Run(t, doctor.New, "--before-install")
	return cluster.Out.String(), err
}

// TestBeforeInstallOnAnyKubernetes: a version that the chart refuses fails the check, and a newer one than those of the tests is a warning. What a cloud provider adds to its minor does not matter.
func TestBeforeInstallOnAnyKubernetes(t *testing.T) {
	for minor, c := range map[string]struct {
		fails bool
		want  string
	}{
		"33":  {true, "failed   kubernetes   Kubernetes v1.33.9 is older than 1.34, the oldest version that has been tested\n"},
		"33+": {true, "failed   kubernetes   Kubernetes v1.33+.9 is older than 1.34"},
		"34":  {false, "ok       kubernetes   Everynode has been tested with Kubernetes 1.34 to 1.37, and this is v1.34.9\n"},
		"37+": {false, "ok       kubernetes   Everynode has been tested with Kubernetes 1.34 to 1.37"},
		"38":  {false, "warning  kubernetes   Kubernetes v1.38.9 is newer than 1.37, the newest version that has been tested\n"},
		"x":   {false, "skipped  kubernetes   the version \"v1.x.9\" cannot be read\n"},
	} {
		cluster := fakecluster.New(t)
		cluster.Discovery.FakedServerVersion = &version.Info{Major: "1", Minor: minor, GitVersion: "v1." + minor + ".9"}
		out, err := beforeInstall(t, cluster)
		if (err != nil) != c.fails || !strings.Contains(out, c.want) {
			t.Errorf("minor %s: %v, and\n%s\nwant an error: %v, and %s", minor, err, out, c.fails, c.want)
		}
	}
}

// TestBeforeInstallNextToManagers: an active manager of another project is a warning, because it clashes with its own dialect only, and the advice leaves out a dialect whose work it does.
func TestBeforeInstallNextToManagers(t *testing.T) {
	const (
		kruise, yurt = "warning  rivals       OpenKruise's own manager is active", "warning  rivals       OpenYurt's own yurt-manager is active"
		none         = "ok       rivals       no manager of another project is active\n"
		both, policy = "set dialects: [policy, kruise] in", "set dialects: [policy] in"
	)
	now, past := fakecluster.Now(), fakecluster.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"OpenKruise":          {[]runtime.Object{lease("kruise-system", "kruise-manager", "a_1f", now)}, []string{kruise, policy}},
		"OpenKruise, stopped": {[]runtime.Object{lease("kruise-system", "kruise-manager", "a_1f", past)}, []string{none, both}},
		"OpenYurt":            {[]runtime.Object{lease("kube-system", "cloud-yurt-manager", "yurt-manager-0_1f", now), yurtManager("--controllers=*")}, []string{yurt, both}},
		"OpenYurt, stopped":   {[]runtime.Object{lease("kube-system", "cloud-yurt-manager", "yurt-manager-0_1f", past), yurtManager("--controllers=*")}, []string{none, both}},
		"OpenYurt, its controller off": {
			[]runtime.Object{lease("kube-system", "cloud-yurt-manager", "yurt-manager-0_1f", now), yurtManager("--controllers=-daemonpodupdater,*")},
			[]string{"ok       rivals       OpenYurt's own yurt-manager does not do the work of the dialect openyurt: its controller daemonpodupdater is off\n", both},
		},
		"both": {
			[]runtime.Object{lease("kruise-system", "kruise-manager", "a_1f", now), lease("kube-system", "yurt-manager", "yurt-manager-0_1f", now), yurtManager("--controllers=*")},
			[]string{kruise, yurt, policy},
		},
	} {
		out, err := beforeInstall(t, fakecluster.New(t, c.objects...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: the screen lacks %q:\n%s", name, want, out)
			}
		}
	}
}
