// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/status"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// mid is a roll with something of everything.
func mid(advanced bool) fakecluster.Roll {
	return fakecluster.Roll{Name: "agent", Advanced: advanced, Letters: "uuatO-oooon"}
}

func TestScreens(t *testing.T) {
	half := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuoooo", Spec: map[string]any{
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(4)}},
	}}
	refused := fakecluster.Roll{Name: "agent", Letters: "oo", Spec: map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "other"}}}}
	for name, c := range map[string]struct {
		roll    fakecluster.Roll
		args    string
		without bool
	}{
		"native":      {roll: mid(false), args: "agent"},
		"advanced":    {roll: mid(true), args: "ads/agent"},
		"wide":        {roll: mid(false), args: "agent -o wide"},
		"json":        {roll: mid(true), args: "agent -o json"},
		"yaml":        {roll: half, args: "agent -o yaml"},
		"partition":   {roll: half, args: "agent"},
		"refused":     {roll: refused, args: "agent"},
		"without-crd": {roll: mid(false), args: "agent", without: true},
	} {
		t.Run(name, func(t *testing.T) {
			warning := &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"}, Type: corev1.EventTypeWarning, Reason: "FailedCreate",
				Message: "pods \"agent-x\" is forbidden: exceeded quota", LastTimestamp: metav1.NewTime(fakecluster.Now().Add(-90 * time.Second)),
				InvolvedObject: corev1.ObjectReference{UID: c.roll.UID()},
			}
			cluster := fakecluster.New(t, append(c.roll.Objects(t), warning)...)
			if c.without {
				cluster.WithoutKruise()
			}
			if err := cluster.Run(t, status.New, strings.Fields(c.args)...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String())
		})
	}
}

// governed is a roll that has passed its canary, with the policy that governs it; status is what the policy reports.
func governed(t *testing.T, policies ...string) []runtime.Object {
	t.Helper()
	objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuoooo"}.Objects(t)
	for _, object := range objects {
		if r, ok := object.(*appsv1.ControllerRevision); ok && r.Revision == 1 {
			r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(r.UID))}
		}
	}
	for _, manifest := range policies {
		objects = append(objects, fakecluster.Object(t, manifest))
	}
	return objects
}

const (
	policySpec = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: agents, namespace: default, uid: uid-policy}
spec:
  targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}]
  waves:
  - {name: canary, nodes: {count: 2}, soak: 30m, after: [{type: Approval}]}
  - {name: half, nodes: {percent: 50}, soak: 1h}
`
	policyStatus = `
status:
  sets:
  - apiVersion: apps.kruise.io/v1beta1
    name: agent
    enforcement: Full
    phase: Soaking
    wave: canary
    targetRevision: agent-7c9d5f6b8
    targetNumber: 2
    committedRevision: agent-6b8f7d4c9
    next: {action: EndSoak, at: "2026-03-01T12:12:00Z"}
    blocking: [{reason: Soaking, message: The wave canary is complete and is being observed for 30m0s.}]
    waves:
    - {name: canary, nodes: 2, updated: 2, available: 2, phase: Soaking, completedAt: "2026-03-01T11:42:00Z", approval: agent-canary-approve-x, approvedBy: jane}
    - {name: half, nodes: 1, updated: 0, available: 0, phase: Pending}
    - {name: remaining, nodes: 3, updated: 0, available: 0, phase: Pending}
`
)

// rejected is the status of a rollout whose revision was rejected while its canary soaked.
var rejected = strings.NewReplacer("    next: {action: EndSoak, at: \"2026-03-01T12:12:00Z\"}\n", "", "reason: Soaking, message: The wave canary is complete and is being observed for 30m0s.",
	"reason: Rejected, message: 'The revision was rejected: change the template, or delete the RolloutApproval with the rejection.'").Replace(policyStatus)

// missing are the conditions of a policy of which another target has been missing for less than ten minutes.
const missing = `
  conditions:
  - {type: Reconciling, status: "True", reason: TargetMissing, message: There is no DaemonSet gone., lastTransitionTime: "2026-03-01T11:00:00Z"}
  - {type: Stalled, status: Unknown, reason: TargetMissing, message: This often ends by itself., lastTransitionTime: "2026-03-01T11:59:00Z"}
`

// uncontrolled is the status of a policy whose set another controller updates: it holds no node back, also if it is suspended.
const uncontrolled = `
status:
  sets: [{apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: None, phase: Stalled, blocking: [{reason: NotServed, message: Everynode does not update this daemon set.}]}]
