// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// player carries out the commands of a script on its world.
type player struct{ w world }

func (p *player) do(command string, input []string) (string, error) {
	fields := strings.Fields(command)
	switch fields[0] {
	case "world":
		p.w = world{World: World{State: Snapshot{
			Now:       testNow,
			Set:       Set{Strategy: RollingUpdate, MaxUnavailable: Quantity{Value: 1}, Update: 1},
			Revisions: []Revision{{Name: "v1", Number: 1}, {Name: "v2", Number: 2}},
		}}}
		return p.describe(input)
	case "change":
		return p.describe(input)
	case "decide":
		return printPlan(&p.w.State, Decide(p.w.State)), nil
	case "ending":
		return p.ending(), nil
	case "run":
		return p.run(fields[1:])
	}
	return "", fmt.Errorf("unknown command %q", fields[0])
}

// run prints one line of verdicts and actions for each step in which something happens.
func (p *player) run(args []string) (string, error) {
	steps, fixed := 200, true
	for _, a := range args {
		n, err := strconv.Atoi(strings.TrimPrefix(a, "steps="))
		if err != nil {
			return "", err
		}
		steps, fixed = n, false
	}
	var out strings.Builder
	for range steps {
		now, nodes := p.w.State.Now, slices.Clone(p.w.State.Nodes)
		before := podsOf(&p.w.State)
		plan, done, err := p.w.step()
		fmt.Fprintf(&out, "%s %s%s\n", since(now), before, actionsOf(nodes, plan))
		if err != nil || done {
			return out.String(), err
		}
	}
	if fixed {
		return out.String(), fmt.Errorf("no fixed point after %d steps", steps)
	}
	return out.String(), nil
}

// describe reads lines like
//
//	set rolling max-unavailable=1 max-surge=20% min-ready=5s burst=3 max-replacing=1 update=v2
//	set external announce|quiet skip|count-all blame=10m
//	set paused|resumed partition=1 selective|everywhere descending progressive in-place|standard close-gate grace=5s
//	revisions v1 v2 v3 or v1=-1h v2=-5s: when they were recorded
//	in-place v1, in-place v1=resizing or in-place v1=field-ref: which revisions can become the wanted one in place, or why not
//	broken v2 | crashing v2 | stuck a | hooked | clinging a
//	cut a, heal a: now; fatal v2, deadly v1: pods that take their node down when they start, or are deleted; skew -5s; silent 20s;
//	linger 4s: what pods need to go
//	gate joining=v1 in-flight=2 starts=1 a=wait-wave b=wait-soak: what a policy allows; no-gate
//	backoff a delay=4s last=-2s
//	pass 10s
//	node a must|stay|leave|unknown [gone] [not-ready] [blocked|unanswered] [refused|refused=5s|refused-patch=5s|refused-delete=5s|taken-back=5s] [selected] [last=v1] [down=-5s|up=-5s] [joined=-5s] [image-wait|image-wait=5s] v1:ready v2:pending,unscheduled,since=-3s,created=-5s,deleting,deleted=-3s,name=x
//	the pod's hook: armed|waiting|released; its change in place: gate, marked|patched|open|arrived|interrupted|announced (open: patched, and its gate was not closed), grace=5s, stuck, stuck=30s (then, if its containers are not restarted), no-resize, starting; doubtful; what it says: says=old/v2, says=new/v2
func (p *player) describe(input []string) (string, error) {
	for _, line := range input {
		words := strings.Fields(line)
		if err := p.line(words[0], words[1:]); err != nil {
			return "", fmt.Errorf("%q: %w", line, err)
		}
	}
	return "ok\n", nil
}

func (p *player) line(what string, words []string) (err error) {
	s := &p.w.State
	switch what {
	case "set":
		return p.set(words)
	case "revisions":
		s.Revisions = nil
		for i, name := range words {
			name, ago, created := strings.Cut(name, "=")
			r := Revision{Name: name, Number: int64(i + 1)}
			if created {
				var d time.Duration
				if d, err = time.ParseDuration(ago); err != nil {
					return err
				}
				r.Created = s.Now.Add(d)
			}
			s.Revisions = append(s.Revisions, r)
		}
		s.Set.Update = len(words) - 1
	case "broken":
		p.w.broken = p.revisions(words)
	case "crashing":
		p.w.crashing = p.revisions(words)
	case "stuck":
		p.w.stuck = words
	case "clinging":
		p.w.clinging = words
	case "hooked":
		p.w.Hooked = true
	case "in-place":
		err = p.inPlace(words)
	case "pass":
		var d time.Duration
		d, err = time.ParseDuration(words[0])
		s.Now = s.Now.Add(d)
	case "backoff":
		err = p.backoff(words)
	case "gate":
		err = p.gate(words)
	case "no-gate":
		s.Gate = nil
	case "node":
		err = p.node(words)
	default:
		var known bool
		if known, err = p.w.event(what, words); !known {
			err = fmt.Errorf("unknown line")
		}
	}
	return err
}

