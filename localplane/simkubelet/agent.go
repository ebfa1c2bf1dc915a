// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"fmt"
	"strings"
	"time"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent"
	"everynode.dev/everynode/internal/agent/pull"
	"everynode.dev/everynode/internal/imageref"
)

// pullsAtOnce is the number of concurrent pulls of a simulated node, the default of a real one.
const pullsAtOnce = 5

// Agent is the agent of one simulated node: the queue of the real agent, with the image store of the node as its
// runtime. It is not safe for concurrent use.
type Agent struct {
	memory pull.Memory
	runs   []simRun
}

// simRun is a pull in progress.
type simRun struct {
	pull.Run
	ends time.Time
	ok   bool
}

// NewAgent returns an agent that continues with the status of an earlier one.
func NewAgent(status *v1beta1.NodeImageStatus) *Agent {
	return &Agent{memory: pull.Memory{States: agent.StatesOf(status)}}
}

// AgentInput is the input of an agent.
type AgentInput struct {
	Now     time.Time
	Image   *v1beta1.NodeImage
	Store   *ImageStore
	Profile Profile
}

// Step makes the agent decide and act. It returns the new status of the NodeImage, and when to step again if nothing
// happens; zero for never.
func (a *Agent) Step(in AgentInput) (*v1beta1.NodeImageStatus, time.Time) {
	states, wake := a.StepFor(in, agent.WantsOf(in.Image.Spec))
	return agent.StatusOf(states, &in.Image.Status), wake
}

// StepFor is Step for wants that are not in the NodeImage. It returns their states.
func (a *Agent) StepFor(in AgentInput, wants []pull.Want) ([]pull.State, time.Time) {
	facts := pull.Facts{Present: map[string]pull.Image{}, Runs: a.ended(in.Now)}
	for i := range wants {
		if ref := storeRef(wants[i].Key); in.Store.Has(ref, in.Now) {
			facts.Present[wants[i].Ref] = pull.Image{ID: digestOf(ref)}
		}
	}
	plan := pull.Decide(pull.Snapshot{Now: in.Now, Limits: pull.Limits{Pulls: pullsAtOnce}, Wants: wants, Facts: facts, Memory: a.memory})
	a.memory = plan.Memory
	wake := plan.Wake
	for _, action := range plan.Actions {
		a.act(in, action)
	}
	for i := range a.runs {
		if r := &a.runs[i]; wake.IsZero() || r.ends.Before(wake) {
			wake = r.ends
		}
	}
	return a.memory.States, wake
}

// ended returns all runs for a decision, and removes those that have ended.
func (a *Agent) ended(now time.Time) []pull.Run {
	runs := make([]pull.Run, 0, len(a.runs))
	left := a.runs[:0:0]
	for _, r := range a.runs {
		switch {
		case r.Cancelled != pull.NotCancelled:
			r.Result, r.Text = pull.Failed, "the pull was cancelled: "+r.Cancelled.String()
		case r.ends.After(now):
			left = append(left, r) // CRI does not report the progress of a pull
		case r.ok:
			r.Result, r.Text = pull.Done, digestOf(storeRef(r.Key))
		default:
			r.Result, r.Text = pull.Failed, fmt.Sprintf("failed to pull and unpack image %q: not found", r.Ref)
		}
		runs = append(runs, r.Run)
	}
	a.runs = left
	return runs
}

func (a *Agent) act(in AgentInput, action pull.Action) {
	if action.Kind == pull.Cancel {
		for i := range a.runs {
			if a.runs[i].Number == action.Run {
				a.runs[i].Cancelled, a.runs[i].ends = action.Cause, in.Now
			}
		}
		return
	}
	ref := storeRef(action.Key)
	took := in.Profile.spread(in.Profile.ImagePull, in.Image.Name+ref)
	r := simRun{Run: pull.Run{Number: action.Run, Key: action.Key, Ref: action.Ref, Began: in.Now, Until: action.Until}, ends: in.Now.Add(took)}
	if r.ok = Pullable(ref, in.Image.Name); r.ok {
		r.ends = in.Store.Pull(ref, in.Now, took)
	}
	a.runs = append(a.runs, r)
}

// storeRef returns the image reference as in pods.
func storeRef(key pull.Key) string { return imageref.Join(key.Image, key.Tag) }

// digestOf returns the simulated digest of an image.
func digestOf(ref string) string {
	_, digest, _ := strings.Cut(ImageID(ref), "@")
	return digest
}
