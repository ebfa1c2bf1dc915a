// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// config is what a run begins with.
type config struct {
	dialect            string
	nodes              int
	unavailable, surge string
	minReady           int
	// faults are what may happen; see faultNames.
	faults []string
	// rollout is the rollout policy of the set, in words; see newPolicy.
	rollout string
}

// faultNames are the kinds of steps that a run may have, beside those of a world in which all goes well. With scratch it begins
// without a pod, and with hooks and inplace an Advanced DaemonSet has a preDelete hook and wants changes in place; users may change that. There is one more that
// no run has by chance, renamed: the names of nodes are in the reverse order of the nodes.
func faultNames() []string {
	return []string{"answers", "clocks", "crashes", "digests", "hooks", "inplace", "kubelets", "nodes", "refusals", "relists", "scratch", "storms", "users"}
}

func (c config) with(fault string) bool { return slices.Contains(c.faults, fault) }

// String is the configuration as the first line of a script.
func (c config) String() string {
	text := fmt.Sprintf("%s nodes=%d unavailable=%s surge=%s minready=%d with=%s", c.dialect, c.nodes, c.unavailable, c.surge, c.minReady, strings.Join(c.faults, ","))
	if c.rollout != "" {
		text += " rollout=" + c.rollout
	}
	return text
}

func parseConfig(text string) (config, error) {
	c := config{}
	for i, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		var err error
		switch {
		case i == 0:
			c.dialect = field
		case key == "nodes":
			c.nodes, err = strconv.Atoi(value)
		case key == "unavailable":
			c.unavailable = value
		case key == "surge":
			c.surge = value
		case key == "minready":
			c.minReady, err = strconv.Atoi(value)
		case key == "with":
			c.faults = strings.Split(value, ",")
		case key == "rollout":
			c.rollout = value
		default:
			err = errors.New("unknown setting")
		}
		if err != nil {
			return c, fmt.Errorf("reading %q: %w", field, err)
		}
	}
	return c, nil
}

// anyConfig is a configuration by chance.
func anyConfig(r *rand.Rand, dialects []string) config {
	c := config{
		dialect: dialects[r.IntN(len(dialects))], nodes: 1 + r.IntN(5), unavailable: oneOf(r, "1", "1", "2", "50%"), surge: "0",
		minReady: []int{0, 0, 5, 20}[r.IntN(4)],
	}
	if r.IntN(4) == 0 && c.dialect != edgeRun {
		c.unavailable, c.surge = "0", oneOf(r, "1", "2", "50%")
	}
	for _, name := range faultNames() {
		if name == "users" || r.IntN(2) == 0 {
			c.faults = append(c.faults, name)
		}
	}
	return c
}

// laterNames are further kinds of steps, of which a run has some by chance, apart from all else: a seed of a run that has none of them means what it
// meant before there were any, but for its end. New ones come last, for the same reason. With outages one node is healed later than all else. With busy
// other sets wait for their pass now and then, and with jumps a clock may be an hour wrong. With policies and all that follow others are at work in the cluster: see hostileOps. With rollouts
// the set has a rollout policy: see rolloutOps. With gates changes in place close the readiness gate, and users may change that. With groups, and rollouts, there is another set: see peerOps. With undos, and rollouts, a revision that fails is undone: see undoOf. With zones, and rollouts, waves are spread over zones, or nodes are updated one zone after the other: see anyZones. With reasons, and undos, a revision fails for what containers wait, or because a wave takes too long: see anyReasons.
// With images, and inplace, changes in place wait for images on nodes with an agent, and with readers, and inplace, an environment variable reads a label that changes; agents die in both.
// With restarts a change in place also restarts a container, which needs an agent on the node. With alongside, and rollouts, another controller keeps the pods of a set of apps/v1: see config.alongside.
func laterNames() []string {
	return []string{"endings", "freezes", "lags", "orphans", "others", "yurt", "outages", "templates", "deletions", "busy", "jumps", "policies", "revisions", "tenants", "mutations", "people", "limits", "definitions", "skews", "restores", "slowness", "strangers", "stripping", "guards", "codes", "forgeries", "rollouts", "gates", "groups", "undos", "restarts", "zones", alongsideRun, "reasons", "images", "readers"}
}

// andLater is a configuration with those of the later kinds that a seed gives it.
func (c config) andLater(seed uint64) config {
	r := rand.New(rand.NewPCG(seed, 5))
	for _, name := range laterNames() {
		if r.IntN(3) == 0 {
			c.faults = append(c.faults, name)
		}
	}
	return c
}

// storm is the weight of faults.
func (s *sim) storm() int {
	if s.cfg.with("storms") {
		return 4
	}
	return 1
}

func oneOf(r *rand.Rand, choices ...string) string { return choices[r.IntN(len(choices))] }

// amount is a number or a percentage as it stands in a specification.
func amount(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return text
}

func newNode(name string, now time.Time) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now), Labels: map[string]string{poolLabel: "a", zoneLabel: zoneOf(name), corev1.LabelTopologyZone: zoneOf(name)}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
		}},
	}
}

// zoneOf puts every other node into zone x.
func zoneOf(name string) string {
	if n, _ := strconv.Atoi(name[1:]); n%2 == 1 {
		return "x"
	}
	return "y"
}

func nodeReady(n *corev1.Node) bool { return n.Status.Conditions[0].Status == corev1.ConditionTrue }

// refusal is an error that a request can be answered with, and that means that it has not taken effect.
type refusal struct {
	what string
	err  error
}

// refusals are what the API server, and who stands before it, may say to a request.
func refusals(r *request) []refusal {
	if !r.write {
		return []refusal{{"no answer", errTimeout()}}
	}
	all := []refusal{
		{"too many requests", apierrors.NewTooManyRequests("too many requests", 1)},
		{"a webhook says too many requests", apierrors.NewTooManyRequests("too many requests", 0)},
		{"an internal error", apierrors.NewInternalError(errors.New("etcd is leaderless"))},
		{"forbidden", errQuota(r.action.pod)},
	}
	if r.action.verb == "delete" {
		all = append(all, refusal{"a webhook says conflict", apierrors.NewConflict(podResource("pods"), r.action.pod, errors.New("denied"))})
	}
	return all
}

// errQuota is the answer of a ResourceQuota of pods that others use up, as the API server words it.
func errQuota(pod string) error {
	return apierrors.NewForbidden(podResource("pods"), pod, errors.New("exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9"))
}

// errTimeout leaves open whether a request has taken effect.
func errTimeout() error { return apierrors.NewTimeoutError("time is up", 1) }

// TestDeadlinesOfPolicies: no run has a deadline that the API refuses for spec.failure. What a policy does with one of 0 is no defect.
func TestDeadlinesOfPolicies(t *testing.T) {
	for seed := range uint64(2000) {
		cfg, _ := configOf(seed)
		f := cfg.specOf().Failure
		if f == nil {
			continue
		}
		for _, d := range []*metav1.Duration{f.NodeDeadline, f.WaveDeadline} {
			if d != nil && d.Duration < time.Second {
				t.Fatalf("seed %d has the rollout %s: a deadline of %s, and the API accepts none below 1s", seed, cfg.rollout, d.Duration)
			}
		}
	}
}
