// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// player is an imaginary node: it carries out what Decide says, and lets happen what a script or a random walk says.
type player struct {
	snap Snapshot
	runs []Run
	// pulled counts, by key, the runs of that key that brought their image while the want was there, and of which Decide was told.
	pulled map[Key]int
	// failed counts, by key, the runs that failed.
	failed map[Key]int
}

func newPlayer() *player {
	return &player{
		snap:   Snapshot{Now: instant(0), Limits: Limits{Pulls: 2, FillPercent: 85}, Facts: Facts{Present: map[string]Image{}}},
		pulled: map[Key]int{}, failed: map[Key]int{},
	}
}

func instant(d time.Duration) time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(d) }

// snapshot is what Decide is given; nothing in it is shared with the player.
func (p *player) snapshot() Snapshot {
	s := p.snap
	s.Wants, s.Memory.States = slices.Clone(s.Wants), slices.Clone(s.Memory.States)
	s.Facts.Runs, s.Facts.Present = slices.Clone(p.runs), map[string]Image{}
	for ref, image := range p.snap.Facts.Present {
		s.Facts.Present[ref] = image
	}
	return s
}

// follow carries out a plan.
func (p *player) follow(plan Plan) {
	for _, r := range p.runs {
		if r.Result == Done && slices.ContainsFunc(plan.Memory.States, func(s State) bool { return s.Key == r.Key }) && p.knows(r) {
			p.pulled[r.Key]++
		}
		if r.Result == Failed && p.knows(r) {
			p.failed[r.Key]++
		}
	}
	p.runs = slices.DeleteFunc(p.runs, func(r Run) bool { return r.Result != Running })
	p.snap.Memory = plan.Memory
	for _, a := range plan.Actions {
		if a.Kind == Start {
			p.runs = append(p.runs, Run{Number: a.Run, Key: a.Key, Ref: a.Ref, Began: p.snap.Now, Until: a.Until})
			continue
		}
		for i := range p.runs {
			if p.runs[i].Number == a.Run {
				p.runs[i].Cancelled = a.Cause
			}
		}
	}
}

// knows is whether the run is remembered as that of its want.
func (p *player) knows(r Run) bool {
	return slices.ContainsFunc(p.snap.Memory.States, func(s State) bool { return s.Key == r.Key && s.Run == r.Number })
}

// end lets the run of a reference end.
func (p *player) end(ref string, result Result, text string) bool {
	for i := range p.runs {
		r := &p.runs[i]
		if r.Ref != ref || r.Result != Running {
			continue
		}
		r.Result, r.Text = result, text
		if result == Done {
			p.snap.Facts.Present[ref] = Image{ID: text}
		}
		return true
	}
	return false
}

// restart is the end of the agent and its next beginning: runs are gone, and of the memory only what a status holds is there.
func (p *player) restart() {
	p.runs = nil
	p.snap.Memory.LastRun = 0
	for i := range p.snap.Memory.States {
		s := &p.snap.Memory.States[i]
		*s = State{
			Key: s.Key, Phase: s.Phase, Progress: s.Progress, Message: s.Message, ImageID: s.ImageID,
			Started: s.Started.Truncate(time.Second), Completed: s.Completed.Truncate(time.Second),
		}
	}
}

// do is one line of a script.
func (p *player) do(line string) error {
	words := strings.Fields(line)
	rest := words[1:]
	text := strings.Join(rest[min(1, len(rest)):], " ")
	switch words[0] {
	case "at":
		d, err := time.ParseDuration(rest[0])
		p.snap.Now = instant(d)
		return err
	case "limits":
		_, err := fmt.Sscanf(line, "limits pulls=%d fill=%d%%", &p.snap.Limits.Pulls, &p.snap.Limits.FillPercent)
		return err
	case "want":
		w, err := parseWant(rest)
		p.snap.Wants = append(p.snap.Wants, w)
		return err
	case "unwant":
		w, err := parseWant(rest)
		p.snap.Wants = slices.DeleteFunc(p.snap.Wants, func(old Want) bool { return old.Key == w.Key })
		return err
	case "present":
		p.snap.Facts.Present[rest[0]] = Image{ID: text}
	case "down":
		p.snap.Facts.Down = strings.Join(rest, " ")
	case "up":
		p.snap.Facts.Down = ""
	case "restart":
		p.restart()
	case "anew": // nothing is remembered, but runs go on
		p.snap.Memory, p.pulled, p.failed = Memory{}, map[Key]int{}, map[Key]int{}
	case "vanish": // runs are gone, and nobody said so
		p.runs = nil
	case "full":
		percent, err := strconv.Atoi(strings.TrimSuffix(rest[0], "%"))
		p.snap.Facts.Fill = Fill{Known: true, Percent: percent}
		return err
	default:
		return p.doRun(words[0], rest[0], text)
	}
	return nil
}

