// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/test/observe"
)

// longestGap is how long there may be no leader that works, after the leader was killed: a lease of 10 s, a try every 2 s, and 5 s until
// nothing of the last one can take effect any more.
const longestGap = 20 * time.Second

// TestSmokeChaos plays a few faults.
func TestSmokeChaos(t *testing.T) {
	const nodes, rounds, calm = 60, 1, 3 * time.Second
	p := newPlay(t, nodes)
	began := time.Now()
	p.sample("before", calm)
	for _, f := range schedule(*seed, rounds, killLeader, killAPIServer, killEtcd) {
		p.suffer(f)
	}
	p.sample("after", calm)
	p.judge(time.Since(began), 2*longestGap) // it runs next to other tests
	p.judgeGrowth(false)
	p.judgeMutants(2 * longestGap)
}

// TestChaos plays faults for as long as the flag says: in the first half of the time all of them, in the second half those by which no manager
// dies, so that there is one that has lived through many, and whose memory can be compared.
func TestChaos(t *testing.T) {
	const nodes, calm, most = 300, time.Minute, 1000
	span := time.Duration(*minutes) * time.Minute
	began := time.Now()
	t.Logf("seed %d, %s", *seed, span)
	p := newPlay(t, nodes)
	p.sample("at the beginning", calm)
	kinds := append(neighbours(), killLeader, killStandby, killAPIServer, killEtcd, cutNodes, cutAndKill, killServerLeader, freezeLeader, deleteLease)
	killers := schedule(*seed, most, kinds...)
	for i := 0; time.Since(began) < span/2 && i < len(killers); i++ {
		p.suffer(killers[i])
	}
	p.standStill()
	p.sample("in the middle", calm)
	gentle, i := schedule(*seed+1, most, killAPIServer, killEtcd, cutNodes), 0
	suffer := func(d time.Duration) {
		for until := time.Now().Add(d); time.Now().Before(until) && i < len(gentle); i++ {
			p.suffer(gentle[i])
		}
	}
	suffer(time.Until(began.Add(span - calm)))
	p.sample("at the end", calm)
	// A leader that cannot renew its lease, because the API server is away for too long, ends itself. Then there is another one to be compared.
	for again := 1; again <= 3 && !leaderCompared(p.samples); again++ {
		suffer(3 * calm)
		p.sample(fmt.Sprintf("later (%d)", again), calm)
	}
	r := p.judge(time.Since(began), longestGap)
	p.judgeGrowth(true)
	p.judgeMutants(longestGap)
	if t.Failed() {
		return
	}
	if err := r.write(); err != nil {
		t.Error(err)
	}
}

// TestTwoLeaders: managers that do not know yet that they lead no more, because they were frozen, or because their lease is gone, write nothing
// next to the one that leads.
func TestTwoLeaders(t *testing.T) {
	const nodes, rounds = 60, 3
	p := newPlay(t, nodes)
	began := time.Now()
	for _, f := range schedule(*seed, rounds, freezeLeader, deleteLease) {
		p.suffer(f)
	}
	p.settle("all updates end")
	p.rest(quiet)
	p.judge(time.Since(began), 2*longestGap)
}

// TestStandStill: while sets of all dialects rest in the middle of something, their status says what is there.
func TestStandStill(t *testing.T) {
	const nodes = 60
	p := newPlay(t, nodes)
	began := time.Now()
	p.standStill()
	p.rest(quiet)
	p.judge(time.Since(began), longestGap)
	p.judgeLogMutants()
}

// judge judges the run, and returns its figures.
func (p *play) judge(took, longest time.Duration) result {
	p.t.Helper()
	if err := p.ledger.Finish(p.Context()); err != nil {
		p.t.Fatal(err)
	}
	r := result{Seed: *seed, Nodes: len(p.Nodes), Seconds: int(took.Seconds()), Faults: p.faults, Acts: p.acts, Samples: p.samples, Rests: p.rests}
	var complaints []string
	p.ledger.Received(observe.Deletes(p.writes()))
	p.ledger.Died(p.outages...)
	r.Sets, complaints = p.judgeSets()
	complaints = append(complaints, p.judgeWrites(&r, longest)...)
	if p.acts[hookReleased] == 0 {
		complaints = append(complaints, "no pod has waited for its hook, so nothing is known of hooks")
	}
	p.t.Logf("\n%s", r.markdown())
	for _, complaint := range complaints { // last, where they are not lost above tables
		p.t.Error(complaint)
	}
	return r
}

// judgeSets judges what the ledger says of each set.
func (u *troupe) judgeSets() (results []setResult, complaints []string) {
	u.t.Helper()
	for _, m := range u.members {
		seen := u.ledger.Judge(m.name, m.limit)
		if err := seen.Err(); err != nil {
			complaints = append(complaints, fmt.Sprintf("set %s: %v", m.name, err))
		}
		if seen.Rests != u.rests || u.rests == 0 {
			complaints = append(complaints, fmt.Sprintf("set %s: its status was counted %d times, and there were %d moments of rest", m.name, seen.Rests, u.rests))
		}
		u.t.Logf("%s: %s", m.name, seen.Summary())
		results = append(results, setResultOf(m.name, seen))
	}
	return results, complaints
}

// writes are those that the audit log has.
func (u *troupe) writes() []observe.Write {
	u.t.Helper()
	log, err := os.Open(u.Cluster.Plane.AuditLog())
	if err != nil {
		u.t.Fatal(err)
	}
	defer log.Close()
	writes, err := observe.ReadAudit(log)
	if err != nil {
		u.t.Fatal(err)
	}
	return writes
}

