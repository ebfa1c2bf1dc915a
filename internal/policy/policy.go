// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Policy is a RolloutPolicy that has been read.
type Policy struct {
	Namespace, Name string
	UID             types.UID
	Generation      int64
	Suspend         bool
	// Latest reports whether nodes that join get the newest revision at once.
	Latest bool
	// MaxUpgrading and MinTimeBetween are the pace; nil and 0 mean no limit.
	MaxUpgrading   *rollout.Quantity
	MinTimeBetween time.Duration
	// MaxUnavailable is the budget of sets without one, and an additional limit for the budget of others.
	MaxUnavailable *rollout.Quantity
	// TopologyKey is the label of nodes by which groups of them are updated one after the other; empty for none.
	TopologyKey string
	// Group is the concurrency group; nil for none.
	Group *Group
	// Waves are the waves of the specification, and one for the remaining nodes.
	Waves   []Wave
	Windows []Window
	Freezes []Freeze
	// UnreachableAfter is nil for the rule of the dialect.
	UnreachableAfter *time.Duration
	// Failure is when a revision has failed; nil if revisions are not judged. Undo is how nodes return to the committed revision.
	Failure *Failure
	Undo    Undo
	// Analyses are the analyses of the specification, and Alerts are the alerts that hold updates; nil for none.
	Analyses []Analysis
	Alerts   *Alerts
	// WaveHealthy reports whether the policy is ready after each wave that is complete.
	WaveHealthy bool
	// Problems are the reasons why the policy cannot be followed.
	Problems []string
	targets  []target
}

// Wave is one wave.
type Wave struct {
	Name string
	// Selector selects the nodes; nil for all.
	Selector labels.Selector
	// Count and Percent limit their number; 0 for no limit.
	Count, Percent int
	SpreadBy       []string
	Soak           time.Duration
	Approval       bool
	RemindAfter    time.Duration
	// Analysis are the indexes of the analyses that must pass.
	Analysis []int
	// Start is the size of the first step; nil if the wave has only one step.
	Start  *rollout.Quantity
	Factor int
}

// Remaining is the name of the wave of nodes that no other wave matches.
const Remaining = "remaining"

// Freeze is a time when nothing starts.
type Freeze struct{ From, To rollout.Time }

// Set names a daemon set, as far as a policy selects it.
type Set struct {
	Advanced        bool
	Namespace, Name string
	Labels          map[string]string
}

type target struct {
	advanced bool
	name     string
	selector labels.Selector
}

// Selects reports whether the policy applies to a set.
func (p *Policy) Selects(s Set) bool {
	if p.Namespace != s.Namespace {
		return false
	}
	for i := range p.targets {
		t := &p.targets[i]
		if t.advanced == s.Advanced && (t.selector == nil && t.name == s.Name || t.selector != nil && t.selector.Matches(labels.Set(s.Labels))) {
			return true
		}
	}
	return false
}

// Advanced reports whether the policy may apply to an Advanced DaemonSet.
func (p *Policy) Advanced() bool {
	return slices.ContainsFunc(p.targets, func(t target) bool { return t.advanced })
}

// Read reads a RolloutPolicy.
func Read(from *v1alpha1.RolloutPolicy) *Policy {
	p := &Policy{
		Namespace: from.Namespace, Name: from.Name, UID: from.UID, Generation: from.Generation,
		Suspend: from.Spec.Suspend, Latest: from.Spec.JoiningNodes == v1alpha1.JoiningLatest,
		WaveHealthy: from.Spec.ReadyWhen == v1alpha1.ReadyWaveHealthy,
	}
	for i := range from.Spec.Targets {
		t := &from.Spec.Targets[i]
		p.targets = append(p.targets, target{
			advanced: strings.HasPrefix(t.APIVersion, "apps.kruise.io/"), name: t.Name,
			selector: p.selector(fmt.Sprintf("spec.targets[%d].selector", i), t.Selector),
		})
	}
	if pace := from.Spec.Pace; pace != nil {
		p.MaxUnavailable = p.quantity("spec.pace.maxUnavailable", pace.MaxUnavailable)
		p.MaxUpgrading, p.MinTimeBetween = p.quantity("spec.pace.maxUpgrading", pace.MaxUpgrading), length(pace.MinTimeBetween)
	}
	p.Group = group(from.Spec.ConcurrencyGroup)
	if from.Spec.Order != nil {
		p.TopologyKey = p.label("spec.order.topologyKey", from.Spec.Order.TopologyKey)
	}
	if after := from.Spec.UnreachableAfter; after != nil {
		p.UnreachableAfter = &after.Duration
	}
	p.Failure, p.Undo = p.failure(from.Spec.Failure), p.undo(from.Spec.Undo)
	p.analyses(from.Spec.Analyses)
	p.Alerts = p.alerts(from.Spec.BlockOnAlerts)
	for i := range from.Spec.Waves {
		p.Waves = append(p.Waves, p.wave(fmt.Sprintf("spec.waves[%d]", i), &from.Spec.Waves[i]))
	}
	p.checkPercents()
	p.Waves = append(p.Waves, Wave{Name: Remaining})
	for i, w := range from.Spec.Windows {
		window, err := ReadWindow(w.Schedule, w.Duration.Duration, w.TimeZone)
		if err != nil {
			p.problem(fmt.Sprintf("spec.windows[%d]", i), "%v", err)
		}
		p.Windows = append(p.Windows, window)
	}
	for _, f := range from.Spec.Freezes {
		p.Freezes = append(p.Freezes, Freeze{rollout.At(f.From.Time), rollout.At(f.To.Time)})
	}
	return p
}

