// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestPlanOfAPolicyThatHoldsForever: the plan ends also where windows open and close, or approvals are requested again and again, and nothing can start.
func TestPlanOfAPolicyThatHoldsForever(t *testing.T) {
	const (
		windows   = "  windows: [{schedule: \"0 2 * * *\", duration: 1m}]\n"
		suspended = "  suspend: true\n"
		waves     = "  waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval, remindAfter: 1h}]}]\n"
		image     = " --image agent=registry.example/agent:3"
		isHeld    = "It holds the rollout: The policy is suspended: set spec.suspend to false to continue."
	)
	status := fmt.Sprintf("status:\n  sets: [{apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: Full, phase: Rolling, wave: canary, attempt: 1, targetRevision: agent-%s, "+
		"targetNumber: 2, committedRevision: agent-%s, waves: [{name: canary, nodes: 1, updated: 1, begun: [node-1], phase: Rolling}]}]\n", fakecluster.NewHash, fakecluster.OldHash)
	for name, c := range map[string]struct {
		letters, policy, args, shows string
		file                         bool
	}{
		"before a rollout":       {"oooooo", policyOf(suspended + windows + waves), image, isHeld, false},
		"in a rollout":           {"uooooo", policyOf(suspended+windows+waves) + status, "", isHeld, false},
		"before, in a file":      {"oooooo", policyOf(suspended + windows + waves), image, isHeld, true},
		"it waits for approval":  {"uooooo", policyOf(suspended+waves) + status, "", isHeld, false},
		"all nodes keep a pod":   {"oooooo", policyOf(windows), image + " --partition 100%", "The partition of the daemon set keeps nodes from the update", false},
		"a suspended file, roll": {"uooooo", policyOf(suspended + windows + waves), "", isHeld, true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: c.letters}.Objects(t)
			args := "agent --local" + c.args
			if c.file {
				file := filepath.Join(t.TempDir(), "policy.yaml")
				if err := os.WriteFile(file, []byte(c.policy), 0o600); err != nil {
					t.Fatal(err)
				}
				args += " --policy " + file
			} else {
				objects = append(objects, fakecluster.Object(t, c.policy))
			}
			cluster := fakecluster.New(t, objects...)
			if err := cluster.Run(t, New, strings.Fields(args)...); err != nil {
				t.Fatal(err)
			}
			if out := cluster.Out.String(); !strings.Contains(out, c.shows) || !strings.Contains(out, "Nothing starts.") {
				t.Errorf("it prints\n%s, want %s", out, c.shows)
			}
		})
	}
}

// TestPlanOfAFileNextToAnotherPolicy: a policy in a file does not replace one with another name, so that both would apply to the set.
func TestPlanOfAFileNextToAnotherPolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policyOf(threeWaves)), 0o600); err != nil {
		t.Fatal(err)
	}
	others := strings.NewReplacer("name: agents", "name: others", "uid-policy", "uid-others").Replace(policyOf(threeWaves))
	for name, c := range map[string]struct {
		cluster string
		warns   bool
	}{
		"the same name":   {policyOf(threeWaves), false},
		"another name":    {others, true},
		"for another set": {strings.Replace(others, "name: agent}", "name: x}", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := governedCluster(t, c.cluster)
			if err := cluster.Run(t, New, "agent", "--image", "agent=registry.example/agent:3", "--policy", file, "--local"); err != nil {
				t.Fatal(err)
			}
			const warning = "rolloutpolicy/others of the cluster applies to default/ads/agent too: with rolloutpolicy/agents the manager would follow no policy (Stalled), and start no update"
			if out := cluster.Out.String(); strings.Contains(out, warning) != c.warns {
				t.Errorf("it prints\n%s", out)
			}
		})
	}
}

// TestPlanOfAWaveThatHasBegun: a wave that had begun before the plan does not start later, although more of its nodes do.
func TestPlanOfAWaveThatHasBegun(t *testing.T) {
	policy := policyOf("  waves: [{name: canary, nodes: {count: 3}}]\n  pace: {minTimeBetween: 10m}\n") + fmt.Sprintf("status:\n  sets: [{apiVersion: apps.kruise.io/v1beta1, name: agent, "+
		"enforcement: Full, phase: Rolling, wave: canary, attempt: 1, targetRevision: agent-%s, targetNumber: 2, committedRevision: agent-%s, lastStart: \"2026-03-01T11:59:00.000000Z\", "+
		"waves: [{name: canary, nodes: 3, updated: 1, available: 1, begun: [node-1], phase: Rolling}]}]\n", fakecluster.NewHash, fakecluster.OldHash)
	for name, c := range map[string]struct{ image, want string }{
		"it goes on":      {"", "canary 3 begun 19m15s"},
		"another rollout": {" --image agent=registry.example/agent:3", "canary 3 9m0s (Sun 12:09 UTC) 29m15s"},
	} {
		objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uooooo"}.Objects(t)
		cluster := fakecluster.New(t, append(objects, fakecluster.Object(t, policy))...)
		if err := cluster.Run(t, New, strings.Fields("agent --local"+c.image)...); err != nil {
			t.Fatal(err)
		}
		if out := strings.Join(strings.Fields(cluster.Out.String()), " "); !strings.Contains(out, c.want) {
			t.Errorf("%s: it prints\n%s, want %s", name, cluster.Out, c.want)
		}
	}
}