// judgeWrites judges the audit log.
func (p *play) judgeWrites(r *result, longest time.Duration) []string {
	p.t.Helper()
	writes, rules := p.writes(), p.writeRules()
	seen := observe.JudgeWrites(writes, rules)
	seconds, late := gaps(writes, rules, p.alone, longest)
	complaints := append(seen.Violations, late...)
	r.Writes, r.Refused, r.Turns, r.Unlogged, r.Gaps = seen.Counts, seen.Refused, seen.Turns, seen.Unlogged, seconds
	if seen.Counts["delete pods"] == 0 || seen.Counts["create pods"] == 0 || seen.Counts["patch pods"] == 0 {
		complaints = append(complaints, fmt.Sprintf("the audit log proves nothing: it has only these writes of managers: %v", seen.Counts))
	}
	return complaints
}

// writeRules say what is judged of the audit log.
func (p *play) writeRules() observe.WriteRules {
	return observe.WriteRules{
		Namespace: p.Name, Users: []string{"localplane:admin"}, Fence: executor.Fence, Deaths: p.deaths, Outages: p.outages, Endings: p.ledger.Endings(),
		Collecting: p.collecting,
	}
}

// gaps are how many seconds there was no leader that works, after each of these deaths of one.
func gaps(writes []observe.Write, rules observe.WriteRules, deaths []observe.Death, longest time.Duration) (seconds []float64, complaints []string) {
	rules.Deaths, rules.Endings = deaths, nil
	for _, gap := range observe.JudgeWrites(writes, rules).Gaps {
		if seconds = append(seconds, gap.Seconds()); gap > longest {
			complaints = append(complaints, fmt.Sprintf("there was no leader that works for %s, more than %s", gap, longest))
		}
	}
	if len(seconds) < len(deaths) {
		complaints = append(complaints, fmt.Sprintf("%d leaders were killed, and only %d of them have a successor in the audit log", len(deaths), len(seconds)))
	}
	return seconds, complaints
}

// judgeGrowth compares a manager with itself, both times calm: goroutines and memory that come with each fault would be much by now. One that has
// died meanwhile shows nothing, so in half of the time none dies by a fault.
func (p *play) judgeGrowth(needed bool) {
	p.t.Helper()
	for _, complaint := range growth(p.samples, needed) {
		p.t.Error(complaint)
	}
	if needed && len(growth(swollen(p.samples), needed)) == 0 {
		p.t.Error("twice as many goroutines in the end: that is not detected")
	}
}

// swollen are samples of which the last ones have twice as many goroutines as there ever were.
func swollen(samples []sample) []sample {
	samples = slices.Clone(samples)
	end, most := samples[len(samples)-1].When, 0
	for _, s := range samples {
		most = max(most, s.Goroutines)
	}
	for i := range samples {
		if samples[i].When == end {
			samples[i].Goroutines = 2 * most
		}
	}
	return samples
}

func growth(samples []sample, needed bool) (complaints []string) {
	const factor, slack = 1.5, 32 << 20
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	for i, first := range samples {
		for _, last := range samples[i+1:] {
			if !first.comparable(last) {
				continue
			}
			if float64(last.Goroutines) > factor*float64(first.Goroutines) {
				complain("%s has %d goroutines %s, and had %d %s", last.Manager, last.Goroutines, last.When, first.Goroutines, first.When)
			}
			if float64(last.Heap) > factor*float64(first.Heap)+slack {
				complain("%s has %d bytes in use %s, and had %d %s", last.Manager, last.Heap, last.When, first.Heap, first.When)
			}
		}
	}
	if needed && !leaderCompared(samples) {
		complain("no leader has lived long enough to be compared with itself: %+v", samples)
	}
	return complaints
}

// comparable reports whether two samples are of one process in one role.
func (s sample) comparable(other sample) bool {
	return s.Manager == other.Manager && s.Started == other.Started && s.Leads == other.Leads
}

// leaderCompared reports whether a leader can be compared with itself.
func leaderCompared(samples []sample) bool {
	for i, first := range samples {
		if first.Leads && slices.ContainsFunc(samples[i+1:], first.comparable) {
			return true
		}
	}
	return false
}

// TestGrowth: what grows is reported, and so is that no process can be compared.
func TestGrowth(t *testing.T) {
	first := sample{When: "first", Manager: "m", Leads: true, Started: 7, Goroutines: 100, Heap: 20 << 20}
	with := func(change func(*sample)) []sample {
		last := first
		last.When = "last"
		change(&last)
		return []sample{first, last}
	}
	for name, c := range map[string]struct {
		samples  []sample
		needed   bool
		complain string
	}{
		"the same":                   {samples: with(func(*sample) {}), needed: true},
		"a little more":              {samples: with(func(s *sample) { s.Goroutines, s.Heap = 150, 62<<20 }), needed: true},
		"goroutines":                 {samples: with(func(s *sample) { s.Goroutines = 151 }), needed: true, complain: "151 goroutines"},
		"memory":                     {samples: with(func(s *sample) { s.Heap = 63 << 20 }), needed: true, complain: "bytes in use"},
		"another process":            {samples: with(func(s *sample) { s.Started, s.Goroutines = 8, 900 }), needed: true, complain: "no leader"},
		"it does not lead now":       {samples: with(func(s *sample) { s.Leads = false }), needed: true, complain: "no leader"},
		"swollen":                    {samples: swollen(with(func(*sample) {})), needed: true, complain: "200 goroutines"},
		"one sample":                 {samples: []sample{first}, needed: true, complain: "no leader"},
		"no process needs to be old": {samples: []sample{first}},
	} {
		complaints := strings.Join(growth(c.samples, c.needed), "; ")
		if (complaints == "") != (c.complain == "") || !strings.Contains(complaints, c.complain) {
			t.Errorf("%s: %q, want %q", name, complaints, c.complain)
		}
	}
}
