// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apijson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/fleet/feed"
)

// config is what a run begins with.
type config struct {
	dialect            string
	nodes              int
	unavailable, surge string
	minReady           int
	// faults are what may happen; see faultNames.
	faults []string
}

// faultNames are the kinds of steps that a run may have, beside those of a world in which all goes well. With scratch it begins
// without a pod.
func faultNames() []string {
	return []string{"answers", "crashes", "kubelets", "nodes", "refusals", "relists", "scratch", "storms", "users"}
}

func (c config) with(fault string) bool { return slices.Contains(c.faults, fault) }

// String is the configuration as the first line of a script.
func (c config) String() string {
	return fmt.Sprintf("%s nodes=%d unavailable=%s surge=%s minready=%d with=%s", c.dialect, c.nodes, c.unavailable, c.surge, c.minReady, strings.Join(c.faults, ","))
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
		minReady: []int{0, 0, 5}[r.IntN(3)],
	}
	if r.IntN(4) == 0 {
		c.unavailable, c.surge = "0", oneOf(r, "1", "2", "50%")
	}
	for _, name := range faultNames() {
		if name == "users" || r.IntN(2) == 0 {
			c.faults = append(c.faults, name)
		}
	}
	return c
}

func oneOf(r *rand.Rand, choices ...string) string { return choices[r.IntN(len(choices))] }

// amount is a number or a percentage as it stands in a specification.
func amount(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return text
}

// newSet is the set of a run.
func (c config) newSet(now time.Time) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet",
		"metadata": map[string]any{
			"namespace": namespace, "name": setName, "uid": "set-1", "generation": int64(1),
			"creationTimestamp": now.Format(time.RFC3339), "annotations": map[string]any{appsv1.DeprecatedTemplateGeneration: "1"},
		},
		"spec": map[string]any{
			"selector":             map[string]any{"matchLabels": map[string]any{"app": "x"}},
			"minReadySeconds":      int64(c.minReady),
			"revisionHistoryLimit": int64(2),
			"updateStrategy": map[string]any{
				"type":          "RollingUpdate",
				"rollingUpdate": map[string]any{"maxUnavailable": amount(c.unavailable), "maxSurge": amount(c.surge)},
			},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "x"}},
				"spec": map[string]any{
					"nodeSelector": map[string]any{poolLabel: "a"},
					"containers":   []any{map[string]any{"name": "c", "image": "v1"}},
				},
			},
		},
	}}
}

func newNode(name string, now time.Time) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now), Labels: map[string]string{poolLabel: "a"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
		}},
	}
}

func nodeReady(n *corev1.Node) bool { return n.Status.Conditions[0].Status == corev1.ConditionTrue }

// dialect is the dialect of a run, as the manager wires it.
func (s *sim) dialect() daemonset.Dialect {
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}
	return daemonset.Dialect{
		Source:      feed.Source{Dialect: "native", Resource: gvk.GroupVersion().WithResource("daemonsets"), Kind: gvk.Kind, Digest: native.Digest},
		GVK:         gvk,
		StatusPatch: native.StatusPatch,
		Texts: &executor.Texts{
			Created: native.ReasonSuccessfulCreate, CreatedText: native.MessageSuccessfulCreate,
			CreateFailed: native.ReasonFailedCreate, CreateFailedText: native.MessageFailedCreate,
			Deleted: native.ReasonSuccessfulDelete, DeletedText: native.MessageSuccessfulDelete,
			DeleteFailed: native.ReasonFailedDelete, DeleteFailedText: native.MessageFailedDelete, Note: native.Event,
		},
	}
}

func (c config) facts() dialect.FactsFunc { return nil }

// merge is how the API server patches the status of the set.
func (c config) merge() func(set *unstructured.Unstructured, patch []byte) (map[string]any, error) {
	return func(set *unstructured.Unstructured, patch []byte) (map[string]any, error) {
		before, err := apijson.Marshal(set.Object)
		if err != nil {
			return nil, err
		}
		after, err := strategicpatch.StrategicMergePatch(before, patch, &appsv1.DaemonSet{})
		if err != nil {
			return nil, err
		}
		var patched map[string]any
		return patched, apijson.Unmarshal(after, &patched)
	}
}

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

func errQuota(pod string) error {
	return apierrors.NewForbidden(podResource("pods"), pod, errors.New("exceeded quota"))
}

// errTimeout leaves open whether a request has taken effect.
func errTimeout() error { return apierrors.NewTimeoutError("time is up", 1) }

func (s *sim) start(p *corev1.Pod, n *corev1.Node) {
	p.Spec.NodeName, p.Status.Phase = n.Name, corev1.PodRunning
	s.setReady(p, false)
}

func (s *sim) setReady(p *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	now := metav1.NewTime(s.w.now)
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			if c.Status != status {
				c.Status, c.LastTransitionTime = status, now
			}
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: now})
}
