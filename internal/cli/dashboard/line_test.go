// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A line that a user copies into a shell is for the cluster of the dashboard, as the same user: another context may be the current one there. It has no credentials.
func TestTheLineIsForTheClusterOfTheDashboard(t *testing.T) {
	cluster := zoned(t, roll())
	cluster.HonourDryRun(t)
	config, err := filepath.Abs("it's.yaml")
	if err != nil {
		t.Fatal(err)
	}
	flags := cluster.Options.ConfigFlags
	*flags.Context, *flags.KubeConfig, *flags.Impersonate, *flags.ImpersonateGroup = "prod east", "it's.yaml", "amy", []string{"ops", "dev"}
	*flags.BearerToken, *flags.ClusterName, *flags.APIServer = "secret", "other", "https://192.0.2.1"
	w := open(t, cluster)
	connection := `'--context=prod east' ` + quote("--kubeconfig="+config) + ` --cluster=other --server=https://192.0.2.1 --as=amy --as-group=ops --as-group=dev`
	for body, want := range map[string]string{
		`{"verb": "pause", "dryRun": true`:                 "pause -n default @ --dry-run=server ads/agent",
		`{"verb": "undo", "dryRun": true`:                  "undo -n default @ --to-revision=1 --dry-run=server ads/agent",
		`{"verb": "plan", "flags": {"image": "agent=x:3"}`: "plan -n default @ --image=agent=x:3 ads/agent",
	} {
		var got outcome
		w.read(http.MethodPost, verbPath, body+`, "namespace": "default", "set": "ads/agent"}`, &got)
		if want = "kubectl everynode " + strings.Replace(want, "@", connection, 1); got.Line != want || got.Error != "" {
			t.Errorf("%s\nwant %s (%s)", got.Line, want, got.Error)
		}
	}
}

// The current context is named too: the user can make another one current while the dashboard runs.
func TestTheLineNamesTheCurrentContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\ncurrent-context: staging\ncontexts:\n- {name: staging, context: {cluster: c, user: u}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	o := zoned(t, roll()).Options
	o.Given = nil
	if got := strings.Join(connectionOf(o), " "); got != "--context=staging" {
		t.Errorf("the connection is %q", got)
	}
}