func (p *player) set(words []string) error {
	set := &p.w.State.Set
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "rolling":
			set.Strategy = RollingUpdate
		case "on-delete":
			set.Strategy = OnDelete
		case "max-unavailable":
			set.MaxUnavailable, err = quantity(value)
		case "max-surge":
			set.MaxSurge, err = quantity(value)
			set.MaxUnavailable = Quantity{}
		case "max-replacing":
			var q Quantity
			q, err = quantity(value)
			set.MaxReplacing = &q
		case "external":
			set.ExternalController = true
		case "announce", "quiet":
			set.Announce = key == "announce"
		case "skip", "count-all":
			set.Unreachable.Skip = key == "skip"
		case "blame":
			set.Unreachable.AttributionWindow, err = time.ParseDuration(value)
		case "eligible-only":
			set.EligibleOnly = true
		case "in-place", "standard":
			set.InPlace = key == "in-place"
		case "close-gate":
			set.CloseGate = true
		case "grace":
			set.Grace, err = time.ParseDuration(value)
		case "min-ready":
			set.MinReady, err = time.ParseDuration(value)
		case "burst":
			set.Burst, err = quantity(value)
		case "update":
			set.Update = p.revision(value)
		default:
			err = p.limit(key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *player) limit(key, value string) (err error) {
	l := &p.w.State.Set.Limits
	switch key {
	case "paused", "resumed":
		l.Paused = key == "paused"
	case "partition":
		l.Partition, err = quantity(value)
	case "selective", "everywhere":
		l.Selective = key == "selective"
	case "init-images":
		p.w.State.Set.InitImages = true
	case "images-in-place":
		p.w.State.Set.ImagesInPlace = true
	case "descending":
		l.Descending = true
	case "progressive":
		l.Progressive = true
	default:
		err = fmt.Errorf("unknown word %q", key)
	}
	return err
}

// inPlace says of the revisions that are named that their pods can be changed in place, of all others that they cannot.
func (p *player) inPlace(words []string) error {
	for i := range p.w.State.Revisions {
		p.w.State.Revisions[i].InPlace, p.w.State.Revisions[i].Why = false, NoDetail
	}
	for _, word := range words {
		name, why, _ := strings.Cut(word, "=")
		r := &p.w.State.Revisions[p.revision(name)]
		for d := range Detail(detailCount) {
			if d.String() == why {
				r.InPlace, r.Why = d == NoDetail, d
			}
		}
		if why == "resizing" {
			r.InPlace, r.Resize = true, true
		}
		if why == "init-images" {
			r.InPlace, r.InitImages = true, true
		}
		if why == "needs-agent" {
			r.InPlace, r.Restart, r.Agent = true, true, true
		}
		if !r.InPlace && r.Why == NoDetail {
			return fmt.Errorf("unknown detail %q", why)
		}
	}
	return nil
}

func quantity(text string) (Quantity, error) {
	number, percent := strings.CutSuffix(text, "%")
	value, err := strconv.Atoi(number)
	return Quantity{Value: value, Percent: percent}, err
}

// revision finds a revision by name; one that is not in the history is NoRevision.
func (p *player) revision(name string) int {
	return slices.IndexFunc(p.w.State.Revisions, func(r Revision) bool { return r.Name == name })
}

func (p *player) revisions(names []string) []int {
	var out []int
	for _, name := range names {
		out = append(out, p.revision(name))
	}
	return out
}

func (p *player) backoff(words []string) error {
	s := &p.w.State
	b := Backoff{Node: words[0]}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		d, err := time.ParseDuration(value)
		if err != nil {
			return err
		}
		if key == "delay" {
			b.Delay = d
		} else {
			b.Last = s.Now.Add(d)
		}
	}
	s.Memory.Update = s.Revisions[s.Set.Update].Name
	s.Memory.Backoffs = append(s.Memory.Backoffs, b)
	return nil
}

func (p *player) node(words []string) error {
	n := Node{Name: words[0], Ready: true, Last: NoRevision}
	for _, word := range words[1:] {
		if last, ok := strings.CutPrefix(word, "last="); ok {
			n.Last = p.revision(last)
			continue
		}
		if key, value, timed := strings.Cut(word, "="); timed && !strings.Contains(key, ":") {
			if err := p.moment(&n, key, value); err != nil {
				return err
			}
			continue
		}
		switch word {
		case "must":
			n.Fit = MustRun
		case "stay":
			n.Fit = MayStay
		case "leave":
			n.Fit = MustLeave
		case "unknown":
			n.Fit = NotKnown
		case "gone":
			n.Fit, n.Gone, n.Ready = MustLeave, true, false
		case "not-ready":
			n.Ready = false
		case "selected":
			n.Selected = true
		case "agent":
			n.Agent = true
		case "image-wait":
			n.ImageWait = true
		case "refused":
			n.Refusal = &Refusal{Message: "a policy"}
		case "blocked":
			n.Blocked = "the pod's name is taken"
		case "unanswered":
			n.Blocked, n.Unanswered = "it is not clear whether a create took effect", true
		default:
			pod, err := p.pod(&n, word)
			if err != nil {
				return err
			}
			n.Pods, n.Last = append(n.Pods, pod), pod.Revision
		}
	}
	s := &p.w.State
	i, found := slices.BinarySearchFunc(s.Nodes, n.Name, func(n Node, name string) int { return cmp.Compare(n.Name, name) })
	if found {
		s.Nodes[i] = n
	} else {
		s.Nodes = slices.Insert(s.Nodes, i, n)
	}
	return nil
}

