// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/rollout"
)

// times are the durations given by flags. Others are measured or assumed.
type times struct {
	stop, start, change, hook, pull time.Duration
	// given are the names of the flags that were given.
	given map[string]bool
	// bold reports whether the user gave a start time; then obstacles are ignored.
	bold bool
}

// Assumption is a duration that the estimate is based on.
type Assumption struct {
	// Name is stop, start, change, hook or pull.
	Name string `json:"name"`
	// Value is a duration, or "never".
	Value string `json:"value"`
	// High is the duration that only the slowest tenth of the pods exceeds; it is omitted if the value was not measured in rollouts.
	High string `json:"high,omitempty"`
	// Source is where the value comes from, Pods the number of pods that it was measured with.
	Source string `json:"source"`
	Pods   int    `json:"pods,omitempty"`
	// value and high are the durations; high is 0 if there is only one.
	value, high time.Duration
	// assumed reports whether nothing is known.
	assumed bool
	// matters reports whether it can have an effect on this set.
	matters bool
}

type assumed []Assumption

// The defaults if nothing can be measured.
const (
	usualStop   = 5 * time.Second
	usualStart  = 10 * time.Second
	usualChange = 5 * time.Second
	usualPull   = 10 * time.Second // on nodes with an agent, while the old container runs
	never       = "never"
	given       = "given" // the source of a value given by a flag
	// most is the longest time between the creation and the readiness of a pod that is used: if it is longer, readiness
	// has changed for other reasons.
	most = 15 * time.Minute
)

func (t *times) addFlags(cmd *cobra.Command) {
	for _, f := range []struct {
		to          *time.Duration
		name, usage string
	}{
		{&t.stop, "assume-stop", "How long a pod takes to stop (default: as measured in the last rollouts of this set, or 5s, or its grace period if that is shorter)."},
		{&t.start, "assume-start", "How long a pod takes from its creation until it is ready (default: as measured in the last rollouts of this set, or the median of its pods, or 10s; or never, if none can start)."},
		{&t.change, "assume-change", "How long a node takes to run a change in place (default: as measured in the last rollouts of this set, or 5s)."},
		{&t.hook, "assume-hook", "How long a preDelete hook takes to release a pod (default: it never does)."},
		{&t.pull, "assume-pull", "How long nodes take to pull images, if an update waits for that (default: the time after which the update goes on, or 10s if only changes in place wait)."},
	} {
		cmd.Flags().DurationVar(f.to, f.name, 0, f.usage)
	}
}

// read stores the names of the flags that were given.
func (t *times) read(cmd *cobra.Command) {
	t.given = map[string]bool{}
	for _, name := range timeNames() {
		t.given[name] = cmd.Flags().Changed("assume-" + name)
	}
	t.bold = t.given["start"]
}

// check validates the flags.
func (t *times) check() error {
	all := t.all()
	for _, name := range timeNames() {
		if d := *all[name]; d < 0 {
			return options.Usagef("--assume-%s %s is negative: use a duration such as 10s", name, d)
		}
	}
	return nil
}

func timeNames() []string { return []string{"stop", "start", "change", "hook", "pull"} }

// all returns the times by their names.
func (t *times) all() map[string]*time.Duration {
	return map[string]*time.Duration{"stop": &t.stop, "start": &t.start, "change": &t.change, "hook": &t.hook, "pull": &t.pull}
}

// restore uses the assumptions of a document.
func (t *times) restore(all []Assumption) error {
	t.given = map[string]bool{}
	to := t.all()
	for _, a := range all {
		at := to[a.Name]
		if at == nil {
			return fmt.Errorf("assumptions: %q is not known: the file is not a plan, or comes from another version", a.Name)
		}
		t.given[a.Name] = true
		t.bold = t.bold || a.Name == "start" && a.Source == given
		if a.Value == never {
			*at = -1
			continue
		}
		d, err := time.ParseDuration(a.Value)
		if err != nil || d < 0 {
			return fmt.Errorf("assumptions: the time for %q is %q: write a duration such as 10s, or %s", a.Name, a.Value, never)
		}
		*at = d
	}
	return nil
}

// assume returns the durations: given, measured from the running pods, or assumed.
func assume(f *prediction) assumed {
	stop, stopSource := usualStop, "assumed"
	if seconds, ok := nested(f.is, "spec")["terminationGracePeriodSeconds"].(int64); ok && time.Duration(seconds)*time.Second < stop {
		stop, stopSource = time.Duration(seconds)*time.Second, "the grace period of the pods"
	}
	start, startSource := usualStart, "assumed"
	median, pods := startTime(&f.view.Snapshot)
	if pods > 0 {
		start, startSource = median, fmt.Sprintf("the median of %d pods of this set", pods)
	}
	pull, pullSource := -time.Nanosecond, "no update waits for images"
	asked, inPlace := f.view.Workload.PullAhead.Wait, f.view.Snapshot.Set.ImagesInPlace
	switch {
	case asked:
		pull, pullSource = f.view.Workload.PullAhead.Timeout, "the time after which the update continues without them"
	case inPlace:
		pull, pullSource = usualPull, "assumed"
	}
	all := assumed{
		{Name: "stop", value: stop, Source: stopSource, matters: true, assumed: true},
		{Name: "start", value: start, Source: startSource, matters: true, assumed: pods == 0},
		{Name: "change", value: usualChange, Source: "assumed", matters: f.view.Snapshot.Set.InPlace, assumed: true},
		{Name: "hook", value: -1, Source: "the pods must be released manually", matters: f.view.Workload.PreDelete != nil},
		{Name: "pull", value: pull, Source: pullSource, matters: asked || inPlace, assumed: inPlace},
	}
	times, durations := f.given.all(), f.learned()
	for i := range all {
		a := &all[i]
		if a.learn(durations); f.given.given[a.Name] {
			a.set(*times[a.Name], given)
		}
		if reason := f.obstacles.text(); a.Name == "start" && reason != "" && !f.given.bold {
			a.set(-1, reason)
		}
		a.Value = a.value.String()
		if a.value < 0 {
			a.Value = never
		}
		if a.Pods > 0 {
			a.High = a.high.String()
		}
	}
	return all
}

// set replaces an assumption by a value of that source.
func (a *Assumption) set(value time.Duration, source string) {
	a.value, a.high, a.Source, a.Pods, a.assumed = value, 0, source, 0, false
}

// play returns the assumptions and obstacles for a simulation.
func (f *prediction) play() plan.Assumptions {
	value := map[string]time.Duration{}
	for _, one := range f.assumed {
		value[one.Name] = one.value
	}
	return plan.Assumptions{
		Stop: value["stop"], Start: value["start"], Change: value["change"], Hook: value["hook"], Pull: value["pull"],
		Apart: len(f.obstacles.ports) > 0, Fails: f.fails,
	}
}

// startTime returns the median time from the creation of a pod of the set until it was ready, and the number of pods
// that it is computed from. A pod that has restarted a container, such as one that was changed in place, has become ready again since.
func startTime(s *rollout.Snapshot) (time.Duration, int) {
	var took []time.Duration
	for i := range s.Nodes {
		for k := range s.Nodes[i].Pods {
			p := &s.Nodes[i].Pods[k]
			if d := p.ReadySince.Sub(p.Created); p.Ready && p.Created != 0 && p.Restarts == 0 && d >= 0 && d <= most {
				took = append(took, d)
			}
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], len(took)
}