`

// failed is a status of a revision that has failed on a node.
func failed() string {
	text := strings.Replace(policyStatus, "phase: Soaking\n    wave", "phase: Undoing\n    failure: {wave: canary, action: Undo, message: Wave canary failed.}\n    wave", 1)
	return strings.Replace(text, "phase: Soaking, completedAt", "failed: 12, failedNodes: [{name: node-1, reason: CrashLoopBackOff, pod: agent-x, "+
		"message: The containers of pod agent-x were restarted 4 times}], phase: Rolling, completedAt", 1)
}

// overspent is a status of a wave that waits, because nodes of later waves use up the budget.
func overspent() string {
	return strings.NewReplacer(
		"phase: Soaking\n    wave", "phase: Rolling\n    wave",
		"    next: {action: EndSoak, at: \"2026-03-01T12:12:00Z\"}\n", "",
		"reason: Soaking, message: The wave canary is complete and is being observed for 30m0s.",
		"reason: Budget, message: 'No other update starts: 2 nodes have no available pod, get no other one now, and use up the budget, for maxUnavailable is 2. Make their pods available or delete them, or raise maxUnavailable.'",
		"updated: 2, available: 2, phase: Soaking, completedAt: \"2026-03-01T11:42:00Z\"", "updated: 1, available: 1, phase: Rolling",
	).Replace(policyStatus)
}

// rolling is a status of a rollout whose canary has passed, while nodes of the next wave are updated.
var rolling = strings.NewReplacer(
	"phase: Soaking\n    wave: canary", "phase: Rolling\n    wave: half",
	"    next: {action: EndSoak, at: \"2026-03-01T12:12:00Z\"}\n", "",
	"blocking: [{reason: Soaking, message: The wave canary is complete and is being observed for 30m0s.}]", "",
	"phase: Soaking, completedAt", "phase: Passed, completedAt",
	"updated: 0, available: 0, phase: Pending}\n    - {name: remaining", "updated: 0, available: 0, phase: Rolling, rollingSince: \"2026-03-01T11:59:00Z\"}\n    - {name: remaining",
).Replace(policyStatus)

// completed is a status of a rollout that has ended without a node on which the revision failed.
const completed = `
status:
  sets:
  - {apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: Full, phase: Complete, targetRevision: agent-7c9d5f6b8, targetNumber: 2, committedRevision: agent-7c9d5f6b8}