func (p *Policy) problem(path, format string, args ...any) {
	p.Problems = append(p.Problems, path+": "+fmt.Sprintf(format, args...))
}

func (p *Policy) wave(path string, from *v1alpha1.Wave) Wave {
	w := Wave{
		Name: from.Name, Selector: p.selectorOfNodes(path+".nodes.selector", from.Nodes.Selector), SpreadBy: from.Nodes.SpreadBy,
		Soak: length(from.Soak), Factor: 2, Analysis: p.analysesOf(path, from.Analysis),
	}
	if from.Nodes.Count != nil {
		w.Count = int(*from.Nodes.Count)
	}
	if from.Nodes.Percent != nil {
		w.Percent = int(*from.Nodes.Percent)
	}
	for i, key := range w.SpreadBy {
		p.label(fmt.Sprintf("%s.nodes.spreadBy[%d]", path, i), key)
	}
	for _, gate := range from.After {
		w.Approval, w.RemindAfter = gate.Type == v1alpha1.GateApproval, length(gate.RemindAfter)
	}
	if from.Growth != nil {
		w.Start = p.quantity(path+".growth.start", &from.Growth.Start)
		if from.Growth.Factor != nil {
			w.Factor = int(*from.Growth.Factor)
		}
		if w.Factor < 1 { // a wave would never end
			p.problem(path+".growth.factor", "%d is less than 1", w.Factor)
		}
	}
	return w
}

// checkPercents rejects a wave that could never have a node: percentages are cumulative, and an earlier wave of the same nodes has as many.
func (p *Policy) checkPercents() {
	most := 0
	for k := range p.Waves {
		w := &p.Waves[k]
		if w.Percent == 0 || w.Selector != nil {
			continue
		}
		if w.Percent <= most {
			p.problem(fmt.Sprintf("spec.waves[%d].nodes.percent", k), "%d is not more than %d, the percentage of an earlier wave: percentages include earlier waves, so this wave would have no nodes", w.Percent, most)
		}
		most = max(most, w.Percent)
	}
}

// label reads the key of a label of nodes.
func (p *Policy) label(path, key string) string {
	if errs := validation.IsQualifiedName(key); len(errs) > 0 {
		p.problem(path, "%q is not the key of a label: %s", key, strings.Join(errs, "; "))
	}
	return key
}

// MostTerms and MostValues are how many terms the selector of a wave may have, and how many values these may have together. Each is compared for each node in each pass.
const (
	MostTerms  = 64
	MostValues = 1000
)

// selectorOfNodes is selector for the nodes of a wave.
func (p *Policy) selectorOfNodes(path string, from *metav1.LabelSelector) labels.Selector {
	if from == nil {
		return nil
	}
	if n := len(from.MatchLabels) + len(from.MatchExpressions); n > MostTerms {
		p.problem(path, "it has %d terms, and at most %d are allowed", n, MostTerms)
		return labels.Nothing()
	}
	values := 0
	for i := range from.MatchExpressions {
		values += len(from.MatchExpressions[i].Values)
	}
	if values > MostValues {
		p.problem(path, "its terms have %d values, and at most %d are allowed: label the nodes, and select them by that label", values, MostValues)
		return labels.Nothing()
	}
	return p.selector(path, from)
}

func (p *Policy) selector(path string, from *metav1.LabelSelector) labels.Selector {
	if from == nil {
		return nil
	}
	s, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		p.problem(path, "%v", err)
		return labels.Nothing()
	}
	return s
}

func (p *Policy) quantity(path string, from *intstr.IntOrString) *rollout.Quantity {
	if from == nil {
		return nil
	}
	if from.Type == intstr.Int {
		return &rollout.Quantity{Value: int(from.IntVal)}
	}
	digits, percent := strings.CutSuffix(from.StrVal, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || !percent || n < 1 {
		p.problem(path, "%q is neither a number nor a percentage", from.StrVal)
		n = 1
	}
	return &rollout.Quantity{Value: n, Percent: true}
}

func length(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return max(d.Duration, 0)
}
