// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/controller/analyses"
	"everynode.dev/everynode/internal/controller/metrics"
	"everynode.dev/everynode/internal/controller/notifications"
	"everynode.dev/everynode/internal/controller/policies"
)

// TestFilesAreReadAgain: providers and targets count as soon as their file has them, and stay while it has a mistake, which a metric reports.
func TestFilesAreReadAgain(t *testing.T) {
	const head = "apiVersion: config.everynode.dev/v1alpha1\nkind: "
	fake, dir := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), t.TempDir()
	o := &options{analysisProviders: filepath.Join(dir, "providers.yaml"), notificationTargets: filepath.Join(dir, "targets.yaml")}
	put := func(providers, targets string) {
		t.Helper()
		for file, text := range map[string]string{
			o.analysisProviders: head + "AnalysisProviders\nproviders: " + providers, o.notificationTargets: head + "NotificationTargets\ntargets: " + targets,
			filepath.Join(dir, "key"): "whsec_" + strings.Repeat("AAAA", 8),
		} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	target := func(name string) string {
		return "[{name: " + name + ", webhook: {url: 'http://localhost'}, signingKeyFiles: [" + filepath.Join(dir, "key") + "]}]"
	}
	l := &leader{metrics: metrics.New(false), analyses: analyses.New(nil, fake)}
	l.notices = notifications.New(nil, fake, l.metrics.Notified)
	changed := func(string) {}
	l.policies = policies.New(policies.Options{Clock: fake, Changed: changed, Check: l.analyses.Check})
	put("[{name: main, webhook: {url: 'http://localhost'}}]", target("chat"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := l.followers(o, fake)
	for _, f := range all {
		go f.Run(ctx)
	}
	policy := &v1alpha1.RolloutPolicy{Spec: v1alpha1.RolloutPolicySpec{Analyses: []v1alpha1.Analysis{{Name: "a", Provider: "main", Success: "result == 1"}}}}
	want := func(problems int, samples string) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			if fake.HasWaiters() {
				fake.Step(10 * time.Second)
			}
			text := "# HELP everynode_file_current " + help("everynode_file_current") + "\n# TYPE everynode_file_current gauge\n" + samples
			return len(l.analyses.Check(policy)) == problems && testutil.CollectAndCompare(l.metrics, strings.NewReader(text), "everynode_file_current") == nil, nil
		})
		if err != nil {
			t.Fatalf("the problems are %q, want %d, and %s", l.analyses.Check(policy), problems, samples)
		}
	}
	sample := func(providers, targets string) string {
		return "everynode_file_current{flag=\"analysis-providers\"} " + providers + "\neverynode_file_current{flag=\"notification-targets\"} " + targets + "\n"
	}
	want(0, sample("1", "1"))
	put("[{name: main}]", "nonsense")
	want(0, sample("0", "0"))
	put("[{name: other, webhook: {url: 'http://localhost'}}]", target("pager"))
	want(1, sample("1", "1"))
	put("[{name: main, webhook: {url: 'http://localhost'}}]", target("pager"))
	want(0, sample("1", "1"))
	if len(all) != 2 || len(l.followers(&options{}, fake)) != 0 {
		t.Errorf("%d files are followed", len(all))
	}
}

// help is that of a metric.
func help(name string) string {
	for _, d := range metrics.Declared() {
		if d.Name == name {
			return d.Help
		}
	}
	return ""
}