// doRun is a line about the run of a reference.
func (p *player) doRun(verb, ref, text string) error {
	results := map[string]Result{"done": Done, "error": Failed, "lost": Lost}
	if result, ok := results[verb]; ok {
		if !p.end(ref, result, text) {
			return fmt.Errorf("nothing pulls %s", ref)
		}
		return nil
	}
	if verb != "progress" {
		return fmt.Errorf("unknown command %s", verb)
	}
	for i := range p.runs {
		if p.runs[i].Ref == ref {
			p.runs[i].Progress, _ = strconv.Atoi(text)
		}
	}
	return nil
}

// parseWant reads "IMAGE:TAG#VERSION [ref=…] [always] [timeout=…] [retries=…] [deadline=…] [asked=…] [invalid=…]".
func parseWant(words []string) (Want, error) {
	name, version, _ := strings.Cut(words[0], "#")
	image, tag, _ := strings.Cut(name, ":")
	n, err := strconv.ParseInt(version, 10, 64)
	w := Want{Key: Key{Image: image, Tag: tag, Version: n}, Ref: name, Retries: -1}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		var failed error
		switch key {
		case "always":
			w.Always = true
		case "ref":
			w.Ref = value
		case "invalid":
			w.Invalid = value
		case "timeout":
			w.Timeout, failed = time.ParseDuration(value)
		case "asked":
			var after time.Duration
			after, failed = time.ParseDuration(value)
			w.Asked = instant(after)
		case "deadline":
			w.Deadline, failed = time.ParseDuration(value)
		case "retries":
			w.Retries, failed = strconv.Atoi(value)
		default:
			failed = fmt.Errorf("unknown setting %s", key)
		}
		if failed != nil {
			return w, failed
		}
	}
	return w, err
}

func keyText(k Key) string { return fmt.Sprintf("%s:%s#%d", k.Image, k.Tag, k.Version) }

// since is a time as seconds since the beginning.
func since(t time.Time) string { return t.Sub(instant(0)).String() }

// describe is a plan for a person.
func describe(p Plan) string {
	var out strings.Builder
	for _, a := range p.Actions {
		if a.Kind == Start {
			fmt.Fprintf(&out, "start %d %s ref %s until %s\n", a.Run, keyText(a.Key), a.Ref, since(a.Until))
			continue
		}
		fmt.Fprintf(&out, "cancel %d %s: %s\n", a.Run, keyText(a.Key), a.Cause)
	}
	for _, s := range p.Memory.States {
		fmt.Fprintf(&out, "%s %s %d%% since %s", keyText(s.Key), s.Phase, s.Progress, since(s.Started))
		for _, part := range []struct {
			show bool
			text string
		}{
			{!s.Completed.IsZero(), " done " + since(s.Completed)},
			{s.ImageID != "", " id " + s.ImageID},
			{s.Run != 0, fmt.Sprintf(" run %d", s.Run)},
			{!s.NotBefore.IsZero(), " not before " + since(s.NotBefore)},
			{s.Message != "", ": " + s.Message},
		} {
			if part.show {
				out.WriteString(part.text)
			}
		}
		out.WriteString("\n")
	}
	if !p.Wake.IsZero() {
		fmt.Fprintf(&out, "wake %s\n", since(p.Wake))
	}
	return out.String()
}