// moment reads a time of a node as the distance from now.
func (p *player) moment(n *Node, key, value string) error {
	d, err := time.ParseDuration(value)
	switch key {
	case "image-wait":
		n.ImageWait, n.ImageUntil = true, p.w.State.Now.Add(d)
	case "refused":
		n.Refusal = &Refusal{Message: "a policy", RetryAt: p.w.State.Now.Add(d)}
	case "refused-patch":
		n.Refusal = &Refusal{Message: "a policy", RetryAt: p.w.State.Now.Add(d), Of: Patch}
	case "refused-delete":
		n.Refusal = &Refusal{Message: "a policy", RetryAt: p.w.State.Now.Add(d), Of: Delete}
	case "taken-back":
		n.Refusal = &Refusal{Message: "a policy", RetryAt: p.w.State.Now.Add(d), Of: Unmark}
	case "joined":
		n.Joined = p.w.State.Now.Add(d)
	case "up":
		n.Since = p.w.State.Now.Add(d)
	case "down":
		n.Ready, n.Since = false, p.w.State.Now.Add(d)
	default:
		err = fmt.Errorf("unknown word %q", key)
	}
	return err
}

// pod reads a pod: revision, colon, state and more, separated by commas.
func (p *player) pod(n *Node, word string) (Pod, error) {
	revision, rest, ok := strings.Cut(word, ":")
	if !ok {
		return Pod{}, fmt.Errorf("unknown word %q", word)
	}
	now := p.w.State.Now
	pod := Pod{Revision: p.revision(revision), Phase: Running, Scheduled: true, Name: fmt.Sprintf("%s-%d", n.Name, len(n.Pods)+1)}
	pod.Created = now.Add(-time.Hour).Add(time.Duration(len(n.Pods)) * time.Second)
	pod.ReadySince = pod.Created
	for part := range strings.SplitSeq(rest, ",") {
		key, value, timed := strings.Cut(part, "=")
		var d time.Duration
		if timed && key != "name" && key != "says" {
			var err error
			if d, err = time.ParseDuration(value); err != nil {
				return pod, err
			}
		}
		switch key {
		case "ready":
			pod.Ready = true
		case "unready":
		case "pending":
			pod.Phase = Pending
		case "failed":
			pod.Phase = Failed
		case "succeeded":
			pod.Phase = Succeeded
		case "deleting":
			pod.Deleting = true
		case "deleted":
			pod.Deleting, pod.DeletedAt = true, now.Add(d)
		case "unscheduled":
			pod.Scheduled = false
		case "armed":
			pod.Hook = HookArmed
		case "waiting":
			pod.Hook = HookWaiting
		case "released":
			pod.Hook = HookReleased
		case "gate":
			pod.Gate = true
		case "marked":
			pod.InPlace, pod.Gate = InPlaceMarked, true
		case "patched":
			pod.InPlace, pod.Gate = InPlacePatched, true
		case "open":
			pod.InPlace, pod.Open = InPlacePatched, true
		case "arrived":
			pod.InPlace, pod.Gate = InPlaceArrived, true
		case "interrupted":
			pod.InPlace, pod.Gate, pod.Interrupted = InPlaceArrived, true, true
		case "announced":
			pod.InPlace, pod.Gate = InPlaceAnnounced, true
		case "stuck":
			pod.Stuck = DetailInfeasible
			if value != "" { // the agent of the node has until then
				pod.Stuck, pod.StuckAt = DetailNotRestarted, now.Add(d)
			}
		case "evicted":
			pod.Evicted = true
		case "doubtful":
			pod.Doubtful = true
		case "no-resize":
			pod.NoResize = true
		case "starting":
			pod.Starting = true
		case "grace":
			pod.GraceUntil = now.Add(d)
		case "since":
			pod.ReadySince = now.Add(d)
		case "created":
			pod.Created = now.Add(d)
		case "says":
			state, revision, _ := strings.Cut(value, "/")
			pod.Announced = Announced{Said: true, Old: state == "old", Revision: int32(p.revision(revision))}
		case "name":
			pod.Name = value
		default:
			return pod, fmt.Errorf("unknown state %q", part)
		}
	}
	pod.UID = "uid-" + pod.Name
	return pod, nil
}