`

// stalled is a status of a policy that has another target, which is missing; a node of a wave is gone.
func stalled() string {
	text := strings.Replace(policyStatus, "available: 2, phase", "available: 2, gone: 1, phase", 1)
	return text + "  conditions: [{type: Stalled, status: 'True', reason: TargetMissing, lastTransitionTime: '2026-03-01T11:00:00Z', " +
		"message: 'There is no DaemonSet log: create it, or change spec.targets.'}]\n"
}

// analysed is a status of a wave with an analysis that fails.
func analysed() (spec, status string) {
	spec = strings.Replace(policySpec, "spec:", "spec:\n  analyses: [{name: errors, provider: main, query: x, success: result < 0.01, failureLimit: 2}]", 1)
	status = strings.Replace(policyStatus, "    blocking:", `    analyses:
    - name: errors
      wave: canary
      answer: Fail
      failures: 2
      measurements:
      - {at: "2026-03-01T11:58:00Z", answer: Pass, value: "0.001", message: result < 0.01 is true.}
      - {at: "2026-03-01T11:59:00Z", answer: Fail, value: "0.3", message: result < 0.01 is false.}
    blocking:`, 1)
	return spec, status
}

// decided is a decision that counts.
func decided(name, decision, by, reason string) string {
	return strings.NewReplacer("name: rejection", "name: "+name, "uid-no", "uid-"+name, "decision: Reject", "decision: "+decision, "by: jane, reason: It loses packets.", "by: "+by+", reason: '"+reason+"'").Replace(rejection)
}

func TestPolicies(t *testing.T) {
	spec, measured := analysed()
	for name, c := range map[string]struct {
		args     string
		policies []string
	}{
		"policy":            {"agent", []string{policySpec + policyStatus}},
		"policy-by-name":    {"rolloutpolicy/agents", []string{policySpec + policyStatus}},
		"policy-bare":       {"agents", []string{policySpec + policyStatus}},
		"policy-json":       {"agent -o json", []string{policySpec + policyStatus}},
		"policy-unreported": {"agent", []string{policySpec}},
		"policy-suspended":  {"agent", []string{strings.Replace(policySpec, "spec:", "spec:\n  suspend: true", 1)}},
		"policy-conflict":   {"agent", []string{policySpec, strings.Replace(policySpec, "name: agents", "name: others", 1)}},
		"policy-failed":     {"agent", []string{policySpec + failed()}},
		"policy-budget":     {"agent", []string{policySpec + overspent()}},
		"policy-analysis":   {"agent", []string{spec + measured}},
		"policy-stalled":    {"agent", []string{policySpec + stalled()}},
		"policy-none":       {"agent", []string{strings.Replace(policySpec, "spec:", "spec:\n  suspend: true", 1) + uncontrolled}},
		"policy-waits":      {"agent", []string{policySpec + policyStatus + missing}},
		"policy-unnamed":    {"agent", []string{policySpec + strings.Replace(policyStatus, ", approvedBy: jane", "", 1)}},
		"policy-rejected":   {"agent", []string{policySpec + strings.Replace(rejected, "phase: Soaking\n    wave", "phase: Rejected\n    rejectedRevision: agent-7c9d5f6b8\n    wave", 1), rejection}},
		"policy-promoted":   {"agent", []string{policySpec + strings.ReplaceAll(policyStatus, "agent-canary-approve-x", "now"), strings.NewReplacer("name: rejection", "name: now, creationTimestamp: \"2026-03-01T12:00:00Z\"", "decision: Reject", "decision: Promote, wave: canary", "It loses packets", "Its metrics are good").Replace(rejection)}},
		"policy-window": {"agent", []string{policySpec + strings.NewReplacer("phase: Soaking\n    wave", "phase: WaitingForWindow\n    wave", "EndSoak", "OpenWindow",
			"reason: Soaking, message: The wave canary is complete and is being observed for 30m0s.", "reason: Window, message: 'No window is open, so no update starts.'").Replace(policyStatus)}},
		"policy-rolling":           {"agent", []string{policySpec + rolling}},
		"policy-undoing":           {"agent", []string{policySpec + strings.NewReplacer("phase: Rolling\n    wave", "phase: Undoing\n    failure: {wave: canary, action: Undo, message: Wave canary failed.}\n    wave").Replace(rolling)}},
		"policy-promoted-approved": {"agent", []string{policySpec + rolling, decided("now", "Promote, wave: canary", "alice", ""), decided("agent-canary-approve-x", "Approve, wave: canary", "jane", "")}},
		"policy-undone-by": {"agent", []string{policySpec + strings.NewReplacer("phase: Rolling\n    wave", "phase: Undoing\n    failure: {action: Undo, message: The undo was requested by eve. No such image.}\n    wave").Replace(rolling),
			decided("bad", "Undo", "eve", "No such image.")}},
		"policy-failed-rejected": {"agent", []string{policySpec + strings.NewReplacer("phase: Rolling\n    wave", "phase: Failed\n    failure: {wave: half, action: Pause, message: Wave half failed.}\n    wave").Replace(rolling), rejection}},
		"policy-invalid":         {"agent", []string{strings.Replace(policySpec, "spec:", "spec:\n  windows: [{schedule: 0 22 * *, duration: 1h}]", 1)}},
		"policy-gone":            {"agent", nil},
		"policy-order": {"agent", []string{strings.Replace(policySpec, "spec:", "spec:\n  order: {topologyKey: kubernetes.io/hostname}", 1) +
			strings.Replace(rolling, "phase: Rolling, rollingSince", "domain: kubernetes.io/hostname=node-3, phase: Rolling, rollingSince", 1)}},
		"policy-mayfail": {"agent", []string{strings.Replace(policySpec, "spec:", "spec:\n  failure: {maxFailedNodes: 1}", 1) +
			strings.Replace(policyStatus, "phase: Soaking, completedAt", "failed: 1, failedNodes: [{name: node-3, reason: CrashLoopBackOff, message: It crashes., pod: agent-x}], phase: Soaking, completedAt", 1)}},
		"policy-completed-without": {"agent", []string{strings.Replace(policySpec, "spec:", "spec:\n  failure: {maxFailedNodes: 1}", 1) + completed}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fakecluster.New(t, governed(t, c.policies...)...)
			if err := cluster.Run(t, status.New, strings.Fields(c.args)...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String()+cluster.Err.String())
		})
	}
}

// TestWarningsThatThePolicyHas: an event whose message the lines about the policy have is not printed again; others are.
func TestWarningsThatThePolicyHas(t *testing.T) {
	const has, other = "The wave canary is complete and is being observed for 30m0s.", "Another warning."
	objects := governed(t, policySpec+policyStatus)
	for name, message := range map[string]string{"has": has, "other": other} {
		objects = append(objects, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: corev1.EventTypeWarning, Reason: "Warned", Message: message,
			LastTimestamp: metav1.NewTime(fakecluster.Now()), InvolvedObject: corev1.ObjectReference{UID: fakecluster.Roll{Name: "agent", Advanced: true}.UID()},
		})
	}
	cluster := fakecluster.New(t, objects...)
	if err := cluster.Run(t, status.New, "agent"); err != nil {
		t.Fatal(err)
	}
	out := cluster.Out.String()
	if strings.Count(out, has) != 1 || strings.Count(out, other) != 1 {
		t.Errorf("the screen repeats what the policy says, or leaves another warning out:\n%s", out)
	}
}

func TestWrongFlags(t *testing.T) {
	for line, want := range map[string]string{
		"agent --timeout 5m":                "--timeout limits how long --exit-status waits: use both",
		"agent --exit-status --timeout -5m": "--timeout -5m0s is negative: use a duration such as 10m",
		"agent -w -o json":                  "--watch draws on a terminal: leave --output json out, or add --exit-status to print it at the end",
	} {
		err := fakecluster.New(t).Run(t, status.New, strings.Fields(line)...)
		if options.Code(err) != options.ExitUsage || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// A policy that applies to no set, or to several, is refused with the remedy.
func TestOfAPolicy(t *testing.T) {
	several := strings.Replace(policySpec+policyStatus, "status:\n  sets:", "status:\n  sets:\n  - {apiVersion: apps/v1, name: log, enforcement: Full, phase: Complete}", 1)
	for name, c := range map[string]struct{ line, policy, want string }{
		"no set":       {"rop/agents", policySpec, "rolloutpolicy/agents reports no daemon set that it applies to: name the daemon set"},
		"no such set":  {"rop/agents", policySpec + "status: {conditions: [{type: Stalled, status: \"True\", reason: TargetMissing, message: There is no ads/agent., lastTransitionTime: \"2026-03-01T11:00:00Z\"}]}\n", "rolloutpolicy/agents applies to no daemon set: There is no ads/agent."},
		"no set yet":   {"rop/agents", policySpec + "status: {conditions: [{type: Reconciling, status: \"True\", reason: TargetMissing, message: There is no ads/agent., lastTransitionTime: \"2026-03-01T11:00:00Z\"}, {type: Stalled, status: Unknown, reason: TargetMissing, message: This often ends by itself., lastTransitionTime: \"2026-03-01T11:00:00Z\"}]}\n", "rolloutpolicy/agents applies to no daemon set: There is no ads/agent."},
		"several sets": {"agents --exit-status", several, "rolloutpolicy/agents applies to daemonset/log, ads/agent: name one of them"},
		"no policy":    {"rolloutpolicy/what", policySpec, "there is no rolloutpolicy/what in namespace default: see kubectl get rolloutpolicies, or name another namespace with -n"},
	} {
		if err := fakecluster.New(t, governed(t, c.policy)...).Run(t, status.New, strings.Fields(c.line)...); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// Who may not list or watch is told which right is missing.
func TestMissingRights(t *testing.T) {
	cluster := fakecluster.New(t, mid(false).Objects(t)...)
	cluster.Kubernetes.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	})
	cluster.Denied = true
	for line, want := range map[string]string{
		"agent":    `you are not allowed to list nodes: ask for the verb "list" on "nodes" (view, edit and admin have no right to nodes: ask for a ClusterRoleBinding to everynode-viewer), and see whether you have it with: kubectl auth can-i list nodes --all-namespaces`,
		"agent -w": `you are not allowed to watch nodes: ask for the verb "watch" on "nodes" (view, edit and admin have no right to nodes: ask for a ClusterRoleBinding to everynode-viewer), and see whether you have it with: kubectl auth can-i watch nodes --all-namespaces`,
	} {
		err := cluster.Run(t, status.New, strings.Fields(line)...)
		if options.Code(err) != options.ExitError || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func TestExitStatus(t *testing.T) {
	for name, c := range map[string]struct {
		letters, args string
		code          int
		says          string
	}{
		"finished":                       {"uuuu", "", options.ExitOK, "finished: default/daemonset/agent: 4 of 4 nodes are updated and available\n"},
		"not in time":                    {"uuoo", "--timeout 300ms", options.ExitUnfinished, "rolling: default/daemonset/agent: 2 of 4 nodes are updated and available, 2 left (node-3, node-4)\n"},
		"unreachable nodes count":        {"uuuO", "--timeout 300ms", options.ExitUnfinished, "3 of 4 nodes are updated and available, 1 left and not ready (node-4)\n"},
		"what is in the way":             {"Auo", "--timeout 300ms", options.ExitUnfinished, "\n  node-1: the new pod is not available yet (not ready for "},
		"unreachable nodes do not count": {"uuuO", "--timeout 10s --ignore-unreachable", options.ExitOK, "finished: "},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fakecluster.New(t, fakecluster.Roll{Name: "agent", Letters: c.letters}.Objects(t)...)
			err := cluster.Run(t, status.New, strings.Fields("agent --exit-status "+c.args)...)
			if options.Code(err) != c.code || !strings.Contains(cluster.Out.String(), c.says) {
				t.Errorf("code %d (%v), want %d; printed %q, want %q", options.Code(err), err, c.code, cluster.Out.String(), c.says)
			}
		})
	}
}

// What holds a node is told at the end as well: there was no picture of it.
func TestExitStatusNamesWhatHolds(t *testing.T) {
	roll := mid(true)
	roll.Letters = "uot"
	roll.Spec = map[string]any{"lifecycle": map[string]any{"preDelete": map[string]any{"labelsHandler": map[string]any{"example.com/in-use": "yes"}}}}
	objects := roll.Objects(t)
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == "node-2" {
			pod.Labels["lifecycle.apps.kruise.io/state"], pod.Labels["example.com/in-use"] = "PreparingDelete", "yes"
		}
	}
	cluster := fakecluster.New(t, objects...)
	err := cluster.Run(t, status.New, "agent", "--exit-status", "--timeout", "300ms")
	want := "  node-2: a pod is to be deleted; its preDelete hook has not released it yet\n"
	if got := cluster.Out.String(); options.Code(err) != options.ExitUnfinished || !strings.Contains(got, want) || strings.Contains(got, "  node-3: ") {
		t.Errorf("%v:\n%s", err, got)
	}
}

// A new pod that does not start says why, of whatever kind its set is, wherever the state of the set is told.
func TestAPodThatDoesNotStart(t *testing.T) {
	const why = "the new pod is not available yet: container agent: ErrImagePull: not found"
	for _, advanced := range []bool{false, true} {
		for line, want := range map[string]string{
			"agent":                               "◐ node-1: " + why + "\n",
			"agent -o wide":                       "   " + why + "\n",
			"agent -o json":                       `"reason": "` + why + `"`,
			"agent --exit-status --timeout 300ms": "  node-1: " + why + "\n",
		} {
			var objects []runtime.Object
			for _, object := range (fakecluster.Roll{Name: "agent", Advanced: advanced, Letters: "aoo"}).Objects(t) {
				if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == "node-1" {
					pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
						Reason: "ImagePullBackOff", Message: `Back-off pulling image "registry.example/agent:2": ErrImagePull: not found`,
					}}}}
				}
				objects = append(objects, object)
			}
			cluster := fakecluster.New(t, objects...)
			if err := cluster.Run(t, status.New, strings.Fields(line)...); options.Code(err) == options.ExitError {
				t.Fatal(err)
			}
			if got := cluster.Out.String(); !strings.Contains(got, want) {
				t.Errorf("%s, advanced %v, has no %q:\n%s", line, advanced, want, got)
			}
		}
	}
}

// Who gives a time limit gets an answer within it, also where the cluster gives none.
func TestExitStatusOfAClusterThatIsSilent(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	cluster := fakecluster.New(t)
	cluster.Options.Given = nil
	err := cluster.Run(t, status.New, "agent", "--exit-status", "--timeout", "200ms", "--server", silent.URL)
	if options.Code(err) != options.ExitUnfinished || err.Error() != "the cluster could not be read within 200ms" {
		t.Errorf("got %v with code %d", err, options.Code(err))
	}
}

// A set that goes while it is waited for is no success.
func TestExitStatusOfASetThatGoes(t *testing.T) {
	roll := fakecluster.Roll{Name: "agent", Letters: "uo"}
	cluster := fakecluster.New(t, roll.Objects(t)...)
	daemons := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	// It goes when the first line is printed, so after it has been read.
	cluster.Options.Out = onWrite(func() {
		if err := cluster.Dynamic.Resource(daemons).Namespace("default").Delete(t.Context(), "agent", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	err := cluster.Run(t, status.New, "agent", "--exit-status", "--timeout", "20s")
	if options.Code(err) != options.ExitUnfinished || !strings.Contains(err.Error(), "default/daemonset/agent is gone") {
		t.Errorf("got %v", err)
	}
}

// onWrite calls a function at the first write.
func onWrite(do func()) io.Writer {
	once := sync.OnceFunc(do)
	return writerFunc(func(p []byte) (int, error) { once(); return len(p), nil })
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
