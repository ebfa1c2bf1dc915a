// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"os"
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
	p.judge(time.Since(began), 2*longestGap) // it runs beside other tests
	p.judgeMutants()
}

// TestChaos plays faults for as long as it is told: in the first half of the time all of them, in the second half those by which no manager
// dies, so that there is one that has lived through many, and whose memory can be compared.
func TestChaos(t *testing.T) {
	const nodes, calm, most = 300, time.Minute, 1000
	span := time.Duration(*minutes) * time.Minute
	began := time.Now()
	t.Logf("seed %d, %s", *seed, span)
	p := newPlay(t, nodes)
	p.sample("at the beginning", calm)
	killers := schedule(*seed, most, killLeader, killStandby, killAPIServer, killEtcd, cutNodes, cutAndKill, killServerLeader)
	for i := 0; time.Since(began) < span/2 && i < len(killers); i++ {
		p.suffer(killers[i])
	}
	p.sample("in the middle", calm)
	gentle := schedule(*seed+1, most, killAPIServer, killEtcd, cutNodes)
	for i := 0; time.Since(began) < span-calm && i < len(gentle); i++ {
		p.suffer(gentle[i])
	}
	p.sample("at the end", calm)
	p.judge(time.Since(began), longestGap)
}

// judge judges the run, and leaves its figures.
func (p *play) judge(took, longest time.Duration) {
	p.t.Helper()
	if err := p.ledger.Finish(p.Context()); err != nil {
		p.t.Fatal(err)
	}
	r := result{Seed: *seed, Nodes: len(p.Nodes), Seconds: int(took.Seconds()), Faults: p.faults, Acts: p.acts, Samples: p.samples}
	r.Sets = p.judgeSets()
	p.judgeWrites(&r, longest)
	p.judgeGrowth()
	if p.t.Failed() {
		return
	}
	if err := r.write(); err != nil {
		p.t.Error(err)
	}
	p.t.Logf("\n%s", r.markdown())
}

// judgeSets judges what the ledger says of each set.
func (u *troupe) judgeSets() []setResult {
	u.t.Helper()
	var results []setResult
	for _, m := range u.members {
		seen := u.ledger.Judge(m.name, m.limit)
		if err := seen.Err(); err != nil {
			u.t.Errorf("set %s: %v", m.name, err)
		}
		u.t.Logf("%s: %s", m.name, seen.Summary())
		results = append(results, setResultOf(m.name, seen))
	}
	return results
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
func (p *play) judgeWrites(r *result, longest time.Duration) {
	p.t.Helper()
	writes := p.writes()
	rules := observe.WriteRules{Namespace: p.Name, Users: []string{"localplane:admin"}, Fence: executor.Fence, Deaths: p.deaths, Outages: p.outages}
	seen := observe.JudgeWrites(writes, rules)
	for _, violation := range seen.Violations {
		p.t.Error(violation)
	}
	rules.Deaths = p.alone
	for _, gap := range observe.JudgeWrites(writes, rules).Gaps {
		if r.Gaps = append(r.Gaps, gap.Seconds()); gap > longest {
			p.t.Errorf("there was no leader that works for %s, more than %s", gap, longest)
		}
	}
	if len(r.Gaps) < len(p.alone) {
		p.t.Errorf("%d leaders were killed, and only %d of them have a successor in the audit log", len(p.alone), len(r.Gaps))
	}
	r.Writes, r.Refused, r.Turns = seen.Counts, seen.Refused, seen.Turns
	if seen.Counts["delete pods"] == 0 || seen.Counts["create pods"] == 0 || seen.Counts["patch pods"] == 0 {
		p.t.Errorf("the audit log proves nothing: it has only these writes of managers: %v", seen.Counts)
	}
}

// judgeGrowth compares a manager with itself: goroutines that come with each fault would be many by now.
func (p *play) judgeGrowth() {
	p.t.Helper()
	const factor = 2
	for _, first := range p.samples {
		for _, last := range p.samples {
			if same := first.Manager == last.Manager && first.Started == last.Started && first.Leads == last.Leads; same && last.Goroutines > factor*first.Goroutines {
				p.t.Errorf("%s has %d goroutines %s, and had %d %s", last.Manager, last.Goroutines, last.When, first.Goroutines, first.When)
			}
		}
	}
}
